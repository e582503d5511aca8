//! A server at work: it reloads without losing a call, and stops when what it answers is answered.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::server::{Server, until};
use crate::soap::{Version, ask, connect, get, text_of, try_post, wrapper};

const VERSION: Version = Version::V11;

pub(crate) fn send(server: &Server, signal: Signal) {
    kill(Pid::from_raw(server.pid().try_into().unwrap()), signal).unwrap();
}

/// A service file whose program tells a number.
fn telling(number: usize) -> String {
    format!("namespace = 'urn:fishplate:test'\ncommand = 'echo {number} > [out file n:int]'\n")
}

/// A server of the services in its directory `services`.
fn of_directory(service: &str) -> Server {
    let mut server = Server::prepare();
    fs::create_dir(server.path("services")).unwrap();
    fs::write(server.path("services/test.toml"), service).unwrap();
    fs::write(server.path("fishplate.toml"), "services = ['services']\n").unwrap();
    server.serve(&["--config", "fishplate.toml"]);
    server
}

fn reloads(server: &Server) -> usize {
    server.log().matches("services were read again").count()
}

#[test]
fn no_call_is_lost_across_reloads() {
    const RELOADS: usize = 20;
    let server = of_directory(&telling(0));
    let (address, done, calls) = (server.address(), AtomicBool::new(false), AtomicUsize::new(0));
    let message = VERSION.envelope("", &wrapper("call", ""));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let answer = try_post(address, &message).expect("an answer to each call");
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    let number = text_of(&answer.body, "n").unwrap().parse::<usize>().unwrap();
                    // What was answered by a newer host is never answered by an older one.
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..=RELOADS {
            let before = calls.load(Ordering::Relaxed);
            until("calls are made", || calls.load(Ordering::Relaxed) > before + 4);
            fs::write(server.path("new"), telling(number)).unwrap();
            fs::rename(server.path("new"), server.path("services/test.toml")).unwrap();
            send(&server, Signal::SIGHUP);
            until("it was read again", || reloads(&server) == number);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(ask(&server, VERSION, "call", "").text("n"), Some("20"));
}

#[test]
fn a_bad_file_leaves_all_as_it_was_and_is_told() {
    let server = of_directory(&telling(1));
    let told = |what: &str| {
        send(&server, Signal::SIGHUP);
        until(what, || server.log().contains(what));
    };
    fs::write(server.path("services/test.toml"), "comand = 'true'\n").unwrap();
    told("services/test.toml:1:1: error: ");
    until("it is told", || server.log().contains("from before stay in use"));
    assert_eq!(ask(&server, VERSION, "call", "").text("n"), Some("1"));
    fs::write(server.path("services/test.toml"), telling(2)).unwrap();
    fs::write(server.path("fishplate.toml"), "services = ['services']\nlogin = 1\n").unwrap();
    told("fishplate.toml:2:9: error: ");
    assert_eq!(ask(&server, VERSION, "call", "").text("n"), Some("1"));
    // What can't change meanwhile is told, and the rest is changed.
    fs::write(
        server.path("fishplate.toml"),
        "services = ['services']\nlogin = true\n[limits]\nmax_running = 1\n",
    )
    .unwrap();
    told("max_running has changed; it is in force after a restart");
    assert_eq!(ask(&server, VERSION, "call", "").status, 401);
}

#[test]
fn calls_that_are_being_answered_are_finished_and_no_others_begun() {
    let mut server = Server::of_script(
        "while [ ! -e DIR/go ]; do sleep 0.01; done; echo 1",
        &[">", "[out file n:int]"],
    );
    assert_eq!((get(&server, "/healthz").status, get(&server, "/readyz").status), (200, 200));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let message = VERSION.envelope("", "<call xmlns=\"urn:fishplate:test\"/>");
            try_post(server.address(), &message).expect("an answer")
        });
        until("it runs", || ask(&server, VERSION, "jobs", "").body.contains("running"));
        // A connection that was open before is told too.
        let mut idle = connect(&server);
        send(&server, Signal::SIGTERM);
        until("it is not ready", || get(&server, "/readyz").status == 503);
        assert_eq!(get(&server, "/healthz").status, 200);
        let refused = ask(&server, VERSION, "call", "");
        refused.assert_fault(VERSION, "Unavailable");
        assert!(refused.head.to_ascii_lowercase().contains("retry-after: 5"), "{}", refused.head);
        std::io::Write::write_all(&mut idle, b"GET /test?wsdl HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let told = crate::soap::answer(&mut idle);
        assert!(
            told.status == 503 && told.head.to_ascii_lowercase().contains("connection: close"),
            "{}",
            told.head
        );
        fs::write(server.path("go"), "").unwrap();
        let answer = waiting.join().unwrap();
        assert!(answer.status == 200 && answer.text("n") == Some("1"), "{}", answer.body);
    });
    assert!(server.ended().success());
    assert!(server.log().contains("stopped; running jobs go on"), "{}", server.log());
}

#[test]
fn a_server_that_is_told_to_stop_ends_in_time() {
    for (words, signals, told) in [
        (&["--limit", "stop_time=300ms"][..], 1, "limit stop_time"),
        (&["--limit", "stop_time=1h"], 2, "stopped at once"),
    ] {
        let mut server = Server::prepare();
        server.script("program", "exec sleep 1000");
        server.serve(&[words, &["-n", "test", "--", "./program"]].concat());
        let address = server.address();
        let message = VERSION.envelope("", &wrapper("call", ""));
        let waiting = std::thread::spawn(move || try_post(address, &message));
        until("it runs", || ask(&server, VERSION, "jobs", "").body.contains("running"));
        let begun = Instant::now();
        send(&server, Signal::SIGTERM);
        if signals == 2 {
            until("it stops", || server.log().contains("stopping"));
            send(&server, Signal::SIGTERM);
        }
        assert!(server.ended().success());
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(server.log().contains(told), "{}", server.log());
        assert!(waiting.join().unwrap().is_none(), "there was nothing to answer");
    }
}

#[test]
fn the_service_manager_is_told() {
    let server = Server::prepare();
    let socket = UnixDatagram::bind(server.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let path = server.path("notify").to_str().unwrap().to_owned();
    let mut server =
        server.in_environment(&[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "100000")]);
    server.serve(&["--builtin", "matrix"]);
    let next = |wanted: &str| {
        let mut bytes = [0; 1024];
        loop {
            let length = socket.recv(&mut bytes).unwrap_or_else(|_| panic!("no {wanted}"));
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.lines().any(|line| line == wanted) {
                return text;
            }
            assert!(text.starts_with("WATCHDOG=1"), "{text} before {wanted}");
        }
    };
    next("READY=1");
    next("WATCHDOG=1");
    send(&server, Signal::SIGHUP);
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    next("WATCHDOG=1");
    send(&server, Signal::SIGTERM);
    next("STOPPING=1");
    assert!(server.ended().success());
}
