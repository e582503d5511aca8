//! Conditional requests (RFC 9110, section 13), in the order of its section 13.2.2.

use std::time::{Duration, SystemTime};

use hyper::header::{self, HeaderMap, HeaderName};

/// What tells one version of a representation from another.
#[derive(Clone, Debug)]
pub(super) struct Validators {
    /// A strong entity tag, with its quotes.
    pub(super) tag: String,
    /// When it came to be.
    pub(super) modified: Option<SystemTime>,
}

/// What a request's conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionResult {
    /// Do as asked.
    Proceed,
    /// 304: the sender has it.
    NotModified,
    /// 412: it is not what the sender takes it for.
    Failed,
}

impl Validators {
    /// What the conditions of a GET or HEAD come to.
    pub(super) fn judge(&self, headers: &HeaderMap) -> ConditionResult {
        let holds = match lines(headers, &header::IF_MATCH) {
            Some(tags) => Some(self.is_among(&tags, Comparison::Strong)),
            None => self.modified_after(headers, &header::IF_UNMODIFIED_SINCE).map(|after| !after),
        };
        if holds == Some(false) {
            return ConditionResult::Failed;
        }
        let modified = match lines(headers, &header::IF_NONE_MATCH) {
            Some(tags) => Some(!self.is_among(&tags, Comparison::Weak)),
            None => self.modified_after(headers, &header::IF_MODIFIED_SINCE),
        };
        if modified == Some(false) {
            ConditionResult::NotModified
        } else {
            ConditionResult::Proceed
        }
    }

    /// Whether `Range` is to be looked at: there is no `If-Range`, or it names this very version.
    pub(super) fn allows_range(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(header::IF_RANGE) else { return true };
        let Ok(condition) = condition.to_str() else { return false };
        let condition = condition.trim();
        if condition.ends_with('"') {
            return condition == self.tag;
        }
        let date = httpdate::parse_http_date(condition).ok();
        // A date is exact, because it says that nothing but this version had it.
        date.is_some() && date == self.modified.map(whole_second)
    }

    /// `None` if the field is not there, or is no date.
    fn modified_after(&self, headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
        let date = headers.get(name)?.to_str().ok()?;
        let date = httpdate::parse_http_date(date.trim()).ok()?;
        Some(whole_second(self.modified?) > date)
    }

    fn is_among(&self, tags: &str, comparison: Comparison) -> bool {
        if tags.trim() == "*" {
            return true;
        }
        // Our tags hold no comma, so a list is cut at any.
        tags.split(',').map(str::trim).any(|tag| match comparison {
            Comparison::Strong => tag == self.tag,
            Comparison::Weak => tag.strip_prefix("W/").unwrap_or(tag) == self.tag,
        })
    }
}

#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

/// A moment as an HTTP date can tell it.
pub(super) fn whole_second(moment: SystemTime) -> SystemTime {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// All lines of a field as one.
pub(super) fn lines(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<&str> =
        headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const OLDER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    /// The same in the obsolete form of RFC 850, which a recipient must take too.
    const OBSOLETE: &str = "Sunday, 06-Nov-94 08:49:37 GMT";

    fn ours() -> Validators {
        let modified = httpdate::parse_http_date(DATE).unwrap() + Duration::from_millis(500);
        Validators { tag: "\"ours\"".to_owned(), modified: Some(modified) }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn conditions_are_judged_in_the_standards_order() {
        use ConditionResult::{Failed, NotModified, Proceed};
        let judged = |fields: &[_], verdict| {
            assert_eq!(ours().judge(&headers(fields)), verdict, "{fields:?}");
        };
        judged(&[], Proceed);
        judged(&[("if-none-match", "\"ours\"")], NotModified);
        judged(&[("if-none-match", "\"a\", W/\"ours\"")], NotModified);
        judged(&[("if-none-match", "\"a\""), ("if-none-match", "\"ours\"")], NotModified);
        judged(&[("if-none-match", "*")], NotModified);
        judged(&[("if-none-match", "\"a\"")], Proceed);
        judged(&[("if-none-match", "\"a\""), ("if-modified-since", DATE)], Proceed);
        judged(&[("if-modified-since", DATE)], NotModified);
        judged(&[("if-modified-since", OBSOLETE)], NotModified);
        judged(&[("if-modified-since", OLDER)], Proceed);
        judged(&[("if-modified-since", "soon")], Proceed);
        judged(&[("if-match", "\"ours\"")], Proceed);
        judged(&[("if-match", "W/\"ours\"")], Failed);
        judged(&[("if-match", "\"a\""), ("if-none-match", "\"ours\"")], Failed);
        judged(&[("if-match", "\"ours\""), ("if-unmodified-since", OLDER)], Proceed);
        judged(&[("if-unmodified-since", OLDER)], Failed);
        judged(&[("if-unmodified-since", DATE)], Proceed);
    }

    #[test]
    fn a_range_is_only_looked_at_for_the_version_that_it_is_of() {
        let allows = |fields: &[_]| ours().allows_range(&headers(fields));
        assert!(allows(&[]));
        assert!(allows(&[("if-range", "\"ours\"")]));
        assert!(allows(&[("if-range", DATE)]));
        for other in ["\"a\"", "W/\"ours\"", OLDER, "soon"] {
            assert!(!allows(&[("if-range", other)]), "{other}");
        }
    }
}
