//! Inputs that others hold too, and that the program therefore must not write to: each is bound
//! read-only over itself in a mount namespace of the program's own. So neither a mode nor an owner
//! matters, not even to root; to all others the file is as it was.
//!
//! Root needs a mount namespace only. Others make a user namespace around it, in which they are who
//! they are; what they may do there is gone with the exec of the program. Root's program would still
//! be root: it loses, for good, the capabilities by which it could undo a mount or get at the
//! mounts of others. What it may open by another path it can still write to, as it can write to all
//! else that root owns.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::capability::{self, Capability};
use crate::workspace;

/// What a start fails with if the program could not be kept from its inputs: an error that no exec
/// gives.
pub(super) const UNGUARDED: i32 = libc::ENOANO;

/// What a guarded program of root gives up: to mount, unmount and enter other mount namespaces; to
/// reach into processes that are in others (`/proc/PID/root`); to open a file past all mounts by its
/// handle.
const GIVEN_UP: [Capability; 3] =
    [capability::SYS_ADMIN, capability::SYS_PTRACE, capability::DAC_READ_SEARCH];

/// What a program must not write to: files of its workspace, which is the working directory.
#[derive(Clone, Debug)]
pub(super) struct ReadOnlyInputs {
    files: Vec<String>,
    /// The one of them that is standard input: opened behind the guard, so that it is no way
    /// around it.
    stdin: Option<String>,
    identity: NamespaceIdentity,
}

impl ReadOnlyInputs {
    pub(super) fn new(files: Vec<String>, stdin: Option<&str>) -> Self {
        let stdin = stdin.filter(|stdin| files.iter().any(|file| file == stdin));
        Self { stdin: stdin.map(str::to_owned), files, identity: NamespaceIdentity::own() }
    }

    /// Makes the calling process one that can't write to the files. For a process that is about to
    /// be a program, and has one thread.
    pub(super) fn set(&self) -> io::Result<()> {
        let unguarded = |_| io::Error::from_raw_os_error(UNGUARDED);
        self.try_set().map_err(unguarded)
    }

    fn try_set(&self) -> io::Result<()> {
        self.identity.enter_namespace()?;
        for file in &self.files {
            let here = |file: &File| CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let place = workspace::open_path(Path::new("."), file)?;
            bind(&here(&place)?)?;
            // What is on top of it now.
            let bound = workspace::open_path(Path::new("."), file)?;
            make_read_only(&here(&bound)?)?;
        }
        self.identity.give_up_mounting()?;
        if let Some(stdin) = &self.stdin {
            let stdin = workspace::open_file(Path::new("."), stdin)?;
            nix::unistd::dup2_stdin(&stdin)?;
        }
        Ok(())
    }
}

/// Whether programs can be kept from their inputs here.
pub(super) fn works(directory: &Path) -> bool {
    let Ok(directory) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    let identity = NamespaceIdentity::own();
    let mut command = Command::new("/proc/self/exe");
    try_before_exec(&mut command, move || {
        identity.enter_namespace()?;
        bind(&directory)?;
        make_read_only(&directory)?;
        identity.give_up_mounting()
    });
    match command.spawn() {
        Ok(mut child) => child.wait().is_ok_and(|status| status.success()),
        Err(error) => {
            tracing::info!(%error, "inputs are copied: a program can't be kept from its inputs here");
            false
        }
    }
}

#[expect(unsafe_code, reason = "to see whether it works takes a process of its own")]
fn try_before_exec(
    command: &mut Command,
    attempt: impl Fn() -> nix::Result<()> + Send + Sync + 'static,
) {
    let attempt = move || {
        attempt()?;
        // SAFETY: ends this process, which is a child that nobody else waits for.
        unsafe { libc::_exit(0) }
    };
    // SAFETY: after the fork it makes system calls only, with strings that were made before.
    unsafe { command.pre_exec(attempt) };
}

/// Who this process is, in the words of a user namespace.
#[derive(Clone, Debug)]
struct NamespaceIdentity {
    user: String,
    group: String,
    is_root: bool,
}

impl NamespaceIdentity {
    fn own() -> Self {
        let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
        let is_root = user.is_root();
        Self { user: format!("{user} {user} 1"), group: format!("{group} {group} 1"), is_root }
    }

    /// Enters a mount namespace of its own, of which nothing gets out.
    fn enter_namespace(&self) -> nix::Result<()> {
        match unshare(CloneFlags::CLONE_NEWNS) {
            Err(Errno::EPERM) => {
                unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
                write(c"/proc/self/setgroups", "deny")?;
                write(c"/proc/self/uid_map", &self.user)?;
                write(c"/proc/self/gid_map", &self.group)?;
            }
            done => done?,
        }
        // Not private: what the machine mounts or unmounts later is seen by a long job too.
        let slaves = MsFlags::MS_REC | MsFlags::MS_SLAVE;
        mount(None::<&CStr>, c"/", None::<&CStr>, slaves, None::<&CStr>)
    }

