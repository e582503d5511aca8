//! Who may do what: two users against each other, and against a policy, on every verb and address.

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::run::{Said, User};
use crate::server::{Server, until};
use crate::soap::{Answer, Version, answer, connect, wrapper};

/// A server that a proxy tells who calls, with two services of one program.
struct Site {
    server: Server,
    operator: User,
}

impl Site {
    /// With this policy, if there is one.
    fn new(policy: Option<&str>) -> Self {
        let site = Self { server: Server::prepare(), operator: User::new() };
        let mut site = site;
        site.server.script("program", "cat $1");
        for name in ["heat", "mesh"] {
            let slots = "[in file f:raw] [in val x:int] > [out file y:raw]";
            let text = format!(
                "name = '{name}'\nnamespace = 'urn:fishplate:test'\ncommand = './program {slots}'\n"
            );
            fs::write(site.server.path(format!("{name}.toml")), text).unwrap();
        }
        let mut words = vec!["heat.toml", "mesh.toml", "--user-header", "X-User"];
        if let Some(policy) = policy {
            site.write(policy);
            words.extend(["--policy", "policy.toml"]);
        }
        site.server.serve_many(2, &words);
        site
    }

    fn write(&self, policy: &str) {
        fs::write(self.server.path("policy.toml"), policy).unwrap();
    }

    /// The answer to a request of somebody.
    fn ask(&self, who: &str, method: &str, path: &str, body: &str) -> Answer {
        self.ask_with(who, method, path, "Content-Type: text/xml\r\n", body)
    }

    fn ask_with(&self, who: &str, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let mut stream = connect(&self.server);
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-User: {who}\r\n{fields}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        answer(&mut stream)
    }

    fn verb(&self, who: &str, service: &str, verb: &str, children: &str) -> Answer {
        self.verb_with(who, service, verb, "", children)
    }

    fn verb_with(
        &self,
        who: &str,
        service: &str,
        verb: &str,
        header: &str,
        children: &str,
    ) -> Answer {
        let message = Version::V11.envelope(header, &wrapper(verb, children));
        self.ask(who, "POST", &format!("/{service}"), &message)
    }

    fn session(&self, who: &str, verb: &str, children: &str) -> Answer {
        let body = format!("<{verb} xmlns=\"urn:fishplate:session:1\">{children}</{verb}>");
        self.ask(who, "POST", "/session", &Version::V11.envelope("", &body))
    }

    /// Runs a job to its end; gives the element that names it.
    fn job(&self, who: &str, input: &str, header: &str) -> String {
        let spawned = self.verb_with(who, "heat", "spawn", header, input);
        let job = spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}"));
        let job = format!("<job>{job}</job>");
        until("it is done", || {
            self.verb(who, "heat", "status", &job).text("state") == Some("done")
        });
        job
    }

    fn command(&self, words: &[&str]) -> Said {
        let file = self.server.path("policy.toml");
        self.operator.run(&[words, &["--policy", file.to_str().unwrap()]].concat())
    }
}

/// `hello` in base64, and a number.
const INPUT: &str = "<f>aGVsbG8=</f><x>1</x>";

/// The path of an address.
fn path(url: &str) -> &str {
    let (_, rest) = url.trim().split_once("://").unwrap_or_else(|| panic!("{url}"));
    &rest[rest.find('/').unwrap()..]
}

fn code(answer: &Answer) -> Option<&str> {
    answer.text("code").or_else(|| answer.body.split(':').next())
}

