//! Seconds that were made up, and what the watchdog says of them.

use std::collections::VecDeque;

use super::*;
use crate::experiment::{Arrivals, FaultAction};
use crate::probe::NOBODY_LISTENS;
use crate::record::{Outcomes, ProcessSample, Resources};

/// A server and its clients: 8 in a closed loop, 500 right answers a second.
struct Simulation {
    watchdog: Watchdog,
    /// Requests of a closed loop that are under way when it begins.
    first: u64,
    /// Clients that load it.
    clients: u64,
    /// Requests begun until the end of each second.
    begun: VecDeque<u64>,
    ended: u64,
    /// In seconds.
    deadline: usize,
    second: u32,
    said: Vec<Judgement>,
}

/// What is seen in a second.
#[derive(Clone)]
struct Seen {
    begun: u64,
    held_back: u64,
    outcomes: Outcomes,
    probe: Option<Result<u64, String>>,
    cores: f64,
    memory: u64,
}

fn healthy() -> Seen {
    answers(Outcomes { right: 500, ..Outcomes::default() })
}

fn answers(outcomes: Outcomes) -> Seen {
    Seen {
        begun: outcomes.total(),
        held_back: 0,
        outcomes,
        probe: Some(Ok(800)),
        cores: 0.5,
        memory: 64 << 20,
    }
}

/// No answer to anybody.
fn silent(cores: f64) -> Seen {
    let probe = Some(Err("no answer for 3.0 s".to_owned()));
    Seen { probe, cores, ..answers(Outcomes::default()) }
}

/// The process is there, and its port refuses.
fn refusing() -> Seen {
    let probe = Some(Err(NOBODY_LISTENS.to_owned()));
    Seen { probe, ..answers(Outcomes { unreachable: 300, ..Outcomes::default() }) }
}

fn simulate(watchdog: &str) -> Simulation {
    simulate_of(watchdog, "")
}

fn simulate_of(watchdog: &str, workload: &str) -> Simulation {
    let workload = match workload.starts_with("clients") {
        true => workload.to_owned(),
        false => format!("clients = 8\n{workload}"),
    };
    let text = format!(
        "name = 'simulated'\nsystem = {{ name = 'it', url = 'http://127.0.0.1:1/', \
         process.server = {{ start = ['it'] }} }}\n\
         [workload]\n{workload}\n[[operation]]\nname = 'add'\n[watchdog]\n{watchdog}"
    );
    let experiment: Experiment = toml::from_str(&text).expect("an experiment");
    Simulation::of(&experiment)
}

/// How much later than it happens something is heard of.
const HEARD_AFTER: f64 = 0.25;

impl Simulation {
    fn of(experiment: &Experiment) -> Self {
        let closed = matches!(experiment.workload.arrivals, Arrivals::Closed);
        Self {
            watchdog: Watchdog::new(experiment).expect("its sizes are sizes"),
            first: if closed { 8 } else { 0 },
            clients: 8,
            begun: VecDeque::new(),
            ended: 0,
            deadline: usize::try_from(experiment.workload.deadline.as_secs()).expect("it is short"),
            second: 0,
            said: Vec::new(),
        }
    }

    /// What is under way after a second, and what of it longer than the deadline.
    fn count(&mut self, clients: &MergedSecond) -> (u64, u64) {
        let begun = self.begun.back().copied().unwrap_or(0) + clients.begun;
        self.begun.push_back(begun);
        self.ended += clients.outcomes.total();
        if self.begun.len() > self.deadline + 1 {
            self.begun.pop_front();
        }
        let due = (self.begun.len() > self.deadline).then(|| self.begun[0]);
        (begun.saturating_sub(self.ended), due.map_or(0, |due| due.saturating_sub(self.ended)))
    }

