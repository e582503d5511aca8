//! Sessions: whose they are, what they hold, and how they end.

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::curl::curl;
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Answer, answer, connect, get};

/// Two programs that share files.
fn server(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script("size", "wc -c < \"$1\"");
    fs::write(
        server.path("make.toml"),
        "name = \"make\"\ncommand = \"./make [in val bytes:int] [out file mesh:raw]\"\n",
    )
    .unwrap();
    fs::write(
        server.path("size.toml"),
        "name = \"size\"\ncommand = \"./size [in file mesh:raw] > [out file bytes:long]\"\n",
    )
    .unwrap();
    server.script("make", "head -c $1 /dev/zero > $2");
    server.serve_many(2, &[words, &["make.toml", "size.toml"]].concat());
    server
}

fn base(server: &Server) -> String {
    format!("http://{}", server.address())
}

fn fault(user: &User, words: &[&str]) -> Value {
    let said = user.run(&[words, &["--json"]].concat());
    assert_ne!(said.code, 0, "{said:?}");
    serde_json::from_str::<Value>(&said.stderr).unwrap()["error"].clone()
}

/// Calls an operation of the service `session` by hand.
fn session(server: &Server, fields: &str, operation: &str, children: &str) -> Answer {
    let message = format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
         <{operation} xmlns=\"urn:fishplate:session:1\">{children}</{operation}>\
         </e:Body></e:Envelope>"
    );
    let length = format!("{fields}Content-Length: {}\r\n", message.len());
    let head = format!(
        "POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n{length}\
         Connection: close\r\n\r\n{message}"
    );
    let mut stream = connect(server);
    stream.write_all(head.as_bytes()).unwrap();
    answer(&mut stream)
}

#[test]
fn files_stay_in_the_session_until_it_is_closed() {
    let (server, user) = (server(&[]), User::new());
    let base = base(&server);
    let (make, size) = (format!("{base}/make"), format!("{base}/size"));
    let id = user.succeed(&["session", "open", &base]);
    let id = id.trim();
    let said = user.succeed(&["call", &make, "bytes=3000000", "--session", id]);
    let url = said.strip_prefix("mesh: ").unwrap().trim().to_owned();
    assert!(url.starts_with(&format!("{base}/session/")) && url.ends_with("/mesh"), "{url}");
    assert!(!url.contains(id), "an address gives its session away: {url}");
    assert_eq!(curl(&[&url.replace("/mesh", "/other")]).status, 404);
    assert_eq!(curl(&[&format!("{base}/session/{id}/mesh")]).status, 404);
    let said = user.succeed(&["call", &size, "mesh@session:mesh", "--session", id]);
    assert_eq!(said, "bytes: 3000000\n");
    // Its address is a reference like others, in another session and in none.
    assert_eq!(user.succeed(&["call", &size, &format!("mesh@{url}")]), "bytes: 3000000\n");
    let head = curl(&["--head", &url]);
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("3000000")));
    let part = curl(&["--range", "5-6", &url]);
    assert_eq!((part.status, part.body.len()), (206, 2));
    // Another version takes its place.
    user.succeed(&["call", &make, "bytes=10", "--session", id]);
    assert_ne!(curl(&["--head", &url]).field("ETag"), head.field("ETag"));
    let files = session(&server, "", "files", &format!("<session>{id}</session>"));
    assert_eq!((files.text("name"), files.text("size")), (Some("mesh"), Some("10")));
    assert_eq!(files.text("url"), Some(&*url));
    user.succeed(&["session", "close", &base, id]);
    assert_eq!(curl(&[&url]).status, 404);
    let gone = fault(&user, &["call", &size, &format!("mesh@{url}")]);
    assert_eq!((&gone["code"], &gone["parameter"]), (&json!("NoSuchData"), &json!("mesh")));
    let left = fs::read_dir(server.data().join("sessions")).unwrap().flatten();
    assert_eq!(left.map(|it| it.file_name()).collect::<Vec<_>>(), [".key"]);
    let gone = fault(&user, &["call", &make, "bytes=1", "--session", id]);
    assert_eq!(gone["code"], "NoSuchSession", "{gone}");
    let unnamed = fault(&user, &["call", &size, "mesh@session:mesh"]);
    assert_eq!(
        (&unnamed["code"], &unnamed["parameter"]),
        (&json!("NoSuchSession"), &json!("mesh"))
    );
}

