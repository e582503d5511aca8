//! Programs as web services, unchanged.

mod commands;
mod output;

fn main() -> std::process::ExitCode {
    commands::run()
}
