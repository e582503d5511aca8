//! Which job a command is about, and where: the first digits of an ID are enough, and the server
//! of this machine needs no address.

use std::collections::BTreeMap;

use anyhow::Result;
use fishplate_client::{Error, JobFilter, Service};
use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Fault, FaultCode, JobId, JobReport, Verb};

use super::client::ConnectionOptions;
use crate::output::failure::UsageError;

/// The server that is meant if none is named, and `FISHPLATE_URL` names none either: where
/// `fishplate serve` listens unless told otherwise.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// Fewest digits that stand for an ID; fewer would be a slip of the keyboard.
const SHORTEST_PREFIX: usize = 4;

/// Digits of a job's ID.
const ID_DIGITS: usize = 32;

/// The server that is meant if none is named.
pub(crate) fn default_server() -> String {
    std::env::var("FISHPLATE_URL").unwrap_or_else(|_| DEFAULT_SERVER.to_owned())
}

/// A job and where it is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// URL of a service or a server [default: FISHPLATE_URL, else http://127.0.0.1:8080], and the ID
    /// of a job or its first digits
    #[arg(value_names = ["URL", "JOB"], num_args = 0..=2)]
    words: Vec<String>,
    /// The job that was submitted last
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    pub(crate) options: ConnectionOptions,
}

/// Which job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum JobSelector {
    Whole(JobId),
    Prefix(String),
    Last,
}

impl JobArgs {
    /// As told by these words.
    pub(crate) fn new(words: Vec<String>, last: bool, options: ConnectionOptions) -> Self {
        Self { words, last, options }
    }

    /// The server or service that is meant.
    pub(crate) fn url(&self) -> String {
        match self.words.first() {
            Some(word) if digits(word).is_none() => word.clone(),
            _ => default_server(),
        }
    }

    /// The service that has the job, and its ID.
    pub(crate) async fn find(&self) -> Result<(Service, JobId)> {
        let wanted = self.wanted()?;
        let mut services = self.options.services(&self.url()).await?;
        if let (JobSelector::Whole(job), [_]) = (&wanted, &services[..]) {
            return Ok((services.remove(0), *job));
        }
        let mut found = BTreeMap::new();
        for (at, service) in services.iter().enumerate() {
            match &wanted {
                JobSelector::Whole(job) => match service.status(*job).await {
                    Ok(report) => drop(found.insert(*job, (at, report))),
                    Err(Error::Fault(fault)) if fault.code == FaultCode::NoSuchJob => {}
                    Err(error) => return Err(error.into()),
                },
                JobSelector::Last => {
                    let filter = JobFilter { limit: Some(1), ..JobFilter::default() };
                    for report in service.jobs(&filter).await?.jobs {
                        found.insert(report.id, (at, report));
                    }
                }
                JobSelector::Prefix(digits) => {
                    for report in jobs(service, digits).await? {
                        found.insert(report.id, (at, report));
                    }
                }
            }
        }
        let mut found: Vec<(usize, JobReport)> = found.into_values().collect();
        if wanted == JobSelector::Last {
            found.sort_by_key(|(_, report)| std::cmp::Reverse(report.submitted));
            found.truncate(1);
        }
        match &found[..] {
            [(at, report)] => Ok((services.remove(*at), report.id)),
            _ => Err(self.not_one(&wanted, found.into_iter().map(|(_, report)| report).collect())),
        }
    }

    fn wanted(&self) -> Result<JobSelector> {
        let job = match (&self.words[..], self.last) {
            // Of two jobs one would be meant in vain.
            ([first, second], _) if digits(first).is_some() => {
                return usage(format!(
                    "{first:?} is no address: one job at a time, not {second:?} too"
                ));
            }
            ([job], true) if digits(job).is_some() => {
                return usage(format!("either --last or the job {job:?}: not both"));
            }
            ([_, job], true) => {
                return usage(format!("either --last or the job {job:?}: not both"));
            }
            ([] | [_], true) => None,
            ([job], false) if digits(job).is_some() => Some(job),
            ([_, job], false) => Some(job),
            ([], false) | ([_], false) => {
                return usage(
                    "which job? give its ID, the first digits of it, or --last".to_owned(),
                );
            }
            _ => return usage("too many words".to_owned()),
        };
        let Some(job) = job else { return Ok(JobSelector::Last) };
        match digits(job) {
            Some(id) if id.len() == ID_DIGITS => Ok(JobSelector::Whole(id.parse()?)),
            Some(prefix) if is_prefix(prefix) => Ok(JobSelector::Prefix(prefix.to_owned())),
            _ => usage(format!(
                "{job:?} is no job: an ID is {ID_DIGITS} lower-case hexadecimal digits, of which the \
                 first {SHORTEST_PREFIX} or more are enough"
            )),
        }
    }

