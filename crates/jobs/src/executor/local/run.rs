//! One run of a plan in this process: its workspace is prepared, its program started and watched, and
//! what that leaves is collected. A runner does that for one order after the other and notes it in
//! its journal; [`run_plan`] does it once, for a batch system's job.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use fishplate_contract::{JobId, PlacementMethod};
use fishplate_formats::disk::FreeSpace;
use fishplate_formats::units;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use super::cgroup::JobGroup;
use super::message::StartRefusal;
use super::process_tree::{ExitStatus, ProcessTree, StopCause};
use super::procfs::{Stat, descendants, now_millis};
use super::read_only::ReadOnlyInputs;
use super::spawn::{Environments, SpawnError, StartContext, refusal_of, spawn};
use super::wait::{PeekResult, WaitResult, await_child, block_signals, peek, readable, reap_of};
use crate::executor::{ProgramExit, StartError};
use crate::workspace;
use fishplate_programs::plan::{InputContent, InputFile, Plan};

/// Programs that end within this time are told of once, as started and ended.
const SHORT: Duration = Duration::from_millis(2);

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartStage {
    /// The workspace is about to be prepared. Left out if there is nothing to prepare.
    Preparing,
    /// The program is about to be started: from now on it may have been.
    Starting,
}

/// What whoever runs a plan notes and hears while its program runs.
pub(super) trait Observer {
    /// The program runs, for longer than a moment.
    fn running(&mut self, program: i32, started: i64) -> io::Result<()>;

    /// The program is dead and is about to be reaped.
    fn exited(&mut self, status: ExitStatus);

    /// Waits until a child is dead, or something is said, or for so long. Tells whether the end of
    /// the job was asked for.
    fn wait(&mut self, most: Duration) -> io::Result<bool>;
}

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) job: JobId,
    pub(super) directory: &'a Path,
    pub(super) plan: &'a Plan,
    pub(super) group: Option<&'a JobGroup>,
    /// Which runner runs it: spreads jobs with few processors over all of them.
    pub(super) runner: usize,
}

impl Run<'_> {
    /// Prepares the workspace and starts the program: its process, and when.
    pub(super) fn start(
        &self,
        environments: &mut Environments,
        note: &mut dyn FnMut(StartStage) -> Result<(), StartRefusal>,
    ) -> Result<(i32, i64), StartRefusal> {
        let Self { job, directory, plan, group, runner } = *self;
        let reserve = plan.limits.disk_reserve;
        if let Ok(free) = FreeSpace::at(directory)
            && free.room() < reserve
        {
            return Err(StartRefusal::StorageFull(format!(
                "{free} on the file system of the jobs, less than {} (disk_reserve)",
                units::exact(reserve)
            )));
        }
        if !plan.inputs.is_empty() || !plan.staged.is_empty() {
            note(StartStage::Preparing)?;
            prepare(plan, directory)?;
        }
        note(StartStage::Starting)?;
        let linked = linked_inputs(plan);
        let guard =
            (!linked.is_empty()).then(|| ReadOnlyInputs::new(linked, plan.stdin.as_deref()));
        let mut start = StartContext { job, directory, plan, group, guard: guard.as_ref(), runner };
        let started = now_millis();
        match spawn(&start, environments) {
            Err(SpawnError::Unguarded) => {}
            done => return done.map(|program| (program, started)).map_err(StartRefusal::from),
        }
        // It can't be kept from the others' files here, so it gets files of its own.
        for path in linked_inputs(plan) {
            workspace::make_private_input(directory, &path)
                .map_err(|error| refusal_of(&error, format!("can't copy input {path}: {error}")))?;
        }
        start.guard = None;
        let program = spawn(&start, environments)?;
        Ok((program, started))
    }
}

fn prepare(plan: &Plan, directory: &Path) -> Result<(), StartRefusal> {
    workspace::prepare(plan, directory)
        .map_err(|error| refusal_of(&error.source, format!("{error}: {}", error.source)))
}

/// Files of the workspace that others hold too.
fn linked_inputs(plan: &Plan) -> Vec<String> {
    let linked = |input: &&InputFile| match &input.content {
        InputContent::Fetched(fetched) => fetched.placed == PlacementMethod::Link.name(),
        _ => false,
    };
    plan.inputs.iter().filter(linked).map(|input| input.path.clone()).collect()
}

