//! The list of a caller's jobs, newest first, and what it can be asked for (18-062r2, section 11).

use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{
    Clock as _, Fault, JobId, JobReport, JobState, Principal, SystemClock, Timestamp,
};
use hyper::http::request::Parts;
use serde_json::{Value, json};

use super::address::ProcessId;
use super::jobs::{listed, status_code};
use super::links::Link;
use super::query::{Query, invalid};
use crate::dispatch::job_list;
use crate::host::Host;

/// The most jobs of one answer, and how many there are if nobody says how many.
pub(super) const MOST: usize = 10_000;
pub(super) const DEFAULT: usize = 100;

/// The statuses that a job may have.
pub(super) const STATUSES: [&str; 5] = ["accepted", "running", "successful", "failed", "dismissed"];

/// Which jobs are wanted.
#[derive(Debug, Default)]
struct Wanted {
    /// None: of all processes.
    processes: Vec<(String, String)>,
    /// None: in whatever status.
    statuses: Vec<String>,
    /// Accepted between these.
    created: (Option<Timestamp>, Option<Timestamp>),
    /// They run, or ran, at least so long.
    least: Option<Duration>,
    /// They run, or ran, at most so long.
    most: Option<Duration>,
    /// Nothing is of the type that is asked for.
    is_nothing: bool,
}

impl Wanted {
    fn of(query: &Query) -> Result<Self, Fault> {
        let statuses: Vec<String> = query.all("status").map(str::to_owned).collect();
        if let Some(other) = statuses.iter().find(|it| !STATUSES.contains(&it.as_str())) {
            return Err(invalid("status", other, &STATUSES.join(", ")));
        }
        let process = |id: &str| {
            let id = ProcessId::of(id);
            (id.service.to_owned(), id.operation.to_owned())
        };
        let seconds = |name| -> Result<Option<Duration>, Fault> {
            const RIGHT: &str = "a number of seconds from 0";
            let seconds = query.read::<f64>(name, RIGHT)?;
            let of = |seconds| {
                Duration::try_from_secs_f64(seconds)
                    .map_err(|_| invalid(name, &seconds.to_string(), RIGHT))
            };
            seconds.map(of).transpose()
        };
        let mut types = query.all("type").peekable();
        let (from, to) = query.get("datetime").map(interval).transpose()?.unwrap_or_default();
        let (first, last) = (day_or_time(query, "from", false)?, day_or_time(query, "to", true)?);
        Ok(Self {
            processes: query.all("processID").map(process).collect(),
            statuses,
            created: (from.max(first), to.into_iter().chain(last).min()),
            least: seconds("minDuration")?,
            most: seconds("maxDuration")?,
            is_nothing: types.peek().is_some() && !types.any(|it| it == "process"),
        })
    }

    fn has(&self, job: &JobReport, now: Timestamp) -> bool {
        let process = (&job.service, &job.operation);
        let (from, to) = self.created;
        let duration = job.started.map(|started| job.ended.unwrap_or(now).since(started));
        let is_as_long = |test: &dyn Fn(Duration) -> bool| duration.is_some_and(test);
        (self.processes.is_empty()
            || self.processes.iter().any(|(service, operation)| (service, operation) == process))
            && (self.statuses.is_empty()
                || self.statuses.iter().any(|it| it == status_code(job.state)))
            && from.is_none_or(|from| job.submitted >= from)
            && to.is_none_or(|to| job.submitted <= to)
            && self.least.is_none_or(|least| is_as_long(&|it| it >= least))
            && self.most.is_none_or(|most| is_as_long(&|it| it <= most))
    }

    /// The one state that all of them have, if a store can look for it.
    fn state(&self) -> Option<JobState> {
        match self.statuses[..] {
            [ref one] if one == "running" => Some(JobState::Running),
            [ref one] if one == "successful" => Some(JobState::Done),
            [ref one] if one == "dismissed" => Some(JobState::Killed),
            _ => None,
        }
    }
}

/// A moment, or from one to another, of which `..` or nothing is open (RFC 3339, section 5.6).
fn interval(text: &str) -> Result<(Option<Timestamp>, Option<Timestamp>), Fault> {
    const RIGHT: &str = "a date and time such as 2026-11-23T08:00:00Z, or two with / between, of which one may be ..";
    let end = |part: &str| match part {
        "" | ".." => Ok(None),
        part => {
            let at: Result<jiff::Timestamp, _> = part.parse();
            at.map(|at| Some(Timestamp(at.as_millisecond())))
                .map_err(|_| invalid("datetime", text, RIGHT))
        }
    };
    match text.split_once('/') {
        None => {
            let at = end(text)?.ok_or_else(|| invalid("datetime", text, RIGHT))?;
            // All of the second, which is what the text says.
            Ok((Some(at), Some(at.after(Duration::from_millis(999)))))
        }
        Some((from, to)) => match (end(from)?, end(to)?) {
            (None, None) => Err(invalid("datetime", text, RIGHT)),
            both => Ok(both),
        },
    }
}

/// Some of the jobs that are asked for.
pub(super) struct FoundJobs {
    pub(super) jobs: Vec<JobReport>,
    /// The query for those that come after them, if there are any.
    pub(super) next: Option<String>,
}

