//! Large text values: they fill neither the server's memory nor its store, count, and wait for room.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::disk;
use crate::processes;
use crate::server::{Server, until};
use crate::soap::{Answer, Version, ask};

/// Bytes of each text.
const TEXT: usize = 4 << 20;

/// What all messages may hold together here,
const MESSAGES: u64 = 16 << 20;

/// what a server may take beside it: what it takes at rest, what one message and one answer hold beyond
/// the limit, and what the allocator has not given back yet,
const BESIDE: u64 = 44 << 20;

/// and what a connection has read ahead that waits for memory.
const AHEAD: u64 = 2 << 20;

/// The server's programs wait for `DIR/go`.
const PROGRAM: &str = "echo run >> DIR/runs; until [ -e DIR/go ]; do sleep 0.05; done; cat text";

fn text(n: usize) -> String {
    format!("<text>{n}{}</text>", "x".repeat(TEXT))
}

fn job(spawned: &Answer) -> String {
    let job = spawned.text("job").unwrap_or_else(|| panic!("{:.500}", spawned.body));
    format!("<job>{job}</job>")
}

fn state(server: &Server, job: &str) -> (String, String) {
    let status = ask(server, Version::V11, "status", job);
    let told = |name| status.text(name).unwrap_or_default().to_owned();
    (told("state"), told("message"))
}

/// A service that takes a text in a file and gives one, with these limits.
fn serve(server: &mut Server, limits: &[&str]) {
    server.script("program", PROGRAM);
    let limits = limits.iter().flat_map(|limit| ["--limit", limit]);
    let line =
        ["-n", "test", "--", "./program", "[in file text:string]", ">", "[out file y:string]"];
    server.serve(&limits.chain(line).collect::<Vec<_>>());
}

#[track_caller]
fn assert_small(server: &Server, connections: u64, what: &str) {
    // A text is there twice while it grows, and three times while it becomes an answer.
    let most = 4 * MESSAGES + BESIDE + connections * AHEAD;
    let peak = processes::peak_memory(server.pid());
    println!("{what}: {} MiB of {}", peak >> 20, most >> 20);
    assert!(peak < most, "{what}: the server took {} MiB", peak >> 20);
}

#[test]
fn a_full_queue_of_texts_fills_neither_memory_nor_the_store() {
    const JOBS: usize = 40;
    let mut server = Server::prepare();
    let queue = format!("max_queued={JOBS}");
    let memory = format!("message_memory={}KiB", MESSAGES >> 10);
    serve(&mut server, &["max_running=1", &queue, &memory]);
    let first = job(&ask(&server, Version::V11, "spawn", "<text>first</text>"));
    until("the first runs", || state(&server, &first).0 == "running");
    let jobs: Vec<String> =
        (0..JOBS).map(|n| job(&ask(&server, Version::V11, "spawn", &text(n)))).collect();
    ask(&server, Version::V11, "spawn", &text(JOBS)).assert_fault(Version::V11, "QueueFull");
    assert_small(&server, 1, "a full queue");
    let store = std::fs::metadata(server.path("data/jobs.sqlite")).unwrap().len();
    assert!(store < TEXT as u64, "the store has {store} bytes");
    std::fs::write(server.path("go"), "").unwrap();
    for (n, job) in jobs.iter().enumerate() {
        until("it has ended", || state(&server, job).0 == "done");
        let results = ask(&server, Version::V11, "results", job);
        let y = results.text("y").unwrap_or_else(|| panic!("{:.500}", results.body));
        assert_eq!(y.len(), n.to_string().len() + TEXT);
        assert!(y.starts_with(&n.to_string()));
    }
    assert_small(&server, 1, "all results");
}

#[test]
fn many_calls_with_texts_at_once_are_all_answered_within_the_limit() {
    const CALLS: usize = 32;
    let mut server = Server::prepare();
    let memory = format!("message_memory={}KiB", MESSAGES >> 10);
    serve(&mut server, &[&memory]);
    std::fs::write(server.path("go"), "").unwrap();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLS)
            .map(|n| {
                let server = &server;
                let text = format!("<text>{}</text>", "x".repeat(2 * TEXT + n));
                scope.spawn(move || ask(server, Version::V11, "call", &text))
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            let answer = call.join().unwrap();
            assert_eq!(answer.status, 200, "{:.1000}", answer.body);
            assert_eq!(answer.text("y").map(str::len), Some(2 * TEXT + n));
        }
    });
    assert_small(&server, CALLS as u64, "many calls");
}

#[test]
fn what_waits_counts_against_the_quota() {
    let mut server = Server::prepare();
    serve(&mut server, &["max_running=1", "disk_quota=10MiB"]);
    let jobs: Vec<String> =
        (0..2).map(|n| job(&ask(&server, Version::V11, "spawn", &text(n)))).collect();
    let refused = ask(&server, Version::V11, "spawn", &text(2));
    refused.assert_fault(Version::V11, "QuotaExceeded");
    assert_eq!(refused.limit(), Some("disk_quota"), "{refused:#?}");
    for job in jobs {
        assert_eq!(ask(&server, Version::V11, "kill", &job).status, 200);
        assert_eq!(ask(&server, Version::V11, "remove", &job).status, 200);
    }
    until("there is room", || ask(&server, Version::V11, "spawn", &text(3)).status == 200);
}

