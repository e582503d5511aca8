//! One request of a web server's CGI interface (RFC 3875): the request comes in the environment
//! and on standard input, the answer goes to standard output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::Principal;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, Uri};
use tokio::sync::mpsc;

use crate::audit::CALLER;
use crate::host::Host;
use crate::http::origin::RequestFilter;
use crate::http::{not_for_us, respond};

/// What is read of standard input at once.
const CHUNK: usize = 256 << 10;

/// The variables of a CGI request. They hold what the caller sent, which need not be UTF-8.
#[derive(Clone, Debug, Default)]
pub struct CgiVariables(BTreeMap<String, OsString>);

/// A request that is none.
#[derive(Debug, thiserror::Error)]
pub enum CgiError {
    /// The environment has no CGI request.
    #[error(
        "this is no CGI request: {0} is not set; a web server runs this command from its cgi-bin \
         (use `fishplate serve` to serve without one)"
    )]
    NotCgi(&'static str),
    /// A variable is not what it should be.
    #[error("the web server's {0} is not usable: {1:?}")]
    Unusable(&'static str, String),
    /// The answer could not be written.
    #[error("the answer could not be written to the web server")]
    Write(#[source] io::Error),
}

impl CgiVariables {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self::new(std::env::vars_os())
    }

    /// The variables of CGI (RFC 3875, 4.1) among some of an environment.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        // No variable of CGI has a name that is not UTF-8.
        let told = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Self(variables.into_iter().filter_map(told).collect())
    }

    fn get(&self, name: &'static str) -> Result<Option<&str>, CgiError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let text = value.to_str();
        text.map(Some)
            .ok_or_else(|| CgiError::Unusable(name, format!("{} (not UTF-8)", value.display())))
    }

    fn need(&self, name: &'static str) -> Result<&str, CgiError> {
        self.get(name)?.ok_or(CgiError::NotCgi(name))
    }

    /// The address by which the caller reached this script, without the query: what we publish
    /// unless a public URL was set.
    ///
    /// # Errors
    /// If this is no CGI request.
    pub fn script_url(&self) -> Result<String, CgiError> {
        let secure = self.get("HTTPS")?.is_some_and(|on| on.eq_ignore_ascii_case("on"))
            || self.get("REQUEST_SCHEME")? == Some("https");
        let (scheme, usual) = if secure { ("https", "443") } else { ("http", "80") };
        // Whose idea of the name this is depends on the web server (Apache's `UseCanonicalName`).
        let name = self.need("SERVER_NAME")?;
        let port = self.get("SERVER_PORT")?.filter(|port| *port != usual);
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        Ok(format!("{scheme}://{name}{port}{}", self.need("SCRIPT_NAME")?))
    }

    /// Who calls, if the web server has authenticated somebody.
    ///
    /// # Errors
    /// If the name is not UTF-8: nobody else's name stands for it.
    pub fn principal(&self) -> Result<Principal, CgiError> {
        Ok(self.get("REMOTE_USER")?.map_or_else(Principal::anonymous, Principal::named))
    }

    /// The request for the service of that name, with its body on `input`.
    fn request<R: Read + Send + 'static>(
        &self,
        service: &str,
        input: R,
    ) -> Result<Request<InputBody>, CgiError> {
        let method = self.need("REQUEST_METHOD")?;
        let query = self.get("QUERY_STRING")?.map_or_else(String::new, |query| format!("?{query}"));
        // What is behind the script's name is the data's face, or the service of sessions.
        let behind = self.get("PATH_INFO")?.filter(|path| !path.trim_matches('/').is_empty());
        let path = match behind {
            Some(path) => path.split('/').map(encoded).collect::<Vec<_>>().join("/"),
            None => format!("/{service}"),
        };
        let uri: Uri = format!("{path}{query}")
            .parse()
            .map_err(|_| CgiError::Unusable("PATH_INFO", format!("{path}{query}")))?;
        let length = match self.get("CONTENT_LENGTH")? {
            // A web server that takes chunked messages leaves it out and closes the input.
            None if self.0.contains_key("HTTP_TRANSFER_ENCODING") => None,
            None => Some(0),
            Some(text) => Some(
                text.parse().map_err(|_| CgiError::Unusable("CONTENT_LENGTH", text.to_owned()))?,
            ),
        };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in &self.0 {
            let header = match name.as_str() {
                "CONTENT_TYPE" => Some("content-type".to_owned()),
                name => name.strip_prefix("HTTP_").map(|name| name.replace('_', "-")),
            };
            let header = header.and_then(|name| name.parse::<HeaderName>().ok());
            if let (Some(header), Ok(value)) = (header, HeaderValue::from_bytes(value.as_bytes())) {
                request = request.header(header, value);
            }
        }
        request
            .body(InputBody::new(input, length))
            .map_err(|_| CgiError::Unusable("REQUEST_METHOD", method.to_owned()))
    }
}

