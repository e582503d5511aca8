//! Clients that are no ranks: what they store and receive, what is refused, and what one address serves.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fishplate_ranks::transport::soap::{Endpoint, NAMESPACE, Soap};
use fishplate_ranks::{ANY_SOURCE, Communicator, Credential, DomainId, Process, Settings};

use crate::domain::{CREDENTIAL, DOMAIN, run_with, soap_domain};

/// Runs ranks until a client has done what it does.
fn served(
    size: u32,
    settings: &Settings,
    serve: fn(&Communicator),
    client: impl FnOnce(&[String]) + Send + 'static,
) {
    let (processes, urls) = soap_domain(size, settings);
    let done = Arc::new(AtomicBool::new(false));
    let told = done.clone();
    let client = std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| client(&urls)));
        told.store(true, Ordering::Release);
        outcome
    });
    run_with(processes, move |world| {
        serve(&world);
        while !done.load(Ordering::Acquire) {
            world.process().progress();
            std::thread::yield_now();
        }
        world.process().leave();
    });
    if let Err(panic) = client.join().unwrap() {
        resume_unwind(panic);
    }
}

/// A call.
struct Call {
    operation: &'static str,
    fields: Vec<(&'static str, String)>,
    credential: Option<String>,
    chunked: bool,
}

struct Answer {
    status: u16,
    body: String,
}

/// An empty message from rank 0, the first of a client.
fn store(to: usize) -> Call {
    call("store")
        .field("fromRank", 0)
        .field("toRank", to)
        .field("tag", 7)
        .field("sequence", 1)
        .field("client", "a test")
        .field("data", "")
}

fn call(operation: &'static str) -> Call {
    let fields = vec![("domain", DOMAIN.to_string())];
    Call { operation, fields, credential: Some(CREDENTIAL.reveal()), chunked: false }
}

impl Call {
    /// With this value, which replaces another one.
    #[expect(clippy::needless_pass_by_value, reason = "numbers and texts as they are")]
    fn field(mut self, name: &'static str, value: impl ToString) -> Self {
        match self.fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value.to_string(),
            None => self.fields.push((name, value.to_string())),
        }
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| *known != name);
        self
    }

    fn body(&self) -> String {
        let fields: String =
            self.fields.iter().map(|(name, value)| format!("<{name}>{value}</{name}>")).collect();
        let operation = self.operation;
        format!(
            "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Body>\
             <{operation} xmlns='{NAMESPACE}'>{fields}</{operation}></s:Body></s:Envelope>"
        )
    }

    fn bytes(&self, url: &str) -> Vec<u8> {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut text =
            format!("POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/xml\r\n");
        if let Some(credential) = &self.credential {
            text += &format!("Authorization: Bearer {credential}\r\n");
        }
        let body = self.body();
        if self.chunked {
            text += "Transfer-Encoding: chunked\r\n\r\n";
            for piece in body.as_bytes().chunks(100) {
                text += &format!("{:x}\r\n{}\r\n", piece.len(), str::from_utf8(piece).unwrap());
            }
            text += "0\r\n\r\n";
        } else {
            text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        }
        text.into_bytes()
    }

    fn post(&self, url: &str) -> Answer {
        exchange(url, &self.bytes(url))
    }

    /// The text of the fault with which it is refused.
    fn refused(&self, url: &str, status: u16) -> String {
        let answer = self.post(url);
        assert_eq!(answer.status, status, "{}", answer.body);
        answer.element("faultstring").unwrap_or_else(|| panic!("no fault: {}", answer.body))
    }
}

impl Answer {
    fn element(&self, name: &str) -> Option<String> {
        let start = ["<", ":"].iter().find_map(|begun| {
            [">", " "].iter().find_map(|end| self.body.find(&format!("{begun}{name}{end}")))
        })?;
        let rest = &self.body[start..];
        let rest = &rest[rest.find('>')? + 1..];
        Some(rest[..rest.find("</")?].to_owned())
    }
}

fn exchange(url: &str, request: &[u8]) -> Answer {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request).unwrap();
    read_answer(&mut BufReader::new(stream))
}

