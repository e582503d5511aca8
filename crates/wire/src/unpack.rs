//! Chunks to a parcel: the packaging, the envelope and its payloads, read while they come.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, Interface, Parameter};

use crate::envelope::Envelope;
use crate::limits::WireLimits;
use crate::name::QName;
use crate::packaging::Packaging;
use crate::spool::SpoolSink;
use crate::write::ReplyForm;

/// What HTTP's header says of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// `Content-Type`, as sent.
    pub content_type: &'a str,
    /// `SOAPAction`, as sent, quoted or not.
    pub soap_action: Option<&'a str>,
    /// `Accept`, as sent (several fields joined by commas).
    pub accept: Option<&'a str>,
}

/// Tells what a wrapper element should hold, so that payloads are decoded while they are read.
pub trait Expect {
    /// The values in the wrapper of that name; `None` if there is no such wrapper.
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>>;
}

/// A table of wrappers: made once for a service, shared by its messages.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    wrappers: HashMap<QName, Arc<[Parameter]>>,
}

impl Expected {
    /// What a server expects: each verb's name with its inputs.
    pub fn requests(namespace: &str, interface: &Interface) -> Self {
        let wrappers = interface.exposed.iter().map(|exposed| {
            (QName::new(namespace, &*exposed.name), exposed.signature.inputs.clone().into())
        });
        Self { wrappers: wrappers.collect() }
    }

    /// What a client expects of one operation: its response wrapper with its outputs.
    pub fn response(wrapper: QName, outputs: &[Parameter]) -> Self {
        Self { wrappers: HashMap::from([(wrapper, outputs.into())]) }
    }
}

impl Expect for Expected {
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>> {
        self.wrappers.get(wrapper).cloned()
    }
}

impl Expect for Arc<Expected> {
    fn parameters(&self, wrapper: &QName) -> Option<Arc<[Parameter]>> {
        (**self).parameters(wrapper)
    }
}

/// A whole message: its envelope with the payloads in their places.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The envelope.
    pub envelope: Envelope,
    /// SOAPAction or the action parameter, unquoted; `None` if missing or empty.
    pub action: Option<String>,
    /// How it was packaged.
    pub packaging: Packaging,
    /// How an answer should be.
    pub reply_form: ReplyForm,
}

/// Reads one message. After an error it must not be fed again.
pub struct Unpacker {}

impl Unpacker {
    /// Ready for the first chunk.
    ///
    /// # Errors
    /// `UnsupportedMediaType` if the content type is none of ours; [`ReplyForm::of_head`] tells how
    /// to answer that.
    pub fn new(
        head: &Head<'_>,
        expect: Box<dyn Expect + Send>,
        limits: &WireLimits,
    ) -> Result<Self, Fault> {
        todo!("{head:?} {limits:?} {}", expect.parameters(&QName::default()).is_some())
    }

    /// Takes the next chunk of the body, cut anywhere. Large payloads go to the sink.
    ///
    /// # Errors
    /// What is wrong with the message so far.
    pub fn feed(&mut self, chunk: Bytes, sink: &mut dyn SpoolSink) -> Result<(), Fault> {
        let held = sink.create();
        sink.write(&held, chunk);
        todo!()
    }

    /// The body has ended.
    ///
    /// # Errors
    /// What is wrong with the message, a truncated one included.
    pub fn finish(&mut self, sink: &mut dyn SpoolSink) -> Result<Parcel, Fault> {
        let held = sink.create();
        sink.write(&held, Bytes::new());
        todo!()
    }

    /// How to answer, as far as it is known by now: for faults of `feed` and `finish`.
    pub fn reply_form(&self) -> ReplyForm {
        todo!()
    }

    /// The wrapper element, once it was read.
    pub fn wrapper(&self) -> Option<&QName> {
        todo!()
    }
}
