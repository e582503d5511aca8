//! The verbs on jobs, and what a service file can say, through the client.

use std::fs;

use serde_json::json;

use crate::processes::is_alive;
use crate::run::{User, ended};
use crate::server::{Server, until};
use crate::soap::{Version, ask, key_header, post, wrapper};

#[test]
fn kill_ends_a_double_forked_grandchild_in_a_session_of_its_own() {
    let server = Server::of_file(
        "trap '' TERM\n\
         (env -i PATH=$PATH setsid sh -c 'trap \"\" TERM; echo $$ > DIR/grandchild; \
         while :; do sleep 1; done' &) &\n\
         echo $$ > DIR/child; while :; do sleep 1; done",
        "name = \"test\"\ncommand = [\"./program\"]\n[limits]\nkill_grace = \"200ms\"\n",
    );
    let (user, url) = (User::new(), server.url());
    let job = user.succeed(&["spawn", url]);
    let job = job.trim();
    let pid =
        |name| -> Option<i32> { fs::read_to_string(server.path(name)).ok()?.trim().parse().ok() };
    until("both run", || pid("child").is_some() && pid("grandchild").is_some());
    let both = [pid("child").unwrap(), pid("grandchild").unwrap()];
    assert!(both.iter().all(|pid| is_alive(*pid)));

    let killed = user.json(&["kill", url, job]);
    assert_eq!(killed["state"], "killed", "{killed}");
    assert!(!both.iter().any(|pid| is_alive(*pid)), "something is left");
    let status = user.json(&["status", url, job]);
    assert!(["cgroup", "sweep"].map(|how| json!(how)).contains(&status["endedBy"]), "{status}");
    assert_eq!(user.json(&["kill", url, job])["state"], "killed");
    user.succeed(&["remove", url, job]);
}

#[test]
fn what_a_program_leaves_running_ends_with_its_job() {
    let server = Server::of_script(
        "(env -i PATH=$PATH setsid sh -c 'echo $$ > DIR/left; exec sleep 1000' &) &\n\
         until [ -s DIR/left ]; do sleep 0.01; done; echo 1",
        &[">", "[out file y:int]"],
    );
    let user = User::new();
    assert_eq!(user.succeed(&["call", server.url()]), "y: 1\n");
    let pid = fs::read_to_string(server.path("left")).unwrap().trim().parse().unwrap();
    until("it has ended", || !is_alive(pid));
}

#[test]
fn progress_is_told_while_the_program_runs() {
    let server = Server::of_file(
        "for n in 1 2 3 4; do echo increment $n of 4; \
         until [ -e DIR/go$n ]; do sleep 0.02; done; done",
        "name = \"test\"\ncommand = [\"./program\"]\n\
         [progress]\npattern = 'increment (\\d+) of (\\d+)'\n",
    );
    let (user, url) = (User::new(), server.url());
    let job = user.succeed(&["spawn", url]);
    let job = job.trim();
    for n in 1..=4 {
        until(&format!("step {n}"), || {
            user.json(&["status", url, job])["progress"] == json!(f64::from(n) / 4.0)
        });
        let listed = user.json(&["jobs", url]);
        assert_eq!(listed["jobs"][0]["progress"], json!(f64::from(n) / 4.0), "{listed}");
        fs::write(server.path(format!("go{n}")), "").unwrap();
    }
    assert_eq!(user.succeed(&["wait", url, job]), "done\n");
    let status = user.json(&["status", url, job]);
    assert_eq!(status["progress"], json!(1.0));
    for field in ["submitted", "started", "ended", "cpuSeconds", "maxMemory", "disk"] {
        assert!(!status[field].is_null(), "{field}: {status}");
    }
}

#[test]
fn a_log_is_given_in_pages_whatever_is_in_it() {
    let server = Server::of_script(
        "printf 'red \\033[31m\\000\\001 \\377 end\\n' >&2; \
         n=0; while [ $n -lt 60000 ]; do echo \"line $n\"; n=$((n + 1)); done; \
         until [ -e DIR/go ]; do sleep 0.02; done; printf last",
        &[],
    );
    let (user, url) = (User::new(), server.url());
    let job = user.succeed(&["spawn", url]);
    let job = job.trim();
    let follow = user.start(&["log", url, job, "--follow"]);
    let follow_json = user.start(&["log", url, job, "--follow", "--json"]);
    until("all lines are there", || user.succeed(&["log", url, job]).ends_with("line 59999\n"));
    fs::write(server.path("go"), "").unwrap();
    let mut expected: String = (0..60_000).map(|n| format!("line {n}\n")).collect();
    expected.push_str("last");
    assert!(expected.len() > 512 << 10);
    assert!(ended(follow).stdout == expected);
    let said = ended(follow_json).stdout;
    let pages: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(pages.len() > 2);
    let text: String = pages.iter().map(|page| page["text"].as_str().unwrap()).collect();
    assert!(text == expected);
    assert_eq!(pages.last().unwrap()["end"], json!(true));
    let from = (expected.len() - 6).to_string();
    assert_eq!(user.succeed(&["log", url, job, "--offset", &from]), "9\nlast");
    // Neither XML nor a terminal takes everything that a program may print.
    let errors = user.succeed(&["log", url, job, "--stream", "stderr"]);
    assert!(errors.starts_with("red ") && errors.ends_with(" end\n"), "{errors:?}");
}

