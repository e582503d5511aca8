//! Loads against a server that does what its paths say.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use base64_simd::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use tokio::sync::{mpsc, watch};

use self::server::Server;
use super::*;
use crate::experiment::Experiment;
use crate::record::{LoadSecond, Outcome, Outcomes};

/// An experiment with one operation.
async fn plan(server: &Server, path: &str, workload: &str, operation: &str) -> LoadPlan {
    let folder = tempfile::tempdir().expect("a folder");
    let template = "<e:Envelope><e:Body><n>{request}</n></e:Body></e:Envelope>";
    std::fs::write(folder.path().join("add.xml"), template).expect("written");
    std::fs::write(folder.path().join("ca.pem"), &server.ca).expect("written");
    let text = format!(
        "name = \"x\"\nsystem = {{ name = \"s\", url = \"{}{path}\" }}\n[workload]\n{workload}\n\
         [[operation]]\nname = \"add\"\ntemplate = \"add.xml\"\n{operation}\n",
        server.url
    );
    let read = Experiment::read_text(&text, &folder.path().join("x.toml")).expect(&text);
    LoadPlan::prepare(&read, &BTreeMap::new()).await.expect("it can be prepared")
}

/// Runs an agent's part; how it ended, and its seconds.
async fn part(
    plan: &LoadPlan,
    agent: u32,
    agents: u32,
    log: Option<&Path>,
) -> (LoadEnd, Vec<LoadSecond>) {
    let (_stop, stopped) = watch::channel(false);
    let (tell, mut told) = mpsc::channel(1);
    let log = log.map(Path::to_owned);
    let running = run(plan.clone(), agent, agents, Instant::now(), stopped, tell, log);
    let collecting = async {
        let mut seconds = Vec::new();
        while let Some(second) = told.recv().await {
            seconds.push(second);
        }
        seconds
    };
    let (end, seconds) = tokio::join!(running, collecting);
    (end.expect("it can be made"), seconds)
}

async fn load(plan: &LoadPlan) -> (LoadEnd, Vec<LoadSecond>) {
    part(plan, 0, 1, None).await
}

