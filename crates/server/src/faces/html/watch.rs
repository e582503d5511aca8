//! Who looks at jobs. One task looks at each job that somebody watches, for all who do, and ends when nobody does any more: what
//! many open pages cost is what their connections cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, JobId, JobReport, LogStream, Principal, lock};
use fishplate_jobs::engine::Engine;
use fishplate_jobs::workspace::OutputStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// How often a watched job is looked at. (Its end is told at once.)
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Bytes of the end of a log that are shown, and kept while a job is watched.
pub(super) const SHOWN_LOG: u64 = 64 << 10;

/// When somebody who was refused may ask again.
const RETRY_REFUSED: Duration = Duration::from_secs(10);

/// The streams of a program, as their logs are told apart.
pub(super) const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// All who look at jobs.
#[derive(Debug)]
pub struct JobWatches {
    jobs: Arc<Mutex<HashMap<JobId, watch::Sender<Arc<JobView>>>>>,
    viewers: Arc<Semaphore>,
    most: usize,
    closing: watch::Sender<bool>,
}

/// A job as it is at one moment.
#[derive(Debug, Default)]
pub(super) struct JobView {
    /// Nothing, before the first look.
    pub(super) report: Option<Arc<JobReport>>,
    /// What its program wrote, by [`STREAMS`].
    pub(super) logs: [LogTail; 2],
    /// It has ended, or is gone.
    pub(super) ended: bool,
}

/// The end of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct LogTail {
    /// Bytes of text that were here and were dropped.
    pub(super) dropped: u64,
    pub(super) text: Arc<str>,
}

impl LogTail {
    /// The same with more behind it, and no more than is shown.
    fn with(&self, more: &str) -> Self {
        let mut text = [&self.text, more].concat();
        let mut cut = text.len().saturating_sub(usize::try_from(SHOWN_LOG).unwrap_or(usize::MAX));
        while !text.is_char_boundary(cut) {
            cut += 1;
        }
        text.drain(..cut);
        Self { dropped: self.dropped + cut as u64, text: text.into() }
    }

    /// What is behind so many bytes of all its text; and whether what is between has been dropped.
    pub(super) fn after(&self, seen: u64) -> (bool, &str) {
        let at = seen.checked_sub(self.dropped).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.text.get(at..)) {
            Some(more) => (false, more),
            None => (true, &self.text),
        }
    }

    /// Bytes of all its text so far.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.text.len() as u64
    }
}

/// Somebody who looks at a job.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) view: watch::Receiver<Arc<JobView>>,
    pub(super) closing: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

/// The job that is watched.
#[derive(Clone, Debug)]
pub(super) struct WatchedJob {
    pub(super) engine: Engine,
    pub(super) owner: Principal,
    pub(super) service: String,
    pub(super) id: JobId,
}

impl JobWatches {
    /// With so many viewers at the most.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            jobs: Arc::default(),
            viewers: Arc::new(Semaphore::new(most)),
            most,
            closing: watch::Sender::new(false),
        }
    }

    /// Lets everybody go: the server stops.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// One more who looks at a job of theirs.
    ///
    /// # Errors
    /// `Unavailable`, if there are too many.
    pub(super) fn view(&self, job: WatchedJob) -> Result<Viewer, Fault> {
        let place = Arc::clone(&self.viewers).try_acquire_owned().map_err(|_| {
            let what = format!("{} browsers watch jobs of this server already", self.most);
            Fault::new(FaultCode::Unavailable, what)
                .limit("job_viewers", self.most)
                .retry_after(RETRY_REFUSED)
        })?;
        let mut jobs = lock(&self.jobs);
        let view = match jobs.get(&job.id) {
            Some(watched) => watched.subscribe(),
            None => {
                let (sender, view) = watch::channel(Arc::default());
                jobs.insert(job.id, sender.clone());
                tokio::spawn(follow(job, sender, Arc::clone(&self.jobs)));
                view
            }
        };
        Ok(Viewer { view, closing: self.closing.subscribe(), _place: place })
    }
}

type Watched = Mutex<HashMap<JobId, watch::Sender<Arc<JobView>>>>;

