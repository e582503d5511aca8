//! Data by reference on the command line, with real servers.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::proxy::{ConnectionFault, Proxy};
use crate::run::User;
use crate::server::{Server, until};

const LARGE: usize = 24 << 20;

fn bytes(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// A server that may fetch from this machine, with a service `test` of this command line.
fn server(script: &str, slots: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script("program", script);
    let line = [&["--allow-private", "-n", "test", "--", "./program"], slots].concat();
    server.serve(&line);
    server
}

/// Copies its input; the name of the output differs from the input's.
fn copying() -> Server {
    server(
        "cat \"$1\" > \"$2\"; wc -c < \"$1\"",
        &["[in file deck:raw]", "[out file copy:raw]", ">", "[out file size:long]"],
    )
}

fn base(server: &Server) -> String {
    format!("http://{}/", server.address())
}

fn kill_9(child: &std::process::Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGKILL).unwrap();
}

#[test]
fn what_is_put_is_got_again_and_taken_by_calls() {
    let server = copying();
    let user = User::new();
    for (name, len, to) in
        [("small", 5, base(&server)), ("a large one", LARGE, server.url().to_owned())]
    {
        user.write(name, bytes(len));
        let url = user.succeed(&["put", name, "--to", &to]);
        let url = url.strip_suffix('\n').unwrap();
        assert!(url.starts_with(&format!("{}data/", base(&server))), "{url}");
        assert_eq!(user.succeed(&["get", url, "-o", "copy"]), "copy\n");
        assert!(user.read("copy") == bytes(len));
        let deck = format!("deck@{url}");
        assert_eq!(user.succeed(&["call", server.url(), &deck]), format!("size: {len}\n"));
        let dir = user.path("dir");
        fs::create_dir_all(&dir).unwrap();
        let got = user.json(&["get", url, "-o", "dir"]);
        assert_eq!((&got["file"], &got["size"]), (&json!(format!("dir/{name}")), &json!(len)));
        assert_eq!(got["verified"], json!(true), "{got}");
        fs::remove_dir_all(dir).unwrap();
    }
    assert_eq!(user.names(), ["a large one", "copy", "small"]);
    user.write("x", "x");
    let put = user.json(&["put", "x", "--to", server.url()]);
    // FIPS 180-4 of "x", as sha256sum tells it.
    let digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    assert_eq!(put["size"], json!(1));
    let url = put["url"].as_str().unwrap();
    assert_eq!(user.succeed(&["get", url, "-o", "-", "--sha256", digest]), "x");
    let wrong = user.run(&["get", url, "--sha256", &"0".repeat(64)]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.stderr.contains(&format!("its digest is {digest}, not 0")), "{wrong:?}");
    assert_eq!(user.read("x"), b"x");
}

#[test]
fn an_output_by_reference_goes_to_another_server_and_not_through_the_client() {
    let (one, other) = (copying(), copying());
    let user = User::new();
    user.write("deck", bytes(LARGE));
    let said = user.succeed(&["call", one.url(), "deck:deck", "ref:copy"]);
    let url = said.lines().find_map(|line| line.strip_prefix("copy: ")).unwrap();
    assert!(url.starts_with(&base(&one)), "{said}");
    let deck = format!("deck@{url}");
    let called = user.json(&["call", other.url(), &deck, "out:copy"]);
    assert_eq!(called["outputs"]["size"]["value"], json!(LARGE));
    assert!(user.read("copy") == bytes(LARGE));
    let job = called["job"].as_str().unwrap();
    let status = user.json(&["status", other.url(), job]);
    let transfer = &status["transfers"][0];
    assert_eq!(transfer["parameter"], json!("deck"), "{status}");
    assert_eq!((&transfer["state"], &transfer["bytes"]), (&json!("done"), &json!(LARGE)));
    assert!(transfer["placed"].is_string() && transfer["cached"] == json!(false), "{status}");
    let text = user.succeed(&["status", other.url(), job]);
    assert!(text.contains("transfer: deck, http://127.0.0.1:"), "{text}");

    // Once its digest is known at its origin it does not come again; what the same server has never does.
    until("it is there", || {
        let again = user.json(&["call", other.url(), &deck, "ref:copy"]);
        let job = again["job"].as_str().unwrap();
        let transfer = &user.json(&["status", other.url(), job])["transfers"][0];
        assert_eq!(transfer["bytes"], json!(LARGE), "{transfer}");
        let told = user.succeed(&["status", other.url(), job]);
        assert_eq!(told.contains(", was here"), transfer["cached"] == json!(true), "{told}");
        transfer["cached"] == json!(true)
    });
    let called = user.json(&["call", one.url(), &deck, "ref:*"]);
    assert!(called["outputs"]["copy"]["url"].is_string(), "{called}");
    assert_eq!(called["outputs"]["copy"]["size"], json!(LARGE));
    let job = called["job"].as_str().unwrap();
    let transfer = &user.json(&["status", one.url(), job])["transfers"][0];
    assert!([json!("reflink"), json!("link")].contains(&transfer["placed"]), "{transfer}");
    assert_eq!(transfer["cached"], json!(true));
}

