//! SOAP by hand over plain sockets: what no toolkit would send.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::server::Server;

/// No answer takes longer, however slow the machine is.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// A version of SOAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V11,
    V12,
}

pub(crate) const VERSIONS: [Version; 2] = [Version::V11, Version::V12];

impl Version {
    fn namespace(self) -> &'static str {
        match self {
            Self::V11 => "http://schemas.xmlsoap.org/soap/envelope/",
            Self::V12 => "http://www.w3.org/2003/05/soap-envelope",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::V11 => "text/xml; charset=utf-8",
            Self::V12 => "application/soap+xml; charset=utf-8",
        }
    }

    /// An envelope with this in its body, and this before its body.
    pub(crate) fn envelope(self, header: &str, body: &str) -> String {
        let namespace = self.namespace();
        format!("<e:Envelope xmlns:e=\"{namespace}\">{header}<e:Body>{body}</e:Body></e:Envelope>")
    }
}

/// A wrapper element of the service `test`.
pub(crate) fn wrapper(name: &str, children: &str) -> String {
    format!("<{name} xmlns=\"urn:fishplate:test\">{children}</{name}>")
}

/// The header that carries an idempotency key.
pub(crate) fn key_header(key: &str) -> String {
    format!("<e:Header><key xmlns=\"urn:fishplate:options:1\">{key}</key></e:Header>")
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The text of the first element of that local name.
    pub(crate) fn text(&self, local: &str) -> Option<&str> {
        text_of(&self.body, local)
    }

    /// The name of the limit that a fault tells.
    pub(crate) fn limit(&self) -> Option<&str> {
        let at = self.body.find("<limit>")?;
        text_of(&self.body[at..], "name")
    }

    /// It is this fault in the shape of this version, with the status that goes with it.
    #[track_caller]
    pub(crate) fn assert_fault(&self, version: Version, code: &str) {
        let blames_sender = is_senders(code);
        let status = match (version, code, blames_sender) {
            (_, "UnsupportedMediaType", _) => 415,
            (_, "Unavailable", _) => 503,
            (Version::V12, "MustUnderstand" | "VersionMismatch" | "DataEncodingUnknown", _) => 500,
            (Version::V12, _, true) => 400,
            _ => 500,
        };
        let soap = match (version, code) {
            (_, "MustUnderstand" | "VersionMismatch") | (Version::V12, "DataEncodingUnknown") => {
                code
            }
            (Version::V11, _) if blames_sender => "Client",
            (Version::V11, _) => "Server",
            (Version::V12, _) if blames_sender => "Sender",
            (Version::V12, _) => "Receiver",
        };
        assert_eq!((self.text("code"), self.status), (Some(code), status), "{self:#?}");
        let (told, sentence) = match version {
            Version::V11 => ("faultcode", "faultstring"),
            Version::V12 => ("Value", "Text"),
        };
        let told = self.text(told).and_then(|name| name.split(':').nth(1));
        // WS-Addressing has a code of its own in SOAP 1.1.
        if told != Some("InvalidAddressingHeader") || version == Version::V12 {
            assert_eq!(told, Some(soap), "{self:#?}");
        }
        assert!(self.text(sentence).is_some_and(|text| text.len() > 10), "{self:#?}");
        assert!(self.body.contains(version.namespace()), "{self:#?}");
    }
}

fn is_senders(code: &str) -> bool {
    fishplate_contract::FaultCode::from_name(code).expect("a code").blame()
        == fishplate_contract::Blame::Sender
}

/// The text of the first element of that local name in an XML text.
pub(crate) fn text_of<'x>(xml: &'x str, local: &str) -> Option<&'x str> {
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>')?;
        let name = rest[..end].split_ascii_whitespace().next().unwrap_or("");
        if name.rsplit(':').next() == Some(local) && !name.starts_with('/') {
            let text = &rest[end + 1..];
            return text.find('<').map(|end| &text[..end]);
        }
    }
    None
}

/// A connection to the server.
pub(crate) fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIME)).unwrap();
    stream.set_write_timeout(Some(ANSWER_TIME)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The head of a POST to the service `test`; `fields` are further lines.
pub(crate) fn head(content_type: &str, fields: &str) -> String {
    format!(
        "POST /test HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n{fields}\
         Connection: close\r\n\r\n"
    )
}

/// Reads an answer to the end of its connection.
pub(crate) fn answer(stream: &mut TcpStream) -> Answer {
    try_answer(stream).expect("an answer")
}

/// The same, if there is one.
pub(crate) fn try_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A server that has answered may cut the connection of a sender who goes on.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

/// Sends a message with these fields of HTTP; gives the answer.
pub(crate) fn post_as(server: &Server, content_type: &str, fields: &str, body: &[u8]) -> Answer {
    let mut stream = connect(server);
    let fields = format!("{fields}Content-Length: {}\r\n", body.len());
    stream.write_all(head(content_type, &fields).as_bytes()).unwrap();
    // A server that refuses need not read all of it.
    let _ = stream.write_all(body);
    answer(&mut stream)
}

/// Sends a message.
pub(crate) fn post(server: &Server, version: Version, message: &str) -> Answer {
    post_as(server, version.media_type(), "", message.as_bytes())
}

/// Calls a verb of the service `test` with these children of the wrapper element.
pub(crate) fn ask(server: &Server, version: Version, verb: &str, children: &str) -> Answer {
    post(server, version, &version.envelope("", &wrapper(verb, children)))
}

/// Sends less than was announced and closes this side; gives the answer, if there is one.
pub(crate) fn post_truncated(server: &Server, fields: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = connect(server);
    stream.write_all(head("text/xml", fields).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    try_answer(&mut stream)
}

/// A page.
pub(crate) fn get(server: &Server, path: &str) -> Answer {
    get_at(server.address(), path)
}

/// A page of any server.
pub(crate) fn get_at(address: impl ToSocketAddrs, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIME)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}

/// Sends a message to whoever listens there; nothing if nobody does or the connection breaks.
pub(crate) fn try_post(address: SocketAddr, message: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIME)).ok()?;
    let fields = format!("Content-Length: {}\r\n", message.len());
    stream.write_all(head("text/xml", &fields).as_bytes()).ok()?;
    stream.write_all(message.as_bytes()).ok()?;
    let answer = try_answer(&mut stream)?;
    answer.body.ends_with("Envelope>").then_some(answer)
}
