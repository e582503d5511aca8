//! Words in braces, and what they are filled with.

use std::collections::BTreeMap;

use fishplate_contract::lexical::closest;
use memchr::memchr;

/// A word in braces that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{{{word}}} is none of the words that can be filled here ({}){}; write {{{{{word}}} for the word itself",
    known.iter().map(|known| format!("{{{known}}}")).collect::<Vec<_>>().join(", "),
    closest.as_ref().map(|closest| format!("; did you mean {{{closest}}}?")).unwrap_or_default()
)]
pub struct UnknownWord {
    /// What stands in the braces.
    pub word: String,
    /// What can stand there.
    pub known: Vec<String>,
    /// What is most like it.
    pub closest: Option<String>,
}

impl UnknownWord {
    pub(crate) fn new<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> Self {
        Self {
            word: word.to_owned(),
            closest: closest(word, known.clone()).map(str::to_owned),
            known: known.map(str::to_owned).collect(),
        }
    }
}

/// A text with its words in braces replaced.
///
/// # Errors
/// A word that `values` does not have.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, UnknownWord> {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text.as_bytes()) {
        match piece {
            // Pieces are cut at braces, which are letters of their own in UTF-8.
            TextPiece::Literal(text) => filled.push_str(&String::from_utf8_lossy(text)),
            TextPiece::Word(word) => match values.get(word) {
                Some(value) => filled.push_str(value),
                None => return Err(UnknownWord::new(word, values.keys().map(String::as_str))),
            },
        }
    }
    Ok(filled)
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPiece<'t> {
    /// To the letter.
    Literal(&'t [u8]),
    /// What stands in braces.
    Word(&'t str),
}

/// A text, cut at its words.
pub(crate) fn pieces(text: &[u8]) -> Vec<TextPiece<'_>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(brace) = memchr(b'{', &text[at..]) {
        let open = at + brace;
        let Some(word) = word(&text[open + 1..]) else {
            at = open + 1;
            continue;
        };
        at = open + word.len() + 2;
        // The first of two braces stays, and what follows is no word.
        let doubled = open > from && text[open - 1] == b'{';
        if open > from {
            pieces.push(TextPiece::Literal(&text[from..open]));
        }
        if doubled {
            from = open + 1;
        } else {
            pieces.push(TextPiece::Word(word));
            from = at;
        }
    }
    if from < text.len() {
        pieces.push(TextPiece::Literal(&text[from..]));
    }
    pieces
}

/// The word that begins after a brace: a name, and after a colon anything without braces.
fn word(after: &[u8]) -> Option<&str> {
    let end = after.iter().position(|byte| matches!(byte, b'{' | b'}' | b'\n'))?;
    if after[end] != b'}' {
        return None;
    }
    let word = std::str::from_utf8(&after[..end]).ok()?;
    is_name(word.split_once(':').map_or(word, |(name, _)| name)).then_some(word)
}

/// Whether this can be the name of a word: a small letter, then small letters, digits, `_`, `-` and full stops.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> BTreeMap<String, String> {
        [("port", "8080"), ("heap", "64m"), ("port:db", "5432")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn words_are_filled_and_other_braces_stay() {
        for (text, filled) in [
            ("-Xmx{heap}", "-Xmx64m"),
            ("{port}{port:db}", "80805432"),
            ("awk '{print $1}' {}", "awk '{print $1}' {}"),
            ("{\"a\":{\"b\":{}}}", "{\"a\":{\"b\":{}}}"),
            ("{{port} is {port}", "{port} is 8080"),
            ("{{{port}", "{{port}"),
            ("${HOME} {Port} {", "${HOME} {Port} {"),
        ] {
            assert_eq!(fill(text, &values()).as_deref(), Ok(filled), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_none_is_told_with_the_closest() {
        let error = fill("{prot}", &values()).expect_err("no such word");
        assert_eq!(error.closest.as_deref(), Some("port"));
        let told = error.to_string();
        assert!(told.contains("{prot} is none of") && told.contains("{{prot} for"), "{told}");
    }

    proptest! {
        #[test]
        fn text_without_words_is_left_as_it_is(text in "[^{]{0,20}|(\\{ ?[A-Z}]){0,5}") {
            prop_assert_eq!(fill(&text, &BTreeMap::new()), Ok(text));
        }

        #[test]
        fn no_byte_is_lost_at_a_cut(text in prop::collection::vec(prop::sample::select(b"{}ab:\n".to_vec()), 0..30)) {
            let length: usize = pieces(&text).iter().map(|piece| match piece {
                TextPiece::Literal(text) => text.len(),
                TextPiece::Word(word) => word.len() + 2,
            }).sum();
            prop_assert!(length <= text.len());
            // Only the second of two braces before a word goes.
            prop_assert!(text.windows(2).filter(|two| two == b"{{").count() >= text.len() - length);
        }
    }
}
