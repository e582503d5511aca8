//! Files that exist nowhere, through server and client: in bounded memory, at the reader's pace, and never
//! taken for whole when they are not.

use std::io::{Read, Write};
use std::process::{Child, ChildStdout};

use crate::processes::peak_memory;
use crate::run::{User, ended};
use crate::server::{Server, until};
use crate::survival::{Random, seed};

/// More than is ever held, many times.
const SIZE: u64 = 512 << 20;

/// So much longer that nobody waits for its end.
const ENDLESS: &str = "1099511627776";

/// What a server or a client may take at most, whatever the length of a stream.
const PEAK: u64 = 64 << 20;

/// All in which a file is no list of elements.
fn packagings() -> impl Iterator<Item = &'static str> {
    crate::run::packagings().filter(|name| *name != "xml")
}

fn serve() -> (Server, User) {
    let mut server = Server::prepare();
    server.serve_many(2, &["--builtin", "stream", "--builtin", "matrix"]);
    (server, User::new())
}

/// Checks the numbers of a stream from this one on.
fn check(bytes: &[u8], from: &mut u64) {
    for number in bytes.chunks_exact(8) {
        assert_eq!(number, from.to_le_bytes());
        *from += 1;
    }
}

fn stdout(child: &mut Child) -> ChildStdout {
    child.stdout.take().unwrap()
}

#[test]
fn a_file_of_any_length_goes_out_and_in_again_in_bounded_memory() {
    let (server, user) = serve();
    let (stream, matrix) = (server.url_of("stream"), server.url_of("matrix"));
    let n = format!("n={SIZE}");
    let mut digests = Vec::new();
    for packaging in packagings() {
        let mut giving = user.start(&["call", stream, &n, "out:data=-", "--packaging", packaging]);
        let taking =
            ["call", matrix, "--operation", "checksum", "data:-", "--packaging", packaging];
        let (mut taking, mut to) = user.start_with_input(&taking);
        let mut from = stdout(&mut giving);
        let (mut chunk, mut number) = (vec![0; 1 << 20], 0);
        let mut peak = 0;
        for at in 0..SIZE >> 20 {
            from.read_exact(&mut chunk).unwrap();
            check(&chunk, &mut number);
            to.write_all(&chunk).unwrap();
            // Both are still at it.
            if at % 16 == 0 {
                peak = peak.max(peak_memory(giving.id())).max(peak_memory(taking.id()));
            }
        }
        assert_eq!(from.read(&mut chunk).unwrap(), 0);
        drop(to);
        let mut said = String::new();
        stdout(&mut taking).read_to_string(&mut said).unwrap();
        assert!(said.contains(&format!("length: {SIZE}")), "{packaging}: {said}");
        assert_eq!((ended(giving).code, ended(taking).code), (0, 0), "{packaging}");
        assert!(peak < PEAK, "{packaging}: a client took {} MiB", peak >> 20);
        digests.push(said);
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    let peak = peak_memory(server.pid());
    assert!(peak < PEAK, "the server took {} MiB", peak >> 20);
}

/// Processor time of the thread that makes the stream, and whether it waits.
fn producer(pid: u32) -> Option<(u64, bool)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let used = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        name.ends_with("(stream").then(|| (used, fields[0] == "S"))
    })
}

#[test]
fn the_first_bytes_come_before_the_last_are_made_and_a_slow_reader_holds_the_function_back() {
    let (server, user) = serve();
    for packaging in packagings() {
        let words =
            ["call", server.url_of("stream"), &format!("n={ENDLESS}"), "out:data=-", "--packaging"];
        let mut call = user.start(&[&words[..], &[packaging]].concat());
        let mut from = stdout(&mut call);
        let mut first = [1; 16];
        from.read_exact(&mut first).unwrap();
        check(&first, &mut 0);
        let mut before = None;
        until("the function waits", || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let now = producer(server.pid()).filter(|(_, waits)| *waits);
            std::mem::replace(&mut before, now).is_some_and(|before| Some(before) == now)
        });
        // Whoever reads no more ends it all.
        drop(from);
        assert_eq!(ended(call).code, 141, "{packaging}");
        until("the function has ended", || producer(server.pid()).is_none());
    }
    let peak = peak_memory(server.pid());
    assert!(peak < PEAK, "the server took {} MiB", peak >> 20);
}

#[test]
fn a_server_that_is_killed_midway_is_an_error_and_leaves_no_file_that_looks_whole() {
    let (mut server, user) = serve();
    let mut random = Random(seed());
    for packaging in packagings() {
        let at = 1 + usize::try_from(random.below(16 << 20)).unwrap();
        let url = server.url_of("stream").to_owned();
        let n = format!("n={ENDLESS}");
        let call = |out: &'static str| {
            user.start(&["call", &url, &n, out, "--packaging", packaging, "--no-key"])
        };
        let (file, mut pipe) = (call("out:data=file"), call("out:data=-"));
        let mut from = stdout(&mut pipe);
        let mut read = vec![0; at];
        from.read_exact(&mut read).unwrap();
        let part = || {
            let names = user.names();
            let part = names.iter().find(|name| name.ends_with(".part"))?;
            std::fs::metadata(user.path(part)).ok().map(|part| part.len())
        };
        until("some of the file is here", || part().is_some_and(|len| len > at as u64));
        server.kill();
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).unwrap();
        for (call, output) in [(file, "file"), (pipe, "pipe")] {
            let said = ended(call);
            assert_eq!(said.code, 6, "{packaging} {output}: {}", said.stderr);
        }
        let whole = read.len() + rest.len();
        check(&[read, rest].concat()[..whole / 8 * 8], &mut 0);
        assert_eq!(user.names(), Vec::<String>::new(), "{packaging}");
        server.restart();
    }
}

#[test]
fn a_stream_is_a_file_of_a_job_and_a_reference_as_any_output() {
    let (server, user) = serve();
    let url = server.url_of("stream");
    let job = user.succeed(&["spawn", url, "n=300001"]);
    user.succeed(&["wait", url, job.trim()]);
    user.succeed(&["results", url, job.trim(), "out:data=job"]);
    let referred = user.json(&["call", url, "n=300001", "ref:data"]);
    let reference = referred["outputs"]["data"]["url"].as_str().unwrap();
    user.succeed(&["get", reference, "--output", "reference"]);
    user.succeed(&["call", url, "n=300001", "out:data=call"]);
    for name in ["job", "reference", "call"] {
        let bytes = user.read(name);
        assert_eq!(bytes.len(), 300_001, "{name}");
        check(&bytes, &mut 0);
    }
}