fn histogram(text: &str) -> Option<Histogram<u64>> {
    if text.is_empty() {
        return None;
    }
    let bytes = STANDARD.decode_to_vec(text).expect("base64");
    Some(Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram"))
}

/// How many values of all seconds are above a time.
fn above(seconds: &[LoadSecond], of: fn(&LoadSecond) -> &String, time: Duration) -> u64 {
    let micros = u64::try_from(time.as_micros()).expect("it is short");
    let histograms = seconds.iter().filter_map(|second| histogram(of(second)));
    histograms.map(|it| it.count_between(micros, u64::MAX)).sum()
}

const PATIENT: &str = "clients = 2\nrequests = 6\ndeadline = \"60s\"";
const LATE: &str = "clients = 6\nrequests = 6\ndeadline = \"200ms\"";
const HASTY: &str = "clients = 2\nrequests = 6\ndeadline = \"10ms\"";

#[tokio::test]
async fn every_outcome_is_told_from_the_others() {
    let server = Server::start().await;
    let mut seen = BTreeSet::new();
    for (path, workload, operation, outcome) in [
        ("/right", PATIENT, "", Outcome::Right),
        ("/chunked", PATIENT, "", Outcome::Right),
        ("/until-close", PATIENT, "", Outcome::Right),
        ("/right", PATIENT, "expect = { element = { n = \"{request}\" } }", Outcome::Right),
        ("/slow/300", LATE, "", Outcome::Late),
        ("/right", PATIENT, "expect = { element = { n = \"x\" } }", Outcome::Wrong),
        ("/fault/200", PATIENT, "", Outcome::Error),
        ("/fault/500", PATIENT, "", Outcome::Error),
        ("/status/404", PATIENT, "", Outcome::Error),
        ("/status/503", PATIENT, "", Outcome::Refused),
        ("/busy", PATIENT, "", Outcome::Refused),
        ("/break-head", PATIENT, "", Outcome::Broken),
        ("/break-body", PATIENT, "", Outcome::Broken),
        ("/hang-up", PATIENT, "", Outcome::Broken),
        ("/no-http", PATIENT, "", Outcome::Broken),
        ("/silence", HASTY, "", Outcome::Unanswered),
        ("/right", PATIENT, "send_part = 0.5", Outcome::Abandoned),
    ] {
        // What waits for a deadline shall not wait for a minute.
        let workload = match outcome {
            Outcome::Abandoned => HASTY,
            _ => workload,
        };
        let plan = plan(&server, path, workload, operation).await;
        let (end, seconds) = load(&plan).await;
        let mut right = Outcomes::default();
        *right.count_mut(outcome) = 6;
        assert_eq!(end.outcomes, right, "{path} {operation}: {seconds:?}");
        assert_eq!((end.begun, end.held_back, end.by), (6, 0, EndedBy::Requests), "{path}");
        seen.insert(outcome);
    }
    let nobody = server.stop().await;
    let plan = plan(&nobody, "/right", "clients = 2\nrequests = 2", "").await;
    let (end, seconds) = load(&plan).await;
    assert_eq!(end.outcomes.unreachable, 2, "{seconds:?}");
    assert!(seconds.iter().any(|second| second.said[0].contains("refused")), "{seconds:?}");
    seen.insert(Outcome::Unreachable);
    assert!(seen.into_iter().eq(Outcome::ALL.into_iter().collect::<BTreeSet<_>>()));
}

#[tokio::test]
async fn seconds_add_up_to_the_end() {
    let server = Server::start().await;
    let plan = plan(&server, "/right", "clients = 4\nduration = \"1500ms\"", "").await;
    let (end, seconds) = load(&plan).await;
    assert_eq!(end.by, EndedBy::Duration);
    assert!(end.outcomes.right > 0 && end.outcomes.total() == end.begun, "{end:?}");
    let mut sum = Outcomes::default();
    let mut answered = 0;
    for (at, second) in seconds.iter().enumerate() {
        assert_eq!(usize::try_from(second.second), Ok(at), "none is left out");
        sum += second.outcomes;
        assert_eq!(second.operations["add"], second.outcomes);
        for text in [&second.latency, &second.service] {
            let count = histogram(text).map_or(0, |histogram| histogram.len());
            assert_eq!(count, second.outcomes.right + second.outcomes.late);
        }
        answered += second.outcomes.total();
    }
    assert_eq!((sum, answered), (end.outcomes, end.begun));
    assert_eq!(seconds.iter().map(|second| second.begun).sum::<u64>(), end.begun);
    assert!(seconds.iter().any(|second| second.memory > 0 && second.processor > 0));
    assert!(seconds.iter().all(|second| second.outcomes.right == 0 || second.bytes.1 > 0));
}

#[tokio::test]
async fn a_second_tells_who_goes_on_and_what_waits() {
    let server = Server::start().await;
    let workload = "clients = 3\nduration = \"2500ms\"\ndeadline = \"400ms\"";
    let (end, seconds) = load(&plan(&server, "/silence", workload, "").await).await;
    assert_eq!((end.begun, end.outcomes.unanswered), (3, 3));
    let told: Vec<(u32, u64, u64)> =
        seconds.iter().map(|of| (of.clients, of.under_way, of.overdue)).collect();
    // A second that the machine slept through has none that go on.
    assert!(told[..2].contains(&(3, 3, 3)), "{told:?}");
    assert_eq!((told[1].1, told[1].2), (3, 3), "{told:?}");
    assert_eq!(told[2].0, 0, "nobody begins a request any more: {told:?}");
    // Each waited from the beginning to the end, and one deadline more.
    assert_eq!(above(&seconds, |of| &of.without_answer, Duration::from_millis(2400)), 3);
    // Once all requests are taken, nobody goes on, though all wait.
    let workload = "clients = 3\nrequests = 3\ndeadline = \"150ms\"";
    let (_, seconds) = load(&plan(&server, "/silence", workload, "").await).await;
    let told: Vec<(u32, u64)> = seconds.iter().map(|of| (of.clients, of.under_way)).collect();
    assert_eq!(told[0], (0, 3), "{told:?}");
}

#[tokio::test]
async fn what_has_no_answer_counts_with_its_deadline_at_least() {
    let server = Server::start().await;
    let (end, seconds) = load(&plan(&server, "/hang-up", PATIENT, "").await).await;
    assert_eq!(end.outcomes.broken, 6);
    assert_eq!(above(&seconds, |of| &of.without_answer, Duration::from_secs(59)), 6);
    let held = "clients = 1\nrequests = 20\ndeadline = \"50ms\"\n\
                arrivals = { distribution = \"soak\", rate = 400.0 }";
    let (end, seconds) = load(&plan(&server, "/silence", held, "").await).await;
    assert!(end.held_back > 0, "{end:?}");
    let without = above(&seconds, |of| &of.without_answer, Duration::from_millis(49));
    assert_eq!(without, end.held_back + end.outcomes.unanswered);
    assert!(seconds.iter().all(|of| of.check(["add"]) == Ok(())), "{seconds:?}");
}

#[tokio::test]
async fn limits_of_answers_and_of_patience_are_settings() {
    let server = Server::start().await;
    let expect = "expect = { contains = \"x\" }\n[limits]\n";
    for (limits, right) in [("answer_size = \"5000B\"", 6), ("answer_size = \"4999B\"", 0)] {
        let operation = format!("{expect}{limits}");
        let plan = plan(&server, "/large/5000", PATIENT, &operation).await;
        let (end, seconds) = load(&plan).await;
        assert_eq!((end.outcomes.right, end.outcomes.broken), (right, 6 - right), "{limits}");
        let said = seconds.iter().any(|of| of.said.iter().any(|it| it.contains("answer_size")));
        assert_eq!(said, right == 0, "{seconds:?}");
    }
    // A body that nobody judges may have any length.
    let (end, _) =
        load(&plan(&server, "/large/5000", PATIENT, "[limits]\nanswer_size = \"1B\"").await).await;
    assert_eq!(end.outcomes.right, 6);
    // Sixty deadlines, not ten.
    let workload = "clients = 1\nrequests = 1\ndeadline = \"10ms\"";
    let patient = plan(&server, "/silence", workload, "[limits]\ndeadlines = 60").await;
    let (end, seconds) = load(&patient).await;
    assert_eq!(end.outcomes.unanswered, 1);
    assert_eq!(above(&seconds, |of| &of.without_answer, Duration::from_millis(590)), 1);
}

#[tokio::test]
async fn a_connection_is_kept_or_opened_for_each_request() {
    for (keep, connections) in [("true", 3), ("false", 30)] {
        let server = Server::start().await;
        let workload = format!("clients = 3\nrequests = 30\nkeep_alive = {keep}");
        let (end, _) = load(&plan(&server, "/right", &workload, "").await).await;
        assert_eq!((end.outcomes.right, server.connections()), (30, connections), "{keep}");
    }
    // One that the server says it closes is not used again.
    let server = Server::start().await;
    let plan = plan(&server, "/right-and-close", "clients = 1\nrequests = 10", "").await;
    let (end, _) = load(&plan).await;
    assert_eq!((end.outcomes.right, server.connections()), (10, 10));
}

#[tokio::test]
async fn cookies_are_kept_if_a_client_is_a_session() {
    let server = Server::start().await;
    let workload = "clients = 2\nrequests = 10\ncookies = true";
    let (_, seconds) = load(&plan(&server, "/cookie", workload, "").await).await;
    assert_eq!(server.sessions(), 2);
    assert_eq!(seconds.iter().map(|second| second.dropped_sessions).sum::<u64>(), 0);
    let workload = "clients = 2\nrequests = 10";
    let (_, seconds) = load(&plan(&server, "/cookie", workload, "").await).await;
    assert_eq!(server.sessions(), 12);
    assert_eq!(seconds.iter().map(|second| second.dropped_sessions).sum::<u64>(), 10);
}

#[tokio::test]
async fn agents_share_the_requests_and_their_logs_agree_with_the_server() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(&server, "/right", "clients = 4\nrequests = 50\nwarm_up = 3", "").await;
    let (end, _) = load(&plan.warm_up().expect("there is one")).await;
    assert_eq!(end.outcomes.right, 3);
    let logs: Vec<_> = (0..3).map(|agent| folder.path().join(format!("{agent}"))).collect();
    let mut right = 0;
    for (agent, log) in (0..).zip(&logs) {
        right += part(&plan, agent, 3, Some(log)).await.0.outcomes.right;
    }
    assert_eq!(right, 50);
    let view = crate::audit::ClientView::read(logs.iter().map(std::path::PathBuf::as_path));
    let ledger: String = server.numbers().iter().map(|number| format!("{number}\n")).collect();
    assert!(ledger.contains("1000000002\n"), "the warm-up has numbers of its own");
    let outcome = view.expect("logs").against_ledger(ledger.as_bytes(), 9).expect("a ledger");
    let agrees = crate::record::AuditOutcome { answered: 50, ..Default::default() };
    assert_eq!(outcome, agrees);
}

