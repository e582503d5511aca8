//! What the guides tell newcomers to type works as it stands.

use std::path::Path;
use std::process::Command;

use crate::run::User;
use crate::server::{FISHPLATE, Server};
use crate::soap::get;

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
