//! One loop over signals, output and the rendezvous, until all ranks have ended and nothing of them is left.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fishplate_ranks::launch::{LaunchEnvironment, TransportKind};
use fishplate_ranks::status::{Deadlock, KnownRank};
use fishplate_ranks::transport::shared_memory::Segment;
use fishplate_ranks::{Credential, DomainId, Rank};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::descendants;
use crate::endpoints::EndpointsFile;
use crate::launch::{Cause, Launch, LaunchError, Program, RankExit, RankReport, Report};
use crate::library::SONAME;
use crate::open_files::FileLimit;
use crate::output::Sink;
use crate::process::{self, Started, Surroundings};
use crate::rendezvous::Rendezvous;

/// Signals that end the launch.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
/// Signals that ranks get from the launcher, and that mean nothing to it.
const FORWARDED: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];
/// The pause before those who live on are killed again: what they started meanwhile.
const AGAIN: Duration = Duration::from_millis(50);
/// The pause between two looks for a deadlock, which go through all that ranks told.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// The longest path of a Unix socket, in bytes (unix(7)), less our own name there.
const LONGEST_DIRECTORY: usize = 90;

/// Starts all ranks and waits for them. The calling process becomes a subreaper and reaps whatever child it has, so it
/// must have no others; its limit of open files is raised; the calling thread must live as long as the ranks.
pub fn run(launch: &Launch) -> Result<Report, LaunchError> {
    let count = launch.programs.iter().map(|program| u64::from(program.ranks)).sum();
    let ranks = u32::try_from(count).ok().filter(|&ranks| ranks > 0);
    let ranks = ranks.ok_or(LaunchError::Count(count))?;
    let signals = Signals::block().map_err(LaunchError::system("signals can't be read"))?;
    prctl::set_child_subreaper(true)
        .map_err(|error| LaunchError::system("what ranks leave can't be adopted")(error.into()))?;
    let directory = private_directory()
        .map_err(LaunchError::system("no directory for the rendezvous can be made"))?;
    let files = FileLimit::raise(ranks)?;
    let mut launcher = Launcher::new(launch, ranks, signals, files, directory.path())?;
    match launcher.start(directory.path()) {
        Ok(()) => {
            while launcher.turn() {}
            Ok(launcher.report())
        }
        Err(error) => {
            launcher.end(Duration::ZERO);
            while launcher.turn() {}
            Err(error)
        }
    }
}

/// Signals as bytes, as long as it lives.
#[derive(Debug)]
struct Signals {
    source: SignalFd,
    /// The mask of before.
    mask: SigSet,
}

impl Signals {
    fn block() -> io::Result<Self> {
        let all = ENDING.into_iter().chain(FORWARDED).chain([Signal::SIGCHLD]);
        let blocked: SigSet = all.collect();
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self { source: SignalFd::with_flags(&blocked, flags)?, mask })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.mask.thread_set_mask();
    }
}

#[derive(Debug)]
struct RankProcess {
    program: usize,
    pid: i32,
    outputs: [Option<OwnedFd>; 2],
    exit: Option<RankExit>,
}

#[derive(Debug)]
struct Launcher<'a> {
    launch: &'a Launch,
    domain: DomainId,
    credential: Credential,
    count: u32,
    signals: Signals,
    files: FileLimit,
    rendezvous: Rendezvous,
    ranks: Vec<RankProcess>,
    /// Standard output and standard error, or standard error alone.
    sinks: Vec<Sink>,
    begun: Instant,
    /// All are being ended; since SIGTERM gave way to SIGKILL at this time.
    kill_at: Option<Instant>,
    cause: Option<Cause>,
    deadlock: Option<Deadlock>,
    /// There are news: when to look for a deadlock, and when that was done last.
    look_at: Option<Instant>,
    looked: Option<Instant>,
    /// What ranks did when they were ended for SIGQUIT or after too long.
    snapshot: Option<BTreeMap<Rank, KnownRank>>,
    /// The launcher was told to end.
    interrupted: bool,
    swept: usize,
    childless: bool,
}

/// What is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Signal,
    Rendezvous,
    Output { rank: usize, stream: usize },
    Sink(usize),
}

