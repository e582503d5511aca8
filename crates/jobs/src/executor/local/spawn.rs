//! Starting a plan's program.
//!
//! It is started by `posix_spawn` (a `vfork`), which is several times cheaper than a fork; std's
//! `Command` can do that too, but would hand on the signals that the runner has blocked. What a
//! process inherits and `posix_spawn` can't set (limits, processors, directory) is set on the
//! runner itself around the spawn. Only a job in a control group is forked, because it must be in
//! its group before it can have children, and one whose inputs are guarded.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fishplate_contract::JobId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::Pid;

use super::cgroup::JobGroup;
use super::message::StartRefusal;
use super::procfs::JOB_VARIABLE;
use super::read_only::{ReadOnlyInputs, UNGUARDED};
use crate::workspace::{self, OutputStream};
use fishplate_programs::plan::Plan;
use fishplate_programs::program::command_line::most_arguments;

/// What a program is started with beside its plan.
#[derive(Debug)]
pub(super) struct StartContext<'a> {
    pub(super) job: JobId,
    pub(super) directory: &'a Path,
    pub(super) plan: &'a Plan,
    pub(super) group: Option<&'a JobGroup>,
    /// Inputs that the program must not write to, because others hold them too.
    pub(super) guard: Option<&'a ReadOnlyInputs>,
    /// Which runner starts it: spreads jobs with few processors over all of them.
    pub(super) runner: usize,
}

/// Base environments by the path of their file, each read once: the file never changes.
#[derive(Debug, Default)]
pub(super) struct Environments {
    known: HashMap<PathBuf, Vec<(String, CString)>>,
}

impl Environments {
    /// The variables, each by its name and as `NAME=value`.
    fn get(&mut self, path: &Path) -> io::Result<&[(String, CString)]> {
        if !self.known.contains_key(path) {
            let variables: BTreeMap<String, String> = serde_json::from_slice(&fs::read(path)?)?;
            let variables: io::Result<_> = variables
                .into_iter()
                .map(|(name, value)| Ok((name.clone(), assignment(&name, &value)?)))
                .collect();
            self.known.insert(path.to_path_buf(), variables?);
        }
        Ok(&self.known[path])
    }
}

fn assignment(name: &str, value: &str) -> io::Result<CString> {
    CString::new(format!("{name}={value}")).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("variable {name} holds a NUL"))
    })
}

/// Starts the program in its workspace, which is prepared, and gives its process ID.
pub(super) fn spawn(
    start: &StartContext<'_>,
    environments: &mut Environments,
) -> Result<i32, SpawnError> {
    let StartContext { job, directory, plan, group, guard, runner } = start;
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| refusal_of(&error, format!("can't {what}: {error}"))
    };
    let stdout = workspace::create_stream(plan, directory, OutputStream::Stdout)
        .map_err(cannot("create the file for standard output"))?;
    let stderr = if plan.stderr.is_some() && plan.stderr == plan.stdout {
        stdout.try_clone().map_err(cannot("share the file for standard output"))?
    } else {
        workspace::create_stream(plan, directory, OutputStream::Stderr)
            .map_err(cannot("create the file for standard error"))?
    };
    let stdin = workspace::open_stdin(plan, directory)
        .map_err(cannot("open the file for standard input"))?;
    let base = match &plan.base_environment {
        Some(path) => environments
            .get(path)
            .map_err(cannot(&format!("read the service's environment from {}", path.display())))?,
        None => &[],
    };
    let own = own_variables(plan, *job).map_err(cannot("make the environment"))?;
    let image = ProcessImage {
        program: &plan.program,
        arguments: arguments(plan).map_err(cannot("make the arguments"))?,
        environment: base
            .iter()
            .filter(|(name, _)| name != JOB_VARIABLE && !plan.environment.contains_key(name))
            .map(|(_, variable)| variable.as_c_str())
            .chain(own.iter().map(CString::as_c_str))
            .collect(),
        streams: [stdin.as_ref(), Some(&stdout), Some(&stderr)],
    };
    let entrance = match group {
        Some(group) => Some(group.entrance().map_err(cannot("enter the control group"))?),
        None => None,
    };
    let limited = Inherited::set(plan, *runner, &workspace::work(directory))
        .map_err(cannot("limit the program"))?;
    let spawned = match (entrance, guard) {
        (None, None) => image.spawn(),
        (entrance, guard) => image.spawn_in(entrance, guard.cloned()),
    };
    limited.restore();
    spawned.map_err(|error| match error.raw_os_error() {
        Some(UNGUARDED) if guard.is_some() => SpawnError::Unguarded,
        _ => SpawnError::Refused(explain(&plan.program, &error)),
    })
}

/// A program that was not started.
#[derive(Debug)]
pub(super) enum SpawnError {
    /// It can't be kept from its inputs here.
    Unguarded,
    /// Anything else.
    Refused(StartRefusal),
}

impl From<StartRefusal> for SpawnError {
    fn from(refusal: StartRefusal) -> Self {
        Self::Refused(refusal)
    }
}

