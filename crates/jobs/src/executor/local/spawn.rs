//! Starting a plan's program.
//!
//! `Command` starts it by `posix_spawn` (a `vfork`) as long as nothing needs code between fork
//! and exec; that is several times cheaper than a fork. So limits that a process inherits are set
//! on the worker itself around the spawn. Only a job in a control group is forked, because it must
//! be in its group before it can have children.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fishplate_contract::JobId;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use super::cgroup::JobGroup;
use super::message::Refusal;
use super::procfs::JOB_VARIABLE;
use crate::plan::Plan;
use crate::workspace::{self, Stream, is_storage_full};

/// What a program is started with beside its plan.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) job: JobId,
    pub(super) directory: &'a Path,
    pub(super) plan: &'a Plan,
    pub(super) group: Option<&'a JobGroup>,
    /// Which worker starts it: spreads jobs with few processors over all of them.
    pub(super) worker: usize,
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// Where its streams go, to see how much there is.
    pub(super) stdout: File,
    pub(super) stderr: File,
}

/// Base environments by the path of their file, each read once: the file never changes.
#[derive(Debug, Default)]
pub(super) struct Environments {
    known: HashMap<PathBuf, Vec<(String, String)>>,
}

impl Environments {
    fn get(&mut self, path: &Path) -> io::Result<&[(String, String)]> {
        if !self.known.contains_key(path) {
            let variables: HashMap<String, String> = serde_json::from_slice(&fs::read(path)?)?;
            self.known.insert(path.to_path_buf(), variables.into_iter().collect());
        }
        Ok(&self.known[path])
    }
}

/// Starts the program in its workspace, which is prepared.
pub(super) fn spawn(
    start: &Start<'_>,
    environments: &mut Environments,
) -> Result<Spawned, Refusal> {
    let Start { job, directory, plan, group, worker } = start;
    let cannot = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| refusal_of(&error, format!("can't {what}: {error}"))
    };
    let stdout = workspace::create_stream(plan, directory, Stream::Stdout)
        .map_err(cannot("create the file for standard output"))?;
    let stderr = if plan.stderr.is_some() && plan.stderr == plan.stdout {
        stdout.try_clone().map_err(cannot("share the file for standard output"))?
    } else {
        workspace::create_stream(plan, directory, Stream::Stderr)
            .map_err(cannot("create the file for standard error"))?
    };
    let stdin = workspace::open_stdin(plan, directory)
        .map_err(cannot("open the file for standard input"))?;
    let mut command = Command::new(&plan.program);
    command.args(&plan.arguments).current_dir(workspace::work(directory)).process_group(0);
    command.env_clear();
    if let Some(path) = &plan.base_environment {
        let base = environments
            .get(path)
            .map_err(cannot(&format!("read the service's environment from {}", path.display())))?;
        command.envs(base.iter().map(|(name, value)| (name, value)));
    }
    command.envs(&plan.environment).env(JOB_VARIABLE, job.to_string());
    command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
    let clone = |file: &File| file.try_clone().map_err(cannot("share a file"));
    command.stdout(clone(&stdout)?).stderr(clone(&stderr)?);
    if let Some(group) = group {
        enter_group(&mut command, group.entrance().map_err(cannot("enter the control group"))?);
    }
    let limited = Inherited::set(plan, *worker).map_err(cannot("limit the program"))?;
    let spawned = command.spawn();
    limited.restore();
    match spawned {
        Ok(child) => {
            let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
            Ok(Spawned { pid, stdout, stderr })
        }
        Err(error) => Err(explain(&plan.program, &error)),
    }
}

#[expect(unsafe_code, reason = "the program must enter its group before it runs")]
fn enter_group(command: &mut Command, entrance: OwnedFd) {
    let enter = move || match nix::unistd::write(&entrance, b"0") {
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    };
    // SAFETY: after the fork it only calls write(2), which is async-signal-safe.
    unsafe { command.pre_exec(enter) };
}

/// What the worker takes upon itself so that the program inherits it.
#[derive(Debug)]
struct Inherited {
    file_size: Option<(u64, u64)>,
    processors: Option<CpuSet>,
}

impl Inherited {
    fn set(plan: &Plan, worker: usize) -> io::Result<Self> {
        let mut inherited = Self { file_size: None, processors: None };
        if let Some(most) = file_size(plan) {
            let before = getrlimit(Resource::RLIMIT_FSIZE)?;
            setrlimit(Resource::RLIMIT_FSIZE, most.min(before.1), before.1)?;
            inherited.file_size = Some(before);
        }
        if let Some(cores) = plan.limits.cores {
            let before = sched_getaffinity(Pid::from_raw(0))?;
            if let Some(few) = choose(&before, cores as usize, worker) {
                sched_setaffinity(Pid::from_raw(0), &few)?;
                inherited.processors = Some(before);
            }
        }
        Ok(inherited)
    }

    /// None of this can fail that did not fail before.
    fn restore(self) {
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
fn choose(allowed: &CpuSet, cores: usize, worker: usize) -> Option<CpuSet> {
    let there: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if cores == 0 || cores >= there.len() {
        return None;
    }
    let mut few = CpuSet::new();
    for next in 0..cores {
        few.set(there[(worker * cores + next) % there.len()]).ok()?;
    }
    Some(few)
}

/// A refusal that says what kind of trouble an error is.
pub(super) fn refusal_of(error: &io::Error, message: String) -> Refusal {
    if is_storage_full(error) {
        Refusal::StorageFull(message)
    } else {
        Refusal::NotStarted(message)
    }
}

/// Why a program did not start, as its owner can mend it.
fn explain(program: &Path, error: &io::Error) -> Refusal {
    let shown = program.display();
    let missing = |why: String| Refusal::ProgramMissing(format!("program {shown} {why}"));
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
    fn few_processors_are_spread_over_the_workers() {
        let mut allowed = CpuSet::new();
        for cpu in [1, 2, 5] {
            allowed.set(cpu).unwrap();
        }
        let chosen = |cores, worker| {
            let few = choose(&allowed, cores, worker)?;
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
            assert!(matches!(refusal, Refusal::ProgramMissing(_)), "{refusal:?}");
            assert!(refusal.message().contains(part), "{refusal:?}");
        };
        says(Path::new("/no/such"), libc::ENOENT, "does not exist");
        says(&script, libc::ENOENT, "/no/such/interpreter");
        says(&script, libc::EACCES, "chmod +x");
        says(directory.path(), libc::EACCES, "is a directory");
        says(&script, libc::ENOEXEC, "#!");
        let full = explain(&script, &io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(matches!(full, Refusal::StorageFull(_)));
        let busy = explain(&script, &io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(matches!(busy, Refusal::NotStarted(_)));
    }
}
