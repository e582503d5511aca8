//! The supervisor: one a data directory. It forks runners, so that there is always one that waits for
//! a connection; and it inherits the jobs of runners that were killed. It ends when nothing is
//! left to keep.
//!
//! One thread, no runtime, little memory: whatever is not here can't fail here.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::{SigHandler, Signal};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{ForkResult, fork};

use super::address::Address;
use super::cgroup::JobGroup;
use super::journal::{Journal, JournalEntry, Phase, TakeoverResult, lock, read};
use super::message::{RunnerRequest, StartMessage, StartRefusal};
use super::process_tree::{ExitStatus, ProcessTree, StopCause, WaitUsage};
use super::procfs::{
    ProcessId, Stat, all, carriers, closure, job_of, now_millis, start_millis, stat,
};
use super::runner::{RunnerSetup, work};
use super::slot::{AbandonedJob, Slots};
use super::wait::{WaitResult, block_signals, drain, readable, reap_of};

/// Most runners at once, and so most jobs that run at once.
pub(super) const MOST_RUNNERS: usize = 1024;

/// How long a supervisor waits for something to keep.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Runs as the supervisor of a data directory, in the background: returns control to whoever started
/// it as soon as jobs can be started. For the hidden command `supervise --data DIR`.
///
/// To be called from a process that has one thread, before anything else is set up.
pub fn supervisor_main(data: &Path) -> ! {
    let code = match daemonize(data) {
        Ok(()) => 0,
        Err(error) => {
            // Whoever started us reads it; a failure to tell can't be told.
            let text = format!("can't supervise jobs in {}: {error}\n", data.display());
            let _ = nix::unistd::write(io::stderr(), text.as_bytes());
            1
        }
    };
    std::process::exit(code)
}

#[expect(unsafe_code, reason = "std can't fork")]
fn daemonize(data: &Path) -> io::Result<()> {
    close_inherited();
    let data = fs::canonicalize(data)?;
    let (ready, tell) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: this process has one thread, so the child may do whatever it likes.
    match unsafe { fork() }? {
        ForkResult::Parent { .. } => {
            drop(tell);
            let mut said = [0];
            match nix::unistd::read(&ready, &mut said)? {
                0 => Err(io::Error::other("the supervisor died at its start")),
                _ => Ok(()),
            }
        }
        ForkResult::Child => {
            drop(ready);
            nix::unistd::setsid()?;
            supervise(&data, tell)
        }
    }
}

/// Closes what the process that started us had open: a web server's sockets, for a CGI script.
#[expect(unsafe_code, reason = "neither std nor nix closes a range of descriptors, nor does musl")]
fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor above standard error yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

fn supervise(data: &Path, tell: OwnedFd) -> io::Result<()> {
    let supervisor = data.join("supervisor");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&supervisor)?;
    let address = Address::new(data);
    let lock_file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(address.lock())?;
    if !lock(&lock_file)? {
        // Another one keeps this directory: the caller finds it.
        nix::unistd::write(&tell, b"k")?;
        return Ok(());
    }
    detach()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::prctl::set_name(c"fishplate-super")?;
    let listener = address.listen()?;
    let (life, hold) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    let (hears, notices) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let me = ProcessId::of(nix::unistd::getpid().as_raw())
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    let mut supervisor = Supervisor {
        me,
        signals: block_signals(&[])?,
        listener,
        lock_file,
        life,
        hold,
        hears,
        notices,
        slots: Slots::new(MOST_RUNNERS)?,
        runners: HashMap::new(),
        trees: Vec::new(),
        records: Vec::new(),
        idle_since: Instant::now(),
    };
    supervisor.fork_spare()?;
    nix::unistd::write(&tell, b"k")?;
    drop(tell);
    supervisor.run();
    // Not the socket's file: the next supervisor's may be there already.
    Ok(())
}

/// Lets go of the place and the streams of whoever started us.
#[expect(unsafe_code, reason = "signal dispositions")]
fn detach() -> io::Result<()> {
    std::env::set_current_dir("/")?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    // Whoever started us may ignore signals (a shell does so for what it starts with `&`), and our
    // programs would inherit that.
    for signal in Signal::iterator() {
        let handler = match signal {
            Signal::SIGKILL | Signal::SIGSTOP => continue,
            Signal::SIGPIPE => SigHandler::SigIgn,
            _ => SigHandler::SigDfl,
        };
        // SAFETY: neither ignoring a signal nor its default action runs a handler.
        unsafe { nix::sys::signal::signal(signal, handler) }?;
    }
    Ok(())
}

