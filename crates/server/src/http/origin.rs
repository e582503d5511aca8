//! What is asked of us, and from where: the hosts that we are, and the origins (RFC 6454) whose pages
//! may send here.
//!
//! A browser runs pages of strangers beside a server that only its own machine can reach. Such a page
//! may have its own name lead to our address (DNS rebinding): then it asks for a host that we are not.
//! Or it sends here across sites: then the browser tells the page's origin. Programs that are no
//! browsers tell none.

use std::net::IpAddr;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode, Uri, Version};

use crate::settings::Settings;

/// Tells how the page that sends is related to us (Fetch Metadata); browsers alone set it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Allows any.
const ANY: &str = "*";

/// Which requests are for us.
#[derive(Clone, Debug)]
pub(crate) struct RequestFilter {
    /// `None`: the web server in front of us has looked.
    hosts: Option<Hosts>,
    /// Our public origin, and those that were allowed.
    origins: Vec<String>,
}

/// The hosts that we are.
#[derive(Clone, Debug)]
struct Hosts {
    listens: IpAddr,
    names: Vec<String>,
}

/// A request that is not for us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What was wrong, and what would be right.
    pub(crate) what: String,
}

impl RequestFilter {
    /// That of a listener at this address, which it was given by this name.
    pub(crate) fn of_listener(address: IpAddr, name: &str, settings: &Settings) -> Self {
        let host = |url: &str| url.parse::<Uri>().ok().and_then(|url| url.host().map(host_name));
        let mut names: Vec<String> = settings.allow_hosts.iter().map(|it| host_name(it)).collect();
        let relays = settings.relays.iter().map(|relay| relay.url.as_str());
        names.extend(relays.chain([settings.public_url.as_str()]).filter_map(host));
        names.extend(Some(host_name(name)).filter(|name| !name.is_empty()));
        if !address.is_loopback() {
            let own = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
            names.extend(own.map(|name| host_name(&name)));
        }
        let hosts = Hosts { listens: address.to_canonical(), names };
        Self { hosts: Some(hosts), ..Self::of_script(settings) }
    }

    /// That of a script: the web server knows its hosts.
    pub(crate) fn of_script(settings: &Settings) -> Self {
        let allowed = settings.allow_origins.iter();
        let origins = allowed.chain([&settings.public_url]).map(|url| origin(url));
        Self { hosts: None, origins: origins.collect() }
    }

    /// Whether this request is one for us.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn check<B>(&self, asked: &Request<B>) -> Result<(), Refusal> {
        framing(asked.headers())?;
        let asked_for = authority(asked, self.hosts.is_some())?;
        if let (Some(hosts), Some((_, host))) = (&self.hosts, asked_for)
            && !hosts.include(host)
        {
            let name = host_name(host);
            let what = format!(
                "this server is not {name:?}: it is {}; if it is to be reached by that name, start it \
                 with --allow-host {name}, or tell it its address with --public-url",
                hosts.shown()
            );
            return Err(Refusal { status: StatusCode::MISDIRECTED_REQUEST, what });
        }
        self.origin(asked, asked_for.map(|(authority, _)| authority))
    }

    fn origin<B>(&self, asked: &Request<B>, host: Option<&str>) -> Result<(), Refusal> {
        let refusal = |what: String| Err(Refusal { status: StatusCode::FORBIDDEN, what });
        let mut told = asked.headers().get_all(header::ORIGIN).iter();
        let safe = matches!(*asked.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let site = asked.headers().get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        let is_ours = matches!(site, None | Some(b"same-origin" | b"none"));
        let Some(from) = told.next() else {
            if safe || is_ours {
                return Ok(());
            }
            return refusal(
                "a page of another site sends this, and its browser does not say which \
                 (Sec-Fetch-Site without Origin)"
                    .to_owned(),
            );
        };
        let from = from.to_str().map(origin).unwrap_or_default();
        // The host alone does not tell http from https; browsers do.
        let own = (safe || is_ours)
            && host.is_some_and(|host| {
                let scheme = from.split_once("://").map_or("", |(scheme, _)| scheme);
                from == origin(&format!("{scheme}://{host}"))
            });
        let allowed = self.origins.iter().any(|it| *it == from || it == ANY);
        if told.next().is_none() && (own || allowed) {
            return Ok(());
        }
        refusal(format!(
            "pages of {from:?} may not send here; if they are to, start the server with \
             --allow-origin {from}"
        ))
    }
}

