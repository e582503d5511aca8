//! Resumable uploads (draft-ietf-httpbis-resumable-upload-12), by curl, over a server that is killed.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::curl::{Got, command, curl};
use crate::run::User;
use crate::server::{Server, until};

const SIZE: usize = 12_000_000;

fn bytes() -> Vec<u8> {
    (0..=250).cycle().take(SIZE).collect()
}

fn server() -> Server {
    server_with(&[])
}

fn server_with(words: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.serve(&[&["--builtin", "matrix"], words].concat());
    server
}

fn data(server: &Server) -> String {
    format!("http://{}/data/", server.address())
}

/// Begins an upload with nothing; gives its address.
fn begin(server: &Server, name: &str, fields: &[&str]) -> String {
    let mut words = vec!["--request", "POST", "--header", "Upload-Complete: ?0"];
    fields.iter().for_each(|field| words.extend(["--header", *field]));
    let url = format!("{}{name}", data(server));
    let got = curl(&[&words[..], &["--data", "", &url]].concat());
    assert_eq!((got.status, got.field("Upload-Offset")), (201, Some("0")), "{got:?}");
    assert!(got.field("Upload-Limit").unwrap().contains("max-age="), "{got:?}");
    got.field("Location").unwrap().to_owned()
}

fn append_words(at: u64, complete: bool) -> Vec<String> {
    let complete = if complete { "?1" } else { "?0" };
    [
        "--request",
        "PATCH",
        "--header",
        "Content-Type: application/partial-upload",
        "--header",
        &format!("Upload-Offset: {at}"),
        "--header",
        &format!("Upload-Complete: {complete}"),
        "--data-binary",
        "@-",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Appends bytes.
fn append(user: &User, upload: &str, at: u64, bytes: &[u8], complete: bool) -> Got {
    user.write("part", bytes);
    let mut words = append_words(at, complete);
    *words.last_mut().unwrap() = format!("@{}", user.path("part").display());
    let words: Vec<&str> = words.iter().map(String::as_str).chain([upload]).collect();
    curl(&words)
}

fn offset(upload: &str) -> u64 {
    let got = curl(&["--head", upload]);
    assert_eq!((got.status, got.field("Cache-Control")), (204, Some("no-store")), "{got:?}");
    got.field("Upload-Offset").unwrap().parse().unwrap()
}

#[test]
fn an_upload_in_parts_is_one_file() {
    let (server, user, all) = (server(), User::new(), bytes());
    let about = curl(&["--request", "OPTIONS", &data(&server)]);
    assert_eq!(about.field("Accept-Patch"), Some("application/partial-upload"));
    let length = format!("Upload-Length: {SIZE}");
    let upload = begin(&server, "mesh.msh", &[&length]);
    let got = append(&user, &upload, 0, &all[..5_000_000], false);
    assert_eq!((got.status, got.field("Upload-Offset")), (204, Some("5000000")), "{got:?}");
    let wrong = append(&user, &upload, 4_999_999, &all[..10], false);
    assert_eq!((wrong.status, wrong.field("Upload-Offset")), (409, Some("5000000")));
    let problem: Value = serde_json::from_slice(&wrong.body).unwrap();
    assert!(problem["type"].as_str().unwrap().ends_with("#mismatching-upload-offset"));
    assert_eq!(problem["expected-offset"], 5_000_000);
    let long = append(&user, &upload, 5_000_000, &all[..7_000_001], true);
    assert_eq!(long.status, 400, "{long:?}");
    assert_eq!(offset(&upload), 5_000_000);
    let done = append(&user, &upload, 5_000_000, &all[5_000_000..], true);
    assert_eq!((done.status, done.field("Upload-Complete")), (201, Some("?1")), "{done:?}");
    let url = done.text().to_owned();
    assert!(url.ends_with("/mesh.msh"), "{url}");
    assert!(curl(&[&url]).body == all);
    // Who did not get the last answer learns it.
    let after = curl(&["--head", &upload]);
    assert_eq!(
        (after.field("Upload-Complete"), after.field("Location")),
        (Some("?1"), Some(&*url))
    );
    assert_eq!(append(&user, &upload, SIZE as u64, b"more", true).status, 400);
}

#[test]
fn a_part_that_is_not_what_its_digest_says_is_not_kept() {
    let (server, user) = (server(), User::new());
    let upload = begin(&server, "file", &[]);
    user.write("part", "hello");
    let wrong = "Content-Digest: sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    let mut words = append_words(0, false);
    *words.last_mut().unwrap() = format!("@{}", user.path("part").display());
    let words: Vec<&str> =
        words.iter().map(String::as_str).chain(["--header", wrong, &upload]).collect();
    assert_eq!(curl(&words).status, 422);
    assert_eq!(offset(&upload), 0);
    // The digest of the whole is looked at in the end.
    let upload = begin(&server, "file", &[&wrong.replace("Content", "Repr")]);
    let refused = append(&user, &upload, 0, b"hello", true);
    assert_eq!((refused.status, refused.field("Upload-Complete")), (422, Some("?1")));
    assert_eq!(curl(&["--head", &upload]).status, 404);
}

#[test]
fn an_upload_can_be_cancelled_and_is_its_owners() {
    let (server, user) = (server(), User::new());
    let upload = begin(&server, "file", &[]);
    append(&user, &upload, 0, b"hello", false);
    assert_eq!(curl(&["--request", "DELETE", &upload]).status, 204);
    assert_eq!(curl(&["--head", &upload]).status, 404);
    assert_eq!(append(&user, &upload, 5, b"x", true).status, 404);
    assert_eq!(curl(&["--request", "PUT", "--data", "x", &upload]).status, 405);
}

#[test]
fn an_upload_over_a_server_that_is_killed_goes_on_from_what_is_there() {
    let (mut server, user, all) = (server(), User::new(), bytes());
    let upload = begin(&server, "mesh", &[]);
    let words = append_words(0, true);
    let words: Vec<&str> = words.iter().map(String::as_str).chain([upload.as_str()]).collect();
    // Chunked, so that curl sends what it gets before it has all.
    let chunked = ["--header", "Transfer-Encoding: chunked", "--upload-file", "-"];
    let mut words: Vec<&str> = words.into_iter().filter(|word| *word != "@-").collect();
    words.retain(|word| *word != "--data-binary");
    let mut sending = command(&[&words[..], &chunked].concat());
    let mut sending = sending.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = sending.stdin.take().unwrap();
    pipe.write_all(&all[..8_000_000]).unwrap();
    pipe.flush().unwrap();
    let incoming = server.data().join("pool/incoming");
    let there = || {
        let files = fs::read_dir(&incoming).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum::<u64>()
    };
    until("most of it is there", || there() >= 6_000_000);
    server.kill();
    drop(pipe);
    assert!(!sending.wait().unwrap().success());
    server.restart();
    let at = offset(&upload);
    assert!((6_000_000..=8_000_000).contains(&at), "{at}");
    let rest = usize::try_from(at).unwrap();
    let done = append(&user, &upload, at, &all[rest..], true);
    assert_eq!(done.status, 201, "{done:?}");
    assert!(curl(&[done.text()]).body == all);
    assert_eq!(there(), 0);
}

#[test]
fn who_comes_back_drives_away_the_request_that_hangs() {
    let (server, user, all) = (server(), User::new(), bytes());
    let upload = begin(&server, "mesh", &[]);
    let words = append_words(0, true);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.truncate(words.len() - 2);
    let more = ["--header", "Transfer-Encoding: chunked", "--upload-file", "-", &upload];
    let mut hanging = command(&[&words[..], &more].concat());
    let mut hanging = hanging.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = hanging.stdin.take().unwrap();
    pipe.write_all(&all[..3_000_000]).unwrap();
    pipe.flush().unwrap();
    let incoming = server.data().join("pool/incoming");
    until("some of it is there", || {
        let files = fs::read_dir(&incoming).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|about| about.len() >= 2_000_000)
    });
    let at = offset(&upload);
    let done = append(&user, &upload, at, &all[usize::try_from(at).unwrap()..], true);
    assert_eq!(done.status, 201, "{done:?}");
    drop(pipe);
    let _ = hanging.wait();
    assert!(curl(&[done.text()]).body == all);
}

#[test]
fn an_owner_has_so_many_uploads_under_way_and_those_that_failed_do_not_count() {
    let (server, user) = (server_with(&["--limit", "uploads_open=2"]), User::new());
    user.write("part", "hello");
    let part = format!("@{}", user.path("part").display());
    let one_more = |fields: &[&str]| {
        let mut words = vec!["--request", "POST", "--header", "Upload-Complete: ?0"];
        fields.iter().for_each(|field| words.extend(["--header", *field]));
        curl(&[&words[..], &["--data-binary", &part, &data(&server)]].concat())
    };
    let wrong = "Content-Digest: sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    for _ in 0..3 {
        assert_eq!(one_more(&[wrong]).status, 422);
    }
    let upload = begin(&server, "file", &[]);
    begin(&server, "file", &[]);
    let refused = one_more(&[]);
    assert_eq!(refused.status, 413, "{refused:?}");
    assert!(refused.text().contains("uploads_open: 2"), "{refused:?}");
    assert_eq!(append(&user, &upload, 0, b"hello", true).status, 201);
    assert_eq!(one_more(&[]).status, 201);
}

#[test]
fn who_has_a_reference_can_revoke_it() {
    let (server, user) = (server(), User::new());
    fs::write(user.path("a"), "abc").unwrap();
    let put = |name: &str| user.succeed(&["put", name, "--to", &data(&server)]).trim().to_owned();
    let (first, second) = (put("a"), put("a"));
    let wrong = "ab".repeat(32);
    let said = user.run(&["get", &first, "-o", "b", "--sha256", &wrong, "--json"]);
    let error: Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!(error["error"]["code"], "DataMismatch");
    assert!(error["error"]["message"].as_str().unwrap().ends_with(&wrong), "{error}");
    let told = user.json(&["revoke", &first]);
    assert_eq!(told, json!({ "revoked": [first], "failed": [] }));
    let said = user.run(&["get", &first, "--json"]);
    let error: Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!((said.code, &error["error"]["code"]), (3, &json!("NoSuchData")));
    let said = user.run(&["revoke", &first, &second]);
    assert_eq!((said.code, &*said.stdout), (3, ""));
    assert!(said.stderr.contains(&first) && !said.stderr.contains(&second), "{said:?}");
    assert_eq!(curl(&[&second]).status, 404);
}
