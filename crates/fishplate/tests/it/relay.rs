//! Sites that nobody can dial: their servers dial another one, which passes on what others want of them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::curl::{Got, curl};
use crate::domains::{prepared, server};
use crate::gateway::{Sites, tls};
use crate::login;
use crate::run::{User, ended};
use crate::server::{Server, until};

/// What its relay calls the hidden site.
const NAME: &str = "berlin";

const POLICY: &str = "[[allow]]\nwho = '@anybody'\n\
                      [[allow]]\nwho = '@anybody'\nservice = 'sites'\noperation = 'berlin'\nmay = 'register'\n";

/// A server that is reached through another one only.
fn hidden(max: u32, relays: &[&Server], options: &[&str]) -> Server {
    let mut server = prepared(max);
    let urls: Vec<String> = relays.iter().map(|relay| at(relay)).collect();
    let relays = urls.iter().flat_map(|url| ["--relay", url]);
    let words: Vec<&str> = relays.chain(options.iter().copied()).chain(["ring.toml"]).collect();
    server.serve_behind(&urls[0], &words);
    server
}

/// Where the hidden site is at its relay.
fn at(relay: &Server) -> String {
    let (root, _) = relay.url().rsplit_once('/').unwrap();
    format!("{root}/sites/{NAME}")
}

impl Sites {
    /// A relay, and a site that dials it.
    fn with_hidden(max: u32) -> Self {
        let user = User::new();
        let (tls, ca) = tls(&user, &["127.0.0.1"]);
        let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
        user.write("policy.toml", POLICY);
        let policy = user.path("policy.toml").to_str().unwrap().to_owned();
        let relay = server(max, &[&tls[..], &["--policy", &policy]].concat());
        let site = hidden(max, &[&relay], &["--open", "--rank-ca", &ca]);
        until("it is reached", || {
            curl(&["--cacert", &ca, &format!("{}/readyz", at(&relay))]).status == 200
        });
        Self { servers: [relay, site], user, ca }
    }
}

