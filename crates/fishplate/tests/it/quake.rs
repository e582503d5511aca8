//! `fishplate quake`: a manager, its agents and a system under test, as processes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::processes::{self, kill_all};
use crate::run::{Said, User, ended};
use crate::server::{Server, free_address, interrupt, until};

/// A server that fails as it is told.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../quake/tests/fixture/server.py");
/// By this variable all processes of a run are known.
const MARK: &str = "FISHPLATE_QUAKE_TEST";

/// The interpreter itself: what is called `python3` may be a program that looks for it first.
fn python() -> String {
    let words = ["-c", "import sys; print(sys.executable)"];
    let said = Command::new("python3").args(words).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// An experiment with the fixture, in a user's directory.
struct Bench {
    user: User,
    server: SocketAddr,
}

impl Bench {
    /// A workload, and whatever else there is.
    fn new(workload: &str, more: &str) -> Self {
        let bench = Self { user: User::new(), server: free_address() };
        bench.user.write(
            "sum.xml",
            "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body><sum xmlns=\"urn:fixture\">\
             <x>{request}</x><y>0</y></sum></Body></Envelope>",
        );
        let (address, port) = (bench.server, bench.server.port());
        let python = python();
        let text = format!(
            "name = 'trial'\n{more}\n[system]\nname = 'fixture'\nurl = 'http://{address}/'\n\
             process.server = {{ start = ['{python}', '{FIXTURE}', '{port}'] }}\n\
             [workload]\ndeadline = '5s'\n{workload}\n\
             [[operation]]\nname = 'sum'\ntemplate = 'sum.xml'\nexpect = {{ element = {{ sum = '{{request}}' }} }}\n"
        );
        bench.user.write("trial.toml", text);
        bench
    }

    fn mark(&self) -> String {
        self.user.path("mark").display().to_string()
    }

    /// Runs the experiment to its end.
    fn run(&self, more: &[&str]) -> Said {
        let words = [&["quake", "run", "trial.toml"], more].concat();
        self.user.run_in(&[(MARK, &self.mark())], &words)
    }

    /// Starts it.
    fn start(&self, more: &[&str]) -> Child {
        let words = [&["quake", "run", "trial.toml"], more].concat();
        self.user.start_in(&[(MARK, &self.mark())], &words)
    }

    /// Starts an agent as on another host.
    fn agent(&self, more: &[&str]) -> Child {
        let words = [&["quake", "agent"], more].concat();
        self.user.start_in(&[(MARK, &self.mark())], &words)
    }

    /// All processes of its runs.
    fn processes(&self) -> Vec<processes::Process> {
        processes::with_variable(MARK, &self.mark())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.user.path("trial.quake/cells/cell/1").join(name)
    }

    /// What happened until now, in the words of `what`.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.file("events.jsonl")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn until_event(&self, what: &str) -> Value {
        let mut found = None;
        until(&format!("there is an event {what}"), || {
            found = self.events().into_iter().find(|event| event["what"]["what"] == what);
            found.is_some()
        });
        found.unwrap()
    }

    /// The server, which notes its requests, has answered some of the warm-up.
    fn until_warmed(&self) {
        until("it is warmed up", || {
            let ledger = std::fs::read_to_string(self.user.path("ledger")).unwrap_or_default();
            ledger.lines().any(|number| number.starts_with("10000000"))
        });
    }

    /// The server notes each request that it answers.
    fn note_requests(&self) {
        self.start_with("LEDGER", &self.user.path("ledger").display().to_string());
    }

    /// The server is started with this variable.
    fn start_with(&self, variable: &str, value: &str) {
        let text = String::from_utf8(self.user.read("trial.toml")).unwrap();
        let start = "process.server = { ";
        let with = format!("{start}environment = {{ {variable} = '{value}' }}, ");
        self.user.write("trial.toml", text.replace(start, &with));
    }

    /// The server is loaded.
    fn until_loaded(&self) {
        until("it is loaded", || {
            let text = std::fs::read_to_string(self.file("load.jsonl")).unwrap_or_default();
            text.contains('\n')
        });
    }

    fn outcome(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.file("outcome.json")).unwrap()).unwrap()
    }

    /// Has the server go on so.
    fn set_mode(&self, mode: &str) {
        let mut stream = TcpStream::connect(self.server).unwrap();
        let request =
            format!("POST /mode HTTP/1.1\r\nContent-Length: {}\r\n\r\n{mode}", mode.len());
        stream.write_all(request.as_bytes()).unwrap();
        // A server that crashes answers nothing.
        let _ = stream.read(&mut [0; 64]);
    }

    fn until_nothing_is_left(&self) {
        until("nothing of the run is left", || self.processes().is_empty());
    }
}

