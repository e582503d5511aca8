//! Schedules: a rank's part of a collective operation, and how it is run.

use crate::buffer::{Memory, ReceiveBuffer, SendBuffer, Span, combine};
use crate::engine::{Engine, SendArguments};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::header::{Context, Mode, Rank, RequestId, Tag};
use crate::matching::Pattern;
use crate::operation::Operation;

/// A step. Sends and receives are begun; what they use is left alone until the next [`Step::Wait`].
#[derive(Clone, Debug)]
enum Step {
    Send(Rank, Span),
    Receive(Rank, Span),
    Wait,
    /// What was begun is waited for at the end only.
    Defer,
    /// The first to the second.
    Copy(Span, Span),
    /// The second becomes first op second.
    Reduce(Span, Span),
}

/// A rank's steps. Ranks are the communicator's.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The call, for whoever looks on.
    pub(crate) name: &'static str,
    memory: Vec<Memory>,
    steps: Vec<Step>,
    operation: Option<Operation>,
    /// Whose places are sent to and received from, while steps among a part of the ranks are written.
    among: Option<Vec<Rank>>,
    /// Steps are written whose waits are deferred.
    defers: bool,
    /// Messages without content are sent, because they tell that a rank has come.
    sends_empty: bool,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn reducing(operation: &Operation) -> Self {
        Self { operation: Some(operation.clone()), ..Self::default() }
    }

    pub(crate) fn send_buffer(&mut self, buffer: SendBuffer) -> Span {
        let length = buffer.bytes().len();
        self.add(Memory::Send(buffer), length)
    }

    pub(crate) fn receive_buffer(&mut self, buffer: ReceiveBuffer) -> Span {
        let length = buffer.length();
        self.add(Memory::Receive(buffer), length)
    }

    pub(crate) fn scratch(&mut self, length: usize) -> Span {
        self.add(Memory::Scratch(vec![0; length].into()), length)
    }

    /// The same steps on the same buffers, of which only one may be under way.
    pub(crate) fn again(&self) -> Self {
        Self {
            name: self.name,
            memory: self.memory.iter().map(Memory::again).collect(),
            steps: self.steps.clone(),
            operation: self.operation.clone(),
            among: None,
            defers: false,
            sends_empty: false,
        }
    }

    /// From here on messages without content are sent and received: a barrier's. Else none is, because both ranks know that it has none
    /// (MPI 5.0, 6.1: the amount of data sent must equal what the receiver specifies).
    pub(crate) fn send_empty(&mut self) {
        self.sends_empty = true;
    }

    /// Writes steps that only send, for which the steps behind them need not wait. What they send is not written by those.
    pub(crate) fn deferring(&mut self, defers: bool, write: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.defers, defers);
        write(self);
        self.defers = before;
    }

    /// Writes steps in which ranks are places among these.
    pub(crate) fn among(&mut self, ranks: &[Rank], write: impl FnOnce(&mut Self)) {
        self.among = Some(ranks.to_vec());
        write(self);
        self.among = None;
    }

    fn rank(&self, place: Rank) -> Rank {
        self.among.as_ref().map_or(place, |ranks| ranks[place as usize])
    }

    fn add(&mut self, memory: Memory, length: usize) -> Span {
        self.memory.push(memory);
        Span { memory: self.memory.len() - 1, range: 0..length }
    }

    pub(crate) fn send(&mut self, to: Rank, span: &Span) {
        if span.length() > 0 || self.sends_empty {
            self.steps.push(Step::Send(self.rank(to), span.clone()));
        }
    }

    pub(crate) fn receive(&mut self, from: Rank, span: &Span) {
        if span.length() > 0 || self.sends_empty {
            self.steps.push(Step::Receive(self.rank(from), span.clone()));
        }
    }

    pub(crate) fn wait(&mut self) {
        self.steps.push(if self.defers { Step::Defer } else { Step::Wait });
    }

    /// Both ways, and waits.
    pub(crate) fn exchange(&mut self, to: Rank, sent: &Span, from: Rank, received: &Span) {
        self.receive(from, received);
        self.send(to, sent);
        self.wait();
    }

    pub(crate) fn copy(&mut self, from: &Span, to: &Span) {
        if from != to && from.length() > 0 {
            self.steps.push(Step::Copy(from.clone(), to.clone()));
        }
    }

    /// `right = left op right`; the left one is of lower ranks.
    pub(crate) fn reduce(&mut self, left: &Span, right: &Span) {
        self.steps.push(Step::Reduce(left.clone(), right.clone()));
    }

    /// Whether the order of operands is free.
    pub(crate) fn is_commutative(&self) -> bool {
        self.operation.as_ref().is_none_or(Operation::is_commutative)
    }

    /// Whether the left operand may be lost.
    pub(crate) fn changes_left(&self) -> bool {
        self.operation.as_ref().is_some_and(Operation::changes_left)
    }

    /// `result = result op other` if `other` is of higher ranks, else `other op result`; `other` is lost.
    pub(crate) fn fold(&mut self, result: &Span, other: &Span, higher: bool) {
        if higher && !self.is_commutative() {
            self.reduce(result, other);
            self.copy(other, result);
        } else {
            self.reduce(other, result);
        }
    }
}

