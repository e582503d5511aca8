//! Who is let in: users and tokens, on every address of a server that asks who calls.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::SigningKey as _;
use serde_json::{Value, json};

use crate::curl::curl;
use crate::run::{Said, User, ended};
use crate::server::{FISHPLATE, Server, until};
use crate::soap::{Answer, Version, answer, connect, wrapper};

/// Whoever operates the server, and a server of one service that lets in who logs in.
pub(crate) struct Site {
    pub(crate) server: Server,
    operator: User,
    data: String,
}

impl Site {
    pub(crate) fn new(words: &[&str]) -> Self {
        let mut server = Server::prepare();
        server.script("program", "echo run >> DIR/runs; echo $((${1:-1} + 1))");
        let data = server.data().to_str().unwrap().to_owned();
        let slots = ["-n", "test", "--", "./program", "[in val x:int]", ">", "[out file y:int]"];
        server.serve(&[&["--login"], words, &slots].concat());
        Self { server, operator: User::new(), data }
    }

    /// A command of the operator.
    fn operate(&self, words: &[&str]) -> Said {
        self.operator.run(&[words, &["--data", &self.data]].concat())
    }

    fn user(&self, verb: &str, name: &str, password: &str) -> Said {
        let words = ["user", verb, name, "--password-stdin", "--data", &self.data];
        let (child, mut input) = self.operator.start_with_input(&words);
        // A command that refuses reads nothing.
        let _ = input.write_all(password.as_bytes());
        drop(input);
        ended(child)
    }

    pub(crate) fn add(&self, name: &str, password: &str) {
        let said = self.user("add", name, password);
        assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{said:?}");
    }

    /// A new token of a user.
    pub(crate) fn token(&self, words: &[&str]) -> String {
        let said = self.operate(&[&["token", "create"], words].concat());
        let (token, rest) = said.stdout.split_once('\n').unwrap_or_default();
        assert!(said.code == 0 && rest.is_empty() && token.starts_with("fishplate_"), "{said:?}");
        token.to_owned()
    }

    fn root(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The answer to a request with these further fields.
    pub(crate) fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let mut stream = connect(&self.server);
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n{fields}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream)
    }

    pub(crate) fn with_token(&self, path: &str, token: &str) -> u16 {
        self.ask("GET", path, &format!("Authorization: Bearer {token}\r\n"), "").status
    }

    pub(crate) fn with_password(&self, name: &str, password: &str) -> u16 {
        curl(&["--user", &format!("{name}:{password}"), self.server.url()]).status
    }
}

/// The status of the next answer on a connection that goes on.
fn next_status(stream: &mut TcpStream) -> u16 {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| line != "\r\n") {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it ended: {lines:?}");
        lines.push(line);
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    lines[0].split(' ').nth(1).unwrap().parse().unwrap()
}

/// A call of the service.
fn call() -> String {
    Version::V11.envelope("", &wrapper("call", "<x>1</x>"))
}

#[test]
fn every_address_asks_who_calls_in_the_form_of_what_was_asked_for() {
    let site = Site::new(&[]);
    let call = call();
    for (method, path, body) in [
        ("GET", "/", ""),
        ("HEAD", "/", ""),
        ("GET", "/metrics", ""),
        ("GET", "/test", ""),
        ("GET", "/test?wsdl", ""),
        ("POST", "/test", &call),
        ("GET", "/session", ""),
        ("POST", "/session", &call),
        ("GET", "/nothing", ""),
        ("POST", "/nothing", &call),
        ("DELETE", "/test", ""),
        ("PUT", "/data/file", "x"),
        ("POST", "/data/", ""),
        ("OPTIONS", "/data/", ""),
        ("HEAD", "/data/", ""),
        ("DELETE", "/data/TOKEN/file", ""),
    ] {
        for fields in ["", "Authorization: Bearer fishplate_0\r\n", "Authorization: Basic eDp5\r\n"]
        {
            let refused = site.ask(method, path, fields, body);
            assert_eq!(refused.status, 401, "{method} {path} {fields}: {refused:#?}");
            for challenge in ["bearer realm=\"fishplate\"", "basic realm=\"fishplate\", charset="] {
                assert!(
                    refused.head.contains(&format!("www-authenticate: {challenge}")),
                    "{refused:#?}"
                );
            }
            if method == "POST" && path != "/data/" {
                assert_eq!(refused.text("code"), Some("Unauthenticated"), "{refused:#?}");
            } else if method != "HEAD" {
                assert!(refused.body.starts_with("Unauthenticated: "), "{refused:#?}");
            }
        }
    }
    assert_eq!(site.server.runs(), 0);
    let refused = site.ask("PUT", "/data/file", "Accept: application/json\r\n", "x");
    assert!(refused.body.contains("\"code\":\"Unauthenticated\""), "{refused:#?}");
}