#[test]
fn two_users_have_nothing_of_each_other() {
    let everything = "[[allow]]\nwho = '@authenticated'\n";
    for policy in [None, Some(everything)] {
        let site = Site::new(policy);
        for (owner, other) in [("ada", "bob"), ("bob", "ada")] {
            // Jobs, their results and their logs.
            let job = site.job(owner, INPUT, "");
            for verb in ["running", "status", "results", "log", "kill", "remove"] {
                let theirs = site.verb(other, "heat", verb, &job);
                let none = format!("<job>{}</job>", "0f".repeat(16));
                let nobodys = site.verb(other, "heat", verb, &none);
                let told = |answer: &Answer, job: &str| answer.body.replace(&job[5..37], "JOB");
                assert_eq!(code(&theirs), Some("NoSuchJob"), "{verb}: {theirs:#?}");
                assert_eq!(told(&theirs, &job), told(&nobodys, &none), "{verb}");
            }
            let listed = |who: &str| site.verb(who, "heat", "jobs", "").body;
            assert!(listed(owner).contains(&job[5..37]) && !listed(other).contains(&job[5..37]));
            for verb in ["status", "results", "log"] {
                let own = site.verb(owner, "heat", verb, &job);
                assert_eq!(own.status, 200, "{verb}: {own:#?}");
            }

            // A key names the owner's call only.
            let key = crate::soap::key_header("same");
            let keyed = site.job(owner, INPUT, &key);
            assert_ne!(site.job(other, INPUT, &key), keyed);

            // Sessions and their files.
            let opened = site.session(owner, "open", "");
            let id = opened.text("session").unwrap().to_owned();
            let named = format!("<session>{id}</session>");
            let within = format!(
                "<e:Header><session xmlns=\"urn:fishplate:options:1\">{id}</session></e:Header>"
            );
            let inside = site.verb_with(owner, "heat", "call", &within, INPUT);
            assert_eq!(inside.status, 200, "{inside:#?}");
            for (verb, more) in
                [("touch", ""), ("files", ""), ("removeFile", "<name>y</name>"), ("close", "")]
            {
                let theirs = site.session(other, verb, &format!("{named}{more}"));
                assert_eq!(code(&theirs), Some("NoSuchSession"), "{verb}: {theirs:#?}");
            }
            let theirs = site.verb_with(other, "heat", "call", &within, INPUT);
            assert_eq!(code(&theirs), Some("NoSuchSession"), "{theirs:#?}");
            assert!(!site.session(other, "list", "").body.contains(&id));
            assert!(site.session(owner, "files", &named).text("url").is_some());

            // Grants, uploads under way, and what is known by its digest.
            let put = site.ask(owner, "PUT", "/data/file", &format!("of {owner}"));
            let grant = path(&put.body).to_owned();
            assert_eq!(site.ask(other, "DELETE", &grant, "").status, 404);
            let begun =
                site.ask_with(owner, "POST", "/data/file", "Upload-Complete: ?0\r\n", "half");
            let location = begun.head.lines().find_map(|line| line.strip_prefix("location: "));
            let upload = path(location.unwrap_or_else(|| panic!("{begun:#?}"))).to_owned();
            let append = "Content-Type: application/partial-upload\r\nUpload-Offset: 4\r\n\
                          Upload-Complete: ?1\r\n";
            for (method, fields) in [("HEAD", ""), ("PATCH", append), ("DELETE", "")] {
                let theirs = site.ask_with(other, method, &upload, fields, "");
                assert_eq!(theirs.status, 404, "{method}: {theirs:#?}");
            }
            assert_eq!(site.ask(owner, "HEAD", &upload, "").status, 204);
            assert_eq!(site.ask(owner, "DELETE", &grant, "").status, 204);
        }
    }
}

/// A reference to data in place of a file.
fn reference(url: &str, more: &str) -> String {
    format!(
        "<f><EndpointReference xmlns=\"http://www.w3.org/2005/08/addressing\"><Address>{url}</Address>\
         <Metadata>{more}</Metadata></EndpointReference></f><x>1</x>"
    )
}

#[test]
fn the_pool_tells_nobody_what_another_has() {
    let site = Site::new(None);
    let put = site.ask("ada", "PUT", "/data/file", "secret");
    let grant = path(&put.body).to_owned();
    // Who knows the digest of what another has does not have it (SHA-256 of "secret").
    let digest = "sha-256=:K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=:";
    let digest = format!("<Digest xmlns=\"urn:fishplate:xdescr:1\">{digest}</Digest>");
    let by_digest = reference("http://127.0.0.1:1/f", &digest);
    let own = site.verb("ada", "heat", "call", &by_digest);
    assert_eq!(own.text("y"), Some("c2VjcmV0"), "{own:#?}");
    let theirs = site.verb("bob", "heat", "call", &by_digest);
    assert_eq!(code(&theirs), Some("AddressForbidden"), "{theirs:#?}");
    // Of the same bytes, each has a grant of their own; taking back one leaves the other.
    let theirs = path(&site.ask("bob", "PUT", "/data/file", "secret").body).to_owned();
    assert_ne!(grant, theirs);
    assert_eq!(site.ask("bob", "DELETE", &theirs, "").status, 204);
    assert_eq!(site.ask("bob", "GET", &grant, "").body, "secret");
}

