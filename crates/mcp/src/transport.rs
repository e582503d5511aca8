//! The two transports: a request of HTTP, answered alone (no session is kept), and standard input and output.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};

use crate::handler::Handler;

/// How often a stream on which nothing is told shows that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The body of an answer: JSON, or events as they come.
pub type AnswerBody = BoxBody<Bytes, Infallible>;

/// Answers a request whose body was read, and whose host and origin were looked at, by whoever has the connection. A request
/// whose answer is dropped is cancelled.
pub async fn respond(handler: Handler, request: Request<Bytes>) -> Response<AnswerBody> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(Some(KEEP_ALIVE))
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(request.body().len().max(1));
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(handler.clone()), sessions, config);
    service.handle(request.map(Full::new)).await
}

/// Why standard input and output served nobody.
#[derive(Debug, thiserror::Error)]
#[error("no client of MCP speaks on standard input")]
pub struct StdioError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// Answers what comes on standard input, until it ends. What was begun goes on at its server.
///
/// # Errors
/// If what comes first is no request of the protocol.
pub async fn serve_stdio(handler: Handler) -> Result<(), StdioError> {
    let running = handler.serve(stdio()).await.map_err(|error| StdioError(error.into()))?;
    running.waiting().await.map(drop).map_err(|error| StdioError(error.into()))
}
