//! Subscribers of OGC API - Processes are told of jobs, once each, whichever server is killed meanwhile; and what a token of one
//! service is told of another's jobs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::curl::curl;
use crate::login::Site;
use crate::server::{Server, free_address, until};

/// It ends when there is a file `go` beside it.
const HELD: &str = "while [ ! -e DIR/go ]; do sleep 0.02; done; echo $1";
const SLOTS: [&str; 3] = ["[in val x:int]", ">", "[out file y:int]"];

/// Who wants to be told.
struct Subscriber(TcpListener);

/// What a subscriber was told, before it has answered.
struct Told {
    stream: BufReader<TcpStream>,
    path: String,
    key: String,
    body: Value,
}

impl Subscriber {
    fn new() -> Self {
        Self::at(free_address())
    }

    fn at(address: SocketAddr) -> Self {
        Self(TcpListener::bind(address).unwrap())
    }

    fn request(&self, x: i32) -> String {
        request(self.0.local_addr().unwrap(), x)
    }

    /// Waits until it is told something.
    fn told(&self) -> Told {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let path = line().split(' ').nth(1).unwrap().to_owned();
        let fields: Vec<String> =
            std::iter::from_fn(|| Some(line()).filter(|it| !it.is_empty())).collect();
        let field = |name: &str| {
            let found = fields.iter().find_map(|field| {
                let (its, value) = field.split_once(": ")?;
                its.eq_ignore_ascii_case(name).then(|| value.to_owned())
            });
            found.unwrap_or_else(|| panic!("{name}: {fields:?}"))
        };
        let (key, length) = (field("idempotency-key"), field("content-length"));
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        Told { stream, path, key, body }
    }
}

impl Told {
    /// The job that its key tells of.
    fn job(&self) -> String {
        self.key.trim_matches('"').split('-').next().unwrap().to_owned()
    }

    fn answer(mut self) -> Self {
        let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        self.stream.get_mut().write_all(answer).unwrap();
        self
    }
}

fn request(at: SocketAddr, x: i32) -> String {
    let uri = |path: &str| format!("http://{at}/{path}");
    json!({
        "inputs": { "x": x },
        "subscriber": { "successUri": uri("done"), "failedUri": uri("failed"), "inProgressUri": uri("runs") },
    })
    .to_string()
}

fn ogc(server: &Server, path: &str) -> String {
    format!("http://{}/ogc/{path}", server.address())
}

/// The ID of the job that was made.
fn run(server: &Server, request: &str) -> String {
    let url = ogc(server, "processes/test/execution");
    let made = curl(&["-H", "Content-Type: application/json", "-d", request, &url]);
    assert_eq!(made.status, 201, "{made:?}");
    let told: Value = serde_json::from_slice(&made.body).unwrap();
    told["jobID"].as_str().unwrap().to_owned()
}

fn serve(server: &mut Server) {
    let words = ["--allow-private", "-n", "test", "--", "./program"];
    server.serve(&[&words[..], &SLOTS].concat());
}

fn prepared(mut server: Server, script: &str) -> Server {
    server.script("program", script);
    serve(&mut server);
    server
}

#[test]
fn of_several_servers_on_one_store_one_tells_the_subscriber() {
    let one = prepared(Server::prepare(), "echo $1");
    let two = prepared(Server::prepare_beside(&one), "echo $1");
    let subscriber = Subscriber::new();
    let mut keys = Vec::new();
    for x in 0..6 {
        let job = run(if x % 2 == 0 { &one } else { &two }, &subscriber.request(x));
        // A second word of a job before would come before this one's.
        loop {
            let told = subscriber.told().answer();
            assert!(told.key.contains(&job), "{}: twice", told.key);
            keys.push(told.key.clone());
            if told.path == "/done" {
                assert_eq!(told.body, json!({ "y": x }));
                break;
            }
        }
    }
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all, "{keys:?}");
}

