//! Ranks of several servers that reach each other through the servers' ports.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use fishplate_client::domain::{DomainServer, Member};
use fishplate_client::{Service, Settings};
use fishplate_contract::Argument;
use fishplate_ranks::Communicator;
use nix::sys::signal::Signal;
use rcgen::CertificateParams;

use crate::curl::curl;
use crate::domains::{server, states};
use crate::processes::{is_alive, peak_memory};
use crate::run::{User, ended};
use crate::running::send;
use crate::server::{Server, until};
use crate::soap::{Answer, try_answer};
use crate::tls::Authority;

/// The variable that names the file whose existence ends a program.
pub(crate) const STOP: &str = "FISHPLATE_TEST_STOP";
/// Messages that go one way before others go back.
const BURST: u64 = 8;

/// Rounds of messages of any length between two ranks until they are told to stop. Each says its number and its checksum.
pub(crate) fn stream(world: &Communicator) {
    let other = 1 - world.rank();
    let mut round = 0u64;
    let mut got = vec![0u8; 160 << 10];
    loop {
        let is_last = stop().exists();
        for number in round * BURST..(round + 1) * BURST {
            if world.rank() == 0 {
                world.send(&message(number, is_last), other, 0).unwrap();
            }
            let status = world.recv(&mut got, other, 0).unwrap();
            let is_last = got[8] == 1;
            assert!(got[..status.length] == message(number, is_last), "message {number}");
            if world.rank() == 1 {
                world.send(&message(number, is_last), other, 0).unwrap();
            }
        }
        round += 1;
        println!("\nround {round}");
        if got[8] == 1 {
            println!("\nlast {round}");
            return;
        }
    }
}

/// Whether it is the last round's, and bytes that no other message has, as many as no other near it; some are too long to be sent at once.
fn message(number: u64, is_last: bool) -> Vec<u8> {
    let length = 16 + usize::try_from(number.wrapping_mul(7_919) % 144_000).unwrap();
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.push(u8::from(is_last));
    let mut state = number;
    bytes.extend((9..length).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()[7]
    }));
    bytes
}

/// Messages for a rank that takes none until it is told to.
pub(crate) fn slow(world: &Communicator) {
    const COUNT: u32 = 900;
    if world.rank() == 0 {
        // Then there are connections, both ways.
        world.send(&[1u8], 1, 2).unwrap();
        world.recv(&mut [0u8], 1, 3).unwrap();
        // They are complete when they are written.
        let numbers: Vec<_> = (0..COUNT).map(|number| vec![number; 30_000 / 4]).collect();
        world.scope(|scope| {
            for data in &numbers {
                world.isend(scope, data, 1, 0).unwrap();
            }
            println!("\nall are sent");
        });
        world.recv(&mut [0u8], 1, 1).unwrap();
    } else {
        world.recv(&mut [0u8], 0, 2).unwrap();
        world.ssend(&[1u8], 0, 3).unwrap();
        println!("\nslow {}", std::process::id());
        while !stop().exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        for number in 0..COUNT {
            let mut got = vec![0; 30_000 / 4];
            world.recv(&mut got, 0, 0).unwrap();
            assert!(got.iter().all(|one| *one == number));
        }
        world.send(&[1u8], 0, 1).unwrap();
    }
}

fn stop() -> PathBuf {
    std::env::var_os(STOP).unwrap().into()
}

/// Servers that speak TLS, each at one port, and a user who trusts them.
pub(crate) struct Sites<const N: usize = 2> {
    pub(crate) servers: [Server; N],
    pub(crate) user: User,
    pub(crate) ca: String,
}

