//! Files that agents send: in parts, in base64, bounded.

use std::io::{self, Write};
use std::path::Path;

use base64_simd::STANDARD;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::Outbox;
use super::message::{AgentMessage, FileKind};

/// Bytes of a part.
const PART: usize = 96 << 10;

/// Sends a file, or its last bytes if it is longer than that. A file that is not there has none.
pub(super) async fn send(path: &Path, of: &FileKind, last: u64, outbox: &Outbox) -> io::Result<()> {
    let mut file = match tokio::fs::File::open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let length = file.metadata().await?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(last))).await?;
    let mut sent = 0;
    let mut part = vec![0; PART];
    loop {
        let read = file.read(&mut part).await?;
        sent += read as u64;
        // It may grow meanwhile.
        if read == 0 || sent > last {
            return Ok(());
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
