//! A worker: takes one connection, and runs the jobs that come over it, one after the other.
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
use super::journal::{Author, Journal, Record};
use super::message::{Ask, Frames, ORDER_TIME, Posting, Refusal, Reply, put};
use super::procfs::{ProcessId, boot, boot_millis};
use super::run::{Observer, Run, Stage, watch};
use super::slot::{SLOT_SIZE, Slots};
use super::spawn::{Environments, refusal_of};
use super::wait::{block_signals, drain, readable};
use super::ward::{Status, Ward};
use crate::plan::{Plan, SuccessRules};
use crate::workspace;

/// What a worker gets from the keeper that forked it.
#[derive(Debug)]
pub(super) struct Birth<'a> {
    pub(super) index: usize,
    pub(super) slots: &'a Slots,
    pub(super) keeper: ProcessId,
    pub(super) listener: UnixListener,
    /// Closed on the other side when the keeper is gone.
    pub(super) life: OwnedFd,
    /// Takes the index of a worker that has a connection.
    pub(super) notices: OwnedFd,
}

/// Runs as a worker until there is nothing more to do.
pub(super) fn work(birth: Birth<'_>) -> io::Result<()> {
    // Named before it leads a session, so that nobody takes it for another keeper.
    nix::sys::prctl::set_name(c"fishplate-work")?;
    // A session of its own: the program can't leave it, so even of a program whose worker was
    // killed before it could note the process ID, the keeper sees whose it was.
    nix::unistd::setsid()?;
    nix::sys::prctl::set_child_subreaper(true)?;
    let signals = block_signals(&[])?;
    let me = ProcessId::of(nix::unistd::getpid().as_raw())
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    let Some(stream) = accept(&birth)? else { return Ok(()) };
    let Birth { index, slots, keeper, listener, life, notices } = birth;
    // A connection that waits to be accepted must not hang on a worker that is busy.
    drop(listener);
    let notice = u32::try_from(index).unwrap_or(u32::MAX).to_le_bytes();
    nix::unistd::write(&notices, &notice)?;
    let mut worker = Worker {
        index,
        slots,
        keeper,
        me,
        life,
        signals,
        stream: Some(stream),
        frames: Frames::default(),
        environments: Environments::default(),
        signalled: false,
    };
    worker.serve()
}

