//! The workflow manager as a service: what `fishplate domain run` does, as a job, with what the caller gave and nothing else.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::domains::{server, states};
use crate::processes::is_alive;
use crate::ranks::{interop, zeep};
use crate::run::{Said, User};
use crate::server::{Server, until};
use crate::skipped::skipped;

/// A server that offers the service, and may call servers of this machine.
fn manager(options: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.serve(&[options, &["--builtin", "domain-manager"]].concat());
    server
}

/// Ranks that each copy what they are given, and say so.
fn copying(options: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script("program", "echo rank $FISHPLATE_RANK >&2; cat $1");
    let description = "name = 'copy'\ncommand = './program [in file x:raw] > [out file y:raw]'\n[ranks]\nmax = 2\n";
    std::fs::write(server.path("copy.toml"), description).unwrap();
    server.serve(&[options, &["copy.toml"]].concat());
    server
}

fn instances(servers: &[&Server], argument: &str) -> String {
    let one = |server: &&Server| {
        let url = server.url();
        format!("[[instances]]\nservice = '{url}'\nranks = 1\narguments = ['{argument}']\n")
    };
    servers.iter().map(one).collect()
}

/// Calls the service with what the user has: `domain.toml` and more.
fn call(user: &User, manager: &Server, more: &[&str]) -> Said {
    let words = ["call", manager.url(), "file:domain.toml", "out:results=out", "out:summary"];
    user.run(&[&words[..], more].concat())
}

/// The log of the only job of a server.
fn log(user: &User, server: &Server) -> String {
    let jobs = user.json(&["jobs", server.url()]);
    let job = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    let said = user.run(&["log", server.url(), &job, "--stream", "stderr"]);
    said.stdout + &said.stderr
}

#[test]
fn a_domain_is_run_by_a_job_that_gives_the_results_of_each_rank() {
    let (one, two, user) = (copying(&[]), copying(&[]), User::new());
    let manager = manager(&["--allow-private"]);
    user.write("domain.toml", instances(&[&one, &two], "x:decks/deck"));
    std::fs::create_dir_all(user.path("inputs/decks")).unwrap();
    user.write("inputs/decks/deck", "a deck");
    let said = call(&user, &manager, &["inputs:inputs"]);
    assert_eq!(said.code, 0, "{said:?}");
    for rank in ["0", "1"] {
        assert_eq!(user.read(&format!("out/{rank}/y")), b"a deck");
    }
    let summary: Value = serde_json::from_slice(&user.read("summary")).unwrap();
    assert_eq!(summary["exitCode"], 0, "{summary}");
    let services: Vec<&Value> =
        summary["ranks"].as_array().unwrap().iter().map(|rank| &rank["service"]).collect();
    assert_eq!(services, [one.url(), two.url()]);
}

#[test]
fn its_callers_read_no_other_file() {
    let (one, user) = (copying(&[]), User::new());
    std::fs::create_dir(user.path("inputs")).unwrap();
    let outside = user.path("outside");
    user.write("outside", "a secret");
    let outside = outside.to_str().unwrap();
    let open = manager(&["--allow-private"]);
    let interface = |wanted: &str| {
        format!("[[instances]]\ninterface = '{wanted}'\nservers = ['{}']\nranks = 1\n", one.url())
    };
    for text in [
        instances(&[&one], &format!("x:{outside}")),
        instances(&[&one], "x:../file"),
        instances(&[&one], "x:-"),
        instances(&[&one], "x@../logins"),
        interface(outside),
        interface("../file"),
    ] {
        user.write("domain.toml", &text);
        let spawned = user.run(&["spawn", open.url(), "file:domain.toml", "inputs:inputs"]);
        let job = spawned.stdout.trim();
        let ended = user.run(&["wait", open.url(), job]);
        assert_ne!(ended.code, 0, "{text}");
        let log = user.run(&["log", open.url(), job, "--stream", "stderr"]).stdout;
        assert!(log.contains("it is no file of the inputs"), "{text}: {log}");
    }
    assert_eq!(states(&user, &one), [""; 0]);
}

#[test]
fn its_callers_reach_no_address_that_its_server_may_not_ask() {
    let (one, user, closed) = (copying(&[]), User::new(), manager(&[]));
    user.write("domain.toml", instances(&[&one], "x=1"));
    assert_ne!(call(&user, &closed, &[]).code, 0);
    let log = log(&user, &closed);
    assert!(log.contains("allow_private"), "{log}");
    assert_eq!(states(&user, &one), [""; 0]);
}