#[test]
fn what_is_removed_from_a_session_is_gone_and_so_is_its_address() {
    let (server, user) = (server(&[]), User::new());
    let (base, make) = (base(&server), format!("{}/make", base(&server)));
    let id = user.succeed(&["session", "open", &base]);
    let id = id.trim();
    let said = user.succeed(&["call", &make, "bytes=1000", "--session", id]);
    let url = said.strip_prefix("mesh: ").unwrap().trim();
    assert_eq!(curl(&[url]).status, 200);
    let removed = user.json(&["session", "remove", &base, id, "mesh"]);
    assert_eq!(removed, json!({ "session": id, "removed": ["mesh"], "failed": [] }));
    assert_eq!(curl(&[url]).status, 404);
    assert_eq!(user.json(&["session", "files", &base, id])["files"], json!([]));
    for (name, code) in [("mesh", "NoSuchData"), ("../mesh", "InvalidValue")] {
        let gone = fault(&user, &["session", "remove", &base, id, name]);
        assert_eq!((&gone["code"], &gone["parameter"]), (&json!(code), &json!("name")), "{gone}");
    }
    // All are tried, and the first failure tells the exit code.
    user.succeed(&["call", &make, "bytes=1000", "--session", id]);
    let said = user.run(&["session", "remove", &base, id, "none", "mesh", "nil", "--json"]);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((said.code, &told["removed"]), (3, &json!(["mesh"])), "{said:?}");
    assert_eq!(told["failed"][0]["name"], "none");
    assert_eq!(told["failed"][1]["error"]["code"], "NoSuchData");
    assert_eq!(said.stderr.lines().count(), 2, "{said:?}");
    let said = user.run(&["session", "remove", &base, id, "none"]);
    assert!(said.stderr.contains(&format!("`fishplate session files {base} {id}`")), "{said:?}");
    let said = user.run(&["session", "open", &base, "--idle", "100d"]);
    assert!(said.stderr.starts_with("the server lets it idle 24 h at most"), "{said:?}");
    // Nobody finds out others' sessions where all are nobody.
    let refused = fault(&user, &["session", "list", &base]);
    assert_eq!(refused["code"], "NotSupported", "{refused}");
}

#[test]
fn a_caller_with_a_name_lists_their_sessions_and_no_others() {
    let server = server(&["--user-header", "X-User"]);
    let ask = |user: &str, operation: &str, children: &str| {
        session(&server, &format!("X-User: {user}\r\n"), operation, children)
    };
    let open = |user: &str| ask(user, "open", "").text("session").unwrap().to_owned();
    let ids = [open("ada"), open("ada")];
    let others = open("bob");
    assert_eq!(ask("ada", "touch", &format!("<session>{}</session>", ids[0])).status, 200);
    let listed = ask("ada", "list", "").body;
    let at = |id: &str| listed.find(id);
    assert!(at(&ids[0]).unwrap() < at(&ids[1]).unwrap(), "the last used first: {listed}");
    assert_eq!(at(&others), None, "{listed}");
    // Who is not let in is told so, and not that there are no sessions.
    let said = User::new().run(&["session", "open", &base(&server)]);
    assert!(said.code != 0 && said.stderr.contains("401"), "{said:?}");
}

#[test]
fn an_idle_session_expires_and_one_that_is_used_does_not() {
    let server = server(&["--limit", "session_idle=3s"]);
    let opened = session(&server, "", "open", "<idle>3600</idle>");
    assert_eq!(opened.status, 200, "{opened:#?}");
    let id = opened.text("session").unwrap().to_owned();
    let used = session(&server, "", "open", "<idle>2</idle>");
    let used = used.text("session").unwrap().to_owned();
    let call = |operation: &str, id: &str| {
        session(&server, "", operation, &format!("<session>{id}</session>"))
    };
    until("what nobody uses has expired, whatever was asked for", || {
        assert_eq!(call("touch", &used).status, 200);
        call("files", &id).text("code") == Some("NoSuchSession")
    });
    until("the other has expired too", || {
        let gone = call("files", &used).text("code") == Some("NoSuchSession");
        std::thread::sleep(std::time::Duration::from_millis(200));
        gone
    });
}

#[test]
fn a_session_in_which_a_job_runs_does_not_expire() {
    let mut server = Server::prepare();
    server.script("program", "until [ -e DIR/go ]; do sleep 0.02; done; echo mesh > $1");
    server.serve(&["-n", "test", "--", "./program", "[out file mesh:raw]"]);
    let user = User::new();
    let opened = session(&server, "", "open", "<idle>2</idle>");
    let id = opened.text("session").unwrap();
    let job = user.succeed(&["spawn", server.url(), "--session", id]);
    // The server that goes on was not told of the job by its caller.
    server.kill();
    server.restart();
    let unused = session(&server, "", "open", "<idle>4</idle>");
    let unused = unused.text("session").unwrap();
    until("another that was opened for longer has expired", || {
        let files = session(&server, "", "files", &format!("<session>{unused}</session>"));
        files.text("code") == Some("NoSuchSession")
    });
    fs::write(server.path("go"), "").unwrap();
    assert_eq!(user.succeed(&["wait", server.url(), job.trim()]), "done\n");
    let files = session(&server, "", "files", &format!("<session>{id}</session>"));
    assert_eq!(curl(&[files.text("url").unwrap()]).body, b"mesh\n");
}

