//! `fishplate wait URL JOB`: waits until a job has ended.

use anyhow::Result;
use fishplate_contract::JobId;

use super::client::{Connection, job, run_interruptible};
use crate::exit::Exit;
use crate::output::progress::JobBar;
use crate::output::{Output, json};

/// Wait until a job has ended and print its state
///
/// The exit code tells how it ended: 0 done, 5 failed or killed, 9 unknown. With --timeout, the
/// exit code is 7 if it has not ended by then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate wait http://somewhere.com/sample $JOB
  fishplate wait http://somewhere.com/ccx $JOB --timeout 2h && echo converged")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// ID of the job
    #[arg(value_parser = job)]
    job: JobId,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let goes_on = format!(
        "the job goes on; `fishplate wait {} {}` waits for it again",
        args.connection.url, args.job
    );
    run_interruptible(&[goes_on], async {
        let service = args.connection.connect().await?;
        let mut bar = JobBar::new(output);
        let mut last = None;
        let waiting = service.wait(args.job, |report| {
            bar.show(report);
            last = Some(report.clone());
        });
        let report = match args.connection.reach.network.timeout {
            None => waiting.await?,
            Some(allowed) => match tokio::time::timeout(allowed, waiting).await {
                Ok(ended) => ended?,
                // No answer at all is another matter than a job that has not ended.
                Err(_) => match last {
                    Some(report) => report,
                    None => service.status(args.job).await?,
                },
            },
        };
        drop(bar);
        if output.json {
            output.value(&json::report(&report))?;
        } else {
            output.line(report.state.name())?;
            if !report.message.is_empty() {
                output.note(&report.message);
            }
        }
        Ok(Exit::of_state(report.state))
    })
}
