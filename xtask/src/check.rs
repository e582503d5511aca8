//! All that is fast: what to run before a commit.

use std::process::Command;

use anyhow::{Context, bail};

const STEPS: [&[&str]; 3] = [
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    &["test", "--workspace", "--lib", "--bins", "--quiet"],
];

pub(crate) fn run() -> anyhow::Result<()> {
    crate::check_deps::run()?;
    for step in STEPS {
        crate::report(&format!("cargo {}", step.join(" ")));
        let status = Command::new(env!("CARGO"))
            .args(step)
            .current_dir(crate::root::workspace())
            .status()
            .context("cargo does not start")?;
        if !status.success() {
            bail!("cargo {} failed", step.join(" "));
        }
    }
    Ok(())
}
