//! kill -9 of whatever there is, at any moment: no accepted job is lost, none runs twice, and what
//! cannot be known is said to be unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::processes::{self, kill_all};
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Version, ask, key_header, try_post, wrapper};

/// Rounds of a storm, and the time after which a slow machine is let off.
const ROUNDS: usize = 150;
const STORM_TIME: Duration = Duration::from_secs(45);

/// After this time, jobs that have not ended never will.
const PATIENCE: Duration = Duration::from_secs(40);

/// Callers at once.
const CALLERS: u64 = 4;

/// Bytes of an input file; it does not stay in memory, so it is moved into the workspace.
const DECK: usize = 90_000;

/// What is killed in a round.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Server,
    Runners,
    OneRunner,
    Supervisor,
    Supervisors,
    ServerAndRunners,
    ServerAndSupervisor,
    Everything,
}

/// Pseudo-random numbers (xorshift64*), so that what was drawn can be drawn again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

pub(crate) fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let given = std::env::var("FISHPLATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(now.subsec_nanos()) | 1);
    println!("seed: FISHPLATE_TEST_SEED={seed}");
    seed
}

/// A server whose jobs write a line into a file of their own, rest, and end as they are told.
fn counting() -> Server {
    let mut server = Server::prepare();
    fs::create_dir(server.path("ran")).unwrap();
    server.script(
        "program",
        &format!(
            "echo \"$(date +%T.%N) process $$ of $PPID in $PWD\" >> DIR/ran/$1; [ -e deck ] && [ $(wc -c < deck) != {DECK} ] && exit 9; \
             sleep $2; echo $1; exit $3"
        ),
    );
    fs::write(
        server.path("service.toml"),
        "name = \"test\"\ncommand = \"./program [in val number:long] [in val rest:double] \
         [in val code:int] > [out file y:long]\"\n\
         [input.deck]\ntype = \"raw\"\nfilename = \"deck\"\noptional = true\n",
    )
    .unwrap();
    server.serve(&["--limit", "max_running=8", "--limit", "max_queued=10000", "service.toml"]);
    server
}

/// One of many callers: asks again with the same key until it is answered.
#[derive(Debug)]
struct SentCall {
    number: u64,
    code: u64,
    keyed: bool,
    /// The job, if it was told.
    job: Option<String>,
    /// The last answer was a fault of this code.
    fault: Option<String>,
}

/// Tells the callers to stop, and whoever waits for an answer that none will come if a test fails.
#[derive(Default)]
struct Storm {
    numbers: AtomicU64,
    over: AtomicBool,
    failed: AtomicBool,
}

struct EndStorm<'s>(&'s Storm);

impl Drop for EndStorm<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        self.0.failed.store(std::thread::panicking(), Ordering::Relaxed);
    }
}

fn call_on(address: SocketAddr, storm: &Storm, seed: u64) -> Vec<SentCall> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    while !storm.over.load(Ordering::Relaxed) {
        let number = storm.numbers.fetch_add(1, Ordering::Relaxed);
        let code = random.one_of(&[0, 0, 0, 3]);
        let (verb, keyed) = random.one_of(&[("spawn", true), ("call", true), ("call", false)]);
        let rest = random.one_of(&["0", "0", "0.01", "0.1", "0.4"]);
        let deck = match random.below(3) {
            0 => format!("<deck>{}</deck>", "QUFB".repeat(DECK / 3)),
            _ => String::new(),
        };
        let body = wrapper(
            verb,
            &format!("<number>{number}</number><rest>{rest}</rest><code>{code}</code>{deck}"),
        );
        let header = if keyed { key_header(&format!("key {number}")) } else { String::new() };
        let message = Version::V11.envelope(&header, &body);
        let mut answer = try_post(address, &message);
        while keyed && answer.is_none() && !storm.failed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            answer = try_post(address, &message);
        }
        if answer.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = |name| answer.as_ref().and_then(|answer| answer.text(name)).map(str::to_owned);
        let fault = told("code");
        if verb == "call" && answer.as_ref().is_some_and(|answer| answer.status == 200) {
            assert_eq!(told("y"), Some(number.to_string()), "{answer:#?}");
            assert_eq!(code, 0);
        }
        all.push(SentCall { number, code, keyed, job: told("job"), fault });
    }
    all
}

/// Calls and kills at random; gives what was asked.
fn storm(server: &mut Server, victims: &[Victim], seed: u64) -> Vec<SentCall> {
    let data = server.path("data");
    let address = server.address();
    let storm = Storm::default();
    let mut random = Random(seed);
    std::thread::scope(|scope| {
        let storm = &storm;
        let end = EndStorm(storm);
        let callers: Vec<_> = (1..=CALLERS)
            .map(|n| scope.spawn(move || call_on(address, storm, seed.wrapping_mul(2 * n + 1))))
            .collect();
        let begun = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS && begun.elapsed() < STORM_TIME {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            strike(server, &data, random.one_of(victims), &mut random);
            rounds += 1;
        }
        println!("{rounds} rounds in {:?}", begun.elapsed());
        assert!(rounds >= ROUNDS / 4, "too slow a machine to say anything: {rounds} rounds");
        drop(end);
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    })
}

