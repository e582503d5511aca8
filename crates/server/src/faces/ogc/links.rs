//! Links between documents, in their bodies and in the header `Link` (RFC 8288).

use fishplate_contract::interface::OGC;
use hyper::header::{self, HeaderValue};
use serde_json::{Value, json};

use crate::host::Host;
use crate::http::HttpResponse;

pub(super) const JSON: &str = "application/json";
pub(super) const HTML: &str = "text/html";

/// Relations that the standard names by a URI (18-062r2, section 5.2).
pub(super) const PROCESSES: &str = "http://www.opengis.net/def/rel/ogc/1.0/processes";
pub(super) const EXECUTE: &str = "http://www.opengis.net/def/rel/ogc/1.0/execute";
pub(super) const JOB_LIST: &str = "http://www.opengis.net/def/rel/ogc/1.0/job-list";
pub(super) const RESULTS: &str = "http://www.opengis.net/def/rel/ogc/1.0/results";
pub(super) const EXCEPTIONS: &str = "http://www.opengis.net/def/rel/ogc/1.0/exceptions";
/// Of the draft of 2.0.
pub(super) const LOG: &str = "http://www.opengis.net/def/rel/ogc/1.0/log";
pub(super) const CONFORMANCE: &str = "http://www.opengis.net/def/rel/ogc/1.0/conformance";

/// A link.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) href: String,
    pub(super) rel: String,
    pub(super) media_type: &'static str,
    pub(super) title: String,
}

impl Link {
    /// A link to what is below the public URL of the face.
    pub(super) fn new(host: &Host, path: &str, rel: &str, title: impl Into<String>) -> Self {
        let href = address(host, path);
        Self { href, rel: rel.to_owned(), media_type: JSON, title: title.into() }
    }

    /// The same, to a resource of another media type.
    pub(super) fn of_type(mut self, media_type: &'static str) -> Self {
        self.media_type = media_type;
        self
    }

    /// A link to a page of the server.
    pub(super) fn page(url: impl Into<String>, rel: &str, title: &str) -> Self {
        Self { href: url.into(), rel: rel.to_owned(), media_type: HTML, title: title.to_owned() }
    }

    pub(super) fn json(&self) -> Value {
        let Self { href, rel, media_type, title } = self;
        json!({ "href": href, "rel": rel, "type": media_type, "title": title })
    }
}

/// An address of the face, which begins with a slash unless it is the landing page's.
pub(super) fn address(host: &Host, path: &str) -> String {
    format!("{}/{OGC}{path}", host.settings.public_url)
}

/// Links as they stand in a body.
pub(super) fn in_body(links: &[Link]) -> Value {
    links.iter().map(Link::json).collect()
}

/// Puts the same links into the header.
pub(super) fn in_header(reply: &mut HttpResponse, links: &[Link]) {
    for Link { href, rel, media_type, .. } in links {
        let link = format!("<{href}>; rel=\"{rel}\"; type=\"{media_type}\"");
        if let Ok(link) = HeaderValue::from_str(&link) {
            reply.headers_mut().append(header::LINK, link);
        }
    }
}
