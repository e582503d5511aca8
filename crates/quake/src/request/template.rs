//! Bodies with words in braces, filled for each request.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::outgoing::Outgoing;
use crate::experiment::UnknownWord;
use crate::experiment::words::{TextPiece, pieces};
use crate::random::Random;

/// A body in pieces, the files it names included.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Piece {
    /// These bytes.
    Literal(#[serde(with = "literal")] Bytes),
    /// `{request}`: the number of the request.
    Request,
    /// `{client}`: the number of the client.
    Client,
    /// `{random:LOW..HIGH}`: a whole number.
    Random(i64, i64),
    /// `{real:LOW..HIGH}`: a number.
    Real(f64, f64),
    /// `{flag}`: `true` or `false`.
    Flag,
    /// `{text:LENGTH}`: letters and digits.
    Text(usize),
    /// `{base64:LENGTH}`: so many random bytes, as base64.
    Base64(usize),
    /// `{bytes:LENGTH}`: so many random bytes.
    Bytes(usize),
    /// `{choice:A|B}`, `{line:PATH}`: one of these.
    Choice(Vec<String>),
}

/// Whose request it is, and which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestId {
    pub(crate) request: u64,
    pub(crate) client: u32,
}

/// The words of templates, as they are written.
const WORDS: [&str; 10] = [
    "request",
    "client",
    "random:LOW..HIGH",
    "real:LOW..HIGH",
    "flag",
    "text:LENGTH",
    "base64:LENGTH",
    "choice:A|B",
    "line:PATH",
    "file:PATH",
];

/// The most that one word is filled with: 1 GiB.
const LONGEST: usize = 1 << 30;

/// What is wrong with a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A word that is none.
    #[error(transparent)]
    Unknown(#[from] UnknownWord),
    /// A word that is not written as it should be.
    #[error("{{{word}}} can't be filled: write {{{right}}}, {meaning}")]
    Malformed {
        /// What stands in the braces.
        word: String,
        /// How it is written.
        right: &'static str,
        /// What is asked of it.
        meaning: &'static str,
    },
    /// A file of `{file:}` or `{line:}`.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Template {
    /// The template that is written in `text`; `values` are further words, paths begin at `here`.
    ///
    /// # Errors
    /// A word that is none, or a file that can't be read.
    pub fn parse(
        text: &[u8],
        values: &BTreeMap<String, String>,
        here: &Path,
    ) -> Result<Self, TemplateError> {
        let mut template = Self::default();
        for piece in pieces(text) {
            template.push(match piece {
                TextPiece::Literal(text) => Piece::Literal(Bytes::copy_from_slice(text)),
                TextPiece::Word(word) => match values.get(word) {
                    Some(value) => Piece::Literal(Bytes::copy_from_slice(value.as_bytes())),
                    None => Piece::parse(word, here)?.ok_or_else(|| {
                        let values = values.keys().map(String::as_str);
                        UnknownWord::new(word, WORDS.into_iter().chain(values))
                    })?,
                },
            });
        }
        Ok(template)
    }

    /// These bytes, without words.
    pub fn literal(bytes: impl Into<Bytes>) -> Self {
        let mut template = Self::default();
        template.push_literal(bytes.into());
        template
    }

    pub(super) fn push_literal(&mut self, bytes: Bytes) {
        self.push(Piece::Literal(bytes));
    }

    /// So many random bytes in each request.
    pub(super) fn push_random_bytes(&mut self, length: usize) {
        self.push(Piece::Bytes(length));
    }

    /// The same as base64, if it is random bytes alone.
    pub(super) fn in_base64(&self) -> Option<Self> {
        match self.0[..] {
            [Piece::Bytes(length)] => Some(Self(vec![Piece::Base64(length)])),
            _ => None,
        }
    }

    fn push(&mut self, piece: Piece) {
        if let (Some(Piece::Literal(last)), Piece::Literal(next)) = (self.0.last_mut(), &piece) {
            *last = [&last[..], next].concat().into();
        } else {
            self.0.push(piece);
        }
    }

    /// All of another one after it.
    pub(super) fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|piece| self.push(piece));
    }

    /// Whether every request is the same.
    pub(crate) fn is_constant(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Literal(_)))
    }

    /// Whether only the request's and the client's numbers change: an expectation has nothing else.
    pub(crate) fn is_numbered(&self) -> bool {
        let numbered =
            |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::Request | Piece::Client);
        self.0.iter().all(numbered)
    }

    /// Fills it.
    pub(crate) fn fill(&self, id: RequestId, random: &mut Random, to: &mut Outgoing) {
        for piece in &self.0 {
            piece.fill(id, random, to);
        }
    }

    /// Fills one that [is numbered](Self::is_numbered).
    pub(crate) fn text(&self, id: RequestId) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(bytes) => text.extend_from_slice(bytes),
                Piece::Request => push_number(id.request, &mut text),
                Piece::Client => push_number(id.client, &mut text),
                _ => {}
            }
        }
        text
    }
}

