//! Single requests to a store.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited};
use rusty_s3::actions::{
    AbortMultipartUpload, CreateMultipartUpload, CreateMultipartUploadResponse, GetObject,
    HeadObject, PutObject, UploadPart,
};
use rusty_s3::{Bucket, Credentials, S3Action};

use super::super::source::UploadBody;
use super::super::{ReadRequest, TransferError, TransferSettings};
use super::text;
use crate::Progress;
use crate::http::tls::Trust;
use crate::http::{Client, ResponseBody, SystemAddresses};
use crate::settings::SettingsError;

/// How long a signature holds: it has to arrive within it, the body need not.
const SIGNATURE_LIFE: Duration = Duration::from_secs(15 * 60);

/// Bytes of an answer that is no object.
const ANSWER_SIZE: usize = 256 << 10;

type RequestBody = Either<UploadBody, Full<Bytes>>;

/// What comes of an answer.
pub(super) type S3Response = ResponseBody<RequestBody>;

/// A header that is signed.
pub(super) type SignedHeader = (&'static str, String);

pub(super) struct Requests {
    peer: String,
    bucket: Bucket,
    credentials: Option<Credentials>,
    client: Client<RequestBody>,
    stall_time: Duration,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// How a conditional request for a range was answered.
pub(super) enum RangeReply {
    /// With that range, or with all.
    Answer(Response<S3Response>),
    /// The object is another one now.
    Changed,
    /// The object ends before.
    Beyond,
}

impl Requests {
    pub(super) fn new(
        name: &str,
        bucket: Bucket,
        credentials: Option<Credentials>,
        ca_file: Option<&Path>,
        bounds: &TransferSettings,
    ) -> Result<Self, SettingsError> {
        let trust = Trust::of(ca_file.map(Path::to_owned));
        let client = Client::new(Arc::new(SystemAddresses), trust, bounds.connect, bounds.interim);
        if bucket.base_url().scheme() == "https" {
            let key = format!("transfer.s3.{name}");
            client.check_tls().map_err(|error| SettingsError::unusable(key, error))?;
        }
        let (peer, stall_time) = (format!("s3://{name}"), bounds.stall);
        Ok(Self { peer, bucket, credentials, client, stall_time })
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    pub(super) fn stall_time(&self) -> Duration {
        self.stall_time
    }

    /// What is wanted of an object.
    pub(super) async fn get(
        &self,
        key: &str,
        want: &ReadRequest,
    ) -> Result<RangeReply, TransferError> {
        let mut plain = Vec::new();
        match want.len {
            Some(0) => return Ok(RangeReply::Beyond),
            Some(len) => {
                let last = want.offset.saturating_add(len - 1);
                plain.push((header::RANGE, format!("bytes={}-{last}", want.offset)));
            }
            None if want.offset > 0 => {
                plain.push((header::RANGE, format!("bytes={}-", want.offset)));
            }
            None => {}
        }
        if let Some(version) = want.version.as_ref().filter(|_| !plain.is_empty()) {
            plain.push((header::IF_MATCH, version.0.clone()));
        }
        let action = GetObject::new(&self.bucket, self.credentials.as_ref(), key);
        let signed = [("x-amz-checksum-mode", "ENABLED".to_owned())];
        let mut request = self.request(Method::GET, action, &signed, empty());
        for (name, value) in plain {
            if let Ok(value) = value.parse() {
                request.headers_mut().insert(name, value);
            }
        }
        let answer = self.send(request, None).await?;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(RangeReply::Answer(answer)),
            StatusCode::PRECONDITION_FAILED => Ok(RangeReply::Changed),
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(RangeReply::Beyond),
            _ => Err(self.refusal(answer).await),
        }
    }

    /// All of an object.
    pub(super) async fn whole(&self, key: &str) -> Result<Response<S3Response>, TransferError> {
        match self.get(key, &ReadRequest::default()).await? {
            RangeReply::Answer(answer) => Ok(answer),
            RangeReply::Changed | RangeReply::Beyond => Err(TransferError::Strange {
                peer: self.peer.clone(),
                reason: "it answers a condition that was not sent".to_owned(),
            }),
        }
    }

    /// What is told of an object.
    pub(super) async fn head(&self, key: &str) -> Result<Response<S3Response>, TransferError> {
        let action = HeadObject::new(&self.bucket, self.credentials.as_ref(), key);
        let request = self.request(Method::HEAD, action, &[], empty());
        self.answer(request, None).await
    }

    /// Begins an object of several parts; gives its upload's ID.
    pub(super) async fn begin(
        &self,
        key: &str,
        headers: &[SignedHeader],
    ) -> Result<String, TransferError> {
        let action = CreateMultipartUpload::new(&self.bucket, self.credentials.as_ref(), key);
        let request = self.request(Method::POST, action, headers, empty());
        let answer = self.answer(request, None).await?;
        let answer = self.drain(answer).await?;
        match CreateMultipartUpload::parse_response(&answer) {
            Ok(begun) => Ok(CreateMultipartUploadResponse::upload_id(&begun).to_owned()),
            Err(error) => Err(self.strange(error)),
        }
    }

    /// Writes an object, or a part of it (upload and number); gives its tag.
    pub(super) async fn write(
        &self,
        key: &str,
        part: Option<(&str, u16)>,
        headers: &[SignedHeader],
        body: UploadBody,
        sent: &Progress,
    ) -> Result<String, TransferError> {
        let (credentials, body) = (self.credentials.as_ref(), Either::Left(body));
        let request = match part {
            None => {
                let action = PutObject::new(&self.bucket, credentials, key);
                self.request(Method::PUT, action, headers, body)
            }
            Some((upload, number)) => {
                let action = UploadPart::new(&self.bucket, credentials, key, number, upload);
                self.request(Method::PUT, action, headers, body)
            }
        };
        let answer = self.answer(request, Some(sent)).await?;
        let tag = text(answer.headers(), "etag").map(str::to_owned);
        self.drain(answer).await?;
        tag.ok_or_else(|| self.strange("what was written has no ETag"))
    }

    /// Joins the parts that `body` lists.
    pub(super) async fn complete(
        &self,
        key: &str,
        upload: &str,
        body: String,
    ) -> Result<(), TransferError> {
        let credentials = self.credentials.as_ref();
        // Its own body knows no checksums of parts.
        let etags = std::iter::empty::<&str>();
        let action = self.bucket.complete_multipart_upload(credentials, key, upload, etags);
        let body = Either::Right(Full::new(Bytes::from(body)));
        let request = self.request(Method::POST, action, &[], body);
        let answer = self.answer(request, None).await?;
        // It may fail after the status was sent.
        let answer = self.drain(answer).await?;
        match error_code(&answer) {
            Some(code) => Err(TransferError::Busy {
                peer: self.peer.clone(),
                answer: code.to_owned(),
                retry_after: None,
            }),
            None => Ok(()),
        }
    }

    /// Gives an upload up, so that its parts are not kept.
    pub(super) async fn abort(&self, key: &str, upload: &str) -> Result<(), TransferError> {
        let credentials = self.credentials.as_ref();
        let action = AbortMultipartUpload::new(&self.bucket, credentials, key, upload);
        let request = self.request(Method::DELETE, action, &[], empty());
        self.answer(request, None).await.map(|_| ())
    }

    fn request<'a>(
        &'a self,
        method: Method,
        mut action: impl S3Action<'a>,
        signed: &[SignedHeader],
        body: RequestBody,
    ) -> Request<RequestBody> {
        for (name, value) in signed {
            action.headers_mut().insert(*name, value.clone());
        }
        let url = action.sign(SIGNATURE_LIFE);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        // A signed URL is one of hyper's; else the store refuses the address that is left.
        *request.uri_mut() = url.as_str().parse().unwrap_or_default();
        for (name, value) in signed {
            if let Ok(value) = value.parse() {
                request.headers_mut().insert(*name, value);
            }
        }
        request
    }

    /// Sends a request whose answer has to be a success.
    async fn answer(
        &self,
        request: Request<RequestBody>,
        sent: Option<&Progress>,
    ) -> Result<Response<S3Response>, TransferError> {
        let answer = self.send(request, sent).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(answer).await) }
    }

    /// Sends a request. It may take as long as its body moves on.
    async fn send(
        &self,
        request: Request<RequestBody>,
        sent: Option<&Progress>,
    ) -> Result<Response<S3Response>, TransferError> {
        let answer = while_it_moves(self.client.send(request), sent, self.stall_time).await;
        match answer {
            None => Err(self.broken(format!("it did not answer within {:?}", self.stall_time))),
            Some(answer) => {
                answer.map_err(|failure| TransferError::unanswered(self.peer.clone(), failure))
            }
        }
    }

    /// Reads a short answer.
    async fn drain(&self, answer: Response<S3Response>) -> Result<String, TransferError> {
        let body = Limited::new(answer.into_body(), ANSWER_SIZE).collect();
        let body = tokio::time::timeout(self.stall_time, body).await;
        let body = body.map_err(|_| self.broken("its answer did not end".to_owned()))?;
        let bytes = body.map_err(|error| self.broken(error.to_string()))?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The error that an answer stands for.
    async fn refusal(&self, answer: Response<S3Response>) -> TransferError {
        let (status, peer) = (answer.status(), self.peer.clone());
        let retry_after = text(answer.headers(), "retry-after")
            .and_then(|seconds| seconds.parse().ok())
            .map(Duration::from_secs);
        let body = self.drain(answer).await.unwrap_or_default();
        let code = error_code(&body).map(|code| format!(" {code}")).unwrap_or_default();
        let answer = format!("{}{code}", status.as_u16());
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return TransferError::Busy { peer, answer, retry_after };
        }
        TransferError::Refused { peer, answer }
    }

    fn broken(&self, reason: String) -> TransferError {
        TransferError::Broken { peer: self.peer.clone(), reason }
    }

    fn strange(&self, reason: impl fmt::Display) -> TransferError {
        TransferError::Strange { peer: self.peer.clone(), reason: reason.to_string() }
    }
}

fn empty() -> RequestBody {
    Either::Right(Full::default())
}

/// Waits as long as `sent` grows, and then `stall` more; `None` if that was in vain.
async fn while_it_moves<T>(
    work: impl Future<Output = T>,
    sent: Option<&Progress>,
    stall: Duration,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut seen = None;
    loop {
        if let Ok(done) = tokio::time::timeout(stall, &mut work).await {
            return Some(done);
        }
        let now = sent.map(Progress::bytes);
        if now == seen || now.is_none() {
            return None;
        }
        seen = now;
    }
}

/// The `<Code>` of an error's XML.
fn error_code(body: &str) -> Option<&str> {
    let (_, error) = body.split_once("<Error")?;
    let (_, code) = error.split_once("<Code>")?;
    let (code, _) = code.split_once("</Code>")?;
    let plain =
        !code.is_empty() && code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then_some(code)
}
