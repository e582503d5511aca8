//! One command a file.

mod cgi;
mod check;
mod engine;
mod hosting;
mod serve;
mod supervise;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit code of wrong usage.
pub const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "fishplate", version, about)]
struct Fishplate {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Cgi(cgi::CgiArgs),
    Check(check::CheckArgs),
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
    #[command(hide = true)]
    Engine(engine::EngineArgs),
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let done = match Fishplate::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Cgi(arguments) => cgi::run(arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Supervise(arguments) => supervise::run(&arguments),
        Command::Engine(arguments) => engine::run(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