fn accept(birth: &Birth<'_>) -> io::Result<Option<UnixStream>> {
    loop {
        let [connection, keeper_gone] =
            readable([Some(birth.listener.as_fd()), Some(birth.life.as_fd())], None);
        if keeper_gone {
            return Ok(None);
        }
        if connection {
            match birth.listener.accept() {
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

struct Worker<'a> {
    index: usize,
    slots: &'a Slots,
    keeper: ProcessId,
    me: ProcessId,
    life: OwnedFd,
    signals: SignalFd,
    /// `None` once the server is gone.
    stream: Option<UnixStream>,
    frames: Frames,
    environments: Environments,
    /// Somebody sent the signal to end a job.
    signalled: bool,
}

impl Worker<'_> {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            while let Some(frame) = self.frames.next()? {
                let frame = frame.to_vec();
                match serde_json::from_slice(&frame)? {
                    Ask::Start(posting) => self.run(&posting, &frame)?,
                    // Its job ended while the request was on its way.
                    Ask::Cancel => {}
                }
            }
            let Some(stream) = &self.stream else { return Ok(()) };
            let [said, keeper_gone] =
                readable([Some(stream.as_fd()), Some(self.life.as_fd())], None);
            if said {
                if self.listen()? == 0 {
                    return Ok(());
                }
            } else if keeper_gone {
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

    fn say(&mut self, replies: &[&Reply]) -> io::Result<()> {
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

    fn run(&mut self, posting: &Posting, frame: &[u8]) -> io::Result<()> {
        match self.begin(posting, frame) {
            Ok(job) => self.care(job),
            Err(reply) => {
                self.slots.clear(self.index);
                self.say(&[&reply])
            }
        }
    }

    /// From an order to a program that runs, or the reply that it does not.
    fn begin(&mut self, posting: &Posting, frame: &[u8]) -> Result<Job, Reply> {
        if nix::unistd::getppid().as_raw() != self.keeper.pid {
            return Err(Reply::Retired);
        }
        let refused = |refusal| Err(Reply::Refused(refusal));
        if boot_millis() - posting.sent > ORDER_TIME {
            return refused(Refusal::NotStarted("the order waited too long; try again".into()));
        }
        let order = remembered(posting, frame)
            .ok_or_else(|| Reply::Refused(Refusal::NotStarted("the plan is too large".into())))?;
        let cannot = |what: &'static str| {
            move |error: io::Error| {
                Reply::Refused(refusal_of(&error, format!("can't {what}: {error}")))
            }
        };
        let directory = &posting.directory;
        workspace::make_directories(directory).map_err(cannot("make the job's directory"))?;
        let claim = Journal::claim(directory, posting.fence);
        let Some(mut journal) = claim.map_err(cannot("open the job's journal"))? else {
            return Err(Reply::Taken);
        };
        self.slots.occupy(self.index, &order);
        let group = match &posting.cgroup {
            Some(parent) => JobGroup::new(parent, posting.job, posting.plan.limits.memory).ok(),
            None => None,
        };
        let author = Author {
            fence: posting.fence,
            boot: boot().to_owned(),
            worker: self.me,
            keeper: self.keeper,
            cgroup: group.as_ref().map(|group| group.path().to_path_buf()),
            grace: posting.plan.limits.kill_grace,
        };
        match self.start(posting, &mut journal, &author, group.as_ref()) {
            Ok((program, started)) => {
                self.slots.started(self.index, program);
                let ward =
                    Ward::new(directory, &posting.plan, Some(program), started).in_group(group);
                Ok(Job { journal, ward })
            }
            Err(refusal) => {
                if let Some(group) = group {
                    group.remove();
                }
                // A refusal counts for the fence of the record before it.
                if matches!(journal.run(), Ok(None)) {
                    let _ = journal.write(&Record::Preparing(author));
                }
                let fence = posting.fence;
                let record = Record::Refused { fence, refusal: refusal.clone() };
                // If this can't be written, the intent stays: it is never tried again.
                let _ = journal.write_after_death(&record);
                refused(refusal)
            }
        }
    }

    fn start(
        &mut self,
        posting: &Posting,
        journal: &mut Journal,
        author: &Author,
        group: Option<&JobGroup>,
    ) -> Result<(i32, i64), Refusal> {
        let Posting { job, directory, plan, .. } = posting;
        let run = Run { job: *job, directory, plan, group, worker: self.index };
        run.start(&mut self.environments, &mut |stage| {
            let record = match stage {
                Stage::Preparing => Record::Preparing(author.clone()),
                Stage::Starting => Record::Intent(author.clone()),
            };
            journal.write(&record).map_err(|error| {
                refusal_of(&error, format!("can't write the job's journal: {error}"))
            })?;
            if stage == Stage::Preparing {
                return Ok(());
            }
            journal.keep_room().map_err(|error| {
                refusal_of(&error, format!("can't keep room for the job's end: {error}"))
            })
        })
    }

    /// From a program that runs to its end.
    fn care(&mut self, job: Job) -> io::Result<()> {
        let Job { mut journal, ward } = job;
        let ending = watch(ward, &mut Watching { worker: self, journal: &mut journal })?;
        if journal.write(&Record::Ended { ending: ending.clone() }).is_err() {
            // The disk is full: what matters most fits the room that the journal has kept.
            // What it could not hold can be collected later.
            let bare = crate::executor::Ending { collected: None, ..(*ending).clone() };
            let _ = journal.write_after_death(&Record::Ended { ending: Box::new(bare) });
        }
        self.slots.clear(self.index);
        drop(journal);
        self.say(&[&Reply::Ended(ending)])
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
            let _ = journal.write(&Record::Ending);
        }
        told
    }
}

/// A job whose program was started.
struct Job {
    journal: Journal,
    ward: Ward,
}

/// A worker while the program of its job runs.
struct Watching<'n, 'w> {
    worker: &'n mut Worker<'w>,
    journal: &'n mut Journal,
}

impl Observer for Watching<'_, '_> {
    fn running(&mut self, program: i32, started: i64) -> io::Result<()> {
        if let Some(program) = ProcessId::of(program) {
            // A full disk does not end the job; its start is in the intent.
            let _ = self.journal.write(&Record::Started { program, time: started });
        }
        self.worker.say(&[&Reply::Started(started)])
    }

    /// Before it is reaped: who is killed in between leaves it to the keeper, who is killed
    /// afterwards has told it.
    fn exited(&mut self, status: Status) {
        self.worker.slots.ended(self.worker.index, status);
    }

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        Ok(self.worker.hear(most)? || self.worker.told_to_end(self.journal))
    }
}

/// What the keeper must know to go on with the job: the order as it came, or without what only the
/// start needs if it is large.
fn remembered<'f>(posting: &Posting, frame: &'f [u8]) -> Option<Cow<'f, [u8]>> {
    if frame.len() <= SLOT_SIZE {
        return Some(Cow::Borrowed(frame));
    }
    let order = serde_json::to_vec(&Ask::Start(Posting {
        plan: Rc::new(Plan {
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inputs: Vec::new(),
            staged: Vec::new(),
            dimensions: fishplate_formats::dimension::Dimensions::default(),
            success: SuccessRules::default(),
            ..(*posting.plan).clone()
        }),
        directory: posting.directory.clone(),
        cgroup: posting.cgroup.clone(),
        ..*posting
    }));
    order.ok().filter(|order| order.len() <= SLOT_SIZE).map(Cow::Owned)
}