#[tokio::test]
async fn an_open_loop_begins_what_is_due_and_tells_what_it_could_not() {
    let server = Server::start().await;
    let workload =
        "clients = 20\nduration = \"1s\"\narrivals = { distribution = \"poisson\", rate = 300.0 }";
    let open = plan(&server, "/right", workload, "").await;
    let due = arrivals::Schedule::new(&open.workload, open.seed, 0, 1).count() as u64;
    let (end, _) = load(&open).await;
    assert_eq!((end.begun + end.held_back, end.by), (due, EndedBy::Duration));
    assert_eq!(end.outcomes.right + end.outcomes.late, end.begun);

    // Two clients wait for ever: what was due meanwhile is held back once no answer could be in time.
    let workload = "clients = 2\nrequests = 50\ndeadline = \"50ms\"\n\
                    arrivals = { distribution = \"soak\", rate = 200.0 }";
    let (end, _) = load(&plan(&server, "/silence", workload, "").await).await;
    assert_eq!((end.begun + end.held_back, end.outcomes.unanswered), (50, end.begun));
    assert!(end.held_back > 0, "{end:?}");
}

#[tokio::test]
async fn what_waited_for_a_stalled_server_counts_from_when_it_was_due() {
    let server = Server::start().await;
    let workload = "clients = 1\nrequests = 60\ndeadline = \"60s\"\n\
                    arrivals = { distribution = \"soak\", rate = 100.0 }";
    // The first request takes 500 ms, the others nothing: some 35 are due while the only client waits.
    let (end, seconds) = load(&plan(&server, "/stall-once/500", workload, "").await).await;
    assert_eq!(end.outcomes.right, 60);
    let time = Duration::from_millis(150);
    let latency = above(&seconds, |second| &second.latency, time);
    let service = above(&seconds, |second| &second.service, time);
    assert!(service >= 1 && latency >= service + 10, "{latency} {service}");
}