struct Supervisor {
    me: ProcessId,
    signals: SignalFd,
    listener: UnixListener,
    lock_file: File,
    /// Read end and write end of the pipe by which runners see that we are gone.
    life: OwnedFd,
    hold: OwnedFd,
    /// Read end and write end of the pipe by which runners say that they have a connection.
    hears: OwnedFd,
    notices: OwnedFd,
    slots: Slots,
    runners: HashMap<i32, RunnerProcess>,
    trees: Vec<OrphanedJob>,
    /// What is to be written into journals of inherited jobs.
    records: Vec<PendingRecord>,
    idle_since: Instant,
}

struct RunnerProcess {
    index: usize,
    busy: bool,
}

/// A job whose runner was killed.
struct OrphanedJob {
    start_message: StartMessage,
    /// The dead runner; the program is of its session.
    runner: ProcessId,
    tree: ProcessTree,
}

/// What is to be said of a job in its journal, as long as that is this dead runner's: who may start the job anew writes of
/// another start.
struct PendingRecord {
    directory: PathBuf,
    runner: ProcessId,
    entry: JournalEntry,
}

/// An orphan that was reaped.
struct ReapedOrphan {
    stat: Option<Stat>,
    pid: i32,
    status: ExitStatus,
    usage: WaitUsage,
}

impl Supervisor {
    fn run(&mut self) {
        loop {
            let wait = self.tend();
            if self.is_idle() && self.idle_since.elapsed() >= IDLE_TIME {
                return;
            }
            let ready = [Some(self.signals.as_fd()), Some(self.hears.as_fd())];
            let [signal, notice] = readable(ready, Some(wait));
            if notice {
                self.hear();
            }
            if signal {
                let requested = drain(&self.signals);
                self.bury();
                if requested {
                    self.look_for_requests();
                }
            }
            if !self.runners.values().any(|runner| !runner.busy) {
                // Out of processes or memory: tried again at the next event, or soon.
                let _ = self.fork_spare();
            }
        }
    }

    fn is_idle(&mut self) -> bool {
        let idle = self.trees.is_empty()
            && self.records.is_empty()
            && !self.runners.values().any(|runner| runner.busy);
        if !idle {
            self.idle_since = Instant::now();
        }
        idle
    }

