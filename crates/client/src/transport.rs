//! HTTP as the client needs it: its errors, and documents behind redirects.

use std::io::{self, Read as _};
use std::sync::Arc;

use fishplate_contract::{Fault, FaultCode};
use fishplate_data::http::tls::TlsError;
use fishplate_data::http::{Client, ClientError, ResponseBody};
use fishplate_data::transfer::{TransferError, root_cause};
use flate2::read::GzDecoder;
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt, Limited};

use crate::body::SegmentBody;
use crate::credentials::known::CredentialLookup;
use crate::error::Error;
use crate::location;
use crate::settings::Settings;

/// Largest description that is read.
const DESCRIPTION_SIZE: usize = 16 << 20;
/// Redirects followed on the way to a description.
const REDIRECTS: usize = 5;
/// What comes of an answer.
pub(crate) type IncomingBody = ResponseBody<SegmentBody>;

/// The HTTP client of one service.
pub(crate) struct Transport {
    client: Arc<Client<SegmentBody>>,
    credentials: CredentialLookup,
}

impl Transport {
    /// One for what the user calls `url`.
    pub(crate) fn new(settings: &Settings, url: &Uri) -> Self {
        let address = settings.address.as_deref().and_then(|url| location::parse(url).ok());
        let named = [url.clone()].into_iter().chain(address);
        Self {
            client: settings.connections.client(settings),
            credentials: CredentialLookup::new(&settings.credentials, named),
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        request: Request<SegmentBody>,
    ) -> Result<Response<IncomingBody>, Error> {
        let url = request.uri().clone();
        self.ask(request).await?.map_err(|failure| failed(url.to_string(), failure))
    }

    /// The same, with the failure as it was.
    async fn ask(
        &self,
        mut request: Request<SegmentBody>,
    ) -> Result<Result<Response<IncomingBody>, ClientError>, Error> {
        // For each request anew: a redirect, or an address that the server told, may lead elsewhere.
        if let Some(credential) = self.credentials.header(request.uri())? {
            request.headers_mut().insert(header::AUTHORIZATION, credential);
        }
        Ok(self.client.send(request).await)
    }

    /// The text of a document, and where it stands after redirects.
    pub(crate) async fn get(&self, url: Uri) -> Result<(String, Uri), Error> {
        let mut url = url;
        for _ in 0..=REDIRECTS {
            let request = || {
                Request::get(url.clone())
                    .header(
                        header::ACCEPT,
                        "text/xml, application/wsdl+xml, application/xml, */*;q=0.5",
                    )
                    .header(header::ACCEPT_ENCODING, "gzip")
                    .body(SegmentBody::empty())
                    .map_err(|error| bad_url(&url, &error))
            };
            let mut answer = self.ask(request()?).await?;
            // A connection that waited since another request may just have been closed.
            if matches!(answer, Err(ClientError::Broken { reused: true, .. })) {
                answer = self.ask(request()?).await?;
            }
            let answer = answer.map_err(|failure| failed(url.to_string(), failure))?;
            if answer.status().is_redirection()
                && let Some(to) = answer.headers().get(header::LOCATION)
            {
                url = location::redirected(&url, &String::from_utf8_lossy(to.as_bytes()))?;
                continue;
            }
            if !answer.status().is_success() {
                return Err(no_soap(&url, answer).await);
            }
            let gzipped = is_gzipped(&answer);
            let body = Limited::new(answer.into_body(), DESCRIPTION_SIZE).collect().await;
            let lost = |reason| Error::ConnectionLost { url: url.to_string(), reason };
            let body = body.map_err(|error| lost(root_cause(&*error)))?.to_bytes();
            let body = match gzipped {
                true => decompressed(&body).map_err(|error| lost(error.to_string()))?,
                false => body.into(),
            };
            return Ok((String::from_utf8_lossy(&body).into_owned(), url));
        }
        Err(Error::BadUrl {
            url: url.to_string(),
            reason: format!("it leads from one address to the next, more than {REDIRECTS} times"),
        })
    }
}

fn failed(url: String, failure: ClientError) -> Error {
    match failure {
        ClientError::Broken { error, .. } => {
            Error::ConnectionLost { url, reason: root_cause(&error) }
        }
        ClientError::Tls(TlsError { origin, reason }) => Error::Certificates { origin, reason },
        ClientError::Connect(error) => Error::Unreachable { url, reason: root_cause(&error) },
        ClientError::Late(allowed) => {
            let reason = format!("no connection within {} s", allowed.as_secs_f64());
            Error::Unreachable { url, reason }
        }
        ClientError::Address(TransferError::Broken { reason, .. }) => {
            Error::Unreachable { url, reason }
        }
        ClientError::Address(error) => Error::Unreachable { url, reason: error.to_string() },
    }
}

/// What was compressed with gzip; an error if it would be too large, or its end is missing.
fn decompressed(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let decoder = GzDecoder::new(body);
    let read = decoder.take(DESCRIPTION_SIZE as u64 + 1).read_to_end(&mut plain)?;
    if read > DESCRIPTION_SIZE {
        return Err(io::Error::other(format!("it is larger than {DESCRIPTION_SIZE} bytes")));
    }
    Ok(plain)
}

fn bad_url(url: &Uri, error: &http::Error) -> Error {
    Error::BadUrl { url: url.to_string(), reason: error.to_string() }
}

/// The error for an HTTP answer that is no SOAP: its status and the first line of its body.
pub(crate) async fn no_soap(url: &Uri, answer: Response<IncomingBody>) -> Error {
    let status = answer.status().as_u16();
    if let Some(to) = answer.headers().get(header::LOCATION) {
        let line = format!("it has moved to {}", String::from_utf8_lossy(to.as_bytes()));
        return Error::Http { url: url.to_string(), status, line };
    }
    let gzipped = is_gzipped(&answer);
    let mut body = answer.into_body();
    let mut start = Vec::new();
    while start.len() < 4096
        && let Some(Ok(frame)) = body.frame().await
    {
        start.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
    }
    if gzipped {
        let mut plain = Vec::new();
        // Of its beginning.
        let _ = GzDecoder::new(&start[..]).take(4096).read_to_end(&mut plain);
        start = plain;
    }
    let line = first_line(&start);
    let code = match status {
        401 => FaultCode::Unauthenticated,
        403 => FaultCode::Forbidden,
        _ => return Error::Http { url: url.to_string(), status, line },
    };
    let line = line.strip_prefix(&format!("{}: ", code.name())).unwrap_or(&line);
    let line = if line.is_empty() { String::new() } else { format!(": {line}") };
    Error::Fault(Fault::new(code, format!("{url} answered {status}{line}")))
}

fn is_gzipped(answer: &Response<IncomingBody>) -> bool {
    let coding = answer.headers().get(header::CONTENT_ENCODING);
    coding.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

fn first_line(body: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(body);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    // How a page begins tells nothing.
    let is_page = line.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("<!doctype"));
    let line = if is_page { "" } else { line };
    line.chars().filter(|c| !c.is_control()).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn what_was_compressed_is_whole_and_bounded() {
        let compressed = |text: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let small = compressed(b"<definitions/>");
        assert_eq!(decompressed(&small).unwrap(), b"<definitions/>");
        for len in 0..small.len() {
            assert!(decompressed(&small[..len]).is_err(), "{len} bytes");
        }
        assert!(decompressed(&compressed(&vec![b' '; DESCRIPTION_SIZE])).is_ok());
        assert!(decompressed(&compressed(&vec![b' '; DESCRIPTION_SIZE + 1])).is_err());
    }

    #[test]
    fn the_first_line_of_a_body_is_short_and_harmless() {
        assert_eq!(first_line(b"\r\n  <h1>no\x1b[31m</h1>  \nmore"), "<h1>no[31m</h1>");
        assert_eq!(first_line(b""), "");
        assert_eq!(first_line(b"<!DOCTYPE html>\n<html>"), "");
        assert_eq!(first_line(&[b'x'; 1000]).len(), 200);
    }
}
