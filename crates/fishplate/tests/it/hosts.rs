//! Which hosts a server answers for and which pages may send to it, as its command line says.

use std::io::Write;

use crate::server::Server;
use crate::soap::{Answer, answer, connect};

const SERVICE: [&str; 4] = ["-n", "test", "--", "true"];

fn get(server: &Server, fields: &str) -> Answer {
    let mut stream = connect(server);
    let request = format!("GET /test HTTP/1.1\r\n{fields}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

#[test]
fn hosts_and_origins_are_let_in_by_the_command_line() {
    let mut server = Server::prepare();
    let allowed = ["--allow-host", "node7", "--allow-origin", "https://portal.example"];
    server.serve_behind("https://example.org/services", &[&allowed[..], &SERVICE].concat());
    for (fields, status) in [
        ("Host: node7:8080", 200),
        ("Host: example.org", 200),
        ("Host: example.org\r\nOrigin: https://portal.example", 200),
        ("Host: node8:8080", 421),
        ("Host: example.org\r\nOrigin: https://evil.example", 403),
    ] {
        let answer = get(&server, fields);
        assert_eq!(answer.status, status, "{fields}: {answer:#?}");
    }
    let refused = get(&server, "Host: node8:8080");
    assert!(refused.body.contains("--allow-host node8"), "{refused:#?}");
}