    fn see(&mut self, seconds: u32, seen: &Seen) -> &mut Self {
        for _ in 0..seconds {
            let mut clients = MergedSecond::new(self.second);
            clients.begun = seen.begun + std::mem::take(&mut self.first);
            clients.held_back = seen.held_back;
            clients.outcomes = seen.outcomes;
            clients.clients = self.clients;
            clients.wrong_requests =
                (7..).take(usize::try_from(seen.outcomes.wrong).expect("few")).collect();
            (clients.under_way, clients.overdue) = self.count(&clients);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a few cores"
            )]
            let processor = (seen.cores * 1e6) as u64;
            let sample = ProcessSample {
                pid: 1,
                all: Resources { memory: seen.memory, ..Default::default() },
                processor,
                ..Default::default()
            };
            let system = SystemSecond {
                second: self.second,
                processes: [(SERVER.to_owned(), sample)].into(),
                probe: seen.probe.clone(),
                ..SystemSecond::default()
            };
            self.second += 1;
            self.said.extend(self.watchdog.observe(&clients, &system));
        }
        self
    }

    fn notice(&mut self, what: Happening) -> &mut Self {
        let event = Event { at: f64::from(self.second), what };
        self.said.extend(self.watchdog.notice(&event, event.at + HEARD_AFTER));
        self
    }

    fn killed(&mut self) -> &mut Self {
        self.notice(ended(None, Some(9), false))
    }

    fn restarted(&mut self) -> &mut Self {
        self.notice(Happening::Started { process: SERVER.to_owned(), pid: 2 });
        self.notice(Happening::Ready)
    }

    /// The failures, with the second at whose end each was said.
    fn failures(&self) -> Vec<(f64, Failure)> {
        let failures = self.said.iter().filter_map(|said| match said {
            Judgement::Happened(Event { at, what: Happening::Failure(failure) }) => {
                Some((*at, failure.clone()))
            }
            _ => None,
        });
        failures.collect()
    }

    fn classes(&self) -> Vec<FailureClass> {
        self.failures().into_iter().map(|(_, failure)| failure.class).collect()
    }

    /// When this happened, the first time.
    fn at(&self, what: &Happening) -> Option<f64> {
        self.said.iter().find_map(|said| match said {
            Judgement::Happened(event) if event.what == *what => Some(event.at),
            _ => None,
        })
    }
}

fn ended(code: Option<i32>, signal: Option<i32>, out_of_memory: bool) -> Happening {
    Happening::Ended { process: SERVER.to_owned(), code, signal, out_of_memory }
}

/// Each class, how it looks, and how many seconds it may take until it is said (`hang_after`, `window` are 5 s).
fn failing() -> Vec<(FailureClass, Seen, u32, &'static str)> {
    let of = |outcomes| answers(outcomes);
    let some = Outcomes::default();
    vec![
        (FailureClass::Crash, refusing(), 2, "refused connections for 2 s"),
        (FailureClass::Hang, silent(0.0), 6, "(idle)"),
        (FailureClass::Zombie, silent(1.9), 6, "1.90 cores (thrashing)"),
        (
            FailureClass::Zombie,
            Seen { cores: 0.01, ..of(Outcomes { right: 1, unanswered: 2, ..some }) },
            6,
            "(idle)",
        ),
        (FailureClass::Zombie, of(Outcomes { right: 2, late: 20, ..some }), 6, "late"),
        (FailureClass::Degraded, of(Outcomes { right: 60, late: 3, ..some }), 6, "2500 expected"),
        (
            FailureClass::Wrong,
            of(Outcomes { right: 499, wrong: 1, ..some }),
            1,
            "1 answers were wrong (requests 7), 499 right",
        ),
        (FailureClass::Wrong, of(Outcomes { right: 5, wrong: 490, ..some }), 1, "wrong"),
        (FailureClass::Error, of(Outcomes { right: 250, error: 250, ..some }), 6, "error"),
        (FailureClass::Error, of(Outcomes { error: 900, ..some }), 6, "error"),
        (FailureClass::Refused, of(Outcomes { right: 250, refused: 800, ..some }), 6, "refused"),
        (FailureClass::Refused, of(Outcomes { refused: 5000, ..some }), 6, "refused"),
    ]
}