#[test]
fn what_xml_cannot_hold_does_not_break_a_fault_or_an_output() {
    let server = Server::of_script(
        "printf 'bad \\033[31m \\000 \\377 \\357\\277\\277 ]]> <&' | tee /dev/stderr; exit $1",
        &["[in val code:int]", ">", "[out file y:string]"],
    );
    for version in crate::soap::VERSIONS {
        let failed = ask(&server, version, "call", "<code>1</code>");
        failed.assert_fault(version, "ProgramFailed");
        assert!(failed.text("stderr").unwrap().starts_with("bad "), "{failed:#?}");
        let controls = |body: &str| body.chars().any(|c| c < ' ' && !"\t\r\n".contains(c));
        assert!(!controls(&failed.body), "{failed:#?}");
        let invalid = ask(&server, version, "call", "<code>0</code>");
        invalid.assert_fault(version, "OutputInvalid");
        assert!(!controls(&invalid.body), "{invalid:#?}");
        assert_eq!(invalid.text("parameter"), Some("y"));
    }
}

#[test]
fn infinities_nan_and_fortrans_numbers_pass_both_ways() {
    let server = Server::of_script(
        "printf %s \"$1\" > got; printf %s \"${2#prints:}\"",
        &[
            "[in val x:double]",
            "[in val prints:string]",
            ">",
            "[out file y:double]",
            "[out file got:string]",
        ],
    );
    for (sent, prints, comes_back) in [
        ("Infinity", "inf", "INF"),
        ("INF", "+INF", "INF"),
        ("+INF", " Infinity\n", "INF"),
        ("nan", "-nan", "NaN"),
        ("-Inf", "-inf", "-INF"),
        ("1e0", "1.0D+00", "1.0e+00"),
    ] {
        let arguments = format!("<x>{sent}</x><prints>prints:{prints}</prints>");
        let answer = ask(&server, Version::V11, "call", &arguments);
        assert_eq!(answer.text("y"), Some(comes_back), "{answer:#?}");
        let got = answer.text("got").unwrap();
        assert!(["INF", "-INF", "NaN", "1e0"].contains(&got), "{got}");
    }
}

#[test]
fn a_string_keeps_its_blanks_unless_the_service_trims_it() {
    let server = Server::of_file(
        "printf '[%s][%s][%s][%s]' \"$1\" \"$2\" \"$3\" \"$4\"; cat text",
        "name = 'test'\nnamespace = 'urn:fishplate:test'\n\
         command = './program [in val kept:string] [in val trimmed:string] [in val too:string trim] [in val n:int] > [out file y:string]'\n\
         [input.trimmed]\ntrim = true\n[input.text]\ntype = 'string'\nfilename = 'text'\n",
    );
    let arguments =
        "<kept>  a b\t</kept><trimmed>\n c </trimmed><too> d </too><n> 7 </n><text> d \n</text>";
    let answer = ask(&server, Version::V11, "call", arguments);
    assert_eq!(answer.text("y"), Some("[  a b\t][c][d][7] d \n"), "{answer:#?}");
    let dashed = arguments.replace("  a b", " -rf");
    ask(&server, Version::V11, "call", &dashed).assert_fault(Version::V11, "InvalidValue");
}

#[test]
fn an_answer_has_no_header_that_nobody_asked_for() {
    let server = Server::of_script("echo 3", &[">", "[out file y:int]"]);
    let spawned = ask(&server, Version::V11, "spawn", "");
    let job = spawned.text("job").unwrap().to_owned();
    let of_job = format!("<job>{job}</job>");
    until("it has ended", || {
        ask(&server, Version::V11, "running", &of_job).text("running") == Some("false")
    });
    let mut answers = vec![spawned, ask(&server, Version::V11, "call", "")];
    for verb in ["results", "status", "log", "kill", "remove"] {
        answers.push(ask(&server, Version::V11, verb, &of_job));
    }
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:#?}");
        assert!(!answer.body.contains("Header"), "{answer:#?}");
    }
    let keyed = Version::V11.envelope(&key_header("k"), &wrapper("call", ""));
    let answer = post(&server, Version::V11, &keyed);
    assert!(answer.body.contains("<job xmlns=\"urn:fishplate:options:1\">"), "{answer:#?}");
}

