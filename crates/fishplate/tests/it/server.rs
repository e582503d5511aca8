//! A server under test: started on a free port, stopped or killed by its own process ID only, and
//! started again on the same port and data.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::processes::{self, kill_all};
use crate::run::on;

/// The binary under test.
pub(crate) const FISHPLATE: &str = env!("CARGO_BIN_EXE_fishplate");

/// However slow the machine is, nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server and the directory it lives in: programs, data, log.
pub(crate) struct Server {
    dir: TempDir,
    arguments: Vec<String>,
    /// Variables of its environment.
    environment: Vec<(String, String)>,
    called: Option<String>,
    child: Option<Child>,
    /// Its data directory, if that is another server's.
    data: Option<PathBuf>,
    /// Where it runs, if not on this machine ([`crate::networks`]).
    machine: Option<String>,
    /// Where it was told to listen, if what it publishes is another address.
    listens: Option<SocketAddr>,
    /// How many services it will tell of.
    expected: usize,
    /// `NAME URL` of each service.
    services: Vec<(String, String)>,
}

impl Server {
    /// A directory for a server that is not started yet.
    pub(crate) fn prepare() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            arguments: Vec::new(),
            environment: Vec::new(),
            called: None,
            child: None,
            data: None,
            machine: None,
            listens: None,
            expected: 1,
            services: Vec::new(),
        }
    }

    /// With these variables in its environment.
    pub(crate) fn in_environment(mut self, variables: &[(&str, &str)]) -> Self {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.environment.extend(owned);
        self
    }

    /// The same on the data directory of another server.
    pub(crate) fn prepare_beside(other: &Self) -> Self {
        Self::prepare_on(other.data())
    }

    /// The same on a data directory that is there.
    pub(crate) fn prepare_on(data: PathBuf) -> Self {
        let mut server = Self::prepare();
        server.data = Some(data);
        server
    }

    /// A service `test` of this command line, whose program is a shell script of this text. In the
    /// text, `DIR` stands for the server's directory.
    pub(crate) fn of_script(script: &str, slots: &[&str]) -> Self {
        let mut server = Self::prepare();
        server.script("program", script);
        let mut line = vec!["-n", "test", "--", "./program"];
        line.extend(slots);
        server.serve(&line);
        server
    }

    /// A service described by this file (TOML).
    pub(crate) fn of_file(script: &str, description: &str) -> Self {
        let mut server = Self::prepare();
        server.script("program", script);
        fs::write(server.path("service.toml"), description).unwrap();
        server.serve(&["service.toml"]);
        server
    }

    /// Puts a shell script into the server's directory.
    pub(crate) fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        let dir = self.dir.path().to_str().unwrap();
        fs::write(&path, format!("#!/bin/sh\n{}\n", text.replace("DIR", dir))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts `fishplate serve` with these words, and `--listen` and `--data` before them.
    pub(crate) fn serve(&mut self, words: &[&str]) {
        self.arguments = words.iter().map(|word| (*word).to_owned()).collect();
        self.start(&free_address().to_string());
    }

    /// The same with so many services.
    pub(crate) fn serve_many(&mut self, services: usize, words: &[&str]) {
        self.expected = services;
        self.serve(words);
    }

    /// The same, publishing addresses that begin with this URL.
    pub(crate) fn serve_behind(&mut self, public_url: &str, words: &[&str]) {
        let free = free_address();
        self.listens = Some(free);
        let words = [&["--public-url", public_url], words].concat();
        self.arguments = words.iter().map(|word| (*word).to_owned()).collect();
        self.start(&free.to_string());
    }

    /// The same on another machine, at this address.
    pub(crate) fn serve_on(&mut self, machine: &str, listen: &str, words: &[&str]) {
        self.machine = Some(machine.to_owned());
        self.listens = Some(listen.parse().unwrap());
        self.arguments = words.iter().map(|word| (*word).to_owned()).collect();
        self.start(listen);
    }

    /// The same under another name of the binary, without the word `serve`.
    pub(crate) fn serve_as(&mut self, called: &str, words: &[&str]) {
        self.called = Some(called.to_owned());
        self.serve(words);
    }

    /// Starts it, once its port is free: a process that a killed server was just making may still
    /// have its socket.
    fn start(&mut self, listen: &str) {
        let begun = Instant::now();
        let told = self.log().len();
        while !self.try_start(listen) {
            let log = self.log();
            let taken = log[told..].contains("cannot listen at") && begun.elapsed() < PATIENCE;
            assert!(taken, "the server did not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_start(&mut self, listen: &str) -> bool {
        assert!(self.child.is_none(), "the server runs already");
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = on(self.machine.as_deref());
        match &self.called {
            Some(called) => {
                command.arg0(called);
            }
            None => {
                command.arg("serve");
            }
        }
        command.args(["--listen", listen, "--data"]).arg(self.data());
        command.args(&self.arguments).current_dir(self.dir.path()).env_remove("GATEWAY_INTERFACE");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut services = Vec::new();
        while services.len() < self.expected {
            let Some(Ok(line)) = lines.next() else {
                child.wait().unwrap();
                return false;
            };
            let (name, url) = line.split_once(' ').expect("NAME URL");
            services.push((name.to_owned(), url.to_owned()));
        }
        // What it says later is nobody's, but it must be able to say it.
        std::thread::spawn(move || lines.for_each(drop));
        self.services = services;
        self.child = Some(child);
        true
    }

    /// The names it told, in that order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.services.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The URL of the first service.
    pub(crate) fn url(&self) -> &str {
        &self.services[0].1
    }

    /// The URL of the service of that name.
    pub(crate) fn url_of(&self, service: &str) -> &str {
        let found = self.services.iter().find(|(name, _)| name == service);
        &found.unwrap_or_else(|| panic!("no service {service}")).1
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        if let Some(address) = self.listens {
            return address;
        }
        let (_, rest) = self.url().split_once("://").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// Its process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// A path in the server's directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// All of its state.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| self.path("data"))
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.end(Signal::SIGTERM);
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.end(Signal::SIGKILL);
    }

    /// Waits until it has ended, as it was told to.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        self.child.take().expect("the server runs").wait().unwrap()
    }

    fn end(&mut self, signal: Signal) {
        let mut child = self.child.take().expect("the server runs");
        kill(pid(&child), signal).unwrap();
        child.wait().unwrap();
    }

    /// Starts it again: same data, same port.
    pub(crate) fn restart(&mut self) {
        self.start(&self.address().to_string());
    }

    /// The same with another value of an option that it has.
    pub(crate) fn restart_with(&mut self, option: &str, value: &str) {
        let at = self.arguments.iter().position(|word| word == option).expect("it has the option");
        value.clone_into(&mut self.arguments[at + 1]);
        self.restart();
    }

    /// How often the script has run: it appends a line to `DIR/runs`.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = kill(pid(&child), Signal::SIGKILL);
            let _ = child.wait();
        }
        // Jobs outlive their server, but not their test, however that ends.
        let data = self.data();
        kill_all(&processes::job_processes(&data));
        kill_all(&processes::of_jobs(&data).iter().map(|process| process.pid).collect::<Vec<_>>());
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a test that fails tells what it knows")]
            let () = eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// A free address at which a server can be started again. Its port is not one of those that the
/// system gives to connections: else a caller who tries to reach a server that is being restarted
/// may be given the server's own port, and connect to itself. Nor is it another test's, in whatever
/// process: each port that is used has a file that is locked.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static MINE: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let ports =
        std::env::temp_dir().join(format!("fishplate-test-ports-{}", nix::unistd::geteuid()));
    fs::create_dir_all(&ports).unwrap();
    let first = u16::try_from(std::process::id() % 20_000).unwrap();
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let mine = File::create(ports.join(port.to_string())).unwrap();
        if mine.try_lock().is_err() {
            continue;
        }
        MINE.lock().unwrap().push(mine);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Waits until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Interrupts a command, as Ctrl-C does.
pub(crate) fn interrupt(child: &Child) {
    kill(pid(child), Signal::SIGINT).unwrap();
}
