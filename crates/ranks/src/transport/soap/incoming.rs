//! A connection from a rank, or from a client.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::net::TcpStream;
use std::time::Instant;

use fishplate_contract::{Fault, FaultCode};
use fishplate_wire::ReplyForm;
use fishplate_wire::wsdl::View;

use crate::engine::{Engine, ReceiveTarget};
use crate::error::Error;
use crate::header::{DomainId, Kind, Rank, RequestId};
use crate::transport::soap::answers::Answers;
use crate::transport::soap::client_call::{self, ClientCall, Receiving, Request, form_of};
use crate::transport::soap::endpoint::Endpoint;
use crate::transport::soap::http::{Body, CONTINUE, HttpError, RequestHead, answer, read_request};
use crate::transport::soap::known_head::KnownHead;
use crate::transport::soap::reception::Reception;
use crate::transport::socket::{hang_up, some};
use crate::transport::url;

/// What is read ahead, so that small messages come several at a time. A head has to fit in.
pub(super) const BUFFER: usize = 16 << 10;
/// Bytes after which others have their turn.
const TURN: usize = 4 << 20;
/// Bytes of a refused body that are read so that its sender comes to read the answer.
const MOST_SKIPPED: usize = 16 << 20;
/// Bytes of answers that may wait for a stranger to read them, before its next request is refused.
const MOST_UNREAD: usize = 256 << 10;

/// Why a connection ends.
pub(super) enum CloseReason {
    /// It broke, or is over.
    Broken(io::Error),
    /// A rank broke the protocol.
    Protocol(Error),
    /// What comes next is for another rank of this address.
    Elsewhere(DomainId, Rank),
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

struct Arriving {
    target: ReceiveTarget,
    offset: usize,
    length: usize,
}

enum State {
    /// The head of a request is awaited.
    Head,
    /// A body of so many bytes, which may be ours; its beginning is awaited.
    Layout(u64),
    /// The payload of one of ours, and what stands behind it.
    Payload(Arriving),
    /// A body that is not ours.
    Call(Box<ClientCall>, Body),
    /// `receive` waits.
    Receive(Box<Receiving>),
    /// The rest of a body that was refused.
    Skip(Body, usize),
    /// The connection ends when the last answer is written.
    Over,
}

pub(super) struct Incoming {
    stream: TcpStream,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
    known: Option<KnownHead>,
    /// The rank that sent last.
    pub(super) peer: Option<Rank>,
    /// Who it is has shown the domain's credential.
    is_authenticated: bool,
    begun: Instant,
    /// The request at hand is the last one.
    closes: bool,
    /// The last read got less than it could have: there is no more now.
    drained: bool,
    /// A long payload begins for which no receive was posted: who waits for its head may have a place for the rest.
    pauses: bool,
    answers: Answers,
}

impl Incoming {
    /// A connection that begins with these bytes.
    pub(super) fn new(stream: TcpStream, begun: &[u8]) -> Self {
        let mut buffer = vec![0; BUFFER.max(begun.len())].into_boxed_slice();
        buffer[..begun.len()].copy_from_slice(begun);
        Self {
            stream,
            buffer,
            start: 0,
            end: begun.len(),
            state: State::Head,
            known: None,
            peer: None,
            is_authenticated: false,
            begun: Instant::now(),
            closes: false,
            drained: false,
            pauses: false,
            answers: Answers::default(),
        }
    }

    /// The socket, to be watched.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether answers wait for room.
    pub(super) fn waits_for_room(&self) -> bool {
        self.answers.waits_for_room()
    }

    /// Since when it is here, if nobody has shown the credential over it.
    pub(super) fn stranger_since(&self) -> Option<Instant> {
        (!self.is_authenticated).then_some(self.begun)
    }

    /// The payload that is arriving.
    pub(super) fn target(&mut self) -> Option<&mut ReceiveTarget> {
        match &mut self.state {
            State::Payload(arriving) => Some(&mut arriving.target),
            _ => None,
        }
    }

