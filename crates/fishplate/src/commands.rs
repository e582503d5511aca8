//! The commands, one a file.

mod accounts;
mod attempts;
mod backup;
mod call;
mod cgi;
mod check;
mod client;
mod completions;
mod config;
mod domain;
mod engine;
mod export;
mod find;
mod function;
mod get;
mod help;
mod hosting;
mod import;
mod jobs;
mod kill;
mod log;
mod login;
mod logout;
mod lost;
mod manuals;
mod mcp;
mod mpi4py;
mod names;
mod policy;
mod pool;
mod put;
mod quake;
mod quota;
mod remove;
mod restore;
mod results;
mod revoke;
mod run;
mod run_plan;
mod running;
mod secret;
mod serve;
mod session;
mod spawn;
mod status;
mod supervise;
mod target;
mod token;
mod usage;
mod user;
mod wait;
mod wsdl;

use std::ffi::OsString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use fishplate_client::arguments::asks_for_stdout;
use fishplate_contract::SessionId;

pub(crate) use client::Interruption;

use crate::configuration::{Resolution, with_values};
use crate::exit::Exit;
use crate::output::Output;
use crate::output::diagnostics::Mistakes;
use crate::output::failure::{FailureContext, FailureReport, UsageError};

/// Exit code of wrong usage.
const USAGE: u8 = Exit::Usage.code();

/// Programs as web services, unchanged.
#[derive(Debug, Parser)]
#[command(
    name = "fishplate",
    version,
    disable_help_subcommand = true,
    after_help = "`fishplate help COMMAND` tells more of a command, with examples; \
                  `fishplate help exit-codes` lists the exit codes, \
                  `fishplate help limits` the limits, \
                  `fishplate help configuration` the keys of fishplate.toml."
)]
pub(crate) struct Cli {
    /// Give data as JSON on standard output, and errors as JSON on standard error
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Cgi(cgi::CgiArgs),
    Check(check::CheckArgs),
    Import(import::Args),
    Export(export::Args),
    Config(config::Args),
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
    #[command(hide = true)]
    Engine(engine::EngineArgs),
    #[command(hide = true)]
    Function(function::FunctionArgs),
    #[command(hide = true)]
    DomainManager(domain::service::ManagerArgs),
    #[command(hide = true)]
    Manuals(manuals::ManualsArgs),
    #[command(hide = true)]
    RunPlan(run_plan::RunPlanArgs),
    Run(run::Args),
    Domain(domain::Args),
    Mcp(mcp::Args),
    Mpi4py(mpi4py::Args),
    Find(find::FindArgs),
    Diff(find::DiffArgs),
    Usage(usage::Args),
    Call(call::Args),
    Spawn(spawn::Args),
    Running(running::Args),
    Wait(wait::Args),
    Results(results::Args),
    Put(put::Args),
    Get(get::Args),
    Revoke(revoke::Args),
    Session(session::Args),
    Pool(pool::Args),
    Policy(policy::Args),
    Login(login::Args),
    Logout(logout::Args),
    Lost(lost::Args),
    User(user::Args),
    Token(token::Args),
    Accounts(accounts::Args),
    Quake(quake::Args),
    Quota(quota::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Kill(kill::Args),
    Status(status::Args),
    Log(log::Args),
    Jobs(jobs::Args),
    Remove(remove::Args),
    Wsdl(wsdl::Args),
    Completions(completions::Args),
    Help(help::Args),
}

impl Command {
    /// Runs it; these are the words that it was read from.
    fn run(self, words: &[OsString], output: Output) -> Result<ExitCode> {
        let ended = match self {
            Self::Serve(_) => return serve::run(words),
            Self::Cgi(args) => return cgi::run(args),
            Self::Check(args) => return check::run(&args),
            Self::Config(_) => config::run(&Resolution::of(&grammar(), words)?, output),
            Self::Import(args) => import::run(&args, output),
            Self::Export(args) => export::run(&args, output),
            Self::Supervise(args) => supervise::run(&args),
            Self::Engine(args) => return engine::run(&args),
            Self::Function(args) => return Ok(function::run(&args)),
            Self::DomainManager(args) => return domain::service::run(&args),
            Self::Manuals(args) => return manuals::run(&args),
            Self::RunPlan(args) => return run_plan::run(&args),
            Self::Run(args) => return run::run(args, output),
            Self::Domain(args) => return domain::run(&args, output),
            Self::Mcp(args) => mcp::run(&args),
            Self::Mpi4py(args) => mpi4py::run(&args, output),
            Self::Quake(args) => return quake::run(args, output),
            Self::Find(args) => find::run(&args, output),
            Self::Diff(args) => find::diff(&args, output),
            Self::Usage(args) => usage::run(&args, output),
            Self::Call(args) => call::run(&args, output),
            Self::Spawn(args) => spawn::run(&args, output),
            Self::Running(args) => running::run(&args, output),
            Self::Wait(args) => wait::run(&args, output),
            Self::Results(args) => results::run(&args, output),
            Self::Put(args) => put::run(&args, output),
            Self::Get(args) => get::run(&args, output),
            Self::Revoke(args) => revoke::run(&args, output),
            Self::Session(args) => session::run(&args, output),
            Self::Pool(args) => pool::run(&args, output),
            Self::Policy(args) => policy::run(&args, output),
            Self::Login(args) => login::run(&args, output),
            Self::Logout(args) => logout::run(&args, output),
            Self::Lost(args) => lost::run(&args, output),
            Self::User(args) => user::run(&args, output),
            Self::Token(args) => token::run(&args, output),
            Self::Accounts(args) => accounts::run(&args, output),
            Self::Quota(args) => quota::run(&args, output),
            Self::Backup(args) => backup::run(&args, output),
            Self::Restore(args) => restore::run(&args, output),
            Self::Kill(args) => kill::run(&args, output),
            Self::Status(args) => status::run(&args, output),
            Self::Log(args) => log::run(&args, output),
            Self::Jobs(args) => jobs::run(&args, output),
            Self::Remove(args) => remove::run(&args, output),
            Self::Wsdl(args) => wsdl::run(&args, output),
            Self::Completions(args) => completions::run(&args, output),
            Self::Help(args) => help::run(&args, output),
        };
        ended.map(ExitCode::from)
    }

