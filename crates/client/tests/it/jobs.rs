//! The verbs on jobs.

use fishplate_client::{JobFilter, LogStream, Options, Service};
use fishplate_contract::{Argument, JobId, JobState, Value};

use crate::server::{JOB, Reaction, Server};

fn job() -> JobId {
    JOB.parse().unwrap()
}

fn report(state: &str) -> Vec<Argument> {
    vec![
        Argument::text("id", JOB),
        Argument::text("operation", "call"),
        Argument::text("state", state),
        Argument::text("message", ""),
        Argument::text("submitted", "2026-11-21T04:03:52.250Z"),
    ]
}

async fn service(server: &Server) -> Service {
    Service::connect(&server.url()).await.unwrap()
}

#[tokio::test]
async fn every_verb_asks_and_understands() {
    let server = Server::start(|_, seen| {
        let flag = |name: &str| vec![Argument::text(name, "true")];
        Reaction::Outputs(match &*seen.verb {
            "spawn" => vec![Argument::text("job", JOB)],
            "results" => vec![Argument::text("result", "3")],
            "running" => flag("running"),
            "kill" => {
                vec![Argument::text("state", "killed"), Argument::text("message", "by sweep")]
            }
            "status" => report("running"),
            "log" => vec![
                Argument::text("text", "abc\n"),
                Argument::text("next", "4"),
                Argument::text("end", "false"),
            ],
            "jobs" => vec![
                Argument::new("job", Value::Record(report("queued"))),
                Argument::new("job", Value::Record(report("done"))),
                Argument::text("more", "true"),
            ],
            "remove" => flag("removed"),
            other => panic!("{other}"),
        })
    })
    .await;
    let service = service(&server).await;
    let arguments = vec![Argument::text("x", "1")];
    assert_eq!(service.spawn("call", arguments, &Options::default()).await.unwrap(), job());
    let reply = service.results("call", job(), &Options::default()).await.unwrap();
    assert!(matches!(&reply.outputs[0].value, Value::Text(text) if text == "3"));
    assert!(service.running(job()).await.unwrap());
    let killed = service.kill(job()).await.unwrap();
    assert_eq!((killed.state, &*killed.message), (JobState::Killed, "by sweep"));
    let status = service.status(job()).await.unwrap();
    assert_eq!((status.id, &*status.service, status.submitted.0 % 1000), (job(), "echo", 250));
    let page = service.log(job(), LogStream::Stderr, 7).await.unwrap();
    assert_eq!((&*page.text, page.next, page.end), ("abc\n", 4, false));
    let filter = JobFilter { state: Some(JobState::Done), limit: Some(2), after: Some(job()) };
    let page = service.jobs(&filter).await.unwrap();
    let states: Vec<_> = page.jobs.iter().map(|report| report.state).collect();
    assert_eq!((&states[..], page.more), (&[JobState::Queued, JobState::Done][..], true));
    service.remove(job()).await.unwrap();

    let seen = server.seen.lock().unwrap();
    let sent = |verb: &str, name: &str| {
        let seen = seen.iter().find(|seen| seen.verb == verb).unwrap();
        seen.text(name).map(str::to_owned)
    };
    assert_eq!(sent("log", "stream").as_deref(), Some("stderr"));
    assert_eq!(sent("log", "offset").as_deref(), Some("7"));
    assert_eq!(sent("jobs", "state").as_deref(), Some("done"));
    assert_eq!(sent("jobs", "limit").as_deref(), Some("2"));
    assert_eq!(sent("jobs", "after").as_deref(), Some(JOB));
    assert!(
        seen.iter()
            .skip(1)
            .filter(|seen| seen.verb != "jobs")
            .all(|seen| { seen.text("job") == Some(JOB) })
    );
}

#[tokio::test]
async fn whether_a_job_runs_is_what_the_server_says() {
    for (said, runs) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        let server =
            Server::start(move |_, _| Reaction::Outputs(vec![Argument::text("running", said)]))
                .await;
        assert_eq!(service(&server).await.running(job()).await.unwrap(), runs, "{said}");
    }
    for said in [vec![], vec![Argument::text("running", "perhaps")]] {
        let server = Server::start(move |_, _| Reaction::Outputs(said.clone())).await;
        assert!(service(&server).await.running(job()).await.is_err());
    }
}

#[tokio::test]
async fn waiting_tells_every_report_until_the_last_and_survives_a_restart() {
    let server = Server::start(|at, _| match at {
        0 => Reaction::Outputs(report("queued")),
        1 => Reaction::Outputs(report("running")),
        2 => Reaction::Cut,
        _ => Reaction::Outputs(report("failed")),
    })
    .await;
    let mut states = Vec::new();
    let service = service(&server).await;
    let last = service.wait(job(), |report| states.push(report.state)).await.unwrap();
    assert_eq!(last.state, JobState::Failed);
    assert_eq!(states, [JobState::Queued, JobState::Running, JobState::Failed]);
}