#[tokio::test]
async fn a_load_ends_when_it_is_told_to_and_when_nobody_listens() {
    let server = Server::start().await;
    let endless = plan(&server, "/right", "clients = 2\nduration = \"1h\"", "").await;
    let (stop, stopped) = watch::channel(false);
    let (tell, mut told) = mpsc::channel(1);
    let running = tokio::spawn(run(endless.clone(), 0, 1, Instant::now(), stopped, tell, None));
    told.recv().await.expect("a second");
    stop.send(true).expect("it runs");
    while told.recv().await.is_some() {}
    assert_eq!(running.await.expect("no panic").expect("it ran").by, EndedBy::Stop);

    let (_stop, stopped) = watch::channel(false);
    let (tell, told) = mpsc::channel(1);
    drop(told);
    let end = run(endless.clone(), 0, 1, Instant::now(), stopped, tell, None).await;
    assert_eq!(end.expect("it ran").by, EndedBy::Stop);

    let (stop, stopped) = watch::channel(false);
    let (tell, mut told) = mpsc::channel(1);
    let running = tokio::spawn(run(endless, 0, 1, Instant::now(), stopped, tell, None));
    told.recv().await.expect("a second");
    running.abort();
    server.until_no_connections().await;
    drop(stop);
}

#[tokio::test]
async fn tls_is_spoken_to_whom_the_experiment_trusts() {
    let server = Server::start_with_tls().await;
    let workload = "clients = 2\nrequests = 10\nca = \"ca.pem\"";
    let (end, seconds) = load(&plan(&server, "/right", workload, "").await).await;
    assert_eq!((end.outcomes.right, server.connections()), (10, 2), "{seconds:?}");
    let mut other = plan(&server, "/right", workload, "").await;
    other.ca = Some(Server::start_with_tls().await.ca.clone());
    let (end, seconds) = load(&other).await;
    assert_eq!(end.outcomes.unreachable, 10, "{seconds:?}");
}

#[tokio::test]
async fn logins_are_sent() {
    let server = Server::start().await;
    let workload = format!("{PATIENT}\nuser = \"ann:secret\"");
    let (end, _) = load(&plan(&server, "/login", &workload, "").await).await;
    assert_eq!(end.outcomes.right, 6);
    let (end, _) = load(&plan(&server, "/login", PATIENT, "").await).await;
    assert_eq!(end.outcomes.error, 6);
}

