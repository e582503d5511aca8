//! What carries frames between processes: to each other process in order, each once, or the process has failed.
//! (A transport that can't keep the order or delivers twice is right too: [`crate::engine::Engine::begin`] sorts that out.)
//!
//! - [`local`]: between threads of this process
//! - [`tcp`]: direct connections
//! - [`shared_memory`]: rings in memory that processes of one host share, connections to the others
//! - [`soap`]: calls of the receiver's operation `store`
//!
//! What those over sockets have in common: [`route`] (ways to a process, directly or through a gateway), `outgoing` (frames that are kept and
//! repeated), `stream` (a connection that was dialled) and `tls`, `poller` (epoll, and how a waiting thread is woken), `socket`, `url`.

pub mod local;
mod outgoing;
mod poller;
pub mod route;
pub mod shared_memory;
pub mod soap;
mod socket;
mod stream;
pub mod tcp;
pub mod tls;
pub mod url;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::{Engine, Frame};
use crate::header::{Rank, RequestId};
use crate::settings::Settings;
use crate::status::PeerRoute;

/// A way to all other processes of the domain. It is called under the process's lock and never blocks.
pub trait Transport: Send {
    /// Takes a frame to `frame.header.to`. When its memory is not used any more, [`Engine::sent`] is told its request. If it has
    /// none, what is not carried at once is copied ([`crate::engine::Payload::detach`]).
    fn send(&mut self, frame: Frame, engine: &mut Engine);

    /// Carries what can be carried now, both ways; whether anything was. A process that is out of reach for too
    /// long is told with [`Engine::fail`].
    fn progress(&mut self, engine: &mut Engine) -> bool;

    /// Payloads up to this are sent to a rank at once, until a connection to it tells how far it is.
    fn eager_limit(&self, _to: Rank, settings: &Settings) -> usize {
        settings.eager_limit
    }

    /// Senders among which memory for unexpected messages is divided.
    fn senders(&self, ranks: u32) -> u32 {
        ranks
    }

    /// Whether SOAP clients can reach the process.
    fn has_clients(&self) -> bool {
        false
    }

    /// A thread is about to sleep: the death of any other process has to wake it. Or one polls: the next
    /// [`Transport::progress`] has to look for deaths.
    fn watch(&mut self);

    /// Whether there is a connection to and from every other process, so that what is sent from now on is on its way at once, as
    /// far as there is room, though nobody carries on.
    fn is_connected(&self) -> bool {
        true
    }

    /// Another process that can't be spoken to, whatever is tried, and why.
    fn refusal(&self) -> Option<(Rank, String)> {
        None
    }

    /// How it reaches others, as far as that is known, by rank.
    fn routes(&self) -> Vec<PeerRoute> {
        Vec::new()
    }

    /// Stops using the memory of this request.
    fn detach(&mut self, request: RequestId);

    /// Lets go of a process that has failed: none of its memory is used any more.
    fn disconnect(&mut self, rank: Rank);

    /// Whether every frame has reached its receiver.
    fn is_flushed(&self) -> bool;

    /// Whether every message has reached its receiver, or is where that finds it, and the word that this process leaves is on its way.
    fn is_written(&self) -> bool {
        self.is_flushed()
    }

    /// When it has to be called again though nothing happens.
    fn deadline(&self) -> Option<Instant>;

    /// What a thread waits on, without the lock.
    fn waiter(&self) -> Arc<dyn Waiter>;
}

/// Where a thread sleeps until something happens.
pub trait Waiter: Send + Sync + std::fmt::Debug {
    /// Until [`Transport::progress`] has something to do, until [`Waiter::wake`], or for so long.
    fn wait(&self, timeout: Option<Duration>);

    /// Ends this or the next wait.
    fn wake(&self);

    /// Whether a look at memory tells that [`Transport::progress`] has nothing to do. What has to ask the system says no.
    fn is_idle(&self) -> bool {
        false
    }
}
