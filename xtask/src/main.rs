//! The project's own chores.
//!
//! - [`check_deps`]: nobody sees a crate that ARCHITECTURE.md does not let them see
//! - [`generate`]: the committed files that the program itself writes
//! - [`check`]: all that is fast

mod check;
mod check_deps;
mod generate;
mod root;

use std::process::ExitCode;

use anyhow::bail;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check-deps         compare the crates' dependencies with ARCHITECTURE.md
  generate [--check] [--binary FILE]
                     write specs/ and the generated pages of docs/reference;
                     with --check: only say which of them are out of date
  check              formatting, lints, dependencies, unit tests
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check-deps"] => check_deps::run(),
        ["generate", options @ ..] => generate::run(options),
        ["check"] => check::run(),
        [] | ["help" | "--help" | "-h"] => {
            report(USAGE);
            Ok(())
        }
        other => bail!("no such command: {}\n\n{USAGE}", other.join(" ")),
    }
}

/// Tells the person who ran the chore.
#[expect(clippy::print_stderr, reason = "a chore talks to the terminal it was started from")]
fn report(text: &str) {
    eprintln!("{}", text.trim_end());
}
