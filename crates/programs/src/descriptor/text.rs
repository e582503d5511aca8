//! Where the bytes of a TOML string stand in its file: a string is decoded by the parser, which
//! forgets places, so the escapes are walked once more (TOML 1.1, section String).

use std::ops::Range;

use crate::template::words::LocatedWord;

/// A string of the file.
#[derive(Clone, Debug)]
pub struct SpannedText {
    /// What it says.
    pub value: String,
    /// Where it stands, quotes included.
    pub span: Range<usize>,
}

impl SpannedText {
    /// The place of every byte; of all of them the whole string's if the walk should fail.
    pub(super) fn placed(&self, source: &str) -> LocatedWord {
        let walked = walk(&source[self.span.clone()]).filter(|placed| placed.text == self.value);
        let mut placed = walked.unwrap_or_else(|| LocatedWord {
            text: self.value.clone(),
            offsets: vec![0; self.value.len() + 1],
        });
        for offset in &mut placed.offsets {
            *offset += self.span.start;
        }
        placed
    }
}

/// Decodes a quoted string.
fn walk(raw: &str) -> Option<LocatedWord> {
    let quote = raw.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let long = raw.len() >= 6 && raw.as_bytes()[..3].iter().all(|byte| *byte == quote as u8);
    let width = if long { 3 } else { 1 };
    let end = raw.len().checked_sub(width)?;
    let mut start = width;
    if long {
        start += match &raw[start..] {
            rest if rest.starts_with("\r\n") => 2,
            rest if rest.starts_with('\n') => 1,
            _ => 0,
        };
    }
    let body = raw.get(start..end)?;
    let mut placed = LocatedWord::default();
    let mut rest = body.char_indices().peekable();
    while let Some((offset, c)) = rest.next() {
        let offset = start + offset;
        if c != '\\' || quote == '\'' {
            placed.text.push(c);
            placed.offsets.extend(offset..offset + c.len_utf8());
            continue;
        }
        let (_, escape) = rest.next()?;
        if matches!(escape, ' ' | '\t' | '\r' | '\n') {
            while rest.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
            continue;
        }
        let decoded = match escape {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            'e' => '\u{1b}',
            '"' => '"',
            '\\' => '\\',
            'x' => code_point(&mut rest, 2)?,
            'u' => code_point(&mut rest, 4)?,
            'U' => code_point(&mut rest, 8)?,
            _ => return None,
        };
        placed.text.push(decoded);
        placed.offsets.extend(std::iter::repeat_n(offset, decoded.len_utf8()));
    }
    placed.offsets.push(end);
    Some(placed)
}

fn code_point(rest: &mut impl Iterator<Item = (usize, char)>, digits: usize) -> Option<char> {
    let hexadecimal: String = rest.take(digits).map(|(_, c)| c).collect();
    char::from_u32(u32::from_str_radix(&hexadecimal, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_string_is_decoded_with_its_places() {
        for (raw, text, offsets) in [
            (r#""a\tb""#, "a\tb", vec![1, 2, 4, 5]),
            (r"'a\tb'", r"a\tb", vec![1, 2, 3, 4, 5]),
            (r#""\u00e9x""#, "\u{e9}x", vec![1, 1, 7, 8]),
            ("\"\"\"\nab\"\"\"", "ab", vec![4, 5, 6]),
            ("\"\"\"a\\\n  b\"\"\"", "ab", vec![3, 8, 9]),
            ("'''\n'a'''", "'a", vec![4, 5, 6]),
            ("\"\"", "", vec![1]),
        ] {
            let table = format!("k = {raw}");
            let parsed = toml::de::DeTable::parse(&table).unwrap();
            let value = parsed.get_ref().values().next().unwrap().get_ref().as_str().unwrap();
            assert_eq!(value, text, "the parser itself on {raw}");
            assert_eq!(walk(raw), Some(LocatedWord { text: text.to_owned(), offsets }), "{raw}");
        }
    }
}
