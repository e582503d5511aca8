//! Views of a service's WSDL: the same elements in plain or richer types.

/// Which types the WSDL uses. The plain view never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// How files are typed.
    pub data: DataView,
}

/// How files are typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataView {
    /// Bare `xs:base64Binary`.
    #[default]
    Plain,
    /// Base64, inline XML or an endpoint reference (paper 000, Figures 6 and 7).
    Xdescr,
}

/// A query that names no view of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the WSDL has no view {key}={value}: use {allowed}")]
pub struct UnknownView {
    /// The key as asked.
    pub key: String,
    /// The value as asked.
    pub value: String,
    /// What there is.
    pub allowed: &'static str,
}

impl View {
    /// The view that a URL's query asks for (`wsdl&data=xdescr`); `None` if it does not ask for a
    /// WSDL at all.
    ///
    /// # Errors
    /// [`UnknownView`] if it asks for one that we do not have.
    pub fn from_query(query: &str) -> Result<Option<Self>, UnknownView> {
        let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
        let asked = |pair: &str| {
            let key = pair.split('=').next().unwrap_or_default();
            key.eq_ignore_ascii_case("wsdl")
        };
        if !pairs.clone().any(asked) {
            return Ok(None);
        }
        let mut view = Self::default();
        pairs.try_for_each(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (key, value) {
                _ if asked(pair) => {}
                ("data", "plain") => view.data = DataView::Plain,
                ("data", "xdescr") => view.data = DataView::Xdescr,
                (key, value) => {
                    return Err(UnknownView {
                        key: key.to_owned(),
                        value: value.to_owned(),
                        allowed: "data=plain or data=xdescr",
                    });
                }
            }
            Ok(())
        })?;
        Ok(Some(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_view() {
        let xdescr = View { data: DataView::Xdescr };
        for (query, view) in [
            ("", None),
            ("x=wsdl", None),
            ("wsdl", Some(View::default())),
            ("WSDL", Some(View::default())),
            ("wsdl=1", Some(View::default())),
            ("wsdl&data=plain", Some(View::default())),
            ("wsdl&data=xdescr", Some(xdescr)),
            ("data=xdescr&wsdl", Some(xdescr)),
        ] {
            assert_eq!(View::from_query(query), Ok(view), "{query}");
        }
        let unknown = View::from_query("wsdl&arrays=binary").unwrap_err();
        assert_eq!((unknown.key.as_str(), unknown.value.as_str()), ("arrays", "binary"));
    }
}
