//! The transports of a server, by the scheme of an address.

use std::sync::Arc;

use super::{TransferError, Transport};

/// Transports; of two of one scheme the later one serves it.
#[derive(Clone, Debug, Default)]
pub struct Transports(Vec<Arc<dyn Transport>>);

impl Transports {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, transport: impl Transport + 'static) -> Self {
        self.0.push(Arc::new(transport));
        self
    }

    /// The schemes that are served, sorted.
    pub fn schemes(&self) -> Vec<&'static str> {
        let mut schemes: Vec<_> =
            self.0.iter().flat_map(|transport| transport.schemes()).copied().collect();
        schemes.sort_unstable();
        schemes.dedup();
        schemes
    }

    /// The transport that serves a scheme.
    ///
    /// # Errors
    /// [`TransferError::Forbidden`] if none does; it tells which there are.
    pub fn find(&self, scheme: &str) -> Result<&Arc<dyn Transport>, TransferError> {
        let serves = |transport: &&Arc<dyn Transport>| transport.schemes().contains(&scheme);
        self.0.iter().rev().find(serves).ok_or_else(|| TransferError::Forbidden {
            address: format!(
                "{scheme}: is no scheme of this server ({})",
                self.schemes().join(", ")
            ),
            rule: "schemes",
        })
    }
}
