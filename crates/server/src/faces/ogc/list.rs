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
use crate::dispatch::job_list::{self, JobSelection};
use crate::host::Host;

/// The most jobs of one answer, and how many there are if nobody says how many.
pub(super) const MOST: usize = DEFAULTS.jobs_page;
pub(super) const DEFAULT: usize = 100;

/// How many jobs one request looks at, of which it wants those that ran for so long: the link `next` goes on behind them.
const MOST_LOOKED_AT: usize = 10_000;

/// The statuses that a job may have.
pub(super) const STATUSES: [&str; 5] = ["accepted", "running", "successful", "failed", "dismissed"];

/// Which jobs are wanted.
#[derive(Debug, Default)]
struct Wanted {
    /// What the store can look for.
    selection: JobSelection,
    /// They run, or ran, at least so long.
    least: Option<Duration>,
    /// They run, or ran, at most so long.
    most: Option<Duration>,
    /// Nothing is of the type that is asked for.
    is_nothing: bool,
}

impl Wanted {
    fn of(query: &Query) -> Result<Self, Fault> {
        let mut states = Vec::new();
        for status in query.all("status") {
            if !STATUSES.contains(&status) {
                return Err(invalid("status", status, &STATUSES.join(", ")));
            }
            states.extend(JobState::ALL.into_iter().filter(|state| status_code(*state) == status));
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
        let (since, until) = (from.max(first), to.into_iter().chain(last).min());
        let after = query.read::<JobId>("after", "the ID of a job")?;
        let operations = query.all("processID").map(process).collect();
        Ok(Self {
            selection: JobSelection { operations, states, since, until, after },
            least: seconds("minDuration")?,
            most: seconds("maxDuration")?,
            is_nothing: types.peek().is_some() && !types.any(|it| it == "process"),
        })
    }

    /// Whether a job that the store found is one of them. How long it ran stands in its record only.
    fn has(&self, job: &JobReport, now: Timestamp) -> bool {
        let duration = job.started.map(|started| job.ended.unwrap_or(now).since(started));
        let is_as_long = |test: &dyn Fn(Duration) -> bool| duration.is_some_and(test);
        self.least.is_none_or(|least| is_as_long(&|it| it >= least))
            && self.most.is_none_or(|most| is_as_long(&|it| it <= most))
    }

    /// So many of the jobs that are wanted, newest first, and whether there may be more, older than the one of the
    /// selection.
    async fn find(
        &mut self,
        host: &Host,
        caller: &Principal,
        limit: usize,
    ) -> Result<(Vec<JobReport>, bool), Fault> {
        let (mut found, mut looked_at, mut more) = (Vec::new(), 0, !self.is_nothing);
        let is_found_by_store = self.least.is_none() && self.most.is_none();
        let at_once = if is_found_by_store { limit } else { DEFAULTS.jobs_page };
        while more && found.len() < limit && looked_at < MOST_LOOKED_AT {
            let page = job_list::page(host, caller, &self.selection, at_once).await?;
            looked_at += page.jobs.len();
            more = page.more;
            let now = SystemClock.now();
            for job in page.jobs {
                if found.len() == limit {
                    more = true;
                    break;
                }
                self.selection.after = Some(job.id);
                if self.has(&job, now) {
                    found.push(job);
                }
            }
        }
        Ok((found, more))
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
    let mut wanted = Wanted::of(&query)?;
    let (jobs, more) = wanted.find(host, caller, limit).await?;
    let next = wanted.selection.after.filter(|_| more).map(|last| next(asked, last));
    Ok(FoundJobs { jobs, next })
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
    fn what_the_store_can_look_for_is_asked_of_it() {
        let at = |second: i64| Some(Timestamp(second * 1000));
        let process = |operation: &str| ("mesh".to_owned(), operation.to_owned());
        let none = JobSelection::default();
        for (query, selection) in [
            ("", none.clone()),
            ("type=process&limit=3", none.clone()),
            (
                "processID=mesh,mesh%3Afine",
                JobSelection { operations: vec![process("call"), process("fine")], ..none.clone() },
            ),
            (
                "status=failed&status=running",
                JobSelection {
                    states: vec![JobState::Failed, JobState::Unknown, JobState::Running],
                    ..none.clone()
                },
            ),
            (
                "datetime=1970-01-01T00:00:01Z",
                JobSelection { since: at(1), until: Some(Timestamp(1999)), ..none.clone() },
            ),
            ("datetime=../1970-01-01T00:00:02Z", JobSelection { until: at(2), ..none.clone() }),
            ("datetime=1970-01-01T00:00:02Z/..", JobSelection { since: at(2), ..none.clone() }),
        ] {
            assert_eq!(wanted(query).unwrap().selection, selection, "{query}");
        }
        assert!(wanted("type=other").unwrap().is_nothing);
    }

    #[test]
    fn jobs_are_chosen_by_how_long_they_ran() {
        let job = report(1000, Some(2000), Some(5000), JobState::Done);
        for (query, has) in [
            ("", true),
            ("minDuration=3", true),
            ("minDuration=3.5", false),
            ("maxDuration=3&minDuration=0", true),
            ("maxDuration=2", false),
        ] {
            assert_eq!(wanted(query).unwrap().has(&job, Timestamp(9000)), has, "{query}");
        }
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
