//! The watchdog over the fixture under load: every class is recognised within its time, and none invented.

use std::time::Duration;

use fishplate_quake::experiment::{Experiment, FaultAction};
use fishplate_quake::fault::{DueFault, inject};
use fishplate_quake::figures::Timeline;
use fishplate_quake::record::{Event, FailureClass, Happening, SystemSecond};
use fishplate_quake::system::{Happened, SERVER, Sampler};
use fishplate_quake::watchdog::{Judgement, Watchdog};
use tokio::time::{Instant, sleep_until};

use crate::clients::Clients;
use crate::fixture::Bed;

const EXPERIMENT: &str = "
    name = 'fixture'
    system = { name = 'fixture', url = 'http://127.0.0.1:1/', process.server = { start = ['it'] } }
    workload = { clients = 4 }
    operation = [{ name = 'add' }]
    [watchdog]
    hang_after = '2s'
    window = '2s'
    baseline = '3s'
    zombie_below = 0.03
    restarts = 20
";

/// Seconds in which each class has to be said: `window` or `hang_after`, two (see `fishplate_quake::watchdog`), and the
/// one in which it begins.
const WITHIN: u32 = 5;

/// Who wakes up so much later than he wanted was held up by the machine, as were clients, probe and server.
const STALL: Duration = Duration::from_millis(300);

/// A manager, no more than is needed here.
struct Manager {
    bed: Bed,
    clients: Clients,
    sampler: Sampler,
    watchdog: Watchdog,
    start: Instant,
    second: u32,
    /// The last.
    system: SystemSecond,
    events: Vec<Event>,
}

impl Manager {
    async fn start(starts_in: &str) -> Self {
        let bed = Bed::fixture(starts_in);
        bed.system.start().await.unwrap();
        let experiment: Experiment = toml::from_str(EXPERIMENT).unwrap();
        Self {
            clients: Clients::start(4, bed.address),
            sampler: bed.system.sampler(bed.address.port()),
            bed,
            watchdog: Watchdog::new(&experiment).unwrap(),
            start: Instant::now(),
            second: 0,
            system: SystemSecond::default(),
            events: Vec::new(),
        }
    }