#[test]
fn a_user_logs_in_with_a_password_as_long_as_it_is_the_password() {
    let site = Site::new(&[]);
    assert_eq!(site.with_password("ada", "lovelace"), 401);
    site.add("ada", "lovelace\n");
    site.add("zoë", "päss:word");
    for (name, password, status) in [
        ("ada", "lovelace", 200),
        ("zoë", "päss:word", 200),
        ("ada", "Lovelace", 401),
        ("ada", "", 401),
        ("zoë", "lovelace", 401),
        ("bob", "lovelace", 401),
    ] {
        assert_eq!(site.with_password(name, password), status, "{name} {password}");
    }
    let call = ["--user", "ada:lovelace", "--header", "Content-Type: text/xml", "--data", &call()];
    let called = curl(&[&call[..], &[site.server.url()]].concat());
    assert!(called.status == 200 && called.text().contains(">2<"), "{called:?}");
    assert_eq!(site.operate(&["user", "list"]).stdout, "ada\nzoë\n");

    // What is changed holds for the next request.
    assert_eq!(site.user("password", "ada", "countess").code, 0);
    assert_eq!(site.with_password("ada", "lovelace"), 401);
    assert_eq!(site.with_password("ada", "countess"), 200);
    assert_eq!(site.operate(&["user", "remove", "ada"]).code, 0);
    assert_eq!(site.with_password("ada", "countess"), 401);

    for (said, told) in [
        (site.user("add", "zoë", "other"), "fishplate user password zoë"),
        (site.user("password", "ada", "other"), "there is no user ada"),
        (site.user("add", "a:b", "other"), "is no user's name"),
        (site.user("add", "carl", ""), "standard input holds nothing"),
        (site.operate(&["user", "remove", "ada"]), "there is no user ada"),
        (site.operate(&["user", "add", "carl"]), "--password-stdin"),
    ] {
        assert!(said.code == 2 && said.stderr.contains(told), "{told}: {said:?}");
    }
    let files = [site.server.data().join("users"), site.server.data().join("tokens")];
    let log = site.server.log();
    for text in files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()) {
        for secret in ["lovelace", "countess", "päss"] {
            assert!(!text.contains(secret) && !log.contains(secret), "{secret}: {text}{log}");
        }
    }
}

/// A token that an identity provider has signed with its key, and that key as it publishes it.
fn issued(claims: &Value) -> (String, Value) {
    let base64 = |bytes: &[u8]| base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes);
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let head = json!({ "alg": "EdDSA", "kid": "1" });
    let message = [head, claims.clone()].map(|part| base64(part.to_string().as_bytes())).join(".");
    let signature = pair.sign(message.as_bytes()).unwrap();
    let point = base64(pair.public_key_raw());
    let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "1", "x": point });
    (format!("{message}.{}", base64(&signature)), key)
}

