//! One request and its answer.

use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{Fault, FaultCode, Parameter};
use fishplate_data::stream::{Writer, pipe};
use fishplate_data::transfer::root_cause;
use fishplate_wire::{
    Body, Expected, Head, Packaging, Packed, Parcel, Reply, Unpacker, WireLimits, bind_reply,
};
use http::{Request, Response, Uri, header};
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::body::SegmentBody;
use crate::error::Error;
use crate::meter::Meter;
use crate::spool::Spool;
use crate::transport::{Received, Transport, no_soap};

/// All that one try needs; nothing is used up by it.
pub(crate) struct Exchange<'a> {
    pub(crate) transport: &'a Transport,
    pub(crate) url: &'a Uri,
    pub(crate) message: &'a Packed,
    /// Value of `Accept`.
    pub(crate) accept: &'a str,
    /// What the answer should hold, and its values.
    pub(crate) expected: &'a Arc<Expected>,
    pub(crate) outputs: &'a [Parameter],
    pub(crate) limits: &'a WireLimits,
    pub(crate) spool_dir: Option<&'a Path>,
    pub(crate) meter: &'a Arc<Meter>,
}

impl Exchange<'_> {
    /// Sends the message and reads the answer, large values into files.
    pub(crate) async fn run(&self) -> Result<Reply, Error> {
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

    async fn receive(&self, answer: Response<Received>) -> Result<Reply, Error> {
        let status = answer.status();
        let content_type = answer.headers().get(header::CONTENT_TYPE);
        let content_type = content_type
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .unwrap_or_default();
        if Packaging::of_content_type(&content_type).is_none() {
            return Err(no_soap(self.url, answer).await);
        }
        self.meter.expect(answer.body().size_hint().exact().unwrap_or(0));
        let parcel = match self.unpack(&content_type, answer.into_body()).await {
            Ok(parcel) => parcel,
            // A gateway's page in XML, say: its status tells more than what is wrong with it.
            Err(Unpacking::Answer(_)) if !status.is_success() => {
                return Err(Error::Http {
                    url: self.url.to_string(),
                    status: status.as_u16(),
                    line: String::new(),
                });
            }
            Err(Unpacking::Answer(fault)) => return Err(self.bad_answer(fault)),
            Err(Unpacking::Other(error)) => return Err(error),
        };
        bound(parcel, self.outputs, self.url)
    }

    async fn unpack(&self, content_type: &str, body: Received) -> Result<Parcel, Unpacking> {
        let head = Head { content_type, ..Head::default() };
        let expected = Box::new(Arc::clone(self.expected));
        let unpacker = Unpacker::new(&head, expected, self.limits)?.streaming();
        let mut arriving = Arriving {
            body,
            unpacker,
            spool: Spool::new(self.spool_dir),
            url: self.url.clone(),
            meter: Arc::clone(self.meter),
        };
        while arriving.next().await? {
            let mut to = None;
            let stream = || {
                let (writer, stream) = pipe();
                to = Some(writer);
                stream
            };
            let ahead = arriving.unpacker.ahead(stream);
            if let (Some(parcel), Some(writer)) = (ahead, to) {
                tokio::spawn(arriving.pass_on(writer, self.outputs.to_vec()));
                return Ok(parcel);
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
    body: Received,
    unpacker: Unpacker,
    spool: Spool,
    url: Uri,
    meter: Arc<Meter>,
}

impl Arriving {
    /// Reads some of it; whether there was more.
    async fn next(&mut self) -> Result<bool, Unpacking> {
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

    async fn finish(&mut self) -> Result<Parcel, Unpacking> {
        let parcel = self.unpacker.finish(&mut self.spool)?;
        self.spool.flush().await?;
        self.spool.finish().await?;
        Ok(parcel)
    }

    /// Gives an output to its reader as it comes; it has ended when the answer has, and nothing is wrong
    /// with that.
    async fn pass_on(mut self, mut writer: Writer, outputs: Vec<Parameter>) {
        let passed = async {
            let mut more = true;
            loop {
                for chunk in self.unpacker.take_streamed() {
                    if writer.send(chunk).await.is_err() {
                        return Ok(());
                    }
                }
                if !more {
                    let parcel = self.finish().await?;
                    return bound(parcel, &outputs, &self.url).map(drop).map_err(Unpacking::Other);
                }
                tokio::select! {
                    () = writer.closed() => return Ok(()),
                    next = self.next() => more = next?,
                }
            }
        };
        let outcome = passed.await.map_err(|error: Unpacking| match error {
            Unpacking::Answer(fault) => broken_off(&bad_answer(&self.url, fault)),
            Unpacking::Other(error) => broken_off(&error),
        });
        writer.finished(outcome).await;
    }
}

/// The fault with which an output ends that was not whole.
fn broken_off(error: &Error) -> Fault {
    Fault::new(FaultCode::TransferFailed, error.to_string())
}

fn bound(parcel: Parcel, outputs: &[Parameter], url: &Uri) -> Result<Reply, Error> {
    let is_fault = matches!(parcel.envelope.body, Body::Fault(_));
    bind_reply(parcel, outputs)
        .map_err(|fault| if is_fault { Error::Fault(fault) } else { bad_answer(url, fault) })
}

fn bad_answer(url: &Uri, fault: Fault) -> Error {
    Error::BadAnswer { url: url.to_string(), reason: fault.message }
}

/// Why an answer could not be unpacked.
enum Unpacking {
    /// It is no message that we can read.
    Answer(Fault),
    /// The network or a file.
    Other(Error),
}

impl From<Fault> for Unpacking {
    fn from(fault: Fault) -> Self {
        Self::Answer(fault)
    }
}

impl From<Error> for Unpacking {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
