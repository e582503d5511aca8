//! A job: how it stands, what it was given, what its program writes, what came of it; to be ended, removed, or run again with
//! something changed.

use std::fmt::Write as _;
use std::time::Duration;

use fishplate_contract::interface::OGC;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{
    Clock as _, Fault, JobReport, JobState, LogPage, LogStream, SystemClock, Timestamp,
};
use fishplate_formats::units;

use super::page::{self, Page, local};
use super::preview;
use super::watch::{SHOWN_LOG, STREAMS, from_line, output};
use crate::dispatch::report::date_time;
use crate::faces::ogc::{CallersJob, GivenInput, GivenValue};
use crate::host::PublicAddress;
use crate::http::HttpResponse;

/// Without scripts, the page of a job that goes on is loaded again after so many seconds.
const AGAIN: u32 = 5;

/// Characters of an input that are shown.
const SHOWN_INPUT: usize = 200;

/// The page of a job.
///
/// # Errors
/// As of the verb `status`.
pub(crate) async fn page(job: &CallersJob<'_>) -> Result<HttpResponse, Fault> {
    let report = job.report().await?;
    let (host, id) = (job.host, report.id);
    let base = format!("{}/{OGC}/jobs/{id}", host.public_path());
    let base = escaped(&base);
    let service = job.entry.service();
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"quiet\"><a href=\"{}\">{}</a> job <code>{id}</code></p>\n",
        escaped(&service.title),
        escaped(local(host, &job.entry.url)),
        escaped(&service.name),
    );
    let goes_on = !report.state.is_final();
    let events = if goes_on { format!(" data-events=\"{base}/events\"") } else { String::new() };
    let _ = writeln!(body, "<div id=\"job\"{events}>\n<section id=\"state\" aria-live=\"polite\">");
    body.push_str(&state(&report));
    body.push_str("</section>\n");
    actions(&mut body, job, &report, &base);
    if report.state == JobState::Done {
        let _ = writeln!(
            body,
            "<section id=\"results\"><h2>Results</h2>\n{}</section>",
            results(job).await
        );
    }
    given(&mut body, job);
    logs(&mut body, job, &base).await;
    body.push_str("</div>\n");
    if goes_on {
        body.push_str(
            "<p id=\"live\" role=\"status\">This page is loaded again now and then.</p>\n",
        );
    }
    let follows = goes_on && host.place() == PublicAddress::Below;
    let page = Page {
        title: &format!("{}: {}", service.title, report.state.name()),
        scripts: if follows { &["job.js"] } else { &[] },
        again_after: goes_on.then_some(AGAIN),
    };
    Ok(page::reply(200, page.write(host, Some(job.caller), &body)))
}

/// The beginning of a page about a part of a job.
fn part_of(job: &CallersJob<'_>, heading: &str) -> String {
    let base = escaped(job.host.public_path());
    let (title, id) = (escaped(&job.entry.service().title), job.job.id);
    let heading = escaped(heading);
    format!(
        "<h1>{heading}</h1>\n<p class=\"quiet\">{title}, <a href=\"{base}/{OGC}/jobs/{id}\">job <code>{id}</code></a></p>\n"
    )
}

/// A piece of what a job's program wrote.
pub(crate) fn log_page(job: &CallersJob<'_>, stream: &str, piece: &LogPage) -> String {
    let mut body = part_of(job, &format!("Log: {stream}"));
    let log = format!("{}/{OGC}/jobs/{}/log?stream={stream}", job.host.public_path(), job.job.id);
    let log = escaped(&log);
    let _ = writeln!(
        body,
        "<pre class=\"log\" tabindex=\"0\" role=\"log\" aria-label=\"{stream}\">\n{}</pre>",
        escaped(&piece.text)
    );
    if !piece.end {
        let next = piece.next;
        let _ = writeln!(
            body,
            "<p><a rel=\"next\" href=\"{log}&amp;offset={next}\">What is written from here on</a></p>"
        );
    }
    let _ = writeln!(body, "<p><a href=\"{log}&amp;f=text\">As text, from its beginning</a></p>");
    Page { title: "Log", ..Page::default() }.write(job.host, Some(job.caller), &body)
}

/// The page of one output.
///
/// # Errors
/// As of the verb `results`.
pub(crate) async fn output_page(job: &CallersJob<'_>, name: &str) -> Result<HttpResponse, Fault> {
    let shown = preview::results(job.host, job.entry, job.caller, &job.job, Some(name)).await?;
    let body = part_of(job, name) + &shown;
    let page = Page { title: name, ..Page::default() };
    Ok(page::reply(200, page.write(job.host, Some(job.caller), &body)))
}

