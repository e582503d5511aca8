//! What a client takes: media ranges and content codings, and their weights (RFC 9110, section 12.5).

use fishplate_wire::media::MediaType;
use hyper::header::{self, HeaderMap, HeaderName};

/// A weight: thousandths, from 0, which is not at all.
const MOST: u16 = 1000;

/// The media ranges of the fields `Accept`, each with its weight.
#[derive(Debug)]
pub(crate) struct Accepted(Vec<(u16, MediaType)>);

impl Accepted {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let ranges = all(headers, &header::ACCEPT);
        let weighted = |range| (weight(&range), range);
        Self(ranges.filter(|it| !it.essence.is_empty()).map(weighted).collect())
    }

    /// How much a media type is wanted: as the range tells that is closest to it. Who names no range takes everything.
    pub(crate) fn weight(&self, media_type: &str) -> u16 {
        if self.0.is_empty() {
            return MOST;
        }
        let wanted = MediaType::parse(media_type);
        let found =
            self.0.iter().filter_map(|(weight, range)| Some((closeness(range, &wanted)?, *weight)));
        found.max().map_or(0, |(_, weight)| weight)
    }

    /// Whether a media type is named itself, and wanted no less than another one.
    pub(crate) fn names(&self, media_type: &str, beside: &str) -> bool {
        let weight = self.weight(media_type);
        let is_named = self.0.iter().any(|(_, range)| range.essence == media_type);
        is_named && weight > 0 && weight >= self.weight(beside)
    }

    /// Whether JSON is named, of whatever kind, and nothing else.
    pub(crate) fn is_json_alone(&self) -> bool {
        let mut wanted = self.0.iter().filter(|(weight, _)| *weight > 0).peekable();
        let is_json = |range: &MediaType| {
            range.essence.ends_with("/json") || range.essence.ends_with("+json")
        };
        wanted.peek().is_some() && wanted.all(|(_, range)| is_json(range))
    }
}

/// Whether content may come in this coding: it is named, and not refused.
pub(crate) fn takes_coding(headers: &HeaderMap, coding: &str) -> bool {
    all(headers, &header::ACCEPT_ENCODING).any(|it| it.essence == coding && weight(&it) > 0)
}

/// What all fields of a name have, with parameters.
fn all(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = MediaType> {
    let fields = headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
    fields.flat_map(members).map(MediaType::parse)
}

/// The members of a list, between commas that are not in quotes.
fn members(field: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    field.split(move |sign: char| {
        let is_literal = std::mem::take(&mut escaped);
        match sign {
            '\\' if quoted && !is_literal => escaped = true,
            '"' if !is_literal => quoted = !quoted,
            _ => {}
        }
        sign == ',' && !quoted
    })
}

/// The parameter `q`; what can't be read counts as if it was not there.
fn weight(range: &MediaType) -> u16 {
    let told = range.parameter("q").and_then(|text| text.parse::<f32>().ok());
    let told = told.filter(|told| (0.0..=1.0).contains(told)).unwrap_or(1.0);
    // From 0 to 1000.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at")]
    let weight = (told * f32::from(MOST)).round() as u16;
    weight
}

/// How close a range is to a media type that it has in it; `None` if it has not.
fn closeness(range: &MediaType, to: &MediaType) -> Option<usize> {
    let (kind, _) = to.essence.split_once('/')?;
    if range.essence == "*/*" {
        return Some(0);
    }
    if range.essence.strip_suffix("/*") == Some(kind) {
        return Some(1);
    }
    let mut own = range.parameters().filter(|(name, _)| *name != "q").peekable();
    let has_own = usize::from(own.peek().is_some());
    let fits =
        range.essence == to.essence && own.all(|(name, value)| to.parameter(name) == Some(value));
    fits.then_some(2 + has_own)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn accepted(fields: &[&'static str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::ACCEPT, HeaderValue::from_static(field));
        }
        Accepted::of(&headers)
    }

    #[test]
    fn the_closest_range_tells_the_weight() {
        // The example of RFC 9110.
        let all = accepted(&[
            "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed,",
            "text/plain;format=fixed;q=0.4, */*;q=0.5",
        ]);
        for (media_type, weight) in [
            ("text/plain;format=flowed", 1000),
            ("text/plain", 700),
            ("text/html", 300),
            ("image/jpeg", 500),
            ("text/plain;format=fixed", 400),
            ("text/plain;format=other", 700),
        ] {
            assert_eq!(all.weight(media_type), weight, "{media_type}");
        }
        assert_eq!(accepted(&[]).weight("text/html"), 1000);
        assert_eq!(accepted(&["text/html; Q=0.5, x/y;a=\"b,text/plain\""]).weight("text/plain"), 0);
        for (field, weight) in
            [("a/b;q=0", 0), ("a/b;q=0.001", 1), ("a/b;q=7", 1000), ("a/b;q=x", 1000), ("a/bc", 0)]
        {
            assert_eq!(accepted(&[field]).weight("a/b"), weight, "{field}");
        }
    }

    #[test]
    fn a_coding_is_taken_if_it_is_named_and_not_refused() {
        for (field, is_taken) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, br", false),
            ("x-gzip, *", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
            assert_eq!(takes_coding(&headers, "gzip"), is_taken, "{field}");
        }
        assert!(!takes_coding(&HeaderMap::new(), "gzip"));
    }

    #[test]
    fn what_is_named_comes_before_what_is_only_let_in() {
        for (field, is_named) in [
            ("application/json", true),
            ("application/json, text/plain, */*", true),
            ("application/json;q=0.5, text/plain", false),
            ("application/json;q=0", false),
            ("*/*", false),
            ("application/jsonp", false),
        ] {
            assert_eq!(
                accepted(&[field]).names("application/json", "text/plain"),
                is_named,
                "{field}"
            );
        }
        for (field, is_alone) in [
            ("application/json, application/problem+json;q=0.1", true),
            ("application/json, text/html;q=0", true),
            ("application/json, */*;q=0.1", false),
            ("text/html", false),
        ] {
            assert_eq!(accepted(&[field]).is_json_alone(), is_alone, "{field}");
        }
        assert!(!accepted(&[]).is_json_alone());
    }
}
