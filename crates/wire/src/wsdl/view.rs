//! Views of a service's WSDL: the same elements in plain or richer types, the same service in other
//! bindings.

use crate::envelope::ArrayForm;
use crate::packaging::Packaging;

/// Which types the WSDL uses, and how messages are bound. The plain view never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// How files are typed.
    pub data: DataView,
    /// How arrays are typed, unless the binding tells it.
    pub arrays: ArrayForm,
    /// How messages are packaged.
    pub binding: PackagingBinding,
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

/// How messages are packaged. Those but the first have one port, of SOAP 1.1, and arrays are
/// binary there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackagingBinding {
    /// Plain or MTOM, as the caller likes.
    #[default]
    Soap,
    /// SOAP with Attachments (WS-I Attachments Profile 1.0).
    Swa,
    /// DIME (WSDL extension for SOAP in DIME).
    Dime,
}

/// A query that names no view of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the WSDL has no view {key}={value}: use {ALLOWED}")]
pub struct UnknownView {
    /// The key as asked.
    pub key: String,
    /// The value as asked.
    pub value: String,
}

/// What there is.
const ALLOWED: &str = "data=plain or data=xdescr, arrays=elements or arrays=binary, binding=soap, binding=swa or \
     binding=dime";

impl View {
    /// The view that a URL's query asks for (`wsdl&data=xdescr`); `None` if it does not ask for a
    /// WSDL at all.
    ///
    /// # Errors
    /// [`UnknownView`] if it asks for one that we do not have.
    pub fn from_query(query: &str) -> Result<Option<Self>, UnknownView> {
        if !pairs(query).any(|(key, _)| is_wsdl(key)) {
            return Ok(None);
        }
        let mut view = Self::default();
        for (key, value) in pairs(query) {
            if !is_wsdl(key) && !view.ask(key, value) {
                return Err(UnknownView { key: key.to_owned(), value: value.to_owned() });
            }
        }
        Ok(Some(view))
    }

    /// The view from whose WSDL a toolkit has the address that it posts to; what is not ours in its
    /// query is passed over.
    pub(crate) fn of_address(query: &str) -> Self {
        let mut view = Self::default();
        for (key, value) in pairs(query) {
            view.ask(key, value);
        }
        view
    }

    /// The address of this view's ports.
    pub(crate) fn address(self, address: &str) -> String {
        let bound = match (self.binding, self.arrays) {
            (PackagingBinding::Soap, ArrayForm::Elements) => None,
            (PackagingBinding::Soap, ArrayForm::Binary) => Some("arrays=binary"),
            (PackagingBinding::Swa, _) => Some("binding=swa"),
            (PackagingBinding::Dime, _) => Some("binding=dime"),
        };
        let typed = (self.data == DataView::Xdescr).then_some("data=xdescr");
        let mut address = address.to_owned();
        for asked in typed.into_iter().chain(bound) {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(asked);
        }
        address
    }

    /// How arrays are typed.
    pub fn arrays(self) -> ArrayForm {
        match self.binding {
            PackagingBinding::Soap => self.arrays,
            PackagingBinding::Swa | PackagingBinding::Dime => ArrayForm::Binary,
        }
    }

    /// How answers are packaged that nothing else is asked for.
    pub(crate) fn packaging(self) -> Packaging {
        match self.binding {
            PackagingBinding::Soap => Packaging::Plain,
            PackagingBinding::Swa => Packaging::Swa,
            PackagingBinding::Dime => Packaging::Dime,
        }
    }

    /// Takes one pair of a query; `false` if it is none of ours.
    fn ask(&mut self, key: &str, value: &str) -> bool {
        match (key, value) {
            ("data", "plain") => self.data = DataView::Plain,
            ("data", "xdescr") => self.data = DataView::Xdescr,
            ("arrays", name) => match ArrayForm::from_name(name) {
                Some(form) => self.arrays = form,
                None => return false,
            },
            ("binding", "soap") => self.binding = PackagingBinding::Soap,
            ("binding", "swa") => self.binding = PackagingBinding::Swa,
            ("binding", "dime") => self.binding = PackagingBinding::Dime,
            _ => return false,
        }
        true
    }
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn is_wsdl(key: &str) -> bool {
    key.eq_ignore_ascii_case("wsdl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_a_view() {
        let xdescr = View { data: DataView::Xdescr, ..View::default() };
        let binary = View { arrays: ArrayForm::Binary, ..View::default() };
        let bound = |binding| Some(View { binding, ..View::default() });
        for (query, view) in [
            ("", None),
            ("x=wsdl", None),
            ("arrays=binary", None),
            ("wsdl", Some(View::default())),
            ("WSDL", Some(View::default())),
            ("wsdl=1", Some(View::default())),
            ("wsdl&data=plain", Some(View::default())),
            ("wsdl&data=xdescr", Some(xdescr)),
            ("data=xdescr&wsdl", Some(xdescr)),
            ("wsdl&arrays=binary", Some(binary)),
            ("wsdl&arrays=elements&binding=soap", Some(View::default())),
            ("wsdl&binding=swa", bound(PackagingBinding::Swa)),
            ("wsdl&binding=dime", bound(PackagingBinding::Dime)),
        ] {
            assert_eq!(View::from_query(query), Ok(view), "{query}");
        }
        for query in ["wsdl&arrays=text", "wsdl&binding=mtom", "wsdl&colour=red"] {
            let unknown = View::from_query(query).unwrap_err();
            assert_eq!(format!("wsdl&{}={}", unknown.key, unknown.value), query);
        }
    }

    #[test]
    fn an_address_leads_back_to_its_view() {
        for query in [
            "wsdl",
            "wsdl&arrays=binary",
            "wsdl&binding=swa",
            "wsdl&binding=dime",
            "wsdl&data=xdescr",
            "wsdl&data=xdescr&arrays=binary",
            "wsdl&data=xdescr&binding=dime",
        ] {
            let view = View::from_query(query).unwrap().unwrap();
            for address in ["http://h/s", "http://h/cgi?s=1"] {
                let posted = view.address(address);
                assert!(posted.starts_with(address));
                let (_, asked) = posted.split_once('?').unwrap_or_default();
                assert_eq!(View::of_address(asked), view, "{posted}");
            }
        }
        let odd = View::of_address("x=1&arrays=rows&binding=pigeon");
        assert_eq!((odd.arrays(), odd.packaging()), (ArrayForm::Elements, Packaging::Plain));
    }
}
