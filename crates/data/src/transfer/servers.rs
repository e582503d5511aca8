//! Real servers for the tests: each a child process with settings of its own, on a free port of the
//! loopback interface, ended with the test. `crates/data/servers.sh` installs them.

mod exim;
mod versitygw;
mod vsftpd;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::skipped::skipped;

pub(crate) use exim::{Exim, PASSWORD as MAIL_PASSWORD, USER as MAIL_USER};
pub(crate) use versitygw::{ACCESS, SECRET, Versitygw};
pub(crate) use vsftpd::{FtpCutter, PASSWORD, USER, Vsftpd};

/// How long a server may take to start, or a condition to come true.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of a test.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) directory: TempDir,
}

impl Server {
    /// Starts a program that listens on the address that `command` gave it.
    fn start(mut command: Command, address: SocketAddr, directory: TempDir) -> Self {
        let log = fs::File::create(directory.path().join("said")).unwrap();
        // vsftpd says there what it does not like of its settings.
        command.stdin(log.try_clone().unwrap());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = child.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let said = fs::read_to_string(directory.path().join("said")).unwrap_or_default();
                let _ = child.kill();
                panic!("{command:?} does not listen at {address} ({ended:?}): {said}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, address, directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens at. Another process may take it before the server does; then the
/// server ends, and the test says so.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A directory that other users may enter.
fn open_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    allow(directory.path(), 0o755);
    directory
}

/// Changes a file's mode.
pub(crate) fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The program of that name, or `None`, and why the test does nothing. Where the servers were
/// installed (`make test`), one that is missing fails (`FISHPLATE_REQUIRED`).
fn installed(program: &str, needs_root: bool) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/servers/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain([own, "/usr/sbin".into()]);
    let found = places.find_map(|place| Some(place.join(program)).filter(|file| file.is_file()));
    if found.is_none() {
        let missing = format!("{program} is not installed; crates/data/servers.sh does it");
        skipped("servers", &missing);
    } else if needs_root && !is_root() {
        skipped("root", &format!("{program} has to be started by root"));
        return None;
    }
    found
}

/// Waits until something is there.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
