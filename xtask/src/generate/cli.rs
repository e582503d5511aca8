//! The reference of the command line: what `--help` says, command by command.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::Generated;

const HEAD: &str = "\
# The command line

Written by `cargo xtask generate` from the program's own help.
";

const CONFIGURATION_HEAD: &str = "\
# The configuration file

Written by `cargo xtask generate` from the flags of `fishplate serve`, of which each has its key. How the file is
found and checked: [configuration](../guides/configuration.md).
";

pub(super) fn page(binary: &Path) -> anyhow::Result<Generated> {
    let mut text = HEAD.to_owned();
    let top = help(binary, &[])?;
    let commands = commands(&top);
    if commands.is_empty() {
        bail!("the help of {} lists no commands", binary.display());
    }
    section(&mut text, "fishplate", &top)?;
    for command in &commands {
        section(&mut text, &format!("fishplate {command}"), &help(binary, &[command])?)?;
    }
    Ok(Generated { path: "docs/reference/cli.md".into(), text })
}

/// The keys of the configuration file, as the program itself tells them.
pub(super) fn configuration(binary: &Path) -> anyhow::Result<Generated> {
    let keys = output(binary, &["help", "configuration"])?;
    let text = format!("{CONFIGURATION_HEAD}\n```text\n{}\n```\n", keys.trim_end());
    Ok(Generated { path: "docs/reference/configuration.md".into(), text })
}

fn section(text: &mut String, title: &str, help: &str) -> std::fmt::Result {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(text, "\n## {title}\n\n```text\n{}\n```\n", lines.join("\n"))
}

fn help(binary: &Path, command: &[&str]) -> anyhow::Result<String> {
    output(binary, &[command, &["--help"]].concat())
}

fn output(binary: &Path, words: &[&str]) -> anyhow::Result<String> {
    // The width of nobody's terminal.
    let output = Command::new(binary)
        .args(words)
        .env("COLUMNS", "100")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .with_context(|| format!("{} does not start", binary.display()))?;
    if !output.status.success() {
        bail!("fishplate {} failed", words.join(" "));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The names in the section `Commands:` of a help text.
fn commands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| line.trim_end() != "Commands:")
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_names_at_the_first_indentation() {
        let help = "Usage: x COMMAND\n\nCommands:\n  serve  Serves\n           on and on\n  call   Calls\n  help   Helps\n\nOptions:\n  -h\n";
        assert_eq!(commands(help), ["serve", "call"]);
        assert!(commands("Usage: x\n").is_empty());
    }
}