#[test]
fn each_class_is_said_once_within_its_time() {
    for (class, seen, within, cause) in failing() {
        let mut simulation = simulate("restarts = 1");
        simulation.see(20, &healthy());
        assert_eq!(simulation.classes(), [], "{class:?}: not before");
        simulation.see(within, &seen);
        let failures = simulation.failures();
        let [(at, failure)] = &failures[..] else { panic!("{class:?}: {failures:?}") };
        assert_eq!(failure.class, class, "{failures:?}");
        assert!(failure.since >= 20.0 && failure.since < *at, "{failures:?}");
        assert!(failure.cause.contains(cause), "{failures:?}");
        assert_eq!(failure.after_requests, 10_000, "until it began, not until it was said");
        let restarts = simulation.said.contains(&Judgement::Restart);
        assert_eq!(restarts, class.ends_it(), "{class:?}");
    }
}

#[test]
fn a_server_that_was_never_well_has_its_class_too() {
    for (class, seen, ..) in failing() {
        // Compared with nothing, a server is only slow.
        if class == FailureClass::Degraded {
            continue;
        }
        let mut simulation = simulate("restarts = 1");
        simulation.see(12, &seen);
        let classes = simulation.classes();
        let like_it = match class {
            // Whether what it always did is little nobody knows.
            FailureClass::Zombie if seen.outcomes.right > 0 => {
                classes.is_empty() || classes == [class]
            }
            _ => classes.first() == Some(&class),
        };
        assert!(like_it, "{class:?}: {classes:?}");
    }
}

#[test]
fn right_answers_are_back_only_where_there_were_none() {
    for (right, stopped) in [(50, false), (0, true)] {
        let mut simulation = simulate("");
        let refuses = answers(Outcomes { right, refused: 5000, ..Outcomes::default() });
        simulation.see(20, &healthy()).see(6, &refuses).see(6, &healthy());
        let failures = simulation.failures();
        let [(_, failure)] = &failures[..] else { panic!("{failures:?}") };
        assert_eq!(failure.still_answers, !stopped, "{failure:?}");
        assert_eq!(simulation.at(&Happening::Answered).is_some(), stopped, "{:?}", simulation.said);
        assert!(simulation.at(&Happening::Recovered).is_some());
    }
}

#[test]
fn refusals_that_are_expected_are_no_failure_while_goodput_is_at_its_level() {
    let at_level = Outcomes { right: 500, refused: 50_000, ..Outcomes::default() };
    for (refused_above, classes) in [("0.5", &[FailureClass::Refused][..]), ("1.0", &[])] {
        let mut simulation = simulate(&format!("refused_above = {refused_above}"));
        simulation.see(20, &answers(at_level));
        assert_eq!(simulation.classes(), classes, "{refused_above}");
    }
    let mut simulation = simulate("refused_above = 1.0");
    simulation.see(20, &answers(at_level)).see(6, &answers(Outcomes { right: 50, ..at_level }));
    assert_eq!(simulation.classes(), [FailureClass::Refused], "it takes less than it can");
}

#[test]
fn a_crash_is_said_at_once_with_how_it_ended() {
    for (what, cause) in [
        (ended(Some(3), None, false), "exit code 3"),
        (ended(None, Some(11), false), "signal 11 (SIGSEGV)"),
        (ended(None, Some(9), true), "want of memory"),
    ] {
        let mut simulation = simulate("restarts = 1");
        simulation.see(10, &healthy()).notice(what);
        let failures = simulation.failures();
        assert_eq!((failures[0].0, failures[0].1.class), (10.0 + HEARD_AFTER, FailureClass::Crash));
        assert_eq!(failures[0].1.since, 10.0, "when it ended, not when that was heard");
        assert!(failures[0].1.cause.contains(cause), "{failures:?}");
        assert_eq!(failures[0].1.after_requests, 5000);
        assert_eq!(simulation.said.last(), Some(&Judgement::Restart));
    }
}