    /// When a `receive` has to be answered.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Receive(receiving) => receiving.deadline(),
            _ => None,
        }
    }

    /// The request of a `receive` that waits for its payload: its memory is this connection's.
    pub(super) fn receiving(&self) -> Option<RequestId> {
        match &self.state {
            State::Receive(receiving) => receiving.request(),
            _ => None,
        }
    }

    /// Whether a `receive` waits.
    pub(super) fn receives(&self) -> bool {
        matches!(self.state, State::Receive(_))
    }

    /// The socket, and what was read ahead of it.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer[self.start..self.end].to_vec())
    }

    /// Ends it; the payload that was arriving. What [receives](Self::receiving) was detached before.
    pub(super) fn end(
        self,
        reception: &mut Reception,
        engine: &mut Engine,
    ) -> Option<ReceiveTarget> {
        match self.state {
            State::Receive(receiving) => {
                receiving.release(engine);
                None
            }
            _ => self.end_of_rank(reception),
        }
    }

    /// The same of a connection over which a rank sends, where no `receive` waits.
    pub(super) fn end_of_rank(self, reception: &mut Reception) -> Option<ReceiveTarget> {
        match self.state {
            State::Payload(arriving) => Some(arriving.target),
            State::Call(mut call, _) => {
                call.release(reception);
                None
            }
            _ => None,
        }
    }

    /// Answers a `receive` whose message is here, or whose time is over; whether it did.
    pub(super) fn receive(&mut self, reception: &mut Reception, engine: &mut Engine) -> bool {
        let State::Receive(receiving) = &mut self.state else { return false };
        let Some(outcome) = receiving.advance(reception, engine) else { return false };
        let State::Receive(receiving) = std::mem::replace(&mut self.state, State::Head) else {
            return false;
        };
        match outcome {
            Ok(outputs) => self.results(reception, &receiving.form, "receive", &outputs),
            Err(fault) => self.fault(&receiving.form, &fault),
        }
        self.next();
        true
    }

    /// Reads what is there, and does what it asks for.
    pub(super) fn read(
        &mut self,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        endpoint: &Endpoint,
        engine: &mut Engine,
    ) -> Result<(), CloseReason> {
        let mut turn = 0;
        self.drained = false;
        self.answers.write(&self.stream)?;
        loop {
            while self.step(reception, others, endpoint, engine)? {}
            let pauses = std::mem::take(&mut self.pauses);
            if matches!(self.state, State::Over) || turn > TURN || self.drained || pauses {
                break;
            }
            match self.more() {
                Ok(0) => break,
                Ok(count) => turn += count,
                Err(error) => {
                    self.cut_off(&error);
                    return Err(error.into());
                }
            }
        }
        self.answers.release_if_due();
        self.answers.write(&self.stream)?;
        if matches!(self.state, State::Over) && !self.waits_for_room() {
            hang_up(&self.stream);
            return Err(CloseReason::Broken(ErrorKind::ConnectionAborted.into()));
        }
        Ok(())
    }

    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether there may be more to do with what is here.
    fn step(
        &mut self,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        endpoint: &Endpoint,
        engine: &mut Engine,
    ) -> Result<bool, CloseReason> {
        match &mut self.state {
            State::Head => {
                self.bound_unread()?;
                self.head(reception, endpoint)
            }
            State::Layout(length) => {
                let length = *length;
                self.begin(length, reception, others, engine)
            }
            State::Payload(_) => self.payload(reception, others, engine),
            State::Call(..) => self.call(reception, others, engine),
            State::Skip(body, left) => {
                let taken = body.take(&self.buffer[self.start..self.end]);
                let Ok(taken) = taken else { return Err(over()) };
                let count = taken.skipped + taken.content;
                *left = left.checked_sub(count).ok_or_else(over)?;
                self.start += count;
                if body.is_over() {
                    self.next();
                    return Ok(true);
                }
                Ok(count > 0)
            }
            State::Receive(_) | State::Over => Ok(false),
        }
    }

    /// Ends the connection of a stranger who asks and asks, and does not read the answers.
    fn bound_unread(&mut self) -> Result<(), CloseReason> {
        let is_above = |this: &Self| this.answers.unwritten() > MOST_UNREAD;
        if !self.is_authenticated && is_above(self) {
            self.answers.write(&self.stream)?;
            if is_above(self) {
                return Err(over());
            }
        }
        Ok(())
    }

    /// A request was answered.
    fn next(&mut self) {
        self.state = if self.closes { State::Over } else { State::Head };
    }

    fn head(
        &mut self,
        reception: &mut Reception,
        endpoint: &Endpoint,
    ) -> Result<bool, CloseReason> {
        if let Some((length, head)) = self.known.as_ref().and_then(|it| it.read(self.buffered())) {
            self.start += head;
            self.state = State::Layout(length);
            return Ok(true);
        }
        let (head, length) = match read_request(self.buffered()) {
            Ok(Some(head)) => head,
            Ok(None) if self.buffered().len() < BUFFER => return Ok(false),
            Ok(None) => return Ok(self.refuse_http(431, HttpError("its head is too long"))),
            Err(error) => return Ok(self.refuse_http(400, error)),
        };
        let member = url::member(&head.path);
        if member != Some((reception.domain, reception.rank)) {
            if let Some((domain, rank)) = member.filter(|member| endpoint.has(*member)) {
                self.answers.release();
                self.answers.write(&self.stream)?;
                let elsewhere = CloseReason::Elsewhere(domain, rank);
                return Err(if self.waits_for_room() { over() } else { elsewhere });
            }
            self.start += length;
            self.closes = head.close;
            self.refuse(&head, &unknown(&head.path));
            return Ok(true);
        }
        self.closes = head.close;
        let text = self.buffered()[..length].to_vec();
        self.start += length;
        if head.method == "GET" {
            self.get(&head, reception);
            return Ok(true);
        }
        if head.method != "POST" {
            let fields = [("Allow", "GET, POST")];
            let answer = answer(405, &fields, b"a message is posted\n", head.close);
            self.answers.push(&answer);
            self.skip(&head);
            return Ok(true);
        }
        if let Err(fault) = authorise(&head, reception) {
            self.refuse(&head, &fault);
            return Ok(true);
        }
        self.is_authenticated = true;
        if head.expects_continue {
            self.answers.push(CONTINUE);
        }
        if let Some(known) = KnownHead::new(&text, &head, reception)
            && let Body::Length(length) = head.body
            && length >= known.layout.message_length(0)
        {
            self.known = Some(known);
            self.state = State::Layout(length);
            return Ok(true);
        }
        self.begin_call(&head, reception);
        Ok(true)
    }

    /// What may be ours: if it is, its payload goes where it belongs.
    fn begin(
        &mut self,
        length: u64,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        engine: &mut Engine,
    ) -> Result<bool, CloseReason> {
        let Some(known) = &self.known else { return Err(over()) };
        if length >= known.layout.message_length(0) {
            if self.buffered().len() < known.layout.length() {
                return Ok(false);
            }
            let header = known.layout.read(self.buffered()).filter(|header| {
                header.sequence > 0
                    && header.from < engine.size()
                    && header.from != reception.rank
                    && known.layout.message_length(header.payload_length()) == length
            });
            if let Some(header) = header {
                match reception.begin(header, others, engine).map_err(CloseReason::Protocol)? {
                    Ok(target) => {
                        self.start += known.layout.length();
                        self.peer = Some(header.from);
                        let length = usize::try_from(header.payload_length()).unwrap_or(usize::MAX);
                        self.pauses = length > BUFFER && target.is_unexpected();
                        self.state = State::Payload(Arriving { target, offset: 0, length });
                    }
                    Err(fault) => {
                        let head = RequestHead { body: Body::Length(length), ..known.head.clone() };
                        self.refuse(&head, &fault);
                    }
                }
                return Ok(!self.pauses);
            }
        }
        let head = RequestHead { body: Body::Length(length), ..known.head.clone() };
        self.begin_call(&head, reception);
        Ok(true)
    }

    fn payload(
        &mut self,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        engine: &mut Engine,
    ) -> Result<bool, CloseReason> {
        let (State::Payload(arriving), Some(known)) = (&mut self.state, &self.known) else {
            return Err(over());
        };
        engine.retarget(&mut arriving.target, arriving.offset);
        let buffered = (self.end - self.start).min(arriving.length - arriving.offset);
        if let Some(rest) = arriving.target.rest(arriving.offset) {
            rest[..buffered].copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        }
        self.start += buffered;
        arriving.offset += buffered;
        let tail = known.layout.tail();
        if arriving.offset < arriving.length || self.end - self.start < tail.len() {
            return Ok(false);
        }
        if !self.buffer[self.start..self.end].starts_with(tail) {
            return Err(CloseReason::Broken(io::Error::other(
                "a message does not end as it began",
            )));
        }
        self.start += tail.len();
        let pipelined = known.head.pipelined;
        let length = arriving.length;
        let State::Payload(Arriving { target, .. }) =
            std::mem::replace(&mut self.state, State::Head)
        else {
            return Err(over());
        };
        let kind = target.header().kind;
        reception.finish(target, others, engine).map_err(CloseReason::Protocol)?;
        let urgent = !pipelined || matches!(kind, Kind::Data | Kind::Leave);
        self.answers.accept(length, urgent);
        self.next();
        Ok(true)
    }

    fn begin_call(&mut self, head: &RequestHead, reception: &Reception) {
        match ClientCall::new(head, &reception.operations) {
            Ok(call) => self.state = State::Call(Box::new(call), head.body),
            Err(fault) => self.refuse(head, &fault),
        }
    }

    fn call(
        &mut self,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        engine: &mut Engine,
    ) -> Result<bool, CloseReason> {
        let State::Call(call, body) = &mut self.state else { return Err(over()) };
        let bytes = &self.buffer[self.start..self.end];
        let taken = match body.take(bytes) {
            Ok(taken) => taken,
            Err(error) => {
                call.release(reception);
                return Ok(self.refuse_http(400, error));
            }
        };
        let piece = &bytes[taken.skipped..taken.skipped + taken.content];
        let fed = if piece.is_empty() { Ok(()) } else { call.feed(piece, reception) };
        let count = taken.skipped + taken.content;
        self.start += count;
        if let Err(fault) = fed {
            call.release(reception);
            let (form, body) = (call.reply_form(), *body);
            self.fault(&form, &fault);
            self.state = State::Skip(body, MOST_SKIPPED);
            return Ok(true);
        }
        if !body.is_over() {
            return Ok(count > 0);
        }
        let State::Call(mut call, _) = std::mem::replace(&mut self.state, State::Head) else {
            return Err(over());
        };
        let request = call.finish(&reception.operations);
        let form = call.reply_form();
        call.release(reception);
        self.next();
        let performed =
            request.and_then(|request| self.perform(request, &form, reception, others, engine));
        if let Err(fault) = performed {
            self.fault(&form, &fault);
        }
        Ok(true)
    }

    fn perform(
        &mut self,
        request: Request,
        form: &ReplyForm,
        reception: &mut Reception,
        others: &mut [Option<Self>],
        engine: &mut Engine,
    ) -> Result<(), Fault> {
        let at = (reception.domain, reception.rank);
        match request {
            Request::Store { arguments, operation } => {
                let stored = arguments.stored(&operation, at, engine.size())?;
                reception.store(stored, operation == "bstore", others, engine)?;
                self.results(reception, form, &operation, &[]);
            }
            Request::Receive(arguments) => {
                let wanted = arguments.wanted(at, engine.size(), reception.receive_wait)?;
                self.state = State::Receive(Box::new(Receiving::new(form.clone(), wanted)));
                self.receive(reception, engine);
            }
        }
        Ok(())
    }

    fn get(&mut self, head: &RequestHead, reception: &Reception) {
        let view = View::from_query(head.query.as_deref().unwrap_or_default());
        let answer = match view {
            Ok(Some(view)) => {
                // A gateway asks for the whole URL, as others know it.
                let is_whole = !head.path.starts_with('/');
                let here = || format!("http://{}{}", head.host, head.path);
                let address = if is_whole { head.path.clone() } else { here() };
                let wsdl = reception.operations.wsdl(view, &address);
                let fields = [("Content-Type", "text/xml; charset=utf-8")];
                answer(200, &fields, wsdl.as_bytes(), head.close)
            }
            Ok(None) => answer(404, &[], b"?wsdl is here, and messages are posted\n", head.close),
            Err(error) => answer(404, &[], format!("{error}\n").as_bytes(), head.close),
        };
        self.answers.push(&answer);
        self.skip(head);
    }

    /// A request that is not obeyed, whatever its body says.
    fn refuse(&mut self, head: &RequestHead, fault: &Fault) {
        // Who waits for leave to send its body may send it or not.
        self.closes |= head.expects_continue;
        self.fault(&form_of(head), fault);
        self.skip(head);
    }

    /// What can't be read at all.
    fn refuse_http(&mut self, status: u16, error: HttpError) -> bool {
        let answer = answer(status, &[], format!("{error}\n").as_bytes(), true);
        self.answers.push(&answer);
        self.state = State::Over;
        true
    }

    fn skip(&mut self, head: &RequestHead) {
        self.state = State::Skip(head.body, MOST_SKIPPED);
        if self.closes && head.expects_continue {
            self.state = State::Over;
        }
    }

    fn results(
        &mut self,
        reception: &Reception,
        form: &ReplyForm,
        operation: &str,
        outputs: &[fishplate_contract::Argument],
    ) {
        if let Some(definition) = reception.operations.interface.find(operation) {
            self.answers.push(&client_call::results(form, definition, outputs));
        }
    }

    fn fault(&mut self, form: &ReplyForm, fault: &Fault) {
        self.answers.push(&client_call::fault(form, fault, self.closes));
    }

    /// The connection ended in the middle of a message.
    fn cut_off(&mut self, error: &io::Error) {
        let in_message = match &self.state {
            State::Head => !self.buffered().is_empty(),
            State::Layout(_) | State::Payload(_) | State::Call(..) => true,
            State::Receive(_) | State::Skip(..) | State::Over => false,
        };
        if error.kind() == ErrorKind::UnexpectedEof && in_message {
            let fault = Fault::new(
                FaultCode::MalformedMessage,
                "the message is cut off: less came than its head says",
            );
            let form = match &self.state {
                State::Call(call, _) => call.reply_form(),
                _ => form_of(&RequestHead::default()),
            };
            self.closes = true;
            self.fault(&form, &fault);
        }
        // Who has gone need not know.
        let _ = self.answers.write(&self.stream);
    }

    /// Reads on: a payload straight to where it belongs, and what is behind it into the buffer.
    fn more(&mut self) -> io::Result<usize> {
        if let State::Payload(arriving) = &mut self.state
            && arriving.offset < arriving.length
        {
            (self.start, self.end) = (0, 0);
            let wanted = arriving.length - arriving.offset;
            let Some(rest) = arriving.target.rest(arriving.offset) else {
                let most = wanted.min(self.buffer.len());
                let count = some(self.stream.read(&mut self.buffer[..most]))?;
                arriving.offset += count;
                return Ok(count);
            };
            let parts = &mut [IoSliceMut::new(rest), IoSliceMut::new(&mut self.buffer)];
            let count = some(self.stream.read_vectored(parts))?;
            self.drained = count < wanted + self.buffer.len();
            arriving.offset += count.min(wanted);
            self.end = count.saturating_sub(wanted);
            return Ok(count);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            return Ok(0);
        }
        let count = some(self.stream.read(&mut self.buffer[self.end..]))?;
        self.end += count;
        self.drained = self.end < self.buffer.len();
        Ok(count)
    }
}

fn authorise(head: &RequestHead, reception: &Reception) -> Result<(), Fault> {
    let Reception { domain, rank, credential, .. } = reception;
    let is_ours =
        |bearer: &str| credential.is(bearer) || credential.is_token(bearer, *domain, *rank);
    let problem = match &head.bearer {
        Some(bearer) if is_ours(bearer) => return Ok(()),
        Some(_) => "the credential is not that of this domain",
        None => "the domain's credential is missing: Authorization: Bearer CREDENTIAL",
    };
    Err(Fault::new(FaultCode::Unauthenticated, problem))
}

/// The fault of a path that nobody is at.
pub(super) fn unknown(path: &str) -> Fault {
    let path = fishplate_contract::lexical::shortened(path);
    let message =
        format!("no rank is at {path}: it is /domains/DOMAIN/RANK, as the rendezvous tells it");
    Fault::new(FaultCode::UnknownService, message)
}

fn over() -> CloseReason {
    CloseReason::Broken(ErrorKind::ConnectionAborted.into())
}
