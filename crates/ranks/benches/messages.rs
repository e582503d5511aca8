//! PingPong (paper 001, section 4) between two processes over loopback, through shared memory and as SOAP, beside raw TCP in the same run: the sides take turns, and minima and
//! medians of one-way times are told in microseconds.
//!
//! `cargo bench -p fishplate-ranks --bench messages [-- ROUNDS]`

#![expect(clippy::print_stdout, reason = "a bench tells its figures")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fishplate_ranks::launch::descriptors;
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::transport::Transport;
use fishplate_ranks::transport::shared_memory::{Segment, SharedMemory};
use fishplate_ranks::transport::soap::{Endpoint, Soap};
use fishplate_ranks::transport::tcp::Tcp;
use fishplate_ranks::{Communicator, Credential, DomainId, Process, Settings};

const SIZES: [usize; 7] = [1, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 32 << 20];
/// How long a cell takes in a round.
const CELL: Duration = Duration::from_millis(40);

/// One end of a way to send bytes there and back.
trait Side {
    fn send(&mut self, data: &[u8]);
    fn receive(&mut self, data: &mut [u8]);
}

/// A socket that blocks: one `read` and one `write` a message.
struct Raw(TcpStream);

impl Side for Raw {
    fn send(&mut self, data: &[u8]) {
        self.0.write_all(data).expect("the other process lives");
    }

    fn receive(&mut self, data: &mut [u8]) {
        self.0.read_exact(data).expect("the other process lives");
    }
}

struct Ranks(Communicator);

impl Side for Ranks {
    fn send(&mut self, data: &[u8]) {
        self.0.send(data, 1 - self.0.rank(), 0).expect("the other rank lives");
    }

    fn receive(&mut self, data: &mut [u8]) {
        self.0.recv(data, 1 - self.0.rank(), 0).expect("the other rank lives");
    }
}

const NAMES: [&str; 4] = ["raw TCP, blocking", "ranks, TCP", "ranks, shared memory", "ranks, SOAP"];

