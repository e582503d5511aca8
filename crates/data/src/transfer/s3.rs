//! Object stores that speak S3: `s3://NAME/KEY`, where NAME is a store of the operator's settings.
//!
//! Requests are signed by rusty-s3, which does no IO, and sent by hyper. An address holds no
//! credentials and names no host; what a caller may do with the operator's is said for each store.

mod requests;
mod upload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Digest;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use serde::Deserialize;
use url::Url;

use self::requests::{RangeReply, Requests, S3Response};
use super::source::file_name;
use super::{
    Delivery, EmptyBody, OpenedSource, ReadRequest, TransferBody, TransferError, TransferFuture,
    TransferSettings, Transport, Validator,
};
use crate::settings::{SecretSource, SettingsError, size};

/// Where a delivery's SHA-256 stands with the object, in hexadecimal digits: an object that was
/// sent in parts has no checksum of the whole.
const DIGEST: &str = "x-amz-meta-fishplate-sha256";

/// The smallest part that S3 takes, but for the last.
const LEAST_PART: u64 = 5 << 20;

/// What the operator says of one store (`[transfer.s3.NAME]`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Settings {
    /// Its URL, without the bucket.
    pub endpoint: String,
    /// The bucket, if it is not called as the store is.
    pub bucket: Option<String>,
    /// The region that requests are signed for.
    #[serde(default = "region")]
    pub region: String,
    /// The bucket stands in the path (`true`), or in the host's name.
    #[serde(default = "yes")]
    pub path_style: bool,
    /// The access key; without, requests are not signed.
    pub access_key: Option<SecretSource>,
    /// The secret key.
    pub secret_key: Option<SecretSource>,
    /// The session token of temporary credentials.
    pub token: Option<SecretSource>,
    /// The authorities to trust, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// What stands before every key: callers reach nothing else.
    #[serde(default)]
    pub prefix: String,
    /// Callers may read from it.
    #[serde(default = "yes")]
    pub read: bool,
    /// Callers may deliver to it, and so replace what is there.
    #[serde(default)]
    pub write: bool,
    /// A larger delivery is sent in parts of this size (more if they would be too many).
    #[serde(default = "part_size", deserialize_with = "size")]
    pub part_size: u64,
}

fn region() -> String {
    "us-east-1".to_owned()
}

fn yes() -> bool {
    true
}

fn part_size() -> u64 {
    16 << 20
}

/// The transport of `s3:`.
#[derive(Debug)]
pub struct S3 {
    stores: BTreeMap<String, Arc<ObjectStore>>,
}

/// A store of the settings.
#[derive(Debug)]
struct ObjectStore {
    prefix: String,
    read: bool,
    write: bool,
    part_size: u64,
    requests: Requests,
}

impl S3 {
    /// The stores of these settings.
    pub fn new(
        settings: &BTreeMap<String, S3Settings>,
        bounds: &TransferSettings,
    ) -> Result<Self, SettingsError> {
        let mut stores = BTreeMap::new();
        for (name, store) in settings {
            stores.insert(name.clone(), Arc::new(ObjectStore::new(name, store, bounds)?));
        }
        Ok(Self { stores })
    }

    /// The store and the key of an address, if a caller may do that there.
    fn place(
        &self,
        url: &Url,
        deliver: bool,
    ) -> Result<(&Arc<ObjectStore>, String), TransferError> {
        let unusable =
            |reason: &str| TransferError::Unsupported(format!("this address of S3: {reason}"));
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(unusable(
                "it is s3://STORE/KEY; credentials are the operator's (transfer.s3)",
            ));
        }
        let name = url.host_str().filter(|_| url.port().is_none());
        let name = name.ok_or_else(|| unusable("it is s3://STORE/KEY"))?;
        let forbidden = |rule| TransferError::Forbidden { address: format!("s3://{name}"), rule };
        let unknown = |rule| TransferError::Forbidden {
            address: format!("s3://{name}: this server knows no store {name}"),
            rule,
        };
        let store = self.stores.get(name).ok_or_else(|| unknown("transfer.s3"))?;
        match deliver {
            false if !store.read => return Err(forbidden("transfer.s3.read")),
            true if !store.write => return Err(forbidden("transfer.s3.write")),
            _ => {}
        }
        let path = url.path().strip_prefix('/').unwrap_or_default();
        let key = percent_decode_str(path).decode_utf8();
        let key = key.map_err(|_| unusable("its key is not UTF-8"))?.into_owned();
        if key.contains(|c: char| c.is_control()) || key.starts_with('/') {
            return Err(unusable("its key begins with / or has control characters"));
        }
        // S3 knows no directories, but there are stores on file systems.
        if key.split('/').any(|segment| segment == "." || segment == "..") {
            return Err(unusable("its key has a segment . or .."));
        }
        if key.is_empty() && !deliver {
            return Err(unusable("it has no key"));
        }
        Ok((store, format!("{}{key}", store.prefix)))
    }

    async fn read(&self, from: &Url, want: ReadRequest) -> Result<OpenedSource, TransferError> {
        let (store, key) = self.place(from, false)?;
        let requests = &store.requests;
        let asked = requests.get(&key, &want).await?;
        let answer = match asked {
            RangeReply::Answer(answer) => answer,
            RangeReply::Changed => requests.whole(&key).await?,
            // Nothing lies there: either all is here already, or it has become shorter.
            RangeReply::Beyond => {
                let head = requests.head(&key).await?;
                let (version, total) = (version(head.headers()), content_length(head.headers()));
                let nothing = total == Some(want.offset) || want.len == Some(0);
                if nothing && (want.version.is_none() || want.version == version) {
                    let digest = digest_in(head.headers());
                    let body = Box::new(EmptyBody);
                    return Ok(OpenedSource { offset: want.offset, total, version, digest, body });
                }
                requests.whole(&key).await?
            }
        };
        let (offset, total) = extent(&answer).ok_or_else(|| TransferError::Strange {
            peer: requests.peer().to_owned(),
            reason: "it does not say which bytes it sends".to_owned(),
        })?;
        let headers = answer.headers();
        let (version, digest) = (version(headers), digest_in(headers));
        let whole = answer.status() == StatusCode::OK;
        let digest = digest.or_else(|| checksum(headers).filter(|_| whole));
        let body = Box::new(S3Body {
            peer: requests.peer().to_owned(),
            stall_time: requests.stall_time(),
            body: answer.into_body(),
        });
        Ok(OpenedSource { offset, total, version, digest, body })
    }

    async fn store(&self, parcel: &Delivery, to: &Url) -> Result<(), TransferError> {
        let (store, mut key) = self.place(to, true)?;
        if key.is_empty() || key.ends_with('/') {
            key.push_str(&file_name(&parcel.name));
        }
        upload::upload(store, &key, parcel).await
    }
}