#[test]
fn a_session_is_its_owners_and_has_a_quota() {
    let words = ["--user-header", "X-User", "--limit", "session_quota=1MiB"];
    let server = server(&words);
    let ada = "X-User: ada\r\n";
    let id = session(&server, ada, "open", "").text("session").unwrap().to_owned();
    let named = format!("<session>{id}</session>");
    for operation in ["files", "touch", "removeFile", "close"] {
        let name = if operation == "removeFile" { "<name>mesh</name>" } else { "" };
        let refused = session(&server, "X-User: bob\r\n", operation, &format!("{named}{name}"));
        assert_eq!(refused.text("code"), Some("NoSuchSession"), "{operation}");
    }
    let make = |bytes: u32| {
        let message = format!(
            "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header>\
             <session xmlns=\"urn:fishplate:options:1\">{id}</session></e:Header><e:Body>\
             <call xmlns=\"urn:fishplate:make\"><bytes>{bytes}</bytes></call></e:Body></e:Envelope>"
        );
        let mut stream = connect(&server);
        let head = format!(
            "POST /make HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n{ada}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{message}",
            message.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        answer(&mut stream)
    };
    let full = make(2 << 20);
    assert_eq!((full.text("code"), full.limit()), (Some("QuotaExceeded"), Some("session_quota")));
    let fits = make(1000);
    let url = fits.text("Address").unwrap_or_else(|| panic!("{fits:#?}")).to_owned();
    // The address is the permission: another server can be given it.
    assert_eq!(curl(&[&url]).body.len(), 1000);
    assert_eq!(session(&server, ada, "close", &named).text("closed"), Some("true"));
}

#[test]
fn what_a_full_session_or_pool_refuses_can_be_had_by_value() {
    let limits = ["--limit", "session_quota=1MB", "--limit", "pool_quota=1MB"];
    let limits = [&limits[..], &["--limit", "reference_size=1KiB"]].concat();
    let (server, user) = (server(&limits), User::new());
    let base = base(&server);
    let make = format!("{base}/make");
    let id = user.succeed(&["session", "open", &base]);
    let id = id.trim();
    let full = fault(&user, &["call", &make, "bytes=2000000", "--session", id]);
    assert_eq!(full["code"], json!("QuotaExceeded"), "{full}");
    let jobs = user.json(&["jobs", &make]);
    let in_session = jobs["jobs"][0]["job"].as_str().unwrap().to_owned();
    let chosen = user.succeed(&["spawn", &make, "bytes=2000000", "ref:mesh"]);
    user.succeed(&["wait", &make, chosen.trim()]);
    let size = |name: &str| fs::metadata(user.path(name)).unwrap().len();
    for (at, job) in [&*in_session, chosen.trim()].into_iter().enumerate() {
        let refused = fault(&user, &["results", &make, job, "ref:mesh"]);
        assert_eq!(refused["code"], json!("QuotaExceeded"), "{refused}");
        for form in ["out", "auto"] {
            let to = format!("{form}{at}");
            user.succeed(&["results", &make, job, &format!("{form}:mesh={to}")]);
            assert_eq!(size(&to), 2_000_000, "{to}");
        }
    }
    for words in [&["--session", id][..], &[]] {
        let call = ["call", &make, "bytes=2000001", "auto:mesh=called"];
        user.succeed(&[&call[..], words].concat());
        assert_eq!(size("called"), 2_000_001, "{words:?}");
        fs::remove_file(user.path("called")).unwrap();
    }
}

#[test]
fn the_services_of_the_server_itself_have_their_names_and_can_be_left_out() {
    let user = User::new();
    let mut server = Server::prepare();
    server.script("program", "true");
    server.serve(&["--no-sessions", "-n", "session", "--", "./program"]);
    assert_eq!(get(&server, "/session?wsdl").status, 200);
    let left_out = fault(&user, &["call", server.url(), "--session", &"0f".repeat(16)]);
    assert_eq!(left_out["code"], "NotSupported", "{left_out}");
    for (name, hint) in [("session", "--no-sessions"), ("data", "another `name`")] {
        let said = user.run(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "d",
            "-n",
            name,
            "--",
            "true",
        ]);
        assert_ne!(said.code, 0);
        assert!(said.stderr.contains(name) && said.stderr.contains(hint), "{said:?}");
    }
}
