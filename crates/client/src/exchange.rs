//! One request and its answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{Fault, FaultCode, Parameter};
use fishplate_data::stream::{Writer, pipe};
use fishplate_data::transfer::root_cause;
use fishplate_wire::{
    Body, ExpectedTable, MessageHead, Packaging, PackedMessage, SoapReply, UnpackedMessage,
    Unpacker, WireLimits, bind_reply,
};
use http::{Request, Response, Uri, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::body::SegmentBody;
use crate::error::Error;
use crate::meter::Meter;
use crate::service::limited;
use crate::spool::Spool;
use crate::transport::{IncomingBody, Transport, no_soap};

/// All that one try needs; nothing is used up by it.
pub(crate) struct Exchange<'a> {
    pub(crate) transport: &'a Transport,
    pub(crate) url: &'a Uri,
    pub(crate) message: &'a PackedMessage,
    /// Value of `Accept`.
    pub(crate) accept: &'a str,
    /// What the answer should hold, and its values.
    pub(crate) expected: &'a Arc<ExpectedTable>,
    pub(crate) outputs: &'a [Parameter],
    pub(crate) limits: &'a WireLimits,
    pub(crate) spool_dir: Option<&'a Path>,
    pub(crate) meter: &'a Arc<Meter>,
    /// An answer whose length is known is not streamed.
    pub(crate) stored_whole: bool,
    /// How long each chunk of a streamed output may take.
    pub(crate) stall: Option<Duration>,
}

impl Exchange<'_> {
    /// Sends the message and reads the answer, large values into files.
    pub(crate) async fn run(&self) -> Result<SoapReply, Error> {
        self.meter.start(self.message.len);
        let (body, failure) = SegmentBody::of(self.message, Some(Arc::clone(self.meter)));
        let mut request = Request::post(self.url.clone())
            .header(header::CONTENT_TYPE, &*self.message.content_type)
            .header(header::ACCEPT, self.accept);
        if let Some(action) = &self.message.soap_action {
            request = request.header("SOAPAction", action);
        }
        let request = request.body(body).map_err(|error| Error::BadUrl {
            url: self.url.to_string(),
            reason: error.to_string(),
        })?;
        let answer = self.transport.send(request).await;
        let answer = answer.map_err(|error| failure.take().unwrap_or(error))?;
        self.receive(answer).await
    }

    async fn receive(&self, answer: Response<IncomingBody>) -> Result<SoapReply, Error> {
        let status = answer.status();
        let content_type = answer.headers().get(header::CONTENT_TYPE);
        let content_type = content_type
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .unwrap_or_default();
        if Packaging::of_content_type(&content_type).is_none() {
            return Err(no_soap(self.url, answer).await);
        }
        self.meter.expect(answer.body().size_hint().exact().unwrap_or(0));
        let unpacked = match self.unpack(&content_type, answer.into_body()).await {
            Ok(unpacked) => unpacked,
            // A gateway's page in XML, say: its status tells more than what is wrong with it.
            Err(UnpackError::Answer(_)) if !status.is_success() => {
                return Err(Error::Http {
                    url: self.url.to_string(),
                    status: status.as_u16(),
                    line: String::new(),
                });
            }
            Err(UnpackError::Answer(fault)) => return Err(self.bad_answer(fault)),
            Err(UnpackError::Other(error)) => return Err(error),
        };
        bound(unpacked, self.outputs, self.url)
    }

    async fn unpack(
        &self,
        content_type: &str,
        body: IncomingBody,
    ) -> Result<UnpackedMessage, UnpackError> {
        let head = MessageHead { content_type, ..MessageHead::default() };
        let expected = Box::new(Arc::clone(self.expected));
        let mut unpacker = Unpacker::new(&head, expected, self.limits)?.contiguous();
        if !(self.stored_whole && body.size_hint().exact().is_some()) {
            unpacker = unpacker.streaming();
        }
        let mut arriving = Arriving {
            body,
            unpacker,
            spool: Spool::new(self.spool_dir),
            url: self.url.clone(),
            meter: Arc::clone(self.meter),
            stall: self.stall,
        };
        while arriving.next().await? {
            let mut to = None;
            let stream = || {
                let (writer, stream) = pipe();
                to = Some(writer);
                stream
            };
            let ahead = arriving.unpacker.ahead(stream);
            if let (Some(unpacked), Some(writer)) = (ahead, to) {
                tokio::spawn(arriving.pass_on(writer, self.outputs.to_vec()));
                return Ok(unpacked);
            }
        }
        arriving.finish().await
    }

    fn bad_answer(&self, fault: Fault) -> Error {
        bad_answer(self.url, fault)
    }
}