impl<'a> Launcher<'a> {
    fn new(
        launch: &'a Launch,
        count: u32,
        signals: Signals,
        files: FileLimit,
        directory: &Path,
    ) -> Result<Self, LaunchError> {
        let random = |error: fishplate_ranks::Error| {
            LaunchError::system("no domain can be named")(io::Error::other(error))
        };
        let (domain, credential) =
            (DomainId::random().map_err(random)?, Credential::random().map_err(random)?);
        let path = directory.join("rendezvous");
        // Without it they have connections.
        let memory = match launch.transport {
            TransportKind::SharedMemory => Segment::create(count).unwrap_or_default(),
            TransportKind::Tcp | TransportKind::Soap => Vec::new(),
        };
        let mut rendezvous = Rendezvous::new(&path, domain, credential.clone(), count, memory)
            .map_err(LaunchError::system("ranks can't be listened to"))?;
        if let Some(path) = &launch.endpoints {
            rendezvous.endpoints = EndpointsFile::new(path)
                .map(Some)
                .map_err(LaunchError::system("the file of endpoints can't be written"))?;
        }
        // Two sources a rank, standard output first; and the launcher's own.
        let labels = || {
            let label = |source| {
                if launch.label { format!("[{}] ", source / 2) } else { String::new() }
            };
            (0..2 * count).map(label).chain([String::new()])
        };
        let system = LaunchError::system("standard output and standard error are not to be had");
        let mut sinks = Vec::new();
        (|| {
            if !launch.to_stderr {
                sinks.push(Sink::new(io::stdout().as_fd().try_clone_to_owned()?, labels()));
            }
            sinks.push(Sink::new(io::stderr().as_fd().try_clone_to_owned()?, labels()));
            Ok(())
        })()
        .map_err(system)?;
        Ok(Self {
            launch,
            domain,
            credential,
            count,
            signals,
            files,
            rendezvous,
            ranks: Vec::new(),
            sinks,
            begun: Instant::now(),
            kill_at: None,
            cause: None,
            deadlock: None,
            look_at: None,
            looked: None,
            snapshot: None,
            interrupted: false,
            swept: 0,
            childless: false,
        })
    }
}