/// A day or a time (UTC), as the fields of a form have it; of a day its beginning or, if it is the last one, its end. (The
/// standard has `datetime` for both, which no field of a form gives.)
fn day_or_time(query: &Query, name: &str, is_last: bool) -> Result<Option<Timestamp>, Fault> {
    const RIGHT: &str = "a day such as 2026-11-23, or a time such as 2026-11-23T08:00 (UTC)";
    let Some(text) = query.get(name).map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let wrong = || invalid(name, text, RIGHT);
    let is_day = !text.contains(['T', ' ']);
    let at: jiff::civil::DateTime = text.trim_end_matches('Z').parse().map_err(|_| wrong())?;
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| wrong())?.timestamp();
    let rest = if is_day { Duration::from_hours(24) } else { Duration::from_secs(1) };
    let at = Timestamp(at.as_millisecond());
    // The last millisecond of it.
    Ok(Some(if is_last { Timestamp(at.after(rest).0 - 1) } else { at }))
}

/// The jobs that are asked for, in JSON.
///
/// # Errors
/// What is wrong with the query; what the store says.
pub(super) async fn list(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
) -> Result<(Value, Vec<Link>), Fault> {
    let FoundJobs { jobs, next } = find(host, asked, caller, DEFAULT).await?;
    let mut links = vec![Link::new(host, "/jobs", "self", "Jobs")];
    if let Some(next) = next {
        links.push(Link::new(host, &format!("/jobs?{next}"), "next", "Older jobs"));
    }
    let jobs: Vec<Value> = jobs.iter().map(|report| listed(host, report)).collect();
    Ok((json!({ "jobs": jobs }), links))
}

/// The jobs that are asked for; so many, if nobody says how many.
///
/// # Errors
/// What is wrong with the query; what the store says.
pub(super) async fn find(
    host: &Host,
    asked: &Parts,
    caller: &Principal,
    default: usize,
) -> Result<FoundJobs, Fault> {
    let query = Query::of(asked);
    let limit = query.limit(default, MOST)?;
    let wanted = Wanted::of(&query)?;
    let mut after = query.read::<JobId>("after", "the ID of a job")?;
    let services: Vec<&str> =
        wanted.processes.iter().map(|(service, _)| service.as_str()).collect();
    let mut found = Vec::new();
    let mut more = !wanted.is_nothing;
    while more && found.len() <= limit {
        let page =
            job_list::page(host, caller, &services, wanted.state(), after, DEFAULTS.jobs_page)
                .await?;
        more = page.more;
        after = page.jobs.last().map(|job| job.id);
        let now = SystemClock.now();
        found.extend(page.jobs.into_iter().filter(|job| wanted.has(job, now)));
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| more);
    let next = last.map(|last| next(asked, last.id));
    Ok(FoundJobs { jobs: found, next })
}

/// The query for what comes after a job: otherwise the same.
fn next(asked: &Parts, after: JobId) -> String {
    let query = asked.uri.query().unwrap_or_default();
    let others = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("after="));
    others.map(str::to_owned).chain([format!("after={after}")]).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(
        submitted: i64,
        started: Option<i64>,
        ended: Option<i64>,
        state: JobState,
    ) -> JobReport {
        JobReport {
            id: JobId::from_bytes([1; 16]),
            service: "mesh".to_owned(),
            operation: "call".to_owned(),
            state,
            progress: None,
            message: String::new(),
            submitted: Timestamp(submitted),
            started: started.map(Timestamp),
            ended: ended.map(Timestamp),
            exit_code: None,
            signal: None,
            usage: None,
            ended_by: String::new(),
            transfers: Vec::new(),
        }
    }

    fn wanted(query: &str) -> Result<Wanted, Fault> {
        let request = hyper::Request::builder().uri(format!("/ogc/jobs?{query}")).body(()).unwrap();
        Wanted::of(&Query::of(&request.into_parts().0))
    }

    #[test]
    fn jobs_are_chosen_by_process_status_time_and_duration() {
        let job = report(1000, Some(2000), Some(5000), JobState::Done);
        for (query, has) in [
            ("", true),
            ("type=process", true),
            ("processID=mesh", true),
            ("processID=other,mesh%3Acall", true),
            ("processID=mesh:other", false),
            ("status=failed,successful", true),
            ("status=failed&status=running", false),
            ("datetime=1970-01-01T00:00:01Z", true),
            ("datetime=1970-01-01T00:00:02Z", false),
            ("datetime=../1970-01-01T00:00:02Z", true),
            ("datetime=1970-01-01T00:00:02Z/..", false),
            ("from=1970-01-01&to=1970-01-01", true),
            ("from=1970-01-02", false),
            ("to=1969-12-31", false),
            ("from=1970-01-01T00:00:01&to=", true),
            ("from=1970-01-01T00:00:02", false),
            ("to=1970-01-01T00:00:01", true),
            ("to=1970-01-01T00:00", false),
            ("minDuration=3", true),
            ("minDuration=3.5", false),
            ("maxDuration=3&minDuration=0", true),
            ("maxDuration=2", false),
        ] {
            assert_eq!(wanted(query).unwrap().has(&job, Timestamp(9000)), has, "{query}");
        }
        assert!(wanted("type=other").unwrap().is_nothing);
        // One that runs is as old as it is by now; one that has not begun has no duration.
        let running = report(1000, Some(2000), None, JobState::Running);
        assert!(wanted("minDuration=7").unwrap().has(&running, Timestamp(9000)));
        let queued = report(1000, None, None, JobState::Queued);
        assert!(!wanted("minDuration=0").unwrap().has(&queued, Timestamp(9000)));
    }

    #[test]
    fn a_query_that_means_nothing_is_refused_with_what_would() {
        for (query, name) in [
            ("status=done", "status"),
            ("datetime=yesterday", "datetime"),
            ("datetime=../..", "datetime"),
            ("from=yesterday", "from"),
            ("to=2026-13-01", "to"),
            ("minDuration=-1", "minDuration"),
            ("maxDuration=long", "maxDuration"),
        ] {
            assert_eq!(wanted(query).unwrap_err().parameter.as_deref(), Some(name), "{query}");
        }
    }
}
