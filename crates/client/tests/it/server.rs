//! A server of one service, `echo`: it answers by wire's own writers, and can be told to cut
//! connections, to hang, or to answer nonsense.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use fishplate_contract::{
    Argument, DataType, Fault, FileHandle, Interface, Operation, Parameter, Payload, Service,
    Signature, SubmittedJob, Value, VerbDefinition,
};
use fishplate_wire::wsdl::{self, View};
use fishplate_wire::{
    BodyStep, Envelope, ExpectedTable, MessageHead, OutgoingBody, Packaging, ReplyForm,
    SoapRequest, SpoolSink, Unpacker, WireLimits, bind, pack, read, write_fault, write_reply,
};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) const NAMESPACE: &str = "urn:test";
pub(crate) const JOB: &str = "000102030405060708090a0b0c0d0e0f";

/// A call as the server understood it.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) verb: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) key: Option<String>,
    pub(crate) packaging: Packaging,
    pub(crate) accept: String,
    pub(crate) soap_action: Option<String>,
}

impl RecordedRequest {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.arguments.iter().find(|argument| argument.name == name).and_then(|argument| {
            match &argument.value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            }
        })
    }
}

/// What the server does with a call.
pub(crate) enum Reaction {
    Outputs(Vec<Argument>),
    Fault(Fault),
    /// Closes the connection without an answer.
    Cut,
    /// Sends that many bytes of the answer with these outputs, then closes the connection.
    CutAfter(usize, Vec<Argument>),
    /// The same of an answer whose length it doesn't tell, and says nothing any more.
    HangAfter(usize, Vec<Argument>),
    /// Never answers.
    Hang,
    /// Status, content type, body.
    Http(u16, &'static str, &'static str),
}

type React = dyn Fn(usize, &RecordedRequest) -> Reaction + Send + Sync;