    /// Lets a second pass, and does what the watchdog says.
    async fn second(&mut self) {
        let end = self.start + Duration::from_secs(u64::from(self.second) + 1);
        let mut said = Vec::new();
        loop {
            tokio::select! {
                () = sleep_until(end) => break,
                Some(Happened { at, what }) = self.bed.happened.recv() => {
                    let at = Instant::from_std(at).saturating_duration_since(self.start).as_secs_f64();
                    let event = Event { at, what };
                    let now = self.start.elapsed().as_secs_f64();
                    said.extend(self.watchdog.notice(&event, now));
                    self.events.push(event);
                }
            }
        }
        self.system = self.sampler.sample(self.second);
        let load = self.clients.second(self.second);
        if Instant::now() > end + STALL {
            self.begin_again();
        } else {
            said.extend(self.watchdog.observe(&load, &self.system));
            self.second += 1;
        }
        for judgement in said {
            match judgement {
                Judgement::Happened(event) => self.events.push(event),
                Judgement::Restart => {
                    let system = self.bed.system.clone();
                    tokio::spawn(async move { system.restart(Some(SERVER)).await });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// What was seen of this second is not judged; it begins now.
    fn begin_again(&mut self) {
        let _ = self.clients.second(self.second);
        self.start = Instant::now() - Duration::from_secs(self.second.into());
    }

    /// Lets so many pass that were seen.
    async fn seconds(&mut self, count: u32) {
        let until = self.second + count;
        while self.second < until {
            self.second().await;
        }
    }

    fn has(&self, is_it: impl Fn(&Happening) -> bool) -> bool {
        self.events.iter().any(|event| is_it(&event.what))
    }

    fn failures(&self) -> Vec<FailureClass> {
        let failures = self.events.iter().filter_map(|event| match &event.what {
            Happening::Failure(failure) => Some(failure.class),
            _ => None,
        });
        failures.collect()
    }

    /// Injects a fault, and lets seconds pass until this is so.
    async fn injects(&mut self, action: FaultAction, length: Duration, until: fn(&Self) -> bool) {
        self.events.clear();
        let (system, happenings) = (self.bed.system.clone(), self.bed.happenings.clone());
        let fault = DueFault { at: Duration::ZERO, action, process: SERVER.to_owned(), length };
        tokio::spawn(async move { inject(&fault, &system, &happenings).await });
        let begun = self.second;
        while !until(self) {
            assert!(self.second < begun + 60, "{action:?}: {:?}", self.events);
            self.second().await;
        }
        let injected = Happening::Fault { action, process: SERVER.to_owned() };
        assert!(self.has(|what| *what == injected), "{:?}", self.events);
        assert!(!self.has(|what| matches!(what, Happening::FaultFailed { .. })));
    }

    fn has_recovered(&self) -> bool {
        self.has(|what| *what == Happening::Recovered)
    }

    /// The fixture fails so: it is said within its time, in this class and no other, with this among its cause; then it
    /// is well again, and that is said.
    async fn fails(&mut self, mode: &str, class: FailureClass, cause: &str) {
        self.events.clear();
        self.bed.set_mode(mode);
        // What was right before was so in another mode.
        self.begin_again();
        let begun = self.second;
        while self.failures().is_empty() {
            assert!(
                self.second < begun + WITHIN,
                "{mode}: nothing within {WITHIN} s: {:?}",
                self.events
            );
            self.second().await;
        }
        assert_eq!(self.failures(), [class], "{mode}: {:?}", self.events);
        let causes = self.events.iter().filter_map(|event| match &event.what {
            Happening::Failure(failure) => Some(failure.cause.as_str()),
            _ => None,
        });
        assert!(
            causes.clone().all(|said| said.contains(cause)),
            "{:?}",
            causes.collect::<Vec<_>>()
        );
        if !class.ends_it() {
            self.bed.set_mode("healthy");
        }
        while !self.has(|what| *what == Happening::Recovered) {
            assert!(self.second < begun + 60, "{mode}: it did not recover: {:?}", self.events);
            self.second().await;
        }
        // A server that is slow answers rightly all the time.
        let stopped = class != FailureClass::Degraded;
        assert_eq!(self.has(|what| *what == Happening::Answered), stopped, "{:?}", self.events);
        assert_eq!(self.failures(), [class], "{mode}: {:?}", self.events);
        assert_eq!(
            self.has(|what| *what == Happening::Ready),
            class.ends_it(),
            "{:?}",
            self.events
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_server_has_no_failure_and_one_that_works_on_has_its_class() {
    let mut manager = Manager::start("0").await;
    manager.seconds(5).await;
    assert_eq!(manager.failures(), []);
    let first = manager.system.processes[SERVER].all;
    assert!(first.memory > 1 << 20 && first.threads >= 1 && first.descriptors >= 4, "{first:?}");
    assert!(manager.system.connections >= 4, "{:?}", manager.system);
    assert!(matches!(manager.system.probe, Some(Ok(_))), "{:?}", manager.system);
    // A pause below the limit, as a collector of garbage makes.
    manager.bed.set_mode("pause");
    manager.seconds(4).await;
    assert_eq!(manager.failures(), [], "{:?}", manager.events);
    manager.fails("slow", FailureClass::Degraded, "expected").await;
    manager.fails("fault", FailureClass::Error, "error").await;
    manager.fails("lie", FailureClass::Wrong, "wrong").await;
    manager.fails("refuse", FailureClass::Refused, "refused").await;
    // It leaks, and that is seen.
    manager.bed.set_mode("leak");
    let begun = manager.second;
    while manager.system.processes[SERVER].all.memory < first.memory + (16 << 20) {
        assert!(manager.second < begun + 60, "{:?}", manager.system);
        manager.second().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_works_no_more_has_its_class_and_is_restarted() {
    // It restarts slowly.
    let mut manager = Manager::start("1").await;
    manager.seconds(4).await;
    let first = manager.system.processes[SERVER].pid;
    manager.fails("crash", FailureClass::Crash, "exit code 3").await;
    let second = manager.system.processes[SERVER].pid;
    assert_ne!(first, second);
    manager.fails("hang", FailureClass::Hang, "(idle)").await;
    manager.fails("thrash", FailureClass::Zombie, "(thrashing)").await;
    manager.fails("idle", FailureClass::Zombie, "(idle)").await;
    manager.fails("close", FailureClass::Zombie, "broken").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_what_it_looks_like_and_the_server_recovers() {
    let mut manager = Manager::start("0").await;
    manager.seconds(4).await;
    let first = manager.system.processes[SERVER].pid;

    manager.injects(FaultAction::Kill, Duration::ZERO, Manager::has_recovered).await;
    assert_eq!(manager.failures(), [FailureClass::Crash], "{:?}", manager.events);
    let killed = Happening::Ended {
        process: SERVER.to_owned(),
        code: None,
        signal: Some(9),
        out_of_memory: false,
    };
    assert!(manager.has(|what| *what == killed), "{:?}", manager.events);
    let figures = &Timeline::of(&manager.events).failures[0];
    assert_eq!(figures.provoked_by.as_deref(), Some("kill of server"));
    let (detected, recovered) = (figures.to_detect, figures.to_recover.expect("it did"));
    assert!(0.0 < detected && detected < recovered, "{figures:?}");
    let second = manager.system.processes[SERVER].pid;
    assert_ne!(first, second);

    // Stopped for longer than it may hang, and for less.
    manager.injects(FaultAction::Stop, Duration::from_secs(3600), Manager::has_recovered).await;
    assert_eq!(manager.failures(), [FailureClass::Hang], "{:?}", manager.events);
    let third = manager.system.processes[SERVER].pid;
    assert_ne!(second, third);
    let stopped = |manager: &Manager| !manager.events.is_empty();
    manager.injects(FaultAction::Stop, Duration::from_secs(1), stopped).await;
    manager.seconds(4).await;
    assert_eq!(manager.failures(), [], "{:?}", manager.events);
    assert_eq!(manager.system.processes[SERVER].pid, third);

    // Who restarts it on purpose has no failure, and it recovers all the same.
    manager.injects(FaultAction::Restart, Duration::ZERO, Manager::has_recovered).await;
    assert_eq!(manager.failures(), [], "{:?}", manager.events);
    assert_ne!(manager.system.processes[SERVER].pid, third);
}