#[test]
fn ranks_of_a_site_that_dials_out_are_of_the_domain() {
    for transport in ["tcp", "soap"] {
        // More connections at once than are kept ready.
        let sites = Sites::with_hidden(4);
        let said = ended(sites.run(4, "sum", &["--transport", transport]));
        assert_eq!(said.code, 0, "{said:?}");
        for rank in 0..8 {
            let line = format!("[{rank}] rank {rank} of 8: 28\n");
            assert!(said.stdout.contains(&line), "{line} {said:?}");
        }
        let [relay, site] = &sites.servers;
        assert!(site.url().starts_with(&at(relay)), "{}", site.url());
        let count = |told: &Got, name: &str| {
            let count = told.text().lines().find_map(|line| line.strip_prefix(name));
            count.and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        let metrics = |url: String| curl(&["--cacert", &sites.ca, &format!("{url}/metrics")]);
        let (root, _) = relay.url().rsplit_once('/').unwrap();
        let told = format!("fishplate_site_connections{{site=\"{NAME}\"}} ");
        let connections = metrics(root.to_owned());
        assert!(count(&connections, &told) > 0, "{connections:?}");
        let told = format!("fishplate_relay_connections{{relay=\"{}\"}} ", at(relay));
        let connections = metrics(at(relay));
        assert!(count(&connections, &told) > 0, "{connections:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_and_its_site_that_are_killed_and_started_anew_lose_double_and_reorder_nothing() {
    for transport in ["tcp", "soap"] {
        Sites::with_hidden(1).survive(transport).await;
    }
}

/// How a server answers that is asked to be the relay of a site; and the connection.
fn register(relay: &Server, site: &str, fields: &str) -> (u16, TcpStream) {
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "GET /sites/{site} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: fishplate-site\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (std::str::from_utf8(&status[9..]).unwrap().parse().unwrap(), stream)
}

#[test]
fn who_has_no_right_to_a_site_does_not_register_it() {
    let operator = User::new();
    operator.write(
        "policy.toml",
        "[[allow]]\nwho = '@authenticated'\n\
         [[allow]]\nwho = 'robot'\nservice = 'sites'\noperation = 'berlin'\nmay = 'register'\n",
    );
    let policy = operator.path("policy.toml").to_str().unwrap().to_owned();
    let relay = login::Site::new(&[
        "--policy",
        &policy,
        "--limit",
        "site_idle=2",
        "--limit",
        "site_wait=100ms",
    ]);
    let instance = |number: u32| format!("Fishplate-Instance: {number:032}\r\n");
    let bearer = |words: &[&str]| {
        let token = relay.token(words);
        format!("Authorization: Bearer {token}\r\n")
    };
    let (robot, mallory) = (bearer(&["--user", "robot"]), bearer(&["--user", "mallory"]));
    let of_test = bearer(&["--user", "robot", "--service", "test"]);
    let ask = |site: &str, fields: &[&str]| register(&relay.server, site, &fields.concat());
    let one = instance(1);
    for (site, fields, status) in [
        (NAME, &[one.as_str()][..], 401),
        (NAME, &["Authorization: Bearer fishplate_forged\r\n", &one], 401),
        (NAME, &[&mallory, &one], 403),
        (NAME, &[&of_test, &one], 403),
        ("london", &[&robot, &one], 403),
        (NAME, &[&robot], 400),
    ] {
        assert_eq!(ask(site, fields).0, status, "{site} {fields:?}");
    }
    let pass = || relay.ask("GET", &format!("/sites/{NAME}/test"), "", "");
    assert_eq!(pass().status, 503, "nobody is there");
    let held = [(); 2].map(|()| ask(NAME, &[&robot, &one]));
    assert!(held.iter().all(|(status, _)| *status == 101));
    until("both are there", || ask(NAME, &[&robot, &one]).0 == 503);
    // Another process is not that site while the first one is.
    assert_eq!(ask(NAME, &[&robot, &instance(2)]).0, 503);
    drop(held);
    until("the site is free", || ask(NAME, &[&robot, &instance(2)]).0 == 101);
    // A token that is good for registering alone is.
    let of_sites = bearer(&["--user", "robot", "--service", "sites"]);
    until("it is let in", || ask(NAME, &[&of_sites, &instance(3)]).0 == 101);
    let audit = std::fs::read_to_string(relay.server.data().join("audit.log")).unwrap();
    assert!(audit.contains("register of sites (operation berlin) for mallory"), "{audit}");
}

#[test]
fn a_site_shows_its_token_and_says_why_it_is_not_reached() {
    let operator = User::new();
    operator.write(
        "policy.toml",
        "[[allow]]\nwho = 'robot'\nservice = 'sites'\noperation = 'berlin'\nmay = 'register'\n",
    );
    let policy = operator.path("policy.toml").to_str().unwrap().to_owned();
    let relay = login::Site::new(&["--policy", &policy]);
    operator.write("token", "fishplate_forged\n");
    let token = operator.path("token").to_str().unwrap().to_owned();
    let options = ["--open", "--relay-token", &token, "--limit", "relay_pause=200ms"];
    let site = hidden(1, &[&relay.server], &options);
    until("it is refused", || site.log().contains("401 Unauthorized"));
    operator.write("token", relay.token(&["--user", "robot"]));
    let ready = format!("{}/readyz", at(&relay.server));
    until("it is reached", || curl(&[&ready]).status == 200);
    until("it says so", || site.log().contains("others reach this server through its relay"));
}

#[test]
fn a_site_is_told_what_is_wrong_with_its_relay() {
    let user = User::new();
    let serve = |words: &[&str]| {
        let slots = ["-n", "test", "--", "true"];
        let said = user.run(
            &[&["serve", "--listen", "127.0.0.1:0", "--data", "data"], words, &slots].concat(),
        );
        assert_ne!(said.code, 0, "{said:?}");
        said.stderr
    };
    let said = serve(&["--relay", "https://hub.example/berlin", "--open"]);
    assert!(said.contains("must end with /sites/NAME"), "{said}");
    // Strangers reach it.
    let url = "https://hub.example/sites/berlin";
    let said = serve(&["--relay", url]);
    assert!(said.contains("others can reach https://hub.example/sites/berlin"), "{said}");
    let said = serve(&["--relay", url, "--open", "--relay-token", "a", "--relay-token", "b"]);
    assert!(said.contains("--relay-token stands 2 times and --relay 1 times"), "{said}");
}

/// What a request for something at the site of a relay sends, without a body's bytes.
fn asked(relay: &Server, method: &str, path: &str, fields: &str) -> TcpStream {
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("{method} /sites/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Has so many requests wait for an answer. One that was refused, because who asked last had not let go yet, is
/// asked again.
fn keep_waiting(waiting: &mut Vec<TcpStream>, count: usize, ask: impl Fn() -> TcpStream) {
    waiting.retain(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    waiting.extend((waiting.len()..count).map(|_| ask()));
}

/// Reads what comes until the end of so many heads.
fn heads(stream: &mut TcpStream, count: usize) {
    let mut said = Vec::new();
    while said.windows(4).filter(|four| four == b"\r\n\r\n").count() < count {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
}

#[test]
fn who_waits_for_a_site_locks_no_other_and_another_server_waits_for_who_is_served() {
    let operator = User::new();
    let rule = |site: &str| {
        format!(
            "[[allow]]\nwho = '@anybody'\nservice = 'sites'\noperation = '{site}'\nmay = 'register'\n"
        )
    };
    operator.write("policy.toml", POLICY.to_owned() + &rule("london"));
    let policy = operator.path("policy.toml").to_str().unwrap().to_owned();
    let limits = ["--limit", "gateway_connections=1", "--limit", "connections_per_peer=8"];
    let relay = server(1, &[&["--policy", &policy][..], &limits].concat());
    let instance = |number: u32| format!("Fishplate-Instance: {number:032}\r\n");
    // What is of a site counts for no address.
    let mut berlin = [(); 9].map(|()| {
        let (status, mut stream) = register(&relay, NAME, &instance(1));
        assert_eq!(status, 101);
        heads(&mut stream, 1);
        stream
    });
    drop(berlin.iter_mut().skip(1).map(|it| it.shutdown(Shutdown::Both)).collect::<Vec<_>>());
    let [mut berlin, ..] = berlin;
    until("one is left", || {
        let (root, _) = relay.url().rsplit_once('/').unwrap();
        let line = format!("fishplate_site_connections{{site=\"{NAME}\"}} 1\n");
        curl(&[&format!("{root}/metrics")]).text().contains(&line)
    });
    let served = asked(&relay, "GET", "berlin/x", "");
    heads(&mut berlin, 1);
    let waiting = asked(&relay, "GET", "berlin/x", "");
    assert_eq!(register(&relay, NAME, &instance(2)).0, 503, "its connection is in use");
    let (status, mut london) = register(&relay, "london", &instance(3));
    assert_eq!(status, 101);
    heads(&mut london, 1);
    let mut answered = asked(&relay, "GET", "london/x", "Connection: close\r\n");
    heads(&mut london, 1);
    london.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    let mut said = String::new();
    answered.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\nhi"), "{said}");
    // Else its pages could do in a browser what the relay's can.
    assert!(said.contains("Content-Security-Policy: sandbox\r\n"), "{said}");
    drop((served, waiting));
}

#[test]
fn what_comes_through_a_relay_has_limits_of_its_own() {
    let operator = User::new();
    operator.write("policy.toml", POLICY);
    let policy = operator.path("policy.toml").to_str().unwrap().to_owned();
    let relay = server(1, &["--policy", &policy, "--limit", "site_wait=200ms"]);
    let ready = format!("{}/readyz", at(&relay));
    let slow = || asked(&relay, "POST", "berlin/ring", "Content-Length: 9\r\n");
    // All callers have the relay's address.
    let site = hidden(1, &[&relay], &["--open", "--limit", "connections_per_peer=2"]);
    until("it is reached", || curl(&[&ready]).status == 200);
    let callers = [(); 4].map(|()| slow());
    for _ in 0..4 {
        assert_eq!(curl(&[&ready]).status, 200);
    }
    drop((callers, site));
    let limits = ["--limit", "connections_per_peer=2", "--limit", "relay_connections=2"];
    let _site = hidden(1, &[&relay], &[&["--open"][..], &limits].concat());
    until("it is reached", || curl(&[&ready]).status == 200);
    let mut callers = Vec::new();
    until("both are in use", || {
        keep_waiting(&mut callers, 2, slow);
        curl(&[&ready]).status == 503
    });
    drop(callers);
    until("they are free", || curl(&[&ready]).status == 200);
    // So has a relay, for each site.
    let relay = server(1, &["--policy", &policy, "--limit", "site_connections=1"]);
    let ready = format!("{}/readyz", at(&relay));
    let _site = hidden(1, &[&relay], &["--open"]);
    until("it is reached", || curl(&[&ready]).status == 200);
    let mut callers = Vec::new();
    until("it is in use", || {
        let slow = || asked(&relay, "POST", "berlin/ring", "Content-Length: 9\r\n");
        keep_waiting(&mut callers, 1, slow);
        let told = curl(&[&ready]);
        told.status == 503 && told.text().contains("site berlin has 1 connections in use")
    });
}

#[test]
fn who_comes_through_a_relay_names_nobody_and_is_known_by_an_address() {
    let operator = User::new();
    operator.write("policy.toml", POLICY);
    let policy = operator.path("policy.toml").to_str().unwrap().to_owned();
    let relay = server(1, &["--policy", &policy]);
    let site = hidden(1, &[&relay], &["--user-header", "X-User", "--proxy", "127.0.0.0/8"]);
    let (root, ready) = (at(&relay), format!("{}/readyz", at(&relay)));
    until("it is reached", || curl(&[&ready]).status == 200);
    let ask = |url: &str| curl(&["--interface", "127.0.0.2", "--header", "X-User: admin", url]);
    assert_eq!(ask(&format!("http://{}/", site.address())).status, 200, "a proxy is believed");
    assert_eq!(ask(&root).status, 401);
    let audit = std::fs::read_to_string(site.data().join("audit.log")).unwrap();
    assert!(audit.contains("127.0.0.2"), "{audit}");
}
