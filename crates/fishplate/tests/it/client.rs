//! The client's commands against a real server.

use serde_json::json;

use crate::run::packagings;
use crate::run::{User, ended};
use crate::server::{Server, interrupt, until};

const NO_JOB: &str = "000102030405060708090a0b0c0d0e0f";

/// Copies its input; the name of the output differs from the input's.
fn copying() -> Server {
    Server::of_script(
        "cat \"$1\" > \"$2\"; wc -c < \"$1\"",
        &["[in file deck:raw]", "[out file copy:raw]", ">", "[out file size:long]"],
    )
}

/// Runs until `DIR/go` is there, and counts its runs.
fn gated() -> Server {
    Server::of_script(
        "echo run >> DIR/runs; echo first; echo problem >&2; \
         n=0; while [ ! -e DIR/go ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n + 1)); done; \
         echo last; echo $1 > result",
        &["[in val x:int]", "2>", "err", "[out file result:int]"],
    )
}

#[test]
fn a_file_goes_there_and_back_in_either_packaging_and_leaves_nothing_beside_it() {
    let server = copying();
    let user = User::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    user.write("deck.inp", &bytes);
    for (more, target) in
        [(&[][..], "a"), (&["--packaging", "xml"], "b"), (&["--soap", "1.2"], "c")]
    {
        let out = format!("out:copy={target}");
        let words = [&["call", server.url(), "deck:deck.inp", &out], more].concat();
        assert_eq!(user.succeed(&words), "size: 3000001\n");
        assert_eq!(user.read(target), bytes, "{more:?}");
    }
    assert_eq!(user.names(), ["a", "b", "c", "deck.inp"]);
}

#[test]
fn a_large_file_needs_no_memory_in_the_client() {
    const SIZE: u64 = 160 << 20;
    const MOST: u64 = 64 << 10; // KiB
    let server = Server::of_script("ln $1 $2", &["[in file deck:raw]", "[out file copy:raw]"]);
    let user = User::new();
    std::fs::File::create(user.path("deck")).unwrap().set_len(SIZE).unwrap();
    for packaging in packagings() {
        let words = ["call", server.url(), "deck:deck", "out:copy", "--packaging", packaging];
        let peak = user.peak(&words);
        assert_eq!(std::fs::metadata(user.path("copy")).unwrap().len(), SIZE);
        assert!(0 < peak && peak < MOST, "{packaging}: {peak} KiB");
    }
}

