//! Requests that are not for this server are refused by every face.

use crate::server::{Server, call, request, status};

/// A request to each face.
fn faces() -> [(&'static str, String); 6] {
    let open = "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\"><S:Body>\
                <open xmlns=\"urn:fishplate:session:1\"/></S:Body></S:Envelope>";
    [
        ("GET /", String::new()),
        ("GET /matrix?wsdl", String::new()),
        ("GET /metrics", String::new()),
        ("POST /matrix", call("add", "<t:x>40</t:x><t:y>2</t:y>")),
        ("POST /session", open.to_owned()),
        ("POST /data/a", "some bytes".to_owned()),
    ]
}

async fn answers(server: &Server, fields: &str) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for (line, body) in faces() {
        let fields = format!("Content-Type: text/xml\r\n{fields}");
        let answer = server.ask(&request(line, &fields, &body)).await;
        answers.push((status(&answer), answer));
    }
    answers
}

async fn assert_all(server: &Server, fields: &str, expected: &[u16]) {
    for (got, answer) in answers(server, fields).await {
        assert!(expected.contains(&got), "{fields:?}: {answer}");
    }
}

#[tokio::test]
async fn no_face_answers_for_a_foreign_host_or_to_a_foreign_page() {
    let server = Server::start().await;
    let own = format!("Host: {}\r\n", server.address);
    let done = [200, 201];
    assert_all(&server, &own, &done).await;
    assert_all(&server, "Host: localhost:9000\r\n", &done).await;
    assert_all(&server, "", &[400]).await;
    let absolute = format!("GET http://{}/ HTTP/1.1\r\nConnection: close\r\n\r\n", server.address);
    assert_eq!(status(&server.ask(&absolute).await), 400, "RFC 9112, 3.2");
    assert_all(&server, &format!("{own}{own}"), &[400]).await;
    assert_all(&server, &format!("{own}Origin: http://{}\r\n", server.address), &done).await;
    assert_all(&server, &format!("{own}Origin: http://evil.example\r\n"), &[403]).await;
    assert_all(&server, &format!("{own}Origin: null\r\n"), &[403]).await;
    for (_, answer) in answers(&server, "Host: evil.example:8080\r\n").await {
        assert_eq!(status(&answer), 421, "{answer}");
        assert!(answer.contains("\"evil.example\"") && answer.contains("--allow-host"), "{answer}");
    }
}

#[tokio::test]
async fn what_is_set_is_let_in() {
    let server = Server::with(|limits| {
        limits.faces.public_url = "https://example.org/services".to_owned();
        limits.faces.allow_hosts = vec!["upstream".to_owned()];
        limits.faces.allow_origins = vec!["https://portal.example".to_owned()];
    })
    .await;
    for let_in in [
        "Host: example.org\r\n",
        "Host: upstream\r\n",
        "Host: upstream\r\nOrigin: https://example.org\r\n",
        "Host: example.org\r\nOrigin: https://portal.example\r\n",
    ] {
        assert_all(&server, let_in, &[200, 201]).await;
    }
}

#[tokio::test]
async fn transfer_codings_but_chunked_are_refused() {
    let server = Server::start().await;
    let chunked = |coding: &str| {
        format!(
            "POST /data/a HTTP/1.1\r\nHost: localhost\r\n{coding}Connection: close\r\n\r\n\
             4\r\ndata\r\n0\r\n\r\n"
        )
    };
    let answer = server.ask(&chunked("Transfer-Encoding: chunked\r\n")).await;
    assert_eq!(status(&answer), 201, "{answer}");
    for wrong in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let answer = server.ask(&chunked(wrong)).await;
        assert_eq!(status(&answer), 501, "{wrong}: {answer}");
        assert!(answer.contains("Transfer-Encoding: chunked"), "{answer}");
    }
}

#[tokio::test]
async fn a_proxy_names_each_caller_once() {
    let server = Server::with(|limits| limits.faces.user_header = Some("x-user".to_owned())).await;
    let asked = async |fields: &str| {
        let fields = format!("Host: localhost\r\nContent-Type: text/xml\r\n{fields}");
        let call = call("add", "<t:x>1</t:x><t:y>2</t:y>");
        server.ask(&request("POST /matrix", &fields, &call)).await
    };
    assert_eq!(status(&asked("X-User: \t ada \r\n").await), 200);
    for wrong in ["", "X-User: \r\n", "X-User: ada\r\nX-User: bob\r\n", "X-User: \u{1}\r\n"] {
        let answer = asked(wrong).await;
        assert!([400, 401].contains(&status(&answer)), "{wrong:?}: {answer}");
    }
    let twice = asked("X-User: ada\r\nX-User: ada\r\n").await;
    assert!(status(&twice) == 401 && twice.contains("once"), "{twice}"); // A blank that HTTP does not know is a part of the name.
    let session = async |user: &str, what: &str| {
        let body = format!(
            "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\"><S:Body>\
             <{what} xmlns=\"urn:fishplate:session:1\"/></S:Body></S:Envelope>"
        );
        let fields = format!("Host: localhost\r\nContent-Type: text/xml\r\nX-User: {user}\r\n");
        server.ask(&request("POST /session", &fields, &body)).await
    };
    assert_eq!(status(&session(" ada\t", "open").await), 200);
    assert!(session("ada", "list").await.contains("expires>"));
    let other = session("\u{a0}ada\u{3000}", "list").await;
    assert!(status(&other) == 200 && !other.contains("expires>"), "{other}");
}
