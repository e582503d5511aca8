//! Where the supervisors of a data directory are found.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::message::VERSION;

/// Longest path that a Unix socket's address holds.
const LONGEST: usize = 107;

/// The socket and the lock of a data directory's supervisor.
#[derive(Debug)]
pub(super) struct Address {
    directory: PathBuf,
}

/// A path by which the socket can be reached, as long as this lives.
#[derive(Debug)]
pub(super) struct SocketPath {
    pub(super) path: PathBuf,
    _directory: Option<File>,
}

impl Address {
    pub(super) fn new(data: &Path) -> Self {
        Self { directory: data.join("supervisor") }
    }

    /// Held by the supervisor.
    pub(super) fn lock(&self) -> PathBuf {
        self.directory.join(format!("lock.{VERSION}"))
    }

    /// The socket, by a path that an address can hold: if the data directory's is too long, by the
    /// directory's descriptor.
    pub(super) fn socket(&self) -> io::Result<SocketPath> {
        let name = format!("socket.{VERSION}");
        let path = self.directory.join(&name);
        if path.as_os_str().len() <= LONGEST {
            return Ok(SocketPath { path, _directory: None });
        }
        let directory = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(&self.directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()));
        Ok(SocketPath { path, _directory: Some(directory) })
    }

    /// Makes the socket anew. Only who holds the lock may.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        let reach = self.socket()?;
        match std::fs::remove_file(&reach.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // As many connections wait as the system allows (net.core.somaxconn).
        let listener = UnixListener::bind(&reach.path)?;
        // Several runners may see the same connection coming.
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_long_data_directory_has_a_socket_too() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("d".repeat(150));
        std::fs::create_dir_all(data.join("supervisor")).unwrap();
        let address = Address::new(&data);
        let _listener = address.listen().unwrap();
        let reach = address.socket().unwrap();
        assert!(reach.path.as_os_str().len() <= LONGEST);
        UnixStream::connect(&reach.path).unwrap();
    }
}