#[test]
fn a_json_web_token_of_an_identity_provider_logs_in_beside_users_of_our_own() {
    let operator = User::new();
    let issuer = "https://id.example/lab";
    let claims = json!({ "iss": issuer, "aud": "heat", "name": "ada", "exp": 4_102_444_800_u64 });
    let (token, key) = issued(&claims);
    operator.write("keys", json!({ "keys": [key] }).to_string().as_bytes());
    let keys = operator.path("keys");
    let site = Site::new(&[
        "--jwt-issuer",
        issuer,
        "--jwt-audience",
        "heat",
        "--jwt-user",
        "name",
        "--jwt-keys",
        keys.to_str().unwrap(),
    ]);
    assert_eq!(site.with_token("/test?wsdl", &token), 200);
    assert_eq!(site.with_token("/test?wsdl", &issued(&claims).0), 401, "another's key");
    site.add("ada", "secret of ada");
    assert_eq!(site.with_token("/test?wsdl", &site.token(&["--user", "ada"])), 200);
    // Whose job it is does not depend on how they said who they are.
    operator.write("token", token.as_bytes());
    let url = format!("{}/test", site.root());
    let spawned = operator.run(&["spawn", &url, "x=1", "--token-file", "token"]);
    assert_eq!(spawned.code, 0, "{spawned:?}");
    let own = site.token(&["--user", "ada"]);
    operator.write("own", own.as_bytes());
    let jobs = operator.json(&["jobs", &url, "--token-file", "own"]);
    assert_eq!(jobs["jobs"][0]["job"], spawned.stdout.trim(), "{jobs:#}");
}

