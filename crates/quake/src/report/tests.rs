//! Runs made of synthetic seconds, judged, reported and compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::compare::{Condition, compare};
use super::{CellResult, PAGE, RESULTS, Results, write};
use crate::experiment::FaultAction;
use crate::record::{
    AuditOutcome, Cell, CellOutcome, Event, Failure, FailureClass, Happening, Headroom, LoadSecond,
    Outcomes, ProcessSample, Resources, RunDirectory, SystemSecond, histogram,
};
use crate::words;

const EXPERIMENT: &str = r#"
name = "axis <1.x>"
[system]
name = "Axis {version}, {scope} scope"
process.server = { start = ["java", "-jar", "tomcat.jar"] }
url = "http://127.0.0.1:{port}/axis/services/Counter"
[matrix]
version = ["1.2.1", "1.4"]
scope = ["session", "request"]
[workload]
clients = 8
duration = "5m"
[[operation]]
name = "add"
template = "add.xml"
"#;

/// How a system behaves.
#[derive(Clone, Copy, Debug)]
struct Behaviour {
    /// Right answers a second.
    rate: f64,
    seconds: u32,
    /// Bytes a request.
    leak: f64,
    /// By what part of it memory goes up before it is collected.
    saw: f64,
    /// From then on nothing is answered.
    zombie_from: Option<u32>,
    /// It is killed then, and is away for three seconds.
    killed_at: Option<u32>,
    wrong: u64,
    lost: u64,
    /// A second, of each agent; the watchdog says so of a part of three quarters.
    refused: u64,
    /// Each answer opens one.
    sessions: bool,
    is_confined: bool,
    /// Descriptors a second.
    descriptors: u64,
    /// Memory is taken away then, and the stress is killed five seconds later.
    stressed_at: Option<u32>,
}

/// What its process was told to do no more.
const SHORT: &str = "it ended before its time: signal: 9 (SIGKILL)";

const WELL: Behaviour = Behaviour {
    rate: 500.0,
    seconds: 300,
    leak: 0.0,
    saw: 0.15,
    zombie_from: None,
    killed_at: None,
    wrong: 0,
    lost: 0,
    refused: 0,
    sessions: false,
    is_confined: false,
    descriptors: 0,
    stressed_at: None,
};

impl Behaviour {
    /// As of every tenth second: it has 1 GiB of the host's 4 to itself.
    fn headroom(self, second: u32) -> BTreeMap<String, Headroom> {
        let left = Headroom {
            memory: self.is_confined.then(|| (1 << 30, "its control group's memory".to_owned())),
            descriptors: Some((400, "its limit of descriptors".to_owned())),
        };
        let told = second.is_multiple_of(10);
        told.then(|| ("server".to_owned(), left)).into_iter().collect()
    }
}

/// The whole part.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and not below 0"
)]
fn whole(of: f64) -> u64 {
    of as u64
}

/// From 0 to 1, not regular and always the same.
fn jitter(second: u32, of: u32) -> f64 {
    let mixed =
        (second.wrapping_mul(2_654_435_761) ^ of.wrapping_mul(40_503)).wrapping_mul(2_246_822_519);
    f64::from(mixed >> 8) / f64::from(1_u32 << 24)
}

fn load(of: Behaviour, second: u32, agent: u32) -> LoadSecond {
    let away = of.killed_at.is_some_and(|at| (at..at + 3).contains(&second));
    let dead = of.zombie_from.is_some_and(|from| second >= from);
    let rate = if away || dead { 0.0 } else { of.rate * (0.9 + 0.2 * jitter(second, agent)) / 2.0 };
    let right = whole(rate.round());
    let mut times = histogram::empty();
    for at in 0..u32::try_from(right).expect("few") {
        let slow = if at % 100 == 0 { 20.0 } else { 1.0 };
        let time = 800.0 * slow * (1.0 + jitter(second, at));
        times.record(whole(time)).expect("it grows");
    }
    let outcomes = Outcomes {
        right,
        unreachable: if away { 20 } else { 0 },
        wrong: if second == 10 && agent == 0 { of.wrong } else { 0 },
        refused: of.refused,
        ..Outcomes::default()
    };
    let mut refusals = histogram::empty();
    refusals.record_n(2000, of.refused).expect("it grows");
    LoadSecond {
        agent,
        second,
        begun: outcomes.total(),
        outcomes,
        operations: [("add".to_owned(), outcomes)].into(),
        latency: histogram::encode(&times),
        service: histogram::encode(&times),
        refusal: histogram::encode(&refusals),
        dropped_sessions: if of.sessions { right } else { 0 },
        bytes: (right * 500, right * 400),
        lag: 200 + whole(300.0 * jitter(second, 77)),
        processor: 120 * right,
        memory: 12 << 20,
        wrong_requests: (100..100 + outcomes.wrong).collect(),
        said: if away { vec!["connection refused <111>".to_owned()] } else { Vec::new() },
        ..LoadSecond::default()
    }
}

