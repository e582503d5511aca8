//! Programs as web services, unchanged: the binary.

mod arguments;
mod array;
mod commands;
mod deliver;
mod exit;
mod output;

fn main() -> std::process::ExitCode {
    commands::run(std::env::args_os().collect())
}
