//! `fishplate help [TOPIC]`: help on a command, on exit codes, or on limits.

use std::fmt::Write as _;

use anyhow::Result;
use fishplate_contract::limits::{GROUPS, LimitSetting};
use fishplate_formats::units;

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Show help on a command, on exit codes, or on limits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate help call
  fishplate help exit-codes
  fishplate help limits")]
pub(crate) struct Args {
    /// A command, exit-codes, or limits
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
        Some("limits") => Ok(limits()),
        Some(name) => match grammar.find_subcommand_mut(name) {
            Some(command) => Ok(command.render_long_help().to_string()),
            None => Err(UsageError(format!("there is no help on {name}")).into()),
        },
    }
}

/// Every limit in a line: its name, its default, and what it bounds; the reference tells more.
fn limits() -> String {
    let mut text =
        "Limits, set with --limit NAME=VALUE of serve unless said otherwise:\n".to_owned();
    for (_, limits) in GROUPS {
        text.push('\n');
        for limit in *limits {
            let name = limit.name;
            let default = units::limit_default(limit);
            let meaning = limit.meaning[0].trim().trim_end_matches([';', ':', ',', '.']);
            let elsewhere = match limit.setting {
                LimitSetting::Server => String::new(),
                setting => format!(" ({})", setting.place()),
            };
            let _ = writeln!(text, "  {name:<20}  {default:>20}  {meaning}{elsewhere}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_help_on_commands_and_exit_codes_and_nothing_else() {
        assert!(text(None).unwrap().contains("fishplate help exit-codes"));
        assert!(text(Some("call")).unwrap().contains("Usage: fishplate call"));
        assert!(text(Some("exit-codes")).unwrap().contains("  130  interrupted"));
        let limits = text(Some("limits")).unwrap();
        assert!(limits.contains(
            "  xml_depth                               64  elements within each other\n"
        ));
        assert!(text(Some("weather")).is_err());
    }
}