/// A generator for the noise of these tests.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn nothing_is_invented_of_a_healthy_server_in_a_day() {
    let mut simulation = simulate("");
    let mut noise = Noise(1);
    while simulation.second < 86_400 {
        // It collects garbage: three seconds without an answer, which then all come.
        if simulation.second % 97 == 50 {
            simulation.see(3, &silent(1.0));
        }
        let right = 400 + noise.below(200);
        let late = u64::from(noise.below(50) == 0);
        let error = noise.below(3);
        simulation.see(1, &answers(Outcomes { right, late, error, ..Outcomes::default() }));
    }
    assert_eq!(simulation.said, []);
    assert!(
        simulation.watchdog.baseline().is_some_and(|baseline| (400.0..600.0).contains(&baseline))
    );
}

#[test]
fn nothing_is_invented_of_a_slow_server_whose_answers_come_by_chance() {
    let mut simulation = simulate("");
    let mut noise = Noise(2);
    while simulation.second < 20_000 {
        // Two a second in the mean, in one of seven seconds none.
        let right = (0..20).filter(|_| noise.below(10) == 0).count() as u64;
        simulation.see(1, &answers(Outcomes { right, ..Outcomes::default() }));
    }
    assert_eq!(simulation.said, []);
}

#[test]
fn nothing_is_invented_when_a_closed_loop_ends_and_its_last_answer_is_slow() {
    let waits = || Seen { begun: 0, ..answers(Outcomes::default()) };
    let mut simulation = simulate("");
    simulation.see(20, &healthy());
    simulation.watchdog.load_ends();
    simulation.see(8, &waits());
    assert_eq!(simulation.said, []);
    // One that is silent to its probe too hangs, then as ever.
    simulation.see(8, &silent(0.0));
    assert_eq!(simulation.classes(), [FailureClass::Hang]);

    let mut goes_on = simulate("");
    goes_on.see(20, &healthy()).see(8, &waits());
    assert_ne!(goes_on.classes(), [], "its clients could have gone on");
}

#[test]
fn nothing_is_invented_when_less_is_asked() {
    let right = |right| answers(Outcomes { right, ..Outcomes::default() });
    // From 500 a second down to none.
    let ramp = "duration = '1h'\narrivals = { distribution = 'ramp', from = 500.0, to = 0.0 }";
    let mut down = simulate_of("", ramp);
    for second in 0..500 {
        down.see(1, &right(500 - second));
    }
    assert_eq!(down.said, []);
    // 400 at once every ten seconds, done in two, and nothing in between.
    let burst = "duration = '1h'\narrivals = { distribution = 'burst', size = 400, every = '10s' }";
    let mut bursts = simulate_of("", burst);
    for _ in 0..100 {
        let first = Seen { begun: 400, ..right(200) };
        let second = Seen { begun: 0, ..right(200) };
        bursts.see(1, &first).see(1, &second).see(8, &right(0));
    }
    assert_eq!(bursts.said, []);
    // And the same, when it does not answer one of them.
    bursts.see(1, &Seen { begun: 400, ..silent(0.0) }).see(9, &silent(0.0));
    assert_eq!(bursts.classes(), [FailureClass::Hang]);
}

#[test]
fn nothing_is_invented_when_agents_are_lost_away_or_done() {
    // Of ten agents nine are lost, one after the other; each had 50 of 500 answers.
    let mut lost = simulate_of("", "clients = 20");
    lost.clients = 20;
    lost.see(20, &healthy());
    for agents in (1..10).rev() {
        lost.clients = 2 * agents;
        lost.see(30, &answers(Outcomes { right: 50 * agents, ..Outcomes::default() }));
    }
    assert_eq!(lost.said, []);
    // The one that is left is served a tenth of what it was.
    lost.see(30, &answers(Outcomes { right: 5, ..Outcomes::default() }));
    assert_eq!(lost.classes(), [FailureClass::Degraded]);
    // All are away for a time, and the probe is answered.
    let mut away = simulate("");
    away.see(20, &healthy());
    away.clients = 0;
    away.see(20, &answers(Outcomes::default()));
    away.clients = 8;
    away.see(20, &healthy());
    assert_eq!(away.said, []);
    // It failed meanwhile.
    away.clients = 0;
    away.see(20, &silent(0.0));
    assert_eq!(away.classes(), [FailureClass::Hang]);
}

