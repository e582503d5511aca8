//! The services of a server, as its index lists them.

use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::settings::Settings;
use crate::transport::{Transport, no_soap};

/// Largest index that is read.
const INDEX_SIZE: usize = 4 << 20;

/// The services of a server of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The server's address.
    pub server: String,
    /// Names of its services.
    pub services: Vec<String>,
}

/// The services beside the address `url`, or below it if it is the server's own. `None` if nobody
/// there lists any.
///
/// # Errors
/// See [`Error`]: the URL, the transport, an answer that is neither a success nor 404.
pub async fn list(url: &str, settings: &Settings) -> Result<Option<Listing>, Error> {
    let url = location::parse(url)?;
    let transport = Transport::new(settings, &url);
    let mut refused = None;
    for server in location::beside(&url, "")? {
        match listed_at(&transport, &server).await {
            Ok(Some(services)) => {
                return Ok(Some(Listing { server: server.to_string(), services }));
            }
            Ok(None) => {}
            // Perhaps only there.
            Err(error @ (Error::Http { .. } | Error::Fault(_))) => {
                refused.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    refused.map_or(Ok(None), Err)
}

async fn listed_at(transport: &Transport, server: &Uri) -> Result<Option<Vec<String>>, Error> {
    let mut request = Request::new(SegmentBody::empty());
    *request.uri_mut() = server.clone();
    let accept = header::HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, accept);
    let answer = transport.send(request).await?;
    match answer.status() {
        StatusCode::NOT_FOUND => return Ok(None),
        status if status.is_success() => {}
        _ => return Err(no_soap(server, answer).await),
    }
    let body = Limited::new(answer.into_body(), INDEX_SIZE).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = |service: &Value| service["name"].as_str().map(str::to_owned);
    Ok(told["services"].as_array().and_then(|services| services.iter().map(name).collect()))
}
