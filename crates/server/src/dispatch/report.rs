//! Reports of jobs as the fields that the interface declares
//! ([`fishplate_contract::interface`]).

use fishplate_contract::{
    Argument, JobPage, JobReport, KillResult, LogPage, PlacementMethod, Results, Timestamp,
    Transfer, Value,
};
use fishplate_jobs::engine::EphemeralJob;

use super::request::Reply;

impl Reply {
    /// The same as the fields that the interface declares, and the job behind them if nobody else knows of it.
    pub fn into_fields(self) -> (Results, Option<EphemeralJob>) {
        let outputs = match self {
            Self::Results { results, ephemeral } => return (results, ephemeral),
            Self::Spawned(job) => {
                let outputs = vec![Argument::text("job", job.id.to_string())];
                return (Results { outputs, job: job.existing.then_some(job) }, None);
            }
            Self::Running(running) => vec![Argument::text("running", running.to_string())],
            Self::Killed(KillResult { state, message }) => {
                vec![Argument::text("state", state.name()), Argument::text("message", message)]
            }
            Self::Status(job) => report(&job),
            Self::Log(LogPage { text, next, end }) => vec![
                Argument::text("text", text),
                Argument::text("next", next.to_string()),
                Argument::text("end", end.to_string()),
            ],
            Self::Jobs(JobPage { jobs, more }) => {
                let jobs = jobs.iter().map(|job| Argument::new("job", Value::Record(report(job))));
                jobs.chain([Argument::text("more", more.to_string())]).collect()
            }
            Self::Removed => vec![Argument::text("removed", "true")],
        };
        (Results { outputs, job: None }, None)
    }
}

/// The fields of one job's report.
fn report(report: &JobReport) -> Vec<Argument> {
    let mut fields = vec![
        Argument::text("id", report.id.to_string()),
        Argument::text("operation", &report.operation),
        Argument::text("state", report.state.name()),
        Argument::text("message", &report.message),
    ];
    let mut field = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| Argument::text(name, value)));
    };
    field("progress", report.progress.map(|share| share.to_string()));
    field("submitted", Some(date_time(report.submitted)));
    field("started", report.started.map(date_time));
    field("ended", report.ended.map(date_time));
    field("exitCode", report.exit_code.map(|code| code.to_string()));
    field("signal", report.signal.clone());
    field("cpuSeconds", report.usage.map(|usage| usage.cpu_seconds.to_string()));
    field("maxMemory", report.usage.map(|usage| usage.max_memory.to_string()));
    field("disk", report.usage.map(|usage| usage.disk.to_string()));
    field("endedBy", Some(report.ended_by.clone()).filter(|by| !by.is_empty()));
    let transfers = report.transfers.iter().map(transfer);
    fields.extend(transfers.map(|fields| Argument::new("transfer", Value::Record(fields))));
    fields
}

fn transfer(transfer: &Transfer) -> Vec<Argument> {
    let mut fields = vec![
        Argument::text("parameter", &transfer.parameter),
        Argument::text("peer", &transfer.peer),
        Argument::text("state", transfer.state.name()),
        Argument::text("bytes", transfer.bytes.to_string()),
    ];
    let mut field = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| Argument::text(name, value)));
    };
    field("total", transfer.total.map(|total| total.to_string()));
    field("placed", transfer.placed.map(PlacementMethod::name).map(str::to_owned));
    field("cached", transfer.cached.then(|| "true".to_owned()));
    fields
}

/// `xs:dateTime` in UTC.
pub(crate) fn date_time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{
        DataType, Interface, JobId, JobState, Parameter, Service, SubmittedJob, TransferState,
        Usage,
    };

    use super::*;

    fn names(fields: &[Argument]) -> Vec<&str> {
        fields.iter().map(|field| field.name.as_str()).collect()
    }

    fn declared(parameters: &[Parameter]) -> Vec<&str> {
        parameters.iter().map(|parameter| parameter.name.as_str()).collect()
    }

    #[test]
    fn a_report_has_the_fields_that_the_interface_declares() {
        let moment = Timestamp(0);
        let full = JobReport {
            id: JobId::from_bytes([1; 16]),
            service: "s".to_owned(),
            operation: "call".to_owned(),
            state: JobState::Fetching,
            progress: Some(0.5),
            message: "m".to_owned(),
            submitted: moment,
            started: Some(moment),
            ended: Some(moment),
            exit_code: Some(1),
            signal: Some("SIGKILL".to_owned()),
            usage: Some(Usage::default()),
            ended_by: "sweep".to_owned(),
            transfers: vec![Transfer {
                parameter: "mesh".to_owned(),
                peer: "http://a.example".to_owned(),
                state: TransferState::Done,
                bytes: 3,
                total: Some(3),
                placed: Some(PlacementMethod::Link),
                cached: true,
            }],
        };
        let interface = Interface::of(&Service {
            name: "s".to_owned(),
            namespace: "urn:s".to_owned(),
            title: String::new(),
            documentation: String::new(),
            operations: Vec::new(),
        });
        let status = &interface.find("status").unwrap().signature.outputs;
        let fields = report(&full);
        assert_eq!(names(&fields), declared(status));
        let (job, text) = (full.id, "t".to_owned());
        for (verb, reply) in [
            ("running", Reply::Running(true)),
            ("kill", Reply::Killed(KillResult { state: JobState::Killed, message: text.clone() })),
            ("status", Reply::Status(Box::new(full.clone()))),
            ("log", Reply::Log(LogPage { text, next: 1, end: true })),
            ("jobs", Reply::Jobs(JobPage { jobs: vec![full], more: true })),
            ("remove", Reply::Removed),
        ] {
            let outputs = &interface.find(verb).unwrap().signature.outputs;
            assert_eq!(names(&reply.into_fields().0.outputs), declared(outputs), "{verb}");
        }
        for existing in [false, true] {
            let spawned = SubmittedJob { id: job, existing };
            let (told, _) = Reply::Spawned(spawned).into_fields();
            assert_eq!(names(&told.outputs), ["job"]);
            // The ID stands in the answer; that it was there before is told beside it.
            assert_eq!(told.job, existing.then_some(spawned));
        }
        let transfer = &status.last().unwrap().data_type;
        let (Value::Record(told), DataType::Record(known)) =
            (&fields.last().unwrap().value, transfer)
        else {
            panic!("no records");
        };
        assert_eq!(names(told), declared(known));
        let texts: Vec<_> = told
            .iter()
            .map(|field| match &field.value {
                Value::Text(text) => text.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, ["mesh", "http://a.example", "done", "3", "3", "link", "true"]);
    }

    #[test]
    fn a_moment_is_an_xsd_date_time_in_utc() {
        assert_eq!(date_time(Timestamp(1_795_229_232_123)), "2026-11-21T02:47:12.123Z");
    }
}