fn system(of: Behaviour, second: u32) -> SystemSecond {
    let lived = second.min(of.zombie_from.unwrap_or(u32::MAX));
    let saw = of.saw * (f64::from(second % 17) / 17.0 + 0.1 * jitter(second, 5));
    let memory = 100e6 * (1.0 + saw) + of.leak * of.rate * f64::from(lived);
    let stays = Resources {
        memory: whole(memory),
        threads: 30,
        descriptors: 60 + u64::from(second % 3) + of.descriptors * u64::from(lived),
    };
    let sample = ProcessSample {
        pid: if of.killed_at.is_some_and(|at| second >= at + 2) { 43 } else { 42 },
        // A program for each call: some of them run when the sample is taken.
        all: [stays, Resources { memory: 80 << 20, threads: 9, descriptors: 90 }]
            .into_iter()
            .take(1 + usize::from(second % 3 == 1))
            .sum(),
        lasting: Some(stays),
        processor: 450_000,
    };
    SystemSecond {
        second,
        processes: [("server".to_owned(), sample)].into(),
        headroom: of.headroom(second),
        connections: 8,
        memory_available: 4 << 30,
        disk_free: 10 << 30,
        processor: 0.6,
        probe: Some(Ok(900)),
        watching: 800,
    }
}

fn events(of: Behaviour) -> Vec<Event> {
    let event = |at: f64, what| Event { at, what };
    let mut events = vec![event(-3.0, Happening::Ready)];
    if let Some(at) = of.killed_at.map(f64::from) {
        let process = || "server".to_owned();
        let failure = Failure {
            class: FailureClass::Crash,
            since: at,
            after_requests: 1000,
            cause: "signal 9".to_owned(),
            still_answers: false,
        };
        events.extend([
            event(at, Happening::Fault { action: FaultAction::Kill, process: process() }),
            event(at + 0.5, Happening::Failure(failure)),
            event(at + 1.0, Happening::Started { process: process(), pid: 43 }),
            event(at + 3.0, Happening::Answered),
            event(at + 4.0, Happening::Recovered),
        ]);
    }
    if of.refused > 0 && 4.0 * of.refused as f64 > 1.5 * of.rate {
        let cause = "most of them refused".to_owned();
        let class = FailureClass::Refused;
        let failure = Failure { class, since: 0.0, after_requests: 0, cause, still_answers: true };
        events.push(event(5.0, Happening::Failure(failure)));
    }
    if let Some(at) = of.stressed_at.map(f64::from) {
        let stress = |on: bool| {
            let short = (!on).then(|| SHORT.to_owned());
            Happening::Stress { resource: "memory".to_owned(), on, short }
        };
        events.extend([event(at, stress(true)), event(at + 5.0, stress(false))]);
    }
    if let Some(from) = of.zombie_from {
        let failure = Failure {
            class: FailureClass::Zombie,
            since: f64::from(from),
            after_requests: whole(of.rate * f64::from(from)),
            cause: "goodput 0/s of 500/s; 27 OutOfMemoryError in its log".to_owned(),
            still_answers: false,
        };
        events.push(event(f64::from(from) + 5.0, Happening::Failure(failure)));
    }
    events
}

fn cell(run: &RunDirectory, values: &[(&str, &str)], repetition: u64, of: Behaviour) {
    let name: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let owned = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let which = Cell { values: owned.collect::<BTreeMap<_, _>>(), repetition };
    let directory = run.cell(&name.join(","), repetition);
    let mut writer = directory.begin(&which).expect("it can be written");
    let mut outcomes = Outcomes::default();
    for second in 0..of.seconds {
        for agent in [1, 0] {
            let seen = load(of, second, agent);
            outcomes += seen.outcomes;
            writer.load(&seen).expect("it can be written");
        }
        writer.system(&system(of, second)).expect("it can be written");
    }
    for event in events(of) {
        writer.event(&event).expect("it can be written");
    }
    let audit = AuditOutcome {
        answered: outcomes.right,
        lost: of.lost,
        examples: (0..of.lost).map(|number| format!("lost {number}")).collect(),
        ..AuditOutcome::default()
    };
    let outcome = CellOutcome {
        ended: "its time was over".to_owned(),
        seconds: f64::from(of.seconds),
        outcomes,
        baseline: of.rate,
        audit: Some(audit),
        environment: [("kernel".to_owned(), "Linux 6.1".to_owned())].into(),
        clocks: vec![(0.000_1, 0.000_05); 2],
    };
    writer.complete(&outcome).expect("it can be written");
}