/// Where ranks over TCP, those that share memory, and those over SOAP listen.
fn listeners() -> [TcpListener; 3] {
    [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"))
}

/// Their addresses, as a line.
fn addresses(listeners: &[TcpListener; 3]) -> String {
    let addresses =
        listeners.each_ref().map(|one| one.local_addr().expect("an address").to_string());
    addresses.join(" ")
}

/// All sides of a process.
fn sides(
    rank: u32,
    listeners: [TcpListener; 3],
    others: &str,
    raw: TcpStream,
    memory: Vec<OwnedFd>,
) -> [Box<dyn Side>; 4] {
    let join = |domain: u8, listener: TcpListener, other: &str, segment: Option<Arc<Segment>>| {
        let settings = Settings::default();
        let own = Address::of_sockets(&[listener.local_addr().expect("an address")]);
        let mut addresses = [own, other.parse().expect("an address")];
        addresses.rotate_right(rank as usize);
        let domain = DomainId::from_bytes([domain; 16]);
        let credential = Credential::from_bytes([6; 32]);
        let place = rank as usize;
        let event = segment.as_ref().map(|one| SharedMemory::event(one, place).expect("an event"));
        let tcp = Tcp::with_event(domain, credential, rank, listener, &addresses, &settings, event)
            .expect("a transport");
        let transport: Box<dyn Transport> = match segment {
            Some(segment) => Box::new(SharedMemory::new(segment, vec![0, 1], place, tcp)),
            None => Box::new(tcp),
        };
        let process = Process::join(domain, rank, 2, transport, settings).expect("a process");
        Box::new(Ranks(process.world()))
    };
    raw.set_nodelay(true).expect("an option");
    let over_soap = |listener: TcpListener, other: &str| {
        let settings = Settings::default();
        let domain = DomainId::from_bytes([3; 16]);
        let endpoint = Endpoint::new(listener, &settings).expect("an endpoint");
        let own = endpoint.url(domain, rank, None).expect("an address");
        let other = format!("http://{other}/domains/{domain}/{}", 1 - rank);
        let mut urls = [own, other].map(|url| url.parse().expect("an address"));
        urls.rotate_right(rank as usize);
        let credential = Credential::from_bytes([6; 32]);
        let soap = Soap::new(domain, credential, rank, endpoint, &urls, &settings);
        let soap = Box::new(soap.expect("a transport"));
        let process = Process::join(domain, rank, 2, soap, settings).expect("a process");
        Box::new(Ranks(process.world()))
    };
    let [tcp, beside_memory, soap] = listeners;
    let mut others = others.split(' ');
    let mut other = || others.next().expect("three addresses");
    let (other_tcp, other_memory, other_soap) = (other(), other(), other());
    let segment = Arc::new(Segment::open(memory, 2).expect("memory"));
    [
        Box::new(Raw(raw)),
        join(1, tcp, other_tcp, None),
        join(2, beside_memory, other_memory, Some(segment)),
        over_soap(soap, other_soap),
    ]
}

/// The other process: sends back what it gets. What comes before each cell says how often.
fn echo(own: &str, path: &str) {
    let mut memory = Vec::new();
    let unix = UnixStream::connect(path).expect("the first process listens");
    descriptors::receive(&unix, &mut [0], &mut memory).expect("memory");
    let address: SocketAddr = own.parse().expect("an address");
    let raw = TcpStream::connect(address).expect("the first process listens");
    let listeners = listeners();
    println!("{}", addresses(&listeners));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the first process's address");
    let mut sides = sides(1, listeners, line.trim(), raw, memory);
    let mut data = vec![1u8; SIZES[SIZES.len() - 1]];
    for line in std::io::stdin().lines() {
        let line = line.expect("an order");
        let mut words = line.split(' ').map(|word| word.parse::<usize>().expect("a number"));
        let (side, size, count) = (words.next(), words.next(), words.next());
        let (Some(side), Some(size), Some(count)) = (side, size, count) else { return };
        for _ in 0..count {
            sides[side].receive(&mut data[..size]);
            sides[side].send(&data[..size]);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let first = arguments.next();
    if first.as_deref() == Some("echo") {
        let mut next = || arguments.next().expect("an address");
        return echo(&next(), &next());
    }
    let rounds: usize = first.map_or(15, |rounds| rounds.parse().expect("a number of rounds"));
    let path = std::env::temp_dir().join(format!("fishplate-messages-{}", std::process::id()));
    let unix = UnixListener::bind(&path).expect("a socket");
    let meeting = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = meeting.local_addr().expect("an address").to_string();
    let mut other = Command::new(std::env::current_exe().expect("this program"))
        .args(["echo", &address, path.to_str().expect("a path in UTF-8")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let memory = Segment::create(2).expect("memory");
    let connection = unix.accept().expect("the second process").0;
    descriptors::send(&connection, &[0], &memory).expect("memory goes over");
    std::fs::remove_file(&path).expect("its socket");
    let raw = meeting.accept().expect("the second process").0;
    let mut orders = other.stdin.take().expect("its input");
    let mut line = String::new();
    BufReader::new(other.stdout.take().expect("its output"))
        .read_line(&mut line)
        .expect("its address");
    let listeners = listeners();
    writeln!(orders, "{}", addresses(&listeners)).expect("its input");
    let mut sides = sides(0, listeners, line.trim(), raw, memory);

    let mut data = vec![1u8; SIZES[SIZES.len() - 1]];
    let mut cell = |side: usize, size: usize, count: usize| {
        writeln!(orders, "{side} {size} {count}").expect("its input");
        let begun = Instant::now();
        for _ in 0..count {
            sides[side].send(&data[..size]);
            sides[side].receive(&mut data[..size]);
        }
        begun.elapsed().as_secs_f64() * 1e6 / (2.0 * count as f64)
    };
    println!(
        "| bytes | {} | TCP / raw | shared memory / raw | SOAP / raw | SOAP / TCP |",
        NAMES.map(|name| format!("{name}: least | median")).join(" | ")
    );
    println!("|{}", "---|".repeat(5 + 2 * NAMES.len()));
    for size in SIZES {
        let mut times = [const { Vec::new() }; NAMES.len()];
        let once = cell(0, size, 3).max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let count = ((CELL.as_secs_f64() * 1e6 / (2.0 * once)) as usize).max(2);
        for _ in 0..rounds {
            for (side, times) in times.iter_mut().enumerate() {
                times.push(cell(side, size, count));
            }
        }
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let both =
            times.each_ref().map(|times| format!("{:.1} | {:.1}", times[0], times[rounds / 2]));
        let ratio = |side: usize, to: usize| times[side][0] / times[to][0];
        println!(
            "| {size} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            both.join(" | "),
            ratio(1, 0),
            ratio(2, 0),
            ratio(3, 0),
            ratio(3, 1)
        );
    }
    drop(orders);
    other.wait().expect("its end");
}
