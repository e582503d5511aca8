//! The transports of a server, by the scheme of an address.

use std::sync::Arc;

use super::{TransferError, Transport};

/// Transports; of two of one scheme the later one serves it.
#[derive(Clone, Debug, Default)]
pub struct Transports(Vec<Arc<dyn Transport>>);

impl Transports {
    /// Without any transport.
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

    /// The transport to fetch with from addresses of a scheme.
    ///
    /// # Errors
    /// [`TransferError::Forbidden`] if none serves it; it tells what can be fetched from.
    pub fn find(&self, scheme: &str) -> Result<&Arc<dyn Transport>, TransferError> {
        self.serving(scheme, "fetched from", |transport| transport.reads())
    }

    /// The transport to deliver with to addresses of a scheme.
    ///
    /// # Errors
    /// [`TransferError::Forbidden`] if none serves it; it tells what can be delivered to.
    pub fn find_to_deliver(&self, scheme: &str) -> Result<&Arc<dyn Transport>, TransferError> {
        self.serving(scheme, "delivered to", |transport| transport.delivers())
    }

    /// Whatever serves a scheme, also if it does something else: it says so itself.
    fn serving(
        &self,
        scheme: &str,
        done: &str,
        does: impl Fn(&dyn Transport) -> bool,
    ) -> Result<&Arc<dyn Transport>, TransferError> {
        let serves = |transport: &&Arc<dyn Transport>| transport.schemes().contains(&scheme);
        self.0.iter().rev().find(serves).ok_or_else(|| {
            let able = Self(self.0.iter().filter(|one| does(&***one)).cloned().collect());
            let able = able.schemes().join(", ");
            let address = format!("{scheme}: is no scheme that is {done} here ({able})");
            TransferError::Forbidden { address, rule: "schemes" }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, PolicySettings};
    use crate::settings::TransportSettings;
    use crate::transfer::{DESTINATIONS, Files, Http, Mailto, SOURCES, TransferSettings};

    #[test]
    fn the_schemes_that_are_told_are_served() {
        let (bounds, addresses) =
            (TransferSettings::default(), Arc::new(Policy::new(PolicySettings::default())));
        let transports = Transports::new()
            .with(Http::new(&bounds, addresses.clone()))
            .with(Files::new(Vec::new()));
        let all = TransportSettings::default().add_to(transports, &bounds, addresses).unwrap();
        for (told, does) in [
            (&SOURCES[..], (|one| one.reads()) as fn(&dyn Transport) -> bool),
            (&DESTINATIONS[..], |one| one.delivers()),
        ] {
            let able = Transports(all.0.iter().filter(|one| does(&***one)).cloned().collect());
            let mut told = told.to_vec();
            told.sort_unstable();
            assert_eq!(able.schemes(), told);
        }
    }

    #[test]
    fn what_is_told_to_be_possible_is() {
        let mail = Mailto::new(None, &TransferSettings::default()).unwrap();
        let transports = Transports::new().with(Files::new(Vec::new())).with(mail);
        let told =
            |found: Result<&Arc<dyn Transport>, TransferError>| found.unwrap_err().to_string();
        let fetched = told(transports.find("gopher"));
        assert!(fetched.starts_with("gopher: is no scheme that is fetched from here (file):"));
        let delivered = told(transports.find_to_deliver("gopher"));
        assert!(delivered.contains("delivered to here (mailto):"), "{delivered}");
        assert!(transports.find("mailto").is_ok(), "it says itself that nothing is read there");
    }
}
