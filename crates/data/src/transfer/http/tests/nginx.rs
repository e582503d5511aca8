//! A real nginx.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::Server;

/// An nginx of our own, ended with this value.
pub(super) struct Nginx {
    directory: tempfile::TempDir,
    address: SocketAddr,
    process: Child,
    puts: AtomicU32,
}

impl Nginx {
    /// Starts one, if it is installed.
    pub(super) fn start() -> Option<Self> {
        let found = Command::new("nginx").arg("-v").stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let root = directory.path().join("www");
        std::fs::create_dir_all(root.join("put")).unwrap();
        std::fs::create_dir_all(root.join("closed")).unwrap();
        let at = directory.path().display();
        let configuration = format!(
            "daemon off; master_process off; worker_processes 1; pid {at}/pid; error_log {at}/errors;
             events {{ worker_connections 64; }}
             http {{
               access_log off; sendfile on; client_max_body_size 0;
               client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
               fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
               server {{
                 listen {address}; root {at}/www;
                 location /put/ {{ dav_methods PUT; }}
               }}
             }}"
        );
        let file = directory.path().join("conf");
        std::fs::write(&file, configuration).unwrap();
        let process = Command::new("nginx")
            .args(["-c", file.to_str().unwrap(), "-p", directory.path().to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(address).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Self { directory, address, process, puts: AtomicU32::new(0) })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server for Nginx {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.directory.path().join("www").join(name);
        std::fs::write(&path, bytes).unwrap();
        // nginx makes entity tags of time and length; whole seconds tell them apart.
        let nth = u64::from(self.puts.fetch_add(1, Ordering::SeqCst));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + nth);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory.path().join("www").join(name)).ok()
    }
}
