//! Readers of answers that stop reading, and callers who come in crowds: others are served meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::curl::curl;
use crate::processes;
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Version, answer, ask, connect, get, head, wrapper};

/// More than the threads that the runtime has for what waits.
const READERS: usize = 600;

/// What an answer holds; no buffer of the system does.
const SIZE: usize = 20_000_000;

/// What the server may take at most: each reader accounts for a quarter of a MiB, and the threads that
/// read the disk for all of them at once for some. One that reads ahead for each takes over a GiB.
const PEAK: u64 = 300 << 20;

/// Threads that the server may have: those that work, and some that wait for what blocks.
const THREADS: usize = 100;

fn server(words: &[&str]) -> Server {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096).max(soft), hard).unwrap();
    let mut server = Server::prepare();
    server.script("program", "head -c $1 /dev/zero");
    let service = ["-n", "test", "--", "./program", "[in val n:int]", ">", "[out file y:raw]"];
    server.serve(&[words, &service].concat());
    server
}

fn sent(server: &Server, message: &str) -> TcpStream {
    let mut stream = connect(server);
    let length = format!("Content-Length: {}\r\n", message.len());
    stream.write_all(head("text/xml", &length).as_bytes()).unwrap();
    stream.write_all(message.as_bytes()).unwrap();
    stream
}

fn connections(server: &Server) -> usize {
    let metrics = get(server, "/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("fishplate_connections "));
    line.unwrap().parse().unwrap()
}

#[test]
fn readers_who_take_nothing_are_in_nobodys_way() {
    // None is given up while the others are served.
    let server = server(&["--limit", "answer_stall=1h"]);
    let user = User::new();
    let job = user.succeed(&["spawn", server.url(), &format!("n={SIZE}")]);
    user.succeed(&["wait", server.url(), job.trim()]);
    let results = wrapper("results", &format!("<job>{}</job>", job.trim()));
    let results = Version::V11.envelope("", &results);
    let mut readers: Vec<TcpStream> = (0..READERS).map(|_| sent(&server, &results)).collect();
    for reader in &readers {
        // Its answer has begun.
        assert_eq!(reader.peek(&mut [0]).unwrap(), 1);
    }
    let called = ask(&server, Version::V11, "call", "<n>5</n>");
    assert_eq!((called.status, called.text("y")), (200, Some("AAAAAAA=")), "{called:#?}");
    assert!(connections(&server) >= READERS, "some readers were given up");
    // Those who had the disk read have what they asked for.
    let threads = || fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count();
    until("no reader holds a thread", || threads() <= THREADS);
    let peak = processes::peak_memory(server.pid());
    println!("{} threads; peak of the server: {} MiB", threads(), peak >> 20);
    assert!(peak < PEAK, "the server took {} MiB", peak >> 20);
    // Whoever reads on gets all of it.
    let mut all = Vec::new();
    readers.pop().unwrap().read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"HTTP/1.1 200 ") && all.ends_with(b"Envelope>"));
    assert!(all.len() > SIZE / 3 * 4, "{} bytes", all.len());
}

#[test]
fn idle_connections_make_room_for_newcomers() {
    // The least that a server can have.
    let server = server(&["--limit", "max_connections=16", "--limit", "header_timeout=1h"]);
    let idle: Vec<TcpStream> = (0..64)
        .map(|n| {
            let mut stream = connect(&server);
            if n % 2 == 0 {
                stream.write_all(b"POST /test HTTP/1.1\r\nHos").unwrap();
            }
            stream
        })
        .collect();
    let called = ask(&server, Version::V11, "call", "<n>5</n>");
    assert_eq!(called.status, 200, "{called:#?}");
    // The first ones went, the last ones are there.
    let has_gone = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        !stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    until("the first ones have gone", || idle[..40].iter().all(has_gone));
    assert!(!idle[60..].iter().any(has_gone));
}

#[test]
fn one_address_has_a_bounded_number_of_connections() {
    let mut server = Server::prepare();
    server.script("program", "until [ -e DIR/go ]; do sleep 0.05; done");
    server.serve(&["--limit", "connections_per_peer=3", "-n", "test", "--", "./program"]);
    let call = Version::V11.envelope("", &wrapper("call", ""));
    let mut calls: Vec<TcpStream> = (0..3).map(|_| sent(&server, &call)).collect();
    until("all run", || processes::of_jobs(&server.data()).len() >= 3);
    let refused = answer(&mut sent(&server, &call));
    assert_eq!(refused.status, 503, "{refused:#?}");
    assert!(refused.body.contains("3 connections"), "{refused:#?}");
    assert!(refused.body.contains("connections_per_peer"), "{refused:#?}");
    // Another address of this machine is another peer.
    let page = format!("http://{}/", server.address());
    assert_eq!(curl(&["--interface", "127.0.0.2", &page]).status, 200);
    fs::write(server.path("go"), "").unwrap();
    for call in &mut calls {
        assert_eq!(answer(call).status, 200);
    }
    assert_eq!(get(&server, "/").status, 200);
}
