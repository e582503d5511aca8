//! Who used what: each job once, whatever was killed meanwhile, and for long after it is gone.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Answer, Version, answer, connect, key_header, try_answer, wrapper};

/// A server that a proxy tells who calls. Its program takes some processor time and gives some bytes.
fn server(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script(
        "program",
        "i=0; while [ $i -lt $1 ]; do i=$((i + 1)); done; head -c $2 /dev/zero; exit $3",
    );
    let slots = "[in val turns:int] [in val bytes:int] [in val code:int] > [out file y:raw]";
    let line = format!("name = 'test'\ncommand = './program {slots}'\n");
    std::fs::write(server.path("test.toml"), line).unwrap();
    let usual = ["--user-header", "X-User", "--limit", "max_queued=10000"];
    server.serve(&[&["test.toml"], &usual[..], words].concat());
    server
}

fn message(verb: &str, key: &str, children: &str) -> String {
    let header = if key.is_empty() { String::new() } else { key_header(key) };
    Version::V11.envelope(&header, &wrapper(verb, children))
}

fn request(who: &str, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {who}\r\nContent-Type: text/xml\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn ask(server: &Server, who: &str, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = connect(server);
    stream.write_all(request(who, method, path, body).as_bytes()).unwrap();
    answer(&mut stream)
}

fn verb(server: &Server, who: &str, verb: &str, children: &str) -> Answer {
    ask(server, who, "POST", "/test", &message(verb, "", children))
}

/// Asks until it is answered, as long as servers come back.
fn insist(address: std::net::SocketAddr, who: &str, message: &str) -> Answer {
    loop {
        let asked = std::net::TcpStream::connect(address).ok().and_then(|mut stream| {
            stream.write_all(request(who, "POST", "/test", message).as_bytes()).ok()?;
            try_answer(&mut stream)
        });
        match asked.filter(|answer| answer.body.ends_with("Envelope>")) {
            Some(answer) => return answer,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn accounts(server: &Server, words: &[&str]) -> Vec<Value> {
    let data = server.data();
    let words = [&["accounts", "--data", data.to_str().unwrap()], words].concat();
    let told = User::new().json(&words);
    told["accounts"].as_array().unwrap().clone()
}

fn arguments(turns: u32, bytes: u32, code: u32) -> String {
    format!("<turns>{turns}</turns><bytes>{bytes}</bytes><code>{code}</code>")
}

/// Kills the server so often while two users have it work; then what jobs say of themselves is what the accounts say.
fn kills(count: u64) {
    let mut server = server(&[]);
    let (address, over) = (server.address(), AtomicBool::new(false));
    let spawning = |who: &'static str| {
        let mut jobs = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let number = jobs.len();
            let arguments = arguments(200 * u32::try_from(number % 50).unwrap(), 100, 0);
            let spawned = insist(address, who, &message("spawn", &number.to_string(), &arguments));
            let job = spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}"));
            jobs.push(job.to_owned());
        }
        jobs
    };
    let jobs: BTreeMap<&str, Vec<String>> = std::thread::scope(|scope| {
        let users = ["ada", "bob"].map(|who| (who, scope.spawn(move || spawning(who))));
        for round in 0..count {
            // At any moment.
            std::thread::sleep(Duration::from_millis(round * 37 % 150));
            server.kill();
            server.restart();
        }
        over.store(true, Ordering::Relaxed);
        users.map(|(who, user)| (who, user.join().unwrap())).into_iter().collect()
    });
    let mut told = BTreeMap::new();
    for (who, jobs) in &jobs {
        let (mut cpu, mut memory, mut failed) = (0.0, 0, 0);
        for job in jobs {
            let mut report = None;
            until("it has ended", || {
                let status = verb(&server, who, "status", &format!("<job>{job}</job>"));
                let ended = !matches!(status.text("state"), Some("queued" | "running"));
                report = Some(status);
                ended
            });
            let report = report.unwrap();
            cpu += report.text("cpuSeconds").map_or(0.0, |text| text.parse::<f64>().unwrap());
            let used = report.text("maxMemory").map_or(0, |text| text.parse::<u64>().unwrap());
            memory = memory.max(used);
            failed += u64::from(report.text("state") != Some("done"));
        }
        told.insert(*who, (jobs.len() as u64, failed, cpu, memory));
    }
    println!("{count} kills: {told:?}");
    let accounts = accounts(&server, &[]);
    assert_eq!(accounts.len(), 2, "{accounts:#?}");
    // The sums by which quotas are counted are kept beside the records.
    let quotas = self::accounts(&server, &["--quotas"]);
    for (account, quotas) in accounts.iter().zip(&quotas) {
        let counted = quotas["quotas"][0]["used"].as_f64().unwrap();
        let difference = (counted - account["cpuSeconds"].as_f64().unwrap()).abs();
        assert!(quotas["user"] == account["user"] && difference < 0.01, "{account} {quotas}");
    }
    for account in &accounts {
        let (jobs, failed, cpu, memory) = told[account["user"].as_str().unwrap()];
        assert_eq!((&account["jobs"], &account["failed"]), (&json!(jobs), &json!(failed)));
        assert_eq!(account["maxMemory"], json!(memory));
        let difference = account["cpuSeconds"].as_f64().unwrap() - cpu;
        assert!(difference.abs() < 1e-6, "{account} {cpu}");
        assert!(cpu > 0.0 && memory > 0);
    }
}

#[test]
fn sums_agree_with_what_jobs_say_whenever_the_server_is_killed() {
    kills(12);
}

/// `cargo test -p fishplate --test it -- --ignored two_hundred`
#[test]
#[ignore = "takes minutes"]
fn sums_agree_after_two_hundred_kills() {
    kills(200);
}

#[test]
fn jobs_calls_and_transfers_stay_accounted_for_when_they_are_gone() {
    let mut server = server(&["--limit", "usage_records=5"]);
    let call = |who: &str, code| verb(&server, who, "call", &arguments(0, 1000, code)).status;
    let answers = [call("ada", 0), call("ada", 0), call("ada", 7), call("Bob, \"the 2nd\"", 0)];
    assert_eq!(answers, [200, 200, 500, 200]);
    let spawned = verb(&server, "ada", "spawn", &arguments(0, 50, 0));
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it is done", || verb(&server, "ada", "status", &job).text("state") == Some("done"));
    assert_eq!(verb(&server, "ada", "remove", &job).status, 200);
    let put = ask(&server, "ada", "PUT", "/data/file", "12345678");
    let grant = put.body.trim().to_owned();
    let read = ask(&server, "somebody", "GET", &grant[grant.find("/data/").unwrap()..], "");
    assert_eq!(read.body, "12345678");
    server.stop();

    let by_user = accounts(&server, &[]);
    let summed = |account: &Value| {
        let field = |name: &str| account[name].as_u64().unwrap();
        (field("jobs"), field("failed"), field("bytesIn"), field("bytesOut"))
    };
    assert_eq!(by_user[0]["user"], "Bob, \"the 2nd\"");
    // Texts of three numbers, and the bytes of a file; of a program that failed nothing is taken.
    assert_eq!(summed(&by_user[0]), (1, 0, 6, 1000));
    assert_eq!(summed(&by_user[1]), (6, 1, 3 * 6 + 4 + 8, 2000 + 50 + 8));
    let by_service = accounts(&server, &["--by", "service"]);
    let names: Vec<_> = by_service.iter().map(|it| it["service"].as_str().unwrap()).collect();
    assert_eq!(names, ["data", "test"]);
    assert_eq!(summed(&by_service[0]), (2, 0, 8, 8));
    assert_eq!(accounts(&server, &["--until", "2026-01-01"]), Vec::<Value>::new());

    let data = server.data();
    let told =
        |form: &str| User::new().succeed(&["accounts", "--data", data.to_str().unwrap(), form]);
    let csv = told("--csv");
    let lines: Vec<_> = csv.lines().collect();
    let header = "user,jobs,failed,wallSeconds,cpuSeconds,maxMemory,bytesIn,bytesOut";
    assert_eq!((lines.len(), lines[0]), (3, header));
    assert!(
        lines[1].starts_with("\"Bob, \"\"the 2nd\"\"\",1,0,") && lines[2].ends_with(",30,2058")
    );
    let records = told("--ur");
    assert_eq!(records.matches("<urf:JobUsageRecord>").count(), 5, "{records}");
    assert_eq!(records.matches("<urf:UsageRecord>").count(), 2, "{records}");
    for part in ["<urf:LocalUserId>Bob, &quot;the 2nd&quot;<", ">completed<", ">failed<"] {
        assert!(records.contains(part), "{part}: {records}");
    }

    // Those that are too many become sums, and the sums stay what they were.
    server.restart();
    let day = || {
        let records = told("--ur");
        records.matches("<urf:JobUsageRecord>").count()
    };
    until("they are summed up", || day() < 5);
    assert_eq!(accounts(&server, &[])[1]["jobs"], by_user[1]["jobs"]);
    assert_eq!(summed(&accounts(&server, &[])[1]), summed(&by_user[1]));
}

#[test]
fn a_function_of_the_server_is_accounted_for_too() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "matrix"]);
    let add = ["call", server.url(), "--operation", "add", "x=40", "y=2"];
    for _ in 0..3 {
        User::new().succeed(&add);
    }
    server.stop();
    let by_service = accounts(&server, &["--by", "service"]);
    let of = |name: &str| by_service[0][name].as_u64();
    assert_eq!(by_service[0]["service"], "matrix", "{by_service:#?}");
    let sums = ["jobs", "failed", "bytesIn", "bytesOut"].map(of);
    assert_eq!(sums, [Some(3), Some(0), Some(9), Some(6)], "{by_service:#?}");
}