/// How a job stands: what is told anew as it goes on.
pub(super) fn state(report: &JobReport) -> String {
    let name = report.state.name();
    let mut told = format!("<p><span class=\"pill {name}\">{name}</span></p>\n");
    if !report.message.is_empty() {
        let _ = writeln!(told, "<p class=\"message\">{}</p>", escaped(report.message.trim_end()));
    }
    if report.state == JobState::Running
        && let Some(share) = report.progress
    {
        let percent = share.clamp(0.0, 1.0) * 100.0;
        let left = left(report, SystemClock.now())
            .map_or_else(String::new, |left| format!(", {} left at this pace", rounded(left)));
        let _ = writeln!(
            told,
            "<p><progress max=\"100\" value=\"{percent:.1}\" aria-label=\"Progress\"></progress>{percent:.0} % done{left}</p>"
        );
    }
    moments(&mut told, report);
    transfers(&mut told, report);
    told
}

/// How long a job goes on if it goes on as it has; nothing, before there is something to go by.
fn left(report: &JobReport, now: Timestamp) -> Option<Duration> {
    let (share, started) = (report.progress?, report.started?);
    (0.01..1.0).contains(&share).then(|| now.since(started).mul_f64((1.0 - share) / share))
}

fn rounded(of: Duration) -> String {
    units::rounded_time(u64::try_from(of.as_millis()).unwrap_or(u64::MAX))
}

