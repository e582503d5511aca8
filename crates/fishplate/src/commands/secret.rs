//! Passwords and tokens as people give them: typed unseen, or on standard input, never as a word of the command line,
//! which other users of the machine see.

use std::io::{self, IsTerminal as _, Read as _};

use anyhow::{Context as _, Result};

use crate::output::failure::UsageError;

/// The longest secret that is read.
const LONGEST: u64 = 64 << 10;

/// The first line of standard input.
pub(crate) fn of_stdin() -> Result<String> {
    let mut text = String::new();
    io::stdin().lock().take(LONGEST).read_to_string(&mut text).context("standard input")?;
    let line = text.lines().next().unwrap_or_default().to_owned();
    if line.is_empty() {
        return Err(UsageError("standard input holds nothing".to_owned()).into());
    }
    Ok(line)
}

/// What is typed at the terminal; without one, how to say it otherwise.
pub(crate) fn typed(prompt: &str, otherwise: &str) -> Result<String> {
    if !io::stdin().is_terminal() {
        return Err(UsageError(format!("there is no terminal to ask for it: {otherwise}")).into());
    }
    rpassword::prompt_password(prompt).context("the terminal")
}

/// A new password: typed twice, or on standard input.
pub(crate) fn new_password(on_stdin: bool) -> Result<String> {
    if on_stdin {
        return of_stdin();
    }
    let otherwise = "--password-stdin reads it from standard input";
    let password = typed("New password: ", otherwise)?;
    if typed("The same again: ", otherwise)? != password {
        return Err(UsageError("these are two different passwords".to_owned()).into());
    }
    Ok(password)
}
