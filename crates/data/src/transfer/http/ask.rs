//! One question, its redirects followed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{CONTENT_ENCODING, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use url::Url;

use super::body::SizedBody;
use super::peer;
use crate::http::tls::Trust;
use crate::http::{Client, ClientError};
use crate::transfer::{Addresses, TransferError, TransferSettings};

/// What comes of an answer, and its connection.
pub(super) type IncomingBody = crate::http::ResponseBody<SizedBody>;

/// How much is read of an answer that says why not.
const REASON_SIZE: usize = 4096;
/// How long it may take to come.
const REASON_TIME: Duration = Duration::from_secs(2);
/// How long a peer that told no digest is not asked again after a body.
const SILENCE: Duration = Duration::from_secs(60);
/// How many such peers are remembered.
const SILENT_PEERS: usize = 1024;

/// Whoever asks: its connections, and what it knows of peers.
pub(super) struct Requester {
    settings: TransferSettings,
    addresses: Arc<dyn Addresses>,
    pub(super) client: Client<SizedBody>,
    silent: Mutex<HashMap<String, Instant>>,
}

impl std::fmt::Debug for Requester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An answer.
pub(super) struct HttpResponse {
    pub(super) response: Response<IncomingBody>,
    /// The address that gave it.
    pub(super) url: Url,
}

/// A question, as often as it has to be asked.
pub(super) struct HttpRequest<'q> {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The body, made anew for each address.
    pub(super) body: &'q (dyn Fn() -> Result<SizedBody, TransferError> + Sync),
}

impl Requester {
    pub(super) fn new(settings: &TransferSettings, addresses: Arc<dyn Addresses>) -> Self {
        let (settings, known) = (settings.clone(), Arc::clone(&addresses));
        let trust = Trust::with(settings.ca_file.clone());
        let client = Client::new(known, trust, settings.connect, settings.interim);
        Self { settings, addresses, client, silent: Mutex::default() }
    }

    /// Whether an address may be asked, as far as that is known without asking.
    pub(super) fn accepts(&self, url: &Url) -> Result<(), TransferError> {
        check(url)?;
        self.addresses.permits(url.host_str().unwrap_or_default())
    }

    /// The answer that is no redirect.
    pub(super) async fn ask(
        &self,
        url: &Url,
        question: &HttpRequest<'_>,
    ) -> Result<HttpResponse, TransferError> {
        let mut url = url.clone();
        for _ in 0..=self.settings.redirects {
            check(&url)?;
            let response = self.send(&url, question).await?;
            let to = response.headers().get(LOCATION);
            let to = to.filter(|_| follows(response.status(), &question.method));
            let Some(to) = to else { return Ok(HttpResponse { response, url }) };
            url = redirected(&url, &String::from_utf8_lossy(to.as_bytes()))?;
        }
        Err(TransferError::Forbidden {
            address: format!(
                "{} leads from one address to the next, more than {} times",
                peer(&url),
                self.settings.redirects
            ),
            rule: "transfer_redirects",
        })
    }

    async fn send(
        &self,
        url: &Url,
        question: &HttpRequest<'_>,
    ) -> Result<Response<IncomingBody>, TransferError> {
        loop {
            match self.client.send(request(url, question)?).await {
                // The question may be asked twice (RFC 9110, section 9.2.2).
                Err(ClientError::Broken { reused: true, .. }) => {}
                answer => {
                    return answer.map_err(|failure| TransferError::unanswered(peer(url), failure));
                }
            }
        }
    }

    /// This peer was asked for a digest and told none.
    pub(super) fn is_silent(&self, peer: &str) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(peer).is_some_and(|since| since.elapsed() < SILENCE)
    }

    pub(super) fn note_silence(&self, peer: String) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silent.len() >= SILENT_PEERS {
            silent.clear();
        }
        silent.insert(peer, Instant::now());
    }
}

fn request(url: &Url, question: &HttpRequest<'_>) -> Result<Request<SizedBody>, TransferError> {
    let mut request = Request::new((question.body)()?);
    *request.method_mut() = question.method.clone();
    let uri = url[..url::Position::AfterQuery].parse();
    *request.uri_mut() = uri.map_err(|error: http::uri::InvalidUri| TransferError::Strange {
        peer: peer(url),
        reason: error.to_string(),
    })?;
    *request.headers_mut() = question.headers.clone();
    Ok(request)
}

/// Addresses that are never asked, whatever host they name.
fn check(url: &Url) -> Result<(), TransferError> {
    let forbidden = |what: &str, rule| {
        Err(TransferError::Forbidden { address: format!("{} {what}", peer(url)), rule })
    };
    if !url.username().is_empty() || url.password().is_some() {
        return forbidden("is given with a user's name or password", "credentials");
    }
    match url.scheme() {
        "http" | "https" => Ok(()),
        _ => forbidden("is neither http nor https", "redirect_scheme"),
    }
}

fn follows(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        307 | 308 => true,
        // Others turn a PUT or POST into a GET.
        301..=303 => matches!(*method, Method::GET | Method::HEAD),
        _ => false,
    }
}

pub(super) fn redirected(from: &Url, to: &str) -> Result<Url, TransferError> {
    let url = from.join(to).map_err(|error| TransferError::Strange {
        peer: peer(from),
        reason: format!("it redirects to what is no address: {error}"),
    })?;
    if from.scheme() == "https" && url.scheme() == "http" {
        return Err(TransferError::Forbidden {
            address: format!("{} leads to {} in the clear", peer(from), peer(&url)),
            rule: "https_downgrade",
        });
    }
    Ok(url)
}

/// The error for a status that is no success.
pub(super) async fn refused(answer: HttpResponse) -> TransferError {
    let HttpResponse { response, url } = answer;
    let (status, peer) = (response.status(), peer(&url));
    let headers = response.headers();
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let readable = headers.get(CONTENT_ENCODING).is_none();
    let mut answer = status.to_string();
    let reading = first_line(response.into_body());
    if let Ok(said) = tokio::time::timeout(REASON_TIME, reading).await
        && readable
        && !said.is_empty()
        && !said.starts_with('<')
    {
        answer = format!("{answer}: {said}");
    }
    match status.as_u16() {
        408 | 425 | 429 | 500 | 502..=504 => TransferError::Busy { peer, answer, retry_after },
        100..=399 => TransferError::Strange { peer, reason: format!("it answers {answer}") },
        _ => TransferError::Refused { peer, answer },
    }
}

/// The first line of a body.
async fn first_line(mut body: IncomingBody) -> String {
    let mut start = Vec::new();
    while start.len() < REASON_SIZE
        && let Some(Ok(frame)) = body.frame().await
    {
        start.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    let text = String::from_utf8_lossy(&start);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}