fn strike(server: &mut Server, data: &Path, victim: Victim, random: &mut Random) {
    let supervisors = match victim {
        Victim::Server => Vec::new(),
        Victim::Runners | Victim::ServerAndRunners => processes::runners(data),
        Victim::OneRunner => {
            let runners = processes::runners(data);
            if runners.is_empty() { Vec::new() } else { vec![random.one_of(&runners)] }
        }
        Victim::Supervisor | Victim::ServerAndSupervisor => processes::supervisors(data),
        Victim::Supervisors | Victim::Everything => {
            [processes::supervisors(data), processes::runners(data)].concat()
        }
    };
    let server_too = matches!(
        victim,
        Victim::Server
            | Victim::ServerAndRunners
            | Victim::ServerAndSupervisor
            | Victim::Everything
    );
    let server_first = random.below(2) == 0;
    if server_too && server_first {
        server.kill();
    }
    kill_all(&supervisors);
    if server_too && !server_first {
        server.kill();
    }
    if server_too {
        server.restart();
    }
}

/// How often each job has run.
fn runs(server: &Server) -> BTreeMap<u64, usize> {
    let entries = fs::read_dir(server.path("ran")).unwrap().flatten();
    let number = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let lines = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count();
    entries.map(|entry| entry.path()).map(|path| (number(&path), lines(&path))).collect()
}

/// What there is to tell of jobs that do not end.
fn unfinished(server: &Server) -> String {
    let user = User::new();
    let listed = user.json(&["jobs", server.url(), "--all"]);
    let reports = listed["jobs"].as_array().unwrap().iter();
    let unfinished = reports.filter(|report| report["ended"].is_null()).map(|report| {
        let directory = server.path("data/jobs").join(report["job"].as_str().unwrap());
        let journal = fs::read_to_string(directory.join("run"));
        format!("{report}\njournal: {journal:?}\n")
    });
    let processes = [processes::of_data(&server.data()), processes::of_jobs(&server.data())];
    format!("unfinished: {}processes: {processes:?}", unfinished.collect::<String>())
}

/// What there is to tell of a job that ran: when and where it did, what was asked, and its journal.
fn trace(server: &Server, asked: &[SentCall], number: u64) -> String {
    let ran = fs::read_to_string(server.path("ran").join(number.to_string()));
    let asked = asked.iter().find(|asked| asked.number == number);
    let job = asked.and_then(|asked| asked.job.as_ref());
    let journal = job.map(|job| fs::read_to_string(server.path(format!("data/jobs/{job}/run"))));
    format!("{ran:?}: {asked:?}: {journal:?}")
}

/// Looks at every job after a storm; gives how many are unknown.
fn reckon(server: &mut Server, asked: &[SentCall]) -> usize {
    server.kill();
    server.restart();
    let metric = |server: &Server, name: &str| -> u64 {
        let metrics = crate::soap::get(server, "/metrics").body;
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let begun = Instant::now();
    until("all jobs have ended", || {
        let left =
            metric(server, "fishplate_jobs_queued ") + metric(server, "fishplate_jobs_running ");
        assert!(begun.elapsed() < PATIENCE || left == 0, "{}", unfinished(server));
        left == 0
    });
    let runs = runs(server);
    let twice: Vec<String> = runs
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(number, _)| trace(server, asked, *number))
        .collect();
    assert!(twice.is_empty(), "ran more than once: {twice:#?}");
    let mut unknown = 0;
    for SentCall { number, code, keyed, job, fault } in asked {
        let Some(job) = job else {
            assert!(!keyed || fault.is_some(), "job {number} was answered without its ID");
            // Nobody promised that job, or its caller had all of it.
            continue;
        };
        if !keyed {
            continue;
        }
        let job_element = format!("<job>{job}</job>");
        let status = ask(server, Version::V11, "status", &job_element);
        let state = status.text("state").unwrap_or_else(|| panic!("{number} is lost: {status:#?}"));
        let results = ask(server, Version::V11, "results", &job_element);
        match state {
            "done" => assert_eq!(results.text("y"), Some(&*number.to_string()), "{results:#?}"),
            // A process that a runner had just made, and that had not become the program yet, was
            // taken for a runner and killed: its end was seen, and is told as it was.
            "failed" if results.text("code") == Some("ProgramKilled") => {
                assert_eq!(results.text("signal"), Some("SIGKILL"), "{number}: {results:#?}");
                unknown += 1;
                continue;
            }
            "failed" => assert_eq!(
                (results.text("code"), results.text("exitCode"), *code),
                (Some("ProgramFailed"), Some("3"), 3),
                "{number}: {results:#?}"
            ),
            "unknown" => {
                assert_eq!(results.text("code"), Some("OutcomeUnknown"), "{results:#?}");
                let journal = server.path(format!("data/jobs/{job}/run"));
                let ran = runs.get(number);
                println!("unknown, ran {ran:?}: {status:?} {:?}", fs::read_to_string(journal));
                unknown += 1;
                continue;
            }
            other => panic!("job {number} is {other}: {status:#?}"),
        }
        assert_eq!((state == "done", runs.get(number)), (*code == 0, Some(&1)), "{number}");
    }
    let told = asked.iter().filter(|asked| asked.keyed).count();
    println!("{} asked, {told} with a key, {} ran, {unknown} unknown", asked.len(), runs.len());
    unknown
}

