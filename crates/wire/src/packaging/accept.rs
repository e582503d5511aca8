//! How to answer: in the packaging of the request, else in what `Accept` asks for.

use super::Packaging;
use crate::media::MediaType;

/// How to answer a request of this media type. Plain requests are answered plain unless they ask for
/// something else, because zeep, suds, PHP and SOAP::Lite can read nothing else.
pub(crate) fn of_answer(media: &MediaType, accept: &str) -> Packaging {
    match Packaging::of_media(media) {
        Some(Packaging::Plain) | None => asked(accept),
        Some(used) => used,
    }
}

/// What `Accept` asks for (RFC 9110 section 12.5.1). Whoever lists several packagings and plain XML
/// before them tells what it knows, not what it wants: Axis 1.4 sends `application/soap+xml,
/// application/dime, multipart/related, text/*` with every request, and then takes a plain answer for
/// what it is.
fn asked(accept: &str) -> Packaging {
    if accept.is_empty() {
        return Packaging::Plain;
    }
    let mut listed: Vec<(f32, Packaging)> = entries(accept)
        .filter_map(|entry| {
            let media = MediaType::parse(entry);
            let weight = media.parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
            let packaging = match media.essence.as_str() {
                "text/*" => Some(Packaging::Plain),
                _ => Packaging::of_media(&media),
            };
            packaging.filter(|_| weight > 0.0).map(|packaging| (weight, packaging))
        })
        .collect();
    listed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let mut others =
        listed.iter().map(|(_, packaging)| *packaging).filter(|it| *it != Packaging::Plain);
    let Some(wanted) = others.next() else { return Packaging::Plain };
    let first = listed.first().is_some_and(|(_, packaging)| *packaging == wanted);
    if first || others.all(|other| other == wanted) { wanted } else { Packaging::Plain }
}

/// The elements of a list; a comma in a quoted string parts nothing.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    list.split(move |c| {
        let parts = c == ',' && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        parts
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content_type: &str, accept: &str) -> Packaging {
        of_answer(&MediaType::parse(content_type), accept)
    }

    #[test]
    fn an_answer_is_packaged_as_its_request() {
        for accept in ["", "*/*", "application/dime", "multipart/related", "text/xml"] {
            assert_eq!(answer("application/dime", accept), Packaging::Dime);
            assert_eq!(answer("multipart/related; type=\"text/xml\"", accept), Packaging::Swa);
            let mtom = "Multipart/Related; type=\"application/xop+xml\"; start-info=\"text/xml\"";
            assert_eq!(answer(mtom, accept), Packaging::Mtom);
        }
        assert_eq!(answer("multipart/related; type=\"image/png\"", ""), Packaging::Plain);
    }

    #[test]
    fn a_plain_request_may_ask_for_any_packaging() {
        for packaging in Packaging::ALL {
            assert_eq!(answer("text/xml", packaging.accept()), *packaging);
        }
        for (accept, packaging) in [
            ("", Packaging::Plain),
            ("*/*", Packaging::Plain),
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Packaging::Plain),
            ("text/xml, multipart/*, application/soap", Packaging::Plain),
            ("a/b, Multipart/Related", Packaging::Mtom),
            ("application/xop+xml", Packaging::Mtom),
            ("text/xml, application/dime", Packaging::Dime),
            ("multipart/related;type=\"text/xml\"", Packaging::Swa),
            ("x/y;z=\"a,\\\",application/dime\"", Packaging::Plain),
            ("application/dime;q=0, text/xml", Packaging::Plain),
            ("application/dime;q=0.5, multipart/related", Packaging::Mtom),
            ("application/dime, multipart/related", Packaging::Dime),
            ("application/soap+xml, application/dime, multipart/related, text/*", Packaging::Plain),
        ] {
            assert_eq!(answer("text/xml; charset=utf-8", accept), packaging, "{accept}");
        }
    }
}
