//! The list of a caller's jobs, newest first, and what it can be asked for (18-062r2, section 11).

use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Fault, JobId, JobPage, JobReport, JobState, Principal, Timestamp};
use fishplate_jobs::store::RunTime;
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

/// The statuses that a job may have.
pub(super) const STATUSES: [&str; 5] = ["accepted", "running", "successful", "failed", "dismissed"];

/// Which jobs are wanted.
#[derive(Debug, Default)]
struct JobQuery {
    /// What the store looks for.
    selection: JobSelection,
    /// Nothing is of the type that is asked for.
    is_nothing: bool,
}

impl JobQuery {
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
        let ran = RunTime { least: seconds("minDuration")?, most: seconds("maxDuration")? };
        let operations = query.all("processID").map(process).collect();
        Ok(Self {
            selection: JobSelection { operations, states, since, until, ran, after },
            is_nothing: types.peek().is_some() && !types.any(|it| it == "process"),
        })
    }

    /// So many of the jobs that are wanted, newest first, and whether there are more.
    async fn find(&self, host: &Host, caller: &Principal, limit: usize) -> Result<JobPage, Fault> {
        if self.is_nothing {
            return Ok(JobPage { jobs: Vec::new(), more: false });
        }
        job_list::page(host, caller, &self.selection, limit).await
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
    let JobPage { jobs, more } = JobQuery::of(&query)?.find(host, caller, limit).await?;
    let next = jobs.last().filter(|_| more).map(|last| next(asked, last.id));
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

    fn wanted(query: &str) -> Result<JobQuery, Fault> {
        let request = hyper::Request::builder().uri(format!("/ogc/jobs?{query}")).body(()).unwrap();
        JobQuery::of(&Query::of(&request.into_parts().0))
    }

    #[test]
    fn what_the_store_can_look_for_is_asked_of_it() {
        let at = |second: i64| Some(Timestamp(second * 1000));
        let millis = |millis| Some(Duration::from_millis(millis));
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
            (
                "minDuration=3.5",
                JobSelection { ran: RunTime { least: millis(3500), most: None }, ..none.clone() },
            ),
            (
                "maxDuration=3&minDuration=0",
                JobSelection {
                    ran: RunTime { least: millis(0), most: millis(3000) },
                    ..none.clone()
                },
            ),
        ] {
            assert_eq!(wanted(query).unwrap().selection, selection, "{query}");
        }
        assert!(wanted("type=other").unwrap().is_nothing);
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