fn matrix(directory: &Path, of: &[(&str, &str, Behaviour)]) -> Results {
    let run = RunDirectory::create(directory, EXPERIMENT).expect("it can be written");
    for (version, scope, behaviour) in of {
        cell(&run, &[("scope", scope), ("version", version)], 1, *behaviour);
    }
    write(directory).expect("it can be reported").0
}

fn line_of(behaviour: Behaviour) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let results = matrix(directory.path(), &[("1.4", "request", behaviour)]);
    results.systems[0].line.clone()
}

#[test]
fn each_behaviour_has_its_verdict() {
    let flat = line_of(WELL);
    assert!(flat.starts_with("Axis 1.4, request scope: flat over 150,"), "{flat}");
    let leaking = line_of(Behaviour { leak: 1024.0, ..WELL });
    assert!(leaking.contains("AGEING over 150,"), "{leaking}");
    assert!(leaking.contains("memory of server grows by 1"), "{leaking}");
    // Sure, and 0.4 % of what it uses.
    let little = line_of(Behaviour { leak: 2.5, saw: 0.002, ..WELL });
    assert!(little.contains(": flat over 150,"), "{little}");
    let (_, grew) = little.split_once("memory of server grew by ").expect(&little);
    assert!(
        grew.contains(" bytes a request, at most 0.") && grew.ends_with(" % of what it uses"),
        "{little}"
    );
    assert!(!flat.contains("grew"), "{flat}");
    let sessions = line_of(Behaviour { leak: 1024.0, sessions: true, ..WELL });
    assert!(sessions.contains("answers opened a session that no client used again"), "{sessions}");
    let zombie = line_of(Behaviour { leak: 10_000.0, zombie_from: Some(100), ..WELL });
    assert!(zombie.contains(": ZOMBIE after 50,406 requests, goodput 0/s"), "{zombie}");
    assert!(
        zombie.contains("memory of server grows by 9.") && zombie.contains("KiB a request"),
        "{zombie}"
    );
    let wrong = line_of(Behaviour { wrong: 3, ..WELL });
    assert!(
        wrong.contains(": WRONG after")
            && wrong.contains("3 answers were not right (requests 100, 101, 102)"),
        "{wrong}"
    );
    let lost = line_of(Behaviour { lost: 2, ..WELL });
    assert!(lost.contains(": WRONG after") && lost.contains("the audit found 2 lost"), "{lost}");
    assert!(lost.ends_with("0 invented (first lost 0, lost 1)"), "{lost}");
    let refuses = line_of(Behaviour { refused: 2250, ..WELL });
    let told = ": REFUSED from the start, most of them refused, 90 % of requests refused, 99 % of them within 2 ms";
    assert!(refuses.ends_with(told), "{refuses}");
    let expected = line_of(Behaviour { refused: 100, ..WELL });
    assert!(
        expected.contains(": flat over 150,")
            && expected
                .ends_with(" requests, 28.5 % of requests refused, 99 % of them within 2 ms"),
        "{expected}"
    );
    let short = line_of(Behaviour { seconds: 9, ..WELL });
    assert!(short.contains("undecided after 4,") && short.contains("run longer"), "{short}");
    let silent = line_of(Behaviour { rate: 0.0, ..WELL });
    assert!(silent.contains("undecided") && silent.contains("nothing was answered"), "{silent}");
}

#[test]
fn what_is_used_up_lasts_until_the_nearest_limit() {
    let leaking = Behaviour { leak: 1024.0, ..WELL };
    // 1 KiB of each of 500 requests a second.
    assert!(line_of(leaking).contains("the host's memory would last 2."), "{}", line_of(leaking));
    let confined = line_of(Behaviour { is_confined: true, ..leaking });
    assert!(confined.contains("its control group's memory would last 3"), "{confined}");
    let open = line_of(Behaviour { descriptors: 2, ..WELL });
    assert!(open.contains("descriptors of server grows by"), "{open}");
    let (_, lasts) = open.split_once("its limit of descriptors would last ").expect(&open);
    // 400 of 2 a second.
    assert!(lasts.starts_with("3.3") && lasts.contains("min"), "{open}");
}

