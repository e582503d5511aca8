//! One question, its redirects followed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::header::{LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use url::Url;

use super::body::Sending;
use super::{broken, connect, peer};
use crate::transfer::{Addresses, TransferError, TransferSettings};

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("fishplate/", env!("CARGO_PKG_VERSION")));
/// How much is read of an answer that says why not.
const REASON_SIZE: usize = 4096;
/// How long a peer that told no digest is not asked again after a body.
const SILENCE: Duration = Duration::from_secs(60);
/// How many such peers are remembered.
const SILENT_PEERS: usize = 1024;

/// Clients, each made when it is first needed: reading the system's certificates takes a while.
pub(super) struct Asking {
    settings: TransferSettings,
    addresses: Arc<dyn Addresses>,
    plain: OnceLock<connect::Plain>,
    tls: OnceLock<connect::Tls>,
    silent: Mutex<HashMap<String, Instant>>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A question, as often as it has to be asked.
pub(super) struct Question<'q> {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The body, made anew for each address.
    pub(super) body: &'q (dyn Fn() -> Result<Sending, TransferError> + Sync),
}

impl Asking {
    pub(super) fn new(settings: &TransferSettings, addresses: Arc<dyn Addresses>) -> Self {
        Self {
            settings: settings.clone(),
            addresses,
            plain: OnceLock::new(),
            tls: OnceLock::new(),
            silent: Mutex::default(),
        }
    }

    /// The answer that is no redirect, and the address that gave it.
    pub(super) async fn ask(
        &self,
        url: &Url,
        question: &Question<'_>,
    ) -> Result<(Response<Incoming>, Url), TransferError> {
        let mut url = url.clone();
        for _ in 0..=self.settings.redirects {
            check(&url)?;
            let answer = self.send(&url, question).await?;
            if !follows(answer.status(), &question.method) {
                return Ok((answer, url));
            }
            let Some(to) = answer.headers().get(LOCATION) else { return Ok((answer, url)) };
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
        question: &Question<'_>,
    ) -> Result<Response<Incoming>, TransferError> {
        let strange = |reason: String| TransferError::Strange { peer: peer(url), reason };
        // The fragment is the reader's; a request has none.
        let mut plain = url.clone();
        plain.set_fragment(None);
        let uri: Uri = plain.as_str().parse().map_err(|error| strange(format!("{error}")))?;
        let mut request = Request::new((question.body)()?);
        *request.method_mut() = question.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = question.headers.clone();
        request.headers_mut().insert(USER_AGENT, AGENT);
        let answer = if url.scheme() == "https" {
            self.tls()
                .map_err(|reason| strange(format!("TLS can't be spoken: {reason}")))?
                .request(request)
                .await
        } else {
            self.plain().request(request).await
        };
        answer.map_err(|error| broken(&peer(url), &error))
    }

    fn plain(&self) -> &connect::Plain {
        self.plain.get_or_init(|| connect::plain(&self.settings, Arc::clone(&self.addresses)))
    }

    fn tls(&self) -> Result<&connect::Tls, String> {
        if let Some(client) = self.tls.get() {
            return Ok(client);
        }
        let client = connect::tls(&self.settings, Arc::clone(&self.addresses))?;
        Ok(self.tls.get_or_init(|| client))
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
        // Others turn a PUT into a GET.
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
pub(super) async fn refused(url: &Url, answer: Response<Incoming>) -> TransferError {
    let (status, peer) = (answer.status(), peer(url));
    let retry_after = answer
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let mut answer_text = status.to_string();
    if answer.headers().get("content-encoding").is_none() {
        let line = first_line(answer.into_body()).await;
        if !line.is_empty() && !line.starts_with('<') {
            answer_text = format!("{answer_text}: {line}");
        }
    }
    let answer = answer_text;
    match status.as_u16() {
        408 | 425 | 429 | 500 | 502..=504 => TransferError::Busy { peer, answer, retry_after },
        100..=399 => TransferError::Strange { peer, reason: format!("it answers {answer}") },
        _ => TransferError::Refused { peer, answer },
    }
}

async fn first_line(mut body: Incoming) -> String {
    let mut start = Vec::new();
    while start.len() < REASON_SIZE
        && let Ok(Some(Ok(frame))) =
            tokio::time::timeout(Duration::from_secs(2), body.frame()).await
    {
        start.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
    }
    let text = String::from_utf8_lossy(&start);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}