#[test]
fn a_token_logs_in_until_it_ends_or_is_revoked() {
    let site = Site::new(&[]);
    let token = site.token(&["--user", "ada", "--expires", "90d"]);
    assert_eq!(site.with_token("/test", &token), 200);
    assert_eq!(site.with_token("/metrics", &token), 200);
    assert_eq!(site.with_token("/test", &token[..token.len() - 1]), 401);
    let listed = site.operate(&["token", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let told = &listed["tokens"][0];
    assert_eq!((&told["user"], &told["services"]), (&json!("ada"), &json!([])));
    let id = told["id"].as_str().unwrap();
    let kept = std::fs::read_to_string(site.server.data().join("tokens")).unwrap();
    assert!(!kept.contains(token.trim_start_matches("fishplate_")), "{kept}");

    // The connection that it was used on is no way around.
    let mut stream = connect(&site.server);
    let get = format!("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(get.as_bytes()).unwrap();
    assert_eq!(next_status(&mut stream), 200);
    assert_eq!(site.operate(&["token", "revoke", id]).code, 0);
    stream.write_all(get.as_bytes()).unwrap();
    assert_eq!(next_status(&mut stream), 401);
    assert_eq!(site.operate(&["token", "revoke", id]).code, 2);

    let short = site.token(&["--user", "ada", "--expires", "1500ms"]);
    assert_eq!(site.with_token("/", &short), 200);
    until("it has ended", || site.with_token("/", &short) == 401);

    // Who is removed has no tokens any more.
    let robot = site.token(&["--user", "robot"]);
    assert_eq!(site.with_token("/", &robot), 200);
    assert_eq!(site.operate(&["user", "remove", "robot"]).code, 0);
    assert_eq!(site.with_token("/", &robot), 401);
}

#[test]
fn a_transfer_that_has_begun_is_finished_though_its_token_is_revoked() {
    let site = Site::new(&[]);
    let token = site.token(&["--user", "ada"]);
    let put = |length: usize, fields: &str| {
        format!(
            "PUT /data/file HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             {fields}Content-Length: {length}\r\n\r\n"
        )
    };
    let mut stream = connect(&site.server);
    stream.write_all(put(2, "Expect: 100-continue\r\n").as_bytes()).unwrap();
    // Told as soon as it is known who sends.
    let mut told = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut told).unwrap();
    stream.write_all(b"x").unwrap();
    let listed: Value =
        serde_json::from_str(&site.operate(&["token", "list", "--json"]).stdout).unwrap();
    assert_eq!(
        site.operate(&["token", "revoke", listed["tokens"][0]["id"].as_str().unwrap()]).code,
        0
    );
    stream.write_all(b"x").unwrap();
    assert_eq!(next_status(&mut stream), 201);
    stream.write_all(put(0, "").as_bytes()).unwrap();
    assert_eq!(next_status(&mut stream), 401, "the next one is not begun");
}

#[test]
fn a_token_for_a_service_is_good_for_nothing_else() {
    let site = Site::new(&[]);
    let token = site.token(&["--user", "ada", "--service", "test", "--service", "data"]);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(site.ask("POST", "/test", &bearer, &call()).status, 200);
    assert_eq!(site.ask("PUT", "/data/file", &bearer, "x").status, 201);
    let refused = site.ask("POST", "/session", &bearer, &call());
    assert_eq!((refused.status, refused.text("code")), (403, Some("Forbidden")), "{refused:#?}");
    assert!(!refused.head.contains("www-authenticate"), "{refused:#?}");
    for path in ["/", "/metrics", "/session", "/other"] {
        assert_eq!(site.with_token(path, &token), 403, "{path}");
    }
}

#[test]
fn users_have_jobs_of_their_own_and_a_grant_is_for_whoever_has_it() {
    let site = Site::new(&[]);
    let [ada, bob] = ["ada", "bob"]
        .map(|name| format!("Authorization: Bearer {}\r\n", site.token(&["--user", name])));
    let post = |who: &str, verb: &str, children: &str| {
        let body = Version::V11.envelope("", &wrapper(verb, children));
        site.ask("POST", "/test", who, &body)
    };
    let spawned = post(&ada, "spawn", "<x>1</x>");
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it is done", || post(&ada, "status", &job).text("state") == Some("done"));
    for verb in ["status", "results", "kill", "log", "remove"] {
        assert_eq!(post(&bob, verb, &job).text("code"), Some("NoSuchJob"), "{verb}");
    }
    assert!(post(&bob, "jobs", "").text("job").is_none());
    let put = site.ask("PUT", "/data/file", &ada, "contents");
    let url = put.body.trim();
    let path = &url[url.find("/data/").unwrap()..];
    assert_eq!(site.ask("GET", path, "", "").body, "contents");
    assert_eq!(site.ask("GET", path, "Authorization: Bearer expired\r\n", "").status, 200);
    assert_eq!(site.ask("DELETE", path, &bob, "").status, 404);
    assert_eq!(site.ask("DELETE", path, &ada, "").status, 204);
}

#[test]
fn a_thousand_wrong_passwords_are_slowed_down_and_leave_a_line_in_the_log() {
    let mut site = Site::new(&["--limit", "login_failures=3", "--limit", "login_delay=1h"]);
    site.add("ada", "right");
    assert_eq!(site.with_password("ada", "right"), 200);
    let mut looked_at = 0;
    for number in 0..1000 {
        // "ada:" and six digits, in base64.
        let told = base64_simd::STANDARD.encode_to_string(format!("ada:{number:06}"));
        let refused = site.ask("GET", "/", &format!("Authorization: Basic {told}\r\n"), "");
        assert_eq!(refused.status, 401, "{refused:#?}");
        looked_at += usize::from(!refused.head.contains("retry-after:"));
    }
    assert_eq!(looked_at, 3);
    assert_eq!(site.with_password("ada", "right"), 200, "who is logged in is not concerned");
    let elsewhere = |password: &str| {
        let user = format!("ada:{password}");
        curl(&["--interface", "127.0.0.2", "--user", &user, site.server.url()]).status
    };
    let guesses = ["a", "b", "c", "right"].map(elsewhere);
    assert_eq!(guesses, [401; 4], "what is remembered tells a stranger nothing");
    until("the log has it", || site.server.log().contains("refused"));
    let log = site.server.log();
    assert!((1..=3).contains(&log.matches("refused").count()), "{log}");

    // /metrics counts them, and the audit log once it is written out.
    let metrics = curl(&["--user", "ada:right", &format!("{}/metrics", site.root())]);
    let counted = "fishplate_requests_refused_total{status=\"401\"} 1004";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    site.server.stop();
    let refused = audit(&site.server, "refusal");
    assert!(refused.len() <= 8, "{refused:#?}");
    let times = refused.iter().map(|line| line["times"].as_u64().unwrap_or(1));
    assert_eq!(times.sum::<u64>(), 1004, "{refused:#?}");
    assert!(refused.iter().all(|line| line["user"] == "ada"), "{refused:#?}");
    assert!(refused.iter().any(|line| line["address"] == "127.0.0.2"), "{refused:#?}");
}

/// The events of a kind in the audit log.
pub(crate) fn audit(server: &Server, event: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

#[test]
fn who_logged_in_and_what_was_changed_is_noted_and_no_secret() {
    let mut site = Site::new(&[]);
    site.add("ada", "lovelace");
    assert_eq!(site.user("password", "ada", "countess").code, 0);
    let token = site.token(&["--user", "bob"]);
    for _ in 0..3 {
        assert_eq!(site.with_password("ada", "countess"), 200);
        assert_eq!(site.with_token("/", &token), 200);
    }
    // A password in place of a name is nobody's name.
    assert_eq!(site.with_password("lovelace", "ada"), 401);
    let listed = site.operate(&["token", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed["tokens"][0]["id"].as_str().unwrap();
    assert_eq!(site.operate(&["token", "revoke", id]).code, 0);
    assert_eq!(site.with_token("/", &token), 401);
    assert_eq!(site.operate(&["user", "remove", "ada"]).code, 0);
    site.server.stop();
    let logins: Vec<_> = audit(&site.server, "login")
        .iter()
        .map(|line| (line["user"].clone(), line["what"].clone(), line["times"].clone()))
        .collect();
    for (user, what) in [("ada", "password"), ("bob", "token")] {
        for times in [json!(null), json!(2)] {
            assert!(logins.contains(&(json!(user), json!(what), times)), "{logins:?}");
        }
    }
    assert_eq!(logins.len(), 4);
    assert_eq!(audit(&site.server, "refusal").len(), 2);
    let changes = audit(&site.server, "change");
    let whats: Vec<_> = changes.iter().map(|line| line["what"].as_str().unwrap()).collect();
    let wanted = [
        "user ada was added".to_owned(),
        "user ada got another password".to_owned(),
        format!("token {id} of bob was made"),
        format!("token {id} was revoked"),
        "user ada was removed, and 0 tokens".to_owned(),
    ];
    assert_eq!(whats, wanted);
    let file = site.server.data().join("audit.log");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    for secret in ["lovelace", "countess", &token] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn wrong_passwords_count_for_where_a_proxy_of_ours_says_that_they_come_from() {
    for (proxy, told) in [("127.0.0.1", true), ("192.0.2.1", false)] {
        let limits = ["--limit", "login_failures=2", "--limit", "login_delay=1h"];
        let site = Site::new(&[&limits[..], &["--proxy", proxy]].concat());
        site.add("ada", "right");
        let try_from = |address: &str, password: &str| {
            let basic = base64_simd::STANDARD.encode_to_string(format!("ada:{password}"));
            let fields = format!("Authorization: Basic {basic}\r\nX-Forwarded-For: {address}\r\n");
            site.ask("GET", "/", &fields, "").status
        };
        for password in ["a", "b", "right"] {
            assert_eq!(try_from("198.51.100.1", password), 401);
        }
        let elsewhere = if told { 200 } else { 401 };
        assert_eq!(try_from("198.51.100.2", "right"), elsewhere, "{proxy}");
    }
}

#[test]
fn what_is_no_credential_is_refused() {
    let site = Site::new(&[]);
    let token = site.token(&["--user", "ada"]);
    let twice = format!("Authorization: Bearer {token}\r\n").repeat(2);
    assert_eq!(site.ask("GET", "/", &twice, "").status, 401);
    for wrong in
        ["Bearer", "Bearer ", "Basic", "Basic !!", "Basic YQ==", "Basic /w==", "Digest a", ""]
    {
        let refused = site.ask("GET", "/", &format!("Authorization: {wrong}\r\n"), "");
        assert_eq!(refused.status, 401, "{wrong}: {refused:#?}");
    }
    let long = format!("Authorization: Bearer {}\r\n", "a".repeat(64 << 10));
    let refused = site.ask("POST", "/test", &long, &call());
    assert_eq!((refused.status, refused.limit()), (401, Some("credentials_size")), "{refused:#?}");
    assert_eq!(site.with_token("/", &token), 200);
    let scheme = format!("Authorization: bEARER {token}\r\n");
    assert_eq!(site.ask("GET", "/", &scheme, "").status, 200);
}

#[test]
fn a_file_of_users_that_cannot_be_read_lets_nobody_in_until_it_can() {
    let mut site = Site::new(&[]);
    site.add("ada", "right");
    let file = site.server.data().join("users");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}half a li")).unwrap();
    for _ in 0..3 {
        let refused = curl(&["--user", "ada:right", &site.root()]);
        assert_eq!(refused.status, 500, "{refused:?}");
    }
    until("the log has it", || site.server.log().contains("line 2 of"));
    let log = site.server.log();
    assert_eq!(log.matches("line 2 of").count(), 1, "{log}");
    site.server.stop();
    let said =
        site.operate(&["serve", "--login", "--builtin", "matrix", "--listen", "127.0.0.1:0"]);
    assert!(said.code != 0 && said.stderr.contains("line 2 of"), "{said:?}");
    std::fs::write(&file, good).unwrap();
    site.server.restart();
    assert_eq!(site.with_password("ada", "right"), 200);
}

#[test]
fn a_backup_holds_who_may_log_in() {
    let mut site = Site::new(&[]);
    site.add("ada", "right");
    let token = site.token(&["--user", "bob"]);
    let backup = site.operator.path("backup").to_str().unwrap().to_owned();
    assert_eq!(site.operate(&["backup", &backup]).code, 0);
    site.server.stop();
    let data = site.server.data();
    std::fs::remove_dir_all(&data).unwrap();
    let said = site.operate(&["restore", &backup]);
    assert_eq!(said.code, 0, "{said:?}");
    site.server.restart();
    assert_eq!((site.with_password("ada", "right"), site.with_token("/", &token)), (200, 200));
    for file in ["users", "tokens"] {
        for place in [data.join(file), Path::new(&backup).join(file)] {
            assert_eq!(std::fs::metadata(place).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn a_port_that_others_reach_is_not_opened_by_mistake() {
    let user = User::new();
    let data = user.path("data");
    let words = ["serve", "--builtin", "matrix", "--data", data.to_str().unwrap(), "--listen"];
    let serve = |more: &[&str]| user.run(&[&words[..], more].concat());
    let said = serve(&["0.0.0.0:0"]);
    assert_eq!(said.code, 2, "{said:?}");
    for way in ["--login", "--user-header", "--open"] {
        assert!(said.stderr.contains(way), "{said:?}");
    }
    let said = serve(&["127.0.0.1:0", "--login", "--user-header", "X-User"]);
    assert!(said.code == 2 && said.stderr.contains("--proxy"), "{said:?}");
    let said = serve(&["0.0.0.0:0", "--user-header", "X-User"]);
    assert!(said.code == 2 && said.stderr.contains("--proxy"), "{said:?}");
    assert_eq!(serve(&["127.0.0.1:0", "--login", "--open"]).code, 2);
    for more in [
        &["--open"][..],
        &["--login"],
        &["--user-header", "X-User", "--proxy", "192.0.2.1"],
        &["--user-header", "X-User", "--open"],
    ] {
        let mut child = user.start(&[&words[..], &["0.0.0.0:0"], more].concat());
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("matrix http://"), "{more:?}: {line}");
    }
}

#[test]
fn a_proxy_names_callers_from_where_it_is_and_others_log_in() {
    for (proxy, named) in [("127.0.0.0/8", 200), ("192.0.2.1", 401)] {
        let site = Site::new(&["--user-header", "X-User", "--proxy", proxy]);
        let token = site.token(&["--user", "ada"]);
        assert_eq!(site.ask("GET", "/", "X-User: bob\r\n", "").status, named, "{proxy}");
        assert_eq!(site.with_token("/", &token), 200, "{proxy}");
        let neither = site.ask("GET", "/", "", "");
        assert!(neither.status == 401 && neither.body.contains("X-User"), "{neither:#?}");
    }
}

/// Variables of the environment, and words of the command line.
type Way<'w> = (Vec<(&'w str, &'w str)>, Vec<&'w str>);

/// How a user of the command line says who they are.
fn ways<'w>(token: &'w str, file: &'w str) -> [Way<'w>; 3] {
    [
        (vec![("FISHPLATE_TOKEN", token)], vec![]),
        (vec![], vec!["--token-file", file]),
        (vec![("FISHPLATE_PASSWORD", "lovelace")], vec!["--user", "ada"]),
    ]
}

#[test]
fn every_command_of_the_client_logs_in() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let token = site.token(&["--user", "ada"]);
    let (user, url, root) = (User::new(), site.server.url(), site.root());
    user.write("token", format!("{token}\n"));
    user.write("file", "contents");
    let file = user.path("token");
    for (variables, words) in ways(&token, file.to_str().unwrap()) {
        let run = |command: &[&str]| user.run_in(&variables, &[command, &words].concat());
        let succeed = |command: &[&str]| {
            let said = run(command);
            assert_eq!(said.code, 0, "{words:?} {command:?}: {said:?}");
            said.stdout.trim().to_owned()
        };
        assert_eq!(succeed(&["call", url, "x=1"]), "y: 2");
        let job = succeed(&["spawn", url, "x=2"]);
        for command in ["wait", "status", "results", "log", "remove"] {
            succeed(&[command, url, &job]);
        }
        succeed(&["usage", url]);
        succeed(&["wsdl", url]);
        succeed(&["jobs", url]);
        let session = succeed(&["session", "open", &root]);
        succeed(&["session", "close", &root, &session]);
        let reference = succeed(&["put", "file", "--to", &root]);
        assert_eq!(user.succeed(&["get", &reference, "-o", "-"]), "contents");
        succeed(&["revoke", &reference]);
    }
    for command in [
        &["call", url, "x=1"][..],
        &["jobs", url],
        &["put", "file", "--to", &root],
        &["session", "open", &root],
    ] {
        let said = user.run(command);
        assert_eq!(said.code, 3, "{command:?}: {said:?}");
        assert!(said.stderr.contains("fishplate login"), "{said:?}");
        let said = user.run(&[command, &["--json"]].concat());
        let error: Value = serde_json::from_str(&said.stderr).unwrap();
        assert_eq!(error["error"]["code"], "Unauthenticated", "{said:?}");
    }
}

#[test]
fn a_login_is_kept_for_its_server_where_only_its_user_can_read_it() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let token = site.token(&["--user", "ada"]);
    let (user, url, root) = (User::new(), site.server.url(), site.root());
    let login = |words: &[&str], secret: &str| {
        let (child, mut input) = user.start_with_input(&[&["login"], words].concat());
        let _ = input.write_all(secret.as_bytes());
        drop(input);
        ended(child)
    };
    let wrong = login(&[&root, "--token-stdin"], "fishplate_wrong");
    assert!(wrong.code == 2 && wrong.stderr.contains("not logged in"), "{wrong:?}");
    assert_eq!(user.run(&["call", url, "x=1"]).code, 3);
    for (words, secret) in [
        (&[&root, "--token-stdin"][..], token.as_str()),
        (&[url, "--user", "ada", "--password-stdin"], "lovelace"),
    ] {
        let said = login(words, secret);
        assert!(said.code == 0 && !said.stderr.contains(secret), "{said:?}");
        assert_eq!(user.succeed(&["call", url, "x=1"]), "y: 2\n");
        user.succeed(&["logout", &root]);
        assert_eq!(user.run(&["call", url, "x=1"]).code, 3);
    }
    assert_eq!(user.run(&["logout", &root]).code, 2);
    let said = login(&["http://127.0.0.1:1", "--token-stdin"], "x");
    assert_eq!(said.code, 6, "{said:?}");
    // Nothing is known of who is let in there.
    for status in ["302 Found\r\nLocation: /home", "403 Forbidden", "503 Service Unavailable"] {
        let (other, asked) = answering(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        let said = login(&[&other, "--token-stdin"], "x");
        asked.join().unwrap();
        assert!(said.code != 0 && !said.stderr.contains("logged in at"), "{status}: {said:?}");
    }
}

#[test]
fn who_logged_in_at_the_address_they_know_is_let_in_whatever_the_server_calls_itself() {
    let mut server = Server::prepare();
    server.script("program", "echo $(($1 + 1))");
    let slots = ["-n", "test", "--", "./program", "[in val x:int]", ">", "[out file y:int]"];
    server.serve_behind("http://localhost:1/", &[&["--login"], &slots[..]].concat());
    let site =
        Site { data: server.data().to_str().unwrap().to_owned(), server, operator: User::new() };
    let token = site.token(&["--user", "ada"]);
    let (user, url) = (User::new(), format!("{}/test", site.root()));
    let (child, mut input) = user.start_with_input(&["login", &site.root(), "--token-stdin"]);
    input.write_all(token.as_bytes()).unwrap();
    drop(input);
    assert_eq!(ended(child).code, 0);
    assert_eq!(user.succeed(&["call", &url, "x=1"]), "y: 2\n");
    let job = user.succeed(&["spawn", &url, "x=2"]);
    user.succeed(&["wait", &url, job.trim()]);
    user.succeed(&["results", &url, job.trim()]);
}

#[test]
fn a_password_is_asked_for_once() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let user = User::new();
    let command = format!("{FISHPLATE} call {} x=1 --user ada", site.server.url());
    let mut child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("HOME", user.path(""))
        .env("XDG_CONFIG_HOME", user.path(""))
        .env_remove("FISHPLATE_PASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"lovelace\nlovelace\n").unwrap();
    let said = ended(child);
    assert_eq!(said.stdout.matches("Password of ada").count(), 1, "{said:?}");
    assert!(said.stdout.contains("y: 2"), "{said:?}");
}

#[test]
fn netrc_logs_in_as_it_does_for_curl() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let user = User::new();
    user.write("netrc", "machine 127.0.0.1 login ada password lovelace\n");
    let file = user.path("netrc");
    let file = file.to_str().unwrap();
    let said = user.run_in(&[("NETRC", file)], &["call", site.server.url(), "x=1"]);
    assert_eq!(said.stdout, "y: 2\n", "{said:?}");
    assert_eq!(curl(&["--netrc-file", file, site.server.url()]).status, 200);
    user.write("netrc", "machine 127.0.0.1 login ada passwordlovelace\n");
    let said = user.run_in(&[("NETRC", file)], &["call", site.server.url(), "x=1"]);
    assert!(said.code != 0 && !said.stderr.contains("lovelace"), "{said:?}");
}

/// A server that answers every request with this, and what it was sent.
fn answering(answer: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(head).unwrap()
    });
    (url, serving)
}

#[test]
fn a_redirect_takes_nobodys_credential_along() {
    let (elsewhere, stranger) = answering("HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n".to_owned());
    let (home, first) = answering(format!(
        "HTTP/1.1 302 F\r\nLocation: {elsewhere}/test?wsdl\r\nContent-Length: 0\r\n\r\n"
    ));
    let user = User::new();
    let url = format!("{home}/test");
    let said = user.run_in(&[("FISHPLATE_TOKEN", "secret-token")], &["wsdl", &url]);
    assert_ne!(said.code, 0);
    assert!(!said.stderr.contains("secret"), "{said:?}");
    let (first, stranger) = (first.join().unwrap(), stranger.join().unwrap());
    assert!(first.to_lowercase().contains("authorization: bearer secret-token"), "{first}");
    assert!(!stranger.to_lowercase().contains("authorization"), "{stranger}");
}

#[test]
fn a_password_in_an_address_is_refused_and_never_repeated() {
    let user = User::new();
    user.write("file", "contents");
    let url = "http://ada:lovelace@127.0.0.1:1/test";
    for command in [
        &["call", url, "x=1"][..],
        &["spawn", url],
        &["usage", url],
        &["jobs", url],
        &["wait", url, "000102030405060708090a0b0c0d0e0f"],
        &["wsdl", url],
        &["put", "file", "--to", url],
        &["get", url],
        &["get", "ftp://ada:lovelace@127.0.0.1:1/x"],
        &["get", "strange://ada:lovelace@127.0.0.1:1/x"],
        &["revoke", url],
        &["session", "open", url],
        &["login", url, "--token-stdin"],
        &["logout", url],
        &["call", "http://127.0.0.1:1/", "--address", url],
        &["call", "http://127.0.0.1:1/", "--user", "ada:lovelace"],
    ] {
        for json in [&[][..], &["--json"]] {
            let said = user.run(&[command, json].concat());
            assert_ne!(said.code, 0, "{command:?}");
            let told = format!("{}{}", said.stdout, said.stderr);
            assert!(!told.contains("lovelace"), "{command:?}: {told}");
        }
    }
}
