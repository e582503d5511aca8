//! The keeper: one a data directory. It forks workers, so that there is always one that waits for
//! a connection; and it inherits the jobs of workers that were killed. It ends when nothing is
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
use super::journal::{Journal, Phase, Record, TakenOver, lock, read};
use super::message::{Ask, Posting, Refusal};
use super::procfs::{
    ProcessId, Stat, all, carriers, closure, job_of, now_millis, start_millis, stat,
};
use super::slot::{Left, Slots};
use super::wait::{Wait, block_signals, drain, readable, reap_of};
use super::ward::{Cause, Status, Usage, Ward};
use super::worker::{Birth, work};

/// Most workers at once, and so most jobs that run at once.
pub(super) const MOST_WORKERS: usize = 1024;

/// How long a keeper waits for something to keep.
const IDLE_TIME: Duration = Duration::from_secs(5);

/// Runs as the keeper of a data directory, in the background: returns control to whoever started
/// it as soon as jobs can be started. For the hidden command `supervise --data DIR`.
///
/// To be called from a process that has one thread, before anything else is set up.
pub fn keeper_main(data: &Path) -> ! {
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
                0 => Err(io::Error::other("the keeper died at its start")),
                _ => Ok(()),
            }
        }
        ForkResult::Child => {
            drop(ready);
            nix::unistd::setsid()?;
            keep(&data, tell)
        }
    }
}

/// Closes what the process that started us had open: a web server's sockets, for a CGI script.
#[expect(unsafe_code, reason = "neither std nor nix closes a range of descriptors")]
fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor above standard error yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}

