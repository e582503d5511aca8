//! Names of jobs and of what they gave, as assistants hand them back. Whose a job is, the caller knows; nothing is kept here.

use std::fmt;

use fishplate_contract::{JobId, JobReport, JobState, LogStream, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

/// `SERVICE/ID`; also the ID of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobName {
    pub(crate) service: String,
    pub(crate) id: JobId,
}

impl JobName {
    /// The job of that name.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let shown = fishplate_contract::lexical::shortened(text);
            format!(
                "{shown:?} is no job: its name is SERVICE/ID, as the tool that began it answered"
            )
        };
        let (service, id) = text.trim().rsplit_once('/').ok_or_else(wrong)?;
        let id = id.parse().map_err(|_| wrong())?;
        Ok(Self { service: service.to_owned(), id })
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.id)
    }
}

/// Something of a job that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobResource {
    /// An output; which, if there are several of its name, counted from 0.
    Output { job: JobName, output: String, at: usize },
    /// What its program wrote.
    Log { job: JobName, stream: LogStream },
}

const RESULTS: &str = "fishplate://results/";
const LOGS: &str = "fishplate://logs/";

/// Templates of the addresses (RFC 6570), with what is there.
pub(crate) const TEMPLATES: [(&str, &str, &str); 2] = [
    ("fishplate://results/{service}/{job}/{output}", "result", "An output of a job that is done"),
    (
        "fishplate://logs/{service}/{job}/{stream}",
        "log",
        "What a job's program wrote to stdout or stderr, while it runs and after",
    ),
];

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl JobResource {
    /// What an address means.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(uri: &str) -> Result<Self, String> {
        let wrong = || {
            let shown = fishplate_contract::lexical::shortened(uri);
            let (results, logs) = (TEMPLATES[0].0, TEMPLATES[1].0);
            format!("there is nothing at {shown:?}: addresses are {results} and {logs}")
        };
        let is_log = uri.starts_with(LOGS);
        let path = uri.strip_prefix(RESULTS).or_else(|| uri.strip_prefix(LOGS));
        let decoded =
            |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        let segments: Result<Vec<String>, _> =
            path.ok_or_else(wrong)?.split('/').map(decoded).collect();
        let segments = segments.map_err(|_| wrong())?;
        let [service, id, last, rest @ ..] = &segments[..] else { return Err(wrong()) };
        let job = JobName { service: service.clone(), id: id.parse().map_err(|_| wrong())? };
        match (is_log, rest) {
            (true, []) => {
                let mut streams = [LogStream::Stdout, LogStream::Stderr].into_iter();
                let stream = streams.find(|stream| stream.name() == last).ok_or_else(wrong)?;
                Ok(Self::Log { job, stream })
            }
            (false, []) => Ok(Self::Output { job, output: last.clone(), at: 0 }),
            (false, [at]) => {
                let at = at.parse().map_err(|_| wrong())?;
                Ok(Self::Output { job, output: last.clone(), at })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for JobResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = |text| utf8_percent_encode(text, KEPT);
        match self {
            Self::Output { job, output, at } => {
                write!(f, "{RESULTS}{}/{}/{}", encoded(&job.service), job.id, encoded(output))?;
                if *at > 0 { write!(f, "/{at}") } else { Ok(()) }
            }
            Self::Log { job, stream } => {
                write!(f, "{LOGS}{}/{}/{}", encoded(&job.service), job.id, stream.name())
            }
        }
    }
}

/// How a job stands, for an answer.
pub(crate) fn told(name: &JobName, report: &JobReport) -> Value {
    let mut told = json!({
        "job": name.to_string(),
        "operation": report.operation,
        "state": report.state.name(),
        "ended": report.state.is_final(),
        "submitted": moment(report.submitted),
    });
    let share = if report.state == JobState::Done { Some(1.0) } else { report.progress };
    let more = [
        ("progress", share.map(Value::from)),
        ("message", Some(&report.message).filter(|it| !it.is_empty()).map(|it| json!(it))),
        ("started", report.started.map(|at| json!(moment(at)))),
        ("finished", report.ended.map(|at| json!(moment(at)))),
        ("exitCode", report.exit_code.map(Value::from)),
        ("signal", report.signal.as_ref().map(|it| json!(it))),
    ];
    for (field, value) in more {
        if let Some(value) = value {
            told[field] = value;
        }
    }
    told
}

/// A moment in UTC (RFC 3339).
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "000102030405060708090a0b0c0d0e0f";

    fn job(service: &str) -> JobName {
        JobName { service: service.to_owned(), id: ID.parse().unwrap() }
    }

    #[test]
    fn a_job_is_named_by_its_service_and_its_id() {
        assert_eq!(JobName::parse(&format!(" heat/{ID}\n")).unwrap(), job("heat"));
        for text in ["", ID, "heat/1", "heat/", &format!("{ID}/heat")] {
            assert!(JobName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_of_ours_is_refused() {
        for uri in [
            "file:///etc/passwd",
            "http://127.0.0.1/",
            "fishplate://results/heat",
            "fishplate://results/heat/1/x",
            &format!("fishplate://results/heat/{ID}/x/y"),
            &format!("fishplate://results/heat/{ID}/x/0/0"),
            &format!("fishplate://logs/heat/{ID}/stdin"),
        ] {
            let error = JobResource::parse(uri).unwrap_err();
            assert!(error.contains("fishplate://results/{service}/{job}/{output}"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn an_address_means_what_it_was_made_of(
            service in "[^\u{0}]{1,10}", output in ".{1,10}", at in 0_usize..9, log in any::<bool>(),
        ) {
            let resource = if log {
                let stream = if at % 2 == 0 { LogStream::Stdout } else { LogStream::Stderr };
                JobResource::Log { job: job(&service), stream }
            } else {
                JobResource::Output { job: job(&service), output, at }
            };
            prop_assert_eq!(JobResource::parse(&resource.to_string()), Ok(resource));
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,80}") {
            let _ = JobResource::parse(&text);
            let _ = JobResource::parse(&format!("{RESULTS}{text}"));
            let _ = JobResource::parse(&format!("{LOGS}{text}"));
            let _ = JobName::parse(&text);
        }
    }
}