impl Hosts {
    fn include(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if self.names.iter().any(|name| name.eq_ignore_ascii_case(host) || name == ANY) {
            return true;
        }
        match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            // An address is no name that somebody could lead here. Which ones lead here, we don't
            // know: they may be translated on the way.
            Ok(address) => {
                self.listens.is_unspecified()
                    || address == self.listens
                    || address.is_loopback() && self.listens.is_loopback()
            }
            Err(_) => {
                host.eq_ignore_ascii_case("localhost")
                    && (self.listens.is_loopback() || self.listens.is_unspecified())
            }
        }
    }

    fn shown(&self) -> String {
        let mut shown = Vec::from_iter(self.names.iter().map(String::as_str));
        let address = self.listens.to_string();
        shown.push(if self.listens.is_unspecified() { "each of its addresses" } else { &address });
        if self.listens.is_loopback() || self.listens.is_unspecified() {
            shown.push("localhost");
        }
        let mut once = Vec::new();
        shown.retain(|name| {
            !once.contains(name) && {
                once.push(name);
                true
            }
        });
        shown.join(", ")
    }
}

/// The host and port that a request is for, and the host alone (RFC 9112, sections 3.2 and 3.2.2). A
/// request in HTTP/1.0 may tell none.
fn authority<B>(asked: &Request<B>, needed: bool) -> Result<Option<(&str, &str)>, Refusal> {
    let refusal =
        |what: &str| Err(Refusal { status: StatusCode::BAD_REQUEST, what: what.to_owned() });
    let mut told = asked.headers().get_all(header::HOST).iter();
    let host = told.next();
    if told.next().is_some() {
        return refusal("the request has more than one Host; send one");
    }
    // Also if the target names a host, which then counts.
    if host.is_none() && needed && asked.version() >= Version::HTTP_11 {
        return refusal("the request has no Host; send the host and port of this server's address");
    }
    let target = asked.uri().authority().map(Authority::as_str);
    let Some(authority) = target.or_else(|| host.map(|host| host.to_str().unwrap_or_default()))
    else {
        return Ok(None);
    };
    match host_of(authority) {
        Some(host) => Ok(Some((authority, host))),
        None => refusal("Host is no host and port; send those of this server's address"),
    }
}

/// The host of a host and perhaps a port; nobody's name stands there.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port, colons) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, port)| (host, port, true))?,
        None => {
            let at = authority.find(':').unwrap_or(authority.len());
            (&authority[..at], &authority[at..], false)
        }
    };
    let good = |c: u8| c.is_ascii_alphanumeric() || b"-._~%".contains(&c) || c == b':' && colons;
    let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
    let plain = !host.is_empty() && host.bytes().all(good);
    (plain && port.len() <= 5 && port.bytes().all(|c| c.is_ascii_digit())).then_some(host)
}

/// The one transfer coding that is read (RFC 9112, section 6.1).
fn framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut told = headers.get_all(header::TRANSFER_ENCODING).iter();
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if told.next().is_none_or(chunked) && told.next().is_none() {
        return Ok(());
    }
    let what = "the transfer coding is not taken; send the message with Content-Length, or with \
                Transfer-Encoding: chunked and nothing else";
    Err(Refusal { status: StatusCode::NOT_IMPLEMENTED, what: what.to_owned() })
}

/// A host as it is compared: without a port, brackets, and the dot of the root.
fn host_name(host: &str) -> String {
    let bare = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        // An address of IPv6 without brackets has no port.
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase()
}

