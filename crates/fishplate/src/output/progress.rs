//! Progress on standard error, for whoever looks at a terminal for longer than a second.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use fishplate_client::Meter;
use fishplate_contract::{JobReport, JobState, Transfer};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, interval};

use crate::output::Output;
use crate::output::pace::Pace;
use crate::output::text::harmless;

/// Nothing is shown before.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// The prefix is the rate: indicatif's own takes bytes that were there before for moved ones.
const TRANSFER: &str = "{msg} [{wide_bar}] {bytes} of {total_bytes}{prefix}";
const GROWING: &str = "{spinner} {msg} {bytes}{prefix}";
const WAITING: &str = "{spinner} {msg} {elapsed}";
const JOB: &str = "{msg} [{bar:30}] {percent} %, {elapsed}";
/// All of these bytes are moved here.
const OF_BYTES: &str = "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
/// Length of a bar that shows a share.
const BAR: u64 = 1000;
/// Between two others, while a bar has the length of neither.
const PLAIN: &str = "{msg}";

/// Shows what a call transfers while `work` goes on.
pub(crate) async fn transfer<T>(
    output: Output,
    meter: &Arc<Meter>,
    work: impl Future<Output = T>,
) -> T {
    transfer_of_job(output, meter, &WatchedJob::default(), work).await
}

/// The same, and how the job goes on, as `job` tells.
pub(crate) async fn transfer_of_job<T>(
    output: Output,
    meter: &Arc<Meter>,
    job: &WatchedJob,
    work: impl Future<Output = T>,
) -> T {
    let bar = ExchangeBar::new(output, "", "waiting for the program");
    shown(bar, meter, job, work).await
}

/// Shows how data moves while `work` goes on.
pub(crate) async fn moving<T>(
    output: Output,
    meter: &Arc<Meter>,
    work: impl Future<Output = T>,
) -> T {
    moving_file(output, meter, "", work).await
}

/// Shows how this file moves, one of several, while `work` goes on.
pub(crate) async fn moving_file<T>(
    output: Output,
    meter: &Arc<Meter>,
    name: &str,
    work: impl Future<Output = T>,
) -> T {
    let bar = ExchangeBar::new(output, name, "waiting for the server");
    shown(bar, meter, &WatchedJob::default(), work).await
}

/// The last report of a job that is waited for, until it has ended.
#[derive(Debug, Default)]
pub(crate) struct WatchedJob {
    report: RefCell<Option<JobReport>>,
    pace: RefCell<Pace>,
}

impl WatchedJob {
    /// What is known by now.
    pub(crate) fn tell(&self, report: JobReport) {
        if let Some((bytes, _)) = fetched(&report) {
            self.pace.borrow_mut().note(bytes);
        }
        *self.report.borrow_mut() = (!report.state.is_final()).then_some(report);
    }
}

/// Whether anybody looks at bars.
pub(crate) fn is_watched(output: Output) -> bool {
    !hidden_unless_terminal(output).is_hidden()
}

async fn shown<T>(
    mut exchange: ExchangeBar,
    meter: &Arc<Meter>,
    job: &WatchedJob,
    work: impl Future<Output = T>,
) -> T {
    let started = Instant::now();
    let mut ticks = interval(TICK);
    tokio::pin!(work);
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = ticks.tick() => {
                exchange.pace.note(meter.moved());
                if started.elapsed() > SHOWN_AFTER {
                    exchange.show(meter, job);
                }
            }
        }
    };
    exchange.bar.finish_and_clear();
    done
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sending,
    /// By the server.
    Fetching,
    /// What the program tells.
    Share,
    Waiting,
    Receiving,
    Growing,
}

impl Phase {
    fn of(meter: &Meter) -> Self {
        match (meter.received(), meter.to_receive()) {
            (1.., 1..) => Self::Receiving,
            (1.., 0) => Self::Growing,
            _ if meter.sent() < meter.to_send() => Self::Sending,
            _ => Self::Waiting,
        }
    }
}

/// What one exchange transfers.
struct ExchangeBar {
    bar: ProgressBar,
    output: Output,
    /// With a blank before it; empty if there is only one.
    name: String,
    waiting: &'static str,
    phase: Option<Phase>,
    pace: Pace,
    /// The last trouble that was told in a line of its own.
    told: Option<String>,
}

impl ExchangeBar {
    fn new(output: Output, name: &str, waiting: &'static str) -> Self {
        let name = if name.is_empty() { String::new() } else { format!(" {}", harmless(name)) };
        let bar = hidden_unless_terminal(output);
        Self { bar, output, name, waiting, phase: None, pace: Pace::default(), told: None }
    }

