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
#[error("the WSDL has no view {key}={value}: use one of {allowed}")]
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
        todo!("{query}")
    }
}
