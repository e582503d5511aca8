//! Deliveries: a small one in one request, a larger one in parts.
//!
//! A part is read twice, for its checksum and to be sent, and never held: what a delivery takes of
//! memory does not depend on its size.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64_simd::STANDARD;
use fishplate_contract::{Digest, Payload};
use ring::digest::{Context, SHA256};
use tokio::task::JoinSet;

use super::super::source::PayloadSource;
use super::super::{Delivery, TransferError};
use super::requests::SignedHeader;
use super::{DIGEST, ObjectStore};
use crate::Progress;

/// Parts that are sent at once: a long way is filled better by several connections.
const PARTS_AT_ONCE: usize = 4;

/// The most parts that S3 takes.
const PARTS: u64 = 10_000;

/// How often a part is sent before the delivery fails.
const TRIES: u32 = 4;

/// The pause after a part's first failure; it doubles.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) async fn upload(
    store: &Arc<ObjectStore>,
    key: &str,
    parcel: &Delivery,
) -> Result<(), TransferError> {
    let len = PayloadSource::len(&parcel.payload)?;
    let mut headers: Vec<SignedHeader> = Vec::new();
    if printable(&parcel.media_type) {
        headers.push(("content-type", parcel.media_type.clone()));
    }
    if let Some(digest @ Digest::Sha256(_)) = parcel.digest {
        headers.push((DIGEST, digest.hex()));
    }
    let part_size = store.part_size.max(len.div_ceil(PARTS));
    if len <= part_size {
        let sender = PartUpload::new(store, key, parcel, (0, len));
        headers.push(checksum_header(&checksum(&parcel.payload, 0, len).await?));
        return sender.write(None, &headers).await.map(|_| ());
    }
    headers.push(("x-amz-checksum-algorithm", "SHA256".to_owned()));
    let upload = store.requests.begin(key, &headers).await?;
    let mut unfinished =
        UploadGuard { store: Arc::clone(store), key: key.to_owned(), upload, done: false };
    let parts = send_parts(store, key, &unfinished.upload, parcel, (len, part_size)).await?;
    store.requests.complete(key, &unfinished.upload, listing(&parts)).await?;
    unfinished.done = true;
    Ok(())
}

/// A part that is there.
struct UploadedPart {
    number: u16,
    tag: String,
    checksum: String,
}

async fn send_parts(
    store: &Arc<ObjectStore>,
    key: &str,
    upload: &str,
    parcel: &Delivery,
    (len, part_size): (u64, u64),
) -> Result<Vec<UploadedPart>, TransferError> {
    let (mut sending, mut parts) = (JoinSet::new(), Vec::new());
    let offsets = (0..).map(|n| n * part_size).take_while(|offset| *offset < len);
    for (number, offset) in (1_u16..).zip(offsets) {
        if sending.len() == PARTS_AT_ONCE {
            parts.extend(joined(&mut sending).await?);
        }
        let sender = PartUpload::new(store, key, parcel, (offset, part_size.min(len - offset)));
        let upload = upload.to_owned();
        sending.spawn(async move { sender.part(&upload, number).await });
    }
    while let Some(part) = joined(&mut sending).await? {
        parts.push(part);
    }
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

async fn joined(
    sending: &mut JoinSet<Result<UploadedPart, TransferError>>,
) -> Result<Option<UploadedPart>, TransferError> {
    match sending.join_next().await {
        None => Ok(None),
        Some(Ok(part)) => part.map(Some),
        Some(Err(ended)) => Err(TransferError::Local {
            what: "sending a part",
            source: std::io::Error::other(ended),
        }),
    }
}

/// One piece on its way.
struct PartUpload {
    store: Arc<ObjectStore>,
    key: String,
    payload: Payload,
    offset: u64,
    len: u64,
    progress: Progress,
    /// What was told of it: a second try tells only what is more.
    told: Arc<AtomicU64>,
}

impl PartUpload {
    fn new(
        store: &Arc<ObjectStore>,
        key: &str,
        parcel: &Delivery,
        (offset, len): (u64, u64),
    ) -> Self {
        Self {
            store: Arc::clone(store),
            key: key.to_owned(),
            payload: parcel.payload.clone(),
            offset,
            len,
            progress: parcel.progress.clone(),
            told: Arc::default(),
        }
    }

    async fn part(&self, upload: &str, number: u16) -> Result<UploadedPart, TransferError> {
        let checksum = checksum(&self.payload, self.offset, self.len).await?;
        let headers = [checksum_header(&checksum)];
        let tag = self.write(Some((upload, number)), &headers).await?;
        Ok(UploadedPart { number, tag, checksum })
    }

    /// Sends it, and again if the connection broke or the store was busy.
    async fn write(
        &self,
        part: Option<(&str, u16)>,
        headers: &[SignedHeader],
    ) -> Result<String, TransferError> {
        let mut pause = PAUSE;
        for left in (0..TRIES).rev() {
            let source = PayloadSource::open(&self.payload, self.offset, Some(self.len)).await?;
            let (sent, told, progress) =
                (Progress::default(), Arc::clone(&self.told), self.progress.clone());
            let counter = sent.clone();
            let body = source.into_body(self.len, move |bytes| {
                counter.add(bytes);
                let so_far = counter.bytes();
                let before = told.fetch_max(so_far, Ordering::Relaxed);
                progress.add(so_far.saturating_sub(before));
            });
            match self.store.requests.write(&self.key, part, headers, body, &sent).await {
                Err(TransferError::Broken { .. } | TransferError::Busy { .. }) if left > 0 => {}
                other => return other,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the last try returns")
    }
}

/// Gives an upload up unless it was completed: its parts would be kept, and paid for.
struct UploadGuard {
    store: Arc<ObjectStore>,
    key: String,
    upload: String,
    done: bool,
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (store, key, upload) = (
            Arc::clone(&self.store),
            std::mem::take(&mut self.key),
            std::mem::take(&mut self.upload),
        );
        tokio::spawn(async move {
            if let Err(error) = store.requests.abort(&key, &upload).await {
                tracing::warn!(%error, "an unfinished upload is left at {}", store.requests.peer());
            }
        });
    }
}

async fn checksum(payload: &Payload, offset: u64, len: u64) -> Result<String, TransferError> {
    let mut source = PayloadSource::open(payload, offset, Some(len)).await?;
    let mut context = Context::new(&SHA256);
    while let Some(chunk) = source.next().await? {
        context.update(&chunk);
    }
    Ok(STANDARD.encode_to_string(context.finish()))
}

fn checksum_header(checksum: &str) -> SignedHeader {
    ("x-amz-checksum-sha256", checksum.to_owned())
}

fn printable(media_type: &str) -> bool {
    !media_type.is_empty() && media_type.chars().all(|c| c == ' ' || c.is_ascii_graphic())
}

/// The body of the request that joins the parts.
fn listing(parts: &[UploadedPart]) -> String {
    let mut body = String::from("<CompleteMultipartUpload>");
    for UploadedPart { number, tag, checksum } in parts {
        let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(
            body,
            "<Part><ChecksumSHA256>{checksum}</ChecksumSHA256><ETag>{tag}</ETag>\
             <PartNumber>{number}</PartNumber></Part>"
        );
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}