/// A schedule under way.
#[derive(Debug)]
pub(crate) struct Running {
    /// What is complete with it.
    pub(crate) request: RequestId,
    pub(crate) schedule: Schedule,
    pub(crate) context: Context,
    pub(crate) tag: Tag,
    pub(crate) group: Group,
    next: usize,
    pending: Vec<RequestId>,
    /// What the end waits for besides.
    deferred: Vec<RequestId>,
    over: bool,
}

/// Whether these are complete, whose outcomes are taken then.
fn settle(requests: &mut Vec<RequestId>, engine: &mut Engine) -> Result<bool> {
    // An eager send is complete before the transport has taken it, and may not be afterwards.
    if engine.has_frames() {
        return Ok(false);
    }
    let mut failed = Ok(());
    requests.retain(|&request| match engine.take_outcome(request) {
        None => true,
        Some(Ok(_)) => false,
        Some(Err(error)) => {
            failed = Err(error);
            false
        }
    });
    failed.map(|()| requests.is_empty())
}

impl Running {
    pub(crate) fn new(
        request: RequestId,
        schedule: Schedule,
        context: Context,
        tag: Tag,
        group: Group,
    ) -> Self {
        let (pending, deferred) = (Vec::new(), Vec::new());
        Self { request, schedule, context, tag, group, next: 0, pending, deferred, over: false }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// What it waits for.
    pub(crate) fn pending(&self) -> impl Iterator<Item = RequestId> {
        self.pending.iter().chain(&self.deferred).copied()
    }

    /// Does what can be done now; whether that was anything.
    pub(crate) fn advance(
        &mut self,
        engine: &mut Engine,
        detach: &mut impl FnMut(RequestId),
    ) -> bool {
        let before = self.next;
        loop {
            let is_end = self.next == self.schedule.steps.len();
            match self.step(engine) {
                Ok(true) if is_end => {
                    self.over = true;
                    engine.complete_compound(self.request, Ok(()));
                    return true;
                }
                Ok(true) => {}
                Ok(false) => return self.next > before,
                Err(error) => {
                    // Others gave up and left because a rank failed: it is to blame, not they.
                    let error = engine.check_members(self.context).err().unwrap_or(error);
                    self.give_up(engine, detach);
                    engine.complete_compound(self.request, Err(error));
                    return true;
                }
            }
        }
    }

    /// One step, or the end; whether it was done.
    fn step(&mut self, engine: &mut Engine) -> Result<bool> {
        let memory = &mut self.schedule.memory;
        match self.schedule.steps.get(self.next) {
            Some(Step::Send(to, span)) => {
                let to = self.group.member(*to)?;
                let arguments = SendArguments {
                    to,
                    context: self.context,
                    tag: self.tag,
                    mode: Mode::Standard,
                };
                let buffer = memory[span.memory].send(span.range.clone());
                self.pending.push(engine.send(arguments, buffer));
            }
            Some(Step::Receive(from, span)) => {
                let source = Some(self.group.member(*from)?);
                let pattern = Pattern { context: self.context, source, tag: Some(self.tag) };
                let buffer = memory[span.memory].receive(span.range.clone());
                self.pending.push(engine.receive(pattern, buffer));
            }
            Some(Step::Wait) => {
                if !settle(&mut self.pending, engine)? {
                    return Ok(false);
                }
            }
            Some(Step::Defer) => self.deferred.append(&mut self.pending),
            Some(Step::Copy(from, to)) => {
                combine(memory, from, to, |from, to| to.copy_from_slice(from));
            }
            Some(Step::Reduce(left, right)) => {
                let Some(operation) = &self.schedule.operation else {
                    let problem = "a reduction needs one".to_owned();
                    return Err(Error::Argument { argument: "operation", problem });
                };
                combine(memory, left, right, |left, right| operation.apply(left, right));
            }
            None => {
                self.deferred.append(&mut self.pending);
                return settle(&mut self.deferred, engine);
            }
        }
        self.next += 1;
        Ok(true)
    }

    /// Nobody asks for its outcome, and its memory goes.
    pub(crate) fn abandon(mut self, engine: &mut Engine, detach: &mut impl FnMut(RequestId)) {
        self.give_up(engine, detach);
    }

    fn give_up(&mut self, engine: &mut Engine, detach: &mut impl FnMut(RequestId)) {
        engine.detach_frames();
        for request in self.pending.drain(..).chain(self.deferred.drain(..)) {
            engine.abandon(request);
            detach(request);
        }
        self.over = true;
    }
}
