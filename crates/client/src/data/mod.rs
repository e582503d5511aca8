//! Data that moves by reference: brought to a server, fetched from anywhere, or offered by
//! ourselves while a call runs.
//!
//! Reading order:
//!
//! - [`digesting`]: digests of what passes by, and of files
//! - [`put`]: a file to a server, which gives a reference to it
//! - `upload`: uploads that go on where they broke
//! - [`get`](mod@get): what a reference refers to into a file
//! - [`revoke`](mod@revoke): a reference made good for nothing
//! - [`sources`]: a transport for each scheme
//! - `partial`: half files, and what tells how to go on with them
//! - [`offer`], `answer`: files that we serve ourselves

mod answer;
pub mod digesting;
pub mod get;
pub mod offer;
mod partial;
pub mod put;
pub mod revoke;
pub mod sources;
mod upload;

pub use get::{Download, DownloadTarget, get};
pub use offer::Offer;
pub use put::UploadTarget;
pub use revoke::revoke;
pub use sources::Sources;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use fishplate_contract::DataRef;

    use super::*;
    use crate::{Meter, Settings};

    fn is_send<T: Send>(_: &T) {}

    #[tokio::test]
    async fn what_moves_data_may_be_sent_between_threads() {
        let (meter, reference) = (Arc::new(Meter::default()), DataRef::new("http://h/x"));
        let sources = Sources::new(&Settings::default()).unwrap();
        is_send(&sources.get(&reference, &DownloadTarget::Stdout, &meter));
        is_send(&UploadTarget::find("http://h", Settings::default()));
        is_send(&Offer::towards("http://h"));
        let putting = async {
            let target = UploadTarget::find("http://h", Settings::default()).await?;
            target.put(Path::new("x"), &meter).await
        };
        is_send(&putting);
    }
}
