//! Files that agents send: in parts, in base64, bounded.

use std::io::{self, Write};
use std::path::Path;

use base64_simd::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Outbox;
use super::message::{AgentMessage, FileKind};

/// Bytes of a part.
const PART: usize = 96 << 10;

/// Sends a file, or its last bytes if it is longer than that. A file that is not there has none.
pub(super) async fn send(path: &Path, of: &FileKind, last: u64, outbox: &Outbox) -> io::Result<()> {
    use tokio::io::AsyncSeekExt;
    let mut file = match tokio::fs::File::open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let length = file.metadata().await?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(last))).await?;
    send_all(file, of, last, outbox).await.map(drop)
}

/// Sends what is read, but no more than that; whether that was all.
pub(super) async fn send_all<R: AsyncRead + Unpin>(
    mut from: R,
    of: &FileKind,
    most: u64,
    outbox: &Outbox,
) -> io::Result<bool> {
    let mut sent = 0;
    let mut part = vec![0; PART];
    loop {
        let read = from.read(&mut part).await?;
        sent += read as u64;
        if read == 0 {
            return Ok(true);
        }
        if sent > most {
            return Ok(false);
        }
        let bytes = STANDARD.encode_to_string(&part[..read]);
        let message = AgentMessage::Part { of: of.clone(), bytes };
        outbox.send(message).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
    }
}

/// Adds a part to a file.
pub(crate) fn receive(bytes: &str, to: &mut impl Write) -> io::Result<u64> {
    let bytes = STANDARD.decode_to_vec(bytes).map_err(io::Error::other)?;
    to.write_all(&bytes)?;
    Ok(bytes.len() as u64)
}
