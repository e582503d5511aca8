//! `fishplate log URL JOB`: what a job's program wrote.

use std::time::Duration;

use anyhow::Result;
use fishplate_client::{LogPage, LogStream};
use serde_json::json;

use super::client::run_interruptible;
use super::target::JobArgs;
use crate::exit::Exit;
use crate::output::Output;

/// First and longest wait between two looks at a log.
const FIRST_LOOK: Duration = Duration::from_millis(200);
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Show what a job's program wrote, while it runs and after
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate log http://somewhere.com/ccx $JOB --follow
  fishplate log http://somewhere.com/ccx $JOB --stream stderr")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Standard output or standard error
    #[arg(long, value_enum, default_value_t = StreamChoice::Stdout)]
    stream: StreamChoice,
    /// First byte to show
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    offset: u64,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StreamChoice {
    Stdout,
    Stderr,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let (service, job) = args.job.find().await?;
        let stream = match args.stream {
            StreamChoice::Stdout => LogStream::Stdout,
            StreamChoice::Stderr => LogStream::Stderr,
        };
        let mut offset = args.offset;
        let mut pause = FIRST_LOOK;
        loop {
            let page = service.log(job, stream, offset).await?;
            let grew = page.next > offset;
            show(&page, grew, output)?;
            offset = page.next;
            if page.end {
                break;
            }
            if grew {
                pause = FIRST_LOOK;
                continue; // There may be more already.
            }
            if !args.follow {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LONGEST_LOOK);
        }
        Ok(Exit::Success)
    })
}

/// A page as text, or as a line of JSON unless it holds nothing new.
fn show(page: &LogPage, grew: bool, output: Output) -> std::io::Result<()> {
    if !output.json {
        return output.raw(&page.text);
    }
    if grew || page.end {
        let value = json!({ "text": page.text, "next": page.next, "end": page.end });
        return output.value(&value);
    }
    Ok(())
}
