//! Jobs as any process of the same user can judge and end them, from their journals and `/proc`
//! alone: those of another server, and those whose server, runner or supervisor was killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use fishplate_contract::{JobId, Timestamp};
use nix::sys::signal::Signal;

use super::cgroup::JobGroup;
use super::journal::{
    self, JobOwner, Journal, JournalEntry, JournalReading, JournalState, Phase, TakeoverResult,
};
use super::orphan_exit::{OrphanStatus, OrphanWatch};
use super::procfs::{
    ProcessId, Stat, all, carriers, closure, now_millis, signal_all, start_millis,
};
use super::wait::CANCEL;
use crate::executor::{Observation, ProgramExit, RecoveredRun};

/// How a job stands.
pub(super) fn look(directory: &Path, job: JobId, orphan_watch: &OrphanWatch) -> Observation {
    let reading = match journal::read(directory) {
        Ok(Some(reading)) => reading,
        Ok(None) => return lost("it has no journal: it was removed, or never started here"),
        Err(error) => return Observation::Unclear(format!("its journal can't be read: {error}")),
    };
    let Some(run) = reading.run else {
        return if reading.held { starting() } else { lost("its supervisor was killed at once") };
    };
    if let Some(decided) = decided(&run) {
        return decided;
    }
    if reading.held {
        return match run.phase {
            Phase::Started { time, .. } => running(time),
            _ => starting(),
        };
    }
    if run.author.supervisor.is_alive() {
        return match run.phase {
            Phase::Started { program, time } if program.is_alive() => running(time),
            _ => {
                Observation::Unclear("its runner was killed; the supervisor takes over".to_owned())
            }
        };
    }
    // The supervisor may have noted the end and gone since the journal was read.
    if let Ok(Some(JournalReading { run: Some(run), .. })) = journal::read(directory)
        && let Some(decided) = decided(&run)
    {
        return decided;
    }
    orphaned(&run, directory, job, orphan_watch)
}

/// What the journal says for good.
fn decided(run: &JournalState) -> Option<Observation> {
    match &run.phase {
        Phase::Ended(ending) => Some(Observation::Ended(ending.clone())),
        Phase::Refused(refusal) => {
            Some(lost(&format!("it was not started: {}", refusal.message())))
        }
        Phase::Intent if !run.is_of_this_boot() => Some(lost(
            "the machine was restarted while the program was being started: \
             whether it ran can't be proved",
        )),
        _ if !run.is_of_this_boot() => Some(Observation::Died(
            "the program died with the machine, which was restarted before it had ended".to_owned(),
        )),
        _ => None,
    }
}

/// A job whose supervisors are all dead.
fn orphaned(
    run: &JournalState,
    directory: &Path,
    job: JobId,
    orphan_watch: &OrphanWatch,
) -> Observation {
    let processes = all();
    let carriers = carriers(job, &processes);
    match run.phase {
        Phase::Started { program, time } if program.is_alive() => {
            orphan_watch.watch(program);
            return running(time);
        }
        Phase::Intent if !carriers.is_empty() => {
            let eldest = carriers.iter().min_by_key(|stat| stat.start);
            return running(eldest.map_or(0, |stat| start_millis(stat.id())));
        }
        Phase::Intent => {
            // Between the end of the lock and the program's environment there are microseconds in
            // which it shows neither.
            std::thread::sleep(Duration::from_millis(20));
            return match self::carriers(job, &all()).first() {
                Some(stat) => running(start_millis(stat.id())),
                None => lost(
                    "its supervisors were killed while they started it: \
                     whether it ran can't be proved",
                ),
            };
        }
        Phase::Preparing => return lost("its supervisors were killed before they started it"),
        _ => {}
    }
    // The program is gone; so must be what it left.
    let left = members(&run.author, job, None, &processes);
    if left.iter().any(Stat::is_alive) {
        signal_all(&left, Signal::SIGKILL);
        return Observation::Unclear("ending the processes that it left".to_owned());
    }
    if let Phase::Started { program, time } = run.phase
        && let Some(status) = orphan_watch.status(program)
    {
        return witnessed(run, directory, time, status);
    }
    lost(
        "its supervisors were killed while it ran, so nobody saw its exit status; \
         what it wrote is in its workspace",
    )
}