#[test]
fn jobs_are_listed_newest_first_and_in_pages() {
    let server = Server::of_script("exit $1", &["[in val code:int]"]);
    let (user, url) = (User::new(), server.url());
    let mut jobs: Vec<String> = (0..5)
        .map(|n| {
            let job = user.succeed(&["spawn", url, &format!("code={}", n % 2)]).trim().to_owned();
            user.run(&["wait", url, &job]);
            job
        })
        .collect();
    jobs.reverse();
    let page = |more: &[&str]| {
        let page = user.json(&[&["jobs", url], more].concat());
        let names: Vec<String> = page["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|report| report["job"].as_str().unwrap().to_owned())
            .collect();
        (names, page["more"].as_bool().unwrap())
    };
    assert_eq!(page(&[]), (jobs.clone(), false));
    assert_eq!(page(&["--limit", "2"]), (jobs[..2].to_vec(), true));
    assert_eq!(page(&["--limit", "2", "--after", &jobs[1]]), (jobs[2..4].to_vec(), true));
    assert_eq!(page(&["--limit", "2", "--after", &jobs[3]]), (jobs[4..].to_vec(), false));
    assert_eq!(page(&["--all"]), (jobs.clone(), false));
    assert_eq!(page(&["--state", "failed"]).0, [jobs[1].clone(), jobs[3].clone()]);
    user.succeed(&["remove", url, &jobs[0]]);
    assert_eq!(page(&[]).0, jobs[1..]);
}

#[test]
fn a_service_of_several_operations_has_verbs_for_each() {
    let server = Server::of_file(
        "",
        r#"
name = "test"
[operation.pack]
command = "gzip --no-name < [in file plain:raw] > [out file packed:raw]"
[operation.unpack]
command = "gzip --decompress < [in file packed:raw] > [out file plain:raw]"
"#,
    );
    let (user, url) = (User::new(), server.url());
    let bytes = b"a line\n".repeat(30_000);
    user.write("plain", &bytes);
    user.succeed(&["call", url, "--operation", "pack", "plain:plain", "out:packed"]);
    assert!(user.read("packed").len() < 2_000);
    let job = user.succeed(&["spawn", url, "--operation", "unpack", "packed:packed"]);
    let job = job.trim();
    assert_eq!(user.succeed(&["wait", url, job]), "done\n");
    let element = format!("<job>{job}</job>");
    ask(&server, Version::V11, "pack_results", &element).assert_fault(Version::V11, "NoSuchJob");
    user.succeed(&["results", url, job, "out:plain=again"]);
    assert!(user.read("again") == bytes);
    let said = user.run(&["call", url, "plain:plain"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("pack") && said.stderr.contains("unpack"), "{said:?}");
}

#[test]
fn a_file_is_changed_in_place_and_outputs_are_collected_by_name_and_glob() {
    let mut server = Server::prepare();
    server.script(
        "program",
        "echo more >> \"$1\"; echo one > a.vtk; mkdir sub; echo two > sub/b.vtk; \
         echo f > job.frd; cat stage.txt > staged",
    );
    fs::write(server.path("stage.txt"), "staged text").unwrap();
    let description = r#"
name = "test"
command = "./program [in out file deck:raw]"
stage = ["stage.txt"]
[input.deck]
filename = "job.inp"
[output.fields]
type = "string"
path = "job.frd"
[output.staged]
type = "string"
path = "staged"
[output.absent]
type = "raw"
path = "absent"
optional = true
[output.steps]
type = "raw"
glob = "**/*.vtk"
"#;
    fs::write(server.path("service.toml"), description).unwrap();
    server.serve(&["service.toml"]);
    let (user, url) = (User::new(), server.url());
    user.write("in", "first\n");
    let value = user.json(&["call", url, "deck:in", "out:deck=out", "out:steps=steps/"]);
    let outputs = &value["outputs"];
    assert_eq!(user.read("out"), b"first\nmore\n");
    assert_eq!(user.read("in"), b"first\n");
    assert_eq!(outputs["fields"]["value"], "f\n");
    assert_eq!(outputs["staged"]["value"], "staged text");
    assert!(outputs.get("absent").is_none(), "{outputs}");
    assert_eq!(outputs["steps"].as_array().unwrap().len(), 2);
    assert_eq!(
        (user.read("steps/a.vtk"), user.read("steps/sub/b.vtk")),
        (b"one\n".to_vec(), b"two\n".to_vec())
    );
}

#[test]
fn optional_and_default_inputs_flags_and_choices_make_the_command_line() {
    let server = Server::of_file(
        "for word in \"$@\"; do printf '<%s>' \"$word\"; done",
        r#"
name = "test"
command = "./program [in val order:int] [in val method:string] [in val verbose:bool] -q[in val quality:float] > [out file y:string]"
[input.order]
default = 2
min = 1
max = 9
[input.method]
choices = ["direct", "iterative"]
prefix = "--method"
optional = true
[input.verbose]
flag = "-v"
default = false
[input.quality]
default = "1.50"
"#,
    );
    let (user, url) = (User::new(), server.url());
    for (words, line) in [
        (&[][..], "<2><-q1.50>"),
        (
            &["order=7", "method=direct", "verbose=true", "quality=-1e-3"],
            "<7><--method><direct><-v><-q-1e-3>",
        ),
        (&["verbose=0", "order= 3 "], "<3><-q1.50>"),
    ] {
        let value = user.json(&[&["call", url], words].concat());
        assert_eq!(value["outputs"]["y"]["value"], json!(line), "{words:?}");
    }
    let said = user.run(&["call", url, "method=both"]);
    assert!(said.code == 3 && said.stderr.contains("direct"), "{said:?}");
}

#[test]
fn exit_codes_and_lines_of_the_log_mean_what_the_service_file_says() {
    let server = Server::of_file(
        "echo ' *ERROR: no convergence'; echo fine >&2; exit $1",
        r#"
name = "test"
command = "./program [in val code:int]"
[exit]
success = [0, 4]
meaning = { 201 = "did not converge" }
[failure]
log = ['^\s*\*ERROR']
"#,
    );
    let (user, url) = (User::new(), server.url());
    for (code, words) in
        [("201", "did not converge"), ("0", "*ERROR: no convergence"), ("4", "*ERROR")]
    {
        let said = user.run(&["call", url, &format!("code={code}")]);
        assert!(said.code == 5 && said.stderr.contains(words), "{said:?}");
    }
}

#[test]
fn each_call_and_each_job_leaves_one_line_in_the_log_that_tells_how_it_ended() {
    let server = Server::of_script("exit $1", &["[in val code:int]"]);
    let (user, url) = (User::new(), server.url());
    let lines = |part: &str| {
        let log = server.log();
        log.lines().filter(|line| line.contains(part)).map(str::to_owned).collect::<Vec<_>>()
    };
    user.succeed(&["call", "--no-key", url, "code=0"]);
    until("the call is told", || lines("INFO call ").len() == 1);
    let job = user.succeed(&["spawn", url, "code=3"]);
    let job = job.trim();
    user.run(&["wait", url, job]);
    user.run(&["status", url, job]);
    user.succeed(&["remove", url, job]);
    until("the removal is told", || !lines("INFO remove ").is_empty());
    for part in ["INFO spawn ", "INFO job ended ", "INFO remove "] {
        let told = lines(part);
        assert!(matches!(&told[..], [line] if line.contains(job)), "{part}: {}", server.log());
    }
    assert!(lines("INFO job ended ")[0].contains("exit code 3"), "{}", server.log());
    assert_eq!(lines("INFO status ").len(), 0, "{}", server.log());
    user.run(&["call", "--no-key", url, "code=1"]);
    until("the second call is told", || lines("INFO call ").len() == 2);
    assert!(lines("INFO call ")[1].contains("fault=\"ProgramFailed\""), "{}", server.log());
    crate::soap::post_as(&server, "text/xml", "", b"<a/>");
    until("nonsense is told", || lines("INFO not understood ").len() == 1);
}

/// Starts a call whose standard error is a terminal.
fn on_a_terminal(user: &User, words: &[&str]) -> std::process::Child {
    let line = shell_words::join([&[crate::server::FISHPLATE], words].concat());
    std::process::Command::new("script")
        .args(["-qfec", &line, "screen"])
        .current_dir(user.path(""))
        // A `dumb` one, as that of CI, cannot be drawn on.
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn who_looks_at_a_terminal_sees_how_far_the_program_of_a_call_is() {
    let server = Server::of_file(
        "echo increment 1 of 4; until [ -e DIR/go ]; do sleep 0.02; done",
        "name = \"test\"\ncommand = [\"./program\"]\n\
         [progress]\npattern = 'increment (\\d+) of (\\d+)'\n",
    );
    let user = User::new();
    let mut call = on_a_terminal(&user, &["call", server.url()]);
    let screen = || fs::read(user.path("screen")).unwrap_or_default();
    until("the share is shown", || String::from_utf8_lossy(&screen()).contains("25 %"));
    fs::write(server.path("go"), "").unwrap();
    assert!(call.wait().unwrap().success());
}
