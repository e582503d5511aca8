//! `fishplate help [TOPIC]`: help on a command, or on exit codes.

use anyhow::Result;

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Show help on a command, or on exit codes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate help call
  fishplate help exit-codes")]
pub(crate) struct Args {
    /// A command, or exit-codes
    topic: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    output.raw(&text(args.topic.as_deref())?)?;
    Ok(Exit::Success)
}

fn text(topic: Option<&str>) -> Result<String> {
    // What clap adds by itself (names of commands in their usage, --help) is added by building.
    let mut grammar = super::grammar();
    grammar.build();
    match topic {
        None => Ok(grammar.render_long_help().to_string()),
        Some("exit-codes") => Ok(format!("Exit codes:\n{}", Exit::table())),
        Some(name) => match grammar.find_subcommand_mut(name) {
            Some(command) => Ok(command.render_long_help().to_string()),
            None => Err(UsageError(format!("there is no help on {name}")).into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_help_on_commands_and_exit_codes_and_nothing_else() {
        assert!(text(None).unwrap().contains("fishplate help exit-codes"));
        assert!(text(Some("call")).unwrap().contains("Usage: fishplate call"));
        assert!(text(Some("exit-codes")).unwrap().contains("  130  interrupted"));
        assert!(text(Some("weather")).is_err());
    }
}
