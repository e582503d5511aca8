//! Data that moves between servers, and data that must not.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};

use crate::curl::curl;
use crate::run::User;
use crate::server::{FISHPLATE, Server, until};
use crate::skipped::skipped;

/// Larger than what is copied rather than linked.
const LARGE: usize = 3 << 20;

const COPY: &str =
    "cat \"$1\" > \"$2\"; (printf x >> \"$1\") 2> /dev/null && echo wrote; wc -c < \"$1\"";

fn bytes(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

fn copying(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    start_copying(&mut server, words);
    server
}

fn start_copying(server: &mut Server, words: &[&str]) {
    server.script("program", COPY);
    let slots = ["[in file deck:raw]", "[out file copy:raw]", ">", "[out file said:string]"];
    server.serve(&[words, &["-n", "test", "--", "./program"], &slots].concat());
}

fn data(server: &Server) -> String {
    format!("http://{}/data/", server.address())
}

fn put(server: &Server, user: &User, bytes: &[u8]) -> String {
    user.write("deck", bytes);
    let got = curl(&["-T", user.path("deck").to_str().unwrap(), &data(server)]);
    assert_eq!(got.status, 201, "{got:?}");
    got.text().to_owned()
}

/// How the input of a job that was given this reference came into its workspace.
fn placed(user: &User, server: &Server, reference: &str) -> Value {
    let job = user.succeed(&["spawn", server.url(), &format!("deck@{reference}")]);
    let job = job.trim();
    assert_eq!(user.succeed(&["wait", server.url(), job]), "done\n");
    let said = user.succeed(&["results", server.url(), job, "out:copy"]);
    let transfer = user.json(&["status", server.url(), job])["transfers"][0].clone();
    // What it shares it may not write to; what it does not share is its own.
    assert_eq!(said.contains("wrote"), transfer["placed"] != "link", "{said} {transfer}");
    transfer
}

/// The fault of a call, as JSON.
fn fault(user: &User, words: &[&str]) -> Value {
    let said = user.run(&[words, &["--json"]].concat());
    assert_ne!(said.code, 0, "{said:?}");
    serde_json::from_str::<Value>(&said.stderr).unwrap()["error"].clone()
}

#[test]
fn data_of_the_same_server_is_the_file_itself_and_stays_as_it_is() {
    let (server, user) = (copying(&[]), User::new());
    let all = bytes(LARGE);
    let url = put(&server, &user, &all);
    let transfer = placed(&user, &server, &url);
    // Its own address is private, and need not be asked.
    let how = transfer["placed"].as_str().unwrap();
    assert!(["link", "reflink"].contains(&how), "{transfer}");
    assert_eq!(transfer["state"], "done");
    assert!(curl(&[&url]).body == all, "a program wrote to data of the pool");
    // What is small is not worth the guard.
    let small = put(&server, &user, &bytes(1000));
    assert_eq!(placed(&user, &server, &small)["placed"], "copy");
}

#[test]
fn servers_that_share_a_pool_pass_data_without_a_connection() {
    let user = User::new();
    let first = copying(&[]);
    let pool = first.data().join("pool");
    let second = copying(&["--pool", pool.to_str().unwrap()]);
    let all = bytes(LARGE);
    let url = put(&first, &user, &all);
    let transfer = placed(&user, &second, &url);
    let how = transfer["placed"].as_str().unwrap();
    assert!(["link", "reflink"].contains(&how), "{transfer}");
    // An output of the second is had from the first's pool, too.
    let said = user.succeed(&["call", second.url(), &format!("deck@{url}"), "ref:copy"]);
    let copy = said.lines().find_map(|line| line.strip_prefix("copy: ")).unwrap();
    assert!(copy.starts_with(&data(&second)), "{said}");
    assert!(curl(&[copy]).body == all);
    placed(&user, &first, copy);
    // A third one that shares nothing may not even ask.
    let third = copying(&[]);
    let refused = fault(&user, &["call", third.url(), &format!("deck@{url}")]);
    assert_eq!(refused["code"], "AddressForbidden", "{refused}");
}

#[test]
fn what_has_expired_or_was_revoked_is_a_fault_that_names_the_parameter() {
    let user = User::new();
    let server = copying(&["--limit", "grant_life=2s"]);
    let url = put(&server, &user, &bytes(1000));
    let deck = format!("deck@{url}");
    user.succeed(&["call", server.url(), &deck, "out:copy"]);
    until("it has expired", || curl(&[&url]).status == 404);
    let revoked = put(&server, &user, &bytes(1001));
    assert_eq!(curl(&["--request", "DELETE", &revoked]).status, 204);
    for gone in [deck, format!("deck@{revoked}")] {
        let refused = fault(&user, &["call", server.url(), &gone]);
        assert_eq!(
            (&refused["code"], &refused["parameter"]),
            (&json!("NoSuchData"), &json!("deck"))
        );
    }
}

/// Answers each request with these bytes; tells how many came.
fn answering(answer: String) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            counter.fetch_add(1, SeqCst);
            read_head(&mut client);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    (address, asked)
}