#[test]
fn what_was_killed_is_not_blamed_and_its_recovery_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let behaviour = Behaviour { killed_at: Some(40), ..WELL };
    let results = matrix(directory.path(), &[("1.4", "request", behaviour)]);
    let (figures, verdict) = (&results.cells[0].figures, &results.cells[0].verdict);
    assert_eq!(verdict.kind.word(), "flat", "{verdict:?}");
    let told = "noticed after 0.5 s, back after 4 s (medians)";
    assert!(verdict.sentence.contains(told), "{}", verdict.sentence);
    let csv = fs::read_to_string(directory.path().join("results.csv")).expect("it is there");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| {
        let from_end = lines[0].iter().rev().position(|field| *field == name).expect(name);
        // The sentence before has commas of its own.
        lines[1][lines[1].len() - 1 - from_end]
    };
    assert_eq!(["to_detect", "to_answer", "to_recover"].map(column), ["0.5", "3", "4"]);
    let [failure] = &figures.failures[..] else { panic!("{:?}", figures.failures) };
    assert_eq!(failure.provoked_by.as_deref(), Some("kill of server"));
    assert_eq!((failure.to_detect, failure.to_answer), (0.5, Some(3.0)));
    let served = figures.seconds_served.expect("there was load");
    assert!((served - 297.0 / 300.0).abs() < 1e-9, "{served}");
    // 40 requests of each of these seconds found nobody.
    let right = figures.outcomes.right as f64;
    assert_eq!(figures.availability_clients, Some(right / (right + 120.0)));
    assert!(figures.ageing.iter().all(|of| of.lives == 2 && of.ageing.since >= 42.0));

    let mut down = figures.clone();
    down.failures[0].to_recover = None;
    let verdict = crate::verdict::Verdict::of(&down);
    assert_eq!(verdict.kind.word(), "undecided", "{verdict:?}");
    let mut faulty = figures.clone();
    faulty.failures.clear();
    faulty.outcomes = Outcomes { error: 50, ..Outcomes::default() };
    assert_eq!(crate::verdict::Verdict::of(&faulty).kind.word(), "ERROR");
    assert!(verdict.cause.contains("not recovered from what kill of server did"), "{verdict:?}");
}

#[test]
fn ageing_that_is_not_to_be_judged_makes_no_verdict() {
    let directory = tempfile::tempdir().expect("a directory");
    let leaks = Behaviour { leak: 65_536.0, ..WELL };
    let mut figures =
        matrix(directory.path(), &[("1.4", "session", leaks)]).cells.remove(0).figures;
    assert_eq!(crate::verdict::Verdict::of(&figures).kind.word(), "AGEING");
    (figures.ageing_ignored, figures.ageing) = (true, Vec::new());
    let verdict = crate::verdict::Verdict::of(&figures);
    assert_eq!((verdict.kind.word().as_str(), verdict.cause.as_str()), ("no failure", ""));
    assert_eq!(
        verdict.sentence,
        format!("No failure over {} requests.", words::count(verdict.requests))
    );
    figures.outcomes.wrong = 1;
    assert_eq!(crate::verdict::Verdict::of(&figures).kind.word(), "WRONG");
}

#[test]
fn each_request_that_was_wrong_or_lost_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let of = Behaviour { wrong: 30, lost: 25, seconds: 20, ..WELL };
    let results = matrix(directory.path(), &[("1.4", "request", of)]);
    let figures = &results.cells[0].figures;
    assert_eq!(figures.wrong_requests, (100..120).collect::<Vec<u64>>(), "the first of them");
    assert_eq!(figures.audit.as_ref().map(|of| of.examples.len()), Some(20));
    let csv = fs::read_to_string(directory.path().join("requests.csv")).expect("it is there");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines[0], lines.len()), ("cell,repetition,found,request", 1 + 30 + 25));
    assert_eq!(lines[30], "\"scope=request,version=1.4\",1,wrong,129");
    assert_eq!(lines[55], "\"scope=request,version=1.4\",1,lost,24");
    let page = fs::read_to_string(directory.path().join(PAGE)).expect("it is there");
    assert!(page.contains("100, 101, 102") && page.contains("all in requests.csv"));
}