/// Options of a server that speaks TLS as these hosts, and trusts such servers, and the file of their authority; all of it is the user's.
pub(crate) fn tls(user: &User, hosts: &[&str]) -> ([String; 6], String) {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(hosts[0], |params| {
        let names =
            CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>());
        params.subject_alt_names = names.unwrap().subject_alt_names;
    });
    for (name, text) in [("ca.pem", &authority.pem), ("cert.pem", &certificate), ("key.pem", &key)]
    {
        user.write(name, text);
    }
    let path = |name: &str| user.path(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let options = ["--tls-cert", &cert, "--tls-key", &key, "--rank-ca", &ca];
    (options.map(str::to_owned), ca.clone())
}

impl Sites {
    fn new(max: u32, options: &[&str]) -> Self {
        let user = User::new();
        let (tls, ca) = tls(&user, &["127.0.0.1"]);
        let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
        let servers = [(); 2].map(|()| server(max, &[&tls[..], options].concat()));
        Self { servers, user, ca }
    }
}

impl<const N: usize> Sites<N> {
    /// What the only job of a server wrote.
    pub(crate) fn log(&self, server: usize) -> String {
        let jobs = fs::read_dir(self.servers[server].data().join("jobs"));
        let jobs = jobs.into_iter().flatten().flatten();
        let logs =
            jobs.map(|job| fs::read_to_string(job.path().join("stdout")).unwrap_or_default());
        logs.collect()
    }
}

impl<const N: usize> Sites<N> {
    /// Begins a domain with so many ranks at each of them.
    pub(crate) fn run(&self, ranks: u32, program: &str, options: &[&str]) -> std::process::Child {
        let instances = self.servers.each_ref().map(|server| {
            format!(
                "[[instances]]\nservice = '{}'\nranks = {ranks}\narguments = ['what={program}']\n",
                server.url()
            )
        });
        self.user.write("domain.toml", instances.concat());
        let words = ["domain", "run", "domain.toml", "--ca", &self.ca];
        self.user.start(&[&words[..], options].concat())
    }

    pub(crate) fn stop(&self) {
        for server in &self.servers {
            fs::write(server.path("stop"), "").unwrap();
        }
    }

    /// How far rank 0 is.
    pub(crate) fn round(&self) -> u64 {
        let log = self.log(0);
        let mut rounds = log.lines().rev();
        rounds.find_map(|line| line.strip_prefix("round ")?.parse().ok()).unwrap_or_default()
    }
}

#[test]
fn ranks_of_two_sites_with_one_port_each_are_a_domain() {
    for (transport, ranks) in [("tcp", 2), ("soap", 2), ("tcp", 6)] {
        let sites = Sites::new(ranks, &["--limit", "max_running=6"]);
        let said = ended(sites.run(ranks, "sum", &["--transport", transport]));
        assert_eq!(said.code, 0, "{said:?}");
        let all = 2 * ranks;
        for rank in 0..all {
            let line = format!("[{rank}] rank {rank} of {all}: {}\n", (0..all).sum::<u32>());
            assert!(said.stdout.contains(&line), "{line} {said:?}");
        }
        assert!(said.stderr.contains("servers: 2, which pass messages on"), "{said:?}");
    }
}

#[test]
fn a_site_that_is_not_trusted_is_not_reached() {
    let mut sites = Sites::new(1, &[]);
    let other = Authority::new();
    // The ranks of the first trust somebody else.
    sites.user.write("other.pem", &other.pem);
    sites.servers[0].stop();
    let ca = sites.user.path("other.pem");
    sites.servers[0].restart_with("--rank-ca", ca.to_str().unwrap());
    let said = ended(sites.run(1, "sum", &[]));
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("issued by no authority that is trusted here"), "{said:?}");
}

/// Nobody but the ranks is there, so nobody gives up while a server is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_killed_and_started_anew_loses_doubles_and_reorders_nothing() {
    for transport in ["tcp", "soap"] {
        Sites::new(1, &[]).survive(transport).await;
    }
}

