//! Progress on standard error, for whoever looks at a terminal for longer than a second.

use std::sync::Arc;
use std::time::Duration;

use fishplate_client::Meter;
use fishplate_contract::{JobReport, JobState};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, interval};

use crate::output::Output;
use crate::output::text::harmless;

/// Nothing is shown before.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

const TRANSFER: &str = "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const GROWING: &str = "{spinner} {msg} {bytes}, {bytes_per_sec}";
const WAITING: &str = "{spinner} {msg} {elapsed}";
const JOB: &str = "{msg} [{bar:30}] {percent} %, {elapsed}";

/// Shows what a call transfers while `work` goes on.
pub(crate) async fn transfer<T>(
    output: Output,
    meter: &Arc<Meter>,
    work: impl Future<Output = T>,
) -> T {
    shown(output, meter, "waiting for the program", work).await
}

/// Shows how data moves while `work` goes on.
pub(crate) async fn moving<T>(
    output: Output,
    meter: &Arc<Meter>,
    work: impl Future<Output = T>,
) -> T {
    shown(output, meter, "waiting for the server", work).await
}

async fn shown<T>(
    output: Output,
    meter: &Arc<Meter>,
    waiting: &'static str,
    work: impl Future<Output = T>,
) -> T {
    let bar = hidden_unless_terminal(output);
    let started = Instant::now();
    let mut ticks = interval(TICK);
    let mut phase = Phase::Quiet;
    tokio::pin!(work);
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => if started.elapsed() > PATIENCE { phase = show(&bar, meter, waiting, phase) },
        }
    };
    bar.finish_and_clear();
    done
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Quiet,
    Sending,
    Waiting,
    Receiving,
    Growing,
}

fn show(bar: &ProgressBar, meter: &Meter, waiting: &'static str, before: Phase) -> Phase {
    let (received, to_receive) = (meter.received(), meter.to_receive());
    let phase = match () {
        () if received > 0 && to_receive > 0 => Phase::Receiving,
        () if received > 0 => Phase::Growing,
        () if meter.sent() < meter.to_send() => Phase::Sending,
        () => Phase::Waiting,
    };
    let (template, message, at, of) = match phase {
        Phase::Sending => (TRANSFER, "sending", meter.sent(), meter.to_send()),
        Phase::Receiving => (TRANSFER, "receiving", received, to_receive),
        Phase::Growing => (GROWING, "receiving", received, 0),
        Phase::Waiting | Phase::Quiet => (WAITING, waiting, 0, 0),
    };
    if phase != before {
        bar.set_style(style(template));
        bar.set_message(message);
        bar.set_length(of);
        bar.reset();
    }
    bar.set_position(at);
    bar.tick();
    phase
}

/// Shows how a job goes on.
pub(crate) struct JobBar {
    bar: ProgressBar,
    shows: Option<Shows>,
}

/// What of a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Bytes of its data on the way to the server.
    Fetching,
    /// What its program tells.
    Share,
    /// That time goes by.
    Time,
}

impl JobBar {
    /// A bar that is shown on a terminal only.
    pub(crate) fn new(output: Output) -> Self {
        Self { bar: hidden_unless_terminal(output), shows: None }
    }

    /// Shows this report.
    pub(crate) fn show(&mut self, report: &JobReport) {
        let fetched = fetched(report);
        let shows = match (report.state, fetched) {
            (JobState::Fetching, Some(_)) => Shows::Fetching,
            _ if report.progress.is_some() => Shows::Share,
            _ => Shows::Time,
        };
        if self.shows != Some(shows) {
            self.bar.set_style(style(match shows {
                Shows::Fetching => TRANSFER,
                Shows::Share => JOB,
                Shows::Time => WAITING,
            }));
            self.bar.set_length(1000);
            self.bar.reset();
            self.shows = Some(shows);
        }
        let message = match report.message.is_empty() {
            true => report.state.name().to_owned(),
            false => format!("{}: {}", report.state.name(), harmless(&report.message)),
        };
        self.bar.set_message(message);
        match (shows, fetched, report.progress) {
            (Shows::Fetching, Some((bytes, total)), _) => {
                self.bar.set_length(total);
                self.bar.set_position(bytes);
            }
            (Shows::Share, _, Some(share)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped to the bar's length"
                )]
                self.bar.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
            }
            _ => {}
        }
        self.bar.tick();
    }
}

/// How much of a job's data is at the server and how much there will be, if that is known of all.
fn fetched(report: &JobReport) -> Option<(u64, u64)> {
    let totals = report.transfers.iter().map(|of| of.total).collect::<Option<Vec<u64>>>()?;
    let bytes = report.transfers.iter().map(|of| of.bytes).sum();
    (!totals.is_empty()).then(|| (bytes, totals.iter().sum()))
}

impl Drop for JobBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for so many bytes, moved by who handles them.
pub(crate) fn of_bytes(output: Output, doing: &'static str, total: u64) -> ProgressBar {
    let bar = hidden_unless_terminal(output);
    bar.set_style(style(TRANSFER));
    bar.set_message(doing);
    bar.set_length(total);
    bar
}

fn hidden_unless_terminal(output: Output) -> ProgressBar {
    // Indicatif itself hides a bar whose target is no terminal.
    let target =
        if output.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    ProgressBar::with_draw_target(None, target)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_understood() {
        for template in [TRANSFER, GROWING, WAITING, JOB] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
