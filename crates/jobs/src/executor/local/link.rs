//! Connections from a server to workers, and the start of a keeper where there is none.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::address::Address;
use super::message::{Frames, Reply, put};

/// Bytes that a connection keeps for the next message.
const MOST_KEPT: usize = 64 << 10;

/// A connection to a worker.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    frames: Frames,
    out: Vec<u8>,
}

impl Link {
    pub(super) async fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.out.clear();
        put(message, &mut self.out)?;
        let sent = self.stream.write_all(&self.out).await;
        if self.out.capacity() > MOST_KEPT {
            self.out = Vec::new();
        }
        sent
    }

    /// The next reply. If this future is dropped, nothing is lost.
    pub(super) async fn receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(frame) = self.frames.next()? {
                return Ok(serde_json::from_slice(frame)?);
            }
            if self.stream.read_buf(self.frames.room()).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The connections that are not in use, and how to get more.
#[derive(Debug)]
pub(super) struct Links {
    data: PathBuf,
    program: PathBuf,
    most_idle: usize,
    idle: Mutex<Vec<(Instant, Link)>>,
    /// Held while a keeper is started.
    starting: tokio::sync::Mutex<()>,
}

/// How long an idle connection is kept while others are enough.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// How long a keeper is waited for.
const KEEPER_TIME: Duration = Duration::from_secs(10);

impl Links {
    pub(super) fn new(data: &Path, program: PathBuf, most_idle: usize) -> Self {
        Self {
            data: data.to_path_buf(),
            program,
            most_idle,
            idle: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
        }
    }

    /// A connection to a worker that waits for a job.
    pub(super) async fn get(&self) -> io::Result<Link> {
        let idle = self.idle().pop();
        if let Some((_, link)) = idle {
            return Ok(link);
        }
        let give_up = Instant::now() + KEEPER_TIME;
        loop {
            match self.connect().await {
                Ok(link) => return Ok(link),
                Err(error) if Instant::now() >= give_up || !is_passing(&error) => {
                    return Err(error);
                }
                Err(_) => {
                    if let Some(link) = self.start_keeper().await? {
                        return Ok(link);
                    }
                }
            }
        }
    }

    /// Gives back a connection whose worker waits for the next job.
    pub(super) fn put(&self, link: Link) {
        let now = Instant::now();
        let mut idle = self.idle();
        // Last in, first out: the first are those that have not been needed for longest.
        let old = idle.iter().take_while(|(since, _)| now - *since > IDLE_TIME).count();
        idle.drain(..old);
        if idle.len() < self.most_idle {
            idle.push((now, link));
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Link)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> io::Result<Link> {
        let reach = Address::new(&self.data).socket()?;
        let stream = UnixStream::connect(&reach.path).await?;
        Ok(Link { stream, frames: Frames::default(), out: Vec::new() })
    }

    /// Starts a keeper. If another server does at the same time, one of the two goes away.
    async fn start_keeper(&self) -> io::Result<Option<Link>> {
        let _starting = self.starting.lock().await;
        if let Ok(link) = self.connect().await {
            // Somebody else started it while we waited for our turn.
            return Ok(Some(link));
        }
        let mut command = Command::new(&self.program);
        command.arg("supervise").arg("--data").arg(&self.data);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let started = tokio::task::spawn_blocking(move || command.output()).await;
        let output = started.map_err(io::Error::other)??;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!("{} supervise: {said}", self.program.display())))
    }
}

/// Errors of a connection that mean that there is no keeper (any more), or none ready.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::WouldBlock
    )
}