fn push_number(number: impl itoa::Integer, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

impl Piece {
    /// `None`: there is no such word.
    fn parse(word: &str, here: &Path) -> Result<Option<Self>, TemplateError> {
        let (name, rest) = match word.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (word, None),
        };
        let malformed =
            |right, meaning| TemplateError::Malformed { word: word.to_owned(), right, meaning };
        let length = |right| {
            let length = rest.and_then(|rest| rest.parse().ok());
            length
                .filter(|length| *length <= LONGEST)
                .ok_or_else(|| malformed(right, "a whole number up to 1073741824"))
        };
        Ok(Some(match (name, rest) {
            ("request", None) => Self::Request,
            ("client", None) => Self::Client,
            ("flag", None) => Self::Flag,
            ("random", rest) => {
                let meaning = "two whole numbers, the first not above the second";
                let (low, high) =
                    range(rest).ok_or_else(|| malformed("random:LOW..HIGH", meaning))?;
                Self::Random(low, high)
            }
            ("real", rest) => {
                let meaning = "two numbers, the first not above the second";
                let found = range(rest).filter(|(low, high): &(f64, f64)| {
                    low.is_finite() && high.is_finite() && (high - low).is_finite()
                });
                let (low, high) = found.ok_or_else(|| malformed("real:LOW..HIGH", meaning))?;
                Self::Real(low, high)
            }
            ("text", _) => Self::Text(length("text:LENGTH")?),
            ("base64", _) => Self::Base64(length("base64:LENGTH")?),
            ("choice", Some(choices)) => {
                Self::Choice(choices.split('|').map(str::to_owned).collect())
            }
            ("line", Some(path)) => {
                let text = String::from_utf8_lossy(&read(here, path)?).into_owned();
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                if lines.is_empty() {
                    return Err(malformed("line:PATH", "a file that is not empty"));
                }
                Self::Choice(lines)
            }
            ("file", Some(path)) => Self::Literal(read(here, path)?.into()),
            _ => return Ok(None),
        }))
    }

    fn fill(&self, id: RequestId, random: &mut Random, to: &mut Outgoing) {
        match self {
            Self::Literal(bytes) => to.push(bytes),
            Self::Request => push_number(id.request, to.own()),
            Self::Client => push_number(id.client, to.own()),
            Self::Random(low, high) => push_number(random.whole(*low, *high), to.own()),
            Self::Real(low, high) => {
                let number = low + (high - low) * random.part();
                to.own().extend_from_slice(number.to_string().as_bytes());
            }
            Self::Flag => {
                let flag: &[u8] = if random.part() < 0.5 { b"false" } else { b"true" };
                to.own().extend_from_slice(flag);
            }
            Self::Text(length) => {
                let to = to.own();
                let before = to.len();
                to.resize(before + length, 0);
                random.fill(&mut to[before..]);
                to[before..].iter_mut().for_each(|byte| *byte = letter(*byte));
            }
            Self::Base64(length) => {
                let mut bytes = vec![0; *length];
                random.fill(&mut bytes);
                base64_simd::STANDARD.encode_append(&bytes, to.own());
            }
            Self::Bytes(length) => {
                let to = to.own();
                let before = to.len();
                to.resize(before + length, 0);
                random.fill(&mut to[before..]);
            }
            Self::Choice(choices) => {
                to.own().extend_from_slice(choices[random.index(choices.len())].as_bytes());
            }
        }
    }
}