#[test]
fn the_baseline_is_that_of_all_clients_whoever_was_there() {
    let mut half = simulate("");
    half.clients = 4;
    half.see(20, &answers(Outcomes { right: 250, ..Outcomes::default() }));
    assert_eq!(half.watchdog.baseline(), Some(500.0));
}

#[test]
fn an_open_loop_is_judged_by_what_is_due() {
    let soak =
        "duration = '1h'\ndeadline = '2s'\narrivals = { distribution = 'soak', rate = 500.0 }";
    // All clients wait, so that most of what should be begun is not.
    let held = Seen {
        begun: 50,
        held_back: 450,
        ..answers(Outcomes { right: 50, ..Outcomes::default() })
    };
    let mut simulation = simulate_of("", soak);
    simulation.see(20, &healthy()).see(6, &held);
    assert_eq!(simulation.classes(), [FailureClass::Degraded]);
    // All are begun, and few of them end.
    let begun = Seen { begun: 500, ..answers(Outcomes { right: 50, ..Outcomes::default() }) };
    let mut simulation = simulate_of("", soak);
    simulation.see(20, &healthy()).see(8, &begun);
    assert_eq!(simulation.classes(), [FailureClass::Degraded]);
}

#[test]
fn a_pause_below_the_limit_is_none_and_one_above_is() {
    for (pause, classes) in [(1, 0), (3, 0), (4, 0), (6, 1)] {
        let mut simulation = simulate("restarts = 1");
        simulation.see(20, &healthy()).see(pause, &silent(1.0)).see(20, &healthy());
        assert_eq!(simulation.classes().len(), classes, "{pause} s: {:?}", simulation.said);
    }
    let mut patient = simulate("hang_after = '20s'\nwindow = '30s'");
    patient.see(40, &healthy()).see(15, &silent(1.0)).see(20, &healthy());
    assert_eq!(patient.said, []);
}

#[test]
fn a_probe_alone_lies() {
    // It is answered at once, and the loaded clients are not.
    let mut simulation = simulate("restarts = 1");
    let idle = Seen { probe: Some(Ok(500)), ..silent(0.0) };
    simulation.see(20, &healthy()).see(6, &idle);
    assert_eq!(simulation.classes(), [FailureClass::Zombie]);
    // It is not, and they are.
    let mut simulation = simulate("restarts = 1");
    let unprobed = Seen { probe: Some(Err("no answer for 3.0 s".to_owned())), ..healthy() };
    simulation.see(20, &healthy()).see(30, &unprobed);
    assert_eq!(simulation.said, []);
}

#[test]
fn what_is_lighter_is_not_said_again_and_what_is_graver_is() {
    let degraded = answers(Outcomes { right: 50, ..Outcomes::default() });
    let mut simulation = simulate("restarts = 1");
    simulation.see(20, &healthy()).see(60, &degraded);
    assert_eq!(simulation.classes(), [FailureClass::Degraded]);
    simulation.see(60, &silent(0.0));
    assert_eq!(simulation.classes(), [FailureClass::Degraded, FailureClass::Hang]);
}

#[test]
fn recovery_is_the_first_right_answer_and_nine_tenths_of_goodput() {
    let mut simulation = simulate("restarts = 3");
    simulation.see(20, &healthy()).killed().see(3, &refusing()).restarted();
    assert_eq!(simulation.at(&Happening::Answered), None);
    let half = answers(Outcomes { right: 250, ..Outcomes::default() });
    simulation.see(2, &half);
    assert_eq!(simulation.at(&Happening::Answered), Some(24.0));
    assert_eq!(simulation.at(&Happening::Recovered), None);
    simulation.see(1, &healthy());
    assert_eq!(simulation.at(&Happening::Recovered), Some(26.0));
    assert_eq!(simulation.classes(), [FailureClass::Crash]);
    // And again.
    simulation.said.clear();
    simulation.see(20, &healthy()).killed().restarted().see(1, &healthy());
    assert_eq!(simulation.at(&Happening::Recovered), Some(47.0));
}

