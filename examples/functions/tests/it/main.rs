//! The example as a process of its own: a call in it, and a job that is a process of its binary.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Server {
    child: Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_statistics"));
        command.arg("127.0.0.1:0").arg(data.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("statistics http://").unwrap();
        let address = address.strip_suffix("/statistics").unwrap().to_owned();
        Self { child, address, _data: data }
    }

    /// What the server answers.
    fn call(&self, verb: &str, children: &str) -> String {
        let body = format!(
            "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\"><S:Body><t:{verb} \
             xmlns:t=\"urn:example:statistics\">{children}</t:{verb}></S:Body></S:Envelope>"
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /statistics HTTP/1.1\r\nHost: {}\r\nContent-Type: text/xml\r\nContent-Length: \
             {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The supervisor of its jobs ends by itself, some seconds after its last job and server.
    }
}

#[test]
fn a_call_and_a_job_are_answered() {
    let server = Server::start();
    let mean = server.call("mean", "<values><item>1</item><item>2</item><item>6</item></values>");
    assert!(mean.contains("<w:mean>3.0</w:mean>"), "{mean}");
    let none = server.call("mean", "<values/>");
    assert!(none.contains("there is no mean of no values"), "{none}");
    // "a\nb\n" as base64.
    let spawned = server.call("lines_spawn", "<file>YQpiCg==</file>");
    let (_, after) = spawned.split_once("<w:job>").unwrap_or_else(|| panic!("{spawned}"));
    let job = &after[..32];
    let started = Instant::now();
    let results = loop {
        let results = server.call("lines_results", &format!("<job>{job}</job>"));
        if !results.contains("NotFinished") || started.elapsed() > Duration::from_secs(60) {
            break results;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(results.contains("<w:count>2</w:count>"), "{results}");
}
