//! The relay: by `/sites/NAME/...` others reach a server that nobody can dial, over connections that it has dialled itself
//! (docs/decisions/0025).
//!
//! Its server asks for a connection at `/sites/NAME` (`Upgrade`), with a right to that name, and is then asked over it.
//! What others want is passed on without a look: who may have it, that server decides.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::interface::SITES;
use fishplate_contract::{Fault, FaultCode};
use fishplate_ranks::transport::route::PROTOCOL;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;

use super::passage::{
    PassError, Passage, asks_for, not_answered, passed, request_to_pass, switched, upgrade_to,
};
use crate::audit::CALLER;
use crate::authentication::client_address::X_FORWARDED_FOR;
use crate::host::Host;
use crate::http::HttpResponse;
use crate::http::body::Incoming;
use crate::sites::{Registration, SiteConnection};

/// What a site's server asks for.
pub(crate) const SITE_PROTOCOL: &str = "fishplate-site";

/// Tells one process of a site's server from the next.
pub(crate) const INSTANCE: HeaderName = HeaderName::from_static("fishplate-instance");

/// Something at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteAddress<'a> {
    /// Its name.
    pub(crate) site: &'a str,
    /// The path below its server's URL, without the slash.
    rest: &'a str,
}

impl<'a> SiteAddress<'a> {
    /// That of a path below the public URL.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let below = path.strip_prefix(SITES)?.strip_prefix('/')?;
        let (site, rest) = below.split_once('/').unwrap_or((below, ""));
        is_name(site).then_some(Self { site, rest })
    }

    /// Whether a request for it is one of the site's own server.
    pub(crate) fn is_registration(&self, method: &Method, headers: &HeaderMap) -> bool {
        self.rest.is_empty() && asks_for(method, headers, SITE_PROTOCOL)
    }
}

/// Whether a site can have this name.
pub fn is_name(text: &str) -> bool {
    const LONGEST: usize = 64;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_good)
}

/// Somebody at the address of a site who is let in.
pub(crate) struct Admission {
    site: String,
    /// The path below its server's URL.
    path: String,
    to: SiteEnd,
}

/// What comes of it.
enum SiteEnd {
    /// A connection more of the site's server.
    Registered(Registration),
    /// It is passed on over this connection, and with the permit to do so.
    Passed((SiteConnection, OwnedSemaphorePermit)),
}

/// Lets in a site's server, which may register it, or finds a connection to it.
///
/// # Errors
/// `InvalidValue`, if a server does not say which process it is; `QueueFull`; `Unavailable`, if another server is that site, or the site
/// has no connection in time.
pub(crate) async fn admit(
    host: &Host,
    at: SiteAddress<'_>,
    asked: &Parts,
) -> Result<Admission, Fault> {
    let (site, path) = (at.site.to_owned(), format!("/{}", at.rest));
    if !at.is_registration(&asked.method, &asked.headers) {
        // No permit for who waits: else those who wait for one site would lock others.
        let over = host.sites.connection(at.site, host.settings.site_wait).await?;
        return Ok(Admission { site, path, to: SiteEnd::Passed(over) });
    }
    let instance = asked.headers.get(INSTANCE).and_then(|value| value.to_str().ok());
    let instance = instance.filter(|instance| (16..=64).contains(&instance.len()));
    let instance = instance.ok_or_else(|| {
        let what = format!("{INSTANCE} tells one process from the next, in 16 to 64 characters");
        Fault::new(FaultCode::InvalidValue, what)
    })?;
    let registered = host.sites.register(at.site, instance, &host.settings, &host.metrics)?;
    Ok(Admission { site, path, to: SiteEnd::Registered(registered) })
}

impl Admission {
    /// Takes the connection, or passes on what is wanted: a connection to a rank, if that is asked for; else one request.
    pub(crate) async fn answer<B>(
        self,
        host: &Arc<Host>,
        mut asked: Parts,
        body: Incoming<B>,
    ) -> HttpResponse
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Display,
    {
        let Self { site, path, to } = self;
        let over = match to {
            SiteEnd::Passed(over) => over,
            SiteEnd::Registered(registration) => {
                let upgrade = hyper::upgrade::on(Request::from_parts(asked, ()));
                tokio::spawn(registration.enter(upgrade, host.settings.site_wait));
                return switched(SITE_PROTOCOL);
            }
        };
        let query = asked.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = path + &query;
        let client = CALLER.try_with(|client| HeaderValue::from_str(&client.to_string()));
        if let Ok(Ok(client)) = client {
            asked.headers.append(X_FORWARDED_FOR, client);
        }
        let answered = async {
            asked.uri = target.parse::<Uri>()?;
            let upgrade = asks_for(&asked.method, &asked.headers, PROTOCOL)
                .then(|| asked.extensions.remove::<OnUpgrade>())
                .flatten();
            let mut request = request_to_pass(asked, body);
            if upgrade.is_some() {
                upgrade_to(request.headers_mut(), PROTOCOL);
            }
            let wait = host.settings.site_wait;
            let (answer, connection, permit) = host.sites.send(&site, wait, over, request).await?;
            let SiteConnection { hold, .. } = connection;
            let is_switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
            let Some(upgrade) = upgrade.filter(|_| is_switched) else {
                // Until the answer has passed. A connection that has ended needs none.
                let _ = hold.send(permit);
                return Ok(passed(answer));
            };
            let to = TokioIo::new(hyper::upgrade::on(answer).await?);
            let url = format!("{}/{SITES}/{site}{target}", host.settings.public_url);
            let passage =
                Passage { permit: (permit, hold), url, stall: host.settings.answer_stall };
            Ok::<_, PassError>(passage.switch(upgrade, to, PROTOCOL))
        };
        let mut reply = answered.await.unwrap_or_else(|error| not_answered(&site, &error));
        // A browser takes the pages of all sites, and the relay's own, for those of one origin.
        let sandbox = HeaderValue::from_static("sandbox");
        reply.headers_mut().append(header::CONTENT_SECURITY_POLICY, sandbox);
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_a_site_or_none() {
        let of = |path| SiteAddress::of(path).map(|at| (at.site, at.rest));
        assert_eq!(of("sites/berlin"), Some(("berlin", "")));
        assert_eq!(of("sites/berlin/ring/x"), Some(("berlin", "ring/x")));
        for other in ["sites", "sites/", "sites//x", "sites/..", "sites/a b/x", "x/sites/berlin"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(of(&format!("sites/{}", "a".repeat(65))), None);
    }
}
