//! Texts with parameter references (`$(inputs.x.path)`; CommandLineTool, section 4.2.1). JavaScript is a
//! program of its own, and is never run: a text with anything else in it cannot be said.

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextPart {
    /// As it stands.
    Text(String),
    /// What this input is.
    Input(String, Member),
    /// What is being bound: `$(self)`.
    Itself(Member),
    /// `$(runtime.outdir)`: where the program runs.
    WorkingDirectory,
    /// `$(runtime.cores)`: how many processors it may use.
    Cores,
}

/// What of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// `$(inputs.x)`.
    Whole,
    /// `.path`, `.basename` of a file: in the workspace they are the same.
    Name,
    /// `.nameroot`.
    Root,
    /// `.nameext`.
    Extension,
}

/// The pieces of a text; the expression that cannot be said, if there is one.
pub(super) fn parts(text: &str) -> Result<Vec<TextPart>, String> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(['$', '\\']) {
        plain.push_str(&rest[..at]);
        let after = &rest[at..];
        if let Some(escaped) = after.strip_prefix("\\$(").or_else(|| after.strip_prefix("\\${")) {
            plain.push_str(&after[1..3]);
            rest = escaped;
        } else if after.starts_with("${") {
            return Err(shown(after));
        } else if let Some(inner) = after.strip_prefix("$(") {
            let end = inner.find(')').ok_or_else(|| shown(after))?;
            if !plain.is_empty() {
                parts.push(TextPart::Text(std::mem::take(&mut plain)));
            }
            parts.push(reference(&inner[..end]).ok_or_else(|| shown(after))?);
            rest = &inner[end + 1..];
        } else {
            plain.push_str(&after[..1]);
            rest = &after[1..];
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TextPart::Text(plain));
    }
    Ok(parts)
}

/// What a reference refers to.
fn reference(inner: &str) -> Option<TextPart> {
    let is_plain = inner.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if !is_plain {
        return None;
    }
    let mut steps = inner.split('.');
    let (first, rest): (_, Vec<&str>) = (steps.next()?, steps.collect());
    match (first, &rest[..]) {
        ("inputs", [name]) => Some(TextPart::Input((*name).to_owned(), Member::Whole)),
        ("inputs", [name, of]) => Some(TextPart::Input((*name).to_owned(), member(of)?)),
        ("self", []) => Some(TextPart::Itself(Member::Whole)),
        ("self", [of]) => Some(TextPart::Itself(member(of)?)),
        ("runtime", ["outdir"]) => Some(TextPart::WorkingDirectory),
        ("runtime", ["cores"]) => Some(TextPart::Cores),
        _ => None,
    }
}

fn member(name: &str) -> Option<Member> {
    Some(match name {
        "path" | "basename" => Member::Name,
        "nameroot" => Member::Root,
        "nameext" => Member::Extension,
        _ => return None,
    })
}

fn shown(expression: &str) -> String {
    let short: String = expression.chars().take(60).collect();
    format!("the expression `{}` is not run", crate::field::one_line(&short))
}

/// A text without references; `None` if it has some.
pub(super) fn literal(text: &str) -> Option<String> {
    match &parts(text).ok()?[..] {
        [] => Some(String::new()),
        [TextPart::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_taken_and_expressions_named() {
        let input = |name: &str, of| TextPart::Input(name.to_owned(), of);
        let text = |text: &str| TextPart::Text(text.to_owned());
        assert_eq!(
            parts("a$(inputs.x).$(inputs.f.basename)"),
            Ok(vec![text("a"), input("x", Member::Whole), text("."), input("f", Member::Name)])
        );
        assert_eq!(parts("$(self.nameroot)"), Ok(vec![TextPart::Itself(Member::Root)]));
        assert_eq!(parts("$(runtime.outdir)"), Ok(vec![TextPart::WorkingDirectory]));
        assert_eq!(parts("5$ \\$(x)"), Ok(vec![text("5$ $(x)")]));
        for expression in ["${return 1;}", "$(1+1)", "$(inputs.a[0])", "$(runtime.ram)", "$(x"] {
            assert!(parts(expression).unwrap_err().contains(expression), "{expression}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_pieces_or_an_expression(text in "[\\\\$(){}a.inputs]{0,24}|\\PC{0,12}") {
            let _ = parts(&text);
        }
    }
}