#[test]
fn a_server_that_lies_for_a_time_recovers_when_it_no_longer_does() {
    let wrong = answers(Outcomes { right: 490, wrong: 10, ..Outcomes::default() });
    let mut simulation = simulate("");
    simulation.see(20, &healthy()).see(10, &wrong);
    assert_eq!(simulation.at(&Happening::Recovered), None);
    simulation.see(1, &healthy());
    assert_eq!(simulation.at(&Happening::Recovered), Some(31.0));
    simulation.see(30, &healthy());
    assert_eq!(simulation.classes(), [FailureClass::Wrong]);
}

#[test]
fn a_cell_is_decided_when_no_restart_is_left() {
    let mut simulation = simulate("restarts = 2");
    for _ in 0..2 {
        simulation.see(10, &healthy()).killed();
        assert_eq!(simulation.said.last(), Some(&Judgement::Restart));
        simulation.restarted();
    }
    simulation.see(10, &healthy()).killed();
    assert!(
        matches!(simulation.said.last(), Some(Judgement::Decided(because)) if because.starts_with("CRASH: ")),
        "{:?}",
        simulation.said
    );
    let said = simulation.said.len();
    simulation.see(20, &refusing());
    assert_eq!(simulation.said.len(), said, "nothing more is said");
}

#[test]
fn classes_in_which_it_works_on_restart_it_if_that_is_wanted() {
    let degraded = answers(Outcomes { right: 50, ..Outcomes::default() });
    for (settings, restarts) in [("", false), ("restart_on = ['DEGRADED']\nrestarts = 1", true)] {
        let mut simulation = simulate(settings);
        simulation.see(20, &healthy()).see(20, &degraded);
        assert_eq!(simulation.said.contains(&Judgement::Restart), restarts, "{settings}");
    }
}

#[test]
fn a_server_that_does_not_come_back_is_restarted_or_decided() {
    let mut simulation = simulate("restarts = 2");
    simulation.see(10, &healthy()).killed();
    simulation.notice(Happening::Started { process: SERVER.to_owned(), pid: 2 });
    // It ends at once, again.
    simulation.notice(ended(Some(1), None, false));
    assert_eq!(simulation.classes(), [FailureClass::Crash; 2]);
    simulation.notice(Happening::Started { process: SERVER.to_owned(), pid: 3 });
    // It stays, and is not ready within `ready_within` (60 s).
    simulation.see(60, &refusing());
    assert_eq!(simulation.classes().len(), 2);
    simulation.see(1, &refusing());
    assert_eq!(simulation.classes().last(), Some(&FailureClass::Hang));
    assert!(matches!(simulation.said.last(), Some(Judgement::Decided(_))), "{:?}", simulation.said);
}

#[test]
fn restarts_that_were_meant_are_no_failures() {
    let mut simulation = simulate("");
    simulation.see(10, &healthy());
    let process = SERVER.to_owned();
    simulation.notice(Happening::Fault { action: FaultAction::Restart, process });
    simulation.notice(ended(None, Some(15), false)).see(3, &refusing()).restarted();
    simulation.see(30, &healthy());
    assert_eq!(simulation.classes(), []);
    assert_eq!(simulation.at(&Happening::Recovered), Some(14.0));
    // The end of another process is its own affair.
    let code = Some(1);
    let other =
        Happening::Ended { process: "database".into(), code, signal: None, out_of_memory: false };
    simulation.notice(other);
    assert_eq!(simulation.classes(), []);
}