    fn show(&mut self, meter: &Meter, job: &WatchedJob) {
        let server = job.pace.borrow();
        let report = job.report.borrow();
        let report = report.as_ref();
        let trouble = meter.trouble();
        self.tell(trouble.as_deref());
        let fetched = report.and_then(fetched);
        let share = report.and_then(|report| report.progress);
        let phase = match Phase::of(meter) {
            _ if trouble.is_some() => Phase::Waiting,
            Phase::Waiting if fetched.is_some() => Phase::Fetching,
            Phase::Waiting if share.is_some() => Phase::Share,
            phase => phase,
        };
        let (template, at, of) = match phase {
            Phase::Sending => (TRANSFER, meter.sent(), meter.to_send()),
            Phase::Fetching => {
                (TRANSFER, fetched.unwrap_or_default().0, fetched.unwrap_or_default().1)
            }
            Phase::Share => (JOB, share_of_bar(share.unwrap_or_default()), BAR),
            Phase::Receiving => (TRANSFER, meter.received(), meter.to_receive()),
            Phase::Growing => (GROWING, meter.received(), 0),
            Phase::Waiting => (WAITING, 0, 0),
        };
        let is_new = self.phase != Some(phase);
        if is_new {
            self.bar.set_style(style(PLAIN));
            self.bar.reset();
            self.phase = Some(phase);
        }
        let pace = if phase == Phase::Fetching { &*server } else { &self.pace };
        self.bar.set_length(of);
        self.bar.set_position(at);
        self.bar.set_prefix(pace.told(of.saturating_sub(at)));
        self.bar.set_message(match (phase, trouble, report) {
            (_, Some(trouble), _) => harmless(&trouble),
            (Phase::Waiting | Phase::Fetching | Phase::Share, None, Some(report)) => of_job(report),
            (Phase::Sending, ..) => format!("sending{}", self.name),
            (Phase::Receiving | Phase::Growing, ..) => format!("receiving{}", self.name),
            _ => format!("{}{}", self.waiting, self.name),
        });
        if is_new {
            self.bar.set_style(style(template));
        }
        self.bar.tick();
    }

    /// Who looks at no bar is told in lines.
    fn tell(&mut self, trouble: Option<&str>) {
        if let Some(trouble) = trouble
            && self.told.as_deref() != Some(trouble)
            && self.bar.is_hidden()
            && !self.output.json
        {
            self.output.note(trouble);
            self.told = Some(trouble.to_owned());
        }
    }
}

/// Shows how a job goes on.
pub(crate) struct JobBar {
    bar: ProgressBar,
    shows: Option<JobView>,
    pace: Pace,
}

/// What of a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobView {
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
        Self { bar: hidden_unless_terminal(output), shows: None, pace: Pace::default() }
    }

    /// Shows this report.
    pub(crate) fn show(&mut self, report: &JobReport) {
        let fetched = fetched(report);
        let shows = match (report.state, fetched) {
            (JobState::Fetching, Some(_)) => JobView::Fetching,
            _ if report.progress.is_some() => JobView::Share,
            _ => JobView::Time,
        };
        let is_new = self.shows != Some(shows);
        if is_new {
            self.bar.set_style(style(PLAIN));
            self.bar.set_length(BAR);
            self.bar.reset();
            self.shows = Some(shows);
        }
        match (shows, fetched, report.progress) {
            (JobView::Fetching, Some((bytes, total)), _) => {
                self.bar.set_length(total);
                self.bar.set_position(bytes);
                self.pace.note(bytes);
                self.bar.set_prefix(self.pace.told(total.saturating_sub(bytes)));
            }
            (JobView::Share, _, Some(share)) => self.bar.set_position(share_of_bar(share)),
            _ => {}
        }
        self.bar.set_message(of_job(report));
        if is_new {
            self.bar.set_style(style(match shows {
                JobView::Fetching => TRANSFER,
                JobView::Share => JOB,
                JobView::Time => WAITING,
            }));
        }
        self.bar.tick();
    }
}

/// How much of a bar a share from 0 to 1 is.
fn share_of_bar(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the bar's length"
    )]
    let filled = (share.clamp(0.0, 1.0) * BAR as f64) as u64;
    filled
}

/// Its state, and what is said of it.
fn of_job(report: &JobReport) -> String {
    if report.state == JobState::Fetching {
        let comes = |of: &&Transfer| of.total.is_none_or(|total| of.bytes < total);
        let names = report.transfers.iter().filter(comes).map(|of| harmless(&of.parameter));
        let names = names.collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            return format!("fetching {names}");
        }
    }
    match report.message.is_empty() {
        true => report.state.name().to_owned(),
        false => format!("{}: {}", report.state.name(), harmless(&report.message)),
    }
}

/// How much of a job's data is at the server and how much there will be, if that is known of all.
fn fetched(report: &JobReport) -> Option<(u64, u64)> {
    if report.state != JobState::Fetching {
        return None;
    }
    let totals = report.transfers.iter().map(|of| of.total).collect::<Option<Vec<u64>>>()?;
    let bytes = report.transfers.iter().map(|of| of.bytes).sum();
    let total = totals.iter().sum();
    (total > 0).then_some((bytes, total))
}

impl Drop for JobBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for so many bytes, moved by who handles them.
pub(crate) fn of_bytes(output: Output, doing: &'static str, total: u64) -> ProgressBar {
    let bar = hidden_unless_terminal(output);
    bar.set_style(style(PLAIN));
    bar.set_message(doing);
    bar.set_length(total);
    bar.set_style(style(OF_BYTES));
    bar
}

fn hidden_unless_terminal(output: Output) -> ProgressBar {
    // Indicatif itself hides a bar whose target is no terminal.
    let target =
        if output.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    ProgressBar::with_draw_target(None, target).with_style(style(PLAIN))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_understood() {
        for template in [TRANSFER, GROWING, WAITING, JOB, OF_BYTES, PLAIN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
