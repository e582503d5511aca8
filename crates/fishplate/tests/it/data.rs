//! Data over plain HTTP: what curl and other servers make of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

use fishplate_contract::Digest;

use crate::curl::{Got, command, curl};
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{answer, connect};

const LARGE: usize = 3_000_000;

fn bytes(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

fn server(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.serve(&[&["--builtin", "matrix"], words].concat());
    server
}

fn base(server: &Server) -> String {
    format!("http://{}/data/", server.address())
}

/// Uploads these bytes as `NAME`; gives the address.
fn put(server: &Server, user: &User, name: &str, bytes: &[u8]) -> String {
    user.write(name, bytes);
    let got = curl(&["-T", user.path(name).to_str().unwrap(), &base(server)]);
    assert_eq!(got.status, 201, "{got:?}");
    assert_eq!(got.field("Location"), Some(got.text()));
    got.text().to_owned()
}

/// Whole files in the pool, and files on their way into it.
fn files(server: &Server) -> (usize, usize) {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let pool = server.data().join("pool");
    let whole = entries(&pool.join("objects")).map(|shard| entries(&shard.path()).count()).sum();
    (whole, entries(&pool.join("incoming")).count())
}

#[test]
fn a_file_that_was_put_is_got_with_all_that_http_knows_of_it() {
    let (server, user) = (server(&[]), User::new());
    let all = bytes(LARGE);
    let url = put(&server, &user, "Rohr ä.msh", &all);
    assert!(url.starts_with(&base(&server)) && url.ends_with("/Rohr%20%C3%A4.msh"), "{url}");
    let head = curl(&["--head", &url]);
    assert_eq!(head.status, 200);
    assert_eq!(head.field("Content-Length"), Some("3000000"));
    assert_eq!(head.field("Accept-Ranges"), Some("bytes"));
    assert_eq!(head.field("Cache-Control"), Some("private"));
    let told = head.field("Repr-Digest").and_then(Digest::from_field).unwrap();
    let disposition = head.field("Content-Disposition").unwrap();
    assert!(disposition.ends_with("filename*=UTF-8''Rohr%20%C3%A4.msh"), "{disposition}");
    for field in ["Last-Modified", "Expires", "ETag"] {
        assert!(head.field(field).is_some(), "{field}: {head:?}");
    }
    let got = curl(&[&url]);
    assert_eq!((got.status, got.body.len()), (200, LARGE));
    assert!(got.body == all);
    user.write("got", &got.body);
    let sum = std::process::Command::new("sha256sum").arg(user.path("got")).output().unwrap();
    assert!(String::from_utf8(sum.stdout).unwrap().starts_with(&told.hex()));
    parts_and_conditions(&url, &all, head.field("ETag").unwrap());
}

fn parts_and_conditions(url: &str, all: &[u8], tag: &str) {
    let part = curl(&["--range", "1000000-1000009", url]);
    assert_eq!((part.status, &part.body[..]), (206, &all[1_000_000..1_000_010]));
    assert_eq!(part.field("Content-Range"), Some("bytes 1000000-1000009/3000000"));
    let rest = curl(&["--range", "-2000001", url]);
    assert!(rest.status == 206 && rest.body == all[LARGE - 2_000_001..]);
    let several = curl(&["--range", "0-4,2999999-", url]);
    let kind = several.field("Content-Type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let text = String::from_utf8_lossy(&several.body).into_owned();
    assert_eq!(text.matches(&format!("--{boundary}")).count(), 3);
    assert!(text.contains("Content-Range: bytes 2999999-2999999/3000000"), "{text}");
    let none = curl(&["--range", "3000000-", url]);
    assert_eq!((none.status, none.field("Content-Range")), (416, Some("bytes */3000000")));
    let with = |field: &str, words: &[&str]| -> Got {
        curl(&[&["--header", field], words, &[url]].concat())
    };
    assert_eq!(with(&format!("If-None-Match: {tag}"), &[]).status, 304);
    assert_eq!(with("If-None-Match: \"other\"", &[]).status, 200);
    assert_eq!(with("If-Match: \"other\"", &[]).status, 412);
    let same = with(&format!("If-Range: {tag}"), &["--range", "0-9"]);
    assert_eq!((same.status, same.body.len()), (206, 10));
    let other = with("If-Range: \"other\"", &["--range", "0-9"]);
    assert_eq!((other.status, other.body.len()), (200, LARGE));
}

#[test]
fn data_that_is_not_what_its_digest_says_is_refused_and_not_kept() {
    let (server, user) = (server(&[]), User::new());
    user.write("file", bytes(LARGE));
    let file = user.path("file");
    let wrong = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    for field in ["Content-Digest", "Repr-Digest"] {
        let digest = format!("{field}: {wrong}");
        let got = curl(&["-T", file.to_str().unwrap(), "--header", &digest, &base(&server)]);
        assert_eq!(got.status, 422, "{got:?}");
        assert!(got.text().starts_with("DataMismatch"), "{got:?}");
    }
    until("nothing is left", || files(&server) == (0, 0));
    let broken = ["-T", file.to_str().unwrap(), "--header", "Content-Digest: sha-256=:x:"];
    assert_eq!(curl(&[&broken[..], &[&base(&server)]].concat()).status, 400);
    let coded = ["-T", file.to_str().unwrap(), "--header", "Content-Encoding: gzip"];
    assert_eq!(curl(&[&coded[..], &[&base(&server)]].concat()).status, 415);
}

#[test]
fn only_the_owner_revokes_and_whoever_has_the_address_reads() {
    let (server, user) = (server(&["--user-header", "X-User"]), User::new());
    user.write("file", bytes(1000));
    let file = user.path("file");
    let unnamed = curl(&["-T", file.to_str().unwrap(), &base(&server)]);
    assert_eq!(unnamed.status, 401, "{unnamed:?}");
    let ada = ["--header", "X-User: ada"];
    let put = curl(&[&ada[..], &["-T", file.to_str().unwrap(), &base(&server)]].concat());
    let url = put.text().to_owned();
    // A server elsewhere fetches it, whom nobody in front of us knows.
    assert_eq!(curl(&[&url]).status, 200);
    assert_eq!(curl(&["--request", "DELETE", &url]).status, 401);
    let bob = ["--header", "X-User: bob", "--request", "DELETE", &url];
    assert_eq!(curl(&bob).status, 404);
    assert_eq!(curl(&[&url]).status, 200);
    assert_eq!(curl(&[&ada[..], &["--request", "DELETE", &url]].concat()).status, 204);
    for words in [&[url.as_str()][..], &["--head", &url]] {
        assert_eq!(curl(words).status, 404);
    }
    let problem = curl(&["--header", "Accept: application/json", &url]);
    assert_eq!(problem.field("Content-Type"), Some("application/problem+json"));
    let told: serde_json::Value = serde_json::from_slice(&problem.body).unwrap();
    assert_eq!((&told["code"], &told["status"]), (&"NoSuchData".into(), &404.into()));
}

#[test]
fn a_grant_expires() {
    let (server, user) = (server(&["--limit", "grant_life=2s"]), User::new());
    let url = put(&server, &user, "file", &bytes(1000));
    assert_eq!(curl(&[&url]).status, 200);
    until("it has expired", || curl(&[&url]).status == 404);
}

#[test]
fn a_quota_is_told_before_a_byte_was_sent_and_uploads_can_be_switched_off() {
    let user = User::new();
    user.write("file", bytes(LARGE));
    let file = user.path("file");
    for limit in ["pool_quota", "owner_disk"] {
        let server = server(&["--limit", &format!("{limit}=1MiB")]);
        let words = ["-T", file.to_str().unwrap(), "--header", "Expect: 100-continue"];
        let got = curl(&[&words[..], &[&base(&server)]].concat());
        assert_eq!(got.status, 413, "{got:?}");
        assert!(got.text().contains(limit) && got.text().contains("1048576"), "{got:?}");
        let sent = ["--output", "/dev/null", "--write-out", "%{size_upload}", &base(&server)];
        let sent = command(&[&words[..], &sent].concat()).output().unwrap().stdout;
        assert_eq!(sent, b"0", "it was asked for though there is no room for it");
        assert_eq!(files(&server), (0, 0));
        put(&server, &user, "small", &bytes(1000));
    }
    let closed = server(&["--no-uploads"]);
    let got = curl(&["-T", file.to_str().unwrap(), &base(&closed)]);
    assert_eq!(got.status, 405, "{got:?}");
    assert!(got.text().contains("no uploads"), "{got:?}");
}

#[test]
fn a_full_disk_is_a_clear_fault_and_what_runs_is_unharmed() {
    let user = User::new();
    let mut server = Server::prepare();
    let Some(_disk) = crate::disk::small(&server.data(), 64) else { return };
    server.script("program", "until [ -e DIR/go ]; do sleep 0.02; done; echo 42");
    server.serve(&[
        "--limit",
        "disk_reserve=16MiB",
        "-n",
        "test",
        "--",
        "./program",
        ">",
        "[out file y:int]",
    ]);
    let job = user.succeed(&["spawn", server.url()]);
    user.write("large", bytes(60 << 20));
    let got = curl(&["-T", user.path("large").to_str().unwrap(), &base(&server)]);
    assert_eq!(got.status, 507, "{got:?}");
    assert!(got.text().starts_with("StorageFull"), "{got:?}");
    // Nobody told how much it will be.
    let large = user.path("large");
    let chunked = "Transfer-Encoding: chunked";
    let got = curl(&["-T", large.to_str().unwrap(), "--header", chunked, &base(&server)]);
    assert_eq!(got.status, 507, "{got:?}");
    until("what came of it is gone", || files(&server) == (0, 0));
    put(&server, &user, "small", &bytes(1 << 20));
    fs::write(server.path("go"), "").unwrap();
    assert_eq!(user.succeed(&["wait", server.url(), job.trim()]), "done\n");
    assert_eq!(user.succeed(&["results", server.url(), job.trim()]), "y: 42\n");
}

#[test]
fn what_an_upload_asks_for_and_does_not_get_is_refused() {
    let (server, user) = (server(&[]), User::new());
    user.write("file", "hello");
    let file = user.path("file");
    let put = |to: &str, fields: &[&str]| {
        let mut words = vec!["--path-as-is", "-T", file.to_str().unwrap()];
        fields.iter().for_each(|field| words.extend(["--header", *field]));
        curl(&[&words[..], &[to]].concat())
    };
    let to = |name: &str| format!("{}{name}", base(&server));
    let part = put(&to("a"), &["Content-Range: bytes 5-9/10"]);
    assert_eq!(part.status, 400, "{part:?}");
    assert!(part.text().contains("fishplate put"), "{part:?}");
    assert_eq!(put(&to("a"), &["Content-Digest: garbage"]).status, 400);
    for name in ["%2e%2e", "%2e", "a%0Ab", "a%E2%80%AEb", "a%2Fb", "%FF"] {
        let refused = put(&to(name), &[]);
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
        assert!(refused.text().contains("a file's name"), "{refused:?}");
    }
    assert_eq!(put(&to("a"), &["If-Match: *"]).status, 412);
    let new = put(&to("a"), &["If-None-Match: *"]);
    assert_eq!(new.status, 201, "{new:?}");
    let nowhere = put(&format!("http://{}/nowhere/a", server.address()), &[]);
    assert_eq!(nowhere.status, 404);
    assert_eq!(nowhere.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(nowhere.text().contains(&base(&server)), "{nowhere:?}");
}

#[test]
fn who_waits_to_be_asked_for_data_that_is_refused_is_not_asked() {
    let server = server(&[]);
    let mut stream = connect(&server);
    stream
        .write_all(
            b"PUT /data/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\
              Expect: 100-continue\r\nContent-Range: bytes 5-9/10\r\n\r\n",
        )
        .unwrap();
    let refused = whole_answer(&mut stream);
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused:?}");
    assert!(refused.to_ascii_lowercase().contains("connection: close"), "{refused:?}");
}

/// All that comes until the server ends the connection.
fn whole_answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn who_sends_all_of_what_is_refused_sees_the_answer() {
    let server = server(&["--limit", "drain_size=64KiB"]);
    let mut stream = connect(&server);
    let head = "PUT /data/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000\r\n\
                Content-Range: bytes 5-9/10\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&vec![0; 40_000_000]).expect("all of it is taken");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(&mut stream).status, 400);
}
