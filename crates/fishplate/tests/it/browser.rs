//! What a browser does, against the real server: a large file in a form, a page that is open while the server is killed, who is logged in.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::curl::{command, curl};
use crate::login::Site;
use crate::processes;
use crate::server::{Server, until};

/// What a server may take at most while a form with a file of 300 MB passes through it.
const PEAK: u64 = 64 << 20;

const ACCEPT: &str = "Accept: text/html";

#[test]
fn a_large_file_of_a_form_costs_no_memory() {
    let server =
        Server::of_script("wc -c < \"$1\" > \"$2\"", &["[in file deck:raw]", "[out file n:long]"]);
    let size: u64 = 300_000_000;
    std::fs::File::create(server.path("deck")).unwrap().set_len(size).unwrap();
    let url = format!("http://{}/ogc/processes/test/execution", server.address());
    let file = format!("deck=@{}", server.path("deck").display());
    let got = curl(&["--form", &file, &url]);
    assert_eq!((got.status, got.text()), (200, &*size.to_string()), "{got:?}");
    let peak = processes::peak_memory(server.pid());
    println!("peak of the server: {} MiB", peak >> 20);
    assert!(peak < PEAK, "the server took {} MiB", peak >> 20);
}

#[test]
fn who_watches_a_job_goes_on_when_its_server_was_killed() {
    let mut server =
        Server::of_script("echo first; until [ -e DIR/go ]; do sleep 0.05; done; echo last", &[]);
    let run = format!("http://{}/ogc/processes/test/execution", server.address());
    let got = curl(&["--header", ACCEPT, "--data", "", &run]);
    assert_eq!(got.status, 303, "{got:?}");
    let job = format!("http://{}{}", server.address(), got.field("location").unwrap());
    let events = format!("{job}/events");
    let follow = || {
        let mut curl = command(&["--no-buffer", &events]);
        curl.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let seen = |following: &mut std::process::Child, wanted: &str| {
        let lines = BufReader::new(following.stdout.as_mut().unwrap()).lines();
        lines.map_while(Result::ok).any(|line| line.contains(wanted))
    };
    let mut following = follow();
    assert!(seen(&mut following, "\"text\":\"first\\n\""));
    server.kill();
    let _ = following.wait();
    server.restart();
    let mut following = follow();
    // All of it is told again.
    assert!(seen(&mut following, "\"anew\":true,\"stream\":\"stdout\",\"text\":\"first\\n\""));
    std::fs::write(server.path("go"), "").unwrap();
    assert!(seen(&mut following, "event: end"));
    assert!(following.wait().unwrap().success());
    until("its page has its results", || {
        curl(&["--header", ACCEPT, &job]).text().contains("<section id=\"results\">")
    });
    // Nobody is waited for when it stops.
    let begun = std::time::Instant::now();
    server.stop();
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn each_page_tells_who_is_logged_in_and_who_is_not_gets_a_page_that_says_so() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let root = format!("http://{}", site.server.address());
    let asked = curl(&["--header", ACCEPT, &format!("{root}/test")]);
    assert_eq!(asked.status, 401, "{asked:?}");
    assert!(
        asked.field("www-authenticate").is_some() && asked.text().contains("<h1>Who are you?</h1>"),
        "{asked:?}"
    );
    let page = curl(&["--user", "ada:lovelace", "--header", ACCEPT, &format!("{root}/test")]);
    assert!(page.text().contains("logged in as <b>ada</b>"), "{page:?}");
    // What every server has needs no login.
    assert_eq!(curl(&[&format!("{root}/-/style.css")]).status, 200);
}