#[test]
fn a_job_is_found_by_its_first_digits_or_as_the_last_one_on_a_service_or_a_server() {
    let server = copying();
    let user = User::new();
    let (service, all) = (server.url(), server.url().rsplit_once('/').unwrap().0);
    let jobs: Vec<String> = (0..3)
        .map(|n| user.succeed(&["spawn", service, &format!("deck={n}")]).trim().to_owned())
        .collect();
    for job in &jobs {
        assert_eq!(user.succeed(&["wait", service, job]), "done\n");
    }
    // Long enough that no two of three random IDs begin so.
    let digits = &jobs[1][..12];
    for url in [service, all] {
        assert_eq!(user.json(&["status", url, &jobs[1]])["job"], json!(jobs[1]));
        assert_eq!(user.json(&["status", url, digits])["job"], json!(jobs[1]));
        assert_eq!(user.json(&["status", url, "--last"])["job"], json!(jobs[2]));
        assert_eq!(user.succeed(&["results", url, digits, "out:copy=-"]), "1");
        assert_eq!(user.json(&["jobs", url])["jobs"].as_array().unwrap().len(), 3);
        let none = user.run(&["status", url, "ffff0000ffff"]);
        assert_eq!(none.code, 8, "{none:?}");
        let none = user.run(&["status", url, NO_JOB]);
        assert_eq!(none.code, 8, "{none:?}");
    }
    let slip = user.run(&["kill", service, "xyz"]);
    assert_eq!(slip.code, 2, "{slip:?}");
    assert!(slip.stderr.contains("\"xyz\" is no job"), "{slip:?}");
    assert_eq!(user.succeed(&["remove", all, digits]), "");
    assert_eq!(user.json(&["jobs", all])["jobs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_that_nobody_asked_for_is_named_on_standard_error() {
    let server = copying();
    let user = User::new();
    let said = user.run(&["call", server.url(), "deck=abc"]);
    assert_eq!((said.code, &*said.stdout), (0, "size: 3\n"));
    assert!(said.stderr.starts_with("copy: 3 B, not written; `fishplate results "), "{said:?}");
    assert!(said.stderr.contains(" out:copy` writes it"), "{said:?}");
    // Standard output is the data's then.
    let said = user.run(&["call", server.url(), "deck=abc", "out:copy=-"]);
    assert_eq!((said.code, &*said.stdout, &*said.stderr), (0, "abc", "size: 3\n"));
    let value = user.json(&["call", server.url(), "deck=abc", "out:copy=dir/"]);
    assert_eq!(
        value["outputs"],
        json!({ "size": { "value": 3 }, "copy": { "file": "dir/copy", "size": 3 } })
    );
    assert_eq!(user.read("dir/copy"), b"abc");
}

#[test]
fn outputs_by_glob_go_into_a_directory() {
    let server = Server::of_file(
        "echo a > a.msh; mkdir -p sub; echo b > sub/b.msh; echo b > b.msh",
        "name = \"glob\"\ncommand = [\"./program\"]\n[output.mesh]\ntype = \"raw\"\nglob = \"*.msh\"\n",
    );
    let user = User::new();
    user.succeed(&["call", server.url(), "out:mesh"]);
    assert_eq!(
        (user.read("mesh/a.msh"), user.read("mesh/b.msh")),
        (b"a\n".to_vec(), b"b\n".to_vec())
    );
    let value = user.json(&["call", server.url()]);
    assert_eq!(
        value["outputs"]["mesh"],
        json!([{ "name": "a.msh", "size": 2 }, { "name": "b.msh", "size": 2 }])
    );
}

#[test]
fn a_job_is_spawned_watched_and_its_results_fetched() {
    let server = gated();
    let (user, url) = (User::new(), server.url());
    let job = user.succeed(&["spawn", url, "x=7"]);
    let job = job.strip_suffix('\n').unwrap();
    assert_eq!(job.len(), 32);
    assert_eq!(user.succeed(&["running", url, job]), "true\n");
    let early = user.run(&["results", url, job]);
    assert_eq!(early.code, 7, "{early:?}");
    assert!(early.stderr.contains("error: NotFinished:"), "{early:?}");
    assert_eq!(user.run(&["wait", url, job, "--timeout", "3s"]).code, 7);

    let follow = user.start(&["log", url, job, "--follow"]);
    until("the log is there", || user.succeed(&["log", url, job]) == "first\n");
    std::fs::write(server.path("go"), "").unwrap();
    assert_eq!(ended(follow).stdout, "first\nlast\n");

    assert_eq!(user.succeed(&["wait", url, job]), "done\n");
    assert_eq!(user.succeed(&["running", url, job]), "false\n");
    assert_eq!(user.succeed(&["results", url, job, "out:result"]), "");
    assert_eq!(user.read("result"), b"7\n");
    let status = user.json(&["status", url, job]);
    assert_eq!((&status["state"], &status["exitCode"]), (&json!("done"), &json!(0)));
    let jobs = user.json(&["jobs", url, "--state", "done"]);
    assert_eq!(jobs["jobs"][0]["job"], json!(job));
    assert_eq!(jobs["jobs"][0].get("transfers"), None, "a list does not tell of them");
    user.succeed(&["remove", url, job]);
    assert_eq!(user.run(&["status", url, job]).code, 8);
    assert_eq!(server.runs(), 1);
}

#[test]
fn a_job_that_is_killed_says_so() {
    let server = gated();
    let (user, url) = (User::new(), server.url());
    let job = user.succeed(&["spawn", url, "x=7"]);
    let job = job.trim();
    until("it runs", || server.runs() == 1);
    assert_eq!(user.succeed(&["kill", url, job]), "killed\n");
    assert_eq!(user.run(&["wait", url, job]).code, 5);
    let results = user.run(&["results", url, job]);
    assert_eq!(results.code, 5, "{results:?}");
    assert!(results.stderr.contains("error: JobKilled:"), "{results:?}");
}

#[test]
fn every_kind_of_failure_has_its_exit_code_and_says_what_to_do() {
    let server = Server::of_script(
        "echo bad deck >&2; [ $1 -gt 0 ]",
        &["[in val x:int]", ">", "[out file y:string]"],
    );
    let (user, url) = (User::new(), server.url());
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/s", listener.local_addr().unwrap())
    };
    let server_url = &*format!("http://{}", server.address());
    let cases: [(i32, &[&str], &str); 17] = [
        (2, &["call", url, "x"], "NAME=VALUE"),
        (2, &["call", url, "xx=1"], "hint: did you mean x?"),
        (2, &["call", url], "needs the input x"),
        (2, &["call", url, "x:nofile"], "cannot read nofile"),
        (2, &["call", url, "x=1", "out:z"], "has no output z"),
        (2, &["call", url, "x=1", "out:y=no/dir"], "there is no directory no"),
        (2, &["frobnicate"], "unrecognized subcommand"),
        (3, &["call", url, "x=one"], "error: InvalidValue:"),
        (5, &["call", url, "x=0"], "bad deck"),
        (6, &["call", &gone, "x=1"], "cannot reach"),
        (6, &["usage", &format!("{url}x")], "there is no service at"),
        (6, &["usage", &format!("{url}x")], &format!("{server_url}/session, {url}")),
        (6, &["usage", server_url], "is a server, not a service"),
        (2, &["call", url, "x=1", "out:y=-", "--json"], "cannot have both"),
        (2, &["put", "--to", url, "/dev/null", "nofile"], "cannot read nofile"),
        (3, &["revoke", &format!("{server_url}/data/none")], "hint: a reference expires"),
        (8, &["status", url, NO_JOB], "error: NoSuchJob:"),
    ];
    for (code, words, message) in cases {
        let said = user.run(words);
        assert_eq!((said.code, &*said.stdout), (code, ""), "{words:?}: {said:?}");
        assert!(said.stderr.contains(message), "{words:?}: {said:?}");
    }
    let said = user.run(&["status", url, "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!((said.code, error["error"]["exit"].as_i64()), (2, Some(2)));
    assert!(error["error"]["message"].as_str().unwrap().contains("which job?"), "{error}");
    let said = user.run(&["call", url, "x=0", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!(error["error"]["code"], "ProgramFailed");
    assert_eq!(error["error"]["exitCode"], 1);
    assert_eq!((said.code, error["error"]["exit"].as_i64()), (5, Some(5)));
}

#[test]
fn an_interrupted_call_goes_on_and_its_key_finds_it() {
    let server = gated();
    let (user, url) = (User::new(), server.url());
    let call = user.start(&["call", url, "x=5"]);
    until("it runs", || server.runs() == 1);
    interrupt(&call);
    let said = ended(call);
    assert_eq!((said.code, &*said.stdout), (130, ""), "{said:?}");
    let key = said.stderr.split("--key ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    std::fs::write(server.path("go"), "").unwrap();
    assert_eq!(user.succeed(&["call", url, "x=5", "--key", key]), "result: 5\n");
    assert_eq!(server.runs(), 1);
}

#[test]
fn the_wsdl_completions_help_and_version_are_printed() {
    let server = copying();
    let (user, url) = (User::new(), server.url());
    let wsdl = user.succeed(&["wsdl", url]);
    assert!(wsdl.contains(":definitions"), "{wsdl}");
    assert_eq!(user.json(&["wsdl", &format!("{url}?wsdl")])["wsdl"], json!(wsdl));
    assert!(user.succeed(&["completions", "bash"]).contains("complete -F"));
    assert!(user.succeed(&["help", "exit-codes"]).contains("    9  "));
    let version = concat!("fishplate ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(user.succeed(&["--version"]), version);
}

#[test]
fn put_and_session_need_only_the_address_that_was_typed() {
    let (mut server, user) = (Server::prepare(), User::new());
    server.serve_behind("http://127.0.0.1:1/", &["--builtin", "matrix"]);
    let typed = format!("http://{}", server.address());
    user.write("large", vec![7; 1_000_000]);
    let public = user.succeed(&["put", "large", "--to", &typed]);
    let path = public.trim().strip_prefix("http://127.0.0.1:1/").unwrap();
    user.succeed(&["get", &format!("{typed}/{path}"), "-o", "back"]);
    assert_eq!(user.read("back"), user.read("large"));
    let session = user.succeed(&["session", "open", &typed]);
    user.succeed(&["session", "files", &typed, session.trim()]);
    user.succeed(&["session", "close", &typed, session.trim()]);
}

#[test]
fn where_nobody_listens_is_told_and_given_up_soon() {
    let user = User::new();
    let said = user.run(&["get", "http://127.0.0.1:1/x"]);
    assert_eq!(said.code, 6, "{said:?}");
    let hint = "hint: is the address right, and does its server run?";
    assert!(said.stderr.contains("refused") && said.stderr.contains(hint), "{said:?}");
    assert!(!said.stderr.contains("goes on where it stopped"), "{said:?}");
}

#[test]
fn who_reads_only_the_beginning_is_told_nothing() {
    let (mut server, user) = (Server::prepare(), User::new());
    server.serve(&["--builtin", "matrix"]);
    user.write("large", vec![b'\n'; 12_000_000]);
    let typed = format!("http://{}", server.address());
    let url = user.succeed(&["put", "large", "--to", &typed]);
    let mut child = user.start(&["get", url.trim(), "-o", "-"]);
    drop(child.stdout.take());
    let said = ended(child);
    assert_eq!((said.code, &*said.stderr), (141, ""), "{said:?}");
}