#[test]
fn what_a_function_gives_while_it_makes_it_is_accounted_for_when_it_is_over() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "stream"]);
    let (user, url) = (User::new(), server.url());
    user.succeed(&["call", url, "n=1000000", "out:data=file"]);
    // One that can't begin.
    let message = |children: &str| {
        message("call", "", children).replace("urn:fishplate:test", "urn:fishplate:stream")
    };
    let missing = ask(&server, "", "POST", "/stream", &message(""));
    assert_eq!(missing.text("code"), Some("MissingParameter"), "{missing:#?}");
    // Whoever hangs up has had what was made until then.
    let mut stream = connect(&server);
    let body = message("<n>8589934592</n>");
    stream.write_all(request("", "POST", "/stream", &body).as_bytes()).unwrap();
    stream.read_exact(&mut [0; 100_000]).unwrap();
    drop(stream);
    let sums = || {
        let of = accounts(&server, &["--by", "service"]);
        ["jobs", "failed", "bytesOut"].map(|name| of[0][name].as_u64())
    };
    until("both are noted", || !accounts(&server, &[]).is_empty() && sums()[0] == Some(2));
    let [_, failed, bytes] = sums();
    assert_eq!(failed, Some(1));
    assert!((1_000_000 + 100_000 / 2..1 << 32).contains(&bytes.unwrap()), "{bytes:?}");
}