/// A request's head.
fn read_head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn private_addresses_are_not_asked_however_they_are_written() {
    let (server, user) = (copying(&[]), User::new());
    let (address, asked) = answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_owned());
    let port = address.port();
    for (host, rule) in [
        ("127.0.0.1", "allow_private"),
        ("localhost", "allow_private"),
        ("[::1]", "allow_private"),
        ("[::ffff:127.0.0.1]", "allow_private"),
        ("0x7f000001", "allow_private"),
        ("10.1.2.3", "allow_private"),
        ("169.254.169.254", "allow_network"),
        ("0.0.0.0", "allow_network"),
    ] {
        let deck = format!("deck@http://{host}:{port}/x");
        let refused = fault(&user, &["call", server.url(), &deck]);
        assert_eq!(refused["code"], "AddressForbidden", "{host}: {refused}");
        assert_eq!(refused["limit"]["name"], rule, "{host}: {refused}");
        assert_eq!(refused["parameter"], "deck");
    }
    {
        let refused = fault(&user, &["call", server.url(), "deck@file:///etc/passwd"]);
        let rule = "schemes";
        assert_eq!(
            (&refused["code"], &refused["limit"]["name"]),
            (&json!("AddressForbidden"), &json!(rule))
        );
    }
    assert_eq!(asked.load(SeqCst), 0, "an address that is forbidden was asked");
}

#[test]
fn a_redirect_leads_nowhere_that_could_not_be_asked_itself() {
    let user = User::new();
    // Only this one address is allowed.
    let server = copying(&["--allow-network", "lab=127.0.0.1/32"]);
    let (fine, _) = answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_owned());
    let to = |location: &str| {
        answering(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ))
        .0
    };
    let deck = format!("deck@http://{}/", to(&format!("http://{fine}/x")));
    user.succeed(&["call", server.url(), &deck, "out:copy"]);
    for (location, rule) in [
        ("http://127.0.0.2/x", "allow_private"),
        ("http://169.254.169.254/latest/meta-data/", "allow_network"),
        ("file:///etc/passwd", "redirect_scheme"),
        ("ftp://127.0.0.1/x", "redirect_scheme"),
    ] {
        let deck = format!("deck@http://{}/", to(location));
        let refused = fault(&user, &["call", server.url(), &deck]);
        assert_eq!(
            (&refused["code"], &refused["limit"]["name"]),
            (&json!("AddressForbidden"), &json!(rule)),
            "{location}: {refused}"
        );
    }
}

#[test]
fn files_are_read_below_named_roots_only() {
    let user = User::new();
    let mut server = Server::prepare();
    fs::create_dir(server.path("open")).unwrap();
    fs::write(server.path("open/deck"), bytes(1000)).unwrap();
    fs::write(server.path("closed"), "secret").unwrap();
    std::os::unix::fs::symlink("../closed", server.path("open/way-out")).unwrap();
    start_copying(&mut server, &["--file-root", "open"]);
    let at = |name: &str| format!("deck@file://{}", server.path(name).display());
    user.succeed(&["call", server.url(), &at("open/deck"), "out:copy"]);
    assert_eq!(user.read("copy"), bytes(1000));
    for outside in ["closed", "open/../closed", "open/way-out"] {
        let refused = fault(&user, &["call", server.url(), &at(outside)]);
        assert_eq!(refused["code"], "AddressForbidden", "{outside}: {refused}");
        assert_eq!(refused["limit"]["name"], "file_roots", "{outside}: {refused}");
    }
}