fn read_answer(stream: &mut impl BufRead) -> Answer {
    let (mut status, mut length) = (0, 0);
    for line in stream.lines() {
        let line = line.unwrap();
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().unwrap();
        } else if let Some(told) = line.strip_prefix("Content-Length: ") {
            length = told.parse().unwrap();
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Answer { status, body: String::from_utf8(body).unwrap() }
}

#[test]
fn a_client_stores_and_receives() {
    let serve = |world: &Communicator| {
        if world.rank() == 1 {
            let mut got = [0u8; 9];
            for expected in [&b"one"[..], b"two"] {
                let status = world.recv(&mut got, 0, 7).unwrap();
                assert_eq!(&got[..status.length], expected);
            }
            // For the client: to itself, a short one and one that waits for its receive.
            world.send(b"answer", 1, 8).unwrap();
            world.send(&vec![5u8; 200_000], 0, 9).unwrap();
        }
    };
    served(2, &Settings::default(), serve, |urls| {
        let wsdl = exchange(
            &urls[1],
            format!(
                "GET {}?wsdl HTTP/1.1\r\nHost: h\r\n\r\n",
                &urls[1][urls[1].find("/domains").unwrap()..]
            )
            .as_bytes(),
        );
        assert_eq!(wsdl.status, 200);
        for operation in ["store", "bstore", "receive"] {
            assert!(wsdl.body.contains(&format!("<wsdl:operation name=\"{operation}\">")));
        }
        let mut two = store(1).field("data", "dHdv").field("sequence", 2);
        assert_eq!(store(1).field("data", "b25l").post(&urls[1]).status, 200);
        two.chunked = true;
        assert_eq!(two.post(&urls[1]).status, 200);
        let answer = call("receive").field("source", 1).field("tag", 8).post(&urls[1]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.element("data").as_deref(), Some("YW5zd2Vy"), "{}", answer.body);
        let long = call("receive").post(&urls[0]);
        assert_eq!(long.element("tag").as_deref(), Some("9"));
        assert_eq!(long.element("data").map(|data| data.len()), Some(200_000usize.div_ceil(3) * 4));
        let none = call("receive").field("wait", 0).post(&urls[0]);
        assert_eq!(none.element("received").as_deref(), Some("false"));
    });
}

#[test]
fn what_a_client_may_not_is_refused_and_disturbs_nobody() {
    served(
        2,
        &Settings { receive_wait: Duration::from_secs(1), soap_clients: 1, ..Settings::default() },
        |_| (),
        |urls| {
            let url = &urls[1];
            let without = Call { credential: None, ..store(1) };
            assert!(without.refused(url, 401).contains("credential is missing"));
            let other = Credential::from_bytes([9; 32]).reveal();
            let forged = Call { credential: Some(other), ..store(1) };
            assert!(forged.refused(url, 401).contains("not that of this domain"));
            let domain = DomainId::from_bytes([1; 16]);
            let elsewhere = store(1).field("domain", domain);
            assert!(elsewhere.refused(url, 500).contains("of another domain"));
            assert!(
                store(1)
                    .refused(&url.replace(&DOMAIN.to_string(), &domain.to_string()), 500)
                    .contains("no rank is at")
            );
            assert!(store(0).refused(url, 500).contains("endpoint of rank 1"));
            for (name, value, said) in [
                ("fromRank", "2", "the ranks 0 to 1"),
                ("fromRank", "x", "no such number"),
                ("tag", "-1", "0 and above"),
                ("sequence", "0", "begin with 1"),
                ("sequence", "3", "the next of client a test is 1"),
                ("kind", "clearToSend", "clients store eager messages"),
                ("mode", "synchronous", "not synchronous"),
                ("length", "3", "but 0 bytes came"),
            ] {
                let said_is = store(1).field(name, value).refused(url, 500);
                assert!(said_is.contains(said), "{name} {value}: {said_is}");
            }
            let uncounted = store(1).without("sequence");
            assert!(uncounted.refused(url, 500).contains("needs the parameter sequence"));
            let cast = Call { operation: "bstore", ..uncounted };
            assert!(cast.refused(url, 500).contains("count its calls"));
            assert!(store(1).without("data").refused(url, 500).contains("has data"));
            assert!(call("receive").field("wait", 2).refused(url, 500).contains("receive_wait"));
            assert!(call("receive").field("context", 1).refused(url, 500).contains("collective"));
            // Once is enough, and a second client is one too many.
            assert_eq!(store(1).post(url).status, 200);
            assert!(store(1).refused(url, 500).contains("came before: its next is 2"));
            assert!(
                store(1)
                    .field("client", "another")
                    .refused(url, 500)
                    .contains("are counted already")
            );
            // What a rank says comes once too; the numbers of the pair are its own.
            let ranks = store(1).without("client").field("tag", 6);
            assert_eq!(ranks.post(url).status, 200);
            assert!(ranks.refused(url, 500).contains("message 1 from rank 0 was stored before"));
            assert!(
                ranks.field("sequence", 1u64 << 40).refused(url, 500).contains("left numbers out")
            );
            // Less than it says.
            let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
            let mut stream = TcpStream::connect(host).unwrap();
            let bytes = store(1).field("sequence", 2).bytes(url);
            stream.write_all(&bytes[..bytes.len() - 1]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let cut = read_answer(&mut BufReader::new(stream));
            assert!(cut.body.contains("is cut off"), "{}", cut.body);
            for (request, status) in [("PUT", 405), ("GET", 404)] {
                let path = &url[url.find("/domains").unwrap()..];
                let request = format!("{request} {path} HTTP/1.1\r\nHost: h\r\n\r\n");
                assert_eq!(exchange(url, request.as_bytes()).status, status);
            }
            assert_eq!(exchange(url, b"hello\r\n\r\n").status, 400);
            let long = format!("GET / HTTP/1.1\r\nA: {}\r\n", "x".repeat(20_000));
            assert_eq!(exchange(url, long.as_bytes()).status, 431);
        },
    );
}

#[test]
fn messages_of_clients_have_a_bound() {
    let settings = Settings { unexpected_memory: 30_000, ..Settings::default() };
    let serve = |world: &Communicator| {
        world.recv::<u8>(&mut [], ANY_SOURCE, 8).unwrap();
        for _ in 0..9 {
            world.recv(&mut [0u8; 900], ANY_SOURCE, 7).unwrap();
        }
    };
    served(2, &settings, serve, |urls| {
        // A third of it: 128 bytes are counted for each message besides its own.
        let data = "AAAA".repeat(300);
        let post = |number: u32, tag: u32| {
            store(0).field("data", &data).field("tag", tag).field("sequence", number).post(&urls[0])
        };
        for number in 1..=9 {
            assert_eq!(post(number, 7).status, 200);
        }
        let full = post(10, 7);
        assert_eq!(full.status, 503);
        assert!(full.body.contains("no room is left"), "{}", full.body);
        // What its rank waits for needs no room.
        assert_eq!(store(0).field("tag", 8).field("sequence", 10).post(&urls[0]).status, 200);
        assert_eq!(store(1).field("tag", 8).post(&urls[1]).status, 200);
        for number in 2..=10 {
            let data = store(1).field("data", &data).field("sequence", number);
            while data.post(&urls[1]).status == 503 {}
        }
        let longer = store(1).field("data", "AAAA".repeat(10_000)).field("sequence", 11);
        assert!(longer.refused(&urls[1], 500).contains("unexpected_memory"));
    });
}

/// A broadcast that a client begins, and that ranks send on.
#[test]
fn a_broadcast_goes_down_the_tree() {
    for size in 1..=7 {
        let serve = |world: &Communicator| {
            let root = 2 % world.size();
            if world.rank() == root {
                return;
            }
            let mut got = [0u8; 9];
            for expected in [&b"one"[..], b"two"] {
                let status = world.recv(&mut got, root, 7).unwrap();
                assert_eq!(&got[..status.length], expected);
            }
        };
        served(size, &Settings::default(), serve, move |urls| {
            let root = 2 % urls.len();
            for (number, data) in [(1, "b25l"), (2, "dHdv")] {
                let cast = store(root).field("fromRank", root).field("data", data);
                let cast = Call { operation: "bstore", ..cast.field("sequence", number) };
                let answer = cast.post(&urls[root]);
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
            if urls.len() > 1 {
                let other = (root + 1) % urls.len();
                let cast = store(other).field("fromRank", root);
                let cast = Call { operation: "bstore", ..cast };
                assert!(cast.refused(&urls[other], 500).contains("at the root only"));
            }
        });
    }
}

/// Its answer is lost, or its connection breaks while it waits: it asks again under the same number.
#[test]
fn a_receive_that_comes_again_gives_the_same() {
    let settings = Settings { unexpected_memory: 1_000_000, ..Settings::default() };
    let serve = |world: &Communicator| {
        if world.rank() == 1 {
            world.recv::<u8>(&mut [], 0, 6).unwrap();
            world.send(b"one", 0, 8).unwrap();
            world.send(&vec![5u8; 300_000], 0, 8).unwrap();
            world.send(b"last", 0, 8).unwrap();
        }
    };
    served(2, &settings, serve, |urls| {
        let receive = |number: u64| {
            call("receive").field("tag", 8).field("client", "a").field("sequence", number)
        };
        // One that waits, and whose connection is closed.
        let host = urls[0].strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(&receive(1).bytes(&urls[0])).unwrap();
        drop(stream);
        assert_eq!(store(1).field("tag", 6).post(&urls[1]).status, 200);
        for (number, length) in [(1, 4), (2, 400_000), (3, 8)] {
            let first = receive(number).post(&urls[0]);
            let data = first.element("data").unwrap_or_else(|| panic!("{}", first.body));
            assert_eq!(data.len(), length);
            assert_eq!(receive(number).post(&urls[0]).body, first.body);
            let ahead = receive(number + 2).refused(&urls[0], 500);
            assert!(ahead.contains(&format!("the next of client a is {}", number + 1)), "{ahead}");
        }
        assert!(receive(2).refused(&urls[0], 500).contains("came before: its next is 4"));
        assert!(receive(4).without("sequence").refused(&urls[0], 500).contains("count its calls"));
        let none = || receive(4).field("wait", 0).post(&urls[0]);
        assert_eq!(none().element("received").as_deref(), Some("false"));
        assert_eq!(none().element("received").as_deref(), Some("false"));
        // It counts what it stores by itself.
        let stored = store(1).field("client", "a");
        assert_eq!(stored.post(&urls[1]).status, 200);
    });
}

/// What is kept for clients who received it is no more than others may have waiting.
#[test]
fn what_clients_received_last_has_a_bound() {
    let settings = Settings { unexpected_memory: 300_000, ..Settings::default() };
    let serve = |world: &Communicator| {
        if world.rank() == 1 {
            for _ in 0..3 {
                world.send(&vec![5u8; 140_000], 0, 8).unwrap();
            }
        }
    };
    served(2, &settings, serve, |urls| {
        let receive = |client: &str, number: u64| {
            call("receive").field("tag", 8).field("client", client).field("sequence", number)
        };
        assert_eq!(receive("a", 1).post(&urls[0]).status, 200);
        assert_eq!(receive("b", 1).post(&urls[0]).status, 200);
        // What was received longest ago makes room.
        assert_eq!(receive("c", 1).post(&urls[0]).status, 200);
        assert!(receive("a", 1).refused(&urls[0], 500).contains("is not kept any more"));
        for kept in ["b", "c"] {
            assert_eq!(receive(kept, 1).post(&urls[0]).status, 200);
        }
        // It holds up nothing that comes otherwise, such as a message of another client.
        let large = store(0).field("data", "AAAA".repeat(20_000)).field("tag", 9);
        assert_eq!(large.post(&urls[0]).status, 200);
    });
}

/// Ranks inside the tree die or leave and have sent nothing on: those below them miss nothing, and what is sent later comes too.
#[test]
fn a_broadcast_reaches_those_below_a_rank_that_died() {
    static CAST: AtomicBool = AtomicBool::new(false);
    let settings = Settings { peer_timeout: Duration::from_millis(500), ..Settings::default() };
    let serve = |world: &Communicator| {
        let mut got = [0u8; 9];
        match world.rank() {
            // Of eight: 4 has 5, 6 and 7 below it, 6 has 7.
            rank @ (4 | 6) => {
                while !CAST.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                if rank == 4 {
                    world.process().leave();
                }
            }
            0 => {
                while world.process().failed().is_empty() {
                    world.process().progress();
                }
                for to in [1, 2, 3, 5, 7] {
                    world.send(b"last", to, 7).unwrap();
                }
            }
            _ => {
                for expected in [&b"one"[..], b"two", b"last"] {
                    let status = world.recv(&mut got, 0, 7).unwrap();
                    assert_eq!(&got[..status.length], expected, "at {}", world.rank());
                }
            }
        }
    };
    let (processes, urls) = soap_domain(8, &settings);
    let client = std::thread::spawn(move || {
        for (number, data) in [(1, "b25l"), (2, "dHdv")] {
            let cast = store(0).field("data", data).field("sequence", number);
            let answer = Call { operation: "bstore", ..cast }.post(&urls[0]);
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        CAST.store(true, Ordering::Release);
    });
    run_with(processes, move |world| {
        serve(&world);
        if !matches!(world.rank(), 4 | 6) {
            world.process().leave();
        }
    });
    client.join().unwrap();
}

/// Two domains with the same ranks, each with its credential, behind the same addresses.
#[test]
fn an_address_serves_several_domains_and_never_mixes_them() {
    let settings = Settings::default();
    let domains =
        [1u8, 2].map(|bits| (DomainId::from_bytes([bits; 16]), Credential::from_bytes([bits; 32])));
    let endpoints = [0, 1]
        .map(|_| Endpoint::new(TcpListener::bind("127.0.0.1:0").unwrap(), &settings).unwrap());
    let mut processes = Vec::new();
    let mut urls = Vec::new();
    for (domain, credential) in &domains {
        let of: Vec<_> = (0..)
            .zip(&endpoints)
            .map(|(rank, endpoint)| endpoint.url(*domain, rank, None).unwrap())
            .collect();
        let addresses: Vec<_> = of.iter().map(|url| url.parse().unwrap()).collect();
        for (rank, endpoint) in (0..).zip(&endpoints) {
            let soap = Soap::new(
                *domain,
                credential.clone(),
                rank,
                endpoint.clone(),
                &addresses,
                &settings,
            );
            assert!(
                Soap::new(
                    *domain,
                    credential.clone(),
                    rank,
                    endpoint.clone(),
                    &addresses,
                    &settings
                )
                .is_err()
                    || soap.is_err(),
                "a rank is at an endpoint once"
            );
            let soap = soap.unwrap();
            processes
                .push(Process::join(*domain, rank, 2, Box::new(soap), settings.clone()).unwrap());
        }
        urls.push(of);
    }
    let client = std::thread::spawn(move || {
        // One connection for all of them: each request goes where its path says.
        let host =
            urls[0][1].strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let mut stream = BufReader::new(TcpStream::connect(host).unwrap());
        for number in [1, 2] {
            for ((domain, credential), of) in domains.iter().zip(&urls) {
                let message = store(1)
                    .field("domain", domain)
                    .field("sequence", number)
                    .field("data", if *domain == domains[0].0 { "AQ==" } else { "Ag==" });
                let call = Call { credential: Some(credential.reveal()), ..message };
                stream.get_mut().write_all(&call.bytes(&of[1])).unwrap();
                assert_eq!(read_answer(&mut stream).status, 200);
                let other = Call { credential: Some(credential.reveal()), ..store(1) };
                let not_here = urls.iter().find(|one| *one != of).unwrap();
                assert!(other.refused(&not_here[1], 401).contains("not that of this domain"));
            }
        }
        // The last for each: then its ranks may leave.
        for ((domain, credential), of) in domains.iter().zip(&urls) {
            let data = if *domain == domains[0].0 { "AQ==" } else { "Ag==" };
            let last = store(1).field("domain", domain).field("sequence", 3).field("data", data);
            let last = Call { credential: Some(credential.reveal()), ..last };
            assert_eq!(last.post(&of[1]).status, 200);
        }
    });
    run_with(processes, |world| {
        let bits = world.process().domain().as_bytes()[0];
        let mut got = [0u8; 4];
        for _ in 0..100 {
            let other = 1 - world.rank();
            world.sendrecv(&[bits; 4], other, 1, &mut got, other, 1).unwrap();
            assert_eq!(got, [bits; 4]);
        }
        if world.rank() == 1 {
            for _ in [1, 2, 3] {
                world.recv(&mut got, 0, 7).unwrap();
                assert_eq!(got[0], bits);
            }
        }
        // The client speaks for rank 0: that rank must not leave before.
        world.barrier().run().unwrap();
        world.process().leave();
    });
    client.join().unwrap();
}

/// Who has no credential may ask what is told to all, but not have answers kept that it does not read.
#[test]
fn who_reads_no_answers_is_not_answered_for_ever() {
    let client = |urls: &[String]| {
        let (host, path) = urls[0].strip_prefix("http://").unwrap().split_once('/').unwrap();
        let requests = format!("GET /{path}?wsdl HTTP/1.1\r\nHost: h\r\n\r\n").repeat(100);
        let mut stream = TcpStream::connect(host).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while stream.write_all(requests.as_bytes()).is_ok() {
            assert!(Instant::now() < until, "it is still answered");
        }
    };
    // Else the system ends what is not read for so long.
    let settings = Settings { peer_timeout: Duration::from_secs(600), ..Settings::default() };
    served(1, &settings, |_| {}, client);
}
