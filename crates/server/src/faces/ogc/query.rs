//! What stands behind the question mark of an address.

use std::str::FromStr;

use fishplate_contract::{Fault, FaultCode, lexical};
use hyper::Method;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use url::form_urlencoded;

use super::links::{HTML, JSON};
use crate::http::accept::Accepted;

/// The parameters of a query.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(asked: &Parts) -> Self {
        let query = asked.uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The value of a parameter; of several, the first.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may stand several times, or have several values between commas.
    pub(super) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.flat_map(|(_, value)| value.split(',')).filter(|value| !value.is_empty())
    }

    /// The value of a parameter that is read.
    ///
    /// # Errors
    /// `InvalidValue`, with what would be right.
    pub(super) fn read<T: FromStr>(&self, name: &str, right: &str) -> Result<Option<T>, Fault> {
        let read = |text: &str| text.parse().map_err(|_| invalid(name, text, right));
        self.get(name).map(read).transpose()
    }

    /// How many of a list are wanted: at most `most`, even if more are asked for.
    ///
    /// # Errors
    /// `InvalidValue`
    pub(super) fn limit(&self, default: usize, most: usize) -> Result<usize, Fault> {
        const RIGHT: &str = "a whole number from 1";
        match self.read::<usize>("limit", RIGHT)? {
            Some(0) => Err(invalid("limit", "0", RIGHT)),
            limit => Ok(limit.unwrap_or(default).min(most)),
        }
    }
}

/// The fault of a parameter of a query.
pub(super) fn invalid(name: &str, text: &str, right: &str) -> Fault {
    let shown = lexical::shortened(text);
    let what = format!("the query's parameter {name} is {right}; {shown:?} is not");
    Fault::new(FaultCode::InvalidValue, what).parameter(name)
}

/// Whether somebody who reads wants a page: a browser, or `f=html`.
pub(super) fn wants_page(asked: &Parts) -> bool {
    let read = matches!(asked.method, Method::GET | Method::HEAD);
    let query = Query::of(asked);
    read && match query.get("f") {
        Some(format) => format == "html",
        None => prefers_page(&asked.headers),
    }
}

/// Whether a browser asks: somebody wants HTML rather than JSON.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    let accepted = Accepted::of(headers);
    accepted.weight(HTML) > accepted.weight(JSON)
}