impl Transport for S3 {
    fn schemes(&self) -> &[&'static str] {
        &["s3"]
    }

    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        self.place(to, true).map(|_| ())
    }

    fn open<'t>(&'t self, from: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        Box::pin(self.read(from, want))
    }

    fn deliver<'t>(&'t self, parcel: &'t Delivery, to: &'t Url) -> TransferFuture<'t, Option<Url>> {
        Box::pin(async { self.store(parcel, to).await.map(|()| None) })
    }
}

impl ObjectStore {
    fn new(
        name: &str,
        settings: &S3Settings,
        bounds: &TransferSettings,
    ) -> Result<Self, SettingsError> {
        let key = format!("transfer.s3.{name}");
        let usable = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(usable) {
            return Err(SettingsError::unusable(key, "a store's name is of letters, digits, -_."));
        }
        if settings.part_size < LEAST_PART {
            let reason = "S3 takes no parts below 5MiB";
            return Err(SettingsError::unusable(format!("{key}.part_size"), reason));
        }
        let style = if settings.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = settings.bucket.clone().unwrap_or_else(|| name.to_owned());
        let wrong = |reason: String| SettingsError::unusable(format!("{key}.endpoint"), reason);
        let endpoint = Url::parse(&settings.endpoint).map_err(|error| wrong(error.to_string()))?;
        let bucket = Bucket::new(endpoint, style, bucket, settings.region.clone())
            .map_err(|error| wrong(error.to_string()))?;
        let credentials = match (&settings.access_key, &settings.secret_key) {
            (Some(access), Some(secret)) => {
                let access = access.read(&format!("{key}.access_key"))?;
                let secret = secret.read(&format!("{key}.secret_key"))?;
                let token =
                    settings.token.as_ref().map(|token| token.read(&format!("{key}.token")));
                Some(match token.transpose()? {
                    Some(token) => Credentials::new_with_token(
                        access.reveal(),
                        secret.reveal(),
                        token.reveal(),
                    ),
                    None => Credentials::new(access.reveal(), secret.reveal()),
                })
            }
            (None, None) if settings.token.is_none() => None,
            _ => {
                let reason = "access_key and secret_key belong together";
                return Err(SettingsError::unusable(key, reason));
            }
        };
        let ca_file = settings.ca_file.as_deref();
        let requests = Requests::new(name, bucket, credentials, ca_file, bounds)?;
        Ok(Self {
            prefix: settings.prefix.clone(),
            read: settings.read,
            write: settings.write,
            part_size: settings.part_size,
            requests,
        })
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn version(headers: &HeaderMap) -> Option<Validator> {
    text(headers, "etag").map(|tag| Validator(tag.to_owned()))
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-length")?.parse().ok()
}

/// The digest that a delivery of ours left.
fn digest_in(headers: &HeaderMap) -> Option<Digest> {
    Digest::from_sha256_hex(text(headers, DIGEST)?)
}

/// The store's own checksum of the whole object; that of one that was sent in parts is of its parts.
fn checksum(headers: &HeaderMap) -> Option<Digest> {
    let composite = text(headers, "x-amz-checksum-type") == Some("COMPOSITE");
    let checksum = text(headers, "x-amz-checksum-sha256").filter(|_| !composite)?;
    let bytes = base64_simd::STANDARD.decode_to_vec(checksum).ok()?;
    bytes.try_into().ok().map(Digest::Sha256)
}

/// First byte of an answer's body, and bytes of the whole.
fn extent(answer: &Response<S3Response>) -> Option<(u64, Option<u64>)> {
    if answer.status() == StatusCode::OK {
        return Some((0, content_length(answer.headers())));
    }
    let range = text(answer.headers(), header::CONTENT_RANGE.as_str())?;
    let (range, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.parse().ok()?, total.parse().ok()))
}

#[derive(Debug)]
struct S3Body {
    peer: String,
    stall_time: std::time::Duration,
    body: S3Response,
}

impl S3Body {
    async fn chunk(&mut self) -> Result<Option<Bytes>, TransferError> {
        let broken = |reason: String| TransferError::Broken { peer: self.peer.clone(), reason };
        loop {
            let frame = tokio::time::timeout(self.stall_time, self.body.frame()).await;
            match frame.map_err(|_| broken("it brought nothing for too long".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(broken(error.to_string())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {} // trailers say nothing
                },
            }
        }
    }
}

impl TransferBody for S3Body {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(self.chunk())
    }
}

#[cfg(test)]
mod tests;