#[test]
fn it_logs_in_with_what_the_caller_gives_and_tells_nobody() {
    let (one, user) = (copying(&["--login"]), User::new());
    // What the manager's own server has is not for its callers: were it used, this token would let in.
    let data = one.data();
    let operate = |words: &[&str]| {
        let said = user.run(&[words, &["--data", data.to_str().unwrap()]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.stdout.trim().to_owned()
    };
    let token = operate(&["token", "create", "--user", "ada", "--service", "copy"]);
    let origin = one.url().rsplit_once('/').unwrap().0;
    let logins = json!({ origin: { "token": token } }).to_string();
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".config/fishplate");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join("logins.json"), &logins).unwrap();
    std::fs::set_permissions(kept.join("logins.json"), Permissions::from_mode(0o600)).unwrap();
    let home = home.path().to_str().unwrap();
    let mut manager = Server::prepare().in_environment(&[("HOME", home)]);
    manager.serve(&["--allow-private", "--log", "debug", "--builtin", "domain-manager"]);
    user.write("domain.toml", instances(&[&one], "x=1"));
    assert_ne!(call(&user, &manager, &[]).code, 0);
    let refused = log(&user, &manager);
    assert!(refused.contains("Unauthenticated") || refused.contains("401"), "{refused}");
    user.write("logins", logins);
    let said = call(&user, &manager, &["logins:logins"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(user.read("out/0/y"), b"1");
    let jobs = user.succeed(&["jobs", manager.url(), "--json"]);
    for told in [jobs, manager.log(), log(&user, &manager), one.log()] {
        assert!(!told.contains(&token), "{told}");
    }
}

#[test]
fn a_rank_that_fails_leaves_the_summary_and_the_results_of_the_others() {
    let fails = "until [ -e DIR/go ]; do sleep 0.05; done; exit 7";
    let description = "name = 'test'\ncommand = './program'\n[ranks]\nmax = 1\n";
    let (one, two, user) = (copying(&[]), Server::of_file(fails, description), User::new());
    let manager = manager(&["--allow-private"]);
    let failing = format!("[[instances]]\nservice = '{}'\nranks = 1\n", two.url());
    user.write("domain.toml", instances(&[&one], "x=1") + &failing);
    let job = user.succeed(&["spawn", manager.url(), "file:domain.toml"]).trim().to_owned();
    until("the other has ended", || states(&user, &one) == ["done"]);
    std::fs::write(two.path("go"), "").unwrap();
    user.succeed(&["wait", manager.url(), &job]);
    user.succeed(&["results", manager.url(), &job, "out:results=out", "out:summary"]);
    assert_eq!(user.read("out/0/y"), b"1");
    assert!(!user.path("out/1").exists());
    let summary: Value = serde_json::from_slice(&user.read("summary")).unwrap();
    assert_eq!((&summary["exitCode"], &summary["failedRank"]), (&json!(7), &json!(1)), "{summary}");
    assert!(summary["cause"].as_str().is_some_and(|why| why.contains(two.url())), "{summary}");
}

#[test]
fn ranks_that_write_much_do_not_fill_its_log() {
    let lines = "head -c 6000000 /dev/zero | tr '\\0' 'x' | fold -w 999";
    let description = "name = 'test'\ncommand = './program'\n[ranks]\nmax = 1\n";
    let (one, user) = (Server::of_file(lines, description), User::new());
    let manager = manager(&["--allow-private"]);
    user.write("domain.toml", format!("[[instances]]\nservice = '{}'\nranks = 1\n", one.url()));
    let said = call(&user, &manager, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    let jobs = user.json(&["jobs", manager.url()]);
    let job = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    let written = manager.data().join("jobs").join(job).join("stderr").metadata().unwrap().len();
    assert!((1 << 20..6_000_000).contains(&written), "{written}");
}

#[test]
fn it_goes_on_when_its_server_is_killed_and_its_ranks_end_with_it() {
    let (one, two, user) = (server(1, &[]), server(1, &[]), User::new());
    let mut manager = manager(&["--allow-private"]);
    user.write("domain.toml", instances(&[&one, &two], "what=waits"));
    let (id, credential) = ("0a".repeat(16), "0b".repeat(32));
    user.write("credential", &credential);
    let (domain, file) = (format!("domain={id}"), "file:domain.toml");
    let words = ["spawn", manager.url(), file, &domain, "credential:credential"];
    let job = user.succeed(&words).trim().to_owned();
    let pids = || -> Vec<i32> {
        let logs = [&one, &two].map(|server| {
            let jobs = user.json(&["jobs", server.url()]);
            let job = jobs["jobs"][0]["job"].as_str().map(str::to_owned);
            job.map(|job| user.succeed(&["log", server.url(), &job])).unwrap_or_default()
        });
        let ready = logs.iter().flat_map(|log| log.lines());
        ready.filter_map(|line| line.strip_prefix("ready ")?.parse().ok()).collect()
    };
    until("both wait for messages", || pids().len() == 2);
    manager.kill();
    manager.restart();
    let state = || user.json(&["status", manager.url(), &job])["state"].clone();
    assert_eq!(state(), "running");
    // What the caller chose is what the ranks are.
    let told = user.json(&["domain", "status", &id, one.url(), two.url()]);
    assert_eq!(told["ranks"].as_array().unwrap().len(), 2, "{told}");
    let pids = pids();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    user.succeed(&["kill", manager.url(), &job]);
    until("it is killed", || state() == "killed");
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    for server in [&one, &two] {
        assert_eq!(states(&user, server), ["killed"]);
    }
    assert!(!manager.log().contains(&credential[..16]));
}

#[test]
fn zeep_runs_a_domain_through_it() {
    let Some(python) = zeep() else {
        return skipped("zeep", "zeep is not installed; `make interop` does that");
    };
    let (one, two) = (copying(&[]), copying(&[]));
    let manager = manager(&["--allow-private"]);
    let script: &Path = &interop("zeep/domain_manager.py");
    let said = Command::new(python)
        .arg(script)
        .args([manager.url(), one.url(), two.url()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "0/y: zeep\n1/y: zeep\n");
}
