//! The server goes away in the middle of a call.

use crate::run::{User, ended};
use crate::server::{Server, until};

#[test]
fn a_call_outlives_the_server_and_the_program_runs_once() {
    let mut server = Server::of_script(
        "echo run >> DIR/runs; n=0; \
         while [ ! -e DIR/go ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n + 1)); done; echo $1",
        &["[in val x:int]", ">", "[out file y:int]"],
    );
    let user = User::new();
    let url = server.url().to_owned();
    let call = user.start(&["call", &url, "x=42"]);
    until("it runs", || server.runs() == 1);
    server.kill();
    server.restart();
    std::fs::write(server.path("go"), "").unwrap();
    let said = ended(call);
    assert_eq!((said.code, &*said.stdout), (0, "y: 42\n"), "{said:?}");
    assert_eq!(server.runs(), 1);

    server.stop();
    server.restart();
    let jobs = user.json(&["jobs", &url]);
    assert_eq!(jobs["jobs"][0]["state"], "done");
}

#[test]
fn without_a_key_a_broken_connection_is_an_error() {
    let mut server = Server::of_script(
        "echo run >> DIR/runs; n=0; \
         while [ ! -e DIR/go ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n + 1)); done; echo $1",
        &["[in val x:int]", ">", "[out file y:int]"],
    );
    let user = User::new();
    let url = server.url().to_owned();
    let call = user.start(&["call", &url, "x=42", "--no-key"]);
    until("it runs", || server.runs() == 1);
    server.kill();
    let said = ended(call);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stderr.contains("lost the connection"), "{said:?}");
    std::fs::write(server.path("go"), "").unwrap();
}
