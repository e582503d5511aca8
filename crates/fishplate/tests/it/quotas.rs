//! What one owner may have: processor time, traffic and disk, as limits and a policy say.

use std::io::Write as _;

use serde_json::Value;

use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Answer, Version, answer, connect, key_header, wrapper};

/// A server that a proxy tells who calls. Its program takes some processor time and gives some bytes.
fn server(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script(
        "program",
        "while [ -e DIR/hold ]; do sleep 0.01; done
         i=0; while [ $i -lt $1 ]; do i=$((i + 1)); done; head -c $2 /dev/zero",
    );
    let slots = "[in val turns:int] [in val bytes:int] > [out file y:raw]";
    let line = format!("name = 'test'\ncommand = './program {slots}'\n");
    std::fs::write(server.path("test.toml"), line).unwrap();
    server.serve(&[&["test.toml", "--user-header", "X-User"], words].concat());
    server
}

fn ask(server: &Server, who: &str, method: &str, path: &str, body: &str) -> Answer {
    ask_with(server, who, method, path, "", body)
}

fn ask_with(
    server: &Server,
    who: &str,
    method: &str,
    path: &str,
    fields: &str,
    body: &str,
) -> Answer {
    let mut stream = connect(server);
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {who}\r\nContent-Type: text/xml\r\n\
         {fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

fn verb(server: &Server, who: &str, verb: &str, children: &str) -> Answer {
    ask(server, who, "POST", "/test", &Version::V11.envelope("", &wrapper(verb, children)))
}

fn run(server: &Server, who: &str, turns: u32, bytes: u32) -> Answer {
    verb(server, who, "call", &format!("<turns>{turns}</turns><bytes>{bytes}</bytes>"))
}

/// What somebody is told of a quota of theirs: used, and the limit.
fn told(server: &Server, who: &str, quota: &str) -> (f64, Option<f64>) {
    let told = ask(server, who, "GET", "/quota", "");
    assert_eq!(told.status, 200, "{told:#?}");
    let told: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told["user"], who);
    let quotas = told["quotas"].as_array().unwrap();
    let of = quotas.iter().find(|it| it["quota"] == quota).unwrap();
    (of["used"].as_f64().unwrap(), of["limit"].as_f64())
}

#[test]
fn who_has_used_up_the_processor_time_begins_nothing_more_and_others_do() {
    let mut server = server(&["--limit", "owner_cpu_time=20ms"]);
    assert_eq!(run(&server, "ada", 300_000, 10).status, 200);
    let refused = run(&server, "ada", 0, 0);
    assert_eq!(refused.text("code"), Some("QuotaExceeded"), "{refused:#?}");
    assert_eq!(refused.limit(), Some("owner_cpu_time"));
    assert!(refused.text("retryAfter").is_some(), "{refused:#?}");
    assert!(refused.body.contains("there is room again on 20"), "{refused:#?}");
    assert_eq!(run(&server, "bob", 0, 0).status, 200);
    let (used, most) = told(&server, "ada", "cpu_time");
    assert!(used >= 0.02 && most == Some(0.02), "{used} {most:?}");

    // Whatever becomes of the server and of the jobs.
    server.kill();
    server.restart();
    assert_eq!(told(&server, "ada", "cpu_time").0, used);
    assert_eq!(run(&server, "ada", 0, 0).limit(), Some("owner_cpu_time"));

    // The operator sees both.
    let data = server.data();
    let words = ["accounts", "--quotas", "--data", data.to_str().unwrap()];
    let all = User::new().json(&[&words[..], &["--limit", "owner_cpu_time=1h"]].concat());
    let ada = &all["accounts"][0];
    assert_eq!((&ada["user"], &ada["quotas"][0]["quota"]), (&"ada".into(), &"cpu_time".into()));
    assert_eq!(ada["quotas"][0]["used"].as_f64(), Some(used));
    assert_eq!(ada["quotas"][0]["limit"], 3600.0);
    let table = User::new().succeed(&words);
    assert!(table.starts_with("user ") && table.contains("\nada "), "{table}");
}

#[test]
fn jobs_that_wait_begin_no_more_once_the_processor_time_is_used_up() {
    let server = server(&["--limit", "owner_cpu_time=20ms", "--limit", "max_running=1"]);
    let spawn = |who: &str, turns: u32| {
        let arguments = format!("<turns>{turns}</turns><bytes>0</bytes>");
        let spawned = verb(&server, who, "spawn", &arguments);
        format!("<job>{}</job>", spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}")))
    };
    // Both are accepted while nothing is used.
    std::fs::write(server.path("hold"), "").unwrap();
    spawn("bob", 0);
    let (long, waits) = (spawn("ada", 1_000_000), spawn("ada", 0));
    std::fs::remove_file(server.path("hold")).unwrap();
    let status = |job: &str| verb(&server, "ada", "status", job);
    until("it is done", || status(&long).text("state") == Some("done"));
    let waiting = status(&waits);
    assert_eq!(waiting.text("state"), Some("queued"), "{waiting:#?}");
    let message = waiting.text("message").unwrap();
    assert!(message.starts_with("waits for processor time: you may have 0.0 s"), "{message}");
    assert_eq!(run(&server, "carl", 0, 0).status, 200);
    assert_eq!(verb(&server, "ada", "kill", &waits).status, 200);
}

#[test]
fn bytes_that_come_and_go_are_bounded_whichever_way_they_take() {
    let server = server(&["--limit", "owner_traffic=1000B"]);
    let text = |length: usize| "x".repeat(length);
    let too_much = ask(&server, "ada", "PUT", "/data/file", &text(1001));
    assert_eq!((too_much.status, too_much.body.contains("owner_traffic")), (413, true));
    let put = ask(&server, "ada", "PUT", "/data/file", &text(600));
    assert_eq!(put.status, 201, "{put:#?}");
    until("it is counted", || told(&server, "ada", "traffic").0 >= 600.0);
    assert_eq!(ask(&server, "ada", "PUT", "/data/file", &text(401)).status, 413);
    assert_eq!(run(&server, "ada", 0, 500).status, 200, "nobody knows what it will give");
    until("it is counted", || told(&server, "ada", "traffic").0 >= 1100.0);
    assert_eq!(run(&server, "ada", 0, 0).limit(), Some("owner_traffic"));
    let grant = put.body.trim();
    let path = &grant[grant.find("/data/").unwrap()..];
    // Whoever reads it, it is hers.
    assert_eq!(ask(&server, "bob", "GET", path, "").status, 413);
    assert_eq!(ask(&server, "bob", "PUT", "/data/file", &text(600)).status, 201);
}

#[test]
fn bytes_count_that_come_in_vain_or_go_again() {
    let server = server(&[]);
    let traffic = |who: &str| told(&server, who, "traffic").0;
    // Whoever begins an upload and leaves.
    let mut stream = connect(&server);
    let head =
        "PUT /data/file HTTP/1.1\r\nHost: localhost\r\nX-User: ada\r\nContent-Length: 1000\r\n\r\n";
    stream.write_all(format!("{head}{}", "x".repeat(600)).as_bytes()).unwrap();
    drop(stream);
    until("it is counted", || traffic("ada") >= 600.0);
    // What is no longer what its sender says.
    let wrong = format!("Content-Digest: sha-256=:{}=:\r\n", "A".repeat(43));
    assert_eq!(ask_with(&server, "bob", "PUT", "/data/file", &wrong, &"x".repeat(700)).status, 422);
    until("it is counted", || traffic("bob") >= 700.0);

    // Results that are asked for again: by their ID, and by the key of the call.
    let arguments = "<turns>0</turns><bytes>500</bytes>";
    let spawned = verb(&server, "carl", "spawn", arguments);
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it is done", || verb(&server, "carl", "status", &job).text("state") == Some("done"));
    let job_alone = traffic("carl");
    // What was refused was not given.
    let delivered = "<e:Header><outputs xmlns=\"urn:fishplate:options:1\">\
        <output name=\"y\" to=\"mailto:a@example.org\"/></outputs></e:Header>";
    let refused = Version::V11.envelope(delivered, &wrapper("results", &job));
    ask(&server, "carl", "POST", "/test", &refused).assert_fault(Version::V11, "NotSupported");
    for again in 0..3_u32 {
        assert_eq!(verb(&server, "carl", "results", &job).status, 200);
        let all = job_alone + f64::from(again) * 500.0;
        until("it is counted", || traffic("carl") >= all);
        assert_eq!(traffic("carl"), all);
    }
    let keyed = Version::V11.envelope(&key_header("once"), &wrapper("call", arguments));
    assert_eq!(ask(&server, "dora", "POST", "/test", &keyed).status, 200);
    let call_alone = traffic("dora");
    assert_eq!(ask(&server, "dora", "POST", "/test", &keyed).status, 200);
    until("it is counted", || traffic("dora") == call_alone + 500.0);

    // A session's file, whoever reads it; and what of it was not sent does not count.
    let in_session = |operation: &str, children: &str| {
        let body =
            format!("<{operation} xmlns=\"urn:fishplate:session:1\">{children}</{operation}>");
        ask(&server, "eve", "POST", "/session", &Version::V11.envelope("", &body))
    };
    let opened = in_session("open", "");
    let id = opened.text("session").unwrap();
    let header =
        format!("<e:Header><session xmlns=\"urn:fishplate:options:1\">{id}</session></e:Header>");
    let call = Version::V11.envelope(&header, &wrapper("call", arguments));
    assert_eq!(ask(&server, "eve", "POST", "/test", &call).status, 200);
    let files = in_session("files", &format!("<session>{id}</session>"));
    let url = files.text("url").unwrap();
    let path = &url[url.find("/session/").unwrap()..];
    until("it is counted", || traffic("eve") >= 500.0);
    let job_alone = traffic("eve");
    for (range, counted) in [("", 500.0), ("Range: bytes=0-9\r\n", 510.0)] {
        assert!(ask_with(&server, "frank", "GET", path, range, "").status < 300);
        until("it is counted", || traffic("eve") == job_alone + counted);
    }
}

#[test]
fn jobs_and_data_share_one_disk() {
    let server = server(&["--limit", "owner_disk=1MiB"]);
    let put = ask(&server, "ada", "PUT", "/data/file", &"x".repeat(700_000));
    assert_eq!(put.status, 201, "{put:#?}");
    let spawned = verb(&server, "ada", "spawn", "<turns>0</turns><bytes>600000</bytes>");
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it is done", || verb(&server, "ada", "status", &job).text("state") == Some("done"));
    assert!(told(&server, "ada", "disk").0 >= 1_300_000.0);
    for refused in
        [run(&server, "ada", 0, 0), ask(&server, "ada", "PUT", "/data/file", &"y".repeat(100_000))]
    {
        assert!(refused.body.contains("owner_disk"), "{refused:#?}");
    }
    assert_eq!(run(&server, "bob", 0, 0).status, 200);
    // What she does without makes room, for either.
    assert_eq!(verb(&server, "ada", "remove", &job).status, 200);
    let more = ask(&server, "ada", "PUT", "/data/file", &"y".repeat(100_000));
    assert_eq!(more.status, 201, "{more:#?}");
    assert_eq!(run(&server, "ada", 0, 0).status, 200);
}

#[test]
fn a_policy_says_otherwise_and_a_change_holds_at_once() {
    let mut server = Server::prepare();
    server.script("program", "sleep 0");
    let policy = server.path("policy.toml");
    let write = |of_ada: &str| {
        let allow = "[[allow]]\nwho = '@anybody'\n";
        let text = format!("{allow}[[quota]]\nwho = 'ada'\ntraffic = '{of_ada}'\n");
        let new = policy.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &policy).unwrap();
    };
    write("1B");
    let words = ["--user-header", "X-User", "--policy", policy.to_str().unwrap()];
    let line = ["-n", "test", "--", "./program", "[in val x:string]"];
    server.serve(&[&words[..], &["--limit", "owner_traffic=3B"], &line].concat());
    let call = |who: &str| verb(&server, who, "call", "<x>ab</x>");
    assert_eq!(call("ada").limit(), Some("owner_traffic"));
    assert_eq!(told(&server, "ada", "traffic").1, Some(1.0));
    assert_eq!(call("bob").status, 200);
    until("it is counted", || call("bob").limit() == Some("owner_traffic"));
    write("none");
    assert_eq!((0..3).map(|_| call("ada").status).collect::<Vec<_>>(), [200; 3]);
    assert_eq!(told(&server, "ada", "traffic").1, None);
}

#[test]
fn users_ask_for_what_they_may_have() {
    let mut server = Server::prepare();
    server.serve(&["--builtin", "matrix", "--limit", "owner_cpu_time=90m"]);
    let table = User::new().succeed(&["quota", server.url()]);
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["quota", "used", "of"]);
    assert_eq!(lines[1], ["cpu_time", "0.0", "s", "1.5", "h", "in", "30", "days"]);
    assert_eq!(lines[3], ["disk", "0", "B", "-"]);
    let told = User::new().json(&["quota", server.url()]);
    assert_eq!((&told["user"], &told["quotas"][0]["limit"]), (&"".into(), &5400.0.into()));
}