/// Stops the server and looks for what is left.
fn assert_nothing_left(server: &mut Server) {
    let data = server.path("data");
    // A start sweeps what kills have left.
    server.stop();
    server.restart();
    assert_eq!(names(&processes::of_jobs(&data)), Vec::<String>::new());
    let user = User::new();
    let listed = user.json(&["jobs", server.url(), "--all"]);
    let known: BTreeSet<String> = listed["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["job"].as_str().unwrap().to_owned())
        .collect();
    until("each directory has its job", || {
        let mut entries = fs::read_dir(data.join("jobs")).unwrap().flatten();
        entries.all(|entry| known.contains(entry.file_name().to_str().unwrap()))
    });
    server.stop();
    until("the supervisor has gone", || names(&processes::of_data(&data)).is_empty());
    let spooled = fs::read_dir(data.join("spool")).unwrap().count();
    assert_eq!(spooled, 0, "directories in the spool");
}

fn names(processes: &[processes::Process]) -> Vec<String> {
    processes.iter().map(|process| format!("{} {}", process.pid, process.name)).collect()
}

#[test]
fn kills_of_servers_and_runners_cost_no_job_and_no_result() {
    let mut server = counting();
    let victims = [
        Victim::Server,
        Victim::Server,
        Victim::OneRunner,
        Victim::Runners,
        Victim::ServerAndRunners,
    ];
    let asked = storm(&mut server, &victims, seed());
    assert_eq!(reckon(&mut server, &asked), 0, "unknown, though the supervisor lived on");
    assert_nothing_left(&mut server);
}

#[test]
fn kills_of_servers_and_supervisors_cost_no_job_and_no_result() {
    let mut server = counting();
    let victims =
        [Victim::Server, Victim::Supervisor, Victim::Supervisor, Victim::ServerAndSupervisor];
    let asked = storm(&mut server, &victims, seed());
    assert_eq!(reckon(&mut server, &asked), 0, "unknown, though the runners lived on");
    assert_nothing_left(&mut server);
}

#[test]
fn kills_of_everything_lose_no_job_and_run_none_twice() {
    let mut server = counting();
    let victims = [
        Victim::Server,
        Victim::OneRunner,
        Victim::Supervisor,
        Victim::Supervisors,
        Victim::Everything,
        Victim::Everything,
    ];
    let asked = storm(&mut server, &victims, seed());
    reckon(&mut server, &asked);
    assert_nothing_left(&mut server);
}

/// Whether the kernel tells how a process ended to whoever held a descriptor of it (Linux 6.15).
fn kernel_tells_witnesses() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

#[test]
fn what_runs_goes_on_whoever_is_killed() {
    for (victim, state) in [
        (Victim::Server, "done"),
        (Victim::Supervisor, "done"),
        (Victim::Runners, "done"),
        (Victim::ServerAndRunners, "done"),
        (Victim::ServerAndSupervisor, "done"),
        // The server that comes after them is the program's witness, if the kernel tells it.
        (Victim::Everything, if kernel_tells_witnesses() { "done" } else { "unknown" }),
    ] {
        let mut server = Server::of_script(
            "echo run >> DIR/runs; echo $$ > DIR/pid; until [ -e DIR/go ]; do sleep 0.05; done; echo $1",
            &["[in val x:int]", ">", "[out file y:int]"],
        );
        let spawned = ask(&server, Version::V11, "spawn", "<x>5</x>");
        let job = format!("<job>{}</job>", spawned.text("job").unwrap());
        let pid = || fs::read_to_string(server.path("pid")).ok()?.trim().parse::<i32>().ok();
        until("it runs", || pid().is_some());
        let pid = pid().unwrap();
        let data = server.path("data");
        strike(&mut server, &data, victim, &mut Random(1));
        let verb = |verb: &str| ask(&server, Version::V11, verb, &job);
        for _ in 0..20 {
            assert_eq!(verb("running").text("running"), Some("true"), "{victim:?}");
            assert!(processes::is_alive(pid), "{victim:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::write(server.path("go"), "").unwrap();
        until("it has ended", || verb("running").text("running") == Some("false"));
        let status = verb("status");
        assert_eq!(status.text("state"), Some(state), "{victim:?}: {status:#?}");
        let results = verb("results");
        if state == "done" {
            assert_eq!(results.text("y"), Some("5"), "{victim:?}: {results:#?}");
        } else {
            results.assert_fault(Version::V11, "OutcomeUnknown");
            let id = spawned.text("job").unwrap();
            let output = server.path(format!("data/jobs/{id}/work/y"));
            assert_eq!(fs::read_to_string(output).unwrap(), "5\n");
        }
        assert_eq!(server.runs(), 1);
        assert_nothing_left(&mut server);
    }
}

/// Between the moment at which a runner reaps the program and that at which its end is in the
/// journal, only the runner has seen it.
#[test]
fn a_runner_killed_while_it_collects_outputs_takes_no_end_with_it() {
    let server = Server::of_file(
        "echo $$ > DIR/pid; seq -f 'out%.0f' 20000 | xargs touch; exit 0",
        "name = \"test\"\ncommand = [\"./program\"]\n\
         [output.files]\ntype = \"raw\"\nglob = \"out*\"\n",
    );
    for _ in 0..3 {
        let _ = fs::remove_file(server.path("pid"));
        let spawned = ask(&server, Version::V11, "spawn", "");
        let job = format!("<job>{}</job>", spawned.text("job").unwrap());
        let pid = || fs::read_to_string(server.path("pid")).ok()?.trim().parse::<i32>().ok();
        let mut program = None;
        until("it runs", || {
            program = pid();
            program.is_some()
        });
        let program = PathBuf::from(format!("/proc/{}", program.unwrap()));
        while program.exists() {
            std::thread::sleep(Duration::from_micros(100));
        }
        kill_all(&processes::runners(&server.data()));
        until("it has ended", || {
            ask(&server, Version::V11, "running", &job).text("running") == Some("false")
        });
        let status = ask(&server, Version::V11, "status", &job);
        assert_eq!(
            (status.text("state"), status.text("exitCode")),
            (Some("done"), Some("0")),
            "{status:#?}"
        );
    }
}

#[test]
fn two_servers_share_a_data_directory_and_one_takes_over_from_the_other() {
    let mut first = Server::prepare();
    let directory = first.path("");
    let directory = directory.to_str().unwrap();
    let script = format!(
        "echo $1 >> {directory}/started; until [ -e {directory}/go$1 ]; do sleep 0.02; done; echo $1"
    );
    let line = ["-n", "test", "--", "./program", "[in val x:int]", ">", "[out file y:int]"];
    let words = [&["--limit", "max_running=2"], &line[..]].concat();
    first.script("program", &script);
    first.serve(&words);
    let mut second = Server::prepare_beside(&first);
    second.script("program", &script);
    second.serve(&words);

    // More than may run, accepted by one and the other.
    let spawn = |server: &Server, x: u32| {
        let spawned = ask(server, Version::V11, "spawn", &format!("<x>{x}</x>"));
        format!("<job>{}</job>", spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}")))
    };
    let jobs: Vec<String> =
        (0..6).map(|x| spawn(if x % 2 == 0 { &first } else { &second }, x)).collect();
    let data = first.data();
    let started = || -> BTreeSet<u32> {
        let text = fs::read_to_string(data.with_file_name("started")).unwrap_or_default();
        let all: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "one ran twice: {all:?}");
        distinct
    };
    until("two run", || started().len() == 2);
    for server in [&first, &second] {
        for job in &jobs {
            assert_eq!(ask(server, Version::V11, "running", job).text("running"), Some("true"));
        }
    }
    // Either server answers for jobs of the other, and ends them.
    assert_eq!(ask(&second, Version::V11, "kill", &jobs[4]).text("state"), Some("killed"));
    assert_eq!(ask(&first, Version::V11, "kill", &jobs[5]).text("state"), Some("killed"));
    assert_eq!(started().len(), 2);

    first.kill();
    for x in [0, 1, 2, 3] {
        fs::write(data.with_file_name(format!("go{x}")), "").unwrap();
    }
    for (x, job) in jobs[..4].iter().enumerate() {
        until(&format!("job {x} has ended"), || {
            ask(&second, Version::V11, "running", job).text("running") == Some("false")
        });
        let results = ask(&second, Version::V11, "results", job);
        assert_eq!(results.text("y"), Some(&*x.to_string()), "{results:#?}");
    }
    assert_eq!(started(), BTreeSet::from([0, 1, 2, 3]));
    second.stop();
    until("the supervisor has gone", || names(&processes::of_data(&data)).is_empty());
}