/// Looks at a job until it has ended, or nobody looks at it any more.
async fn follow(job: WatchedJob, views: watch::Sender<Arc<JobView>>, jobs: Arc<Watched>) {
    // Made before the first look, so that no end is missed.
    let end = job.engine.end_of(job.id);
    tokio::pin!(end);
    let (mut offsets, mut told) = ([None; 2], false);
    loop {
        let last = Arc::clone(&views.borrow());
        let view = job.look(&last, &mut offsets).await;
        let ended = view.ended;
        views.send_if_modified(|current| {
            let is_new = !view.is_as(current);
            if is_new {
                *current = Arc::new(view);
            }
            is_new
        });
        if ended {
            lock(&jobs).remove(&job.id);
            return;
        }
        tokio::select! {
            () = &mut end, if !told => told = true,
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = views.closed() => {
                let mut jobs = lock(&jobs);
                // Nobody comes while it is held.
                if views.is_closed() {
                    jobs.remove(&job.id);
                    return;
                }
            }
        }
    }
}

impl JobView {
    fn is_as(&self, other: &Self) -> bool {
        let ends = |view: &Self| [view.logs[0].end(), view.logs[1].end()];
        self.report == other.report && self.ended == other.ended && ends(self) == ends(other)
    }
}

impl WatchedJob {
    /// The job as it is now, after `last`. What can't be told now is as it was.
    async fn look(&self, last: &JobView, offsets: &mut [Option<u64>; 2]) -> JobView {
        let (report, gone) = match self.engine.status(&self.owner, &self.service, self.id).await {
            Ok(report) => (Some(Arc::new(report)), false),
            Err(fault) => (last.report.clone(), fault.code == FaultCode::NoSuchJob),
        };
        // Its state was read before its log: the last look finds all of it.
        let ended = gone || report.as_ref().is_some_and(|report| report.state.is_final());
        let mut logs = last.logs.clone();
        for ((log, offset), stream) in logs.iter_mut().zip(offsets).zip(STREAMS) {
            if let Some(more) = self.written(stream, offset).await.filter(|more| !more.is_empty()) {
                *log = log.with(&more);
            }
        }
        JobView { report, logs, ended }
    }

    /// What a stream has had since.
    async fn written(&self, stream: LogStream, offset: &mut Option<u64>) -> Option<String> {
        let Self { engine, owner, service, id } = self;
        let output = output(stream);
        let (from, is_first) = match *offset {
            Some(from) => (from, false),
            None => {
                let length = engine.log_length(owner, service, *id, output).await.ok()?;
                (length.saturating_sub(SHOWN_LOG), true)
            }
        };
        let mut text = String::new();
        let mut next = from;
        // A page is more than is shown; who writes faster than that is shown the end of it.
        loop {
            let page = engine.log(owner, service, *id, output, next).await.ok()?;
            let done = page.end || page.text.is_empty() || page.next == next;
            text.push_str(&page.text);
            next = page.next;
            if done || text.len() as u64 >= SHOWN_LOG {
                break;
            }
        }
        *offset = Some(next);
        Some(if is_first && from > 0 { from_line(&text).to_owned() } else { text })
    }
}

/// The stream of a workspace.
pub(super) fn output(stream: LogStream) -> OutputStream {
    match stream {
        LogStream::Stdout => OutputStream::Stdout,
        LogStream::Stderr => OutputStream::Stderr,
    }
}

/// A text from its first whole line on.
pub(super) fn from_line(text: &str) -> &str {
    text.split_once('\n').map_or(text, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_from_where_it_was_seen_and_anew_if_that_is_gone() {
        let mut log = LogTail::default().with("one\n");
        let seen = log.end();
        log = log.with("tw\u{f6}\n");
        assert_eq!(log.after(seen), (false, "tw\u{f6}\n"));
        assert_eq!(log.after(log.end()), (false, ""));
        // More than is kept: cut between characters.
        let long = "\u{f6}".repeat(40_000);
        log = log.with(&long);
        assert!(log.text.len() as u64 <= SHOWN_LOG && log.dropped > seen);
        let (anew, all) = log.after(seen);
        assert!(anew && all == &*log.text);
        assert_eq!(log.end(), 9 + 80_000);
    }
}