#[test]
fn a_file_that_the_client_offers_is_there_until_the_server_has_it() {
    let server = copying();
    let user = User::new();
    user.write("deck file", bytes(LARGE));
    let words = ["call", server.url(), "deck@deck file", "out:copy"];
    assert_eq!(user.succeed(&words), format!("size: {LARGE}\n"));
    assert!(user.read("copy") == bytes(LARGE));
    let offer = ["call", server.url(), "deck@deck file", "--offer", "127.0.0.1"];
    assert_eq!(user.succeed(&offer), format!("size: {LARGE}\n"));
    let job = user.succeed(&["spawn", server.url(), "deck@deck file", "ref:copy"]);
    // The client is gone, the file is there.
    fs::remove_file(user.path("deck file")).unwrap();
    assert_eq!(user.succeed(&["wait", server.url(), job.trim()]), "done\n");
    let results = user.json(&["results", server.url(), job.trim()]);
    assert_eq!(results["outputs"]["size"]["value"], json!(LARGE));
    let url = results["outputs"]["copy"]["url"].as_str().unwrap();
    user.succeed(&["get", url, "-o", "got"]);
    assert!(user.read("got") == bytes(LARGE));
    let refused = user.run(&["call", server.url(), "deck@got", "--offer", "192.0.2.1"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("cannot offer files at 192.0.2.1"), "{refused:?}");
}

#[test]
fn the_server_chooses_by_size_where_it_may() {
    let mut server = Server::prepare();
    server.script("program", "cat \"$1\" > \"$2\"");
    let slots = ["[in file deck:raw]", "[out file copy:raw]"];
    let line = ["--limit", "reference_size=1MiB", "-n", "test", "--", "./program"];
    server.serve(&[&line[..], &slots].concat());
    let user = User::new();
    user.write("large", bytes(LARGE));
    let said = user.succeed(&["call", server.url(), "deck:large", "auto:copy=x"]);
    assert!(said.starts_with("copy: http://"), "{said}");
    assert_eq!(user.names(), ["large"]);
    assert_eq!(user.succeed(&["call", server.url(), "deck=abc", "auto:copy=x"]), "");
    assert_eq!(user.read("x"), b"abc");
}

#[test]
fn programs_of_a_session_share_its_files() {
    let server = copying();
    let (user, url) = (User::new(), server.url());
    user.write("deck", bytes(LARGE));
    let session = user.succeed(&["session", "open", url]);
    let session = session.trim();
    assert_eq!(session.len(), 32);
    let said = user.succeed(&["call", url, "deck:deck", "--session", session]);
    assert!(said.contains(&format!("copy: {}session/", base(&server))), "{said}");
    let words = ["call", url, "deck@session:copy", "out:copy=back", "--session", session];
    assert_eq!(user.succeed(&words), format!("size: {LARGE}\n"));
    assert!(user.read("back") == bytes(LARGE));
    let files = user.json(&["session", "files", &base(&server), session]);
    assert_eq!(files["files"][0]["name"], json!("copy"), "{files}");
    assert_eq!(files["files"][0]["size"], json!(LARGE));
    let listed = user.succeed(&["session", "files", url, session]);
    assert!(listed.starts_with("copy    24.0 MiB  http://"), "{listed}");
    assert!(user.succeed(&["session", "touch", url, session]).ends_with("Z\n"));
    user.succeed(&["session", "close", url, session]);
    let gone = user.run(&words);
    assert_eq!(gone.code, 3, "{gone:?}");
    assert!(gone.stderr.contains("NoSuchSession"), "{gone:?}");
    assert!(gone.stderr.contains("hint: `fishplate session open "), "{gone:?}");
}

/// A server that all the world knows by a proxy.
fn behind_proxy() -> (Server, Proxy) {
    let (mut server, proxy) = (Server::prepare(), Proxy::new());
    server.script("program", "cat");
    let line = ["-n", "test", "--", "./program", "<", "[in file deck:raw]"];
    server.serve_behind(&proxy.url(), &line);
    proxy.lead_to(server.address());
    (server, proxy)
}

#[test]
fn broken_connections_are_taken_up_both_ways() {
    let (_server, proxy) = behind_proxy();
    let user = User::new();
    user.write("deck", bytes(LARGE));
    let cuts = [ConnectionFault::Cut(9 << 20), ConnectionFault::Cut(1 << 20)];
    // What was under way when they were cut comes again.
    let once = LARGE as u64..(LARGE + (8 << 20)) as u64;
    proxy.meet(&cuts);
    let url = user.succeed(&["put", "deck", "--to", &proxy.url()]);
    assert!(once.contains(&proxy.passed()), "{}", proxy.passed());
    proxy.meet(&cuts);
    let got = user.json(&["get", url.trim(), "-o", "copy"]);
    assert!(once.contains(&proxy.passed()), "{}", proxy.passed());
    assert_eq!(got["verified"], json!(true));
    assert!(user.read("copy") == bytes(LARGE));
}

#[test]
fn a_put_and_a_get_that_are_killed_go_on_where_they_were() {
    let (server, proxy) = behind_proxy();
    let user = User::new();
    user.write("deck", bytes(LARGE));
    let half = LARGE as u64 / 2;
    // What passed may rest in sockets until whoever reads has its turn; that would be lost.
    let arrived = |path: PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let killed_in_the_middle = |words: &[&str], arrived: &dyn Fn() -> u64| {
        proxy.meet(&[ConnectionFault::Stall(half)]);
        let mut first = user.start(words);
        until("half of it has passed", || proxy.passed() >= half);
        until("what passed has arrived", || arrived() >= half - (1 << 20));
        kill_9(&first);
        first.wait().unwrap();
        proxy.meet(&[]);
    };
    let put = ["put", "deck", "--to", &proxy.url()];
    killed_in_the_middle(&put, &|| {
        let incoming = fs::read_dir(server.path("data/pool/incoming")).unwrap().flatten();
        incoming.map(|entry| arrived(entry.path())).sum()
    });
    let url = user.succeed(&put);
    assert!(proxy.passed() < half + (6 << 20), "{} bytes after {half}", proxy.passed());

    let get = ["get", url.trim(), "-o", "copy"];
    killed_in_the_middle(&get, &|| arrived(user.path("copy.part")));
    assert_eq!(user.names(), ["copy.part", "copy.part.json", "deck"]);
    let got = user.json(&get);
    assert!(got["resumed"].as_u64().unwrap() > half - (6 << 20), "{got}");
    assert!(proxy.passed() < half + (6 << 20), "{} bytes after {half}", proxy.passed());
    assert!(user.read("copy") == bytes(LARGE));
    assert_eq!(user.names(), ["copy", "deck"]);
}

#[test]
fn a_delivery_under_which_the_server_is_killed_is_made_by_the_next_one() {
    let (mut there, proxy) = behind_proxy();
    let here = Server::prepare();
    let mut here = here;
    here.script("program", &format!("echo run >> DIR/runs; head -c {LARGE} /dev/zero > $1"));
    here.serve(&["--allow-private", "-n", "test", "--", "./program", "[out file mesh:raw]"]);
    let user = User::new();
    let half = LARGE as u64 / 2;
    proxy.meet(&[ConnectionFault::Stall(half)]);
    let to = format!("{}data/mesh", proxy.url());
    let job = user.succeed(&["spawn", here.url(), &format!("ref:mesh={to}")]);
    let job = job.trim();
    until("half of it has passed", || proxy.passed() >= half);
    here.kill();
    proxy.meet(&[]);
    here.restart();
    let waited = user.json(&["wait", here.url(), job]);
    assert_eq!(waited["state"], "done", "{waited}");
    assert!(proxy.passed() >= LARGE as u64, "{}", proxy.passed());
    assert_eq!(here.runs(), 1, "the program ran once");
    // The reference is where it is now, which is not where it was put.
    let told = user.succeed(&["results", here.url(), job]);
    let url = told.trim().strip_prefix("mesh: ").unwrap().to_owned();
    assert!(url.starts_with(&format!("{}data/", proxy.url())) && url != to, "{url}");
    user.succeed(&["get", &url, "-o", "copy"]);
    assert!(user.read("copy") == vec![0; LARGE]);
    there.stop();
}

#[test]
fn directories_go_and_come_by_value_by_reference_and_from_this_machine() {
    let server = server(
        "mkdir \"$2\" && cp -r \"$1\"/. \"$2\" && echo made > \"$2/made\"",
        &["[in file case:dir]", "[out file result:dir]"],
    );
    let (user, url) = (User::new(), server.url());
    fs::create_dir_all(user.path("case/0")).unwrap();
    user.write("case/0/U", "flow");
    let whole = |directory: &str| {
        assert_eq!(user.read(&format!("{directory}/0/U")), b"flow", "{directory}");
        assert_eq!(user.read(&format!("{directory}/made")), b"made\n", "{directory}");
    };
    user.succeed(&["call", url, "case:case", "out:result=one"]);
    whole("one");
    user.succeed(&["call", url, "case@case", "out:result=two/"]);
    whole("two");
    let said = user.succeed(&["call", url, "case:case", "ref:result"]);
    let reference = said.trim().strip_prefix("result: ").unwrap();
    let case = format!("case@{reference}");
    user.succeed(&["call", url, &case, "out:result=three"]);
    whole("three");
    user.succeed(&["call", url, "case:case", "out:result=result.tar"]);
    user.succeed(&["call", url, "case:result.tar", "out:result=four"]);
    whole("four");
    let refused = user.run(&["call", url, "case:case", "out:result=one"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("is there already"), "{refused:?}");
}

#[test]
fn the_operator_sees_pins_verifies_revokes_and_removes_what_the_pool_holds() {
    let server = copying();
    let user = User::new();
    let data = server.data();
    let pool = |words: &[&str]| {
        let told = ["--data", data.to_str().unwrap()];
        user.run(&[&["pool"], words, &told].concat())
    };
    let none = user.run(&["pool", "list", "--data", "."]);
    assert!(none.code == 2 && none.stderr.contains("there is no pool in"), "{none:?}");
    for name in ["a", "b"] {
        user.write(name, name);
    }
    let [a, b] = ["a", "b"].map(|name| user.succeed(&["put", name, "--to", server.url()]));
    let (a, b) = (a.trim(), b.trim());
    // FIPS 180-4 of "a" and of "b".
    let digest_of_a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
    let digest_of_b = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d";
    assert_eq!(pool(&["pin", "ca9781"]).stdout, format!("{digest_of_a} pinned\n"));
    let list = pool(&["list"]);
    assert!(list.stderr == "2 B in all\n" && list.stdout.lines().count() == 2, "{list:?}");
    let line = list.stdout.lines().find(|line| line.starts_with(digest_of_a)).unwrap();
    assert!(line.contains("1 B") && line.ends_with("pinned, 1 grant"), "{line}");
    let objects = serde_json::from_str::<serde_json::Value>(&pool(&["list", "--json"]).stdout);
    assert_eq!(objects.unwrap()["objects"].as_array().unwrap().len(), 2);

    assert_eq!(pool(&["verify"]).code, 0);
    let objects = data.join("pool/objects/3e");
    let object = fs::read_dir(objects).unwrap().next().unwrap().unwrap().path();
    fs::set_permissions(&object, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(&object, "c").unwrap();
    let verified = pool(&["verify"]);
    assert_eq!(verified.code, 1);
    assert!(verified.stdout.contains(&format!("{digest_of_a} sound\n")), "{verified:?}");
    assert!(verified.stdout.contains(&format!("{digest_of_b} damaged\n")), "{verified:?}");
    assert_eq!(pool(&["remove", "3e23e", "--force"]).code, 2);
    for (held, by) in [("3e23e8", "(1 grant until 2"), ("ca9781", "(pinned, 1 grant until 2")] {
        let refused = pool(&["remove", held]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(by) && refused.stderr.contains("--force"), "{refused:?}");
    }
    assert_eq!(pool(&["remove", "3e23e8", "--force"]).code, 0);
    assert_eq!(user.run(&["get", b]).code, 3);

    assert_eq!(user.succeed(&["get", a, "-o", "-"]), "a");
    assert_eq!(pool(&["revoke", a]).code, 0);
    assert_eq!(user.run(&["get", a, "-o", "-"]).code, 3);
    assert_eq!(pool(&["revoke", a]).code, 2);
    assert_eq!(pool(&["remove", "000000"]).code, 2);
    assert!(pool(&["remove", "ca9781"]).stderr.contains("(pinned)"));
    assert_eq!(pool(&["unpin", "ca9781"]).code, 0);
    assert_eq!(pool(&["remove", "ca9781"]).stdout, format!("{digest_of_a} removed\n"));

    let partial = data.join("pool/incoming/k-00");
    fs::write(&partial, "part").unwrap();
    let list = pool(&["list"]).stdout;
    assert!(list.lines().any(|line| line.starts_with("k-00 ") && line.contains("4 B")), "{list}");
    assert_eq!(pool(&["list"]).stderr, "4 B in all\n");
    assert_eq!(pool(&["remove", "k-00"]).stdout, "k-00 removed\n");
    assert!(!partial.exists());
}

#[test]
fn what_cannot_be_done_says_what_would_be_right() {
    let server = Server::of_script("cat $1 > $2", &["[in file deck:raw]", "[out file copy:raw]"]);
    let (user, url) = (User::new(), server.url());
    let private = format!("deck@{}data/x", base(&server).replace("127.0.0.1", "127.0.0.2"));
    user.write("deck", "x");
    let missing = format!("{}data/none", base(&server));
    let cases: [(i32, &[&str], &str); 11] = [
        (2, &["call", url, "deck=x", "ref:cpoy"], "hint: did you mean copy?"),
        (2, &["call", url, "deck@gopher://h/x"], "http:, https:, ftp:, s3: or file:"),
        (2, &["call", url, "deck@none"], "cannot read none"),
        (2, &["call", url, "deck=x", "ref:copy=file"], "mailto:, s3:, ftp:"),
        (2, &["spawn", url, "deck=x", "out:copy"], "fishplate results"),
        (3, &["call", url, &private], "AddressForbidden"),
        (3, &["call", url, &private], "allow_private"),
        (3, &["call", url, "deck@deck"], "AddressForbidden"),
        (3, &["get", &missing], "hint: a reference expires"),
        (2, &["put", "none", "--to", url], "cannot read none"),
        (2, &["get", "gopher://h/x"], "it must begin with ftp: or http: or https:"),
    ];
    for (code, words, message) in cases {
        let said = user.run(words);
        assert_eq!((said.code, &*said.stdout), (code, ""), "{words:?}: {said:?}");
        assert!(said.stderr.contains(message), "{words:?}: {said:?}");
    }
    assert_eq!(user.names(), ["deck"]);
    let unreachable = user.run(&["put", "deck", "--to", "http://127.0.0.1:9"]);
    assert_eq!(unreachable.code, 6, "{unreachable:?}");
}