#[test]
fn a_disk_that_texts_have_filled_is_free_again_once_their_jobs_are_removed() {
    let mut server = Server::prepare();
    let Some(_disk) = disk::small(&server.path("data"), 64) else { return };
    serve(&mut server, &["max_running=1", "disk_reserve=16MiB"]);
    let mut jobs = Vec::new();
    let refused = loop {
        let answer = ask(&server, Version::V11, "spawn", &text(jobs.len()));
        if answer.status != 200 {
            break answer;
        }
        jobs.push(job(&answer));
        assert!(jobs.len() < 64);
    };
    refused.assert_fault(Version::V11, "StorageFull");
    assert_eq!(refused.limit(), Some("disk_reserve"), "{refused:#?}");
    assert!(jobs.len() >= 3);
    for job in jobs {
        assert_eq!(ask(&server, Version::V11, "kill", &job).status, 200);
        assert_eq!(ask(&server, Version::V11, "remove", &job).status, 200);
    }
    std::fs::write(server.path("go"), "").unwrap();
    let good = |server: &Server| ask(server, Version::V11, "call", &text(0)).status == 200;
    until("calls work again", || good(&server));
    server.stop();
    server.restart();
    until("and after a restart", || good(&server));
}

/// Takes room until no more than this is free.
fn fill(path: &Path, leave: u64) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    let free = || {
        let disk = nix::sys::statvfs::statvfs(path).unwrap();
        disk.blocks_available() * disk.fragment_size()
    };
    while free() > leave {
        file.write_all(&[1; 64 << 10]).unwrap();
    }
}

#[test]
fn queued_jobs_wait_for_room_on_the_disk_and_say_so() {
    let mut server = Server::prepare();
    let Some(_disk) = disk::small(&server.path("data"), 48) else { return };
    serve(&mut server, &["max_running=1", "disk_reserve=16MiB"]);
    let spawn = || job(&ask(&server, Version::V11, "spawn", "<text>a</text>"));
    let first = spawn();
    until("the first runs", || server.runs() == 1);
    let (second, third) = (spawn(), spawn());
    // It takes nothing, so it is not the one who has to go.
    fill(&server.path("data/filler"), 8 << 20);
    std::fs::write(server.path("go"), "").unwrap();
    until("the first has ended", || {
        let (state, message) = state(&server, &first);
        assert_ne!(state, "failed", "{message}");
        state == "done"
    });
    for job in [&second, &third] {
        until("it says what it waits for", || {
            let (state, message) = state(&server, job);
            assert_eq!(state, "queued", "{message}");
            message.contains("room") && message.contains("disk_reserve")
        });
    }
    let killed = ask(&server, Version::V11, "kill", &second);
    assert_eq!(killed.text("state"), Some("killed"), "{killed:#?}");
    std::fs::remove_file(server.path("data/filler")).unwrap();
    until("the other runs when there is room", || state(&server, &third).0 == "done");
    assert_eq!(state(&server, &second).0, "killed");
}

#[test]
fn staged_files_without_room_hold_up_nobody_and_take_no_room_meanwhile() {
    let mut server = Server::prepare();
    let Some(_disk) = disk::small(&server.path("data"), 48) else { return };
    server.script("program", "wc -c < table");
    server.script("other", "echo other");
    std::fs::write(server.path("table"), vec![b'x'; 64 << 20]).unwrap();
    let description = |name: &str, program: &str, more: &str| {
        let text =
            format!("name = \"{name}\"\ncommand = \"{program} > [out file y:string]\"\n{more}");
        std::fs::write(server.path(format!("{name}.toml")), text).unwrap();
    };
    description("test", "./program", "stage = [\"table\"]\n");
    description("other", "./other", "");
    server.serve_many(
        2,
        &["--limit", "disk_reserve=1MiB", "--limit", "max_running=1", "test.toml", "other.toml"],
    );
    let large = job(&ask(&server, Version::V11, "spawn", ""));
    until("it waits", || {
        let (state, message) = state(&server, &large);
        assert_ne!(state, "failed", "{message}");
        state == "queued" && message.contains("room")
    });
    let disk = nix::sys::statvfs::statvfs(&server.data()).unwrap();
    assert!(disk.blocks_available() * disk.fragment_size() > 32 << 20, "it holds nothing of it");
    let user = crate::run::User::new();
    let url = server.url().replace("/test", "/other");
    assert_eq!(user.run(&["call", &url]).code, 0);
    std::fs::write(server.path("table"), "small").unwrap();
    until("it runs when there is room", || state(&server, &large).0 == "done");
}

#[test]
fn an_argument_that_the_system_does_not_take_is_refused_when_it_is_sent() {
    let server = Server::of_script("echo run >> DIR/runs", &["[in val s:string]"]);
    let with = |len: usize| format!("<s>{}</s>", "x".repeat(len));
    for verb in ["call", "spawn"] {
        let refused = ask(&server, Version::V11, verb, &with(128 << 10));
        refused.assert_fault(Version::V11, "InvalidValue");
        assert_eq!(refused.limit(), Some("argument_size"), "{:.1000}", refused.body);
        assert_eq!(refused.text("parameter"), Some("s"));
    }
    assert_eq!(server.runs(), 0);
    assert_eq!(ask(&server, Version::V11, "call", &with((128 << 10) - 1)).status, 200);
    assert_eq!(server.runs(), 1);
}
