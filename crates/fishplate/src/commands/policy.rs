//! `fishplate policy`: what a policy decides.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use fishplate_contract::Principal;
use fishplate_contract::interface::SOLE_OPERATION;
use fishplate_server::dispatch::authorise::{Access, Action};
use fishplate_server::policy::file::read;
use fishplate_server::policy::rules::{AccessPolicy, Decision, Rule};
use serde_json::json;

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::UsageError;

/// Ask what a policy decides
///
/// A policy is the file of `serve --policy`: who may do what. `fishplate check` says what is wrong with one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate policy explain alice heat call --policy policy.toml
  fishplate policy explain robot data upload --policy policy.toml
  fishplate policy explain '' metrics read --policy policy.toml --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Explain(ExplainArgs),
}

/// Say whether a user may do something, and which rule says so
#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// Name of the user; empty: a caller without a name
    user: String,
    /// Name of the service; `data` for uploads and addresses of data, `session`, `metrics`
    service: String,
    /// What is to be done
    #[arg(value_parser = PossibleValuesParser::new(Action::all().map(Action::name)))]
    verb: String,
    /// Operation of the service [default: `call`, or none for what is about jobs]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// The policy
    #[arg(long, value_name = "FILE", env = "FISHPLATE_POLICY")]
    policy: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let PolicyCommand::Explain(args) = &args.verb;
    explain(args, output)
}

fn explain(args: &ExplainArgs, output: Output) -> Result<Exit> {
    let policy = read(&args.policy)?;
    let action = Action::from_name(&args.verb)
        .ok_or_else(|| UsageError(format!("{} is nothing one can do", args.verb)))?;
    let sole = matches!(action, Action::Verb(verb) if verb.is_of_operation());
    let operation = args.operation.as_deref().unwrap_or(if sole { SOLE_OPERATION } else { "" });
    let principal = Principal::named(&args.user);
    let access = Access { principal: &principal, service: &args.service, operation, action };
    let decision = policy.decide(&access);
    let reason = match decision {
        Decision::Allowed(rule) | Decision::Denied(rule) => {
            format!("{}:{}: {}", args.policy.display(), rule.line, rule_text(rule))
        }
        Decision::AllowedByAddress => {
            "whoever has the address of data may read it: nobody is asked for a name there, and no rule denies it to \
             @anybody"
                .to_owned()
        }
        Decision::NotAllowed => "no rule allows it".to_owned(),
    };
    let (rule, groups) = match decision {
        Decision::Allowed(rule) | Decision::Denied(rule) => {
            (Some(rule), groups(&policy, &args.user, rule))
        }
        _ => (None, Vec::new()),
    };
    if output.json {
        output.value(&json!({
            "user": args.user,
            "service": args.service,
            "operation": operation,
            "verb": action.name(),
            "allowed": decision.is_allowed(),
            "reason": reason,
            "line": rule.map(|rule| rule.line),
            "groups": groups,
        }))?;
        return Ok(Exit::Success);
    }
    let decided = if decision.is_allowed() { "allowed" } else { "refused" };
    output.line(&format!("{decided}: {access}"))?;
    output.line(&format!("  {reason}"))?;
    for group in groups {
        output.line(&format!("  {} is in {group}", args.user))?;
    }
    Ok(Exit::Success)
}

fn groups<'p>(policy: &'p AccessPolicy, user: &str, rule: &'p Rule) -> Vec<&'p str> {
    policy.groups_of(user, rule).collect()
}

/// A rule in one line: `[[allow]] who = @chemists; service = heat`.
fn rule_text(rule: &Rule) -> String {
    let mut parts = vec![format!("who = {}", rule.who.join(", "))];
    let named = [("service", &rule.services), ("operation", &rule.operations)];
    for (key, names) in named {
        parts.extend(names.as_ref().map(|names| format!("{key} = {}", names.join(", "))));
    }
    if let Some(actions) = &rule.actions {
        let all = Action::all().filter(|action| actions.contains(action));
        let names: Vec<_> = all.map(Action::name).collect();
        parts.push(format!("may = {}", names.join(", ")));
    }
    format!("[[{}]] {}", rule.effect.name(), parts.join("; "))
}
