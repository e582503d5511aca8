//! Bodies in JSON, which are read as a whole: within a limit, and within the memory of all messages.

use std::fmt::Display;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode};
use hyper::body::Body;

use crate::host::Host;
use crate::http::body::{Incoming, ReadError};
use crate::memory::{MemoryReservation, SMALL};

/// All of a body, of which a limit allows so many bytes. Reading it takes `growth` times as much memory.
///
/// # Errors
/// `MessageTooLarge`, with the limit; `TimedOut`, if it comes too slowly or there is no memory; `MalformedMessage`, if it breaks
/// off.
pub(crate) async fn read<B>(
    host: &Host,
    (limit, most): (&str, u64),
    growth: u64,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<Vec<u8>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let too_large = || {
        let what = format!(
            "a request in JSON has at most {most} bytes here; give large inputs by reference ({{\"href\": URL}}): \
             {}/data/ takes uploads",
            host.settings.public_url
        );
        Fault::new(FaultCode::MessageTooLarge, what).limit(limit, format!("{most} bytes"))
    };
    if body.told().is_some_and(|told| told > most) {
        return Err(too_large());
    }
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
        let held = (whole.len() + chunk.len()) as u64;
        if held > most {
            return Err(too_large());
        }
        if held.saturating_mul(growth) > SMALL {
            host.memory.wait_to_read(memory, held * growth, host.settings.body_stall).await?;
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole)
}
