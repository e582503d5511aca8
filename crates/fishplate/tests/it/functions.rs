//! Functions of the server itself: calls that leave no trace, and jobs like those of any program.

use serde_json::json;

use crate::run::{User, ended, packagings};
use crate::server::{Server, until};

fn matrix(words: &[&str]) -> (Server, User) {
    let mut server = Server::prepare();
    server.serve(&[&["--builtin", "matrix"], words].concat());
    (server, User::new())
}

fn spawn(user: &User, server: &Server, words: &[&str]) -> String {
    let line = [&["spawn", server.url(), "--operation"], words].concat();
    user.json(&line)["job"].as_str().unwrap().to_owned()
}

fn state(user: &User, server: &Server, job: &str) -> String {
    user.json(&["status", server.url(), job])["state"].as_str().unwrap().to_owned()
}

/// Bytes that no text holds.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_call_leaves_no_record() {
    let (server, user) = matrix(&[]);
    let url = server.url();
    assert_eq!(user.succeed(&["call", url, "--operation", "add", "x=40", "y=2"]), "sum: 42\n");
    let unkeyed = ["call", url, "--operation", "nap", "seconds=0.01", "--no-key"];
    assert!(user.succeed(&unkeyed).starts_with("slept: 0.0"));
    assert_eq!(user.json(&["jobs", url])["jobs"], json!([]));
    // A nap is not the same twice: a key makes a job of it.
    user.succeed(&["call", url, "--operation", "nap", "seconds=0"]);
    assert_eq!(user.json(&["jobs", url])["jobs"][0]["operation"], "nap");
}

#[test]
fn a_call_and_a_job_give_the_same_in_every_packaging() {
    let (server, user) = matrix(&[]);
    let url = server.url();
    user.write("data", noise(300_000));
    for packaging in packagings() {
        let line = |verb, words: &[&'static str]| {
            let mut line = vec![verb, url, "--packaging", packaging, "--operation"];
            line.extend(words);
            line.into_iter().map(str::to_owned).collect::<Vec<String>>()
        };
        let run =
            |line: Vec<String>| user.succeed(&line.iter().map(String::as_str).collect::<Vec<_>>());
        let called = run(line("call", &["getMatrix", "n=3"]));
        assert_eq!(
            called,
            "matrix: [[0.1132102, 0.32482475, 0.7344315], [0.34615773, 0.61909163, 0.37981457], \
             [0.50358534, 0.48429906, 0.5535912]]\n",
            "{packaging}"
        );
        let job = spawn(&user, &server, &["getMatrix", "n=3", "--packaging", packaging]);
        user.succeed(&["wait", url, &job]);
        assert_eq!(user.succeed(&["results", url, &job, "--packaging", packaging]), called);
        run(line("call", &["echoFile", "data:data", "out:data=back"]));
        assert_eq!(user.read("back"), noise(300_000), "{packaging}");
        let job = spawn(&user, &server, &["echoFile", "data:data", "--packaging", packaging]);
        user.succeed(&["wait", url, &job]);
        user.succeed(&["results", url, &job, "out:data=again", "--packaging", packaging]);
        assert_eq!(user.read("again"), noise(300_000), "{packaging}");
    }
}

#[test]
fn a_fault_is_the_same_from_a_call_and_from_a_job() {
    let (server, user) = matrix(&[]);
    let url = server.url();
    let wrong = ["add", "x=2147483647", "y=1"];
    let called = user.run(&[&["call", url, "--operation"], &wrong[..]].concat());
    let job = spawn(&user, &server, &wrong);
    let waited = user.run(&["wait", url, &job]);
    let results = user.run(&["results", url, &job]);
    for said in [&called, &results] {
        assert!(said.stderr.contains("ValueOutOfRange"), "{said:?}");
        assert!(said.stderr.contains("the sum of 2147483647 and 1 is no int"), "{said:?}");
    }
    assert_eq!(called.code, results.code, "{called:?} {waited:?}");
    let range = user.run(&["call", url, "--operation", "getMatrix", "n=-1"]);
    assert!(range.stderr.contains("below the smallest value allowed, 0"), "{range:?}");
}

#[test]
fn a_job_tells_how_far_it_is_and_can_be_killed() {
    let (server, user) = matrix(&[]);
    let url = server.url();
    let job = spawn(&user, &server, &["nap", "seconds=600"]);
    until("it tells how far it is", || {
        user.json(&["status", url, &job])["progress"].as_f64().is_some_and(|share| share > 0.0)
    });
    assert_eq!(state(&user, &server, &job), "running");
    user.succeed(&["kill", url, &job]);
    assert_eq!(state(&user, &server, &job), "killed");
    user.succeed(&["remove", url, &job]);
}

#[test]
fn a_job_outlives_the_server() {
    let (mut server, user) = matrix(&[]);
    let job = spawn(&user, &server, &["nap", "seconds=1.5"]);
    until("it runs", || state(&user, &server, &job) == "running");
    server.kill();
    server.restart();
    let url = server.url().to_owned();
    user.succeed(&["wait", &url, &job]);
    assert!(user.succeed(&["results", &url, &job]).starts_with("slept: 1.5"));
}

#[test]
fn a_call_that_takes_too_long_or_finds_no_place_is_refused_by_name() {
    let (server, user) = matrix(&[
        "--limit",
        "function_time=200ms",
        "--limit",
        "functions_running=1",
        "--limit",
        "functions_queued=0",
    ]);
    let nap = ["call", server.url(), "--operation", "nap", "seconds=600", "--no-key"];
    let said = user.run(&nap);
    assert!(said.stderr.contains("function_time"), "{said:?}");
    // Whichever comes first naps, and the other finds no place.
    let naps = [user.start(&nap), user.start(&nap)].map(ended);
    for said in naps {
        let by_name = ["function_time", "functions_queued"].map(|name| said.stderr.contains(name));
        assert!(said.code != 0 && by_name.contains(&true), "{said:?}");
    }
}

#[test]
fn what_memory_has_no_room_for_goes_through_the_spool_and_leaves_nothing() {
    let (server, user) = matrix(&["--limit", "function_memory=1MiB"]);
    user.write("data", noise(20 << 20));
    for packaging in packagings() {
        user.succeed(&[
            "call",
            server.url(),
            "--operation",
            "echoFile",
            "data:data",
            "out:data=back",
            "--packaging",
            packaging,
        ]);
        assert!(user.read("back") == noise(20 << 20), "{packaging}");
    }
    let spool = server.data().join("spool");
    until("the spool is empty", || {
        let holders = std::fs::read_dir(&spool).unwrap().flatten();
        holders.flat_map(|holder| std::fs::read_dir(holder.path()).unwrap()).next().is_none()
    });
}