    /// Forks a runner that waits for a connection.
    #[expect(unsafe_code, reason = "std can't fork")]
    fn fork_spare(&mut self) -> io::Result<()> {
        let taken: BTreeSet<usize> = self.runners.values().map(|runner| runner.index).collect();
        let Some(index) = (0..MOST_RUNNERS).find(|index| !taken.contains(index)) else {
            return Ok(());
        };
        // SAFETY: this process has one thread, so the child may do whatever it likes.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                self.runners.insert(child.as_raw(), RunnerProcess { index, busy: false });
                Ok(())
            }
            ForkResult::Child => {
                let code = i32::from(self.become_runner(index).is_err());
                std::process::exit(code)
            }
        }
    }

    /// In the child: what is the supervisor's alone is closed, so that it is free when the supervisor is
    /// gone.
    fn become_runner(&self, index: usize) -> io::Result<()> {
        let setup = RunnerSetup {
            index,
            slots: &self.slots,
            supervisor: self.me,
            listener: self.listener.try_clone()?,
            life: self.life.try_clone()?,
            notices: self.notices.try_clone()?,
        };
        let ours = [
            self.signals.as_fd().as_raw_fd(),
            self.listener.as_raw_fd(),
            self.lock_file.as_raw_fd(),
            self.life.as_raw_fd(),
            self.hold.as_raw_fd(),
            self.hears.as_raw_fd(),
            self.notices.as_raw_fd(),
        ];
        for fd in ours {
            close_copy(fd);
        }
        work(setup)
    }

    /// Notes which runners have a connection.
    fn hear(&mut self) {
        let mut said = [0; 4096];
        while let Ok(read) = nix::unistd::read(&self.hears, &mut said) {
            for notice in said[..read].as_chunks::<4>().0 {
                let index = u32::from_le_bytes(*notice) as usize;
                if let Some(runner) = self.runners.values_mut().find(|it| it.index == index) {
                    runner.busy = true;
                }
            }
            if read == 0 {
                break;
            }
        }
    }

    /// Reaps the dead. The jobs of dead runners are inherited before their orphans are looked at.
    fn bury(&mut self) {
        let mut dead = Vec::new();
        loop {
            // Looked at before it is reaped: then it still tells which session it was of.
            let flags = WaitPidFlag::WEXITED
                | WaitPidFlag::WNOHANG
                | WaitPidFlag::WNOWAIT
                | WaitPidFlag::__WALL;
            let Some(pid) = waitid(Id::All, flags).ok().and_then(|status| status.pid()) else {
                break;
            };
            let stat = stat(pid.as_raw());
            if let WaitResult::Reaped { pid, status, usage } = reap_of(pid.as_raw()) {
                dead.push(ReapedOrphan { stat, pid, status, usage });
            }
        }
        let mut orphans = Vec::new();
        for dead in dead {
            match self.runners.remove(&dead.pid) {
                Some(runner) => self.inherit(dead.pid, &runner),
                None => orphans.push(dead),
            }
        }
        self.identify(&orphans);
        for orphan in orphans {
            let session = orphan.stat.map(|stat| stat.session);
            let only = self.trees.len() == 1;
            let theirs = self.trees.iter_mut().find(|inherited| {
                only || inherited.tree.program == Some(orphan.pid)
                    || session == Some(inherited.runner.pid)
            });
            if let Some(inherited) = theirs {
                inherited.tree.reaped(orphan.pid, orphan.status, &orphan.usage);
            }
        }
    }

    /// Takes over the job of a dead runner, if it had one.
    fn inherit(&mut self, pid: i32, runner: &RunnerProcess) {
        let abandoned = self.slots.take(runner.index);
        let Some((mut inherited, cancelled)) = abandoned.and_then(|of| OrphanedJob::of(of, pid))
        else {
            return;
        };
        if cancelled {
            inherited.end(self.me, &self.runners, false);
            self.records.push(inherited.record(JournalEntry::Ending));
        }
        self.trees.push(inherited);
    }

    /// Finds the programs that their runners could not note before they were killed: the eldest
    /// of the runner's session that is a child of ours or just was.
    fn identify(&mut self, orphans: &[ReapedOrphan]) {
        let mut concluded = Vec::new();
        for (at, inherited) in self.trees.iter_mut().enumerate() {
            if inherited.tree.program.is_some() {
                continue;
            }
            let dead = orphans.iter().filter_map(|orphan| orphan.stat);
            let living = all().into_iter().filter(|stat| stat.parent == self.me.pid);
            let eldest = dead
                .chain(living)
                .filter(|stat| stat.session == inherited.runner.pid)
                .min_by_key(|stat| (stat.start, stat.pid));
            match eldest {
                Some(program) => {
                    inherited.tree.program = Some(program.pid);
                    inherited.tree.started = start_millis(program.id());
                }
                None => concluded.push(at),
            }
        }
        for at in concluded.into_iter().rev() {
            // We inherit every child of a runner, dead or alive: there never was one.
            let orphaned = self.trees.remove(at);
            let why = "its runner was killed before it started the program".to_owned();
            let refusal = StartRefusal::NotStarted(why);
            let fence = orphaned.start_message.fence;
            self.records.push(orphaned.record(JournalEntry::Refused { fence, refusal }));
        }
    }

    /// Writes what could be said of inherited jobs. Somebody who wanted to start one may hold its
    /// journal for a moment, until he has read that he must not.
    fn write_records(&mut self) {
        self.records.retain(|record| !record.write());
    }

    /// Looks in the journals of inherited jobs whether somebody asked for their end.
    fn look_for_requests(&mut self) {
        let only = self.trees.len() == 1;
        for inherited in &mut self.trees {
            let reading = read(&inherited.start_message.directory);
            if let Ok(Some(reading)) = reading
                && reading.run.is_some_and(|run| run.cancelled)
            {
                inherited.end(self.me, &self.runners, only);
                self.records.push(inherited.record(JournalEntry::Ending));
            }
        }
    }

    /// Does what is due for inherited jobs, and concludes those of which nothing is left.
    fn tend(&mut self) -> Duration {
        let mut wait = IDLE_TIME;
        let only = self.trees.len() == 1;
        let mut rest = Vec::new();
        for mut inherited in self.trees.drain(..) {
            let mine = |inherited: &OrphanedJob| inherited.members(self.me, &self.runners, only);
            if inherited.tree.has_ended() && !mine(&inherited).iter().any(Stat::is_alive) {
                let OrphanedJob { start_message, runner, tree } = inherited;
                let entry = JournalEntry::Ended { ending: Box::new(tree.finish()) };
                let directory = start_message.directory;
                self.records.push(PendingRecord { directory, runner, entry });
                continue;
            }
            let members = {
                let (me, runners) = (self.me, &self.runners);
                let start_message = inherited.start_message.clone();
                let (session, program) = (inherited.runner.pid, inherited.tree.living());
                move || members_of(&start_message, session, program, me, runners, only)
            };
            wait = wait.min(inherited.tree.drive(&members));
            rest.push(inherited);
        }
        self.trees = rest;
        self.write_records();
        if self.records.is_empty() { wait } else { wait.min(Duration::from_millis(5)) }
    }
}