/// Answers the request in `variables` and on `input` for the only service of `host`.
///
/// # Errors
/// If it is no request, or the answer cannot be written.
pub async fn answer(
    host: &Arc<Host>,
    service: &str,
    variables: &CgiVariables,
    input: impl Read + Send + 'static,
    output: &mut impl Write,
) -> Result<(), CgiError> {
    let request = variables.request(service, input)?;
    let head_only = request.method() == hyper::Method::HEAD;
    let reply = match RequestFilter::of_script(&host.settings).check(&request) {
        Ok(()) => {
            let answered = respond(host, request, variables.principal()?);
            match variables.get("REMOTE_ADDR")?.and_then(|address| address.parse().ok()) {
                Some(address) => CALLER.scope(address, answered).await,
                None => answered.await,
            }
        }
        Err(refusal) => not_for_us(host, &refusal),
    };
    let sent = send(reply, head_only, output).await;
    // Whatever came of the sending: this process ends now.
    host.engine.released().await;
    host.write_usage().await;
    sent
}

/// Writes an answer for the web server.
async fn send<B: Body<Data = Bytes, Error = io::Error> + Unpin>(
    reply: Response<B>,
    head_only: bool,
    output: &mut impl Write,
) -> Result<(), CgiError> {
    let (parts, mut body) = reply.into_parts();
    let mut write = |bytes: &[u8]| output.write_all(bytes).map_err(CgiError::Write);
    let reason = parts.status.canonical_reason().unwrap_or("");
    write(format!("Status: {} {reason}\r\n", parts.status.as_u16()).as_bytes())?;
    for (name, value) in &parts.headers {
        // How connections are kept is the web server's affair.
        if *name != hyper::header::CONNECTION {
            write(title_case(name.as_str()).as_bytes())?;
            write(b": ")?;
            write(value.as_bytes())?;
            write(b"\r\n")?;
        }
    }
    if let Some(length) = body.size_hint().exact() {
        write(format!("Content-Length: {length}\r\n").as_bytes())?;
    }
    write(b"\r\n")?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(CgiError::Write)?;
        if let Ok(data) = frame.into_data()
            && !head_only
        {
            write(&data)?;
        }
    }
    output.flush().map_err(CgiError::Write)
}

/// A field's name as the specifications write it, and as a listener of ours does.
fn title_case(name: &str) -> String {
    let mut begins = true;
    let cased = name.chars().map(|c| {
        let c = if begins { c.to_ascii_uppercase() } else { c };
        begins = c == '-';
        c
    });
    cased.collect()
}

/// A segment of a path, which the web server has decoded, as it stands in an address.
fn encoded(segment: &str) -> String {
    percent_encoding::utf8_percent_encode(segment, crate::data::IN_A_SEGMENT).to_string()
}

/// Standard input as a body, read by a thread of its own.
#[derive(Debug)]
struct InputBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
}

impl InputBody {
    fn new(input: impl Read + Send + 'static, length: Option<u64>) -> Self {
        let (send, chunks) = mpsc::channel(2);
        tokio::task::spawn_blocking(move || read_input(input, length, &send));
        Self { chunks }
    }
}

