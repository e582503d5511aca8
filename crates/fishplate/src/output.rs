//! What a command says: data on standard output, everything else on standard error.

pub(crate) mod diagnostics;
pub(crate) mod failure;
pub(crate) mod json;
mod pace;
pub(crate) mod progress;
pub(crate) mod ranks;
pub(crate) mod text;
pub(crate) mod usage_record;

use std::io::{self, Write};

/// Where a command's data goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// JSON was asked for.
    pub(crate) json: bool,
}

impl Output {
    /// Data, to the letter.
    pub(crate) fn raw(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// A line of data.
    pub(crate) fn line(self, text: &str) -> io::Result<()> {
        self.raw(&format!("{text}\n"))
    }

    /// A line of data that is JSON.
    pub(crate) fn value(self, value: &serde_json::Value) -> io::Result<()> {
        self.line(&value.to_string())
    }

    /// Something for people. Whether anybody reads it is no concern of the command's.
    pub(crate) fn note(self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", text::harmless(text));
    }
}