/// An origin of one file that sends it slowly, from where it is asked to.
struct Slow {
    address: SocketAddr,
    /// The last byte that somebody wanted first.
    asked_from: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
}

impl Slow {
    fn new(all: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = Self {
            address: listener.local_addr().unwrap(),
            asked_from: Arc::default(),
            hurry: Arc::default(),
        };
        let asked_from = Arc::clone(&slow.asked_from);
        let (hurry, all) = (Arc::clone(&slow.hurry), Arc::new(all));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let asked_from = Arc::clone(&asked_from);
                let (hurry, all) = (Arc::clone(&hurry), Arc::clone(&all));
                std::thread::spawn(move || Self::serve(client, &asked_from, &hurry, &all));
            }
        });
        slow
    }

    fn serve(mut client: TcpStream, asked_from: &AtomicU64, hurry: &AtomicBool, all: &[u8]) {
        let head = read_head(&mut client).to_ascii_lowercase();
        let from = head.split("range: bytes=").nth(1).and_then(|range| range.split('-').next());
        let from: usize = from.and_then(|from| from.parse().ok()).unwrap_or(0);
        asked_from.fetch_max(from as u64, SeqCst);
        let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nETag: \"one\"\r\nAccept-Ranges: bytes\r\n\
             Content-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n\r\n",
            all.len() - 1,
            all.len(),
            all.len() - from
        );
        let _ = client.write_all(answer.as_bytes());
        for piece in all[from..].chunks(64 << 10) {
            if client.write_all(piece).is_err() {
                return;
            }
            if !hurry.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_fetch_goes_on_after_kill_9_from_what_was_there() {
    const SIZE: usize = 16 << 20;
    let user = User::new();
    let mut server = copying(&["--allow-private"]);
    let slow = Slow::new(bytes(SIZE));
    let deck = format!("deck@http://{}/deck", slow.address);
    let job = user.succeed(&["spawn", server.url(), &deck]);
    let job = job.trim().to_owned();
    let status = |server: &Server| user.json(&["status", server.url(), &job]);
    until("some of it is there, and the status tells", || {
        let status = status(&server);
        status["state"] == "fetching"
            && status["transfers"][0]["bytes"].as_u64().is_some_and(|bytes| bytes > 2 << 20)
    });
    server.kill();
    slow.hurry.store(true, SeqCst);
    server.restart();
    assert_eq!(user.succeed(&["wait", server.url(), &job]), "done\n");
    let from = slow.asked_from.load(SeqCst);
    assert!(from > 1 << 20, "after the kill it was fetched from byte {from}");
    user.succeed(&["results", server.url(), &job, "out:copy"]);
    assert!(user.read("copy") == bytes(SIZE));
    assert_eq!(status(&server)["transfers"][0]["bytes"], SIZE);
}

#[test]
fn a_fetch_that_is_killed_leaves_nothing_unless_another_job_fetches_the_same() {
    let user = User::new();
    let server = copying(&["--allow-private"]);
    let slow = Slow::new(bytes(32 << 20));
    let deck = format!("deck@http://{}/deck", slow.address);
    let spawn = || user.succeed(&["spawn", server.url(), &deck]).trim().to_owned();
    let incoming = server.data().join("pool/incoming");
    let parts = || fs::read_dir(&incoming).unwrap().count();
    let come = |job: &str| {
        let status = user.json(&["status", server.url(), job]);
        status["transfers"][0]["bytes"].as_u64().unwrap_or(0)
    };
    let (one, other) = (spawn(), spawn());
    until("some of it is there for both", || come(&one) > 1 << 20 && come(&other) > 1 << 20);
    user.succeed(&["kill", server.url(), &one]);
    until("the other goes on with it", || slow.asked_from.load(SeqCst) > 1 << 20);
    assert_eq!(parts(), 1);
    user.succeed(&["kill", server.url(), &other]);
    until("nothing is left", || parts() == 0);
}

#[test]
fn functions_take_and_give_references() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "matrix", "--allow-private"]);
    let user = User::new();
    let url = put(&server, &user, &bytes(LARGE));
    let by_value = user.succeed(&["call", server.url(), "--operation", "checksum", "data:deck"]);
    assert_eq!(
        user.succeed(&["call", server.url(), "--operation", "checksum", &format!("data@{url}")]),
        by_value
    );
    let said =
        user.succeed(&["call", server.url(), "--operation", "getMatrix", "n=300", "ref:matrix"]);
    let matrix = said.trim().strip_prefix("matrix: ").unwrap();
    assert!(matrix.ends_with("/matrix.npy"), "{said}");
    let npy = curl(&[matrix]);
    assert!(npy.body.starts_with(b"\x93NUMPY") && npy.body.len() > 300 * 300 * 4);
    // There and back, the numbers are the same.
    let matrix = format!("matrix@{matrix}");
    let said = user.succeed(&["call", server.url(), "--operation", "echo", &matrix, "ref:matrix"]);
    let echoed = curl(&[said.trim().strip_prefix("matrix: ").unwrap()]);
    assert!(echoed.body == npy.body);
    let small =
        user.succeed(&["call", server.url(), "--operation", "getMatrix", "n=2", "ref:matrix"]);
    let small = format!("matrix@{}", small.trim().strip_prefix("matrix: ").unwrap());
    let (told, echoed) = (
        user.succeed(&["call", server.url(), "--operation", "getMatrix", "n=2"]),
        user.succeed(&["call", server.url(), "--operation", "echo", &small]),
    );
    assert_eq!(told, echoed);
    let file = format!("matrix@{url}");
    let refused = fault(&user, &["call", server.url(), "--operation", "echo", &file]);
    assert_eq!(
        (&refused["code"], &refused["parameter"]),
        (&json!("InvalidValue"), &json!("matrix"))
    );
}

