//! What all pages have in common: their frame, what a browser may do with them, and the files beside them.
//!
//! Links between pages are paths, not addresses: a server may have several names, and a browser sends forms of a page to the
//! server alone that it has it from ([`POLICY`]).

use std::sync::LazyLock;

use fishplate_contract::lexical::escaped;
use fishplate_contract::{Fault, Principal};
use hyper::StatusCode;
use hyper::header;
use hyper::http::request::Parts;
use xxhash_rust::xxh3::xxh3_64;

use crate::host::{Host, PublicAddress};
use crate::http::{HttpBody, HttpResponse, reply_with};
use crate::status::retry_after;

/// What a page may load and where it may send: nothing but this server's own, no script or style within it
/// (Content Security Policy Level 3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The first segment of the addresses of files beside pages. No service has such a name: it is no `NCName`.
const BESIDE: &str = "-/";

/// A file beside pages.
#[derive(Debug)]
pub(crate) struct StaticFile {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files beside pages.
static FILES: &[StaticFile] = &[
    StaticFile {
        name: "style.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("style.css"),
    },
    StaticFile { name: "directory.js", media_type: SCRIPT, bytes: include_bytes!("directory.js") },
    StaticFile { name: "domain.js", media_type: SCRIPT, bytes: include_bytes!("domain.js") },
    StaticFile { name: "example.js", media_type: SCRIPT, bytes: include_bytes!("example.js") },
    StaticFile { name: "form.js", media_type: SCRIPT, bytes: include_bytes!("form.js") },
    StaticFile { name: "job.js", media_type: SCRIPT, bytes: include_bytes!("job.js") },
    StaticFile { name: "mesh.js", media_type: SCRIPT, bytes: include_bytes!("mesh.js") },
    StaticFile { name: "upload.js", media_type: SCRIPT, bytes: include_bytes!("upload.js") },
];

/// Of each, what tells it from the same file of another version.
static VERSIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| FILES.iter().map(|file| format!("{:016x}", xxh3_64(file.bytes))).collect());

impl StaticFile {
    /// The file at a path below the public URL.
    pub(crate) fn of(path: &str) -> Option<&'static Self> {
        Self::find(path.strip_prefix(BESIDE)?).map(|(file, _)| file)
    }

    fn find(name: &str) -> Option<(&'static Self, &'static str)> {
        let mut all = FILES.iter().zip(VERSIONS.iter());
        all.find(|(file, _)| file.name == name).map(|(file, version)| (file, version.as_str()))
    }

    /// The answer to who asks for it. An address that tells its version leads to it for ever.
    pub(crate) fn reply(&self, asked: &Parts) -> HttpResponse {
        let version = Self::find(self.name).map_or("", |(_, version)| version);
        let etag = format!("\"{version}\"");
        let known = asked.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let is_known = known.is_some_and(|known| known == "*" || known.contains(&etag));
        let is_pinned = asked.uri.query() == Some(&format!("v={version}"));
        let keep = if is_pinned { "public, max-age=31536000, immutable" } else { "no-cache" };
        let (status, bytes) = match is_known {
            true => (StatusCode::NOT_MODIFIED, b"".as_slice()),
            false => (StatusCode::OK, self.bytes),
        };
        let fields = [
            (header::CONTENT_TYPE, self.media_type),
            (header::ETAG, &*etag),
            (header::CACHE_CONTROL, keep),
        ];
        reply_with(status, &fields, HttpBody::bytes(bytes))
    }
}

/// The path of a file beside pages.
pub(super) fn beside(host: &Host, name: &str) -> String {
    let version = StaticFile::find(name).map_or("", |(_, version)| version);
    format!("{}/{BESIDE}{name}?v={version}", escaped(host.public_path()))
}

/// The path of an address of this server, as links of pages have it.
pub(crate) fn local<'u>(host: &'u Host, url: &'u str) -> &'u str {
    let public = host.settings.public_url.as_str();
    let origin = &public[..public.len() - host.public_path().len()];
    match url.strip_prefix(origin) {
        Some("") => "/",
        Some(path) => path,
        None => url,
    }
}