    fn not_one(&self, wanted: &JobSelector, found: Vec<JobReport>) -> anyhow::Error {
        let url = self.url();
        let JobSelector::Prefix(prefix) = wanted else {
            let what = match wanted {
                JobSelector::Whole(job) => format!("there is no job {job} of yours at {url}"),
                _ => format!("there is no job of yours at {url}"),
            };
            return Error::Fault(Fault::new(FaultCode::NoSuchJob, what)).into();
        };
        if found.is_empty() {
            let what = format!("no job of yours at {url} begins with {prefix}");
            return Error::Fault(Fault::new(FaultCode::NoSuchJob, what)).into();
        }
        let line = |of: JobReport| format!("{} ({} of {})", of.id, of.state.name(), of.service);
        let lines: Vec<String> = found.into_iter().map(line).collect();
        let count = lines.len();
        UsageError(format!("{count} jobs begin with {prefix}: {}", lines.join(", "))).into()
    }
}

fn usage<T>(message: String) -> Result<T> {
    Err(UsageError(message).into())
}

/// The digits of a job's ID, if the word can be nothing else (`ID`, the beginning of one, `job=...`).
fn digits(word: &str) -> Option<&str> {
    word.strip_prefix("job=").or_else(|| is_prefix(word).then_some(word))
}

fn is_prefix(id: &str) -> bool {
    let digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    (SHORTEST_PREFIX..=ID_DIGITS).contains(&id.len()) && id.bytes().all(digit)
}

/// The jobs of a service whose IDs begin so.
async fn jobs(service: &Service, prefix: &str) -> Result<Vec<JobReport>, Error> {
    let mut filter =
        JobFilter { limit: u32::try_from(DEFAULTS.jobs_page).ok(), ..JobFilter::default() };
    let mut found = Vec::new();
    loop {
        let page = service.jobs(&filter).await?;
        filter.after = page.jobs.last().map(|report| report.id);
        let more = page.more && filter.after.is_some();
        found.extend(page.jobs.into_iter().filter(|of| of.id.to_string().starts_with(prefix)));
        if !more {
            return Ok(found);
        }
    }
}

/// Whether a service has jobs at all: not all that a server offers are programs.
pub(crate) fn has_jobs(service: &Service) -> bool {
    service.description().operations.iter().any(|of| of.definition.verb == Verb::Jobs)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        job: JobArgs,
    }

    #[test]
    fn a_job_is_found_in_the_words_with_and_without_an_address() {
        let id = "000102030405060708090a0b0c0d0e0f";
        let wanted = |words: &[&str]| {
            let line = Line::parse_from([&["status"], words].concat());
            line.job.wanted().map(|wanted| (line.job.url(), wanted)).map_err(|e| e.to_string())
        };
        let (here, there) = (default_server(), "http://h/s".to_owned());
        let whole = JobSelector::Whole(id.parse().unwrap());
        assert_eq!(wanted(&[id]), Ok((here.clone(), whole.clone())));
        assert_eq!(wanted(&["http://h/s", id]), Ok((there.clone(), whole.clone())));
        assert_eq!(wanted(&["http://h/s", &format!("job={id}")]), Ok((there.clone(), whole)));
        assert_eq!(wanted(&["0001"]), Ok((here.clone(), JobSelector::Prefix("0001".to_owned()))));
        assert_eq!(wanted(&["--last"]), Ok((here, JobSelector::Last)));
        assert_eq!(wanted(&["http://h/s", "--last"]), Ok((there, JobSelector::Last)));
        for (words, said) in [
            (&[][..], "which job?"),
            (&["http://h/s"], "which job?"),
            (&["http://h/s", "7"], "\"7\" is no job"),
            (&["http://h/s", "0001", "--last"], "not both"),
            (&["0001", "--last"], "not both"),
            (&["0001", "0002"], "one job at a time"),
            (&["cafe", "0001"], "one job at a time"),
            (&["job="], "\"job=\" is no job"),
            (&["http://h/s", "job=a"], "\"job=a\" is no job"),
        ] {
            let error = wanted(words).unwrap_err();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
