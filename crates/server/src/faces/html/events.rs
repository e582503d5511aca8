//! A job as it goes on, as server-sent events (HTML, section 9.2): `state` (its part of the page), `log` (what its program wrote, JSON),
//! `end`. Each connection begins with all there is to tell, so that whoever comes back needs nothing of before.

use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, Verb};
use futures_util::stream::{self, Stream};
use hyper::StatusCode;
use hyper::header::{self, HeaderName};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::job;
use super::watch::{JobView, STREAMS, Viewer, WatchedJob};
use crate::dispatch::authorise::{Access, Action};
use crate::faces::ogc::CallersJob;
use crate::host::PublicAddress;
use crate::http::{HttpBody, HttpResponse, reply_with};

/// How long nothing is told before it is told that nothing is: else proxies take the connection for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a connection lasts. Its browser comes back, and shows anew who it is.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Has proxies pass on what comes at once (nginx and others).
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How a browser that lost the connection tries again: after so many milliseconds.
const RETRY: &str = "retry: 2000\n\n";

/// The answer to who wants to know how a job goes on.
///
/// # Errors
/// `Forbidden`; `Unavailable`, if too many do; `NotSupported` of a script.
pub(crate) async fn reply(job: &CallersJob<'_>) -> Result<HttpResponse, Fault> {
    // Whoever may not ask how it stands is told nothing.
    job.report().await?;
    if job.host.place() == PublicAddress::At {
        let what = "a script tells of no events: ask again";
        return Err(Fault::new(FaultCode::NotSupported, what));
    }
    let access = Access {
        principal: job.caller,
        service: &job.job.service,
        operation: "",
        action: Action::Verb(Verb::Log),
    };
    let viewer = job.host.watches.view(WatchedJob {
        engine: job.host.engine.clone(),
        owner: job.caller.clone(),
        service: job.job.service.clone(),
        id: job.job.id,
    })?;
    let events = Events {
        viewer,
        shows_log: job.host.authoriser.authorise(&access).is_ok(),
        state: String::new(),
        seen: [None; 2],
        until: Instant::now() + LONGEST,
        begun: false,
        ended: false,
    };
    let fields = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (NO_BUFFERING, "no"),
    ];
    Ok(reply_with(StatusCode::OK, &fields, HttpBody::stream(events.stream())))
}

/// What one browser was told, and is to be told.
struct Events {
    viewer: Viewer,
    shows_log: bool,
    /// The state that it shows.
    state: String,
    /// How much of each log it has; `None`: nothing yet.
    seen: [Option<u64>; 2],
    until: Instant,
    begun: bool,
    ended: bool,
}

impl Events {
    fn stream(self) -> Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>> {
        Box::pin(stream::unfold(self, |mut events| async move {
            let next = events.next().await?;
            Some((Ok(Bytes::from(next)), events))
        }))
    }

    /// What is to be told next; `None`: nothing more.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.ended {
                return None;
            }
            let view = Arc::clone(&self.viewer.view.borrow_and_update());
            let mut told = self.news(&view);
            if !std::mem::replace(&mut self.begun, true) {
                told.insert_str(0, RETRY);
            }
            if view.ended {
                self.ended = true;
                told.push_str("event: end\ndata:\n\n");
            }
            if !told.is_empty() {
                return Some(told);
            }
            let Viewer { view, closing, .. } = &mut self.viewer;
            tokio::select! {
                changed = view.changed() => changed.ok()?,
                () = sleep(KEEP_ALIVE) => return Some(":\n\n".to_owned()),
                () = sleep_until(self.until) => return None,
                () = async { let _ = closing.wait_for(|closing| *closing).await; } => return None,
            }
        }
    }

    /// What it does not have of a view.
    fn news(&mut self, view: &JobView) -> String {
        let mut told = String::new();
        let Some(report) = &view.report else { return told };
        let state = job::state(report);
        if state != self.state {
            told.push_str("event: state\n");
            // Either ends a line of an event.
            state.split(['\n', '\r']).for_each(|line| {
                let _ = writeln!(told, "data: {line}");
            });
            told.push('\n');
            self.state = state;
        }
        if !self.shows_log {
            return told;
        }
        for ((log, seen), stream) in view.logs.iter().zip(&mut self.seen).zip(STREAMS) {
            let (anew, text) = seen.map_or((true, &*log.text), |seen| log.after(seen));
            if seen.is_none() || !text.is_empty() {
                let line = json!({ "stream": stream.name(), "text": text, "anew": anew });
                let _ = write!(told, "event: log\ndata: {line}\n\n");
            }
            *seen = Some(log.end());
        }
        told
    }
}