pub(crate) struct Server {
    url: String,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Server {
    /// A server that reacts to the n-th call (from 0) like this.
    pub(crate) async fn start(
        react: impl Fn(usize, &RecordedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(None, react).await
    }

    /// The same behind TLS.
    pub(crate) async fn start_with(
        tls: Option<TlsAcceptor>,
        react: impl Fn(usize, &RecordedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let url = format!("{scheme}://{address}/echo");
        let shared =
            Arc::new(Shared { url: url.clone(), react: Box::new(react), seen: Arc::clone(&seen) });
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                counted.fetch_add(1, SeqCst);
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(shared, stream).await,
                        // A client that does not trust us goes away in the handshake.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(shared, stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url, connections, seen }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

struct Shared {
    url: String,
    react: Box<React>,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

async fn serve(shared: Arc<Shared>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
    // A reaction that cuts the connection is an error here.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// The service: `result` is `x`, and `data` comes back.
pub(crate) fn service() -> Service {
    let signature = Signature {
        inputs: vec![
            Parameter::new("x", DataType::Int),
            Parameter::new("data", DataType::Raw).optional(),
        ],
        outputs: vec![
            Parameter::new("result", DataType::Int),
            Parameter::new("data", DataType::Raw).optional(),
        ],
    };
    Service {
        name: "echo".to_owned(),
        namespace: NAMESPACE.to_owned(),
        title: "Echo".to_owned(),
        documentation: String::new(),
        operations: vec![Operation {
            name: "call".to_owned(),
            documentation: String::new(),
            signature,
        }],
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: http::Request<Incoming>,
) -> Result<http::Response<TestBody>, io::Error> {
    let interface = Interface::of(&service());
    if request.method() == http::Method::GET {
        return Ok(page(&shared, &request, &interface));
    }
    let header =
        |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (content_type, accept) = (header("content-type").unwrap(), header("accept"));
    let soap_action = header("soapaction");
    let head = MessageHead {
        content_type: &content_type,
        soap_action: soap_action.as_deref(),
        accept: accept.as_deref(),
        query: None,
    };
    let limits =
        WireLimits { inline_size: 1 << 30, inline_total: 1 << 30, ..WireLimits::default() };
    let expected = ExpectedTable::requests(NAMESPACE, &interface);
    let mut unpacker = Unpacker::new(&head, Box::new(expected), &limits).unwrap();
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    unpacker.feed(body, &mut Nowhere).unwrap();
    let unpacked = unpacker.finish(&mut Nowhere).unwrap();
    let form = unpacked.reply_form.clone();
    let asked = read(unpacked).unwrap();
    let definition = interface.find(&asked.wrapper.local).unwrap();
    let seen = seen(asked, definition, accept, soap_action);
    let at = shared.seen.lock().unwrap().len();
    let reaction = (shared.react)(at, &seen);
    shared.seen.lock().unwrap().push(seen);
    reacted(reaction, &form, definition).await
}

fn seen(
    asked: SoapRequest,
    definition: &VerbDefinition,
    accept: Option<String>,
    soap_action: Option<String>,
) -> RecordedRequest {
    RecordedRequest {
        verb: definition.name.clone(),
        key: asked.options.key,
        packaging: asked.packaging,
        arguments: bind(&definition.name, &definition.signature.inputs, asked.children).unwrap(),
        accept: accept.unwrap_or_default(),
        soap_action,
    }
}

/// Every fault of SOAP 1.1 has it (section 6.2), which is what the client speaks.
const FAULT_STATUS: u16 = 500;

async fn reacted(
    reaction: Reaction,
    form: &ReplyForm,
    definition: &VerbDefinition,
) -> Result<http::Response<TestBody>, io::Error> {
    let job = SubmittedJob { id: JOB.parse().unwrap(), existing: false };
    let reply = |outputs: &[Argument]| {
        packed(&write_reply(form, NAMESPACE, definition, outputs, Some(job)), form)
    };
    let (status, (content_type, body), cut) = match reaction {
        Reaction::Outputs(outputs) => (200, reply(&outputs), None),
        Reaction::CutAfter(bytes, outputs) => (200, reply(&outputs), Some((bytes, Stop::Cut))),
        Reaction::HangAfter(bytes, outputs) => (200, reply(&outputs), Some((bytes, Stop::Hang))),
        Reaction::Fault(fault) => {
            let envelope = write_fault(form, Some(NAMESPACE), &fault);
            (FAULT_STATUS, packed(&envelope, form), None)
        }
        Reaction::Cut => return Err(io::Error::other("cut")),
        Reaction::Hang => std::future::pending().await,
        Reaction::Http(status, content_type, body) => {
            (status, (content_type.to_owned(), body.to_owned().into()), None)
        }
    };
    let length = body.len();
    let (bytes, stop) = cut.unzip();
    let body = TestBody { left: body.slice(..bytes.unwrap_or(length)), length, stop };
    let response = http::Response::builder().status(status);
    Ok(response.header("content-type", content_type).body(body).unwrap())
}

fn packed(envelope: &Envelope, form: &ReplyForm) -> (String, Bytes) {
    let packed = pack(envelope, form.packaging, None);
    let mut body = Vec::new();
    let mut outgoing = OutgoingBody::new(packed.segments, 64 << 10);
    while let Some(step) = outgoing.step() {
        let BodyStep::Send(bytes) = step else { panic!("the test's payloads are in memory") };
        body.extend_from_slice(&bytes);
    }
    (packed.content_type.into_owned(), body.into())
}

fn page(
    shared: &Shared,
    request: &http::Request<Incoming>,
    interface: &Interface,
) -> http::Response<TestBody> {
    let (status, content_type, body) = match (request.uri().path(), request.uri().query()) {
        ("/echo", Some("wsdl")) => {
            (200, "text/xml", wsdl::write(&service(), interface, View::default(), &shared.url))
        }
        ("/moved", _) => (302, "text/html", String::new()),
        ("/loop", _) => (307, "text/html", String::new()),
        ("/page", _) => (200, "text/html", "<html>hello</html>".to_owned()),
        _ => (404, "text/html", "\n<h1>no such page</h1>\nmore".to_owned()),
    };
    let mut response =
        http::Response::builder().status(status).header("content-type", content_type);
    match request.uri().path() {
        "/moved" => response = response.header("location", "/echo?wsdl"),
        "/loop" => response = response.header("location", "/loop?wsdl"),
        _ => {}
    }
    let body = Bytes::from(body);
    response.body(TestBody { length: body.len(), left: body, stop: None }).unwrap()
}

/// A body that may stop before its length.
pub(crate) struct TestBody {
    left: Bytes,
    length: usize,
    stop: Option<Stop>,
}

/// How it stops.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    Cut,
    Hang,
}

impl http_body::Body for TestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = self.left.len().min(16 << 10);
        if next > 0 {
            let chunk = self.left.split_to(next);
            self.length -= next;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if self.stop == Some(Stop::Hang) {
            return Poll::Pending;
        }
        if self.stop.take().is_some() {
            // What was given is flushed before the error is seen.
            let waker = context.waker().clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                waker.wake();
            });
            return Poll::Pending;
        }
        if self.length > 0 {
            return Poll::Ready(Some(Err(io::Error::other("cut"))));
        }
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        match self.stop {
            Some(Stop::Hang) => SizeHint::default(),
            _ => SizeHint::with_exact(self.length as u64),
        }
    }
}

/// The limits let nothing be spooled.
struct Nowhere;

impl SpoolSink for Nowhere {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        panic!("the test's payloads are inline")
    }

    fn write(&mut self, _: &Arc<dyn FileHandle>, _: Bytes) {}
}

/// Answers as the service does.
pub(crate) fn echo(seen: &RecordedRequest) -> Vec<Argument> {
    let mut outputs = vec![Argument::text("result", seen.text("x").unwrap_or("0"))];
    outputs.extend(seen.arguments.iter().filter(|argument| argument.name == "data").cloned());
    outputs
}

pub(crate) fn data(bytes: impl Into<Bytes>) -> Value {
    Value::Data(Payload::Inline(bytes.into()))
}
