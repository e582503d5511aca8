//! The jobs of who looks, newest first, with a form that chooses some of them.

use std::fmt::Write as _;

use fishplate_contract::interface::OGC;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{Clock as _, JobReport, JobState, Principal, SystemClock, Timestamp};
use fishplate_formats::units;

use super::page::Page;
use crate::dispatch::report::date_time;
use crate::faces::ogc::ProcessId;
use crate::host::Host;

/// Jobs of one page, if nobody says how many.
pub(crate) const ROWS: usize = 50;

/// What can be chosen of states: the standard's word, and ours.
const STATES: [(&str, &str); 5] = [
    ("accepted", "waiting"),
    ("running", "running"),
    ("successful", "done"),
    ("failed", "failed"),
    ("dismissed", "killed"),
];

/// The page. `chosen` gives what was asked for by the name of its field; `next` is the query for older jobs.
pub(crate) fn page(
    host: &Host,
    caller: &Principal,
    chosen: &dyn Fn(&str) -> String,
    jobs: &[JobReport],
    next: Option<&str>,
) -> String {
    let mut body = String::from("<h1>Jobs</h1>\n");
    form(&mut body, host, caller, chosen);
    let path = format!("{}/{OGC}/jobs", escaped(host.public_path()));
    let is_chosen =
        ["processID", "status", "from", "to", "after"].iter().any(|it| !chosen(it).is_empty());
    if jobs.is_empty() {
        nothing(&mut body, host, &path, is_chosen);
    } else {
        table(&mut body, host, jobs);
    }
    body.push_str("<p class=\"pages\">");
    if !chosen("after").is_empty() {
        let _ = write!(body, "<a href=\"{path}\">Newest jobs</a> ");
    }
    if let Some(next) = next {
        let _ = write!(body, "<a rel=\"next\" href=\"{path}?{}\">Older jobs</a>", escaped(next));
    }
    body.push_str("</p>\n");
    Page { title: "Jobs", ..Page::default() }.write(host, Some(caller), &body)
}

fn form(body: &mut String, host: &Host, caller: &Principal, chosen: &dyn Fn(&str) -> String) {
    let option = |value: &str, label: &str, chosen: &str| {
        let selected = if value == chosen { " selected" } else { "" };
        format!("<option value=\"{}\"{selected}>{}</option>", escaped(value), escaped(label))
    };
    let (process, status) = (chosen("processID"), chosen("status"));
    let mut processes = option("", "all", &process);
    for entry in host.services_for(caller).filter(|entry| !entry.is_built_in()) {
        let service = entry.service();
        if !caller.is_for(&service.name) {
            continue;
        }
        for operation in &service.operations {
            let id = ProcessId { service: &service.name, operation: &operation.name }.to_string();
            processes.push_str(&option(&id, &id, &process));
        }
    }
    let mut states = option("", "all", &status);
    for (value, label) in STATES {
        states.push_str(&option(value, label, &status));
    }
    let day = |name: &str, label: &str| {
        let value = escaped(&chosen(name));
        format!("<label>{label} <input type=\"date\" name=\"{name}\" value=\"{value}\"></label>\n")
    };
    let _ = writeln!(
        body,
        "<form class=\"filter\" method=\"get\" action=\"{}/{OGC}/jobs\">\n\
         <label>Service <select name=\"processID\">{processes}</select></label>\n\
         <label>State <select name=\"status\">{states}</select></label>\n\
         {}{}<button>Show</button>\n</form>",
        escaped(host.public_path()),
        day("from", "From"),
        day("to", "To"),
    );
}

/// What to do where there is no job to show.
fn nothing(body: &mut String, host: &Host, path: &str, is_chosen: bool) {
    let _ = if is_chosen {
        writeln!(body, "<p>There are none like this. <a href=\"{path}\">Show all jobs</a></p>")
    } else {
        let base = escaped(host.public_path());
        writeln!(
            body,
            "<p>You have none here yet. Choose a <a href=\"{base}/\">service</a> and run it: what you run stands here, \
             also what you began from a program.</p>"
        )
    };
}

fn table(body: &mut String, host: &Host, jobs: &[JobReport]) {
    let base = escaped(host.public_path());
    let now = SystemClock.now();
    body.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Jobs\"><table class=\"jobs\">\n<thead><tr>\
         <th scope=\"col\">job</th><th scope=\"col\">service</th><th scope=\"col\">state</th>\
         <th scope=\"col\">accepted (UTC)</th><th scope=\"col\">ran for</th><th scope=\"col\">results</th></tr></thead>\n<tbody>\n",
    );
    for job in jobs {
        let (id, state) = (job.id.to_string(), job.state.name());
        let process = ProcessId { service: &job.service, operation: &job.operation }.to_string();
        let results = match job.state {
            JobState::Done => {
                format!(
                    "<a href=\"{base}/{OGC}/jobs/{id}/results\" aria-label=\"results of job {}\">results</a>",
                    &id[..8]
                )
            }
            _ => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><td><a href=\"{base}/{OGC}/jobs/{id}\"><code>{}</code></a></td>\
             <td><a href=\"{base}/{}\">{}</a></td><td><span class=\"pill {state}\">{state}</span>{}</td>\
             <td>{}</td><td>{}</td><td>{results}</td></tr>",
            &id[..8],
            escaped(&job.service),
            escaped(&process),
            progress(job),
            time(job.submitted),
            duration(job, now),
        );
    }
    body.push_str("</tbody></table></div>\n");
}

/// How far one is that runs, if its program tells.
fn progress(job: &JobReport) -> String {
    match (job.state, job.progress) {
        (JobState::Running, Some(share)) => format!(" {:.0} %", share.clamp(0.0, 1.0) * 100.0),
        _ => String::new(),
    }
}

/// A moment (UTC) to the second.
pub(super) fn time(at: Timestamp) -> String {
    let whole = date_time(Timestamp(at.0 - at.0.rem_euclid(1000)));
    let shown = whole.trim_end_matches('Z').replace('T', " ");
    format!("<time datetime=\"{whole}\">{shown}</time>")
}

/// How long a job ran, or runs.
fn duration(job: &JobReport, now: Timestamp) -> String {
    let Some(started) = job.started else { return String::new() };
    let took = job.ended.unwrap_or(now).since(started);
    units::rounded_time(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_to_the_second() {
        assert_eq!(
            time(Timestamp(1_795_229_232_123)),
            "<time datetime=\"2026-11-21T02:47:12Z\">2026-11-21 02:47:12</time>"
        );
    }
}