impl Launcher<'_> {
    /// Starts every rank.
    fn start(&mut self, directory: &Path) -> Result<(), LaunchError> {
        let libraries = match &self.launch.library {
            Some(library) => {
                // It may have another name where it was built.
                let link = symlink(library, directory.join(SONAME));
                link.map_err(LaunchError::system("programs can't be led to the MPI library"))?;
                Some(directory)
            }
            None => None,
        };
        let programs = self.launch.programs.iter().enumerate();
        let all = programs.flat_map(|(at, program)| (0..program.ranks).map(move |_| at));
        for (rank, at) in (0..).zip(all) {
            let environment = LaunchEnvironment {
                domain: self.domain,
                rank,
                ranks: self.count,
                rendezvous: directory.join("rendezvous"),
                credential: self.credential.clone(),
                addresses: Vec::new(),
                transport: self.launch.transport,
            };
            let surroundings = Surroundings {
                environment: &environment,
                application: at,
                libraries,
                mask: self.signals.mask,
                files: self.files,
                piped: self.count > 1 || self.launch.label,
                to_stderr: self.launch.to_stderr,
            };
            let program = &self.launch.programs[at];
            let Started { pid, outputs } = start(program, rank, &surroundings)?;
            self.ranks.push(RankProcess { program: at, pid, outputs, exit: None });
        }
        Ok(())
    }

    /// Waits for something and does what it asks for; whether there is more to come.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        for sink in &mut self.sinks {
            sink.tick(now);
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            descendants::signal(Signal::SIGKILL);
            self.kill_at = Some(now + AGAIN);
        }
        if self.look_at.is_some_and(|at| now >= at) {
            self.look(now);
        }
        if self.launch.timeout.is_some_and(|timeout| now >= self.begun + timeout) && !self.is_over()
        {
            self.snapshot = Some(self.known());
            self.fail(Cause::Timeout, true);
        }
        for ready in self.wait(now) {
            match ready {
                Ready::Signal => self.read_signals(),
                Ready::Rendezvous => self.hear(),
                Ready::Output { rank, stream } => {
                    self.read_output(rank, stream);
                }
                Ready::Sink(at) => {
                    if !self.sinks[at].write() {
                        self.fail(Cause::OutputClosed, true);
                    }
                }
            }
        }
        self.reap();
        if std::mem::take(&mut self.rendezvous.news) && self.deadlock.is_none() {
            self.look_at.get_or_insert(self.looked.map_or(now, |last| last + LOOK_PAUSE));
        }
        if self.childless {
            for rank in 0..self.ranks.len() {
                (0..2).for_each(|stream| while self.read_output(rank, stream) {});
            }
        }
        !self.childless || self.sinks.iter().any(Sink::is_pending)
    }

    fn wait(&self, now: Instant) -> Vec<Ready> {
        let mut sources = vec![(Ready::Signal, self.signals.source.as_fd(), PollFlags::POLLIN)];
        for source in self.rendezvous.sources(now) {
            sources.push((Ready::Rendezvous, source, PollFlags::POLLIN));
        }
        for (rank, process) in self.ranks.iter().enumerate() {
            for (stream, output) in process.outputs.iter().enumerate() {
                if let Some(output) =
                    output.as_ref().filter(|_| self.sinks[self.sink(stream)].has_room())
                {
                    sources.push((
                        Ready::Output { rank, stream },
                        output.as_fd(),
                        PollFlags::POLLIN,
                    ));
                }
            }
        }
        for (at, sink) in self.sinks.iter().enumerate().filter(|(_, sink)| sink.is_pending()) {
            sources.push((Ready::Sink(at), sink.destination(), PollFlags::POLLOUT));
        }
        let timeout =
            self.launch.timeout.map(|timeout| self.begun + timeout).filter(|_| !self.is_over());
        let own = [self.kill_at, self.rendezvous.paused(now), timeout, self.look_at];
        let deadlines =
            self.sinks.iter().filter_map(Sink::deadline).chain(own.into_iter().flatten());
        let timeout = deadlines.min().map_or(PollTimeout::NONE, |deadline| {
            // A millisecond more, because it is cut to whole ones.
            let left = deadline.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|&(_, source, interest)| PollFd::new(source, interest)).collect();
        // An interruption is as good as a timeout.
        let _ = poll(&mut polled, timeout);
        let ready = polled.iter().zip(&sources).filter(|(polled, _)| polled.any() == Some(true));
        ready.map(|(_, &(ready, ..))| ready).collect()
    }

    fn sink(&self, stream: usize) -> usize {
        stream.min(self.sinks.len() - 1)
    }

    /// Every rank has ended, or is about to.
    fn is_over(&self) -> bool {
        self.kill_at.is_some() || self.ranks.iter().all(|rank| rank.exit.is_some())
    }

    fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.source.read_signal() {
            let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed()) else { continue };
            // A terminal has given it to all of the process group.
            let given = info.ssi_code > 0;
            if ENDING.contains(&signal) {
                if signal == Signal::SIGQUIT && self.snapshot.is_none() {
                    self.hear();
                    self.snapshot = Some(self.known());
                }
                if !given {
                    descendants::signal(signal);
                }
                self.cause.get_or_insert(Cause::Interrupted { signal });
                // Those who handle it have their time.
                let again = std::mem::replace(&mut self.interrupted, true);
                let grace = if again { Duration::ZERO } else { self.launch.kill_grace };
                // If all are being ended already, they have no longer for it.
                let at = Instant::now() + grace;
                self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
            } else if FORWARDED.contains(&signal) {
                descendants::signal(signal);
            }
        }
    }

    fn hear(&mut self) {
        if let Some(abort) = self.rendezvous.hear() {
            self.fail(Cause::Abort { rank: abort.rank, code: abort.code }, true);
        }
    }

    /// Whether ranks wait for each other.
    fn look(&mut self, now: Instant) {
        (self.look_at, self.looked) = (None, Some(now));
        if self.is_over() {
            return;
        }
        self.deadlock = Deadlock::find(&self.known());
        if let (Some(deadlock), Some(sink)) = (&self.deadlock, self.sinks.last_mut()) {
            let source = 2 * self.ranks.len();
            sink.take(source, format!("{deadlock}\n").as_bytes(), now);
        }
    }

    /// What all ranks do now.
    fn known(&self) -> BTreeMap<Rank, KnownRank> {
        let all = self.ranks.iter().zip(&self.rendezvous.members);
        let known = all.map(|(process, member)| {
            let told = member.status.as_ref().map(|(at, status)| (at.elapsed(), status));
            // Not before all has come that it told last, of what it sent.
            let has_left = member.left && !member.reports;
            KnownRank::new(told, has_left || process.exit.is_some())
        });
        (0..).zip(known).collect()
    }

    /// Takes some output; whether there was some.
    fn read_output(&mut self, rank: usize, stream: usize) -> bool {
        let sink = self.sink(stream);
        let source = 2 * rank + stream;
        let Some(output) = &self.ranks[rank].outputs[stream] else { return false };
        let mut bytes = [0; 16 << 10];
        match nix::unistd::read(output, &mut bytes) {
            Ok(count) if count > 0 => {
                self.sinks[sink].take(source, &bytes[..count], Instant::now());
                return true;
            }
            Err(Errno::EINTR) => return true,
            Err(Errno::EAGAIN) if !self.childless => return false,
            _ => {}
        }
        self.ranks[rank].outputs[stream] = None;
        self.sinks[sink].release(source);
        false
    }

    /// Takes the ends of processes.
    fn reap(&mut self) {
        loop {
            let (pid, exit) = match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, RankExit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, RankExit::Signal(signal)),
                Err(Errno::ECHILD) => {
                    self.childless = true;
                    break;
                }
                Err(Errno::EINTR) => continue,
                _ => break,
            };
            let rank = self.ranks.iter().position(|rank| rank.pid == pid.as_raw());
            if let Some(rank) = rank {
                // What it said last.
                self.hear();
                self.ranks[rank].exit = Some(exit);
                self.judge(rank, exit);
            }
        }
        let ended = self.ranks.iter().all(|rank| rank.exit.is_some());
        if ended && !self.childless && self.kill_at.is_none() {
            self.swept = self.end(self.launch.kill_grace);
        }
    }

    /// What a rank's end means to the others.
    fn judge(&mut self, at: usize, exit: RankExit) {
        let Ok(rank) = Rank::try_from(at) else { return };
        self.rendezvous.ended(rank);
        let member = &self.rendezvous.members[at];
        let cause = match exit {
            RankExit::Code(0) if member.address.is_some() && !member.left => {
                Cause::NotLeft { rank }
            }
            RankExit::Code(0) => return,
            RankExit::Code(code) => Cause::Exit { rank, code },
            RankExit::Signal(signal) => Cause::Signal { rank, signal },
        };
        self.fail(cause, !self.launch.keep_going);
    }

    /// Notes what went wrong, if it is the first, and ends all if that is what it means.
    fn fail(&mut self, cause: Cause, end: bool) {
        self.cause.get_or_insert(cause);
        if end && self.kill_at.is_none() {
            self.end(self.launch.kill_grace);
        }
    }

    /// Ends all that was started: SIGTERM, and after `grace` SIGKILL. How many processes that are.
    fn end(&mut self, grace: Duration) -> usize {
        self.kill_at = Some(Instant::now() + grace);
        let count = descendants::signal(Signal::SIGTERM);
        // One that is stopped hears it then.
        descendants::signal(Signal::SIGCONT);
        count
    }

    fn report(&self) -> Report {
        let ranks = self.ranks.iter().zip(&self.rendezvous.members).filter_map(|(rank, member)| {
            Some(RankReport {
                program: self.launch.programs[rank.program].program.clone(),
                pid: rank.pid,
                exit: rank.exit?,
                joined: member.address.is_some(),
                left: member.left,
            })
        });
        Report {
            domain: self.domain,
            ranks: ranks.collect(),
            cause: self.cause,
            swept: self.swept,
            deadlock: self.deadlock.clone(),
            snapshot: self.snapshot.clone(),
        }
    }
}

fn start(
    program: &Program,
    rank: Rank,
    surroundings: &Surroundings<'_>,
) -> Result<Started, LaunchError> {
    let started = process::start(program, surroundings).and_then(|started| {
        for output in started.outputs.iter().flatten() {
            fcntl(output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(started)
    });
    started.map_err(|source| LaunchError::Start {
        rank,
        program: program.program.clone(),
        directory: program.directory.clone(),
        source,
    })
}

/// A directory that only this user can look into, whose path is short enough for a socket's.
fn private_directory() -> io::Result<tempfile::TempDir> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let all = own.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
    let mut refused = None;
    for parent in all.filter(|parent| parent.as_os_str().len() < LONGEST_DIRECTORY - 30) {
        match tempfile::Builder::new().prefix("fishplate-run-").tempdir_in(parent) {
            Ok(directory) => return Ok(directory),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::InvalidFilename.into()))
}
