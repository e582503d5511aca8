//! The posted-receive queue and the unexpected-message queue (MPI 4.1, 3.5): who gets which message.
//!
//! Queues are kept for each context and source, with one more for receives from any source; a counter orders what
//! is in different ones. So a message looks at receives for its own source and for any, never at others.
//!
//! Non-overtaking: of two messages of one sender that a receive could take, it takes the first; of two receives that could take a
//! message, the one posted first gets it.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::id_hasher::IdMap;
use crate::header::{Context, Rank, RequestId, Tag};

/// Which messages a receive or a probe takes. Ranks are the domain's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The communicator's context.
    pub context: Context,
    /// From whom; `None` is any.
    pub source: Option<Rank>,
    /// With which tag; `None` is any.
    pub tag: Option<Tag>,
}

impl Pattern {
    fn takes_tag(&self, tag: Tag) -> bool {
        self.tag.is_none_or(|wanted| wanted == tag)
    }
}

/// A message that came before its receive, by the engine's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub u64);

#[derive(Debug)]
struct Posted {
    order: u64,
    tag: Option<Tag>,
    request: RequestId,
}

#[derive(Debug)]
struct Unexpected {
    order: u64,
    tag: Tag,
    message: MessageId,
}

#[derive(Debug, Default)]
struct Queues {
    posted: IdMap<Rank, VecDeque<Posted>>,
    posted_any: VecDeque<Posted>,
    unexpected: BTreeMap<Rank, VecDeque<Unexpected>>,
}

/// Both queues of a process.
#[derive(Debug, Default)]
pub struct Matching {
    contexts: IdMap<Context, Queues>,
    order: u64,
}

impl Matching {
    /// Adds a receive. The caller has looked for an unexpected message before.
    pub fn post(&mut self, pattern: Pattern, request: RequestId) {
        let posted = Posted { order: self.next_order(), tag: pattern.tag, request };
        let queues = self.contexts.entry(pattern.context).or_default();
        match pattern.source {
            Some(source) => queues.posted.entry(source).or_default().push_back(posted),
            None => queues.posted_any.push_back(posted),
        }
    }

    /// Takes the receive that a message from `source` with this tag matches: the one posted first.
    pub fn take_posted(&mut self, context: Context, source: Rank, tag: Tag) -> Option<RequestId> {
        let queues = self.contexts.get_mut(&context)?;
        let find = |queue: &VecDeque<Posted>| {
            let at =
                queue.iter().position(|posted| posted.tag.is_none_or(|wanted| wanted == tag))?;
            Some((queue[at].order, at))
        };
        let specific = queues.posted.get(&source).and_then(find);
        let any = find(&queues.posted_any);
        let (queue, at) = match (specific, any) {
            (Some((first, at)), Some((second, _))) if first < second => {
                (queues.posted.get_mut(&source)?, at)
            }
            (Some((_, at)), None) => (queues.posted.get_mut(&source)?, at),
            (_, Some((_, at))) => (&mut queues.posted_any, at),
            (None, None) => return None,
        };
        queue.remove(at).map(|posted| posted.request)
    }

    /// Adds a message that no receive takes yet.
    pub fn add_unexpected(&mut self, context: Context, source: Rank, tag: Tag, message: MessageId) {
        let unexpected = Unexpected { order: self.next_order(), tag, message };
        let queues = self.contexts.entry(context).or_default();
        queues.unexpected.entry(source).or_default().push_back(unexpected);
    }

    /// The message that a receive would take: of its source the first, of several sources the one that came first.
    pub fn find_unexpected(&self, pattern: Pattern) -> Option<MessageId> {
        let (source, at) = self.position(pattern)?;
        Some(self.contexts[&pattern.context].unexpected[&source][at].message)
    }

    /// Takes that message.
    pub fn take_unexpected(&mut self, pattern: Pattern) -> Option<MessageId> {
        let (source, at) = self.position(pattern)?;
        let queue = self.contexts.get_mut(&pattern.context)?.unexpected.get_mut(&source)?;
        queue.remove(at).map(|unexpected| unexpected.message)
    }

    /// Takes a receive out of the queue; whether it was there.
    pub fn cancel(&mut self, pattern: Pattern, request: RequestId) -> bool {
        let Some(queues) = self.contexts.get_mut(&pattern.context) else { return false };
        let queue = match pattern.source {
            Some(source) => queues.posted.entry(source).or_default(),
            None => &mut queues.posted_any,
        };
        let at = queue.iter().position(|posted| posted.request == request);
        at.and_then(|at| queue.remove(at)).is_some()
    }

    /// Forgets a context; gives the messages that nobody received.
    pub fn remove_context(&mut self, context: Context) -> Vec<MessageId> {
        let queues = self.contexts.remove(&context).unwrap_or_default();
        queues.unexpected.into_values().flatten().map(|unexpected| unexpected.message).collect()
    }

    fn position(&self, pattern: Pattern) -> Option<(Rank, usize)> {
        let unexpected = &self.contexts.get(&pattern.context)?.unexpected;
        let find = |queue: &VecDeque<Unexpected>| {
            queue.iter().position(|unexpected| pattern.takes_tag(unexpected.tag))
        };
        if let Some(source) = pattern.source {
            return Some((source, find(unexpected.get(&source)?)?));
        }
        let first = unexpected.iter().filter_map(|(&source, queue)| {
            let at = find(queue)?;
            Some((queue[at].order, source, at))
        });
        first.min().map(|(_, source, at)| (source, at))
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }
}