#[test]
fn it_is_rejuvenated_by_time_throughput_and_memory() {
    let slow = answers(Outcomes { right: 140, ..Outcomes::default() });
    let large = Seen { memory: 200 << 20, ..healthy() };
    for (setting, seen, because) in [
        ("every = '1m'", healthy(), "it has run for 60 s"),
        ("throughput_below = 0.3", slow, "goodput fell to 28.0 % of the baseline"),
        ("memory_above = '100MiB'", large, "its memory is 200.0 MiB"),
    ] {
        let mut simulation = simulate(&format!("rejuvenate = {{ {setting} }}"));
        simulation.see(20, &healthy());
        assert_eq!(simulation.said, []);
        simulation.see(42, &seen);
        let [Judgement::Rejuvenate(said)] = &simulation.said[..] else {
            panic!("{setting}: {:?}", simulation.said)
        };
        assert!(said.contains(because), "{said}");
        // Its end and the time without answers are no failure, and what it cost is seen.
        simulation.notice(ended(None, Some(15), false)).see(3, &refusing()).restarted();
        simulation.see(20, &healthy());
        assert_eq!(simulation.classes(), []);
        assert_eq!(simulation.at(&Happening::Answered), Some(66.0), "{:?}", simulation.said);
        assert_eq!(simulation.at(&Happening::Recovered), Some(66.0));
    }
}

#[test]
fn a_server_that_is_above_its_memory_from_the_first_is_not_restarted_for_ever() {
    let large = Seen { memory: 200 << 20, ..healthy() };
    let mut simulation = simulate("rejuvenate = { memory_above = '100MiB' }");
    for _ in 0..10 {
        simulation.see(4, &large);
        assert_eq!(simulation.said, []);
        simulation.notice(Happening::Ready);
    }
}

#[test]
fn a_server_that_is_not_ours_is_neither_restarted_nor_rejuvenated() {
    let text = "name = 'it'\nsystem = { name = 'it', url = 'http://127.0.0.1:1/' }\n\
                workload = { clients = 8 }\noperation = [{ name = 'add' }]\n\
                watchdog = { restarts = 5, rejuvenate = { every = '1s' } }";
    let experiment: Experiment = toml::from_str(text).expect("an experiment");
    let mut simulation = Simulation::of(&experiment);
    simulation.see(20, &healthy()).see(2, &refusing());
    assert_eq!(simulation.classes(), [FailureClass::Crash]);
    assert!(matches!(simulation.said.last(), Some(Judgement::Decided(_))));
}

#[test]
fn each_limit_is_a_setting() {
    let some = Outcomes::default();
    let errors = answers(Outcomes { right: 450, error: 50, ..some });
    let refusals = answers(Outcomes { right: 400, refused: 100, ..some });
    let slow = answers(Outcomes { right: 200, ..some });
    let little = answers(Outcomes { right: 2, ..some });
    let warm = silent(0.3);
    for (setting, seen, by_default, then) in [
        ("error_above = 0.2", &errors, Some(FailureClass::Error), None),
        ("refused_above = 0.1", &refusals, None, Some(FailureClass::Refused)),
        ("degraded_below = 0.5", &slow, None, Some(FailureClass::Degraded)),
        ("zombie_below = 0.001", &little, Some(FailureClass::Zombie), Some(FailureClass::Degraded)),
        ("busy_above = 0.5", &warm, Some(FailureClass::Zombie), Some(FailureClass::Hang)),
        ("hang_after = '30s'\nwindow = '30s'", &warm, Some(FailureClass::Zombie), None),
        ("window = '30s'", &slow, None, None),
        ("baseline = '40s'\ndegraded_below = 0.5", &slow, None, Some(FailureClass::Degraded)),
        ("least_answers = 10000", &little, Some(FailureClass::Zombie), None),
    ] {
        for (setting, class) in [("", by_default), (setting, then)] {
            let mut simulation = simulate(&format!("restarts = 1\n{setting}"));
            simulation.see(20, &healthy()).see(8, seen);
            let classes: Vec<_> = class.into_iter().collect();
            assert_eq!(simulation.classes(), classes, "{setting:?}");
        }
    }
    let mut short = simulate("baseline = '3s'");
    let half = answers(Outcomes { right: 250, ..some });
    short.see(3, &half).see(20, &healthy());
    assert_eq!(short.watchdog.baseline(), Some(250.0));
    let mut long = simulate("baseline = '20s'");
    long.see(3, &half).see(20, &healthy());
    assert_eq!(long.watchdog.baseline(), Some(500.0));
}
