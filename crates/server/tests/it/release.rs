//! A call whose answer was taken leaves nothing behind; what somebody may ask for again stays.

use crate::bed::{Server, Setup, envelope, until};

const SERVICE: &str = "name = 'copy'\ncommand = './copy [in val n:int] > [out file text:string]'\n";

fn copying(script: &str) -> Server {
    Setup::new().with("copy", SERVICE, script).serve()
}

fn jobs(server: &Server) -> String {
    let answer = server.call("copy", "jobs", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().to_owned()
}

#[test]
fn a_call_that_was_answered_leaves_no_job_and_no_files() {
    let server = copying("echo $1");
    let answer = server.call("copy", "call", "<n>17</n>");
    assert_eq!((answer.status, answer.element("text")), (200, Some("17\n")), "{answer:?}");
    until("the job is gone", || server.names("jobs").is_empty());
    assert!(!jobs(&server).contains("<job>"));
}

#[test]
fn a_call_that_faults_leaves_no_job_either() {
    let server = copying("exit 3");
    let answer = server.call("copy", "call", "<n>17</n>");
    assert_eq!(answer.status, 500, "{answer:?}");
    until("the job is gone", || server.names("jobs").is_empty());
}

#[test]
fn a_job_that_was_spawned_stays_until_it_is_removed() {
    let server = copying("echo $1");
    let answer = server.call("copy", "spawn", "<n>17</n>");
    let job = answer.element("job").unwrap().to_owned();
    let about = format!("<job>{job}</job>");
    let running = || server.call("copy", "running", &about);
    until("it has ended", || running().element("running") == Some("false"));
    for _ in 0..2 {
        assert_eq!(server.call("copy", "results", &about).element("text"), Some("17\n"));
    }
    assert_eq!(server.names("jobs"), [job]);
    assert_eq!(server.call("copy", "remove", &about).element("removed"), Some("true"));
    until("its files are gone", || server.names("jobs").is_empty());
    let fault = server.call("copy", "results", &about);
    assert!(fault.text().contains("NoSuchJob"), "{}", fault.text());
}

#[test]
fn a_call_whose_caller_hung_up_goes_on_and_can_be_found() {
    let directory = tempfile::tempdir().unwrap();
    let (gate, begun) = (directory.path().join("gate"), directory.path().join("begun"));
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", gate.display());
    let server = copying(&format!("touch {}; {wait}; echo $1", begun.display()));
    let mut connection = server.connect();
    let envelope = envelope("copy", "call", "<n>17</n>");
    let fields = "Content-Type: text/xml\r\n";
    connection.send(&server.request("POST", "/copy", fields, envelope.as_bytes()));
    until("the program runs", || begun.exists());
    drop(connection);
    // The one that asks is the only one left.
    let alone = "\nfishplate_connections 1\n";
    until("it is seen that the caller is gone", || server.get("/metrics").text().contains(alone));
    std::fs::write(&gate, "").unwrap();
    let [job] = &server.names("jobs")[..] else { panic!("one job") };
    let about = format!("<job>{job}</job>");
    let status = || server.call("copy", "status", &about);
    until("it has ended", || status().element("state") == Some("done"));
    assert!(jobs(&server).contains(job));
    assert_eq!(server.call("copy", "results", &about).element("text"), Some("17\n"));
}