fn own_variables(plan: &Plan, job: JobId) -> io::Result<Vec<CString>> {
    let job = job.to_string();
    let variables = plan.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    variables
        .filter(|(name, _)| *name != JOB_VARIABLE)
        .chain([(JOB_VARIABLE, job.as_str())])
        .map(|(name, value)| assignment(name, value))
        .collect()
}

fn arguments(plan: &Plan) -> io::Result<Vec<CString>> {
    let program = plan.program.as_os_str().as_bytes();
    let words = plan.arguments.iter().map(String::as_bytes);
    let words = [program].into_iter().chain(words);
    let nul = |_| io::Error::new(io::ErrorKind::InvalidInput, "an argument holds a NUL");
    words.map(|word| CString::new(word).map_err(nul)).collect()
}

/// What becomes of a process.
struct ProcessImage<'a> {
    program: &'a Path,
    /// The first is the program's name.
    arguments: Vec<CString>,
    environment: Vec<&'a CStr>,
    /// Standard input, output and error. No input: the runner's own, which is empty.
    streams: [Option<&'a File>; 3],
}

impl ProcessImage<'_> {
    fn spawn(&self) -> io::Result<i32> {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
                | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        attributes.set_pgroup(Pid::from_raw(0))?;
        attributes.set_sigmask(&SigSet::empty())?;
        // All of them: those that are not named cost glibc two calls of the system each.
        attributes.set_sigdefault(&SigSet::all())?;
        let mut actions = PosixSpawnFileActions::init()?;
        for (number, stream) in (0..).zip(self.streams) {
            if let Some(stream) = stream {
                actions.add_dup2(stream.as_raw_fd(), number)?;
            }
        }
        let Self { program, arguments, environment, .. } = self;
        let pid = posix_spawn(*program, &actions, &attributes, arguments, environment)?;
        Ok(pid.as_raw())
    }

    /// The same, with code between fork and exec.
    fn spawn_in(
        &self,
        entrance: Option<OwnedFd>,
        guard: Option<ReadOnlyInputs>,
    ) -> io::Result<i32> {
        let os = |text: &CStr| OsStr::from_bytes(text.to_bytes()).to_owned();
        let mut command = Command::new(self.program);
        command.args(self.arguments[1..].iter().map(|word| os(word))).process_group(0).env_clear();
        for variable in &self.environment {
            let variable = variable.to_bytes();
            let equals = variable.iter().position(|byte| *byte == b'=').unwrap_or(0);
            let (name, value) = variable.split_at(equals);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
        }
        let [stdin, stdout, stderr] = self.streams;
        let stdio = |stream: Option<&File>| match stream {
            Some(stream) => stream.try_clone().map(Stdio::from),
            None => Ok(Stdio::null()),
        };
        command.stdin(stdio(stdin)?).stdout(stdio(stdout)?).stderr(stdio(stderr)?);
        before_exec(&mut command, entrance, guard);
        Ok(i32::try_from(command.spawn()?.id()).unwrap_or(i32::MAX))
    }
}

#[expect(
    unsafe_code,
    reason = "the program must be in its group and behind its guard before it runs"
)]
fn before_exec(command: &mut Command, entrance: Option<OwnedFd>, guard: Option<ReadOnlyInputs>) {
    let enter = move || {
        if let Some(entrance) = &entrance {
            nix::unistd::write(entrance, b"0")?;
        }
        if let Some(guard) = &guard {
            guard.set()?;
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        Ok(())
    };
    // SAFETY: a runner has one thread, so no lock is held by another when it forks, and what runs
    // after the fork may allocate.
    unsafe { command.pre_exec(enter) };
}

/// What the runner takes upon itself so that the program inherits it.
#[derive(Debug)]
struct Inherited {
    file_size: Option<(u64, u64)>,
    processors: Option<CpuSet>,
}

impl Inherited {
    fn set(plan: &Plan, runner: usize, work: &Path) -> io::Result<Self> {
        let mut inherited = Self { file_size: None, processors: None };
        match inherited.try_set(plan, runner, work) {
            Ok(()) => Ok(inherited),
            Err(error) => {
                inherited.restore();
                Err(error)
            }
        }
    }

    fn try_set(&mut self, plan: &Plan, runner: usize, work: &Path) -> io::Result<()> {
        nix::unistd::chdir(work)?;
        if let Some(most) = file_size(plan) {
            let before = getrlimit(Resource::RLIMIT_FSIZE)?;
            setrlimit(Resource::RLIMIT_FSIZE, most.min(before.1), before.1)?;
            self.file_size = Some(before);
        }
        if let Some(cores) = plan.limits.cores {
            let before = sched_getaffinity(Pid::from_raw(0))?;
            if let Some(few) = choose(&before, cores as usize, runner) {
                sched_setaffinity(Pid::from_raw(0), &few)?;
                self.processors = Some(before);
            }
        }
        Ok(())
    }

    /// None of this can fail that did not fail before.
    fn restore(self) {
        // Not to keep the workspace busy once the job is gone.
        let _ = nix::unistd::chdir("/");
        if let Some((soft, hard)) = self.file_size {
            let _ = setrlimit(Resource::RLIMIT_FSIZE, soft, hard);
        }
        if let Some(processors) = self.processors {
            let _ = sched_setaffinity(Pid::from_raw(0), &processors);
        }
    }
}

/// The size at which the kernel stops a file of the job: the hard stop behind the polled limits.
pub(super) fn file_size(plan: &Plan) -> Option<u64> {
    let limits = &plan.limits;
    // A log may be larger than all outputs may be together.
    limits.output_size.map(|most| most.max(limits.log_size).max(limits.value_size))
}

/// So many of the processors; `None` if those are all.
fn choose(allowed: &CpuSet, cores: usize, runner: usize) -> Option<CpuSet> {
    let there: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if cores == 0 || cores >= there.len() {
        return None;
    }
    let mut few = CpuSet::new();
    for next in 0..cores {
        few.set(there[(runner * cores + next) % there.len()]).ok()?;
    }
    Some(few)
}

/// A refusal that says what kind of trouble an error is.
pub(super) fn refusal_of(error: &io::Error, message: String) -> StartRefusal {
    if fishplate_formats::disk::is_full(error) {
        StartRefusal::StorageFull(message)
    } else if is_exhausted(error) {
        StartRefusal::Exhausted(message)
    } else {
        StartRefusal::NotStarted(message)
    }
}

/// Whether the host, or a limit on it, has no process or descriptor left. Want of memory is not told from a limit on the
/// program's own (RLIMIT_AS), under which it never starts.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE))
}