#[test]
fn an_experiment_is_run_recorded_and_not_run_again() {
    let bench = Bench::new("clients = 4\nrequests = 200\nwarm_up = 8", "");
    let said = bench.run(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("fixture") && said.stdout.contains("report.html"), "{said:?}");
    let outcome = bench.outcome();
    assert_eq!(outcome["outcomes"]["right"], 200, "{outcome}");
    assert_eq!(outcome["ended"], "all requests were made");
    // Of the client agent, and of the agent of the system.
    assert_eq!(outcome["clocks"].as_array().unwrap().len(), 2, "{outcome}");
    let happened: Vec<Value> =
        bench.events().iter().map(|event| event["what"]["what"].clone()).collect();
    assert_eq!(happened[..2], [json!("started"), json!("ready")], "{happened:?}");
    assert!(bench.user.path("trial.quake/report.html").is_file());
    bench.until_nothing_is_left();

    let before = std::fs::metadata(bench.file("outcome.json")).unwrap().modified().unwrap();
    let said = bench.run(&[]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("nothing is run: all cells (1) are complete"), "{said:?}");
    let after = std::fs::metadata(bench.file("outcome.json")).unwrap().modified().unwrap();
    assert_eq!(before, after, "it was complete");
    let said = bench.run(&["--set", "workload.requests=3"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("another experiment"), "{said:?}");
    // What is asked is no longer what was asked.
    let template = String::from_utf8(bench.user.read("sum.xml")).unwrap();
    bench.user.write("sum.xml", template.replace("<y>0<", "<y>00<"));
    let said = bench.run(&[]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("since this run began sum.xml changed"), "{said:?}");
}

#[test]
fn two_runs_do_not_write_to_the_same_directory() {
    let bench = Bench::new("clients = 2\nduration = '10m'", "");
    let run = bench.start(&[]);
    bench.until_loaded();
    let said = bench.run(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("another run writes to"), "{said:?}");
    assert!(bench.file("load.jsonl").exists(), "what the first writes is still there");
    interrupt(&run);
    assert_eq!(ended(run).code, 130);
}

#[test]
fn a_server_that_fails_in_the_warm_up_has_its_class() {
    for (mode, class) in [("crash", "CRASH"), ("hang", "HANG")] {
        let watchdog = "watchdog = { hang_after = '2s', window = '2s', restarts = 5 }";
        let bench = Bench::new("clients = 2\nrequests = 5\nwarm_up = 500000", watchdog);
        bench.note_requests();
        let run = bench.start(&[]);
        bench.until_warmed();
        bench.set_mode(mode);
        let said = ended(run);
        assert_eq!(said.code, 10, "{said:?}");
        let line = format!("{class} after 0 requests, in the warm-up: ");
        assert!(said.stdout.contains(&line), "{said:?}");
        assert_eq!(bench.outcome()["outcomes"]["right"], 0, "{}", bench.outcome());
        let failure = bench.until_event("failure");
        assert!(failure["what"]["since"].as_f64().unwrap() < 0.0, "{failure}");
        bench.until_nothing_is_left();
    }
}

#[test]
fn what_is_left_of_a_load_is_not_taken_for_the_next() {
    let more = "repetitions = 2\nwatchdog = { hang_after = '2s', window = '2s', restarts = 5 }";
    let bench = Bench::new("clients = 2\nrequests = 5\nwarm_up = 500000", more);
    // Meanwhile the clients of the run before tell that they still wait.
    let text = String::from_utf8(bench.user.read("trial.toml")).unwrap();
    let slow = "[system]\nconfigure = ['sleep', '2']";
    bench.user.write("trial.toml", text.replace("[system]", slow));
    bench.note_requests();
    let run = bench.start(&[]);
    bench.until_warmed();
    bench.set_mode("hang");
    until("the first has ended", || bench.file("outcome.json").exists());
    std::fs::remove_file(bench.user.path("ledger")).unwrap();
    bench.until_warmed();
    bench.set_mode("crash");
    let said = ended(run);
    assert_eq!(said.code, 10, "{said:?}");
    bench.until_nothing_is_left();
}

#[test]
fn a_warm_up_that_does_not_end_in_its_time_is_told() {
    let limits = "limits = { warm_up = '1s' }";
    let bench = Bench::new("clients = 2\nrequests = 5\nwarm_up = 5000000", limits);
    let said = bench.run(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("had not ended after 1s (limits.warm_up)"), "{said:?}");
    bench.until_nothing_is_left();
}

#[test]
fn what_the_warm_up_and_probes_did_is_counted_and_nothing_is_invented() {
    // It counts its warm-up, and as many probes as the audit allows for.
    let audit = "audit = { count = ['sh', '-c', 'wc -l < ledger'] }";
    let bench = Bench::new("clients = 2\nrequests = 30\nwarm_up = 20", audit);
    bench.note_requests();
    let said = bench.run(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    let audit = &bench.outcome()["audit"];
    assert_eq!((&audit["answered"], &audit["lost"]), (&json!(30), &json!(0)), "{audit}");
    assert_eq!(audit["invented"], 0, "{audit}");
}

#[test]
fn what_is_waited_for_is_told() {
    let user = User::new();
    let text = format!(
        "name = 'own'\n[system]\nname = 'nobody'\nurl = 'http://{}/'\nready_within = '4s'\n\
         [workload]\nclients = 2\nrequests = 20\n[[operation]]\nname = 'call'\n",
        free_address()
    );
    user.write("own.toml", text);
    // Whoever wants JSON on standard output waits no less.
    let said = user.run(&["quake", "run", "own.toml", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("waiting for the WSDL of the system ("), "{said:?}");
    assert!(said.stderr.contains("at most 4.0 s"), "{said:?}");
}

#[test]
fn each_cell_is_run_as_often_as_it_says() {
    let matrix = "repetitions = 2\nmatrix = { colour = ['red', 'blue'] }";
    let bench = Bench::new("clients = 1\nrequests = 5", matrix);
    let said = bench.run(&["--cell", "colour=green"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("it has colour=red, colour=blue"), "{said:?}");
    assert_eq!(bench.run(&["--cell", "colour=blue"]).code, 0);
    let complete =
        |cell: &str| bench.user.path(format!("trial.quake/cells/{cell}/outcome.json")).is_file();
    assert!(complete("colour=blue/1") && complete("colour=blue/2") && !complete("colour=red/1"));
    let said = bench.run(&["--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let value: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(value["systems"].as_array().unwrap().len(), 2, "{value}");
    assert!(complete("colour=red/1") && complete("colour=red/2"));
}

#[test]
fn one_of_our_own_servers_is_loaded_by_its_wsdl() {
    let server = Server::of_script("expr $1 + 1", &["[in val x:int]", ">", "[out file y:int]"]);
    let user = User::new();
    let text = format!(
        "name = 'own'\n[system]\nname = 'Fishplate'\nurl = '{}'\n[workload]\nclients = 2\nrequests = 20\n\
         [[operation]]\nname = 'call'\narguments = ['x={{request}}']\n",
        server.url()
    );
    user.write("own.toml", text);
    let said = user.run(&["quake", "run", "own.toml"]);
    let outcome =
        std::fs::read(user.path("own.quake/cells/cell/1/outcome.json")).unwrap_or_default();
    let outcome: Value = serde_json::from_slice(&outcome).unwrap_or_default();
    assert_eq!(outcome["outcomes"]["right"], 20, "{outcome} {said:?}");
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn a_server_that_crashes_is_told_and_the_cell_is_decided() {
    let bench = Bench::new("clients = 2\nduration = '10m'", "");
    let run = bench.start(&[]);
    bench.until_loaded();
    bench.set_mode("crash");
    let said = ended(run);
    assert_eq!(said.code, 10, "{said:?}");
    assert!(said.stdout.contains("CRASH"), "{said:?}");
    assert!(bench.outcome()["ended"].as_str().unwrap().starts_with("CRASH"), "{}", bench.outcome());
    bench.until_nothing_is_left();
}

#[test]
fn a_server_that_crashes_is_restarted_as_often_as_it_says() {
    let bench = Bench::new("clients = 2\nduration = '10m'", "watchdog = { restarts = 1 }");
    let run = bench.start(&[]);
    bench.until_loaded();
    bench.set_mode("crash");
    bench.until_event("recovered");
    bench.set_mode("crash");
    let said = ended(run);
    assert_eq!(said.code, 10, "{said:?}");
    let events = bench.events();
    let of = |what: &str| events.iter().filter(|event| event["what"]["what"] == what).count();
    let crashes = events.iter().filter(|event| event["what"]["class"] == "CRASH").count();
    assert_eq!((of("started"), crashes), (2, 2), "{events:?}");
    assert!(of("answered") >= 1, "{events:?}");
}

#[test]
fn a_server_that_leaks_ages_and_by_how_much_is_told() {
    let arrivals = "arrivals = { distribution = 'poisson', rate = 40.0 }";
    let bench = Bench::new(&format!("clients = 4\nwarm_up = 200\nrequests = 1000\n{arrivals}"), "");
    bench.start_with("MODE", "leak");
    let said = bench.run(&[]);
    assert_eq!(said.code, 10, "{said:?}");
    assert!(said.stdout.contains("fixture: AGEING over 1,000 requests"), "{said:?}");
    // It keeps 64 KiB of each.
    let grows = said.stdout.split_once("memory of server grows by ").expect("its growth is told").1;
    let (number, rest) = grows.split_once(" KiB a request").expect("a request");
    let number: f64 = number.parse().unwrap();
    assert!((60.0..70.0).contains(&number), "{number} {rest}");
    let results: Value =
        serde_json::from_slice(&bench.user.read("trial.quake/results.json")).unwrap();
    assert_eq!(results["systems"][0]["kind"], "ageing", "{results}");
}

#[test]
fn a_system_that_does_not_start_is_told_with_what_it_said() {
    let bench = Bench::new("clients = 1\nrequests = 5", "");
    let text = String::from_utf8(bench.user.read("trial.toml")).unwrap();
    bench.user.write("trial.toml", text.replace(FIXTURE, "none.py"));
    let said = bench.run(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("process server ended before the system was ready"), "{said:?}");
    assert!(said.stderr.contains("none.py"), "{said:?}");
    assert!(!bench.file("outcome.json").exists());
    bench.until_nothing_is_left();
}

#[test]
fn a_killed_manager_leaves_no_load_no_stress_and_no_server_behind() {
    let stress = "[[stress]]\nresource = 'descriptors'\ncount = 10\nlength = '10m'\n";
    let bench = Bench::new("clients = 2\nduration = '10m'", stress);
    let mut run = bench.start(&[]);
    bench.until_loaded();
    bench.until_event("stress");
    // Manager, two agents, the server, its reaper, the stress.
    assert!(bench.processes().len() >= 6, "{:?}", bench.processes());
    run.kill().unwrap();
    run.wait().unwrap();
    bench.until_nothing_is_left();
}

#[test]
fn ctrl_c_ends_all_and_the_same_command_goes_on() {
    let bench = Bench::new("clients = 2\nduration = '10m'", "");
    let run = bench.start(&[]);
    bench.until_loaded();
    interrupt(&run);
    let said = ended(run);
    assert_eq!(said.code, 130, "{said:?}");
    assert!(!bench.file("outcome.json").exists());
    bench.until_nothing_is_left();
    // What is there again is of the second run.
    std::fs::remove_file(bench.file("load.jsonl")).unwrap();
    let run = bench.start(&[]);
    bench.until_loaded();
    bench.set_mode("crash");
    assert_eq!(ended(run).code, 10);
    assert!(bench.file("outcome.json").exists());
}

/// One of two client agents is lost, in this way; the other goes on to the end.
fn one_client_agent_is_lost(duration: &str, more: &[&str], how: fn(&[i32])) {
    let bench = Bench::new(&format!("clients = 2\nduration = '{duration}'"), "");
    let run = bench.start(&[&["--agents", "2"], more].concat());
    bench.until_loaded();
    let is_client = |process: &&processes::Process| {
        process.line.contains("\0agent\0") && !process.line.contains("--system")
    };
    let clients: Vec<i32> =
        bench.processes().iter().filter(is_client).map(|process| process.pid).collect();
    assert_eq!(clients.len(), 2);
    how(&clients[..1]);
    bench.until_event("agent-lost");
    let said = ended(run);
    assert_eq!(said.code, 0, "{said:?}");
    let words = bench.outcome()["ended"].as_str().unwrap().to_owned();
    assert!(words.starts_with("its time was over; client agent "), "{words}");
    bench.until_nothing_is_left();
}

#[test]
fn a_client_agent_that_is_lost_is_told_and_the_others_go_on() {
    one_client_agent_is_lost("6s", &[], kill_all);
}

#[test]
fn an_agent_that_says_nothing_for_so_long_is_lost() {
    let stop = |pids: &[i32]| {
        for pid in pids {
            kill(Pid::from_raw(*pid), Signal::SIGSTOP).unwrap();
        }
    };
    one_client_agent_is_lost("15s", &["--lost-after", "3s"], stop);
    let said = Bench::new("clients = 1", "").run(&["--lost-after", "1s"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("agents speak every second"), "{said:?}");
}

#[test]
fn an_agent_without_a_manager_says_where_none_is() {
    let bench = Bench::new("clients = 1", "");
    bench.user.write("token", "0123456789abcdef0123");
    let address = free_address().to_string();
    let join = ["--join", &address, "--token-file", "token", "--join-within", "300ms"];
    let said = ended(bench.agent(&join));
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stderr.contains(&format!("no manager at {address} after 300ms")), "{said:?}");
    assert!(said.stderr.contains("quake run --listen"), "{said:?}");
}

#[test]
fn without_the_agent_of_the_system_a_cell_comes_to_nothing() {
    let bench = Bench::new("clients = 2\nduration = '10m'", "");
    let run = bench.start(&[]);
    bench.until_loaded();
    let agents = bench.processes();
    let system = agents.iter().find(|process| process.line.contains("--system")).unwrap();
    kill_all(&[system.pid]);
    let said = ended(run);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("lost: agent of the system"), "{said:?}");
    bench.until_nothing_is_left();
}

#[test]
fn agents_of_other_hosts_join_with_the_token_only() {
    let audit = "[audit]\nledger = ['seq', '0', '29']\n";
    let bench = Bench::new("clients = 2\nrequests = 30", audit);
    let manager = free_address().to_string();
    bench.user.write("token", "0123456789abcdef0123");
    bench.user.write("other", "another token of that length");
    let run = bench.start(&[
        "--listen",
        &manager,
        "--token-file",
        "token",
        "--remote-agents",
        "2",
        "--remote-system",
    ]);
    let refused = ended(bench.agent(&["--join", &manager, "--token-file", "other"]));
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(refused.stderr.contains("both need the same token"), "{refused:?}");
    let join = ["--join", &manager, "--token-file", "token"];
    let agents =
        [bench.agent(&join), bench.agent(&join), bench.agent(&[&join[..], &["--system"]].concat())];
    let said = ended(run);
    assert_eq!(said.code, 0, "{said:?}");
    for agent in agents {
        let said = ended(agent);
        assert_eq!(said.code, 0, "{said:?}");
    }
    let outcome = bench.outcome();
    assert_eq!(outcome["outcomes"]["right"], 30, "{outcome}");
    assert_eq!(outcome["clocks"].as_array().unwrap().len(), 3, "{outcome}");
    assert_eq!(outcome["audit"]["lost"], 0, "{outcome}");
    // It was written where the system ran, and was sent.
    let log = std::fs::read_to_string(bench.file("log/server")).unwrap();
    assert!(log.contains("listening on"), "{log}");
    bench.until_nothing_is_left();
}

#[test]
fn agents_that_do_not_join_are_missed() {
    let bench = Bench::new("clients = 2\nrequests = 30", "");
    let said = bench.run(&[
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        "token",
        "--remote-agents",
        "1",
        "--join-within",
        "200ms",
    ]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(
        said.stderr.contains("client agent") && said.stderr.contains("quake agent"),
        "{said:?}"
    );
    // It was made, for its owner alone.
    let mode = std::os::unix::fs::MetadataExt::mode(&bench.user.path("token").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    bench.until_nothing_is_left();
}