/// Scheme, host and port of a URL, the usual port left out (RFC 6454, section 6.2).
fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_ascii_lowercase() };
    let (scheme, rest) = (scheme.to_ascii_lowercase(), rest.to_ascii_lowercase());
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let usual = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let authority = authority.strip_suffix(usual).unwrap_or(authority);
    format!("{scheme}://{authority}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(listens: &str, name: &str, change: fn(&mut Settings)) -> RequestFilter {
        let mut settings = Settings::new("https://example.org/services");
        change(&mut settings);
        RequestFilter::of_listener(listens.parse().unwrap(), name, &settings)
    }

    fn status(boundary: &RequestFilter, method: &str, fields: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri("/data/a");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        boundary
            .check(&request.body(()).unwrap())
            .map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    fn host(boundary: &RequestFilter, host: &str) -> u16 {
        status(boundary, "GET", &[("host", host)])
    }

    #[test]
    fn a_listener_is_its_addresses_and_its_names() {
        let loopback = boundary("127.0.0.1", "127.0.0.1", |_| ());
        for ours in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "localhost:9999",
            "LOCALHOST",
            "localhost.",
            "[::1]:80",
            "example.org",
            "Example.org:443",
        ] {
            assert_eq!(host(&loopback, ours), 200, "{ours}");
        }
        for foreign in ["evil.example", "localhost.evil.example", "192.0.2.1", "notexample.org"] {
            assert_eq!(host(&loopback, foreign), 421, "{foreign}");
        }
        let any =
            boundary("::", "0.0.0.0", |settings| settings.allow_hosts = vec!["n1".to_owned()]);
        for ours in ["192.0.2.1:8080", "[2001:db8::1]", "n1:8080", "localhost"] {
            assert_eq!(host(&any, ours), 200, "{ours}");
        }
        assert_eq!(host(&any, "evil.example"), 421);
        let one = boundary("192.0.2.1", "node.example", |_| ());
        assert_eq!(host(&one, "node.example:8080"), 200);
        assert_eq!(host(&one, "192.0.2.2"), 421);
        assert_eq!(host(&one, "localhost"), 421);
        let all = boundary("127.0.0.1", "", |settings| settings.allow_hosts = vec!["*".to_owned()]);
        assert_eq!(host(&all, "evil.example"), 200);
    }

    #[test]
    fn a_refusal_says_which_host_was_asked_for_and_what_to_set() {
        let request = Request::get("/").header("host", "evil.example:8080").body(()).unwrap();
        let refusal = boundary("127.0.0.1", "", |_| ()).check(&request).unwrap_err();
        for said in ["\"evil.example\"", "--allow-host evil.example", "--public-url", "localhost"] {
            assert!(refusal.what.contains(said), "{}", refusal.what);
        }
    }

    #[test]
    fn hosts_are_told_once_and_well() {
        let ours = boundary("127.0.0.1", "", |_| ());
        let get = |fields: &[(&str, &str)]| status(&ours, "GET", fields);
        assert_eq!(get(&[]), 400);
        assert_eq!(get(&[("host", "localhost"), ("host", "localhost")]), 400);
        for wrong in ["", "localhost, localhost", "me@localhost", "a b", "localhost:x"] {
            assert_eq!(get(&[("host", wrong)]), 400, "{wrong}");
        }
        // The target's own word counts more (RFC 9112, 3.2.2).
        let target = |uri: &str| {
            let request = Request::get(uri).header("host", "localhost").body(()).unwrap();
            ours.check(&request).is_ok()
        };
        assert!(target("http://127.0.0.1:8080/") && !target("http://evil.example/"));
        let old = Request::get("/").version(Version::HTTP_10).body(()).unwrap();
        assert!(ours.check(&old).is_ok());
    }

    #[test]
    fn pages_of_other_sites_may_not_send() {
        let ours = boundary("127.0.0.1", "", |settings| {
            settings.allow_origins = vec!["https://Portal.example:443".to_owned()];
        });
        let post = |fields: &[(&str, &str)]| {
            status(&ours, "POST", &[&[("host", "127.0.0.1:8080")], fields].concat())
        };
        for own in ["http://127.0.0.1:8080", "https://example.org", "https://portal.example"] {
            assert_eq!(post(&[("origin", own)]), 200, "{own}");
        }
        for foreign in
            ["http://evil.example", "null", "http://127.0.0.1:3000", "http://portal.example", ""]
        {
            assert_eq!(post(&[("origin", foreign)]), 403, "{foreign}");
        }
        assert_eq!(post(&[("origin", "https://example.org"), ("origin", "http://b.example")]), 403);
        assert_eq!(post(&[]), 200, "no browser");
        for (site, answer) in [
            ("cross-site", 403),
            ("same-site", 403),
            ("another", 403),
            ("same-origin", 200),
            ("none", 200),
        ] {
            assert_eq!(post(&[("sec-fetch-site", site)]), answer, "{site}");
            let own = [("sec-fetch-site", site), ("origin", "https://127.0.0.1:8080")];
            assert_eq!(post(&own), answer, "{site}");
        }
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&ours, "GET", &link), 200, "a link may lead here");
    }

    #[test]
    fn a_script_asks_for_no_host_but_for_the_origin() {
        let script =
            RequestFilter::of_script(&Settings::new("http://solver.example/cgi-bin/a.cgi"));
        assert_eq!(status(&script, "POST", &[]), 200);
        assert_eq!(host(&script, "www.solver.example"), 200);
        assert_eq!(status(&script, "POST", &[("origin", "http://solver.example")]), 200);
        assert_eq!(status(&script, "POST", &[("origin", "http://evil.example")]), 403);
    }

    #[test]
    fn only_chunks_are_read() {
        let ours = boundary("127.0.0.1", "", |_| ());
        let post = |codings: &[&str]| {
            let told = codings.iter().map(|coding| ("transfer-encoding", *coding));
            let fields: Vec<_> = [("host", "localhost")].into_iter().chain(told).collect();
            status(&ours, "POST", &fields)
        };
        assert_eq!(post(&["Chunked"]), 200);
        for wrong in
            [&["gzip"][..], &["gzip, chunked"], &["chunked, chunked"], &["gzip", "chunked"], &["x"]]
        {
            assert_eq!(post(wrong), 501, "{wrong:?}");
        }
    }
}