impl Sites {
    /// Has two ranks exchange messages while each server is killed and started anew.
    pub(crate) async fn survive(mut self, transport: &str) {
        let settings = Settings { ca_file: Some(self.ca.clone().into()), ..Settings::default() };
        let credential = CREDENTIAL[0].repeat(32);
        begin(&self.servers, &settings, (DOMAIN, &credential), transport, "stream").await;
        until("messages pass", || self.round() > 3);
        for at in [1, 0] {
            self.servers[at].kill();
            self.servers[at].restart();
            let before = self.round();
            until("messages pass again", || self.round() > before + 3);
        }
        self.stop();
        let last = |at: usize| {
            let log = self.log(at);
            log.lines().find_map(|line| line.strip_prefix("last ")?.parse::<u64>().ok())
        };
        until("both have ended", || last(0).is_some() && last(1).is_some());
        assert!(last(0) == last(1) && last(0) > Some(9), "{:?} {:?}", last(0), last(1));
    }
}

#[test]
fn a_slow_receiver_slows_its_sender_and_takes_no_memory_of_the_gateway() {
    let sites = Sites::new(1, &[]);
    let child = sites.run(1, "slow", &[]);
    let mut slow = None;
    until("it is there", || {
        let log = sites.log(1);
        slow = log.lines().find_map(|line| line.strip_prefix("slow ")?.parse::<u32>().ok());
        slow.is_some()
    });
    let gateway = sites.servers[1].pid();
    let before = peak_memory(gateway);
    until("all is sent that can be", || sites.log(0).contains("all are sent"));
    // What came over the rank's socket waits in it.
    until("its socket is full", || waiting(slow.unwrap()) > 60_000);
    let more = peak_memory(gateway).saturating_sub(before);
    assert!(more < 8 << 20, "27 MB are on their way, and the gateway has {more} bytes more");
    sites.stop();
    let said = ended(child);
    assert_eq!(said.code, 0, "{said:?}");
}

/// Bytes that wait in sockets of a process.
fn waiting(pid: u32) -> u64 {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let to = fs::read_link(entry.path()).ok()?;
            Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = lines.filter(|fields| sockets.iter().any(|inode| inode == fields[9]));
    own.map(|fields| u64::from_str_radix(fields[4].split_once(':').unwrap().1, 16).unwrap()).sum()
}

pub(crate) const DOMAIN: &str = "0f0102030405060708090a0b0c0d0e0f";
const OTHER: &str = "1f0102030405060708090a0b0c0d0e0f";
pub(crate) const CREDENTIAL: [&str; 2] = ["ab", "cd"];

/// Starts a rank of `program` at each server, which know where the others are; their members.
pub(crate) async fn begin(
    servers: &[Server; 2],
    settings: &Settings,
    (domain, credential): (&str, &str),
    transport: &str,
    program: &str,
) -> Vec<Member> {
    let find = async |server: &Server| {
        DomainServer::find(server.url(), settings.clone()).await.unwrap().unwrap()
    };
    let mut members = Vec::new();
    for (rank, server) in servers.iter().enumerate() {
        let at = find(server).await;
        at.reserve(domain, "ring", 1).await.unwrap();
        let texts = [
            ("domain", domain),
            ("rank", &rank.to_string()),
            ("ranks", "2"),
            ("credential", credential),
            ("transport", transport),
            ("what", program),
        ];
        let arguments = texts.map(|(name, text)| Argument::text(name, text)).into();
        let service = Service::connect_with(server.url(), settings.clone()).await.unwrap();
        service.init("call", arguments).await.unwrap();
        members.push(joined(&at, domain).await);
    }
    let [first, second] = &members[..] else { panic!("two ranks") };
    let address = |of: &Member| of.address.clone().unwrap();
    let gateway = |of: &Member| of.gateway.clone().unwrap();
    let told = [[address(first), gateway(second)], [gateway(first), address(second)]];
    for (server, addresses) in servers.iter().zip(told) {
        find(server).await.connect(domain, &addresses).await.unwrap();
    }
    members
}