#[test]
fn a_stress_that_ended_before_its_time_is_told_with_its_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = matrix(
        directory.path(),
        &[("1.4", "request", Behaviour { stressed_at: Some(40), ..WELL })],
    );
    let CellResult { figures, verdict } = &results.cells[0];
    let [stress] = &figures.stresses[..] else { panic!("{:?}", figures.stresses) };
    assert_eq!((stress.to, stress.short.as_deref()), (Some(45.0), Some(SHORT)));
    let told = format!("the stress of memory was short: {SHORT}");
    assert!(verdict.sentence.contains(&told), "{}", verdict.sentence);
    let page = fs::read_to_string(directory.path().join(PAGE)).expect("it is there");
    assert!(page.contains(&format!("<td>stress of memory ended: {SHORT}")), "in its events");
    assert!(page.contains(&format!("<td>40 s<td>45 s<td>{SHORT}")), "in its table");
    closed(&page);
}

#[test]
fn the_report_shows_what_fails_and_what_that_has_in_common() {
    let directory = tempfile::tempdir().expect("a directory");
    let zombie = Behaviour { leak: 10_000.0, zombie_from: Some(60), seconds: 70, ..WELL };
    let killed = Behaviour { killed_at: Some(40), ..WELL };
    let results = matrix(
        directory.path(),
        &[
            ("1.2.1", "session", zombie),
            ("1.4", "session", zombie),
            ("1.2.1", "request", WELL),
            ("1.4", "request", killed),
        ],
    );
    assert_eq!(results.contrast, [("scope".to_owned(), "session".to_owned())]);
    let page = fs::read_to_string(directory.path().join(PAGE)).expect("it is there");
    for part in [
        "<strong>scope = session</strong>",
        "Axis 1.2.1, session scope: ZOMBIE after 30,289 requests",
        "<g class=\"mark fault\"><title>fault: kill of server</title>",
        "<g class=\"mark failure\">",
        "name = &quot;axis &lt;1.x&gt;&quot;",
        "Generator: lag",
        "connection refused &lt;111&gt;",
        "Linux 6.1",
        "Clock of agent 1, scope=session,version=1.4<td>0.1 ms off, within 0.05 ms",
        "Clock of agent 0, scope=request,version=1.2.1<td>",
        "fishplate quake run experiment.toml",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    for foreign in ["<script", "src=", "@import", "url(", "href=\"http"] {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    closed(&page);
    let json = Results::read(&directory.path().join(RESULTS)).expect("it is JSON");
    assert_eq!(json.systems, results.systems);
    let csv = fs::read_to_string(directory.path().join("results.csv")).expect("it is there");
    let columns = |line: &str| line.matches(',').count();
    assert_eq!(csv.lines().count(), 5, "a head and four cells");
    assert!(csv.starts_with("cell,repetition,system,scope,version,verdict,"), "{csv}");
    let series = fs::read_to_string(directory.path().join("series.csv")).expect("it is there");
    let head = series.lines().next().expect("it has one");
    let unquoted: Vec<&str> = series.lines().filter(|line| !line.contains('"')).collect();
    assert!(unquoted.iter().all(|line| columns(line) == columns(head)), "{head}");
    assert_eq!(series.lines().count(), 1 + 70 + 70 + 150 + 150, "pairs of seconds after 240");
}

#[test]
fn a_sweep_over_numbers_is_drawn_in_their_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = EXPERIMENT
        .replace("version = [\"1.2.1\", \"1.4\"]", "clients = [\"25\", \"100\", \"300\"]");
    let run = RunDirectory::create(directory.path(), &text).expect("it can be written");
    for (clients, rate) in [("25", 400.0), ("100", 500.0), ("300", 100.0)] {
        for scope in ["session", "request"] {
            let behaviour = Behaviour { rate, seconds: 20, ..WELL };
            cell(&run, &[("clients", clients), ("scope", scope)], 1, behaviour);
        }
    }
    write(directory.path()).expect("it can be reported");
    let page = fs::read_to_string(directory.path().join(PAGE)).expect("it is there");
    assert!(page.contains("<h3>By clients</h3>") && !page.contains("<h3>By scope</h3>"));
    let from = page.find("<h3>By clients</h3>").expect("it is there");
    let rows = ["<th scope=\"row\">25", "<th scope=\"row\">100", "<th scope=\"row\">300"];
    let at = rows.map(|row| page[from..].find(row).expect(row));
    assert!(at.is_sorted(), "{at:?}");
    closed(&page);
}

/// No element is left open.
fn closed(page: &str) {
    for element in ["table", "details", "section", "figure", "div", "ul", "g", "p", "pre"] {
        let opened = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
    }
}

#[test]
fn repetitions_of_a_cell_make_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = format!("repetitions = 3\n{EXPERIMENT}");
    let run = RunDirectory::create(directory.path(), &text).expect("it can be written");
    for (repetition, from) in [(1, 60), (2, 70), (3, 65)] {
        let zombie = Behaviour { zombie_from: Some(from), seconds: 80, ..WELL };
        cell(&run, &[("scope", "session"), ("version", "1.4")], repetition, zombie);
    }
    let results = write(directory.path()).expect("it can be reported").0;
    assert_eq!((results.systems.len(), results.cells.len()), (1, 3));
    let line = &results.systems[0].line;
    assert!(line.contains("ZOMBIE after 30,289 to 35,116 requests (3 of 3 runs), "), "{line}");
}

