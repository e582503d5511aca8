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
        let mut cargo = Command::new(env!("CARGO"));
        // Build scripts that watch the variables of a package (`ring`'s) would be run again in each shell.
        for (name, _) in std::env::vars_os() {
            let named = name.to_string_lossy();
            if named.starts_with("CARGO_PKG_") || named.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(name);
            }
        }
        let status = cargo
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