/// A page around its content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page<'p> {
    /// What stands in the browser's title.
    pub(crate) title: &'p str,
    /// Names of the scripts beside it.
    pub(crate) scripts: &'p [&'p str],
    /// Without scripts, it is loaded again after so many seconds.
    pub(crate) again_after: Option<u32>,
}

impl Page<'_> {
    /// The whole page; who reads it stands at its top, if that is known.
    pub(crate) fn write(&self, host: &Host, caller: Option<&Principal>, body: &str) -> String {
        let base = escaped(host.public_path());
        let again = self.again_after.map_or_else(String::new, |seconds| {
            let again = format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">");
            // A script's pages have no events to wait for.
            if host.place() == PublicAddress::At {
                again
            } else {
                format!("<noscript>{again}</noscript>")
            }
        });
        let scripts: String = self
            .scripts
            .iter()
            .map(|name| format!("<script src=\"{}\" defer></script>\n", beside(host, name)))
            .collect();
        let who = caller.filter(|caller| !caller.is_anonymous()).map_or_else(String::new, |who| {
            format!("<span class=\"who\">logged in as <b>{}</b></span>", escaped(who.as_str()))
        });
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<link rel=\"stylesheet\" href=\"{style}\">\n\
             <link rel=\"icon\" href=\"data:,\">\n{scripts}{again}</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">To the content</a>\n\
             <header><nav aria-label=\"Server\"><a href=\"{base}/\">Services</a> \
             <a href=\"{base}/ogc/jobs\">Jobs</a> \
             <a href=\"{base}/ogc\">Account</a></nav>{who}</header>\n\
             <main id=\"main\">\n{body}</main>\n\
             <footer>Served by Fishplate {version}</footer>\n</body>\n</html>\n",
            title = escaped(self.title),
            style = beside(host, "style.css"),
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

/// A page as an answer.
pub(crate) fn reply(status: u16, html: String) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // What there is, is nobody else's business: neither other caches' nor other servers'.
        (header::CACHE_CONTROL, "private, no-cache"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    reply_with(status, &fields, HttpBody::bytes(html))
}

/// A page that tells of a fault, with the status that programs get, and when it is worth trying again.
pub(crate) fn of_fault(status: u16, fault: &Fault, html: String) -> HttpResponse {
    let mut reply = reply(status, html);
    if let Some(seconds) = retry_after(fault) {
        reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    reply
}

/// Leads a browser to another page (RFC 9110, section 15.4.4).
pub(crate) fn see(path: &str) -> HttpResponse {
    let fields = [(header::LOCATION, path), (header::CACHE_CONTROL, "no-store")];
    reply_with(StatusCode::SEE_OTHER, &fields, HttpBody::bytes(""))
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use hyper::header::HeaderName;

    use super::*;

    fn parts(uri: &str, known: &str) -> Parts {
        let request = Request::get(uri).header(header::IF_NONE_MATCH, known);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_file_is_sent_once_in_each_version() {
        let file = StaticFile::of("-/style.css").unwrap();
        let (_, version) = StaticFile::find("style.css").unwrap();
        let etag = format!("\"{version}\"");
        let field = |reply: &HttpResponse, name: HeaderName| {
            reply.headers()[name].to_str().unwrap().to_owned()
        };
        for (uri, known, status, keep) in [
            ("/-/style.css", "", 200, "no-cache"),
            ("/-/style.css?v=other", "\"other\"", 200, "no-cache"),
            ("/-/style.css", &*etag, 304, "no-cache"),
            (&*format!("/-/style.css?v={version}"), "", 200, "public, max-age=31536000, immutable"),
        ] {
            let reply = file.reply(&parts(uri, known));
            assert_eq!(reply.status().as_u16(), status, "{uri}");
            assert_eq!(field(&reply, header::CACHE_CONTROL), keep, "{uri}");
            assert_eq!(field(&reply, header::ETAG), etag, "{uri}");
        }
        for other in ["style.css", "-/", "-/../style.css", "-/page.rs"] {
            assert!(StaticFile::of(other).is_none(), "{other}");
        }
    }

    #[test]
    fn no_page_allows_what_stands_in_it_to_run() {
        let page = reply(200, String::new());
        let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
            "{policy}"
        );
    }
}
