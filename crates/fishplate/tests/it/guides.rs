//! What the guides tell newcomers to type works as it stands.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::guide::Guide;
use crate::run::User;
use crate::server::{FISHPLATE, Server};
use crate::soap::get;

/// Where the examples of the guides are.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Where the servers of the guides listen.
const THERE: &str = "http://127.0.0.1:8080";

/// The blocks of a guide that are written in this language, in order.
fn blocks(guide: &str, language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(guide);
    let text = std::fs::read_to_string(path).unwrap();
    let begin = format!("```{language}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs lines of a shell; `fishplate` is the binary under test.
fn shell(directory: &Path, lines: &str) -> String {
    let lines = format!("set -e\nfishplate() {{ {FISHPLATE} \"$@\"; }}\n{lines}");
    let said = Command::new("sh").arg("-c").arg(&lines).current_dir(directory).output().unwrap();
    assert!(said.status.success(), "{lines}\n{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn toolkits_log_in_as_the_guide_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/guides/logins.md")).unwrap();
    let mut shown = guide.split("<!-- ").skip(1).peekable();
    assert!(shown.peek().is_some());
    for (file, block) in shown.map(|rest| rest.split_once(" -->").unwrap()) {
        let tested = std::fs::read_to_string(root.join(file)).unwrap();
        let lines = block.split("```").nth(1).unwrap().lines().skip(1).map(str::trim);
        for line in lines {
            assert!(tested.contains(line), "{file} does not test {line}");
        }
    }
}

#[test]
fn the_first_service_is_made_served_and_called_word_for_word() {
    let lines = blocks("first-service.md", "sh");
    let with = |word: &str| lines.iter().find(|block| block.contains(word)).unwrap().clone();
    let mut server = Server::prepare();
    let there = server.path("");
    assert_eq!(shell(&there, &with("cat > scale.py")), "4 vertices\n");
    std::fs::write(server.path("scale.toml"), &blocks("first-service.md", "toml")[0]).unwrap();
    shell(&there, with("fishplate check").lines().next().unwrap());
    server.serve(&["scale.toml"]);
    let user = User::new();
    std::fs::copy(server.path("part.mesh"), user.path("part.mesh")).unwrap();
    let here = user.path("");
    for word in ["fishplate call", "fishplate spawn"] {
        shell(
            &here,
            &with(word)
                .replace("fishplate status", "fishplate wait URL $job\nfishplate status")
                .replace("URL", server.url()),
        );
        let scaled = std::fs::read_to_string(user.path("big.mesh")).unwrap();
        assert!(scaled.contains("\n4\n0.0 0.0 0.0 1\n2.5 0.0 0.0 1\n"), "{scaled}");
        std::fs::remove_file(user.path("big.mesh")).unwrap();
    }
    // Also as a line: its words are those of the guide, its quotes those of a shell.
    let line = with("fishplate serve -n scale").replace("\\\n", " ");
    let words = shell_words::split(line.trim()).unwrap();
    let words: Vec<&str> = words[2..].iter().map(String::as_str).collect();
    server.stop();
    server.serve(&words);
    let call = with("fishplate call").replace("URL", server.url());
    shell(&here, &call);
    assert!(here.join("big.mesh").exists());
}

#[test]
fn what_the_page_of_a_service_tells_to_type_works() {
    let mut server = Server::prepare();
    server.script("program", "echo 1 2");
    let slots = [
        "[in val n:int]",
        "[in file rows:double[2][]]",
        "[in file deck:raw]",
        ">",
        "[out file s:double[]]",
    ];
    let words = [&["--builtin", "matrix", "-n", "test", "--", "./program"][..], &slots].concat();
    server.serve_many(2, &words);
    let user = User::new();
    std::fs::write(user.path("FILE"), "a file").unwrap();
    let mut typed = 0;
    for service in ["test", "matrix"] {
        let page = get(&server, &format!("/{service}")).body;
        for example in page.split("<pre data-example=\"").skip(1) {
            let (language, rest) = example.split_once('"').unwrap();
            // Those that are no commands, `interop/examples` runs.
            if !["cli", "curl", "soap"].contains(&language) {
                continue;
            }
            let (lines, _) = rest.split_once("</pre>").unwrap();
            let mut lines = lines.split_once('>').unwrap().1.to_owned();
            for (escaped, text) in
                [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
            {
                lines = lines.replace(escaped, text);
            }
            let said = shell(&user.path(""), &lines);
            assert!(!said.contains(":Fault>") && !said.contains("\"title\""), "{lines}\n{said}");
            typed += 1;
        }
    }
    assert_eq!(typed, 21, "each operation has three commands");
}

/// The server that a block starts, on a port of its own.
fn served(block: &str) -> Server {
    let mut server = Server::prepare();
    serve(&mut server, block);
    server
}

fn serve(server: &mut Server, block: &str) {
    let line = block.lines().find_map(|line| line.split_once("fishplate serve ")).unwrap().1;
    let words = shell_words::split(line.trim_end_matches('&')).unwrap();
    let of_examples = |word: String| match word.starts_with("examples/") {
        true => format!("{ROOT}/{word}"),
        false => word,
    };
    let words: Vec<String> = words.into_iter().map(of_examples).collect();
    server.serve(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

fn address(server: &Server) -> String {
    format!("http://{}", server.address())
}

/// Runs the commands of a block but those that start servers, with the server at this address; each says what the guide says that it does.
fn console(directory: &Path, at: &str, block: &str) -> String {
    let mut all = String::new();
    for (command, expected) in commands(block) {
        if command.starts_with("fishplate serve") {
            continue;
        }
        let command = command.replace(THERE, at);
        let said = shell(
            directory,
            &format!("exec 2>&1\ncurl() {{ command curl -sS \"$@\"; }}\n{command}"),
        );
        for line in expected.lines() {
            assert!(said.lines().any(|it| it.trim() == line.trim()), "{command}{line}\n{said}");
        }
        all += &said;
    }
    all
}

#[test]
fn services_are_used_in_a_browser_as_the_guide_says() {
    let mut guide = Guide::open("browser.md", None);
    let user = User::new();
    let begin = guide.block("fishplate serve");
    let server = served(&begin);
    let page = console(&user.path(""), &address(&server), &begin);
    assert!(page.contains("<form") && page.contains("name=\"x\""), "{page}");
    console(&user.path(""), &address(&server), &guide.block("curl -F x=1"));
    guide.end();
}

#[test]
fn processes_are_run_as_the_guide_says() {
    let mut guide = Guide::open("ogc-api.md", None);
    let user = User::new();
    let begin = guide.block("fishplate serve");
    let server = served(&begin);
    assert!(
        console(&user.path(""), &address(&server), &begin).contains("\"id\":\"arithmetic-test\"")
    );
    console(&user.path(""), &address(&server), &guide.block("/execution"));
    let mut request: Value = serde_json::from_str(&guide.block("subscriber")).unwrap();
    request["inputs"] = json!({ "x": 1, "y": 2 });
    user.write("request.json", request.to_string());
    let post = format!(
        "curl -s -H 'Content-Type: application/json' -d @request.json \
         {THERE}/ogc/processes/arithmetic-test/execution"
    );
    let said = console(&user.path(""), &address(&server), &post);
    assert!(said.contains("\"status\":\"accepted\""), "{said}");
    guide.end();
}

#[test]
fn an_assistant_is_given_tools_as_the_guide_says() {
    let mut guide = Guide::open("assistants.md", None);
    let user = User::new();
    let configuration: Value = serde_json::from_str(&guide.block("mcpServers")).unwrap();
    let begin = guide.block("fishplate serve");
    let server = served(&begin);
    // It stands there as data, and as a text for assistants that know no data.
    let said = console(&user.path(""), &address(&server), &begin).replace('\\', "");
    assert!(said.contains("\"result\":3"), "{said}");
    let own = &configuration["mcpServers"]["simulations"];
    assert_eq!(own["command"], "fishplate");
    let word = |it: &Value| match it.as_str().unwrap() {
        THERE => address(&server),
        "/home/me/models" => user.path("").display().to_string(),
        other => other.to_owned(),
    };
    let mut command = Command::new(FISHPLATE);
    command.args(own["args"].as_array().unwrap().iter().map(word));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    write!(to, "{asked}\n{initialized}\n{list}\n").unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told = told.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let tools = told.find(|it| it["id"] == 2).unwrap();
    drop(to);
    child.wait().unwrap();
    let names = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert!(names.into_iter().any(|name| name == "arithmetic-test"), "{tools}");
    guide.end();
}

#[test]
fn descriptions_become_services_and_services_descriptions_as_the_guide_says() {
    let mut guide = Guide::open("descriptions.md", None);
    let mut server = Server::prepare();
    let there = server.path("");
    let bet = json!({
        "name": "bet", "description": "Finds the brain", "author": "S. Smith", "schema-version": "0.5", "tool-version": "1",
        "command-line": "cat [INPUT]",
        "inputs": [{ "id": "input", "name": "Image", "type": "File", "value-key": "[INPUT]" }],
    });
    std::fs::write(there.join("bet.json"), bet.to_string()).unwrap();
    let bwa = "cwlVersion: v1.2\nclass: CommandLineTool\nbaseCommand: cat\nstdout: sam\n\
               inputs: {reads: {type: File, inputBinding: {}}}\noutputs: {sam: stdout}\n";
    std::fs::write(there.join("bwa-mem.cwl"), bwa).unwrap();
    let import = guide.block("fishplate import");
    console(&there, THERE, &import);
    server.serve_many(2, &["bet.toml", "bwa-mem.toml"]);
    assert_eq!(server.names(), ["bet", "bwa-mem"]);
    let export = guide.block("fishplate export");
    console(
        &there,
        THERE,
        &export.replace("http://somewhere.com/sample", &format!("{}/bet", address(&server))),
    );
    for (file, word) in [("sample.cwl", "CommandLineTool"), ("sample.json", "command-line")] {
        assert!(std::fs::read_to_string(there.join(file)).unwrap().contains(word), "{file}");
    }
    guide.end();
}

#[test]
fn a_short_experiment_is_run_as_the_guide_says() {
    let mut guide = Guide::open("quake.md", None);
    let shown = guide.block("name = \"cxf\"");
    let file = std::fs::read_to_string(format!("{ROOT}/examples/quake/cxf.toml")).unwrap();
    for line in shown.lines() {
        assert!(file.contains(line), "examples/quake/cxf.toml has no {line}");
    }
    let verdicts = guide.block("NAME: flat over N requests");
    let (faults, restarts) = (guide.block("[[stress]]"), guide.block("rejuvenate"));
    let compare = guide.block("fishplate quake compare");
    guide.end();
    let server = served("fishplate serve examples/arithmetic/arithmetic.toml &");
    let user = User::new();
    let any = std::fs::read_to_string(format!("{ROOT}/examples/quake/any.toml")).unwrap();
    user.write("any.toml", any.replace(THERE, &address(&server)));
    for report in ["with", "without"] {
        let words =
            ["quake", "run", "any.toml", "--set", "workload.duration=3s", "--report", report];
        let said = user.run(&words);
        assert_eq!(said.code, 0, "{said:?}");
        let shapes = verdicts.lines().map(|line| line.split_whitespace().nth(1).unwrap());
        let mut shapes = shapes.map(|word| format!(": {word} "));
        assert!(shapes.any(|shape| said.stdout.contains(&shape)), "{said:?}");
    }
    console(&user.path(""), &address(&server), &compare);
    // What is done to a server, in small; it is started for that.
    let scaled = |text: &str| {
        text.replace("4 GiB", "16 MiB")
            .replace("\"5s", "\"100ms")
            .replace("\"30s", "\"1s")
            .replace("\"60s", "\"1s")
    };
    for (name, more) in [("faults", &faults), ("rejuvenation", &restarts)] {
        user.write(&format!("{name}.toml"), small_experiment(name) + &scaled(more));
        let said = user.run(&["quake", "run", &format!("{name}.toml")]);
        assert!([0, 10].contains(&said.code), "{said:?}");
    }
}

/// A server of ours that QUAKE starts, loaded for some seconds.
fn small_experiment(name: &str) -> String {
    format!(
        "name = '{name}'\n[system]\nname = 'ours'\nurl = 'http://127.0.0.1:{{port}}/arithmetic-test'\n\
         [system.process.server]\nstart = ['{FISHPLATE}', 'serve', '--listen', '127.0.0.1:{{port}}', '--data', \
         '{{directory}}/data', '{ROOT}/examples/arithmetic/arithmetic.toml']\n\
         [workload]\nclients = 2\nduration = '4s'\n[[operation]]\nname = 'call'\narguments = ['x=1', 'y=2']\n"
    )
}

#[test]
fn the_services_of_the_workflows_guide_are_those_it_calls() {
    let mut guide = Guide::open("workflows.md", Some("python"));
    let server = served(&guide.block("fishplate serve"));
    for service in ["smooth", "sort", "gzip", "arithmetic-test", "countdown"] {
        assert_eq!(get(&server, &format!("/{service}?wsdl")).status, 200, "{service}");
    }
    // `python/tests/test_guide.py` runs this.
    guide.block("python -c");
    guide.end();
}

#[test]
fn ranks_are_started_as_the_guide_says() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/message-passing.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let line = text.split('`').find(|code| code.starts_with("fishplate run -n 4 sh")).unwrap();
    let said = shell(Path::new("."), line);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]);
}

/// What stands behind the prompts of a block, each with what it says below. A command goes on where a line ends with `\` or a
/// quote is open; a block without prompts is one command.
fn commands(block: &str) -> Vec<(String, String)> {
    if !block.starts_with("$ ") {
        return vec![(block.to_owned(), String::new())];
    }
    let mut all: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        let goes_on =
            |command: &str| command.ends_with("\\\n") || command.matches('\'').count() % 2 == 1;
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((format!("{command}\n"), String::new())),
            (None, Some((command, _))) if goes_on(command) => *command += &format!("{line}\n"),
            (None, Some((_, said))) => *said += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    all
}
