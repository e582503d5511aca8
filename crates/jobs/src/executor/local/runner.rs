//! A runner: takes one connection, and runs the jobs that come over it, one after the other.
//! When the server at the other end is gone it finishes its job, notes the end in the journal,
//! and exits.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signalfd::SignalFd;

use super::cgroup::JobGroup;
use super::journal::{JobOwner, Journal, JournalEntry};
use super::message::{
    FrameReader, ORDER_TIME, RunnerReply, RunnerRequest, StartMessage, StartRefusal, put,
};
use super::process_tree::{ExitStatus, ProcessTree};
use super::procfs::{ProcessId, boot_millis};
use super::run::{Observer, Run, StartStage, watch};
use super::slot::{SLOT_SIZE, Slots};
use super::spawn::{Environments, refusal_of};
use super::wait::{block_signals, drain, readable};
use crate::process::boot;
use crate::workspace;
use fishplate_programs::plan::{Plan, SuccessRules};

/// What a runner gets from the supervisor that forked it.
#[derive(Debug)]
pub(super) struct RunnerSetup<'a> {
    pub(super) index: usize,
    pub(super) slots: &'a Slots,
    pub(super) supervisor: ProcessId,
    pub(super) listener: UnixListener,
    /// Closed on the other side when the supervisor is gone.
    pub(super) life: OwnedFd,
    /// Takes the index of a runner that has a connection.
    pub(super) notices: OwnedFd,
}

/// Runs as a runner until there is nothing more to do.
pub(super) fn work(setup: RunnerSetup<'_>) -> io::Result<()> {
    // Named before it leads a session, so that nobody takes it for another supervisor.
    nix::sys::prctl::set_name(c"fishplate-run")?;
    // A session of its own: the program can't leave it, so even of a program whose runner was
    // killed before it could note the process ID, the supervisor sees whose it was.
    nix::unistd::setsid()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals = block_signals(&[])?;
    let me = ProcessId::of(nix::unistd::getpid().as_raw())
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    let Some(stream) = accept(&setup)? else { return Ok(()) };
    let RunnerSetup { index, slots, supervisor, listener, life, notices } = setup;
    // A connection that waits to be accepted must not hang on a runner that is busy.
    drop(listener);
    let notice = u32::try_from(index).unwrap_or(u32::MAX).to_le_bytes();
    nix::unistd::write(&notices, &notice)?;
    let mut runner = Runner {
        index,
        slots,
        supervisor,
        me,
        life,
        signals,
        stream: Some(stream),
        frames: FrameReader::default(),
        environments: Environments::default(),
        signalled: false,
    };
    runner.serve()
}