impl From<SpawnError> for StartRefusal {
    fn from(not: SpawnError) -> Self {
        match not {
            SpawnError::Refused(refusal) => refusal,
            SpawnError::Unguarded => {
                Self::NotStarted("the program can't be kept from its inputs".to_owned())
            }
        }
    }
}

/// Watches a program that this process started until it has ended with all that it left behind, and
/// collects what is in its workspace.
pub(super) fn watch(
    mut tree: ProcessTree,
    observer: &mut dyn Observer,
) -> io::Result<Box<ProgramExit>> {
    await_child(SHORT);
    let mut told = false;
    let mut empty = collect_dead(&mut tree, observer);
    while !(empty && tree.has_ended()) {
        if !std::mem::replace(&mut told, true)
            && let Some(program) = tree.program
        {
            observer.running(program, tree.started)?;
        }
        let most = tree.drive(&members);
        if observer.wait(most)? {
            tree.end(StopCause::Cancelled, &members);
        }
        empty = collect_dead(&mut tree, observer);
    }
    let (plan, directory) = (tree.plan.clone(), tree.directory.clone());
    let mut ending = tree.finish();
    ending.collected = Some(workspace::collect(&plan, &directory, &ending));
    Ok(Box::new(ending))
}

/// Reaps what is dead. True if no child is left, and with them no descendant: orphans of all
/// depths become children of this process.
fn collect_dead(tree: &mut ProcessTree, observer: &mut dyn Observer) -> bool {
    loop {
        match peek() {
            PeekResult::Dead(pid, status) => {
                if tree.program == Some(pid) {
                    observer.exited(status);
                }
                if let WaitResult::Reaped { pid, status, usage } = reap_of(pid) {
                    tree.reaped(pid, status, &usage);
                }
            }
            PeekResult::Alive => return false,
            PeekResult::None => return true,
        }
    }
}

/// All that the job has started: this process has no other children.
fn members() -> Vec<Stat> {
    descendants(nix::unistd::getpid().as_raw())
}

/// Runs a plan in this process, which has one thread and no other children: prepares the workspace in
/// `directory`, starts the program, watches its limits, ends what it leaves behind, and collects its
/// outputs. SIGTERM and SIGINT end the job as killed on request.
///
/// # Errors
/// Why the program was not started; [`StartError::Unproven`] if it was, and could not be watched.
pub fn run_plan(job: JobId, plan: Plan, directory: &Path) -> Result<ProgramExit, StartError> {
    let not_started = |error: io::Error| StartError::NotStarted(error.to_string());
    // What a program reads whose plan names no file.
    let nothing = File::open("/dev/null").map_err(not_started)?;
    nix::unistd::dup2_stdin(&nothing).map_err(|error| not_started(error.into()))?;
    nix::sys::prctl::set_child_subreaper(true).map_err(|error| not_started(error.into()))?;
    let signals = block_signals(&STOPS).map_err(|error| not_started(error.into()))?;
    workspace::make_directories(directory).map_err(not_started)?;
    let run = Run { job, directory, plan: &plan, group: None, runner: 0 };
    let (program, started) = run.start(&mut Environments::default(), &mut |_| Ok(()))?;
    let tree = ProcessTree::new(directory, &Rc::new(plan), Some(program), started);
    let ending = watch(tree, &mut Signals(signals));
    ending.map(|ending| *ending).map_err(|error| StartError::Unproven(error.to_string()))
}

/// Signals by which a batch system ends its job.
const STOPS: [Signal; 2] = [Signal::SIGTERM, Signal::SIGINT];

/// Hears of nothing but signals.
struct Signals(SignalFd);

impl Observer for Signals {
    fn running(&mut self, _: i32, _: i64) -> io::Result<()> {
        Ok(())
    }

    fn exited(&mut self, _: ExitStatus) {}

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        readable([Some(self.0.as_fd())], Some(most));
        let mut stop = false;
        while let Ok(Some(info)) = self.0.read_signal() {
            stop |= STOPS.iter().any(|it| i32::try_from(info.ssi_signo) == Ok(*it as i32));
        }
        Ok(stop)
    }
}