fn keep(data: &Path, tell: OwnedFd) -> io::Result<()> {
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
    nix::sys::prctl::set_name(c"fishplate-keep")?;
    let listener = address.listen()?;
    let (life, hold) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    let (hears, notices) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    let me = ProcessId::of(nix::unistd::getpid().as_raw())
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    let mut keeper = Keeper {
        me,
        signals: block_signals(&[])?,
        listener,
        lock_file,
        life,
        hold,
        hears,
        notices,
        slots: Slots::new(MOST_WORKERS)?,
        workers: HashMap::new(),
        wards: Vec::new(),
        records: Vec::new(),
        idle_since: Instant::now(),
    };
    keeper.fork_spare()?;
    nix::unistd::write(&tell, b"k")?;
    drop(tell);
    keeper.run();
    // Not the socket's file: the next keeper's may be there already.
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

struct Keeper {
    me: ProcessId,
    signals: SignalFd,
    listener: UnixListener,
    lock_file: File,
    /// Read end and write end of the pipe by which workers see that we are gone.
    life: OwnedFd,
    hold: OwnedFd,
    /// Read end and write end of the pipe by which workers say that they have a connection.
    hears: OwnedFd,
    notices: OwnedFd,
    slots: Slots,
    workers: HashMap<i32, Worker>,
    wards: Vec<Inherited>,
    /// What is to be written into journals of inherited jobs.
    records: Vec<(PathBuf, Record)>,
    idle_since: Instant,
}

struct Worker {
    index: usize,
    busy: bool,
}

/// A job whose worker was killed.
struct Inherited {
    posting: Posting,
    /// The dead worker; it is the session of the program.
    session: i32,
    ward: Ward,
}

/// An orphan that was reaped.
struct Dead {
    stat: Option<Stat>,
    pid: i32,
    status: Status,
    usage: Usage,
}

impl Keeper {
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
            if !self.workers.values().any(|worker| !worker.busy) {
                // Out of processes or memory: tried again at the next event, or soon.
                let _ = self.fork_spare();
            }
        }
    }

    fn is_idle(&mut self) -> bool {
        let idle = self.wards.is_empty()
            && self.records.is_empty()
            && !self.workers.values().any(|worker| worker.busy);
        if !idle {
            self.idle_since = Instant::now();
        }
        idle
    }

    /// Forks a worker that waits for a connection.
    #[expect(unsafe_code, reason = "std can't fork")]
    fn fork_spare(&mut self) -> io::Result<()> {
        let taken: BTreeSet<usize> = self.workers.values().map(|worker| worker.index).collect();
        let Some(index) = (0..MOST_WORKERS).find(|index| !taken.contains(index)) else {
            return Ok(());
        };
        // SAFETY: this process has one thread, so the child may do whatever it likes.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                self.workers.insert(child.as_raw(), Worker { index, busy: false });
                Ok(())
            }
            ForkResult::Child => {
                let code = i32::from(self.become_worker(index).is_err());
                std::process::exit(code)
            }
        }
    }

    /// In the child: what is the keeper's alone is closed, so that it is free when the keeper is
    /// gone.
    fn become_worker(&self, index: usize) -> io::Result<()> {
        let birth = Birth {
            index,
            slots: &self.slots,
            keeper: self.me,
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
        work(birth)
    }

    /// Notes which workers have a connection.
    fn hear(&mut self) {
        let mut said = [0; 4096];
        while let Ok(read) = nix::unistd::read(&self.hears, &mut said) {
            for notice in said[..read].as_chunks::<4>().0 {
                let index = u32::from_le_bytes(*notice) as usize;
                if let Some(worker) = self.workers.values_mut().find(|it| it.index == index) {
                    worker.busy = true;
                }
            }
            if read == 0 {
                break;
            }
        }
    }

    /// Reaps the dead. The jobs of dead workers are inherited before their orphans are looked at.
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
            if let Wait::Reaped { pid, status, usage } = reap_of(pid.as_raw()) {
                dead.push(Dead { stat, pid, status, usage });
            }
        }
        let mut orphans = Vec::new();
        for dead in dead {
            match self.workers.remove(&dead.pid) {
                Some(worker) => self.inherit(dead.pid, &worker),
                None => orphans.push(dead),
            }
        }
        self.identify(&orphans);
        for orphan in orphans {
            let session = orphan.stat.map(|stat| stat.session);
            let only = self.wards.len() == 1;
            let theirs = self.wards.iter_mut().find(|inherited| {
                only || inherited.ward.program == Some(orphan.pid)
                    || session == Some(inherited.session)
            });
            if let Some(inherited) = theirs {
                inherited.ward.reaped(orphan.pid, orphan.status, &orphan.usage);
            }
        }
    }

    /// Takes over the job of a dead worker, if it had one.
    fn inherit(&mut self, session: i32, worker: &Worker) {
        let Some(Left { order, program, status }) = self.slots.take(worker.index) else { return };
        let Ok(Ask::Start(posting)) = serde_json::from_slice::<Ask<Posting>>(&order) else {
            return;
        };
        let Ok(Some(reading)) = read(&posting.directory) else { return };
        let Some(run) = reading.run else { return };
        let started = match run.phase {
            Phase::Ended(_) | Phase::Refused(_) => return,
            Phase::Started { time, .. } => time,
            Phase::Preparing | Phase::Intent => now_millis(),
        };
        let group = run.author.cgroup.map(JobGroup::at);
        let mut ward =
            Ward::new(&posting.directory, &posting.plan, program, started).in_group(group);
        if let (Some(program), Some(status)) = (program, status) {
            // The worker reaped it, or was about to: maybe nobody will tell us again.
            ward.reaped(program, status, &Usage::default());
        }
        let mut inherited = Inherited { posting, session, ward };
        if run.cancelled {
            inherited.end(self.me, &self.workers, false);
            self.records.push((inherited.posting.directory.clone(), Record::Ending));
        }
        self.wards.push(inherited);
    }

    /// Finds the programs that their workers could not note before they were killed: the eldest
    /// of the worker's session that is a child of ours or just was.
    fn identify(&mut self, orphans: &[Dead]) {
        let mut concluded = Vec::new();
        for (at, inherited) in self.wards.iter_mut().enumerate() {
            if inherited.ward.program.is_some() {
                continue;
            }
            let dead = orphans.iter().filter_map(|orphan| orphan.stat);
            let living = all().into_iter().filter(|stat| stat.parent == self.me.pid);
            let eldest = dead
                .chain(living)
                .filter(|stat| stat.session == inherited.session)
                .min_by_key(|stat| (stat.start, stat.pid));
            match eldest {
                Some(program) => {
                    inherited.ward.program = Some(program.pid);
                    inherited.ward.started = start_millis(program.id());
                }
                None => concluded.push(at),
            }
        }
        for at in concluded.into_iter().rev() {
            // We inherit every child of a worker, dead or alive: there never was one.
            let Inherited { posting, .. } = self.wards.remove(at);
            let why = "its supervisor was killed before it started the program".to_owned();
            let refusal = Refusal::NotStarted(why);
            let record = Record::Refused { fence: posting.fence, refusal };
            self.records.push((posting.directory, record));
        }
    }

    /// Writes what could be said of inherited jobs. Somebody who wanted to start one may hold its
    /// journal for a moment, until he has read that he must not.
    fn write_records(&mut self) {
        self.records.retain(|(directory, record)| match Journal::take_over(directory) {
            Ok(TakenOver::Ours(mut journal)) => {
                // A disk that is full: then nobody will ever know.
                let _ = journal.write_after_death(record);
                false
            }
            Ok(TakenOver::Held) => true,
            Ok(TakenOver::Missing) | Err(_) => false,
        });
    }

    /// Looks in the journals of inherited jobs whether somebody asked for their end.
    fn look_for_requests(&mut self) {
        let only = self.wards.len() == 1;
        for inherited in &mut self.wards {
            let reading = read(&inherited.posting.directory);
            if let Ok(Some(reading)) = reading
                && reading.run.is_some_and(|run| run.cancelled)
            {
                inherited.end(self.me, &self.workers, only);
                self.records.push((inherited.posting.directory.clone(), Record::Ending));
            }
        }
    }

    /// Does what is due for inherited jobs, and concludes those of which nothing is left.
    fn tend(&mut self) -> Duration {
        let mut wait = IDLE_TIME;
        let only = self.wards.len() == 1;
        let mut rest = Vec::new();
        for mut inherited in self.wards.drain(..) {
            let mine = |inherited: &Inherited| inherited.members(self.me, &self.workers, only);
            if inherited.ward.has_ended() && !mine(&inherited).iter().any(Stat::is_alive) {
                let Inherited { posting, ward, .. } = inherited;
                let ending = Box::new(ward.finish());
                self.records.push((posting.directory, Record::Ended { ending }));
                continue;
            }
            let members = {
                let (me, workers) = (self.me, &self.workers);
                let posting = inherited.posting.clone();
                let (session, program) = (inherited.session, inherited.ward.living());
                move || members_of(&posting, session, program, me, workers, only)
            };
            wait = wait.min(inherited.ward.drive(&members));
            rest.push(inherited);
        }
        self.wards = rest;
        self.write_records();
        if self.records.is_empty() { wait } else { wait.min(Duration::from_millis(5)) }
    }
}