const POLICY: &str = "\
[groups]
chemists = ['ada', 'eve']

[[allow]]
who = '@chemists'
service = 'heat'

[[allow]]
who = 'bob'
service = ['heat', 'data']
may = ['call', 'upload', 'see']

[[deny]]
who = '@anybody'
service = 'heat'
may = 'remove'

[[deny]]
who = 'eve'
";

#[test]
fn each_verb_and_address_is_for_whom_the_policy_has_it() {
    let site = Site::new(Some(POLICY));
    let job = site.job("ada", INPUT, "");
    let none = format!("<job>{}</job>", "0f".repeat(16));
    for (verb, input, ada, bob) in [
        ("call", INPUT, 200, 200),
        ("spawn", INPUT, 200, 403),
        ("running", &*job, 200, 500),
        ("status", &job, 200, 500),
        ("results", &job, 200, 500),
        ("log", &job, 200, 500),
        ("jobs", "", 200, 200),
        ("kill", &job, 200, 403),
        // Who may not is told so, and not whether there is such a job.
        ("kill", &none, 500, 403),
        ("remove", &job, 403, 403),
    ] {
        for (who, status) in [("ada", ada), ("bob", bob), ("eve", 403), ("carl", 403)] {
            let told = site.verb(who, "heat", verb, input);
            assert_eq!(told.status, status, "{who} {verb}: {told:#?}");
            if status == 403 {
                assert_eq!(code(&told), Some("Forbidden"), "{told:#?}");
            }
        }
    }
    for (method, path, ada, bob, carl) in [
        ("GET", "/heat", 200, 200, 403),
        ("GET", "/heat?wsdl", 200, 200, 403),
        ("GET", "/mesh", 403, 403, 403),
        ("GET", "/metrics", 403, 403, 403),
        ("PUT", "/data/file", 403, 201, 403),
        ("DELETE", "/data/token/file", 403, 403, 403),
        ("GET", "/data/token/file", 404, 404, 404),
        ("GET", "/session", 403, 403, 403),
        ("GET", "/session/token/file", 404, 404, 404),
    ] {
        for (who, status) in [("ada", ada), ("bob", bob), ("carl", carl), ("eve", carl)] {
            let told = site.ask(who, method, path, "");
            assert_eq!(told.status, status, "{who} {method} {path}: {told:#?}");
        }
    }
    // Data from elsewhere, which bob's rule does not name.
    let elsewhere = reference("http://elsewhere.invalid/f", "");
    let told = site.verb("bob", "heat", "call", &elsewhere);
    assert!(code(&told) == Some("Forbidden") && told.body.contains("fetch of heat"), "{told:#?}");
    let told = site.verb("ada", "heat", "call", &elsewhere);
    assert_ne!(code(&told), Some("Forbidden"), "{told:#?}");
}

#[test]
fn who_may_not_know_of_a_service_is_told_the_same_whether_it_is_there() {
    let site = Site::new(Some(POLICY));
    for who in ["ada", "bob", "carl", "eve"] {
        for method in ["GET", "HEAD", "PUT"] {
            let [there, not] =
                ["mesh", "none"].map(|name| site.ask(who, method, &format!("/{name}"), ""));
            assert_eq!(
                (there.status, &there.body.replace("mesh", "none")),
                (not.status, &not.body)
            );
            assert_eq!(there.status, 403);
        }
        for verb in ["call", "jobs", "melt"] {
            let [there, not] = ["mesh", "none"].map(|name| site.verb(who, name, verb, "<x>1</x>"));
            assert_eq!(
                (there.status, &there.body.replace("mesh", "none")),
                (not.status, &not.body)
            );
            assert_eq!(code(&there), Some("Forbidden"), "{there:#?}");
        }
        // The list of services has what one may know of.
        let list = site.ask(who, "GET", "/", "").body;
        let knows = ["ada", "bob"].contains(&who);
        assert_eq!((list.contains("/heat"), list.contains("/mesh")), (knows, false), "{list}");
        assert_eq!(list.contains("/data/"), who == "bob", "{list}");
    }
}

