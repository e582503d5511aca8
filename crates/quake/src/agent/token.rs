//! The token that a manager and its agents share, and the seal by which each knows the other's lines.
//!
//! An agent runs what its manager tells it, so both prove that they have the token, and no line between them is taken
//! that does not carry the proof. The token itself never goes over the connection. What is said can be read on the way:
//! between hosts that do not trust what is between them, a tunnel is needed.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a number that is used once.
pub(super) const NONCE_SIZE: usize = 16;
/// Hexadecimal digits of a seal (HMAC with SHA-256, RFC 2104).
pub(super) const SEAL_DIGITS: usize = 64;
/// A shorter token could be guessed.
const MIN_TOKEN: usize = 16;
/// A longer one is some other file.
const MAX_TOKEN: usize = 1024;

/// A secret that a manager and its agents share.
#[derive(Clone)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It can't be read.
    #[error("cannot read the token from {}", path.display())]
    Unreadable {
        /// From where.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is none.
    #[error(
        "{} holds no token: one line of {MIN_TOKEN} to {MAX_TOKEN} characters is needed, such as `openssl rand -hex 32` \
         writes",
        path.display()
    )]
    NoToken {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

impl Token {
    /// A new one, of 256 random bits.
    ///
    /// # Errors
    /// [`TokenError::NoRandomNumbers`].
    pub fn random() -> Result<Self, TokenError> {
        random::<32>().map(|bits| Self(hexadecimal(&bits))).ok_or(TokenError::NoRandomNumbers)
    }

    /// The one in a file, or on standard input (`-`); space around it is none of it.
    ///
    /// # Errors
    /// It can't be read, or is too short or too long for one.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut text = String::new();
        let limit = MAX_TOKEN as u64 + 2;
        let read = if path == Path::new("-") {
            io::stdin().lock().take(limit).read_to_string(&mut text)
        } else {
            std::fs::File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text))
        };
        read.map_err(|source| TokenError::Unreadable { path: path.to_owned(), source })?;
        let token = text.trim();
        if !(MIN_TOKEN..=MAX_TOKEN).contains(&token.len()) || token.contains('\n') {
            return Err(TokenError::NoToken { path: path.to_owned() });
        }
        Ok(Self(token.to_owned()))
    }

    /// As it stands in a file; the only way to see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The seals of a connection's two directions: the agent's, the manager's.
    pub(super) fn seals(&self, agent: &str, manager: &str) -> [Seal; 2] {
        let token = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        ["agent", "manager"].map(|side| {
            let text = format!("fishplate quake {side} {agent} {manager}");
            let key = hmac::sign(&token, text.as_bytes());
            Seal { key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), lines: 0 }
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What proves that a line comes from who has the token, in this connection, direction and place.
#[derive(Debug)]
pub(super) struct Seal {
    key: hmac::Key,
    /// Lines that were sealed or opened.
    lines: u64,
}

impl Seal {
    /// The line that goes over the connection: `SEAL NUMBER TEXT`.
    pub(super) fn seal(&mut self, text: &str) -> String {
        let numbered = format!("{} {text}", self.lines);
        self.lines += 1;
        let seal = hmac::sign(&self.key, numbered.as_bytes());
        format!("{} {numbered}\n", hexadecimal(seal.as_ref()))
    }

    /// The text of such a line without its end, if it is the next of who has the token.
    pub(super) fn open<'a>(&mut self, line: &'a [u8]) -> Option<&'a str> {
        let (seal, rest) = line.split_at_checked(SEAL_DIGITS)?;
        let numbered = rest.strip_prefix(b" ")?;
        let seal = bytes(std::str::from_utf8(seal).ok()?)?;
        hmac::verify(&self.key, numbered, &seal).ok()?;
        let (number, text) = std::str::from_utf8(numbered).ok()?.split_once(' ')?;
        (number.parse() == Ok(self.lines)).then_some(())?;
        self.lines += 1;
        Some(text)
    }
}

/// A number that is used once, in hexadecimal digits.
pub(super) fn nonce() -> Option<String> {
    random::<NONCE_SIZE>().map(|bits| hexadecimal(&bits))
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bits = [0; N];
    SystemRandom::new().fill(&mut bits).ok()?;
    Some(bits)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes().chunks_exact(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_is_opened_once_in_its_place_by_who_has_the_token() {
        let token = Token("a token of some length".to_owned());
        let [mut agent, mut manager] = token.seals("1", "2");
        let lines = [agent.seal("one"), agent.seal("two")];
        let line = |at: usize| lines[at].trim_end().as_bytes();
        let [mut of_agent, _] = token.seals("1", "2");
        assert_eq!(of_agent.open(line(1)), None, "not the next");
        assert_eq!(of_agent.open(line(0)), Some("one"));
        assert_eq!(of_agent.open(line(0)), None, "again");
        assert_eq!(of_agent.open(line(1)), Some("two"));
        assert_eq!(manager.open(line(0)), None, "the other direction");
        let [mut other, _] = Token("another token of a length".to_owned()).seals("1", "2");
        assert_eq!(other.open(line(0)), None, "another token");
        let [mut later, _] = token.seals("1", "3");
        assert_eq!(later.open(line(0)), None, "another connection");
        for cut in 0..lines[0].len() - 1 {
            let [mut cut_off, _] = token.seals("1", "2");
            assert_eq!(cut_off.open(&lines[0].as_bytes()[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        for text in ["", "short", "two lines of\n enough characters", &"x".repeat(MAX_TOKEN + 1)] {
            std::fs::write(&path, text).expect("it can be written");
            let error = Token::read(&path).expect_err(text).to_string();
            assert!(error.contains("token") && error.contains("16 to 1024"), "{error}");
        }
        std::fs::write(&path, "0123456789abcdef\n").expect("it can be written");
        assert_eq!(Token::read(&path).expect("it is one").reveal(), "0123456789abcdef");
        assert_ne!(Token::random().expect("one").reveal(), Token::random().expect("one").reveal());
    }
}
