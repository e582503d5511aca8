//! Connections from a server to runners, and the start of a supervisor where there is none.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::address::Address;
use super::message::{FrameReader, RunnerReply, put};

/// Bytes that a connection keeps for the next message.
const MOST_KEPT: usize = 64 << 10;

/// A connection to a runner.
#[derive(Debug)]
pub(super) struct RunnerConnection {
    stream: UnixStream,
    frames: FrameReader,
    out: Vec<u8>,
}

impl RunnerConnection {
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
    pub(super) async fn receive(&mut self) -> io::Result<RunnerReply> {
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
pub(super) struct ConnectionPool {
    data: PathBuf,
    program: PathBuf,
    most_idle: usize,
    idle: Mutex<Vec<(Instant, RunnerConnection)>>,
    /// Held while a supervisor is started.
    starting: tokio::sync::Mutex<()>,
}

/// How long an idle connection is kept while others are enough.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// How long a supervisor is waited for.
const SUPERVISOR_TIME: Duration = Duration::from_secs(10);

impl ConnectionPool {
    pub(super) fn new(data: &Path, program: PathBuf, most_idle: usize) -> Self {
        Self {
            data: data.to_path_buf(),
            program,
            most_idle,
            idle: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
        }
    }

    /// A connection to a runner that waits for a job.
    pub(super) async fn get(&self) -> io::Result<RunnerConnection> {
        let idle = self.idle().pop();
        if let Some((_, link)) = idle {
            return Ok(link);
        }
        let give_up = Instant::now() + SUPERVISOR_TIME;
        loop {
            match self.connect().await {
                Ok(link) => return Ok(link),
                Err(error) if Instant::now() >= give_up || !is_passing(&error) => {
                    return Err(error);
                }
                Err(_) => {
                    if let Some(link) = self.start_supervisor().await? {
                        return Ok(link);
                    }
                }
            }
        }
    }

    /// Gives back a connection whose runner waits for the next job.
    pub(super) fn put(&self, link: RunnerConnection) {
        let now = Instant::now();
        let mut idle = self.idle();
        // Last in, first out: the first are those that have not been needed for longest.
        let old = idle.iter().take_while(|(since, _)| now - *since > IDLE_TIME).count();
        idle.drain(..old);
        if idle.len() < self.most_idle {
            idle.push((now, link));
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, RunnerConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> io::Result<RunnerConnection> {
        let reach = Address::new(&self.data).socket()?;
        let stream = UnixStream::connect(&reach.path).await?;
        Ok(RunnerConnection { stream, frames: FrameReader::default(), out: Vec::new() })
    }

    /// Starts a supervisor. If another server does at the same time, one of the two goes away.
    async fn start_supervisor(&self) -> io::Result<Option<RunnerConnection>> {
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

/// Errors of a connection that mean that there is no supervisor (any more), or none ready.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::WouldBlock
    )
}