/// A network of its own for a client, in which this machine has one address.
struct Elsewhere {
    name: String,
    ours: String,
}

impl Elsewhere {
    fn new() -> Option<Self> {
        let number = std::process::id() % 200;
        let (name, ours) = (format!("fishplate{number}"), format!("10.198.{number}.1"));
        let (outer, inner) = (format!("fp{number}a"), format!("fp{number}b"));
        let theirs = format!("10.198.{number}.2/24");
        let elsewhere = Self { name: name.clone(), ours: ours.clone() };
        let ours = format!("{ours}/24");
        let steps: [&[&str]; 6] = [
            &["netns", "add", &name],
            &["link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", &name],
            &["address", "add", &ours, "dev", &outer],
            &["link", "set", &outer, "up"],
            &["-n", &name, "address", "add", &theirs, "dev", &inner],
            &["-n", &name, "link", "set", &inner, "up"],
        ];
        for step in steps {
            let done = Command::new("ip").args(step).output();
            if !done.is_ok_and(|done| done.status.success()) {
                skipped("networks", &format!("only root makes networks (ip {})", step.join(" ")));
                return None;
            }
        }
        Some(elsewhere)
    }

    /// Runs `fishplate` there.
    fn run(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, FISHPLATE]).args(words).output().unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

#[test]
fn a_client_that_cannot_reach_where_data_is_has_it_moved_all_the_same() {
    let Some(elsewhere) = Elsewhere::new() else { return };
    let user = User::new();
    // The first server is on this machine's loopback, which the client's machine has not.
    let first = copying(&[]);
    let url = put(&first, &user, &bytes(LARGE));
    // The second has an address that the client's machine reaches.
    let listener = TcpListener::bind((elsewhere.ours.as_str(), 0)).unwrap();
    let public = format!("http://{}", listener.local_addr().unwrap());
    let mut second = Server::prepare();
    second.script("program", COPY);
    let slots = ["[in file deck:raw]", "[out file copy:raw]", ">", "[out file said:string]"];
    let line = ["--allow-private", "-n", "test", "--", "./program"];
    second.serve_behind(&public, &[&line[..], &slots].concat());
    let address = second.address();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(address) else { continue };
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    let refused = elsewhere.run(&["get", &url]);
    assert!(!refused.status.success(), "the client's machine reaches the first server");
    let service = format!("{public}/test");
    let said = elsewhere.run(&["call", &service, &format!("deck@{url}"), "ref:copy"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.contains(&format!("said: {LARGE}")), "{text}");
}
