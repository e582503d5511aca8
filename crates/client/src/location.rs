//! The URL of a service, with or without `?wsdl`.

use http::Uri;

use crate::error::Error;

/// The URL of the description of the service at `url`: with `wsdl` in its query, the query's other
/// parts kept (`?data=xdescr` becomes `?wsdl&data=xdescr`). A URL of a `.wsdl` or `.xml` file is
/// left as it is; `http://` may be left out.
pub(crate) fn of_wsdl(url: &str) -> Result<Uri, Error> {
    let parsed = parse(url)?;
    let (path, query) = (parsed.path(), parsed.query().unwrap_or(""));
    let asks = query.split('&').any(|part| {
        let key = part.split_once('=').map_or(part, |(key, _)| key);
        key.eq_ignore_ascii_case("wsdl")
    });
    if asks || path.ends_with(".wsdl") || path.ends_with(".xml") {
        return Ok(parsed);
    }
    let query = if query.is_empty() { "wsdl".to_owned() } else { format!("wsdl&{query}") };
    let (scheme, authority) = (parsed.scheme_str().unwrap_or("http"), authority(&parsed));
    parse(&format!("{scheme}://{authority}{path}?{query}"))
}

/// An absolute `http:` or `https:` URL, without a user's name or password.
pub(crate) fn parse(url: &str) -> Result<Uri, Error> {
    let bad = |reason: &str| Error::BadUrl { url: url.to_owned(), reason: reason.to_owned() };
    let trimmed = url.trim().split('#').next().unwrap_or("");
    if trimmed.is_empty() {
        return Err(bad("it is empty"));
    }
    let absolute =
        if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
    let parsed: Uri = absolute
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(&error.to_string().to_lowercase()))?;
    match parsed.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(bad("it must begin with http:// or https://")),
    }
    if authority(&parsed).contains('@') {
        let reason = "it holds a user's name or password, which others could read there; log in \
                      otherwise (`fishplate login URL`, --user, auth=...)"
            .to_owned();
        return Err(Error::BadUrl { url: url.to_owned(), reason });
    }
    if parsed.host().is_none_or(str::is_empty) {
        return Err(bad("it names no host"));
    }
    Ok(parsed)
}

/// Whether two addresses are one: `http://` left out, capitals in the host, a slash at the end.
pub fn is_same_address(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = parse(url).ok()?;
        let host = authority(&url).to_ascii_lowercase();
        Some((url.scheme_str()?.to_owned(), host, url.path().trim_end_matches('/').to_owned()))
    };
    plain(one).is_some_and(|one| Some(one) == plain(other))
}

/// Where a redirect leads: an absolute URL, or a path on the same host.
pub(crate) fn redirected(from: &Uri, to: &str) -> Result<Uri, Error> {
    if to.contains("://") {
        return parse(to);
    }
    let scheme = from.scheme_str().unwrap_or("http");
    let path = if to.starts_with('/') {
        to.to_owned()
    } else {
        let parent = from.path().rsplit_once('/').map_or("", |(parent, _)| parent);
        format!("{parent}/{to}")
    };
    parse(&format!("{scheme}://{}{path}", authority(from)))
}

/// Where a server of ours may have its part `name` (`data/`, say), if `url` is that part, the
/// server's address or one of its services; the most likely first.
pub(crate) fn beside(url: &Uri, name: &str) -> Result<Vec<Uri>, Error> {
    let (scheme, authority) = (url.scheme_str().unwrap_or("http"), authority(url));
    let at = |path: &str| parse(&format!("{scheme}://{authority}{path}"));
    let path = url.path().trim_end_matches('/');
    let bare = name.trim_end_matches('/');
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
    if last == bare {
        return Ok(vec![at(&format!("{parent}/{name}"))?]);
    }
    let inside = at(&format!("{path}/{name}"))?;
    if path.is_empty() {
        return Ok(vec![inside]);
    }
    let beside = at(&format!("{parent}/{name}"))?;
    let is_directory = url.path().ends_with('/');
    Ok(if is_directory { vec![inside, beside] } else { vec![beside, inside] })
}

fn authority(uri: &Uri) -> &str {
    uri.authority().map_or("", http::uri::Authority::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wsdl_is_asked_for_once_and_the_rest_of_the_query_is_kept() {
        for (url, expected) in [
            ("http://h/s", "http://h/s?wsdl"),
            ("http://h/s?wsdl", "http://h/s?wsdl"),
            ("http://h/s?WSDL", "http://h/s?WSDL"),
            ("http://h/s?", "http://h/s?wsdl"),
            ("http://h", "http://h/?wsdl"),
            ("http://h:8080/s?data=xdescr", "http://h:8080/s?wsdl&data=xdescr"),
            ("http://h/s?wsdl&data=xdescr", "http://h/s?wsdl&data=xdescr"),
            ("http://h/s?a=1&wsdl", "http://h/s?a=1&wsdl"),
            ("https://h/s#part", "https://h/s?wsdl"),
            ("localhost:8080/s", "http://localhost:8080/s?wsdl"),
            ("http://h/foreign.wsdl", "http://h/foreign.wsdl"),
        ] {
            assert_eq!(of_wsdl(url).unwrap().to_string(), expected, "{url}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_called_is_refused_with_a_reason() {
        for url in ["", "ftp://h/s", "http://", "http:///s", "http://h/a b"] {
            assert!(matches!(of_wsdl(url), Err(Error::BadUrl { .. })), "{url:?}");
        }
    }

    #[test]
    fn a_users_name_and_password_are_refused_and_not_repeated() {
        for url in ["http://me:secret@h/s", "me:secret@h", "https://secret@h/s"] {
            let Err(error @ Error::BadUrl { .. }) = of_wsdl(url) else { panic!("{url}") };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_part_of_a_server_is_found_from_its_address_a_service_or_itself() {
        for (url, expected) in [
            ("http://h", &["http://h/data/"][..]),
            ("http://h/", &["http://h/data/"]),
            ("http://h/data", &["http://h/data/"]),
            ("http://h/p/data/", &["http://h/p/data/"]),
            ("http://h/ccx?wsdl", &["http://h/data/", "http://h/ccx/data/"]),
            ("http://h/p/", &["http://h/p/data/", "http://h/data/"]),
        ] {
            let found = beside(&parse(url).unwrap(), "data/").unwrap();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn a_redirect_leads_to_another_host_or_stays() {
        let from = parse("http://h:1/a/b?x").unwrap();
        for (to, expected) in [
            ("https://g/c?wsdl", "https://g/c?wsdl"),
            ("/c", "http://h:1/c"),
            ("c?wsdl", "http://h:1/a/c?wsdl"),
        ] {
            assert_eq!(redirected(&from, to).unwrap().to_string(), expected);
        }
    }
}