    /// Takes from root what its mounts could be undone with, so that no exec gives it back.
    fn give_up_mounting(&self) -> nix::Result<()> {
        if self.is_root { capability::give_up(&GIVEN_UP) } else { Ok(()) }
    }
}

fn write(path: &CStr, text: &str) -> nix::Result<()> {
    let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::write(&file, text.as_bytes()).map(drop)
}

fn bind(place: &CStr) -> nix::Result<()> {
    mount(Some(place), place, None::<&CStr>, MsFlags::MS_BIND, None::<&CStr>)
}

/// Keeps what else its file system forbids, as the kernel demands of who is not root.
fn make_read_only(place: &CStr) -> nix::Result<()> {
    let own = statvfs(place).map_err(|error| Errno::from_raw(error.raw_os_error()))?.f_flag;
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    for (has, keep) in [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ] {
        if own.contains(has) {
            flags |= keep;
        }
    }
    mount(None::<&CStr>, place, None::<&CStr>, flags, None::<&CStr>)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::skipped::skipped;

    /// Who tries it: who we are (0), and if we are root somebody else too. For whom no file can be
    /// guarded, which is said, does not.
    fn users() -> Vec<u32> {
        let root = nix::unistd::geteuid().is_root();
        let mut users = vec![(0, "namespaces", "there are no mount namespaces")];
        if root {
            users.push((65534, "user-namespaces", "who is not root may make no namespaces"));
        }
        users.retain(|(user, what, why)| {
            let works = said(workspace().path(), "true", *user).is_some();
            if !works {
                skipped(what, why);
            }
            works
        });
        users.into_iter().map(|(user, ..)| user).collect()
    }

    /// What a script that tries to write to `input` says, as this user (0: as who we are).
    #[expect(unsafe_code, reason = "a guard is set between fork and exec")]
    fn said(directory: &Path, script: &str, user: u32) -> Option<String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(directory);
        let set = move || {
            if user > 0 {
                nix::unistd::setgid(user.into())?;
                nix::unistd::setuid(user.into())?;
            }
            ReadOnlyInputs::new(vec!["input".to_owned(), "sub/other".to_owned()], Some("input"))
                .set()
        };
        // SAFETY: it allocates after the fork, of a test process in which no other thread holds the
        // allocator's lock for ever: glibc takes care of that lock in a fork.
        unsafe { command.pre_exec(set) };
        let output = match command.output() {
            Err(error) if error.raw_os_error() == Some(UNGUARDED) => return None,
            output => output.unwrap(),
        };
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn workspace() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        for file in ["input", "sub/other", "free"] {
            fs::write(directory.path().join(file), "whole").unwrap();
            let all = fs::Permissions::from_mode(0o666);
            fs::set_permissions(directory.path().join(file), all).unwrap();
        }
        directory
    }

    const TRIES: &str = "cat; echo; \
        (echo x > input) 2>/dev/null && echo wrote; (echo x >> sub/other) 2>/dev/null && echo wrote; \
        (echo x 1<> /proc/self/fd/0 >&0) 2>/dev/null && echo wrote through; \
        chmod 666 input 2>/dev/null && echo chmod; truncate -s 0 input 2>/dev/null && echo cut; \
        rm -f input 2>/dev/null && echo removed; mv input away 2>/dev/null && echo moved; \
        ln input link 2>/dev/null && echo linked; \
        (echo x > free) && echo free; cat input sub/other";

    #[test]
    fn a_program_reads_what_it_can_not_write() {
        for user in users() {
            let directory = workspace();
            assert!(user > 0 || works(directory.path()));
            let said = said(directory.path(), TRIES, user).unwrap();
            assert_eq!(said, "whole\nfree\nwholewhole", "as user {user}");
            let kept = fs::read_to_string(directory.path().join("input")).unwrap();
            assert_eq!(kept, "whole");
        }
    }

    /// Each tries to get at the file without its mount.
    const UNDOING: [&str; 7] = [
        "umount input",
        "umount -l input",
        "mount -o remount,rw,bind input",
        "unshare -m sh -c 'umount input; echo undone > input'",
        "unshare -Urm sh -c 'umount input; mount -o remount,rw,bind input; echo undone > input'",
        "nsenter -m -t $OUTSIDE sh -c \"echo undone > '$PWD/input'\"",
        "echo undone > /proc/$OUTSIDE/root$PWD/input",
    ];

    #[test]
    fn a_program_can_not_undo_its_guard() {
        let outside = std::process::id().to_string();
        for user in users() {
            for undo in UNDOING {
                let directory = workspace();
                // Outside, the file is at hand to whoever gets there.
                let undo = undo.replace("$OUTSIDE", &outside);
                let script = format!("({undo}) >/dev/null 2>&1; echo undone > input; echo ran");
                let said = said(directory.path(), &script, user).unwrap();
                assert_eq!(said, "ran\n", "{undo} as user {user}");
                let kept = fs::read_to_string(directory.path().join("input")).unwrap();
                // Who is not root and has the same user outside may write there by the path.
                assert_eq!(kept, "whole", "{undo} as user {user}");
            }
        }
    }
}