#[test]
fn who_was_told_by_a_killed_server_is_told_again_with_the_same_key() {
    let mut server = prepared(Server::prepare(), "echo $1");
    let subscriber = Subscriber::new();
    let job = run(&server, &subscriber.request(7));
    let mut unanswered = subscriber.told();
    if unanswered.path == "/runs" {
        unanswered.answer();
        unanswered = subscriber.told();
    }
    server.kill();
    let key = unanswered.key.clone();
    drop(unanswered);
    server.restart();
    let begun = Instant::now();
    let again = subscriber.told().answer();
    assert_eq!((&again.key, again.path.as_str()), (&key, "/done"));
    assert_eq!((&again.body, again.job()), (&json!({ "y": 7 }), job));
    println!("told again {} ms after the restart", begun.elapsed().as_millis());
}

#[test]
fn a_subscriber_who_was_away_is_told_when_he_is_there() {
    let mut server = prepared(Server::prepare(), HELD);
    let away = free_address();
    let job = run(&server, &request(away, 3));
    // Neither its end nor its start can be told.
    std::fs::write(server.path("go"), "").unwrap();
    let status = ogc(&server, &format!("jobs/{job}"));
    until("it is done", || curl(&[&status]).text().contains("successful"));
    until("it was tried", || server.log().contains("was not told"));
    server.stop();
    server.restart();
    let told = Subscriber::at(away).told().answer();
    assert_eq!((told.path.as_str(), told.body), ("/done", json!({ "y": 3 })));
}

#[test]
fn a_job_that_runs_and_is_dismissed_is_told_of_twice() {
    let server = prepared(Server::prepare(), HELD);
    let subscriber = Subscriber::new();
    let job = run(&server, &subscriber.request(3));
    let runs = subscriber.told().answer();
    assert_eq!((runs.path.as_str(), &runs.body["status"]), ("/runs", &json!("running")));
    let dismissed = curl(&["-X", "DELETE", &ogc(&server, &format!("jobs/{job}"))]);
    assert_eq!(dismissed.status, 200, "{dismissed:?}");
    let failed = subscriber.told().answer();
    assert_eq!((failed.path.as_str(), &failed.body["status"]), ("/failed", &json!("dismissed")));
    assert_eq!(failed.body["jobID"], json!(job));
}

#[test]
fn whose_token_is_of_another_service_does_not_learn_that_a_job_is_there() {
    let site = Site::new(&[]);
    let fields = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let all = site.token(&["--user", "ada"]);
    let narrow = site.token(&["--user", "ada", "--service", "data"]);
    let spawn = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
                 <spawn xmlns=\"urn:fishplate:test\"><x>1</x></spawn></e:Body></e:Envelope>";
    let spawned = site.ask("POST", "/test", &fields(&all), spawn);
    let job = spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}")).to_owned();
    let absent = "0".repeat(job.len());
    for path in ["", "/results", "/results/y", "/log"] {
        let told = |token: &str, job: &str| {
            let got = site.ask("GET", &format!("/ogc/jobs/{job}{path}"), &fields(token), "");
            (got.status, got.body.replace(job, "JOB"))
        };
        assert_ne!(told(&all, &job).1, told(&all, &absent).1, "{path}");
        assert_eq!(told(&narrow, &job), told(&narrow, &absent), "{path}");
        assert_eq!(told(&narrow, &job).0, 404, "{path}");
    }
    let dismissed = |job: &str| {
        let got = site.ask("DELETE", &format!("/ogc/jobs/{job}"), &fields(&narrow), "");
        (got.status, got.body.replace(job, "JOB"))
    };
    assert_eq!(dismissed(&job), dismissed(&absent));
}

#[test]
fn a_subscriber_who_stays_away_is_given_up() {
    let mut server = Server::prepare();
    server.script("program", "echo $1");
    let words = ["--allow-private", "--limit", "callback_time=0s", "-n", "test", "--", "./program"];
    server.serve(&[&words[..], &SLOTS].concat());
    run(&server, &request(free_address(), 3));
    until("it is given up", || server.log().contains("is not told of a job any more"));
}