fn read_input(mut input: impl Read, length: Option<u64>, send: &mpsc::Sender<io::Result<Bytes>>) {
    let mut left = length.unwrap_or(u64::MAX);
    while left > 0 {
        let mut chunk = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
        let read = match input.read(&mut chunk) {
            Ok(0) if length.is_none() => return,
            Ok(0) => {
                let _ = send.blocking_send(Err(io::ErrorKind::UnexpectedEof.into()));
                return;
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = send.blocking_send(Err(error));
                return;
            }
        };
        left -= read as u64;
        chunk.truncate(read);
        if send.blocking_send(Ok(chunk.into())).is_err() {
            return;
        }
    }
}

impl Body for InputBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn variables(more: &[(&str, &str)]) -> CgiVariables {
        let usual = [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_METHOD", "POST"),
            ("SERVER_NAME", "solver.example.org"),
            ("SERVER_PORT", "80"),
            ("SCRIPT_NAME", "/cgi-bin/sample.cgi"),
        ];
        let all = usual.iter().chain(more).map(|(name, value)| ((*name).into(), (*value).into()));
        CgiVariables::new(all)
    }

    #[test]
    fn the_address_is_the_scripts() {
        let url = |more: &[(&str, &str)]| variables(more).script_url().unwrap();
        assert_eq!(url(&[]), "http://solver.example.org/cgi-bin/sample.cgi");
        assert_eq!(
            url(&[("HTTPS", "on"), ("SERVER_PORT", "8443")]),
            "https://solver.example.org:8443/cgi-bin/sample.cgi"
        );
    }

    #[tokio::test]
    async fn a_request_has_the_headers_and_the_body_that_was_announced() {
        let variables = variables(&[
            ("CONTENT_TYPE", "text/xml"),
            ("CONTENT_LENGTH", "5"),
            ("HTTP_SOAPACTION", "\"urn:a#call\""),
            ("QUERY_STRING", "wsdl"),
        ]);
        let request = variables.request("s", &b"hello, and what is not ours"[..]).unwrap();
        assert_eq!(request.uri(), "/s?wsdl");
        assert_eq!(request.headers()["soapaction"], "\"urn:a#call\"");
        assert_eq!(request.headers()["content-type"], "text/xml");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "hello");
    }

    #[tokio::test]
    async fn a_body_shorter_than_announced_is_an_error() {
        let variables = variables(&[("CONTENT_LENGTH", "50")]);
        let request = variables.request("s", &b"short"[..]).unwrap();
        assert!(request.into_body().collect().await.is_err());
    }

    #[tokio::test]
    async fn what_is_not_utf8_harms_only_what_needs_text() {
        let broken = || OsString::from_vec(b"J\xf6rg".to_vec());
        let with = |name: &str| {
            let mut variables = variables(&[]);
            variables.0.insert(name.to_owned(), broken());
            variables
        };
        let passed = with("HTTP_X_NAME").request("s", io::empty()).unwrap();
        assert_eq!(passed.headers()["x-name"].as_bytes(), b"J\xf6rg");
        let mut unnamed = variables(&[]);
        unnamed.0.extend(CgiVariables::new([(broken(), broken())]).0);
        assert!(unnamed.request("s", io::empty()).is_ok());
        // Who was authenticated is not taken for anybody else.
        let error = with("REMOTE_USER").principal().unwrap_err();
        assert!(error.to_string().contains("REMOTE_USER"), "{error}");
        assert!(with("QUERY_STRING").request("s", io::empty()).is_err());
    }

    #[test]
    fn names_of_fields_are_written_as_specifications_do() {
        assert_eq!(title_case("x-content-type-options"), "X-Content-Type-Options");
        assert_eq!(title_case("etag"), "Etag");
    }

    #[test]
    fn without_a_web_server_it_says_what_to_use() {
        let error = CgiVariables::default().script_url().unwrap_err();
        assert!(error.to_string().contains("fishplate serve"), "{error}");
    }
}