    /// The service that a command is about, for hints.
    fn url(&self) -> Option<String> {
        let connection = match self {
            Self::Usage(args) => &args.connection,
            Self::Call(args) => &args.connection,
            Self::Spawn(args) => &args.connection,
            Self::Running(args) => return Some(args.job.url()),
            Self::Wait(args) => return Some(args.job.url()),
            Self::Results(args) => return Some(args.url()),
            Self::Kill(args) => return Some(args.job.url()),
            Self::Status(args) => return Some(args.job.url()),
            Self::Log(args) => return Some(args.job.url()),
            Self::Jobs(args) => return Some(args.url()),
            Self::Remove(args) => return Some(args.job.url()),
            Self::Put(args) => return Some(args.to.clone()),
            Self::Get(args) => return Some(args.reference.clone()),
            Self::Login(args) => return Some(args.url.clone()),
            Self::Quota(args) => return Some(args.url()),
            Self::Session(args) => return Some(args.url().to_owned()),
            Self::Export(args) => return Some(args.url().to_owned()),
            Self::Wsdl(args) => &args.connection,
            Self::Serve(_)
            | Self::Cgi(_)
            | Self::Check(_)
            | Self::Import(_)
            | Self::Config(_)
            | Self::Revoke(_)
            | Self::Pool(_)
            | Self::Policy(_)
            | Self::Logout(_)
            | Self::Lost(_)
            | Self::User(_)
            | Self::Token(_)
            | Self::Accounts(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::Supervise(_)
            | Self::Engine(_)
            | Self::Function(_)
            | Self::DomainManager(_)
            | Self::Manuals(_)
            | Self::RunPlan(_)
            | Self::Run(_)
            | Self::Domain(_)
            | Self::Mcp(_)
            | Self::Mpi4py(_)
            | Self::Quake(_)
            | Self::Find(_)
            | Self::Diff(_)
            | Self::Completions(_)
            | Self::Help(_) => return None,
        };
        Some(connection.url.clone())
    }
}

/// Runs what the command line asks for and tells how it ended.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    let under_cgi = std::env::var_os("GATEWAY_INTERFACE").is_some();
    let words = run::rewritten(names::rewritten(arguments, under_cgi));
    let in_json = words.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let in_stdout = words.iter().any(|word| word.to_str().is_some_and(asks_for_stdout));
    let parsed = grammar().try_get_matches_from(&words).and_then(|matches| {
        let session = session_among(&matches);
        Cli::from_arg_matches(&matches).map(|cli| (cli, session))
    });
    let (cli, session) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() && in_json => {
            return tell(&FailureReport::of_words(&error), Output { json: true });
        }
        Err(error) => {
            // Whether anybody reads it is no concern of ours.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success }.into();
        }
    };
    let output = Output { json: cli.json };
    if output.json && in_stdout {
        let reason = "standard output cannot have both JSON and an output: leave --json out, or \
                      write out:NAME=FILE";
        return tell(
            &FailureReport::of(&UsageError(reason.to_owned()).into(), FailureContext::default()),
            output,
        );
    }
    let url = cli.command.url();
    let ended = catch_unwind(AssertUnwindSafe(|| cli.command.run(&words, output)));
    match ended {
        Ok(Ok(code)) => code,
        Ok(Err(error)) if !output.json && error.is::<Mistakes>() => {
            error.downcast_ref::<Mistakes>().iter().for_each(|mistakes| mistakes.show());
            Exit::Usage.into()
        }
        Ok(Err(error)) => tell(
            &FailureReport::of(&error, FailureContext { url: url.as_deref(), session }),
            output,
        ),
        // The panic's message has been printed already.
        Err(_) => tell(&FailureReport::of_ourselves(), output),
    }
}

/// The session that a command is about or runs in, for hints.
fn session_among(matches: &ArgMatches) -> Option<SessionId> {
    let here = matches.try_get_one("session").ok().flatten().copied();
    here.or_else(|| session_among(matches.subcommand()?.1))
}

fn tell(failure: &FailureReport, output: Output) -> ExitCode {
    if failure.exit == Exit::BrokenPipe {
        return failure.exit.into();
    }
    let text = if output.json { format!("{}\n", failure.json()) } else { failure.text() };
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    failure.exit.into()
}

/// The whole command line as clap sees it.
pub(crate) fn grammar() -> clap::Command {
    ["serve", "config"]
        .into_iter()
        .fold(Cli::command(), |grammar, configured| grammar.mut_subcommand(configured, with_values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound_and_every_command_has_examples() {
        let mut grammar = grammar();
        grammar.clone().debug_assert();
        for command in grammar.get_subcommands_mut().filter(|command| !command.is_hide_set()) {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{name} has no examples:\n{help}");
        }
    }
}