/// The end of an orphan that we saw, noted for whoever reads the journal next.
fn witnessed(
    run: &JournalState,
    directory: &Path,
    started: i64,
    status: OrphanStatus,
) -> Observation {
    let mut ending = ProgramExit {
        started,
        ended: now_millis(),
        cancelled: run.cancelled,
        ..ProgramExit::default()
    };
    match status {
        OrphanStatus::Exited(code) => ending.exit_code = Some(code),
        OrphanStatus::Signalled(name) => ending.signal = Some(name),
    }
    let ending = Box::new(ending);
    if let Ok(TakeoverResult::Ours(mut journal)) = Journal::take_over(directory) {
        // If it cannot be written, the end is still told.
        let _ = journal.write_after_death(&JournalEntry::Ended { ending: ending.clone() });
    }
    Observation::Ended(ending)
}

fn lost(why: &str) -> Observation {
    Observation::Lost(why.to_owned())
}

fn starting() -> Observation {
    Observation::Unclear("it is being started".to_owned())
}

fn running(started: i64) -> Observation {
    Observation::Running { started: Timestamp(started) }
}

/// Reads what the journal of a job tells, and the fence under which it was last worked on.
///
/// # Errors
/// If its journal can't be read.
pub(super) fn recovered(directory: &Path) -> std::io::Result<(RecoveredRun, u64)> {
    let Some(JournalReading { run, held }) = journal::read(directory)? else {
        return Ok((RecoveredRun::NotStarted, 0));
    };
    let Some(run) = run else {
        return Ok((if held { RecoveredRun::Running } else { RecoveredRun::NotStarted }, 0));
    };
    let recovered = match run.phase {
        Phase::Ended(ending) => RecoveredRun::Ended(ending),
        _ if held => RecoveredRun::Running,
        Phase::Refused(_) | Phase::Preparing => RecoveredRun::NotStarted,
        Phase::Started { program, .. } if program.is_alive() => RecoveredRun::Running,
        Phase::Started { .. } | Phase::Intent => RecoveredRun::Unknown,
    };
    Ok((recovered, run.author.fence))
}

/// Whether a job was started.
#[derive(Debug, PartialEq)]
pub(super) enum StartEvidence {
    /// It was not, and nobody is about to.
    Never,
    /// It was, under this fence.
    Started(u64),
    /// Somebody is about to, under this fence; ask again.
    Pending(u64),
    /// Nobody can tell.
    Unproven(String),
}

/// Looks for the trace of a start.
pub(super) fn trace(directory: &Path, job: JobId, orphan_watch: &OrphanWatch) -> StartEvidence {
    let reading = match journal::read(directory) {
        Ok(Some(reading)) => reading,
        Ok(None) => return StartEvidence::Never,
        Err(error) => {
            return StartEvidence::Unproven(format!("the job's journal can't be read: {error}"));
        }
    };
    let JournalReading { run, held } = reading;
    let Some(run) = run else {
        return if held { StartEvidence::Pending(0) } else { StartEvidence::Never };
    };
    let fence = run.author.fence;
    match run.phase {
        Phase::Refused(_) if !held => StartEvidence::Never,
        Phase::Preparing if !held => StartEvidence::Never,
        Phase::Refused(_) | Phase::Preparing => StartEvidence::Pending(fence),
        Phase::Started { .. } | Phase::Ended(_) => StartEvidence::Started(fence),
        Phase::Intent if !run.is_of_this_boot() => StartEvidence::Started(fence),
        Phase::Intent if held || run.author.supervisor.is_alive() => StartEvidence::Pending(fence),
        Phase::Intent => match look(directory, job, orphan_watch) {
            Observation::Lost(why) => StartEvidence::Unproven(why),
            _ => StartEvidence::Started(fence),
        },
    }
}