fn accept(setup: &RunnerSetup<'_>) -> io::Result<Option<UnixStream>> {
    loop {
        let [connection, supervisor_gone] =
            readable([Some(setup.listener.as_fd()), Some(setup.life.as_fd())], None);
        if supervisor_gone {
            return Ok(None);
        }
        if connection {
            match setup.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(Some(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

struct Runner<'a> {
    index: usize,
    slots: &'a Slots,
    supervisor: ProcessId,
    me: ProcessId,
    life: OwnedFd,
    signals: SignalFd,
    /// `None` once the server is gone.
    stream: Option<UnixStream>,
    frames: FrameReader,
    environments: Environments,
    /// Somebody sent the signal to end a job.
    signalled: bool,
}

impl Runner<'_> {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.frames.next()? {
                let frame = frame.to_vec();
                match serde_json::from_slice(&frame)? {
                    RunnerRequest::Start(start_message) => self.run(&start_message, &frame)?,
                    // Its job ended while the request was on its way.
                    RunnerRequest::Cancel => {}
                }
            }
            let Some(stream) = &self.stream else { return Ok(()) };
            let [said, supervisor_gone] =
                readable([Some(stream.as_fd()), Some(self.life.as_fd())], None);
            if said {
                if self.listen()? == 0 {
                    return Ok(());
                }
            } else if supervisor_gone {
                return Ok(());
            }
        }
    }

    /// Reads what the server says; zero means it is gone.
    fn listen(&mut self) -> io::Result<usize> {
        let Some(stream) = &mut self.stream else { return Ok(0) };
        match self.frames.read_from(stream) {
            Ok(0) => {
                self.stream = None;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.stream = None;
                Ok(0)
            }
            done => done,
        }
    }

    fn say(&mut self, replies: &[&RunnerReply]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for reply in replies {
            put(reply, &mut bytes)?;
        }
        if let Some(stream) = &mut self.stream
            && stream.write_all(&bytes).is_err()
        {
            // It will find the end in the journal.
            self.stream = None;
        }
        Ok(())
    }

    fn run(&mut self, start_message: &StartMessage, frame: &[u8]) -> io::Result<()> {
        match self.begin(start_message, frame) {
            Ok(job) => self.care(job),
            Err(reply) => {
                self.slots.clear(self.index);
                self.say(&[&reply])
            }
        }
    }

    /// From an order to a program that runs, or the reply that it does not.
    fn begin(
        &mut self,
        start_message: &StartMessage,
        frame: &[u8],
    ) -> Result<StartedJob, RunnerReply> {
        if nix::unistd::getppid().as_raw() != self.supervisor.pid {
            return Err(RunnerReply::Retired);
        }
        let refused = |refusal| Err(RunnerReply::Refused(refusal));
        if boot_millis() - start_message.sent > ORDER_TIME {
            return refused(StartRefusal::NotStarted(
                "the order waited too long; try again".into(),
            ));
        }
        let order = remembered(start_message, frame).ok_or_else(|| {
            RunnerReply::Refused(StartRefusal::NotStarted("the plan is too large".into()))
        })?;
        let cannot = |what: &'static str| {
            move |error: io::Error| {
                RunnerReply::Refused(refusal_of(&error, format!("can't {what}: {error}")))
            }
        };
        let directory = &start_message.directory;
        workspace::make_directories(directory).map_err(cannot("make the job's directory"))?;
        let claim = Journal::claim(directory, start_message.fence);
        let Some(mut journal) = claim.map_err(cannot("open the job's journal"))? else {
            return Err(RunnerReply::Taken);
        };
        self.slots.occupy(self.index, &order);
        let group = match &start_message.cgroup {
            Some(parent) => {
                JobGroup::new(parent, start_message.job, start_message.plan.limits.memory).ok()
            }
            None => None,
        };
        let author = JobOwner {
            fence: start_message.fence,
            boot: boot().to_owned(),
            runner: self.me,
            supervisor: self.supervisor,
            cgroup: group.as_ref().map(|group| group.path().to_path_buf()),
            grace: start_message.plan.limits.kill_grace,
        };
        match self.start(start_message, &mut journal, &author, group.as_ref()) {
            Ok((program, started)) => {
                self.slots.started(self.index, program);
                let tree = ProcessTree::new(directory, &start_message.plan, Some(program), started)
                    .in_group(group);
                Ok(StartedJob { journal, tree })
            }
            Err(refusal) => {
                if let Some(group) = group {
                    group.remove();
                }
                // A refusal counts for the fence of the record before it.
                if matches!(journal.run(), Ok(None)) {
                    let _ = journal.write(&JournalEntry::Preparing(author));
                }
                let fence = start_message.fence;
                let record = JournalEntry::Refused { fence, refusal: refusal.clone() };
                // If this can't be written, the intent stays: it is never tried again.
                let _ = journal.write_after_death(&record);
                refused(refusal)
            }
        }
    }

    fn start(
        &mut self,
        start_message: &StartMessage,
        journal: &mut Journal,
        author: &JobOwner,
        group: Option<&JobGroup>,
    ) -> Result<(i32, i64), StartRefusal> {
        let StartMessage { job, directory, plan, .. } = start_message;
        let run = Run { job: *job, directory, plan, group, runner: self.index };
        run.start(&mut self.environments, &mut |stage| {
            let record = match stage {
                StartStage::Preparing => JournalEntry::Preparing(author.clone()),
                StartStage::Starting => JournalEntry::Intent(author.clone()),
            };
            journal.write(&record).map_err(|error| {
                refusal_of(&error, format!("can't write the job's journal: {error}"))
            })?;
            if stage == StartStage::Preparing {
                return Ok(());
            }
            journal.keep_room().map_err(|error| {
                refusal_of(&error, format!("can't keep room for the job's end: {error}"))
            })
        })
    }

    /// From a program that runs to its end.
    fn care(&mut self, job: StartedJob) -> io::Result<()> {
        let StartedJob { mut journal, tree } = job;
        let ending = watch(tree, &mut ProgramWatch { runner: self, journal: &mut journal })?;
        if journal.write(&JournalEntry::Ended { ending: ending.clone() }).is_err() {
            // The disk is full: what matters most fits the room that the journal has kept.
            // What it could not hold can be collected later.
            let bare = crate::executor::ProgramExit { collected: None, ..(*ending).clone() };
            let _ = journal.write_after_death(&JournalEntry::Ended { ending: Box::new(bare) });
        }
        self.slots.clear(self.index);
        drop(journal);
        self.say(&[&RunnerReply::Ended(ending)])
    }

    /// Waits for an event while the job runs. Tells whether the server asked for its end.
    fn hear(&mut self, wait: Duration) -> io::Result<bool> {
        let stream = self.stream.as_ref().map(|stream| stream.as_fd());
        let [signal, said] = readable([Some(self.signals.as_fd()), stream], Some(wait));
        if signal {
            self.signalled |= drain(&self.signals);
        }
        let mut cancel = false;
        if said {
            self.listen()?;
            // Nothing but Cancel may come while a job runs.
            while self.frames.next()?.is_some() {
                cancel = true;
            }
        }
        Ok(cancel)
    }

    /// Whether the signal that came is for this job: whoever sent it said so in the journal
    /// before; it may have been meant for the job that ran here a moment ago.
    fn told_to_end(&mut self, journal: &mut Journal) -> bool {
        let told = std::mem::take(&mut self.signalled)
            && journal.run().is_ok_and(|run| run.is_some_and(|run| run.cancelled));
        if told {
            // Not an error: whoever asked waits a little longer for the end itself.
            let _ = journal.write(&JournalEntry::Ending);
        }
        told
    }
}