impl Inherited {
    fn members(&self, me: ProcessId, workers: &HashMap<i32, Worker>, only: bool) -> Vec<Stat> {
        members_of(&self.posting, self.session, self.ward.living(), me, workers, only)
    }

    /// Begins to end it, as somebody asked.
    fn end(&mut self, me: ProcessId, workers: &HashMap<i32, Worker>, only: bool) {
        let members = self.members(me, workers, only);
        self.ward.end(Cause::Cancelled, &|| members.clone());
    }
}

/// What is left of a job whose worker is dead: what carries its ID, is of the worker's session, or
/// descends from such; and orphans of nobody known, if no other job can have left them.
///
/// A session is told by a number, which may have been given to a stranger since. Every process of
/// the worker's session descends from us, because we inherit a worker's orphans; a stranger does
/// not, and a living worker's number is that worker's own.
fn members_of(
    posting: &Posting,
    session: i32,
    program: Option<i32>,
    me: ProcessId,
    workers: &HashMap<i32, Worker>,
    only: bool,
) -> Vec<Stat> {
    let processes = all();
    let mut seeds: BTreeSet<i32> =
        carriers(posting.job, &processes).iter().map(|stat| stat.pid).collect();
    let descendants: BTreeSet<i32> =
        closure(&processes, BTreeSet::from([me.pid])).iter().map(|stat| stat.pid).collect();
    let reused = workers.contains_key(&session);
    for stat in &processes {
        // Another worker may be dead, but not buried yet; its job is not this one's.
        let others = workers.contains_key(&stat.pid) || workers.contains_key(&stat.session);
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
    // SAFETY: called in a forked child that never uses or drops the keeper that owns it: it ends
    // by process::exit.
    unsafe { libc::close(fd) };
}
