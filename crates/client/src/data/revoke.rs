//! A reference made good for nothing.

use std::sync::Arc;

use fishplate_data::transfer::TransferError;
use http::{HeaderMap, Method};

use crate::body::SegmentBody;
use crate::data::upload;
use crate::error::Error;
use crate::location;
use crate::meter::Meter;
use crate::retry::retrying;
use crate::settings::Settings;
use crate::transport::Transport;

/// Revokes a reference at its server by `DELETE`: nobody gets its data by it any more.
///
/// # Errors
/// See [`Error`]; [`TransferError::Refused`] if it has expired or was revoked before.
pub async fn revoke(url: &str, settings: &Settings) -> Result<(), Error> {
    let url = location::parse(url)?;
    let transport = Transport::new(settings, &url);
    let meter = Arc::new(Meter::default());
    let revoking = retrying(settings.retry, &meter, || {
        let (headers, body) = (HeaderMap::new(), SegmentBody::empty());
        upload::sent(&transport, Method::DELETE, &url, headers, body)
    });
    match revoking.await {
        Ok(_) => Ok(()),
        Err(Error::Http { status: status @ (404 | 410), .. }) => {
            let answer = format!("{status}: it knows no such reference (any more)");
            let peer = format!(
                "{}://{}",
                url.scheme_str().unwrap_or("http"),
                url.authority().map_or("", |at| at.as_str())
            );
            Err(TransferError::Refused { peer, answer }.into())
        }
        Err(error) => Err(error),
    }
}
