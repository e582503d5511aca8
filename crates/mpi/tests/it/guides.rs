//! The guide to message passing, as it stands.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

use crate::built;
use crate::guide::Guide;
use crate::programs::compile;

/// A server that a line of the guide starts, on a port of its own.
struct Server {
    child: Child,
    /// What it says later is nobody's, but it must be able to say it.
    _stdout: BufReader<ChildStdout>,
    /// `http://ADDRESS`, as the guide writes it and as it is.
    addresses: (String, String),
}

impl Server {
    fn start(directory: &Path, line: &str) -> Self {
        let words: Vec<&str> = line.trim_end_matches('&').split_whitespace().collect();
        assert_eq!(words[..2], ["fishplate", "serve"]);
        let listen = words.iter().position(|word| *word == "--listen").unwrap() + 1;
        let mut command = Command::new(built().join("fishplate"));
        let own = |(at, word): (usize, _)| if at == listen { "127.0.0.1:0" } else { word };
        command.args(words.iter().copied().enumerate().map(own).skip(1)).current_dir(directory);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        let address = said.split_whitespace().nth(1).and_then(|url| url.rsplit_once('/'));
        let address = address.unwrap_or_else(|| panic!("{line}: {said}")).0.to_owned();
        Self { child, _stdout: stdout, addresses: (format!("http://{}", words[listen]), address) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text of the guide with the addresses of these servers.
fn here(text: &str, servers: &[Server]) -> String {
    servers.iter().fold(text.to_owned(), |text, Server { addresses: (theirs, ours), .. }| {
        text.replace(theirs, ours)
    })
}

/// Runs lines of a shell in a directory.
fn shell(directory: &Path, lines: &str) -> Output {
    let fishplate = built().join("fishplate");
    let lines = format!("set -e\nfishplate() {{ {} \"$@\"; }}\n{lines}", fishplate.display());
    let mut command = Command::new("sh");
    command.args(["-c", &lines]).current_dir(directory).env("HOME", directory);
    let said = command.output().unwrap();
    assert!(said.status.success(), "{lines}\n{said:?}");
    said
}

#[test]
fn ranks_of_this_machine_and_of_servers_pass_messages_as_the_guide_says() {
    let mut guide = Guide::open("message-passing.md", None);
    let place = TempDir::new().unwrap();
    let directory = place.path();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    write("ring.c", &guide.block("MPI_Send"));
    std::fs::copy(compile(&directory.join("ring.c"), &[]), directory.join("ring")).unwrap();
    // It was compiled here with the project's own header.
    let run = guide.block("fishplate run -n 4 ./ring");
    let said = shell(directory, run.lines().last().unwrap());
    assert_eq!(String::from_utf8_lossy(&said.stdout), guide.block("sum up to 6"));

    write("ring.toml", &guide.block("max = 2"));
    let serve = guide.block("fishplate serve ring.toml");
    let mut servers: Vec<Server> =
        serve.lines().map(|line| Server::start(directory, line)).collect();
    let hosts = shell(directory, &here(&guide.block("fishplate run --hosts"), &servers));
    assert_eq!(String::from_utf8_lossy(&hosts.stdout), guide.block("sum up to 6"));

    let file = here(&guide.block("[[instances]]"), &servers);
    write("domain.toml", &file);
    let run = guide.block("fishplate domain run domain.toml");
    let expected = guide.block("sum up to 3");
    assert_eq!(String::from_utf8_lossy(&shell(directory, &run).stdout), expected);
    write("domain.xml", &here(&guide.block("<domain"), &servers));
    let said = shell(directory, &run.replace(".toml", ".xml"));
    assert_eq!(String::from_utf8_lossy(&said.stdout), expected);

    servers.push(Server::start(directory, guide.block("domain-manager").trim()));
    let said = shell(directory, &here(&guide.block("fishplate spawn"), &servers));
    assert!(
        String::from_utf8_lossy(&said.stdout).contains("the ranks of 3 sum up to 3"),
        "{said:?}"
    );
    let summary = std::fs::read_to_string(directory.join("summary.json")).unwrap();
    assert!(summary.contains("\"ranks\"") && directory.join("results").is_dir(), "{summary}");

    // What the command says of the two servers, but the domain's ID.
    let told = guide.block("which pass messages on");
    let rest = told.trim().split_once(": ").unwrap().1;
    assert!(String::from_utf8_lossy(&hosts.stderr).contains(rest), "{hosts:?}");
    guide.end();
}
