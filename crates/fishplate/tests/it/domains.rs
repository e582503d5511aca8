//! Ranks as jobs on several servers: started together or not at all, watched, ended.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};

use fishplate_client::domain::DomainServer;
use fishplate_client::{Error, Service, Settings};
use fishplate_contract::{Argument, FaultCode};
use serde_json::Value;

use crate::curl::curl;
use crate::gateway::STOP;
use crate::processes::{is_alive, kill_all};
use crate::ranks::PROGRAM;
use crate::run::{Said, User, ended};
use crate::server::{Server, interrupt, until};
use crate::soap::{Version, key_header, post, wrapper};

/// A service `ring` whose program is a rank of the tests' own programs.
pub(crate) fn server(max: u32, options: &[&str]) -> Server {
    let mut server = prepared(max);
    server.serve(&[options, &["ring.toml"]].concat());
    server
}

/// The same, not started yet.
pub(crate) fn prepared(max: u32) -> Server {
    let server = Server::prepare();
    let tests = std::env::current_exe().unwrap();
    let tests = tests.to_str().unwrap();
    let script = format!(
        "{PROGRAM}=$1 {STOP}=DIR/stop exec {tests} --exact ranks::program --ignored --nocapture"
    );
    server.script("program", &script);
    let description = format!(
        "name = 'ring'\ncommand = './program [in val what:string]'\n[ranks]\nmax = {max}\n"
    );
    std::fs::write(server.path("ring.toml"), description).unwrap();
    server
}

pub(crate) fn hosts(servers: &[&Server], ranks: u32) -> String {
    let hosts: Vec<String> = servers.iter().map(|of| format!("{}:{ranks}", of.url())).collect();
    hosts.join(",")
}

/// States of all jobs of a server.
pub(crate) fn states(user: &User, server: &Server) -> Vec<String> {
    let jobs = user.json(&["jobs", server.url()]);
    let jobs = jobs["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["state"].as_str().unwrap().to_owned()).collect()
}

fn assert_named(said: &Said, words: &[&str]) {
    for word in words {
        assert!(said.stderr.contains(word), "{word}: {said:?}");
    }
}

#[test]
fn ranks_of_two_servers_are_a_domain() {
    let (one, two, user) = (server(4, &[]), server(4, &[]), User::new());
    let instances = |server: &Server| {
        format!(
            "[[instances]]\nservice = '{}'\nranks = 2\narguments = ['what=sum']\n",
            server.url()
        )
    };
    user.write("domain.toml", instances(&one) + &instances(&two));
    let said = user.run(&["domain", "run", "domain.toml"]);
    assert_eq!(said.code, 0, "{said:?}");
    for rank in 0..4 {
        let line = format!("[{rank}] rank {rank} of 4: 6\n");
        assert!(said.stdout.contains(&line), "{line} {said:?}");
    }
    assert_named(&said, &["ranks: 4, servers: 2"]);
    // They were jobs as any other.
    for server in [&one, &two] {
        assert_eq!(states(&user, server), ["done", "done"]);
    }
    let hosts = hosts(&[&one, &two], 1);
    // Before the arguments, as all options.
    let soap = ["--json", "run", "--transport", "soap", "--hosts", &hosts, "what=sum"];
    let summary = user.succeed(&soap);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["exitCode"], 0, "{summary}");
    let services: Vec<&Value> =
        summary["ranks"].as_array().unwrap().iter().map(|rank| &rank["service"]).collect();
    assert_eq!(services, [one.url(), two.url()]);
}