#[test]
fn a_change_of_the_policy_holds_for_the_next_request_and_half_of_one_changes_nothing() {
    let mut site = Site::new(Some("[[allow]]\nwho = 'ada'\n"));
    let may =
        |site: &Site| ["ada", "bob"].map(|who| site.verb(who, "heat", "call", INPUT).status == 200);
    assert_eq!(may(&site), [true, false]);
    site.write("[[allow]]\nwho = 'bob");
    assert_eq!(may(&site), [true, false]);
    until("the log has it", || site.server.log().contains("the policy from before stays in force"));
    assert_eq!(may(&site), [true, false]);
    let log = site.server.log();
    assert_eq!(log.matches("policy.toml:2:11: error").count(), 1, "{log}");

    // One that can't be used is no policy to start with.
    let words = ["serve", "--builtin", "matrix", "--listen", "127.0.0.1:0"];
    let said = site.command(&words);
    assert!(said.code == 2 && said.stderr.contains("policy.toml:2:11: error"), "{said:?}");
    let said = site.operator.run(&[&words[..], &["--policy", "none.toml"]].concat());
    assert!(said.code == 2 && said.stderr.contains("none.toml"), "{said:?}");

    site.write("[[allow]]\nwho = 'bob'\n");
    assert_eq!(may(&site), [false, true]);
    site.server.stop();
    let audit = fs::read_to_string(site.server.data().join("audit.log")).unwrap();
    for told in ["policy.toml in force", "policy.toml not in force", "a right to use heat for bob"]
    {
        assert!(audit.contains(told), "{told}: {audit}");
    }
    let mut refusals = audit.lines().filter(|line| line.contains("\"refusal\""));
    assert!(refusals.all(|line| line.contains("\"address\":\"127.0.0.1\"")), "{audit}");
    site.server.restart();
    assert_eq!(may(&site), [false, true]);
}

#[test]
fn a_thousand_users_have_what_is_theirs() {
    let mut policy = String::from("[groups]\n");
    let users = |from: usize| (from..1000).step_by(2).map(|n| format!("'user{n}'"));
    policy += &format!("even = [{}]\n", users(0).collect::<Vec<_>>().join(", "));
    policy += "[[allow]]\nwho = '@even'\nservice = 'heat'\n";
    for user in users(1) {
        policy += &format!("[[allow]]\nwho = {user}\nservice = 'mesh'\n");
    }
    let site = Site::new(Some(&policy));
    for n in (0..1000).step_by(37) {
        let who = format!("user{n}");
        let [heat, mesh] = ["/heat", "/mesh"].map(|path| site.ask(&who, "GET", path, "").status);
        let wanted = if n % 2 == 0 { (200, 403) } else { (403, 200) };
        assert_eq!((heat, mesh), wanted, "{who}");
    }
    assert_eq!(site.ask("user1000", "GET", "/heat", "").status, 403);
}

