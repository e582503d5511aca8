//! What a process tells its launcher of itself: waits that last, and what was sent.
//!
//! Only who is about to sleep looks whether it is time: who has something to do pays nothing.

use std::time::{Duration, Instant};

use crate::header::RequestId;
use crate::matching::Pattern;
use crate::process::{Process, State};
use crate::status::{RankStatus, Wait};

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitFor<'a> {
    /// A request.
    Request(RequestId),
    /// One of several.
    Any(&'a [RequestId]),
    /// A message, which it does not receive.
    Message(Pattern),
    /// Some of what is under way, which only the caller can judge.
    Pending,
    /// The end of what has to arrive before the process leaves.
    Leave,
}

/// Takes a status, if it can now.
pub type StatusSink = Box<dyn FnMut(&RankStatus) -> bool + Send>;

/// Who looks on.
pub(super) struct Reports {
    sink: StatusSink,
    interval: Duration,
    /// Not before that again.
    next: Instant,
    /// The last that was told has a wait.
    waiting: bool,
}

impl Process {
    /// Has `sink` told what this process waits for, once that takes longer than `long_wait`, and what it sent, as often at most.
    pub fn observe(&self, sink: StatusSink) {
        let interval = self.settings.long_wait;
        let next = Instant::now() + interval;
        self.with(|state| {
            state.reports = Some(Reports { sink, interval, next, waiting: false });
        });
    }
}

impl State {
    /// Somebody is about to sleep, since `since` for the first time: tells that, if it is time; when it is again.
    pub(super) fn report(
        &mut self,
        wait: WaitFor<'_>,
        since: Instant,
        now: Instant,
    ) -> Option<Instant> {
        let Reports { interval, next, waiting, .. } = *self.reports.as_ref()?;
        let long = since + interval;
        let is_long = now >= long;
        let is_news = self.changed || (is_long && !waiting);
        if now < next || !is_news {
            let at = if is_long { is_news.then_some(next) } else { Some(long) };
            return at.map(|at| at.max(next));
        }
        let wait = is_long.then(|| {
            let time = now.duration_since(since).as_millis();
            let milliseconds = u64::try_from(time).unwrap_or(u64::MAX);
            Wait { milliseconds, ..self.describe(wait) }
        });
        let told = self.tell_status(wait, now);
        if is_long && told { None } else { Some(now + interval) }
    }

    /// The same of who never sleeps.
    pub(super) fn report_traffic(&mut self, now: Instant) {
        if self.changed && self.reports.as_ref().is_some_and(|reports| now >= reports.next) {
            self.tell_status(None, now);
        }
    }

    /// A wait is over, which may have been told.
    pub(super) fn end_wait(&mut self) {
        if self.reports.as_ref().is_some_and(|reports| reports.waiting) {
            self.tell_status(None, Instant::now());
        }
    }

    /// Tells the status; whether it was taken.
    pub(super) fn tell_status(&mut self, wait: Option<Wait>, now: Instant) -> bool {
        let Some(mut reports) = self.reports.take() else { return false };
        let (waits, clients) = (wait.is_some(), self.transport.has_clients());
        let told = (reports.sink)(&RankStatus { wait, clients, traffic: self.engine.traffic() });
        if told {
            (self.changed, reports.waiting) = (false, waits);
        }
        reports.next = now + reports.interval;
        self.reports = Some(reports);
        told
    }

    fn describe(&self, wait: WaitFor<'_>) -> Wait {
        let union = |requests: &[RequestId]| {
            Wait::union(
                requests.iter().filter_map(|&request| self.describe_request(request)).collect(),
            )
        };
        match wait {
            // Several threads wait, each for something of its own.
            _ if self.followers > 0 => union(&self.engine.pending()),
            WaitFor::Request(request) => union(&[request]),
            WaitFor::Any(requests) => union(requests),
            WaitFor::Message(pattern) => self.engine.wait_for_message("probe", pattern),
            WaitFor::Pending => union(&self.engine.pending()),
            WaitFor::Leave => {
                Wait { call: "finalize".to_owned(), ..union(&self.engine.undrained()) }
            }
        }
    }

    fn describe_request(&self, request: RequestId) -> Option<Wait> {
        let Some(running) = self.running.iter().find(|running| running.request == request) else {
            return self.engine.wait_of(request);
        };
        let waits = running.pending().iter().filter_map(|&request| self.engine.wait_of(request));
        // It needs all of them: those that are under way come anyway.
        let waits: Vec<Wait> = waits.filter(|wait| !wait.moving).collect();
        let mut ranks: Vec<_> = waits.iter().flat_map(|wait| wait.ranks.clone()).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let call = running.schedule.name.to_owned();
        let moving = ranks.is_empty();
        Some(Wait { all: true, moving, ..Wait::any_of(call, ranks) })
    }
}
