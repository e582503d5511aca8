//! Figures 4 and 5 of paper 000, word for word.

use crate::run::User;
use crate::server::Server;

fn arithmetic() -> Server {
    let mut server = Server::prepare();
    server.script("add.sh", "echo $(($1 + $2))");
    server.serve_as(
        "oids_server",
        &[
            "-n",
            "arithmetic-test",
            "-U",
            "urn:test",
            "-N",
            "Arithmetic Server",
            "--",
            "./add.sh",
            "[in val x:int]",
            "[in val y:int]",
            ">",
            "[out file result:int]",
        ],
    );
    server
}

#[test]
fn the_tools_of_the_paper_do_what_its_figures_show() {
    let server = arithmetic();
    let user = User::new();
    let url = format!("{}?wsdl", server.url());

    let usage = user.run_as("oids_tool", &[&url, "--usage"]);
    assert_eq!(usage.code, 0, "{usage:?}");
    let lines: Vec<&str> = usage.stdout.lines().map(str::trim).take(6).collect();
    assert_eq!(lines, ["call", "input:", "x: int", "y: int", "output:", "result: int"]);
    assert_eq!(user.succeed(&["usage", server.url()]), usage.stdout);

    user.write("two", "2\n");
    let call = user.run_as("oids_tool", &[&url, "call", "x=1", "y:two", "out:result"]);
    assert_eq!((call.code, &*call.stdout), (0, ""), "{call:?}");
    assert_eq!(user.read("result"), b"3\n");
}

#[test]
fn every_verb_stands_after_the_url_too() {
    let server = arithmetic();
    let user = User::new();
    let tool = |words: &[&str]| {
        let said = user.run_as("oids_tool", &[&[server.url()], words].concat());
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        said.stdout
    };
    let job = tool(&["spawn", "x=20", "y=3"]);
    let job = job.trim();
    assert_eq!(tool(&["wait", job]), "done\n");
    assert_eq!(tool(&["running", &format!("job={job}")]), "false\n");
    assert_eq!(tool(&["results", job]), "result: 23\n");
    assert!(tool(&["jobs"]).contains(job));
    assert_eq!(tool(&["remove", job]), "");
}
