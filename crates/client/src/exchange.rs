//! One request and its answer.

use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{Fault, Parameter};
use fishplate_data::transfer::root_cause;
use fishplate_wire::{
    Body, Expected, Head, Packaging, Packed, Reply, Unpacker, WireLimits, bind_reply,
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
        let mut spool = Spool::new(self.spool_dir);
        let parcel = match self.unpack(&content_type, answer.into_body(), &mut spool).await {
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
        let is_fault = matches!(parcel.envelope.body, Body::Fault(_));
        bind_reply(parcel, self.outputs)
            .map_err(|fault| if is_fault { Error::Fault(fault) } else { self.bad_answer(fault) })
    }

    async fn unpack(
        &self,
        content_type: &str,
        mut body: Received,
        spool: &mut Spool,
    ) -> Result<fishplate_wire::Parcel, Unpacking> {
        let head = Head { content_type, ..Head::default() };
        let expected = Box::new(Arc::clone(self.expected));
        let mut unpacker = Unpacker::new(&head, expected, self.limits)?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Error::ConnectionLost {
                url: self.url.to_string(),
                reason: root_cause(&error),
            })?;
            if let Ok(chunk) = frame.into_data() {
                self.meter.add_received(chunk.len());
                unpacker.feed(chunk, spool)?;
                spool.flush().await?;
            }
        }
        let parcel = unpacker.finish(spool)?;
        spool.flush().await?;
        spool.finish().await?;
        Ok(parcel)
    }

    fn bad_answer(&self, fault: Fault) -> Error {
        Error::BadAnswer { url: self.url.to_string(), reason: fault.message }
    }
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
