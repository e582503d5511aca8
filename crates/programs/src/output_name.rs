//! Outputs that are named after an input's value: `path = "{prefix}_mask.nii"`. `{NAME}` is the value
//! of an input; braces around anything else are text, or of a glob (`{a,b}`).

use crate::template::is_name;

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePart<'n> {
    /// As it stands.
    Text(&'n str),
    /// The value of this input.
    Input(&'n str),
}

/// The pieces of a name, from left to right.
pub(crate) fn parts(name: &str) -> Vec<NamePart<'_>> {
    let (mut parts, mut start, mut from) = (Vec::new(), 0, 0);
    while let Some(open) = name[from..].find('{').map(|at| from + at) {
        let inner = name[open + 1..].find(['{', '}']).map(|at| open + 1 + at);
        match inner.filter(|end| name.as_bytes()[*end] == b'}') {
            Some(close) if is_name(&name[open + 1..close]) => {
                if start < open {
                    parts.push(NamePart::Text(&name[start..open]));
                }
                parts.push(NamePart::Input(&name[open + 1..close]));
                (start, from) = (close + 1, close + 1);
            }
            _ => from = open + 1,
        }
    }
    if start < name.len() {
        parts.push(NamePart::Text(&name[start..]));
    }
    parts
}

/// The inputs whose values stand in a name.
pub(crate) fn references(name: &str) -> impl Iterator<Item = &str> {
    parts(name).into_iter().filter_map(|part| match part {
        NamePart::Input(name) => Some(name),
        NamePart::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::NamePart::{Input, Text};
    use super::*;

    #[test]
    fn braces_around_a_name_are_an_input_and_others_text() {
        assert_eq!(parts("{a}_x{b.c}"), [Input("a"), Text("_x"), Input("b.c")]);
        assert_eq!(parts("{a,b}{{c}}{"), [Text("{a,b}{"), Input("c"), Text("}{")]);
        assert_eq!(parts("{}{1}"), [Text("{}{1}")]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(name in "[{}a,1/]{0,12}|\\PC{0,8}") {
            let again: String = parts(&name)
                .into_iter()
                .map(|part| match part {
                    Text(text) => text.to_owned(),
                    Input(name) => format!("{{{name}}}"),
                })
                .collect();
            prop_assert_eq!(again, name);
        }
    }
}