impl PendingRecord {
    /// Writes it, if the journal is this runner's still. False while somebody holds the journal: to be tried again.
    fn write(&self) -> bool {
        match Journal::take_over(&self.directory) {
            Ok(TakeoverResult::Ours(mut journal)) => {
                if let Ok(Some(run)) = journal.run()
                    && run.author.runner == self.runner
                {
                    // A disk that is full: then nobody will ever know.
                    let _ = journal.write_after_death(&self.entry);
                }
                true
            }
            Ok(TakeoverResult::Held) => false,
            Ok(TakeoverResult::Missing) | Err(_) => true,
        }
    }
}

impl OrphanedJob {
    /// The job that a dead runner of this process ID had, and whether somebody asked for the job's end. None if the journal has its
    /// end, or no record of this runner: then that had started nothing, and the journal may be of another's start by now.
    fn of(abandoned: AbandonedJob, pid: i32) -> Option<(Self, bool)> {
        let AbandonedJob { order, program, status } = abandoned;
        let Ok(RunnerRequest::Start(start_message)) =
            serde_json::from_slice::<RunnerRequest<StartMessage>>(&order)
        else {
            return None;
        };
        let run = read(&start_message.directory).ok()??.run?;
        let runner = run.author.runner;
        let started = match run.phase {
            Phase::Ended(_) | Phase::Refused(_) => return None,
            _ if runner.pid != pid => return None,
            Phase::Started { time, .. } => time,
            Phase::Preparing | Phase::Intent => now_millis(),
        };
        let group = run.author.cgroup.map(JobGroup::at);
        let mut tree =
            ProcessTree::new(&start_message.directory, &start_message.plan, program, started)
                .in_group(group);
        if let (Some(program), Some(status)) = (program, status) {
            // The runner reaped it, or was about to: maybe nobody will tell us again.
            tree.reaped(program, status, &WaitUsage::default());
        }
        Some((Self { start_message, runner, tree }, run.cancelled))
    }

    fn members(
        &self,
        me: ProcessId,
        runners: &HashMap<i32, RunnerProcess>,
        only: bool,
    ) -> Vec<Stat> {
        let (session, program) = (self.runner.pid, self.tree.living());
        members_of(&self.start_message, session, program, me, runners, only)
    }

    /// What is to be written into its journal.
    fn record(&self, entry: JournalEntry) -> PendingRecord {
        let directory = self.start_message.directory.clone();
        PendingRecord { directory, runner: self.runner, entry }
    }

    /// Begins to end it, as somebody asked.
    fn end(&mut self, me: ProcessId, runners: &HashMap<i32, RunnerProcess>, only: bool) {
        let members = self.members(me, runners, only);
        self.tree.end(StopCause::Cancelled, &|| members.clone());
    }
}