#[test]
fn a_cell_that_was_cut_off_is_incomplete_and_still_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    matrix(directory.path(), &[("1.4", "request", WELL)]);
    let run = RunDirectory::open(directory.path()).expect("it is one");
    let cut = run.cell("scope=request,version=1.4", 1);
    fs::remove_file(cut.path().join("outcome.json")).expect("it was there");
    let load = cut.path().join("load.jsonl");
    let text = fs::read(&load).expect("it is there");
    fs::write(&load, &text[..text.len() - 5]).expect("it can be written");
    let results = write(directory.path()).expect("it can be reported").0;
    let line = &results.systems[0].line;
    assert!(line.contains(": incomplete after 149,"), "{line}");
    assert!((results.cells[0].figures.goodput - 500.0).abs() < 10.0);
}

#[test]
fn a_histogram_that_is_none_is_told_with_its_file_and_line() {
    let directory = tempfile::tempdir().expect("a directory");
    matrix(directory.path(), &[("1.4", "request", Behaviour { seconds: 3, ..WELL })]);
    let load = directory.path().join("cells/scope=request,version=1.4/1/load.jsonl");
    let text = fs::read_to_string(&load).expect("it is there");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[2] = lines[2].replace("\"latency\":\"", "\"latency\":\"x");
    fs::write(&load, lines.join("\n") + "\n").expect("it can be written");
    let error = write(directory.path()).expect_err("it is none").to_string();
    assert!(error.contains("load.jsonl is damaged, line 3: a histogram can't be read"), "{error}");
}

fn conditions(texts: &[&str]) -> Vec<Condition> {
    texts.iter().map(|text| text.parse().expect("it is one")).collect()
}

#[test]
fn a_build_fails_when_a_condition_holds_or_nothing_was_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let of = |name: &str, behaviour: Behaviour| {
        matrix(&directory.path().join(name), &[("1.4", "request", behaviour)])
    };
    let (before, slower) = (of("a", WELL), of("b", Behaviour { rate: 400.0, ..WELL }));
    let failed = |first: &Results, second: &Results, texts: &[&str]| {
        compare(first, second, &conditions(texts)).failed
    };
    assert!(failed(&before, &before, &["goodput < 0.99", "p99 > 1.01", "lost > 0"]).is_empty());
    let told = failed(&before, &slower, &["goodput < 0.9", "goodput < 0.5", "wrong>0"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("goodput is 0.8, `goodput < 0.9`"), "{told:?}");
    let lost = of("c", Behaviour { lost: 1, ..WELL });
    assert_eq!(failed(&before, &lost, &["lost > 0"]).len(), 1);
    let silent = of("d", Behaviour { rate: 0.0, ..WELL });
    for condition in ["p99 > 1.5", "wrong > 0"] {
        let told = failed(&before, &silent, &[condition]);
        assert!(told[0].contains("was not measured"), "{condition}: {told:?}");
    }
    let other = matrix(&directory.path().join("e"), &[("1.3", "request", WELL)]);
    assert_eq!(failed(&before, &other, &["goodput < 0.9"]).len(), 3, "two alone, none in common");
    let text = compare(&before, &slower, &[]).text();
    assert!(text.contains("scope=request,version=1.4") && text.contains("  goodput"), "{text}");
}

#[test]
fn a_condition_that_is_none_says_what_one_is() {
    for text in ["goodput", "speed < 1", "goodput < fast", "goodput = 1", "p99 > inf"] {
        let error = text.parse::<Condition>().expect_err(text).to_string();
        assert!(error.contains("`goodput < 0.9`") && error.contains("availability"), "{error}");
    }
    assert_eq!(conditions(&["goodput<0.9"])[0].to_string(), "goodput < 0.9");
}