#[test]
fn status_tells_who_waits_for_whom_and_names_a_deadlock() {
    let (one, two, user) = (server(2, &[]), server(2, &[]), User::new());
    let mut running = user.start(&["run", "--hosts", &hosts(&[&one, &two], 1), "what=circle"]);
    let mut note = BufReader::new(running.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = note.next().unwrap();
    let id = first.strip_prefix("domain ").unwrap().split(':').next().unwrap();
    let deadlock = "deadlock: rank 0 waits in recv from 1 tag 7; rank 1 waits in recv from 0 tag 7";
    assert_eq!(note.next().unwrap(), deadlock);
    let words = ["domain", "status", id, one.url(), two.url()];
    let told = user.json(&words);
    assert_eq!(told["deadlock"]["cycle"], serde_json::json!([0, 1]), "{told}");
    for (rank, other) in [(0, 1), (1, 0)] {
        let wait = &told["ranks"][rank]["wait"];
        assert_eq!(wait["call"], format!("recv from {other} tag 7"), "{told}");
        assert_eq!(wait["ranks"], serde_json::json!([other]));
        assert!(wait["seconds"].as_f64().unwrap() >= 1.0, "{told}");
        let sent = serde_json::json!({ "from": rank, "to": other, "messages": 1, "bytes": 3 });
        assert!(told["traffic"].as_array().unwrap().contains(&sent), "{told}");
    }
    // Through the server of the other, its gateway.
    let (_, at) = two.url().split_once("://").unwrap();
    let (at, _) = at.split_once('/').unwrap();
    let address = format!("http://{at} at {at}");
    let route = serde_json::json!({ "from": 0, "to": 1, "address": address, "rejected": [] });
    assert!(told["routes"].as_array().unwrap().contains(&route), "{told}");
    let shown = user.succeed(&words);
    let sent = format!("0 -> 1  messages: 1  3 B  over {address}");
    for line in [deadlock, &sent, " s in recv from 0 tag 7"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // One server alone knows of no deadlock; and who watches is told until the end.
    assert_eq!(user.json(&words[..4])["deadlock"], Value::Null);
    let mut watching = user.start(&[&["domain", "status", "--watch=50ms"], &words[2..]].concat());
    let mut pictures = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(pictures.by_ref().filter(|line| line == deadlock).take(2).count(), 2);
    interrupt(&running);
    running.wait().unwrap();
    interrupt(&watching);
    watching.wait().unwrap();
}

#[test]
fn clients_are_told_where_ranks_on_servers_are() {
    let (one, two, user) = (server(1, &[]), server(1, &[]), User::new());
    let hosts = hosts(&[&one, &two], 1);
    let refused = user.run(&["run", "--hosts", &hosts, "--endpoints", "told", "what=sum"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_named(&refused, &["--endpoints", "--transport soap"]);
    let soap =
        ["run", "--hosts", &hosts, "--transport", "soap", "--endpoints", "told", "what=waits"];
    let child = user.start(&soap);
    until("all have joined", || user.path("told").exists());
    let told: Value = serde_json::from_slice(&user.read("told")).unwrap();
    let shown = format!("Authorization: Bearer {}", told["credential"].as_str().unwrap());
    for (rank, server) in [&one, &two].into_iter().enumerate() {
        let url = told["ranks"][rank].as_str().unwrap();
        let domain = told["domain"].as_str().unwrap();
        assert_eq!(url, format!("http://{}/domains/{domain}/{rank}", server.address()));
        let wsdl = format!("{url}?wsdl");
        assert_eq!(curl(&[&wsdl]).status, 401);
        assert!(curl(&["--header", &shown, &wsdl]).text().contains("receive"));
    }
    interrupt(&child);
    assert_eq!(ended(child).code, 130);
}

#[test]
fn services_are_found_by_their_interface_and_domains_described_in_xml() {
    let (one, two, user) = (server(2, &[]), server(2, &[]), User::new());
    let root = |server: &Server| server.url().rsplit_once('/').unwrap().0.to_owned();
    let servers = format!("{},{}", root(&one), root(&two));
    let found = user.succeed(&["find", one.url(), "--servers", &servers]);
    assert_eq!(found, format!("{}\n{}\n", one.url(), two.url()));
    // Several programs may have the namespace of one interface; a server that is away is passed over.
    let said = user.run(&[
        "find",
        "urn:fishplate:ring",
        "--servers",
        &format!("http://127.0.0.1:9,{servers}"),
    ]);
    assert_eq!((said.code, said.stdout.as_str()), (0, found.as_str()), "{said:?}");
    assert_named(&said, &["passed over: ", "127.0.0.1:9"]);
    assert_eq!(user.succeed(&["diff", one.url(), two.url()]), "");
    // One of the same name that takes something else is none.
    user.write("other.wsdl", user.succeed(&["wsdl", one.url()]).replace("\"what\"", "\"why\""));
    let said = user.run(&["find", "other.wsdl", "--servers", &servers]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{said:?}");
    assert_named(&said, &[two.url(), "call: input why: parameter: there / not there"]);
    let told = user.run(&["--json", "diff", "other.wsdl", two.url()]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let lost = told["differences"].as_array().unwrap().iter().find(|of| of["breaks"] == true);
    assert_eq!(lost.unwrap()["parameter"], "input why", "{told}");
    let xml = |interface: &str| {
        format!(
            "<domain xmlns='urn:fishplate:mpfl:1'>\n\
             <instances service='{}' ranks='1'><argument>what=sum</argument></instances>\n\
             <instances interface='{interface}' ranks='2'><server>{}</server>\
             <argument>what=sum</argument></instances></domain>\n",
            one.url(),
            root(&two)
        )
    };
    user.write("domain.xml", xml(one.url()));
    let summary = user.json(&["domain", "run", "domain.xml"]);
    let services: Vec<&Value> =
        summary["ranks"].as_array().unwrap().iter().map(|rank| &rank["service"]).collect();
    assert_eq!(services, [one.url(), two.url(), two.url()], "{summary}");
    user.write("domain.xml", xml("other.wsdl"));
    let said = user.run(&["domain", "run", "domain.xml"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_named(&said, &["has the interface other.wsdl and can be a rank", "input why"]);
    user.write("domain.xml", xml("ring").replace("ranks='2'", "ranks='two'"));
    let said = user.run(&["domain", "run", "domain.xml"]);
    assert_named(&said, &["domain.xml:3:1", "`ranks` is a whole number from 1"]);
}

#[test]
fn a_service_serves_several_domains_at_once() {
    let (server, user) = (server(6, &["--limit", "max_running=6"]), User::new());
    let counts = [2, 3];
    let running = counts.map(|ranks| {
        user.start(&["run", "--label", "--hosts", &hosts(&[&server], ranks), "what=sum"])
    });
    for (ranks, child) in counts.into_iter().zip(running) {
        let said = ended(child);
        assert_eq!(said.code, 0, "{said:?}");
        let sum: u32 = (0..ranks).sum();
        for rank in 0..ranks {
            let line = format!("[{rank}] rank {rank} of {ranks}: {sum}\n");
            assert!(said.stdout.contains(&line), "{line} {said:?}");
        }
    }
}

#[test]
fn a_killed_rank_ends_the_others_and_is_named() {
    let (one, two, user) = (server(2, &[]), server(2, &[]), User::new());
    let hosts = hosts(&[&one, &two], 2);
    let said = user.run(&["run", "--hosts", &hosts, "what=killed"]);
    assert_eq!(said.code, 137, "{said:?}");
    assert_named(&said, &["rank 1 was killed by signal 9 (SIGKILL)", one.url()]);
    assert_eq!(states(&user, &two), ["killed", "killed"]);
    let said = user.run(&["run", "--hosts", &hosts, "what=exits"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_named(&said, &["rank 1 ended with exit code 0, but without leaving"]);
    let said = user.run(&["run", "--hosts", &hosts, "what=aborts"]);
    assert_eq!(said.code, 7, "{said:?}");
}

/// Which processes of a server's jobs said that they are ready.
fn ready(user: &User, server: &Server) -> BTreeSet<i32> {
    let jobs = user.json(&["jobs", server.url()]);
    let jobs = jobs["jobs"].as_array().unwrap().iter().filter_map(|job| job["job"].as_str());
    let logs: String = jobs.map(|job| user.succeed(&["log", server.url(), job])).collect();
    logs.lines().filter_map(|line| line.strip_prefix("ready ")?.parse().ok()).collect()
}

/// The memory of ranks that a process has mapped, by the numbers of its files.
fn shared(pid: i32) -> BTreeSet<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let ours = maps.lines().filter(|line| line.contains("memfd:fishplate-ranks"));
    ours.map(|line| line.split_whitespace().nth(4).unwrap().parse().unwrap()).collect()
}

#[test]
fn ranks_of_one_server_share_memory_and_nothing_of_it_is_left() {
    let (mut one, mut two, user) = (server(2, &[]), server(2, &[]), User::new());
    let at = hosts(&[&one, &two], 2);
    for (transport, is_shared) in [("tcp", false), ("shared-memory", true)] {
        let words = ["run", "--transport", transport, "--hosts", &at, "what=waits"];
        let running = user.start(&words);
        let pids = || [&one, &two].map(|server| ready(&user, server));
        let alive = || pids().map(|pids| pids.into_iter().filter(|pid| is_alive(*pid)));
        until("all wait for messages", || alive().into_iter().flatten().count() == 4);
        let memories = alive().map(|pids| pids.map(shared).collect::<BTreeSet<_>>());
        let [near, far] = &memories;
        assert_eq!((near.len(), far.len()), (1, 1), "the same for all ranks of a server");
        assert_eq!(near != far, is_shared, "{memories:?}");
        let own = [near, far].map(|all| all.first().unwrap().len());
        assert_eq!(own, [usize::from(is_shared); 2]);
        // Servers keep nothing of it open.
        for server in [&one, &two] {
            let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
            let open = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
            assert!(!open.into_iter().any(|to| to.to_string_lossy().contains("fishplate-ranks")));
        }
        if !is_shared {
            interrupt(&running);
            ended(running);
            continue;
        }
        // Whoever is killed, however hard, it goes with the last of them: it has no name.
        let pids: Vec<i32> = alive().into_iter().flatten().collect();
        one.kill();
        two.kill();
        kill_all(&pids);
        kill_all(&[i32::try_from(running.id()).unwrap()]);
        ended(running);
        until("all are gone", || !pids.iter().any(|pid| is_alive(*pid)));
        let memories: BTreeSet<u64> = memories.into_iter().flatten().flatten().collect();
        let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let mut all = all.filter_map(|name| name.to_str()?.parse().ok());
        assert_eq!(all.find(|pid| !shared(*pid).is_disjoint(&memories)), None);
    }
}

#[test]
fn who_interrupts_ends_all_ranks_on_all_servers() {
    let (one, two, user) = (server(2, &[]), server(2, &[]), User::new());
    let child = user.start(&["run", "--hosts", &hosts(&[&one, &two], 1), "what=waits"]);
    // What they write is in the jobs' logs.
    let pids = || -> BTreeSet<i32> {
        [&one, &two].iter().flat_map(|server| ready(&user, server)).collect()
    };
    until("both wait for messages", || pids().len() == 2);
    let pids = pids();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    interrupt(&child);
    let said = ended(child);
    assert_eq!(said.code, 130, "{said:?}");
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "{said:?}");
    for server in [&one, &two] {
        assert_eq!(states(&user, server), ["killed"]);
    }
}

#[test]
fn all_ranks_are_started_or_none() {
    let (roomy, full, user) = (server(2, &[]), server(1, &[]), User::new());
    let said = user.run(&["run", "--hosts", &hosts(&[&roomy, &full], 2), "what=sum"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_named(
        &said,
        &[full.url(), "2 places can't be reserved", "1 jobs of this service may run"],
    );
    // What is taken now may be free later.
    let busy = user.start(&["run", "--hosts", &hosts(&[&full], 1), "what=waits"]);
    until("the only place is taken", || states(&user, &full) == ["running"]);
    let both = hosts(&[&roomy, &full], 1);
    let said = user.run(&["run", "--hosts", &both, "what=sum"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert_named(&said, &[full.url(), "0 are free now"]);
    let waiting = user.start(&["run", "--hosts", &both, "--wait", "1h", "what=sum"]);
    // Who waits holds nothing: all places of the other are to be had.
    let said = user.run(&["run", "--hosts", &hosts(&[&roomy], 2), "--wait", "1h", "what=sum"]);
    assert_eq!(said.code, 0, "{said:?}");
    interrupt(&busy);
    assert_eq!(ended(busy).code, 130);
    let said = ended(waiting);
    assert_eq!(said.code, 0, "{said:?}");
    // One that is not there.
    let gone = format!("{}:1,http://127.0.0.1:9/ring:1", roomy.url());
    let before = states(&user, &roomy).len();
    let said = user.run(&["run", "--hosts", &gone, "what=sum"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert_named(&said, &["http://127.0.0.1:9/ring"]);
    assert_eq!(states(&user, &roomy).len(), before, "nothing was started");
    // One without ranks.
    let plain = Server::of_script("true", &[]);
    let said = user.run(&["run", "--hosts", &hosts(&[&roomy, &plain], 1), "what=sum"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_named(&said, &[plain.url(), "[ranks]"]);
}

#[test]
fn programs_that_pass_no_messages_are_ranks_too_and_results_are_put_by_rank() {
    let server = Server::of_file(
        "test $1 != $FISHPLATE_RANK || exit 3; echo $FISHPLATE_RANK; echo of $FISHPLATE_RANKS >&2",
        "name = 'test'\ncommand = './program [in val fails:int] > [out file y:int]'\n[ranks]\nmax = 2\n",
    );
    let (user, hosts) = (User::new(), format!("{}:2", server.url()));
    let said = user.run(&["run", "-l", "--hosts", &hosts, "--results", "out", "fails=9"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_named(&said, &["[0] of 2\n", "[1] of 2\n"]);
    for rank in ["0", "1"] {
        assert_eq!(user.read(&format!("out/{rank}/y")), format!("{rank}\n").as_bytes());
    }
    let said = user.run(&["run", "--hosts", &hosts, "fails=1"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_named(&said, &["rank 1 ended with exit code 3", server.url()]);
}

const DOMAIN: &str = "000102030405060708090a0b0c0d0e0f";
const OTHER: &str = "f00102030405060708090a0b0c0d0e0f";

async fn domains(server: &Server) -> DomainServer {
    DomainServer::find(server.url(), Settings::default()).await.unwrap().unwrap()
}

async fn init(server: &Server, domain: &str, rank: u32, credential: &str) -> Result<(), Error> {
    let service = Service::connect(server.url()).await?;
    let texts = [
        ("domain", domain),
        ("rank", &rank.to_string()),
        ("ranks", "2"),
        ("credential", credential),
        ("transport", "soap"),
        ("what", "waits"),
    ];
    let arguments = texts.map(|(name, text)| Argument::text(name, text)).into();
    service.init("call", arguments).await.map(drop)
}

fn fault<T: std::fmt::Debug>(answer: Result<T, Error>) -> (FaultCode, String) {
    match answer {
        Err(Error::Fault(fault)) => (fault.code, fault.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reservation_lapses_and_is_given_back_by_a_server_that_is_killed() {
    let credential = "ab".repeat(32);
    let mut server = server(2, &[]);
    let at = domains(&server).await;
    at.reserve(DOMAIN, "ring", 2).await.unwrap();
    let refused = fault(at.reserve(OTHER, "ring", 1).await);
    assert_eq!(refused.0, FaultCode::QueueFull, "{refused:?}");
    server.kill();
    server.restart();
    let refused = fault(init(&server, DOMAIN, 0, &credential).await);
    assert!(refused.1.contains("there is no domain"), "{refused:?}");
    let at = domains(&server).await;
    at.reserve(OTHER, "ring", 2).await.unwrap();
    assert_eq!(at.end(OTHER).await.unwrap(), 0);
    at.reserve(DOMAIN, "ring", 2).await.unwrap();

    // Who is refused leaves nothing behind, and others are forgotten only when their ranks can't come any more.
    let brief = self::server(2, &["--limit", "retention=1ms"]);
    let at = domains(&brief).await;
    at.reserve(DOMAIN, "ring", 1).await.unwrap();
    assert!(at.reserve(OTHER, "ring", 2).await.is_err());
    assert!(at.members(OTHER).await.is_err());
    at.reserve(OTHER, "ring", 1).await.unwrap();
    init(&brief, DOMAIN, 0, &credential).await.unwrap();
    at.end(DOMAIN).await.unwrap();

    let quick = self::server(2, &["--limit", "reservation_lease=10ms"]);
    let at = domains(&quick).await;
    at.reserve(DOMAIN, "ring", 2).await.unwrap();
    // There are two places, so these are the same.
    while at.reserve(OTHER, "ring", 2).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let refused = fault(init(&quick, DOMAIN, 0, &credential).await);
    assert!(refused.1.contains("no place of service ring is reserved"), "{refused:?}");
}

#[test]
fn a_rank_takes_no_idempotency_key() {
    let description = "name = 'test'\ncommand = './program'\n[ranks]\nmax = 1\n";
    let server = Server::of_file("true", description);
    let rank = format!(
        "<domain>{DOMAIN}</domain><rank>0</rank><ranks>1</ranks><credential>{}</credential>",
        "ab".repeat(32)
    );
    let keyed = Version::V11.envelope(&key_header("k"), &wrapper("init", &rank));
    let answer = post(&server, Version::V11, &keyed);
    answer.assert_fault(Version::V11, "InvalidValue");
    assert_eq!(answer.text("parameter"), Some("key"), "{answer:#?}");
}

#[tokio::test]
async fn a_rank_is_of_one_domain_with_one_credential_that_nobody_else_sees() {
    let (right, wrong) = ("ab".repeat(32), "cd".repeat(32));
    let (server, user) = (server(4, &["--log", "debug"]), User::new());
    let at = domains(&server).await;
    at.reserve(DOMAIN, "ring", 3).await.unwrap();
    init(&server, DOMAIN, 0, &right).await.unwrap();
    for (rank, credential, parameter) in [(1, &wrong, "credential"), (0, &right, "rank")] {
        let refused = init(&server, DOMAIN, rank, credential).await;
        let Err(Error::Fault(fault)) = refused else { panic!("{refused:?}") };
        assert_eq!(fault.parameter.as_deref(), Some(parameter), "{fault:?}");
    }
    let refused = fault(init(&server, DOMAIN, 2, &right).await);
    assert!(refused.1.contains("rank 2 is none of 2"), "{refused:?}");
    let refused = fault(init(&server, OTHER, 0, &right).await);
    assert!(refused.1.contains("there is no domain"), "{refused:?}");
    init(&server, DOMAIN, 1, &right).await.unwrap();
    let all =
        user.succeed(&["jobs", server.url()]) + &user.succeed(&["jobs", server.url(), "--json"]);
    // Both are endpoints of SOAP calls, as they were told.
    let members = loop {
        let members = at.members(DOMAIN).await.unwrap();
        if members.iter().all(|of| of.address.is_some()) {
            break members;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    for of in &members {
        let path = format!("/domains/{DOMAIN}/{}", of.rank);
        let address = of.address.as_deref().unwrap();
        assert!(address.starts_with("http://127.0.0.1:") && address.ends_with(&path), "{address}");
    }
    assert_eq!(members.iter().map(|of| of.rank).collect::<Vec<_>>(), [0, 1]);
    let status = user.succeed(&["status", server.url(), &members[0].job.to_string()]);
    let shown = user.succeed(&["domain", "status", DOMAIN, server.url()]);
    let lines = shown.lines().filter(|line| line.contains(server.url()));
    assert_eq!(lines.count(), 2, "{shown}");
    for told in [all, status, shown, server.log()] {
        assert!(!told.contains(&right[..16]), "{told}");
    }
    let command_lines = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    assert_eq!(command_lines.filter(|line| line.contains(&right[..16])).count(), 0);
    assert_eq!(
        user.succeed(&["domain", "end", DOMAIN, server.url()]),
        "ranks that were killed: 2\n"
    );
    assert_eq!(states(&user, &server), ["killed", "killed"]);
}
