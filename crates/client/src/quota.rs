//! What the caller may have of a server, and has used.

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use crate::body::SegmentBody;
use crate::error::Error;
use crate::location;
use crate::settings::Settings;
use crate::transport::{Transport, no_soap};

/// Largest answer that is read.
const ANSWER_SIZE: usize = 1 << 20;

/// What the caller may have and has used, of the server at `url` or beside the service there: as the server tells it in
/// JSON. `None`: no server there tells it.
///
/// # Errors
/// See [`Error`]: the URL, the transport, an answer that is neither a success nor 404.
pub async fn of_caller(url: &str, settings: &Settings) -> Result<Option<Value>, Error> {
    let url = location::parse(url)?;
    let transport = Transport::new(settings, &url);
    let mut refused = None;
    for place in location::beside(&url, "quota")? {
        let mut request = Request::new(SegmentBody::empty());
        *request.uri_mut() = place.clone();
        let accept = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, accept);
        let answer = transport.send(request).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => continue,
            status if status.is_success() => {}
            _ => {
                refused.get_or_insert(no_soap(&place, answer).await);
                continue;
            }
        }
        let body = Limited::new(answer.into_body(), ANSWER_SIZE).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        // Another server may have a page of that name.
        if let Ok(told @ Value::Object(_)) = serde_json::from_slice(&body) {
            return Ok(Some(told));
        }
    }
    refused.map_or(Ok(None), Err)
}