#[test]
fn what_moves_nothing_is_no_transfer_and_many_small_ones_are_one_record() {
    let mut server = server(&[]);
    let put = ask(&server, "ada", "PUT", "/data/file", "12345678");
    let grant = put.body.trim().to_owned();
    let path = grant[grant.find("/data/").unwrap()..].to_owned();
    for _ in 0..50 {
        assert_eq!(ask(&server, "ada", "HEAD", &path, "").status, 200);
        assert_eq!(ask(&server, "ada", "GET", &path, "").body, "12345678");
    }
    server.stop();
    let sums = &accounts(&server, &[])[0];
    let of = ["jobs", "bytesIn", "bytesOut"].map(|name| sums[name].as_u64().unwrap());
    assert_eq!(of, [51, 8, 400], "{sums:#?}");
    let data = server.data();
    let records = User::new().succeed(&["accounts", "--data", data.to_str().unwrap(), "--ur"]);
    // One a second and kind; on a slow machine that is some of them.
    assert!(records.matches("<urf:UsageRecord>").count() < 51, "{records}");
}

#[test]
fn many_jobs_of_one_owner_do_not_starve_the_one_of_another() {
    let mut server = Server::prepare();
    server.script("program", "echo $1 >> DIR/order; sleep 0.02");
    let limits = ["--limit", "max_running=1", "--limit", "owner_queued=60"];
    let usual = ["--user-header", "X-User", "-n", "test", "--", "./program", "[in val who:string]"];
    server.serve(&[&limits[..], &usual].concat());
    let order = || std::fs::read_to_string(server.path("order")).unwrap_or_default();
    for _ in 0..60 {
        let spawned = verb(&server, "many", "spawn", "<who>many</who>");
        assert_eq!(spawned.status, 200, "{spawned:#?}");
    }
    let before = order().lines().count();
    let spawned = verb(&server, "one", "spawn", "<who>one</who>");
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it is done", || verb(&server, "one", "status", &job).text("state") == Some("done"));
    let place = order().lines().position(|line| line == "one").unwrap();
    // The one that ran, and one that began while it was accepted.
    assert!(place <= before + 2, "{place} {before}");
    assert!(before < 50, "the many were done before: {before}");

    // Who has as many as one may have is told which limit it is.
    until("there is one too many", || {
        let refused = verb(&server, "many", "spawn", "<who>many</who>");
        refused.limit() == Some("owner_queued") && refused.text("code") == Some("QueueFull")
    });
}