/// Asks for the end of a job: of its runner, else of the supervisor, and waits until they know; if
/// both are dead, ends it here, which takes as long as the job's grace. Returns at once if it has
/// ended.
pub(super) fn end(directory: &Path, job: JobId) -> std::io::Result<()> {
    let give_up = Instant::now() + ANSWER_TIME;
    let mut asked: Option<ProcessId> = None;
    while Instant::now() < give_up {
        let Some(JournalReading { run: Some(run), held }) = journal::read(directory)? else {
            return Ok(());
        };
        if run.ending || decided(&run).is_some() {
            return Ok(());
        }
        if !run.cancelled {
            journal::note_cancel(directory, now_millis())?;
        }
        let JobOwner { runner, supervisor, .. } = run.author;
        // A process that is being killed still takes signals, but does nothing about them; so what
        // counts is the answer in the journal.
        let carer = if held && runner.is_alive() { runner } else { supervisor };
        if carer.is_alive() {
            if asked != Some(carer) && carer.signal(CANCEL) {
                asked = Some(carer);
            }
        } else if let TakeoverResult::Ours(journal) = Journal::take_over(directory)? {
            return end_here(journal, job);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How long supervisors may take to answer a request to end a job, before whoever asked has to
/// ask again.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Ends a job that nobody cares for, the lock of its journal being ours.
fn end_here(mut journal: Journal, job: JobId) -> std::io::Result<()> {
    let Some(run) = journal.run()? else { return Ok(()) };
    if decided(&run).is_some() {
        return Ok(());
    }
    let (program, started) = match run.phase {
        Phase::Started { program, time } => (Some(program), time),
        _ => (None, now_millis()),
    };
    let pid = program.filter(|program| program.is_alive()).map(|program| program.pid);
    let group = run.author.cgroup.clone().map(JobGroup::at);
    let mut swept = BTreeSet::new();
    let begin = Instant::now();
    let grace = Duration::try_from_secs_f64(run.author.grace).unwrap_or_default();
    let mut asked = false;
    loop {
        let living: Vec<Stat> =
            members(&run.author, job, pid, &all()).into_iter().filter(Stat::is_alive).collect();
        if living.is_empty() {
            break;
        }
        if !asked {
            asked = true;
            swept.extend(signal_all(&living, Signal::SIGTERM));
            signal_all(&living, Signal::SIGCONT);
        } else if begin.elapsed() >= grace {
            group.as_ref().map(JobGroup::kill);
            swept.extend(signal_all(&living, Signal::SIGKILL));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let by_group = group.is_some();
    if let Some(group) = group {
        group.remove();
    }
    if swept.is_empty() {
        // It had ended before we came; how, nobody saw.
        return Ok(());
    }
    swept.retain(|swept| Some(*swept) != pid);
    let ending = ProgramExit {
        started,
        ended: now_millis(),
        cancelled: true,
        ended_by: if by_group { "cgroup" } else { "sweep" }.to_owned(),
        swept: u32::try_from(swept.len()).unwrap_or(u32::MAX),
        ..ProgramExit::default()
    };
    journal.write_after_death(&JournalEntry::Ended { ending: Box::new(ending) })
}

/// The processes of a job whose supervisors are dead: its program, what carries its ID or is of
/// its runner's session, and all below them.
fn members(author: &JobOwner, job: JobId, program: Option<i32>, processes: &[Stat]) -> Vec<Stat> {
    let mut seeds: BTreeSet<i32> = carriers(job, processes).iter().map(|stat| stat.pid).collect();
    seeds.extend(program);
    // The runner's session is told by a number, which may long be another's: it is taken for the
    // job's only as long as something in it is provably of the job, and so keeps the number.
    let session = author.runner.pid;
    let proves = |stat: &&Stat| stat.session == session && seeds.contains(&stat.pid);
    if processes.iter().any(|stat| proves(&stat)) {
        let theirs = |stat: &&Stat| stat.session == session && stat.pid != session;
        seeds.extend(processes.iter().filter(theirs).map(|stat| stat.pid));
    }
    closure(processes, seeds)
}
