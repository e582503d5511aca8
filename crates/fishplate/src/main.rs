//! Programs as web services, unchanged: the binary.

mod commands;
mod configuration;
mod exit;
mod output;

/// Small messages are many small allocations, and large ones come and go: docs/decisions/0006.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    commands::run(std::env::args_os().collect())
}
