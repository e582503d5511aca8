//! A control group (version 2) a job, where this process may make some: it holds all of the job's
//! processes, whatever they do, and ends them in one write.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fishplate_contract::JobId;

/// The group of one job.
#[derive(Debug)]
pub(super) struct JobGroup {
    path: PathBuf,
}

/// The directory in which groups for jobs may be made: the control group of this process, if it
/// was delegated to us (`Delegate=yes` of systemd, or an administrator's `chown`).
pub(super) fn delegated() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    if own == "/" {
        return None;
    }
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(at)
    })?;
    let path = Path::new(mount).join(own.trim_start_matches('/'));
    is_usable(&path).then_some(path)
}

/// Whether groups can be made in `parent`: tried, because modes don't tell.
pub(super) fn is_usable(parent: &Path) -> bool {
    let probe = parent.join(format!("fishplate-probe-{}", std::process::id()));
    let made = fs::create_dir(&probe).is_ok();
    let can_kill = probe.join("cgroup.kill").exists();
    made && fs::remove_dir(&probe).is_ok() && can_kill
}

impl JobGroup {
    /// Makes the group of a job, with its memory limit where the memory controller is there.
    pub(super) fn new(parent: &Path, job: JobId, memory: Option<u64>) -> io::Result<Self> {
        // Not possible where this process itself is in the parent; then polling does it.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
        let path = parent.join(format!("fishplate-{job}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let group = Self { path };
        if let Some(bytes) = memory {
            let _ = fs::write(group.path.join("memory.max"), bytes.to_string());
            let _ = fs::write(group.path.join("memory.swap.max"), "0");
        }
        Ok(group)
    }

    /// The group at this path, made before by another process.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a process writes `0` to enter.
    pub(super) fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(fs::File::options().write(true).open(self.path.join("cgroup.procs"))?.into())
    }

    /// Process IDs in it and below.
    pub(super) fn members(&self) -> Vec<i32> {
        let mut rest = vec![self.path.clone()];
        let mut members = Vec::new();
        while let Some(path) = rest.pop() {
            let list = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            members.extend(list.lines().filter_map(|pid| pid.parse::<i32>().ok()));
            let Ok(entries) = fs::read_dir(&path) else { continue };
            let directories = entries.flatten().filter(|it| it.path().is_dir());
            rest.extend(directories.map(|entry| entry.path()));
        }
        members
    }

    /// Kills all of them.
    pub(super) fn kill(&self) -> bool {
        fs::write(self.path.join("cgroup.kill"), "1").is_ok()
    }

    /// Whether the kernel killed in it because its memory limit was reached.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.field("memory.events", "oom_kill").is_some_and(|count| count > 0)
    }

    /// Processor seconds of all that ever ran in it.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let micros = self.field("cpu.stat", "usage_usec")?;
        Some(std::time::Duration::from_micros(micros).as_secs_f64())
    }

    /// Largest memory of all in it together.
    pub(super) fn max_memory(&self) -> Option<u64> {
        fs::read_to_string(self.path.join("memory.peak")).ok()?.trim().parse().ok()
    }

    /// Removes it; it has to be empty.
    pub(super) fn remove(&self) {
        // A job may have made groups below; deepest first.
        let mut rest = vec![self.path.clone()];
        let mut found = Vec::new();
        while let Some(path) = rest.pop() {
            if let Ok(entries) = fs::read_dir(&path) {
                let directories = entries.flatten().filter(|it| it.path().is_dir());
                rest.extend(directories.map(|entry| entry.path()));
            }
            found.push(path);
        }
        for path in found.iter().rev() {
            let _ = fs::remove_dir(path);
        }
    }

    fn field(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.path.join(file)).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }
}
