//! What a process tells its launcher of itself: waits that last, and what was sent.
//!
//! Only who is about to sleep looks whether it is time: who has something to do pays nothing.

use std::time::{Duration, Instant};

use crate::collective::schedule::Running;
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
        // What another thread waited for is complete, and it is about to go on.
        if self.woken > 0 {
            return Some(now + interval);
        }
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

    /// Another thread waits now than when the status was told.
    pub(super) fn is_outdated(&self) -> bool {
        self.changed && self.reports.as_ref().is_some_and(|reports| reports.waiting)
    }

    /// A thread begins to wait.
    pub(super) fn begin_wait(&mut self, wait: WaitFor<'_>) {
        if let WaitFor::Message(pattern) = wait {
            self.probes.push(pattern);
        }
    }

    /// The wait is over, which may have been told.
    pub(super) fn end_wait(&mut self, wait: WaitFor<'_>) {
        if let WaitFor::Message(pattern) = wait
            && let Some(at) = self.probes.iter().position(|of| *of == pattern)
        {
            self.probes.swap_remove(at);
        }
        if self.reports.as_ref().is_some_and(|reports| reports.waiting)
            && !self.tell_status(None, Instant::now())
        {
            // Nobody took it: it is told with the next, not at the end of each wait again.
            self.changed = true;
            self.reports.iter_mut().for_each(|reports| reports.waiting = false);
        }
    }

    /// Tells the status; whether it was taken.
    pub(super) fn tell_status(&mut self, wait: Option<Wait>, now: Instant) -> bool {
        let Some(mut reports) = self.reports.take() else { return false };
        let (waits, clients) = (wait.is_some(), self.transport.has_clients());
        let (traffic, routes) = (self.engine.traffic(), self.transport.routes());
        let omitted_routes = 0;
        let told = (reports.sink)(&RankStatus { wait, clients, traffic, routes, omitted_routes });
        if told {
            (self.changed, reports.waiting) = (false, waits);
        }
        reports.next = now + reports.interval;
        self.reports = Some(reports);
        told
    }

    /// Tells what was exchanged, for the last time.
    pub(super) fn end_reports(&mut self) {
        self.tell_status(None, Instant::now());
        self.reports = None;
    }

    fn describe(&self, wait: WaitFor<'_>) -> Wait {
        let mut wanted = match wait {
            WaitFor::Request(request) => vec![request],
            WaitFor::Any(requests) => requests.to_vec(),
            WaitFor::Message(_) => Vec::new(),
            WaitFor::Pending => self.engine.pending(),
            WaitFor::Leave => self.engine.undrained(),
        };
        // Other threads wait for something of their own; other schedules go forward, and send, though nobody waits for them.
        let is_wanted = |running: &Running| wanted.contains(&running.request);
        let alone = self.followers == 0 && self.running.iter().all(is_wanted);
        if !alone {
            wanted = self.engine.pending();
        }
        let requests = wanted.iter().filter_map(|&request| self.describe_request(request));
        let probe = |&pattern: &Pattern| self.engine.wait_for_message("probe", pattern);
        let waits: Vec<Wait> = requests.chain(self.probes.iter().map(probe)).collect();
        let described = Wait::union(&waits);
        match wait {
            WaitFor::Leave if alone => Wait { call: "finalize".to_owned(), ..described },
            _ => described,
        }
    }

    fn describe_request(&self, request: RequestId) -> Option<Wait> {
        let Some(running) = self.running.iter().find(|running| running.request == request) else {
            return self.engine.wait_of(request);
        };
        let waits = running.pending().filter_map(|request| self.engine.wait_of(request));
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
