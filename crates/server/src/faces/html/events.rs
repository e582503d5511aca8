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

use super::watch::{JobView, STREAMS, Shown, Viewer, WatchedJob};
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
        shown: None,
        until: Instant::now() + LONGEST,
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
    /// What it shows; nothing yet.
    shown: Option<Shown>,
    until: Instant,
    ended: bool,
}

impl Events {
    fn stream(self) -> Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>> {
        Box::pin(stream::unfold(self, |mut events| async move {
            let next = events.next().await?;
            Some((Ok(next), events))
        }))
    }

    /// What is to be told next; `None`: nothing more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            let view = Arc::clone(&self.viewer.view.borrow_and_update());
            self.ended = view.ended;
            let told = self.news(&view);
            if !told.is_empty() {
                return Some(told);
            }
            let Viewer { view, closing, .. } = &mut self.viewer;
            tokio::select! {
                changed = view.changed() => changed.ok()?,
                () = sleep(KEEP_ALIVE) => return Some(Bytes::from_static(b":\n\n")),
                () = sleep_until(self.until) => return None,
                () = async { let _ = closing.wait_for(|closing| *closing).await; } => return None,
            }
        }
    }

    /// What it does not show of a view. Most show what was before it: what these are told is made once.
    fn news(&mut self, view: &JobView) -> Bytes {
        let number = |shown: &Option<Shown>| shown.as_ref().map(|shown| shown.number);
        let is_next = self.shown.is_some() && number(&self.shown) == number(&view.before);
        let told = if is_next {
            let news = &view.news[usize::from(self.shows_log)];
            news.get_or_init(|| told(view, view.before.as_ref(), self.shows_log)).clone()
        } else {
            told(view, self.shown.as_ref(), self.shows_log)
        };
        self.shown.clone_from(&view.shown);
        told
    }
}

/// What of a view is not shown yet to who is shown this.
fn told(view: &JobView, shown: Option<&Shown>, shows_log: bool) -> Bytes {
    let mut told = String::new();
    if shown.is_none() && (view.shown.is_some() || view.ended) {
        told.push_str(RETRY);
    }
    if let Some(now) = &view.shown {
        if shown.is_none_or(|shown| shown.state != now.state) {
            told.push_str("event: state\n");
            // Either ends a line of an event.
            now.state.split(['\n', '\r']).for_each(|line| {
                let _ = writeln!(told, "data: {line}");
            });
            told.push('\n');
        }
        for (at, (log, stream)) in view.logs.iter().zip(STREAMS).enumerate() {
            let seen = shown.map(|shown| shown.ends[at]);
            let (anew, text) = seen.map_or((true, &*log.text), |seen| log.after(seen));
            if shows_log && (seen.is_none() || !text.is_empty()) {
                let line = json!({ "stream": stream.name(), "text": text, "anew": anew });
                let _ = write!(told, "event: log\ndata: {line}\n\n");
            }
        }
    }
    if view.ended {
        told.push_str("event: end\ndata:\n\n");
    }
    told.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_what_was_before_is_told_the_same_as_who_is_told_alone() {
        let first = JobView::default().then("<p>runs</p>", "one\n", false);
        let second = first.then("<p>runs</p>", "two\n", false);
        let third = second.then("<p>done\nwell</p>", "", true);
        let text = |told: Bytes| String::from_utf8(told.to_vec()).unwrap();
        let begin = text(told(&first, None, true));
        assert!(begin.starts_with(RETRY) && begin.contains("data: <p>runs</p>\n\n"), "{begin}");
        assert!(begin.contains(r#""text":"one\n""#) && begin.contains(r#""anew":true"#), "{begin}");
        let more = text(told(&second, first.shown.as_ref(), true));
        assert!(!more.contains("event: state") && more.contains(r#""text":"two\n""#), "{more}");
        assert_eq!(text(told(&second, first.shown.as_ref(), false)), "");
        // Who was slow has not seen the second.
        let both = text(told(&third, first.shown.as_ref(), true));
        assert!(both.contains("data: <p>done\ndata: well</p>\n\n"), "{both}");
        assert!(
            both.contains(r#""text":"two\n""#) && both.ends_with("event: end\ndata:\n\n"),
            "{both}"
        );
        let last = text(told(&third, second.shown.as_ref(), true));
        assert!(!last.contains("two") && last.contains("done"), "{last}");
    }
}