/// A job whose program was started.
struct StartedJob {
    journal: Journal,
    tree: ProcessTree,
}

/// A runner while the program of its job runs.
struct ProgramWatch<'n, 'w> {
    runner: &'n mut Runner<'w>,
    journal: &'n mut Journal,
}

impl Observer for ProgramWatch<'_, '_> {
    fn running(&mut self, program: i32, started: i64) -> io::Result<()> {
        if let Some(program) = ProcessId::of(program) {
            // A full disk does not end the job; its start is in the intent.
            let _ = self.journal.write(&JournalEntry::Started { program, time: started });
        }
        self.runner.say(&[&RunnerReply::Started(started)])
    }

    /// Before it is reaped: who is killed in between leaves it to the supervisor, who is killed
    /// afterwards has told it.
    fn exited(&mut self, status: ExitStatus) {
        self.runner.slots.ended(self.runner.index, status);
    }

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        Ok(self.runner.hear(most)? || self.runner.told_to_end(self.journal))
    }
}

/// What the supervisor must know to go on with the job: the order as it came, or without what only the
/// start needs if it is large.
fn remembered<'f>(start_message: &StartMessage, frame: &'f [u8]) -> Option<Cow<'f, [u8]>> {
    if frame.len() <= SLOT_SIZE {
        return Some(Cow::Borrowed(frame));
    }
    let order = serde_json::to_vec(&RunnerRequest::Start(StartMessage {
        plan: Rc::new(Plan {
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inputs: Vec::new(),
            staged: Vec::new(),
            dimensions: fishplate_formats::dimension::Dimensions::default(),
            success: SuccessRules::default(),
            ..(*start_message.plan).clone()
        }),
        directory: start_message.directory.clone(),
        cgroup: start_message.cgroup.clone(),
        ..*start_message
    }));
    order.ok().filter(|order| order.len() <= SLOT_SIZE).map(Cow::Owned)
}