/// Why a program did not start, as its owner can mend it.
fn explain(program: &Path, error: &io::Error) -> StartRefusal {
    // Callers read it: the name is enough for them.
    let shown = program.file_name().unwrap_or_default().display();
    let missing = |why: String| StartRefusal::ProgramMissing(format!("program {shown} {why}"));
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) if !program.exists() => missing("does not exist".into()),
        Some(libc::ENOENT | libc::ENOTDIR) => match interpreter(program) {
            Some(interpreter) => missing(format!(
                "names the interpreter {interpreter} in its first line, which does not exist"
            )),
            None => missing("needs a loader or library that does not exist".into()),
        },
        Some(libc::EACCES) if program.is_dir() => missing("is a directory".into()),
        Some(libc::EACCES) if !is_executable(program) => {
            missing(format!("is not executable: chmod +x {shown}"))
        }
        Some(libc::EACCES) => missing("may not be executed by this user".into()),
        // They were short enough when they came: the environment has grown since, or the limit is lower.
        Some(libc::E2BIG) => {
            let most = format!("{} bytes", most_arguments());
            let text = format!(
                "the arguments and the environment of program {shown} are longer than the system \
                 takes, {most} together"
            );
            StartRefusal::TooLong(text, most)
        }
        Some(libc::ENOEXEC) => {
            missing("is neither for this machine nor begins with #! and an interpreter".into())
        }
        _ => refusal_of(error, format!("can't start program {shown}: {error}")),
    }
}

fn is_executable(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

fn interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    String::from_utf8_lossy(line).split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_are_spread_over_the_runners() {
        let mut allowed = CpuSet::new();
        for cpu in [1, 2, 5] {
            allowed.set(cpu).unwrap();
        }
        let chosen = |cores, runner| {
            let few = choose(&allowed, cores, runner)?;
            Some((0..8).filter(|cpu| few.is_set(*cpu).unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(chosen(1, 0), Some(vec![1]));
        assert_eq!(chosen(1, 1), Some(vec![2]));
        assert_eq!(chosen(2, 1), Some(vec![1, 5]));
        assert_eq!(chosen(3, 0), None);
        assert_eq!(chosen(64, 0), None);
    }

    #[test]
    fn what_keeps_a_program_from_starting_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#!/no/such/interpreter -x\n").unwrap();
        let says = |program: &Path, errno: i32, part: &str| {
            let refusal = explain(program, &io::Error::from_raw_os_error(errno));
            assert!(matches!(refusal, StartRefusal::ProgramMissing(_)), "{refusal:?}");
            assert!(refusal.message().contains(part), "{refusal:?}");
        };
        says(Path::new("/no/such"), libc::ENOENT, "does not exist");
        says(&script, libc::ENOENT, "/no/such/interpreter");
        says(&script, libc::EACCES, "chmod +x");
        says(directory.path(), libc::EACCES, "is a directory");
        says(&script, libc::ENOEXEC, "#!");
        let full = explain(&script, &io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(matches!(full, StartRefusal::StorageFull(_)));
        for errno in [libc::EAGAIN, libc::EMFILE, libc::ENFILE] {
            let exhausted = explain(&script, &io::Error::from_raw_os_error(errno));
            assert!(matches!(exhausted, StartRefusal::Exhausted(_)), "{exhausted:?}");
        }
        for errno in [libc::ENOMEM, libc::EIO] {
            let other = explain(&script, &io::Error::from_raw_os_error(errno));
            assert!(matches!(other, StartRefusal::NotStarted(_)), "{other:?}");
        }
    }
}
