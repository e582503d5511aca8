//! Processes of our own that must not outlive who started them: each stress, and the reaper of each process of the
//! system under test.
//!
//! They are this program again, with words by which it calls [`run`] (`fishplate quake subprocess`). A subprocess's standard
//! input is a socket to who started it: lines of JSON both ways, of which the first is its [`SubprocessOrder`]. When the socket
//! ends, because the parent closed it or has died however it did (kill -9 too), the subprocess ends what it holds, and
//! itself. A subprocess that has nothing to clean up asks the kernel beside that to be killed when its parent is gone
//! (`PR_SET_PDEATHSIG`), so that it also ends when it is stopped or stuck.

use std::io::{self, BufRead, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use crate::stress::{self, StressOrder};
use crate::system::reaper;

/// How subprocesses are started: the program and its arguments.
#[derive(Clone, Debug)]
pub struct SubprocessCommand {
    words: Vec<String>,
}

/// What a subprocess is to do.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SubprocessOrder {
    /// Start a process of the system when it is told, and reap it.
    Reap,
    /// Take a resource away.
    Stress(StressOrder),
}

/// A subprocess that was started. When it is dropped, the subprocess ends.
#[derive(Debug)]
pub(crate) struct Subprocess {
    pub(crate) pid: u32,
    pub(crate) to: SubprocessSender,
    pub(crate) from: SubprocessReceiver,
    /// How it ended, when it has.
    pub(crate) ended: watch::Receiver<Option<ExitStatus>>,
}

/// The way to a subprocess. When it is dropped, the subprocess ends.
#[derive(Debug)]
pub(crate) struct SubprocessSender(OwnedWriteHalf);

/// The way from a subprocess.
#[derive(Debug)]
pub(crate) struct SubprocessReceiver(tokio::io::Lines<tokio::io::BufReader<OwnedReadHalf>>);

impl SubprocessCommand {
    /// The program and its arguments with which this library's [`run`] is reached.
    pub fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// Starts one. Needs a tokio runtime about it.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn start(&self, order: &SubprocessOrder) -> io::Result<Subprocess> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| io::Error::other("no program for subprocesses"))?;
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // A terminal's Ctrl-C is for who started it, who has to end it in order.
        command.process_group(0);
        let (pid, ended) = start_in_a_thread(command)?;
        write_line(&mut ours, order)?;
        ours.set_nonblocking(true)?;
        let (from, to) = tokio::net::UnixStream::from_std(ours)?.into_split();
        let from = SubprocessReceiver(tokio::io::BufReader::new(from).lines());
        Ok(Subprocess { pid, to: SubprocessSender(to), from, ended })
    }
}

/// Starts a process and waits for it in a thread of its own: for the kernel a parent is the thread that started it, and
/// `PR_SET_PDEATHSIG` would kill it when one of the runtime's threads is no longer needed.
fn start_in_a_thread(
    mut command: Command,
) -> io::Result<(u32, watch::Receiver<Option<ExitStatus>>)> {
    let (tell_started, started) = std::sync::mpsc::channel();
    let (tell_ended, ended) = watch::channel(None);
    thread::Builder::new().name("subprocess".to_owned()).spawn(move || {
        let child = command.spawn();
        // With it goes our copy of the subprocess's end of the socket.
        drop(command);
        let _ = tell_started.send(child.as_ref().map(std::process::Child::id).map_err(copy));
        if let Ok(mut child) = child {
            tell_ended.send_replace(child.wait().ok());
        }
    })?;
    let pid = started.recv().map_err(io::Error::other)??;
    Ok((pid, ended))
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl SubprocessSender {
    pub(crate) async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.0.write_all(&line(message)?).await
    }
}

impl SubprocessReceiver {
    /// The next message; none when the subprocess has ended.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.0.next_line().await {
            Ok(Some(line)) => Ok(Some(serde_json::from_str(&line)?)),
            Ok(None) => Ok(None),
            // It was killed with words of ours unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A subprocess's way to and from who started it.
#[derive(Debug)]
pub(crate) struct Parent {
    lines: io::Lines<BufReader<UnixStream>>,
    to: UnixStream,
}

impl Parent {
    fn of_standard_input() -> io::Result<Self> {
        let to = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { lines: BufReader::new(to.try_clone()?).lines(), to })
    }

    /// The next that it says; none when it is gone, or no longer wants the subprocess.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        serde_json::from_str(&self.lines.next()?.ok()?).ok()
    }

    /// Returns when it is gone, or no longer wants the subprocess.
    pub(crate) fn wait(&mut self) {
        while self.lines.next().is_some_and(|line| line.is_ok()) {}
    }

    /// Tells it something.
    pub(crate) fn tell(&self, message: &impl Serialize) -> io::Result<()> {
        write_line(&mut &self.to, message)
    }

    /// Another way to it.
    pub(crate) fn way(&self) -> io::Result<UnixStream> {
        self.to.try_clone()
    }
}

/// Writes a message as a line.
pub(crate) fn write_line(to: &mut impl io::Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&line(message)?)
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// A subprocess, from its beginning to its end. Its standard input is the socket of who started it.
pub fn run() -> ExitCode {
    match Parent::of_standard_input().and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is that of who started it.
            let _ = writeln!(io::stderr(), "fishplate quake subprocess: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(mut parent: Parent) -> io::Result<()> {
    match parent.next() {
        None => Err(io::Error::other("is started by `fishplate quake run`, not by hand")),
        Some(SubprocessOrder::Reap) => reaper::run(parent),
        Some(SubprocessOrder::Stress(order)) => {
            if !order.resource.needs_cleaning() {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
            }
            stress::run(&order, parent)
        }
    }
}