fn moments(told: &mut String, report: &JobReport) {
    let moment = |at: Timestamp| {
        let at = date_time(at);
        let shown = at.replace('T', " ");
        let shown = shown.split('.').next().unwrap_or(&shown).trim_end_matches('Z');
        format!("<time datetime=\"{at}\">{shown} UTC</time>")
    };
    let mut all = vec![("Accepted", moment(report.submitted))];
    all.extend(report.started.map(|at| ("Started", moment(at))));
    all.extend(report.ended.map(|at| ("Ended", moment(at))));
    if let (Some(started), Some(ended)) = (report.started, report.ended) {
        all.push(("Took", rounded(ended.since(started))));
    }
    all.extend(report.exit_code.map(|code| ("Exit code", code.to_string())));
    all.extend(report.signal.as_ref().map(|signal| ("Signal", escaped(signal))));
    if let Some(usage) = report.usage {
        all.push((
            "Processor time",
            rounded(Duration::try_from_secs_f64(usage.cpu_seconds).unwrap_or_default()),
        ));
        all.push(("Memory", units::rounded(usage.max_memory)));
        all.push(("Disk", units::rounded(usage.disk)));
    }
    told.push_str("<dl class=\"moments\">\n");
    for (name, value) in all {
        let _ = writeln!(told, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    told.push_str("</dl>\n");
}

/// Data that comes or goes.
fn transfers(told: &mut String, report: &JobReport) {
    if report.transfers.is_empty() {
        return;
    }
    told.push_str("<table>\n<tr><th>data</th><th>at</th><th>state</th><th>bytes</th></tr>\n");
    for transfer in &report.transfers {
        let total = transfer.total.filter(|total| *total != transfer.bytes);
        let cached = if transfer.cached { ", was here" } else { "" };
        let of = total.map_or_else(String::new, |total| format!(" of {}", units::rounded(total)));
        let _ = writeln!(
            told,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}{cached}</td><td>{}{of}</td></tr>",
            escaped(&transfer.parameter),
            escaped(&transfer.peer),
            transfer.state.name(),
            units::rounded(transfer.bytes),
        );
    }
    told.push_str("</table>\n");
}

/// What can be done with it.
fn actions(body: &mut String, job: &CallersJob<'_>, report: &JobReport, base: &str) {
    body.push_str("<div class=\"actions\">\n");
    if job.process().is_ok() {
        let _ = writeln!(
            body,
            "<a class=\"button\" href=\"{}?from={}\">Run again with changes</a>",
            escaped(local(job.host, &job.entry.url)),
            report.id,
        );
    }
    body.push_str(&if report.state.is_final() {
        // Results can't be had back: it is asked once more.
        format!(
            "<details class=\"ask\"><summary class=\"button\">Remove</summary>\n\
             <form method=\"post\" action=\"{base}/remove\"><span>Its results and its log will be gone.</span> \
             <button class=\"bad\">Remove for good</button></form></details>\n</div>\n"
        )
    } else {
        format!("<form method=\"post\" action=\"{base}/kill\"><button class=\"bad\">Kill</button></form>\n</div>\n")
    });
}

/// What came of it.
async fn results(job: &CallersJob<'_>) -> String {
    let shown = preview::results(job.host, job.entry, job.caller, &job.job, None).await;
    shown.unwrap_or_else(|fault| {
        format!("<p class=\"alert\">{}</p>\n", escaped(fault.message.trim_end_matches('.')))
    })
}

/// What it was given.
fn given(body: &mut String, job: &CallersJob<'_>) {
    let given = job.given();
    if given.is_empty() {
        return;
    }
    body.push_str("<h2>Inputs</h2>\n<table>\n<tr><th>name</th><th>value</th></tr>\n");
    for GivenInput { name, value } in given.iter() {
        let value = match value {
            GivenValue::Text(text) => {
                let shown: String = text.chars().take(SHOWN_INPUT).collect();
                let more = if shown.len() < text.len() { " …" } else { "" };
                format!("<code>{}</code>{more}", escaped(&shown))
            }
            GivenValue::Url(url) => format!("at <code>{}</code>", escaped(url)),
            GivenValue::File(name) if name.is_empty() => "a file".to_owned(),
            GivenValue::File(name) => format!("the file {}", escaped(name)),
        };
        let _ = writeln!(body, "<tr><td><code>{}</code></td><td>{value}</td></tr>", escaped(name));
    }
    body.push_str("</table>\n");
}

/// The end of what its program wrote.
async fn logs(body: &mut String, job: &CallersJob<'_>, base: &str) {
    body.push_str("<h2>Log</h2>\n");
    let mut is_empty = true;
    for stream in STREAMS {
        let Ok((text, is_cut)) = tail(job, stream).await else { continue };
        is_empty &= text.is_empty();
        let name = stream.name();
        let hidden = if text.is_empty() { " hidden" } else { "" };
        let cut = if is_cut { " (its end)" } else { "" };
        let title = match stream {
            LogStream::Stdout => "Standard output",
            LogStream::Stderr => "Standard error",
        };
        let _ = writeln!(
            body,
            "<details open{hidden}><summary>{title}{cut}</summary>\n\
             <pre class=\"log\" id=\"{name}\" tabindex=\"0\" role=\"log\" aria-label=\"{title}\">\n{}</pre>\n\
             <p><a href=\"{base}/log?stream={name}&amp;f=text\">From its beginning</a></p></details>",
            escaped(&text)
        );
    }
    if is_empty && job.job.is_final {
        body.push_str("<p class=\"quiet\">Its program wrote nothing.</p>\n");
    }
}

/// The end of a log, and whether there is more before it.
async fn tail(job: &CallersJob<'_>, stream: LogStream) -> Result<(String, bool), Fault> {
    let (engine, service) = (&job.host.engine, job.job.service.as_str());
    let length = engine.log_length(job.caller, service, job.job.id, output(stream)).await?;
    let offset = length.saturating_sub(SHOWN_LOG);
    let page = job.log(stream.name(), offset).await?;
    Ok(match offset {
        0 => (page.text, false),
        _ => (from_line(&page.text).to_owned(), true),
    })
}

#[cfg(test)]
mod tests {
    use fishplate_contract::JobId;

    use super::*;

    fn report(state: JobState) -> JobReport {
        JobReport {
            id: JobId::from_bytes([1; 16]),
            service: "s".to_owned(),
            operation: "call".to_owned(),
            state,
            progress: None,
            message: String::new(),
            submitted: Timestamp(0),
            started: None,
            ended: None,
            exit_code: None,
            signal: None,
            usage: None,
            ended_by: String::new(),
            transfers: Vec::new(),
        }
    }

    #[test]
    fn what_a_program_says_is_no_markup() {
        let mut failed = report(JobState::Failed);
        failed.message = "<script>alert(1)</script>\nsecond".to_owned();
        let shown = state(&failed);
        assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
        assert!(shown.contains("<span class=\"pill failed\">failed</span>"), "{shown}");
    }

    #[test]
    fn what_is_left_is_told_once_there_is_something_to_go_by() {
        let mut running = report(JobState::Running);
        running.started = Some(Timestamp(0));
        let now = Timestamp(30_000);
        for (share, expected) in
            [(None, None), (Some(0.0), None), (Some(0.25), Some(90)), (Some(1.0), None)]
        {
            running.progress = share;
            assert_eq!(left(&running, now).map(|left| left.as_secs()), expected, "{share:?}");
        }
        running.progress = Some(0.25);
        assert!(state(&running).contains("value=\"25.0\""));
    }
}
