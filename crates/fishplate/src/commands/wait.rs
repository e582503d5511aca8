//! `fishplate wait URL JOB`: waits until a job has ended.

use anyhow::Result;

use super::client::run_interruptible;
use super::target::JobArgs;
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
    pub(crate) job: JobArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let goes_on = "the job goes on; the same command waits for it again".to_owned();
    run_interruptible(&[goes_on], async {
        let (service, job) = args.job.find().await?;
        let mut bar = JobBar::new(output);
        let mut last = None;
        let waiting = service.wait(job, |report| {
            bar.show(report);
            last = Some(report.clone());
        });
        let report = match args.job.options.reach.network.timeout {
            None => waiting.await?,
            Some(allowed) => match tokio::time::timeout(allowed, waiting).await {
                Ok(ended) => ended?,
                // No answer at all is another matter than a job that has not ended.
                Err(_) => match last {
                    Some(report) => report,
                    None => service.status(job).await?,
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