/// An answer as it is read.
struct Arriving {
    body: IncomingBody,
    unpacker: Unpacker,
    spool: Spool,
    url: Uri,
    meter: Arc<Meter>,
    stall: Option<Duration>,
}

impl Arriving {
    /// Reads some of it; whether there was more.
    async fn next(&mut self) -> Result<bool, UnpackError> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        let frame = frame.map_err(|error| Error::ConnectionLost {
            url: self.url.to_string(),
            reason: root_cause(&error),
        })?;
        if let Ok(chunk) = frame.into_data() {
            self.meter.add_received(chunk.len());
            self.unpacker.feed(chunk, &mut self.spool)?;
            self.spool.flush().await?;
        }
        Ok(true)
    }

    async fn finish(&mut self) -> Result<UnpackedMessage, UnpackError> {
        let unpacked = self.unpacker.finish(&mut self.spool)?;
        self.spool.flush().await?;
        self.spool.finish().await?;
        Ok(unpacked)
    }

    /// Gives an output to its reader as it comes; it has ended when the answer has, and nothing is wrong
    /// with that.
    async fn pass_on(mut self, mut writer: Writer, outputs: Vec<Parameter>) {
        let (stall, url) = (self.stall, self.url.clone());
        let passed = async {
            let mut more = true;
            loop {
                for chunk in self.unpacker.take_streamed() {
                    if writer.send(chunk).await.is_err() {
                        return Ok(());
                    }
                }
                if !more {
                    let unpacked = self.finish().await?;
                    return bound(unpacked, &outputs, &self.url)
                        .map(drop)
                        .map_err(UnpackError::Other);
                }
                tokio::select! {
                    () = writer.closed() => return Ok(()),
                    next = limited(stall, &url, self.next()) => more = next?,
                }
            }
        };
        let outcome = passed.await.map_err(|error: UnpackError| match error {
            UnpackError::Answer(fault) => broken_off(&bad_answer(&self.url, fault)),
            UnpackError::Other(error) => broken_off(&error),
        });
        writer.finished(outcome).await;
    }
}

/// The fault with which an output ends that was not whole.
fn broken_off(error: &Error) -> Fault {
    Fault::new(FaultCode::TransferFailed, error.to_string())
}

fn bound(unpacked: UnpackedMessage, outputs: &[Parameter], url: &Uri) -> Result<SoapReply, Error> {
    let is_fault = matches!(unpacked.envelope.body, Body::Fault(_));
    bind_reply(unpacked, outputs)
        .map_err(|fault| if is_fault { Error::Fault(fault) } else { bad_answer(url, fault) })
}

fn bad_answer(url: &Uri, fault: Fault) -> Error {
    Error::BadAnswer { url: url.to_string(), reason: fault.message }
}

/// Why an answer could not be unpacked.
enum UnpackError {
    /// It is no message that we can read.
    Answer(Fault),
    /// The network or a file.
    Other(Error),
}

impl From<Fault> for UnpackError {
    fn from(fault: Fault) -> Self {
        Self::Answer(fault)
    }
}

impl From<Error> for UnpackError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
