//! `fishplate cgi`: the same line as a script in a web server's cgi-bin. Each request is a process
//! of its own; jobs go on in an engine that outlives it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fishplate_server::assembly::StoreCheck;
use fishplate_server::host::PublicAddress;
use fishplate_server::{assembly, cgi};

use super::engine::is_at_work;
use super::hosting::{HostingArgs, ServiceArgs};
use crate::output::failure::UsageError;

/// Answers one request of a web server's cgi-bin.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example of a script in a web server's cgi-bin (paper 000, Figure 4):
  #! /bin/bash
  exec fishplate cgi -n arithmetic-test -U urn:test -N 'Arithmetic Server' \\
    --data /var/lib/fishplate \\
    -- ./add.sh '[in val x:int]' '[in val y:int]' '>' '[out file result:int]'

Its URL is the script's. The data directory must be writable by the web server's user.
Jobs outlive the request and advance with no request alive.")]
pub(crate) struct CgiArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// A service file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The address that callers use, if it is not the script's own
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    hosting: HostingArgs,
    /// The program's command line with typed slots
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Answers the request in the environment and on standard input.
pub(crate) fn run(arguments: CgiArgs) -> anyhow::Result<ExitCode> {
    let variables = cgi::CgiVariables::of_process();
    let script_url = variables.script_url()?;
    let _log = arguments.hosting.start_log(Duration::ZERO)?;
    let files: Vec<PathBuf> = arguments.file.into_iter().collect();
    let (descriptions, warnings) =
        arguments.service.descriptions(&files, &arguments.words, false)?;
    warnings.show();
    let [description] = &descriptions[..] else {
        let what = format!("a CGI script is one service; {} are described", descriptions.len());
        return Err(UsageError(what).into());
    };
    let name = description.service.name.clone();
    let public_url = arguments.public_url.unwrap_or(script_url);
    let limits = arguments.hosting.limits(public_url.clone())?;
    let hosting = arguments.hosting;
    let directory = limits.jobs.data.clone();
    let runtime = super::hosting::runtime()?;
    runtime.block_on(async {
        let data = assembly::data(&limits)?;
        let backends = hosting.backends(&limits, StoreCheck::Some)?;
        let engine = assembly::engine(&limits, backends, &data)?;
        let engine = engine.worked_by(move || {
            if let Err(error) = start_engine(&directory, &public_url, &hosting) {
                tracing::error!(error = format!("{error:#}"), "no engine could be started");
            }
        });
        let host =
            assembly::host(limits, PublicAddress::At, engine, data, descriptions, Vec::new())?;
        cgi::answer(&host, &name, &variables, std::io::stdin(), &mut std::io::stdout()).await?;
        anyhow::Ok(())
    })?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Where an engine logs that no terminal and no service manager listens to.
fn engine_log(data: &Path) -> anyhow::Result<File> {
    const LONGEST: u64 = 1 << 20;
    let path = data.join("engine.log");
    let log = File::options().create(true).append(true).mode(0o600).open(&path);
    let log = log.with_context(|| format!("cannot open {}", path.display()))?;
    if log.metadata()?.len() > LONGEST {
        log.set_len(0)?;
    }
    Ok(log)
}

/// Makes sure that an engine works on the data directory.
fn start_engine(data: &Path, public_url: &str, hosting: &HostingArgs) -> anyhow::Result<()> {
    if is_at_work(data)? {
        return Ok(());
    }
    Command::new("/proc/self/exe")
        .arg0("fishplate")
        .arg("engine")
        .args(["--public-url", public_url])
        .args(hosting.as_words()?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(engine_log(data)?)
        .spawn()
        .context("cannot start an engine")?;
    Ok(())
}
