//! The stress-load injector (paper 004, section 4): a program beside the server that consumes resources of its host:
//! memory, threads, file descriptors, connections, and what else a host has.
//!
//! Each stress is a process of its own ([`crate::subprocess`]): it ends when it is told, and when who started it dies, by
//! `kill -9` too; then the kernel has back what it held. What the kernel does not take back, a rule of the network and a
//! clock that was set, its process puts back. What could not be had is told: a stress that is short of what was asked
//! for is no reason to believe that the server stood it.
//!
//! Reading order: this file (how one is begun and ended), then one file a resource.

mod clock;
mod connections;
mod descriptors;
mod disk;
mod memory;
mod network;
mod processor;
mod threads;

use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::experiment::{Resource, Stress};
use crate::record::Happening;
use crate::subprocess::{Parent, Subprocess, SubprocessCommand, SubprocessOrder};
use crate::system::{Happened, Happenings};

/// Between two looks at what is held.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// What a process of a stress is told.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StressOrder {
    pub(crate) resource: Resource,
    /// How long it will be, in milliseconds: what grows has grown then.
    length: u64,
    /// The server's port, on this host.
    port: u16,
}

/// What it tells: that it holds what it can, and what it could not have, in words.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum StressMessage {
    /// It holds what it can; again, when what could not be had is no longer the same.
    Holds {
        /// What could not be had.
        short: Option<String>,
    },
    /// It can hold nothing: why.
    Failed(String),
}

/// A stress from its beginning to its end: after its length, or when this is dropped. Its beginning is told when it has
/// what it can have, its end when all of it is free again. A resource that can't be had is told as short of all.
pub async fn apply(
    stress: &Stress,
    port: u16,
    subprocess: &SubprocessCommand,
    happenings: &Happenings,
) {
    let tell = |on, short| {
        let resource = stress.resource.word().to_owned();
        let what = Happening::Stress { resource, on, short };
        // If nobody listens any more, the cell is over.
        let _ = happenings.send(Happened { at: Instant::now(), what });
    };
    let length = u64::try_from(stress.length.as_millis()).unwrap_or(u64::MAX);
    let order = StressOrder { resource: stress.resource.clone(), length, port };
    let Subprocess { to, mut from, mut ended, .. } =
        match subprocess.start(&SubprocessOrder::Stress(order)) {
            Ok(process) => process,
            Err(error) => return tell(true, Some(format!("it could not be started: {error}"))),
        };
    let mut began = false;
    let mut short = None;
    let ends_itself = async {
        loop {
            match from.next().await {
                Ok(Some(StressMessage::Holds { short: told })) => {
                    if !began {
                        tell(true, told.clone());
                        began = true;
                    }
                    short = told;
                }
                Ok(Some(StressMessage::Failed(why))) => return Some(why),
                Ok(None) | Err(_) => return None,
            }
        }
    };
    if let Ok(why) = tokio::time::timeout(stress.length, ends_itself).await {
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        let how = why.or_else(|| Some(status?.to_string())).unwrap_or_default();
        short = Some(format!("it ended before its time: {how}"));
        if !began {
            tell(true, short.clone());
        }
    } else {
        if !began {
            short = Some("it had not begun at its end".to_owned());
            tell(true, short.clone());
        }
        drop(to);
        // It may have much to give back.
        let _ = ended.wait_for(Option::is_some).await;
    }
    tell(false, short);
}

impl Resource {
    /// By the experiment's word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Threads { .. } => "threads",
            Self::Descriptors { .. } => "descriptors",
            Self::Connections { .. } => "connections",
            Self::Processor { .. } => "processor",
            Self::DiskFull { .. } => "disk-full",
            Self::DiskSlow { .. } => "disk-slow",
            Self::Network { .. } => "network",
            Self::Clock { .. } => "clock",
        }
    }

    /// Whether something stays when its process is killed, so that it may not be.
    pub(crate) fn needs_cleaning(&self) -> bool {
        matches!(self, Self::Network { .. } | Self::Clock { .. })
    }
}

/// Takes the resource away until who started this process is gone or says so.
pub(crate) fn run(order: &StressOrder, mut parent: Parent) -> io::Result<()> {
    let held = hold(order, &mut parent);
    if let Err(error) = &held {
        parent.tell(&StressMessage::Failed(error.to_string()))?;
    }
    held
}

fn hold(order: &StressOrder, parent: &mut Parent) -> io::Result<()> {
    let way = parent.way()?;
    // What changes while it is held.
    let tell = move |short: Option<String>| {
        let _ = crate::subprocess::write_line(&mut &way, &StressMessage::Holds { short });
    };
    let length = Duration::from_millis(order.length);
    match &order.resource {
        Resource::Memory { size, ramp } => {
            let over = if *ramp { length } else { Duration::ZERO };
            memory::hold(size, over, tell)?;
        }
        Resource::Threads { count } => threads::hold(*count, tell)?,
        Resource::Descriptors { count } => {
            let (held, short) = descriptors::hold(*count);
            tell(short);
            parent.wait();
            drop(held);
        }
        Resource::Connections { count, address } => {
            let server = || format!("127.0.0.1:{}", order.port);
            let address = address.clone().unwrap_or_else(server);
            connections::hold(*count, address, tell)?;
        }
        Resource::Processor { threads } => tell(processor::hold(*threads)),
        Resource::DiskFull { directory, free } => disk::fill(directory, free, tell)?,
        Resource::DiskSlow { directory, threads } => tell(disk::slow(directory, *threads)?),
        Resource::Network { namespace, interface, loss, delay } => {
            let network =
                network::Impairment::begin(namespace.as_deref(), interface, *loss, *delay)?;
            tell(network.short());
            parent.wait();
            return network.end();
        }
        Resource::Clock { seconds, file } => {
            clock::set(file, *seconds)?;
            tell(None);
            parent.wait();
            return clock::set(file, 0);
        }
    }
    // All that was begun in threads ends with the process.
    parent.wait();
    Ok(())
}

/// Takes what there is again and again in a thread, until the process ends: what others give back meanwhile is taken too. What could not be
/// had is told at first, and whenever there begins or ceases to be something.
fn take_again(
    mut take: impl FnMut() -> Option<String> + Send + 'static,
    tell: impl Fn(Option<String>) + Send + 'static,
) -> io::Result<()> {
    let forever = move || {
        let mut told = None;
        loop {
            let short = take();
            if told.replace(short.is_some()) != Some(short.is_some()) {
                tell(short);
            }
            std::thread::sleep(LOOKS_EVERY);
        }
    };
    std::thread::Builder::new().name("stress".to_owned()).spawn(forever).map(drop)
}

/// What could not be had of so many, in words.
fn short_of(had: usize, of: u32, what: &str, error: &io::Error) -> String {
    format!("of {of} {what}, {had} could be had: {error}")
}

/// A size, as experiments write it.
fn size(text: &str) -> io::Result<u64> {
    fishplate_formats::units::size(text)
        .map_err(|wrong| io::Error::new(io::ErrorKind::InvalidInput, wrong))
}