#[test]
fn a_policy_is_checked_and_explained() {
    let site = Site::new(Some(POLICY));
    let file = site.server.path("policy.toml");
    let file = file.to_str().unwrap();
    let said = site.operator.run(&["check", file]);
    assert_eq!((said.code, said.stderr.trim()), (0, "1 policy: nothing is wrong"), "{said:?}");
    let explain = |words: &[&str]| {
        let said = site.command(&[&["policy", "explain"], words, &["--json"]].concat());
        assert_eq!(said.code, 0, "{said:?}");
        serde_json::from_str::<Value>(&said.stdout).unwrap()
    };
    for (words, allowed, line, groups) in [
        (["ada", "heat", "call"], true, json!(4), json!(["@chemists"])),
        (["ada", "heat", "remove"], false, json!(13), json!([])),
        (["bob", "heat", "describe"], true, json!(8), json!([])),
        (["bob", "heat", "kill"], false, Value::Null, json!([])),
        (["eve", "heat", "call"], false, json!(18), json!([])),
        (["", "data", "read"], true, Value::Null, json!([])),
        (["eve", "data", "read"], true, Value::Null, json!([])),
    ] {
        let told = explain(&words);
        let wanted = (&json!(allowed), &line, &groups);
        assert_eq!((&told["allowed"], &told["line"], &told["groups"]), wanted, "{words:?}: {told}");
    }
    let said = site.command(&["policy", "explain", "ada", "heat", "call"]);
    let told = "allowed: call of heat for ada\n";
    assert!(said.stdout.starts_with(told), "{said:?}");
    for part in [":4: [[allow]] who = @chemists; service = heat\n", "ada is in @chemists"] {
        assert!(said.stdout.contains(part), "{said:?}");
    }
    let said = site.command(&["policy", "explain", "ada", "heat", "cal"]);
    assert!(said.code == 2 && said.stderr.contains("call"), "{said:?}");

    site.write("[[allow]]\nwho = '@chemist'\nmay = 'cal'\n");
    let said = site.operator.run(&["check", file, "--json"]);
    let lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<_> =
        lines.iter().map(|it| (it["line"].clone(), it["column"].clone())).collect();
    assert_eq!((said.code, places), (2, vec![(json!(2), json!(7)), (json!(3), json!(7))]));
}

const CIRCLES: &str = "\
[groups]
chemists = ['ada', 'eve']
physicists = ['bob', 'dan']

[[allow]]
who = '@authenticated'

[[allow]]
who = '@chemists'
service = 'heat'
may = 'reuse'

[[allow]]
who = '@physicists'
service = 'heat'
may = 'reuse'
";

#[test]
fn results_of_an_equal_call_are_had_by_whom_the_policy_allows_it_and_nobody_else() {
    let site = Site::new(Some(CIRCLES));
    let counted = site.server.path("starts");
    site.server.script("program", &format!("echo >> {}; cat $1", counted.display()));
    let starts = || fs::read_to_string(&counted).map_or(0, |text| text.lines().count());
    let other = INPUT.replace("<x>1", "<x>2");
    let run = |who: &str, key: &str, input: &str| {
        let job = site.job(who, input, &crate::soap::key_header(key));
        let results = site.verb(who, "heat", "results", &job);
        assert_eq!(results.text("y"), Some("aGVsbG8="), "{results:#?}");
        (job, starts())
    };
    let (first, _) = run("ada", "reuse/1", INPUT);
    let (second, count) = run("eve", "reuse/2", INPUT);
    assert_eq!(count, 1, "it is hers too");
    // It is a job of her own, and neither sees the other's.
    assert_ne!(first, second);
    for (who, job) in [("eve", &first), ("ada", &second)] {
        assert_eq!(code(&site.verb(who, "heat", "results", job)), Some("NoSuchJob"));
    }
    // Of another circle; within that; another input; a key that asks for nothing.
    assert_eq!(run("bob", "reuse/1", INPUT).1, 2);
    assert_eq!(run("dan", "reuse/7", INPUT).1, 2);
    assert_eq!(run("eve", "reuse/3", &other).1, 3);
    assert_eq!(run("eve", "4", INPUT).1, 4);
    // A key that somebody gave to another call leads to none of its results.
    assert_eq!(run("ada", "reuse/3", INPUT).1, 4, "her own, by what it holds");
    // What was taken over stays when the first is gone.
    assert_eq!(site.verb("ada", "heat", "remove", &first).status, 200);
    let kept = site.verb("eve", "heat", "results", &second);
    assert_eq!(kept.text("y"), Some("aGVsbG8="), "{kept:#?}");
    // Taken back, it is for nobody any more.
    site.write(&CIRCLES.replace("may = 'reuse'", "may = 'call'"));
    assert_eq!(run("dan", "reuse/8", INPUT).1, 5);
}