/// One of 64 characters.
fn letter(byte: u8) -> u8 {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ae";
    LETTERS[usize::from(byte & 63)]
}

fn range<N: FromStr + PartialOrd>(text: Option<&str>) -> Option<(N, N)> {
    let (low, high) = text?.split_once("..")?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

fn read(here: &Path, path: &str) -> Result<Vec<u8>, TemplateError> {
    let path = here.join(path);
    std::fs::read(&path).map_err(|source| TemplateError::File { path, source })
}

/// Bytes in JSON: base64.
mod literal {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&base64_simd::STANDARD.encode_to_string(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = base64_simd::STANDARD.decode_to_vec(text).map_err(D::Error::custom)?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    fn filled(template: &Template, request: u64) -> String {
        let mut to = Outgoing::default();
        let mut random = Random::new(1, Stream::Request(request));
        template.fill(RequestId { request, client: 7 }, &mut random, &mut to);
        String::from_utf8(to.own().clone()).expect("it is text")
    }

    fn parse(text: &str) -> Result<Template, TemplateError> {
        let values = [("heap".to_owned(), "64m".to_owned())].into();
        Template::parse(text.as_bytes(), &values, Path::new("/nowhere"))
    }

    #[test]
    fn words_are_filled_for_each_request_from_its_own_number() {
        let text = "{heap} {request} {client} {random:-3..3} {real:1..2} {flag} {text:5} {base64:4} {choice:a|b} {x ";
        let template = parse(text).expect("all words are known");
        let one = filled(&template, 12);
        assert_eq!(one, filled(&template, 12));
        assert_ne!(one, filled(&template, 13));
        let words: Vec<&str> = one.split(' ').collect();
        assert_eq!(words[..3], ["64m", "12", "7"]);
        assert!((-3..=3).contains(&words[3].parse::<i64>().expect("a whole number")));
        assert!((1.0..2.0).contains(&words[4].parse::<f64>().expect("a number")));
        assert!(words[5].parse::<bool>().is_ok());
        assert_eq!(words[6].len(), 5);
        assert_eq!(words[7].len(), 8);
        assert!(["a", "b"].contains(&words[8]));
        assert_eq!(words[9], "{x");
    }

    #[test]
    fn files_and_lines_are_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("lines"), "one\ntwo\n").expect("written");
        let text = b"<a>{file:lines}</a>{line:lines}";
        let template =
            Template::parse(text, &BTreeMap::new(), folder.path()).expect("they are there");
        drop(folder);
        let drawn: Vec<String> = (0..50).map(|request| filled(&template, request)).collect();
        for line in ["one", "two"] {
            assert!(drawn.contains(&format!("<a>one\ntwo\n</a>{line}")), "{line}");
        }
        assert!(drawn.iter().all(|text| text.len() == "<a>one\ntwo\n</a>one".len()));
    }

    #[test]
    fn a_word_that_is_written_wrongly_is_told_with_what_is_right() {
        for (text, part) in [
            ("{requests}", "did you mean {request}"),
            ("{random:5..1}", "{random:LOW..HIGH}"),
            ("{real:1..}", "{real:LOW..HIGH}"),
            ("{text:long}", "{text:LENGTH}"),
            ("{text:2000000000}", "{text:LENGTH}"),
            ("{file:none}", "cannot read /nowhere/none"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_template_is_the_same_after_its_way_to_another_host() {
        let template = parse("\u{1}{request}{random:1..2}{choice:x|y}z").expect("it is one");
        let json = serde_json::to_string(&template).expect("it can be sent");
        assert_eq!(serde_json::from_str::<Template>(&json).expect("and read"), template);
    }
}
