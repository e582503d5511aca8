//! A request, and its answer.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Fault, Principal};
use fishplate_mcp::{Handler, Settings, transport};
use hyper::body::Body;
use hyper::header;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::json;
use tokio::time::timeout;

use super::services::HostServices;
use crate::audit::CALLER;
use crate::faces::whole_body;
use crate::host::Host;
use crate::http::body::Incoming;
use crate::http::{HttpBody, HttpResponse, put, reply_with};
use crate::memory::MemoryReservation;
use crate::status::{Protocol, status};

/// What a message may hold in memory while it is read, as a multiple of its length: two bytes of a list of numbers become two
/// nodes of a tree, of 32 bytes each, one while it is not known yet what is asked for.
const GROWTH: u64 = 64;

/// A message that was not answered by then is not read any more.
const PARSED: Duration = Duration::from_secs(1);

/// The error of JSON-RPC for a message that is not taken.
const INVALID_REQUEST: i32 = -32600;

/// Answers a request at `PUBLIC/mcp`.
pub(crate) async fn answer<B>(
    host: &Arc<Host>,
    asked: Parts,
    mut body: Incoming<B>,
    caller: &Principal,
) -> HttpResponse
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let mut memory = MemoryReservation::default();
    let mut reply = match read(host, &asked, &mut body, &mut memory).await {
        Ok(message) => {
            let held = (message.len() as u64).saturating_mul(2);
            let services = HostServices {
                host: Arc::clone(host),
                caller: caller.clone(),
                address: CALLER.try_with(|address| *address).ok(),
            };
            let handler = Handler::new(Arc::new(services), None, settings(host));
            let request = Request::from_parts(asked, message);
            let mut answering = Box::pin(transport::respond(handler, request));
            let reply = if let Ok(reply) = timeout(PARSED, &mut answering).await {
                reply
            } else {
                // It waits for its job: its tree is gone, its arguments stay.
                memory.shrink(held);
                answering.await
            };
            reply.map(HttpBody::of_mcp)
        }
        Err(fault) => refused(&fault),
    };
    for (name, value) in
        [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::CACHE_CONTROL, "no-store")]
    {
        put(&mut reply, name, value);
    }
    body.drain_before(&mut reply).await;
    reply.body_mut().keep(memory);
    reply
}

fn settings(host: &Host) -> Settings {
    let own = &host.settings;
    Settings {
        wait: own.mcp_wait,
        inline_size: own.mcp_inline_size,
        read_size: own.mcp_read_size,
        retention: Some(host.engine.settings().retention),
    }
}

async fn read<B>(
    host: &Host,
    asked: &Parts,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    if let Some(fault) = crate::http::content_coding(&asked.headers) {
        return Err(fault);
    }
    let most = ("mcp_size", host.settings.mcp_size);
    whole_body::read(host, most, GROWTH, body, memory).await.map(Bytes::from)
}

/// The answer to a request that is not taken, whose ID is not known.
pub(crate) fn refused(fault: &Fault) -> HttpResponse {
    let mut error = json!({
        "code": INVALID_REQUEST,
        "message": fault.message,
        "data": { "code": fault.code.name() },
    });
    if let Some(limit) = &fault.limit {
        error["data"]["limit"] = json!({ "name": limit.name, "value": limit.value });
    }
    let status = StatusCode::from_u16(status(Protocol::Http, fault.code))
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let message = json!({ "jsonrpc": "2.0", "error": error }).to_string();
    reply_with(status, &[(header::CONTENT_TYPE, "application/json")], HttpBody::bytes(message))
}
