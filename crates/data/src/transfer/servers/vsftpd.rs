//! FTP by vsftpd.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::super::conformance::Cutter;
use super::{Server, allow, free_address, installed, open_directory};

/// The one account, beside anonymous.
pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "engine of 1843";

/// `openssl passwd -6` of it.
const HASH: &str = "$6$fishplatetests$5qcc.RQay9F4qQUPHCT49sQayLyut4zyiuRZCZZL8P0pMakEs5b1DasNyerqZvsw2QtOW4hPIUx8PgzRLXupq1";

/// A server with an anonymous user, who may write below `incoming`, and an account, which may write
/// everywhere.
#[derive(Debug)]
pub(crate) struct Vsftpd {
    pub(crate) server: Server,
}

impl Vsftpd {
    /// Starts one; `more` is appended to its settings.
    pub(crate) fn start(more: &str) -> Option<Self> {
        let program = installed("vsftpd", true)?;
        let directory = open_directory();
        let at = |name: &str| directory.path().join(name);
        for (name, mode) in [("root", 0o755), ("root/incoming", 0o777), ("empty", 0o555)] {
            fs::create_dir(at(name)).unwrap();
            allow(&at(name), mode);
        }
        // Its accounts are the system's: so it gets files of its own in the place of the system's, in
        // a mount namespace of its own.
        let pam = "auth required pam_unix.so\naccount required pam_permit.so\n\
                   session required pam_permit.so\n";
        fs::write(at("pam"), pam).unwrap();
        let users = fs::read_to_string("/etc/passwd").unwrap();
        fs::write(at("passwd"), format!("{users}{USER}:x:4242:4242::/:/bin/sh\n")).unwrap();
        fs::write(at("shadow"), format!("{USER}:{HASH}:19000:0:99999:7:::\n")).unwrap();
        let address = free_address();
        let settings = format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\n\
             anonymous_enable=YES\nno_anon_password=YES\nanon_root={root}\nanon_umask=022\n\
             anon_upload_enable=YES\nwrite_enable=YES\nlocal_enable=YES\nlocal_root={root}\n\
             chroot_local_user=YES\nallow_writeable_chroot=YES\nlocal_umask=022\n\
             secure_chroot_dir={empty}\npam_service_name=vsftpd\nmdtm_write=NO\n\
             seccomp_sandbox=NO\n{more}\n",
            port = address.port(),
            root = at("root").display(),
            empty = at("empty").display(),
        );
        fs::write(at("vsftpd.conf"), settings).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command.arg(
            "mount --bind pam /etc/pam.d/vsftpd; mount --bind passwd /etc/passwd; \
             mount --bind shadow /etc/shadow; exec \"$1\" \"$2\"",
        );
        command.arg("sh").args([program, at("vsftpd.conf")]).current_dir(directory.path());
        Some(Self { server: Server::start(command, address, directory) })
    }

    /// Where a file lies.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.server.directory.path().join("root").join(name)
    }
}

/// Passes control connections on to a server of FTP, and its data connections through a [`Cutter`].
#[derive(Debug)]
pub(crate) struct FtpCutter {
    pub(crate) address: SocketAddr,
    cut: Arc<AtomicU64>,
    /// What stands in answers to PASV instead of the server's address, if EPSV is to be refused.
    pub(crate) passive: Option<[u8; 4]>,
}

const NEVER: u64 = u64::MAX;

impl FtpCutter {
    /// Passes connections on to `target`. With `passive`, EPSV is unknown to the server, and its
    /// answers to PASV name that address.
    pub(crate) fn new(target: SocketAddr, passive: Option<[u8; 4]>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicU64::new(NEVER));
        let at = Arc::clone(&cut);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(near), Ok(far)) = (stream, TcpStream::connect(target)) else { continue };
                let (near_out, far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || commands(near, far_out, passive.is_some()));
                let at = Arc::clone(&at);
                thread::spawn(move || answers(far, near_out, &at, passive));
            }
        });
        Self { address, cut, passive }
    }

    /// Cuts the next data connection, once it has brought more than so many bytes.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.cut.store(bytes, Ordering::SeqCst);
    }
}

fn commands(near: TcpStream, mut far: TcpStream, no_epsv: bool) {
    let mut lines = BufReader::new(near);
    let mut line = String::new();
    while matches!(lines.read_line(&mut line), Ok(1..)) {
        if no_epsv && line.starts_with("EPSV") {
            line = "XEPSV\r\n".to_owned();
        }
        if far.write_all(line.as_bytes()).is_err() {
            break;
        }
        line.clear();
    }
    let _ = far.shutdown(std::net::Shutdown::Both);
}

fn answers(far: TcpStream, mut near: TcpStream, cut: &AtomicU64, passive: Option<[u8; 4]>) {
    let mut lines = BufReader::new(far);
    let mut line = String::new();
    while matches!(lines.read_line(&mut line), Ok(1..)) {
        if let Some(port) = data_port(&line) {
            let cutter = Cutter::new(SocketAddr::from(([127, 0, 0, 1], port)));
            match cut.swap(NEVER, Ordering::SeqCst) {
                NEVER => {}
                after => cutter.cut_after(after),
            }
            let port = cutter.address().port();
            line = match passive {
                None => format!("229 Entering Extended Passive Mode (|||{port}|)\r\n"),
                Some([a, b, c, d]) => {
                    let (high, low) = (port / 256, port % 256);
                    format!("227 Entering Passive Mode ({a},{b},{c},{d},{high},{low}).\r\n")
                }
            };
        }
        if near.write_all(line.as_bytes()).is_err() {
            break;
        }
        line.clear();
    }
    let _ = near.shutdown(std::net::Shutdown::Both);
}

/// The port in an answer to EPSV or PASV.
fn data_port(line: &str) -> Option<u16> {
    if line.starts_with("229 ") {
        return line.split('|').nth(3)?.parse().ok();
    }
    let numbers = line.strip_prefix("227 ")?.split_once('(')?.1.split_once(')')?.0;
    let mut last = numbers.rsplit(',').map(str::parse::<u16>);
    let (low, high) = (last.next()?.ok()?, last.next()?.ok()?);
    Some(high * 256 + low)
}