/// What is left of a job whose runner is dead: what carries its ID, is of the runner's session, or
/// descends from such; and orphans of nobody known, if no other job can have left them.
///
/// A session is told by a number, which may have been given to a stranger since. Every process of
/// the runner's session descends from us, because we inherit a runner's orphans; a stranger does
/// not, and a living runner's number is that runner's own.
fn members_of(
    start_message: &StartMessage,
    session: i32,
    program: Option<i32>,
    me: ProcessId,
    runners: &HashMap<i32, RunnerProcess>,
    only: bool,
) -> Vec<Stat> {
    let processes = all();
    let mut seeds: BTreeSet<i32> =
        carriers(start_message.job, &processes).iter().map(|stat| stat.pid).collect();
    let descendants: BTreeSet<i32> =
        closure(&processes, BTreeSet::from([me.pid])).iter().map(|stat| stat.pid).collect();
    let reused = runners.contains_key(&session);
    for stat in &processes {
        // Another runner may be dead, but not buried yet; its job is not this one's.
        let others = runners.contains_key(&stat.pid) || runners.contains_key(&stat.session);
        let stray = only && stat.parent == me.pid && !others && job_of(stat.pid).is_none();
        let theirs = stat.session == session && !reused && descendants.contains(&stat.pid);
        if theirs || program == Some(stat.pid) || stray {
            seeds.insert(stat.pid);
        }
    }
    seeds.remove(&me.pid);
    closure(&processes, seeds)
}

#[expect(unsafe_code, reason = "closing what another owner in the parent process still has")]
fn close_copy(fd: i32) {
    // SAFETY: called in a forked child that never uses or drops the supervisor that owns it: it ends
    // by process::exit.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::executor::conformance::plan;
    use crate::executor::local::journal::JobOwner;
    use crate::process::boot;

    /// An order that a runner had when it was killed.
    fn abandoned(directory: &Path) -> AbandonedJob {
        let order = RunnerRequest::Start(StartMessage {
            job: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            fence: 1,
            directory: directory.to_owned(),
            sent: 0,
            cgroup: None,
            plan: Rc::new(plan("/bin/true", &[])),
        });
        AbandonedJob { order: serde_json::to_vec(&order).unwrap(), program: None, status: None }
    }

    fn intent(runner: ProcessId) -> JournalEntry {
        let supervisor = ProcessId { pid: 1, start: 1 };
        JournalEntry::Intent(JobOwner {
            fence: 1,
            boot: boot().to_owned(),
            runner,
            supervisor,
            cgroup: None,
            grace: 5.0,
        })
    }

    #[test]
    fn a_runner_leaves_what_it_had_begun_and_nothing_that_another_has_begun_since() {
        let directory = tempfile::tempdir().unwrap();
        assert!(OrphanedJob::of(abandoned(directory.path()), 7).is_none(), "there is no journal");
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        assert!(OrphanedJob::of(abandoned(directory.path()), 7).is_none(), "it says nothing");
        let runner = ProcessId { pid: 7, start: 3 };
        journal.write(&intent(runner)).unwrap();
        let (left, cancelled) = OrphanedJob::of(abandoned(directory.path()), 7).unwrap();
        assert_eq!((left.runner, cancelled), (runner, false));
        // Killed between its claim and its first record; the server gave the job to another.
        assert!(OrphanedJob::of(abandoned(directory.path()), 8).is_none(), "it is another's");
    }

    #[test]
    fn what_is_said_late_of_one_start_is_not_said_of_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let phase = || read(directory.path()).unwrap().unwrap().run.unwrap().phase;
        let [first, second] = [7, 8].map(|pid| ProcessId { pid, start: 3 });
        let of = |runner| {
            let refusal = StartRefusal::NotStarted("it was killed".to_owned());
            let entry = JournalEntry::Refused { fence: 1, refusal };
            PendingRecord { directory: directory.path().to_owned(), runner, entry }
        };
        let mut journal = Journal::claim(directory.path(), 1).unwrap().unwrap();
        journal.write(&intent(second)).unwrap();
        assert!(!of(first).write(), "it is held: later");
        drop(journal);
        assert!(of(first).write());
        assert_eq!(phase(), Phase::Intent, "nothing was written");
        assert!(of(second).write());
        assert!(matches!(phase(), Phase::Refused(_)));
    }
}
