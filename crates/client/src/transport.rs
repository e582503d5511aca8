//! HTTP: connections with deadlines, kept and used again.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use fishplate_data::transfer::root_cause;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::settings::Settings;

/// Largest description that is read.
const DESCRIPTION_SIZE: usize = 16 << 20;
/// Redirects followed on the way to a description.
const REDIRECTS: usize = 5;
/// A peer that is gone is noticed after about two minutes, also while nothing is sent.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;
/// Servers close idle connections; ours go before.
const IDLE: Duration = Duration::from_secs(20);

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("fishplate/", env!("CARGO_PKG_VERSION")));

/// HTTP clients for one service, each made when it is first needed: reading the system's
/// certificates takes longer than a call.
pub(crate) struct Transport {
    settings: Settings,
    plain: OnceLock<Client<Timed<HttpConnector>, SegmentBody>>,
    tls: OnceLock<Client<Timed<HttpsConnector<HttpConnector>>, SegmentBody>>,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), plain: OnceLock::new(), tls: OnceLock::new() }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        mut request: Request<SegmentBody>,
    ) -> Result<Response<Incoming>, Error> {
        request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
        let url = request.uri().clone();
        let answer = if request.uri().scheme_str() == Some("https") {
            self.tls()?.request(request).await
        } else {
            self.plain().request(request).await
        };
        answer.map_err(|error| {
            let (url, reason) = (url.to_string(), root_cause(&error));
            if error.is_connect() {
                Error::Unreachable { url, reason }
            } else {
                Error::ConnectionLost { url, reason }
            }
        })
    }

    /// The text of a document, and where it stands after redirects.
    pub(crate) async fn get(&self, url: Uri) -> Result<(String, Uri), Error> {
        let mut url = url;
        for _ in 0..=REDIRECTS {
            let request = Request::get(url.clone())
                .header(
                    header::ACCEPT,
                    "text/xml, application/wsdl+xml, application/xml, */*;q=0.5",
                )
                .body(SegmentBody::empty())
                .map_err(|error| bad_url(&url, &error))?;
            let answer = self.send(request).await?;
            if answer.status().is_redirection()
                && let Some(to) = answer.headers().get(header::LOCATION)
            {
                url = location::redirected(&url, &String::from_utf8_lossy(to.as_bytes()))?;
                continue;
            }
            if !answer.status().is_success() {
                return Err(no_soap(&url, answer).await);
            }
            let body = Limited::new(answer.into_body(), DESCRIPTION_SIZE).collect().await;
            let body = body.map_err(|error| Error::ConnectionLost {
                url: url.to_string(),
                reason: root_cause(&*error),
            })?;
            return Ok((String::from_utf8_lossy(&body.to_bytes()).into_owned(), url));
        }
        Err(Error::BadUrl {
            url: url.to_string(),
            reason: format!("it leads from one address to the next, more than {REDIRECTS} times"),
        })
    }

    fn plain(&self) -> &Client<Timed<HttpConnector>, SegmentBody> {
        self.plain.get_or_init(|| build(Timed(tcp(), self.settings.connect_timeout)))
    }

    fn tls(&self) -> Result<&Client<Timed<HttpsConnector<HttpConnector>>, SegmentBody>, Error> {
        if let Some(client) = self.tls.get() {
            return Ok(client);
        }
        let provider = rustls::crypto::ring::default_provider();
        let unusable = |error: rustls::Error| Error::Certificates {
            origin: "TLS".to_owned(),
            reason: error.to_string(),
        };
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        let mut tcp = tcp();
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http1()
            .wrap_connector(tcp);
        let client = build(Timed(connector, self.settings.connect_timeout));
        Ok(self.tls.get_or_init(|| client))
    }

    /// The certificates to trust: those of the file, or the system's.
    fn roots(&self) -> Result<rustls::RootCertStore, Error> {
        let (origin, certificates) = match &self.settings.ca_file {
            Some(path) => (path.display().to_string(), certificates_in(path)),
            None => {
                let loaded = rustls_native_certs::load_native_certs();
                let failure = loaded.errors.first().map(ToString::to_string);
                let certificates = if loaded.certs.is_empty() {
                    Err(failure.unwrap_or_else(|| "there are none".to_owned()))
                } else {
                    Ok(loaded.certs)
                };
                ("the system".to_owned(), certificates)
            }
        };
        let unusable = |reason: String| Error::Certificates { origin: origin.clone(), reason };
        let mut roots = rustls::RootCertStore::empty();
        let (added, ignored) = roots.add_parsable_certificates(certificates.map_err(unusable)?);
        if added == 0 {
            return Err(unusable(format!("none of {ignored} can be used as an authority")));
        }
        Ok(roots)
    }
}

fn certificates_in(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if found.is_empty() { Err("there is no PEM certificate in it".to_owned()) } else { Ok(found) }
}

fn tcp() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE_AFTER));
    connector.set_keepalive_interval(Some(KEEPALIVE_EVERY));
    connector.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    connector
}

fn build<C>(connector: C) -> Client<C, SegmentBody>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector)
}

/// A connector with a deadline for the whole of a connection, name and TLS included.
#[derive(Clone)]
struct Timed<C>(C, Duration);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<C> tower_service::Service<Uri> for Timed<C>
where
    C: tower_service::Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = C::Response;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Boxed<Result<C::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, allowed) = (self.0.call(to), self.1);
        Box::pin(async move {
            match tokio::time::timeout(allowed, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => {
                    let message = format!("no connection within {} s", allowed.as_secs_f64());
                    Err(io::Error::new(io::ErrorKind::TimedOut, message).into())
                }
            }
        })
    }
}

fn bad_url(url: &Uri, error: &http::Error) -> Error {
    Error::BadUrl { url: url.to_string(), reason: error.to_string() }
}

/// The error for an HTTP answer that is no SOAP: its status and the first line of its body.
pub(crate) async fn no_soap(url: &Uri, answer: Response<Incoming>) -> Error {
    let status = answer.status().as_u16();
    if let Some(to) = answer.headers().get(header::LOCATION) {
        let line = format!("it has moved to {}", String::from_utf8_lossy(to.as_bytes()));
        return Error::Http { url: url.to_string(), status, line };
    }
    let mut body = answer.into_body();
    let mut start = Vec::new();
    while start.len() < 4096
        && let Some(Ok(frame)) = body.frame().await
    {
        start.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
    }
    Error::Http { url: url.to_string(), status, line: first_line(&start) }
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
    use super::*;

    #[test]
    fn the_first_line_of_a_body_is_short_and_harmless() {
        assert_eq!(first_line(b"\r\n  <h1>no\x1b[31m</h1>  \nmore"), "<h1>no[31m</h1>");
        assert_eq!(first_line(b""), "");
        assert_eq!(first_line(b"<!DOCTYPE html>\n<html>"), "");
        assert_eq!(first_line(&[b'x'; 1000]).len(), 200);
    }
}