async fn joined(at: &DomainServer, domain: &str) -> Member {
    loop {
        let member = at.members(domain).await.unwrap().remove(0);
        if member.address.is_some() {
            return member;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A request to a rank at a server's port; again while the gateway still passes earlier ones on, as it tells clients to do.
fn ask(at: SocketAddr, first: &str, credential: &str, body: &str, cut: usize) -> Option<Answer> {
    let mut answer = None;
    until("the gateway has a connection free", || {
        answer = ask_once(at, first, credential, body, cut);
        answer.as_ref().is_none_or(|answer| !answer.body.contains("<code>QueueFull<"))
    });
    answer
}

fn ask_once(
    at: SocketAddr,
    first: &str,
    credential: &str,
    body: &str,
    cut: usize,
) -> Option<Answer> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{first} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\nContent-Type: text/xml\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[..body.len() - cut]).unwrap();
    if cut > 0 {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    try_answer(&mut stream)
}

fn call(operation: &str, fields: &str) -> String {
    format!(
        "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Body><{operation} \
         xmlns='urn:fishplate:domain:1'><domain>{DOMAIN}</domain>{fields}</{operation}></s:Body></s:Envelope>"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_domain_reach_its_ranks_through_the_gateway_and_nobody_else_does() {
    let (ours, others) = (CREDENTIAL[0].repeat(32), CREDENTIAL[1].repeat(32));
    let servers = [(); 2].map(|()| server(2, &["--limit", "gateway_connections=3"]));
    let members = begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "steered").await;
    begin(&servers, &Settings::default(), (OTHER, &others), "soap", "waits").await;
    let at = servers[1].address();
    let path = format!("/domains/{DOMAIN}/1");
    for of in &members {
        assert!(of.address.as_ref().unwrap().starts_with("http://127.0.0.1:"), "{of:?}");
        let expected = format!(
            "upgrade+http://{}/domains/{DOMAIN}/{}",
            servers[of.rank as usize].address(),
            of.rank
        );
        assert_eq!(of.gateway.as_deref(), Some(expected.as_str()));
    }
    let store = "<fromRank>0</fromRank><toRank>1</toRank><tag>7</tag><sequence>1</sequence>\
                 <client>a test</client><data>QUJD</data>";
    let post = format!("POST {path}");
    // Another domain's credential, a forged one, a domain that is not here: all the same, and no rank hears of it.
    for (to, credential) in [
        (post.clone(), others.as_str()),
        (post.clone(), ""),
        (post.replace(DOMAIN, OTHER), ours.as_str()),
        (post.replace(DOMAIN, &"0".repeat(32)), ours.as_str()),
        (format!("GET {path}?wsdl"), others.as_str()),
    ] {
        let answer = ask(at, &to, credential, &call("store", store), 0).unwrap();
        assert_eq!(answer.status, 401, "{to} {answer:#?}");
        assert!(answer.head.contains("www-authenticate: bearer realm="), "{answer:#?}");
        assert!(answer.body.contains("the credential of its domain"), "{answer:#?}");
    }
    // A rank that is somewhere else.
    let answer = ask(at, &format!("POST /domains/{DOMAIN}/0"), &ours, &call("store", store), 0);
    assert_eq!(answer.unwrap().status, 502);
    // One that is cut off is none: the whole one after it has the same number.
    if let Some(answer) = ask(at, &post, &ours, &call("store", store), 20) {
        assert!(answer.status >= 400, "{answer:#?}");
    }
    let wsdl = ask(at, &format!("GET {path}?wsdl"), &ours, "", 0).unwrap();
    let own = format!("location=\"http://{at}{path}\"");
    assert!(wsdl.status == 200 && wsdl.body.contains(&own), "{wsdl:#?}");
    let stored = ask(at, &post, &ours, &call("store", store), 0).unwrap();
    assert_eq!(stored.status, 200, "{stored:#?}");
    let again = ask(at, &post, &ours, &call("store", store), 0).unwrap();
    assert!(again.status == 500 && again.body.contains("came before"), "{again:#?}");
    let receive = call("receive", "<tag>8</tag><wait>30</wait>");
    let received = ask(at, &post, &ours, &receive, 0).unwrap();
    assert!(received.status == 200 && received.body.contains(">Q0JB<"), "{received:#?}");
    // What it received was the last thing: both meet through the gateways and leave.
    for server in &servers {
        let user = User::new();
        until("its rank has left", || states(&user, server).contains(&"done".to_owned()));
    }
}

/// Asks a gateway for a connection to rank 1; the connection, and how the answer begins.
fn switched(at: SocketAddr, credential: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "GET /domains/{DOMAIN}/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n\
         Connection: Upgrade\r\nUpgrade: fishplate-rank\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (stream, String::from_utf8(status.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_ranks_make_no_room_for_others_and_keep_nobody_waiting() {
    let ours = CREDENTIAL[0].repeat(32);
    let servers = [server(2, &[]), server(2, &["--limit", "connections_per_peer=2"])];
    begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "waits").await;
    let at = servers[1].address();
    let mut held = Vec::new();
    until("all connections of this address are in use", || {
        let (stream, status) = switched(at, &ours);
        held.push(stream);
        status.ends_with("503")
    });
    held.clear();
    until("they are free again", || switched(at, &ours).1.ends_with("101"));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_ranks_that_died_are_told() {
    let ours = CREDENTIAL[0].repeat(32);
    let mut servers = [(); 2].map(|()| server(2, &["--limit", "gateway_connections=2"]));
    let members = begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "waits").await;
    let at = servers[1].address();
    let connect = || switched(at, &ours);
    // One is that of the other rank, once it waits for messages.
    let mut held = Vec::new();
    until("all connections are in use", || {
        let (stream, status) = connect();
        held.push(stream);
        status.ends_with("503")
    });
    assert!(held.len() <= 3, "{}", held.len());
    held.clear();
    until("they are free again", || connect().1.ends_with("101"));
    // A gateway that is started anew knows its ranks, also that one is gone.
    servers[1].kill();
    servers[1].restart();
    until("the rank is found", || connect().1.ends_with("101"));
    let user = User::new();
    let jobs = user.json(&["jobs", servers[1].url()]);
    let job = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    user.succeed(&["kill", servers[1].url(), &job]);
    let log = user.succeed(&["log", servers[1].url(), &job]);
    let pid = log.lines().find_map(|line| line.strip_prefix("ready ")?.parse().ok());
    until("it is gone", || !pid.is_some_and(is_alive));
    assert!(connect().1.ends_with("502"));
    // Nor is somebody else found at its port.
    let address = members[1].address.as_ref().unwrap();
    let _other = TcpListener::bind(address.split('/').nth(2).unwrap()).unwrap();
    assert!(connect().1.ends_with("502"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_reach_each_other_while_their_server_finishes_what_others_asked() {
    let ours = CREDENTIAL[0].repeat(32);
    let mut servers = [(); 2].map(|()| server(2, &["--limit", "stop_time=1h"]));
    begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "waits").await;
    let at = servers[1].address();
    let (held, status) = switched(at, &ours);
    assert!(status.ends_with("101"), "{status}");
    // It is being answered until all of it has come.
    let mut asking = TcpStream::connect(at).unwrap();
    let head = "POST /ring HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: text/xml\r\n\
                Content-Length: 10\r\n\r\n";
    asking.write_all(head.as_bytes()).unwrap();
    asking.read_exact(&mut [0; 12]).unwrap();
    send(&servers[1], Signal::SIGTERM);
    let ready = || curl(&[&format!("http://{at}/readyz")]).status;
    until("it stops", || ready() == 503);
    let (_other, status) = switched(at, &ours);
    assert!(status.ends_with("101"), "{status}");
    // Those it does not wait for.
    drop(asking);
    assert!(servers[1].ended().success());
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_passes_alone_is_answered_before_its_server_ends() {
    let ours = CREDENTIAL[0].repeat(32);
    let mut servers = [(); 2].map(|()| server(2, &["--limit", "stop_time=1h"]));
    begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "steered").await;
    let at = servers[1].address();
    let path = format!("POST /domains/{DOMAIN}/1");
    let (sender, receiver) = std::sync::mpsc::channel();
    let (asked, credential) = (path.clone(), ours.clone());
    std::thread::spawn(move || {
        let receive = call("receive", "<tag>8</tag><wait>60</wait>");
        sender.send(ask(at, &asked, &credential, &receive, 0)).unwrap();
    });
    // Beside the connection of the other rank.
    until("it waits", || {
        let metrics = curl(&[&format!("http://{at}/metrics")]);
        metrics.text().lines().any(|line| line == "fishplate_passages 2")
    });
    send(&servers[1], Signal::SIGTERM);
    until("it stops", || curl(&[&format!("http://{at}/readyz")]).status == 503);
    let store = "<fromRank>0</fromRank><toRank>1</toRank><tag>7</tag><sequence>1</sequence>\
                 <client>a test</client><data>QUJD</data>";
    let stored = ask(at, &path, &ours, &call("store", store), 0).unwrap();
    assert_eq!(stored.status, 200, "{stored:#?}");
    let received = receiver.recv().unwrap().expect("an answer");
    assert!(received.status == 200 && received.body.contains(">Q0JB<"), "{received:#?}");
    assert!(servers[1].ended().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_of_a_server_that_was_killed_are_ended_with_their_domain() {
    let ours = CREDENTIAL[0].repeat(32);
    let mut servers = [(); 2].map(|()| server(2, &[]));
    begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "waits").await;
    // One that never joins.
    servers[1].script("program", "exec sleep 1000");
    let find = DomainServer::find(servers[1].url(), Settings::default()).await.unwrap().unwrap();
    find.reserve(OTHER, "ring", 1).await.unwrap();
    let texts = [
        ("domain", OTHER),
        ("rank", "1"),
        ("ranks", "2"),
        ("credential", &ours),
        ("transport", "tcp"),
        ("what", "waits"),
    ];
    let arguments = texts.map(|(name, text)| Argument::text(name, text)).into();
    let service = Service::connect(servers[1].url()).await.unwrap();
    service.init("call", arguments).await.unwrap();
    let user = User::new();
    until("both run", || states(&user, &servers[1]) == ["running", "running"]);
    servers[1].kill();
    servers[1].restart();
    assert_eq!(states(&user, &servers[1]), ["running", "running"]);
    user.succeed(&["domain", "end", DOMAIN, servers[1].url()]);
    let mut left = states(&user, &servers[1]);
    left.sort();
    assert_eq!(left, ["killed", "running"], "the other domain goes on");
    user.succeed(&["domain", "end", OTHER, servers[1].url()]);
    assert_eq!(states(&user, &servers[1]), ["killed", "killed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_in_the_middle_of_a_request_to_a_rank_is_let_go() {
    let ours = CREDENTIAL[0].repeat(32);
    let servers = [(); 2].map(|()| server(2, &["--limit", "body_stall=1s"]));
    begin(&servers, &Settings::default(), (DOMAIN, &ours), "soap", "waits").await;
    let mut stream = TcpStream::connect(servers[1].address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "POST /domains/{DOMAIN}/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ours}\r\n\
         Content-Type: text/xml\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n<"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = try_answer(&mut stream).expect("an answer");
    assert_eq!(answer.status, 502, "{answer:#?}");
}

#[test]
fn a_page_of_the_gateway_is_not_told_from_nothing() {
    let server = server(1, &[]);
    let got = curl(&[&format!("http://{}/domains/{DOMAIN}/0", server.address())]);
    assert_eq!(got.status, 401);
}