#[tokio::test]
async fn a_slow_reader_is_slow_and_its_slowness_is_not_the_servers() {
    let server = Server::start().await;
    let workload = "clients = 2\nrequests = 2\ndeadline = \"5s\"";
    let plan = plan(&server, "/large/200000", workload, "read_rate = 400000").await;
    let begun = Instant::now();
    let (end, seconds) = load(&plan).await;
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    assert_eq!(end.outcomes.right, 2);
    assert!(seconds.iter().map(|second| second.bytes.1).sum::<u64>() > 400_000);
}

#[tokio::test]
async fn half_a_request_is_sent_and_no_more() {
    let server = Server::start().await;
    let workload = "clients = 1\nrequests = 1\ndeadline = \"10ms\"";
    let (end, _) = load(&plan(&server, "/right", workload, "send_part = 0.5").await).await;
    assert_eq!(end.outcomes.abandoned, 1);
    server.until_no_connections().await;
    let (begun, whole) = server.bytes();
    assert!(begun > 0 && whole == 0, "{begun} {whole}");
}

#[tokio::test]
async fn operations_are_drawn_by_weight_and_the_same_each_time() {
    let server = Server::start().await;
    let operation = "weight = 3.0\n[[operation]]\nname = \"other\"\ntemplate = \"add.xml\"";
    let plan = plan(&server, "/right", "clients = 3\nrequests = 400", operation).await;
    let count = |seconds: &[LoadSecond]| -> u64 {
        seconds.iter().map(|second| second.operations["add"].right).sum()
    };
    let (_, one) = load(&plan).await;
    let (_, two) = load(&plan).await;
    assert_eq!(count(&one), count(&two));
    assert!((250..350).contains(&count(&one)), "{}", count(&one));
}

#[tokio::test]
async fn a_checker_judges_what_else_is_right() {
    let server = Server::start().await;
    let checker = "expect.checker = [\"sh\", \"-c\", \"while read -r line; do case $line in \
                   *:3,*) echo it is the third;; *) echo ok;; esac; done\"]";
    let (end, seconds) = load(&plan(&server, "/right", PATIENT, checker).await).await;
    assert_eq!((end.outcomes.right, end.outcomes.wrong), (5, 1), "{seconds:?}");
    assert!(seconds.iter().any(|second| second.said == ["it is the third"]));
    let named = |seconds: &[LoadSecond]| -> Vec<u64> {
        seconds.iter().flat_map(|second| second.wrong_requests.clone()).collect()
    };
    assert_eq!(named(&seconds), [3]);
    let lies = "expect = { contains = \"never\" }\n[limits]\nnamed_requests = 2";
    let (end, seconds) = load(&plan(&server, "/right", PATIENT, lies).await).await;
    assert_eq!((end.outcomes.wrong, named(&seconds).len()), (6, 2), "{seconds:?}");
}

#[tokio::test]
async fn a_plan_is_the_same_after_its_way_to_another_host() {
    let server = Server::start().await;
    let here = plan(&server, "/right", PATIENT, "expect = { contains = \"{request}\" }").await;
    let json = serde_json::to_string(&here).expect("it can be sent");
    let there: LoadPlan = serde_json::from_str(&json).expect("and read");
    assert_eq!(format!("{here:?}"), format!("{there:?}"));
    assert_eq!(load(&there).await.0.outcomes.right, 6);
}

#[tokio::test]
async fn a_probe_says_what_is_wrong() {
    let server = Server::start().await;
    let plan = plan(&server, "/fault/500", PATIENT, "").await;
    let probe = ProbeRequest::operation(&plan, Some("add")).await.expect("it is there");
    let said = probe.ask().await.expect_err("a fault");
    assert!(said.starts_with("status 500: e:Server"), "{said}");
    assert!(ProbeRequest::operation(&plan, Some("none")).await.is_err());
    let nobody = Server::start().await.stop().await;
    let refused = ProbeRequest::path(&nobody.url, "/", None).await.expect("an address");
    let said = refused.ask().await.expect_err("nobody listens");
    assert_eq!(said, crate::probe::NOBODY_LISTENS, "the watchdog knows it by that");
    let path = ProbeRequest::path(&server.url, "/status/404", None).await.expect("an address");
    assert_eq!(path.ask().await, Err("status 404".to_owned()));
    let path = ProbeRequest::path(&server.url, "/right", None).await.expect("an address");
    assert_eq!((path.ask().await, path.ask().await), (Ok(()), Ok(())));
    assert_eq!(server.connections(), 4, "each has one of its own");
}
