//! Each stress takes what it is to take, and gives it back when it is told to end and when who started it is killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

use fishplate_formats::disk::FreeSpace;
use fishplate_quake::experiment::Stress;
use fishplate_quake::record::Happening;
use fishplate_quake::stress::apply;
use fishplate_quake::system::Happened;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::skipped::skipped;
use crate::system::{child, place};
use crate::{lives, subprocesses, wait_until};

/// One that applies a stress in a process of its own, which can be killed.
struct Injector {
    process: Child,
    place: TempDir,
}

/// Applies the stress of the file `stress`, writes what happens to `happened`, and ends the stress when something
/// comes on standard input.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what other tests start, and kill"]
async fn injector() {
    let place = place();
    let stress: Stress =
        toml::from_str(&fs::read_to_string(place.join("stress")).unwrap()).unwrap();
    let (happenings, mut happened) = mpsc::unbounded_channel::<Happened>();
    let log = Mutex::new(fs::File::create(place.join("happened")).unwrap());
    let writing = async {
        while let Some(happened) = happened.recv().await {
            let Happening::Stress { on, short, .. } = happened.what else { panic!() };
            let short = short.unwrap_or_default();
            writeln!(log.lock().unwrap(), "{on} {short}").unwrap();
        }
    };
    tokio::select! {
        () = async {
            apply(&stress, 1, &subprocesses(), &happenings).await;
            drop(happenings);
            std::future::pending::<()>().await;
        } => {}
        () = async { writing.await; std::future::pending::<()>().await } => {}
        _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())) => {}
    }
    // The stress was dropped; its process is not ours to end.
    fs::write(place.join("dropped"), "").unwrap();
    std::future::pending::<()>().await;
}

impl Injector {
    fn start(stress: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), stress)
    }

    fn start_in(place: TempDir, stress: &str) -> Self {
        let text = stress.replace("{place}", &place.path().display().to_string());
        fs::write(place.path().join("stress"), format!("length = '10m'\n{text}")).unwrap();
        Self { process: child("stress::injector", place.path()), place }
    }

    /// What is told at its beginning: what could not be had.
    fn began(&self) -> String {
        let mut said = None;
        wait_until("it begins", || {
            let text = fs::read_to_string(self.place.path().join("happened")).unwrap_or_default();
            said = text.strip_suffix('\n').map(str::to_owned);
            said.is_some()
        });
        let said = said.unwrap();
        said.lines().next().unwrap().strip_prefix("true ").expect("a beginning").to_owned()
    }

    /// The process that holds the resource: the injector's only child.
    fn holder(&self) -> u32 {
        let mut holder = None;
        wait_until("it has a child", || {
            let pid = self.process.id();
            let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
            let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
            let children: String = children.map(Result::unwrap_or_default).collect();
            holder = children.split_whitespace().next().map(|child| child.parse().unwrap());
            holder.is_some()
        });
        holder.unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// It takes what it is to take; told to end it gives it back, and killed too.
fn holds_and_gives_back(
    stress: &str,
    is_held: impl Fn(u32, &Path) -> bool,
    is_free: impl Fn(&Path) -> bool,
) {
    for killed in [false, true] {
        let mut injector = Injector::start(stress);
        assert_eq!(injector.began(), "", "{stress}");
        let holder = injector.holder();
        wait_until(&format!("it is held: {stress}"), || is_held(holder, injector.place.path()));
        if killed {
            injector.kill();
        } else {
            injector.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        }
        wait_until(&format!("its process ends: {stress}"), || !lives(holder));
        wait_until(&format!("it is free: {stress}"), || is_free(injector.place.path()));
        if !killed {
            assert!(lives(injector.process.id()), "it was not its end that ended it");
        }
    }
}

/// A number of `/proc/PID/status`.
fn status(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn with_its_process(_: &Path) -> bool {
    true
}

#[test]
fn memory() {
    let is_held = |pid, _: &Path| status(pid, "VmRSS") >= 64 << 10;
    holds_and_gives_back("resource = 'memory'\nsize = '64MiB'", is_held, with_its_process);
}

#[test]
fn memory_that_grows() {
    let mut injector = Injector::start("resource = 'memory'\nsize = '60GiB'\nramp = true");
    assert_eq!(injector.began(), "");
    let holder = injector.holder();
    // 100 MiB a second, so that it is killed long before it has a part that matters.
    let first = status(holder, "VmRSS");
    assert!(first < 4 << 20, "{first} KiB");
    wait_until("it grows", || status(holder, "VmRSS") > first + (20 << 10));
    injector.kill();
    wait_until("its process ends", || !lives(holder));
}

#[test]
fn threads() {
    let is_held = |pid, _: &Path| status(pid, "Threads") > 200;
    holds_and_gives_back("resource = 'threads'\ncount = 200", is_held, with_its_process);
}

#[test]
fn descriptors() {
    // More than a process has by default.
    let is_held = |pid, _: &Path| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|files| files.count() > 2000)
    };
    holds_and_gives_back("resource = 'descriptors'\ncount = 2000", is_held, with_its_process);
}

#[test]
fn connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stress = format!("resource = 'connections'\ncount = 20\naddress = '{address}'");
    let accepted = || (0..20).map(|_| listener.accept().unwrap().0).collect::<Vec<_>>();
    let is_held = |_, _: &Path| {
        // All are made again when the server closes them.
        drop(accepted());
        accepted().len() == 20
    };
    holds_and_gives_back(&stress, is_held, with_its_process);
}

#[test]
fn processor() {
    let is_held = |pid: u32, _: &Path| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // User time in ticks (proc(5), field 14).
        fields[11].parse::<u64>().unwrap() > 20
    };
    holds_and_gives_back("resource = 'processor'\nthreads = 2", is_held, with_its_process);
}

#[test]
fn a_busy_disk() {
    let is_held = |pid: u32, place: &Path| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
        // Its files have no names.
        written.parse::<u64>().unwrap() > 4 << 20 && fs::read_dir(place).unwrap().count() <= 2
    };
    let stress = "resource = 'disk-slow'\ndirectory = '{place}'\nthreads = 2";
    holds_and_gives_back(stress, is_held, with_its_process);
}

#[test]
fn a_full_disk() {
    let disk = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(disk.path()) else { return };
    let free = || FreeSpace::at(disk.path()).unwrap().bytes;
    let before = free();
    let stress = |free: &str| {
        format!("resource = 'disk-full'\ndirectory = '{}'\nfree = '{free}'", disk.path().display())
    };
    let is_free = |_: &Path| free() == before;
    let write = || fs::write(disk.path().join("file"), [1; 8192]);
    holds_and_gives_back(
        &stress(""),
        |_, _| free() == 0 && write().is_err(),
        |_| {
            let _ = fs::remove_file(disk.path().join("file"));
            is_free(Path::new(""))
        },
    );
    // What is given back meanwhile is taken too.
    fs::write(disk.path().join("other"), vec![1; 2 << 20]).unwrap();
    let injector = Injector::start(&stress("1MiB"));
    assert_eq!(injector.began(), "");
    wait_until("it is full", || free() <= 1 << 20);
    fs::remove_file(disk.path().join("other")).unwrap();
    wait_until("it is full again", || free() <= 1 << 20);
    assert!(free() > 0);
}

/// A small file system in memory.
struct Mount(PathBuf);

impl Mount {
    fn tmpfs(at: &Path) -> Option<Self> {
        let words = ["-t", "tmpfs", "-o", "size=8m", "tmpfs"];
        match run(Command::new("mount").args(words).arg(at)) {
            Ok(_) => Some(Self(at.to_owned())),
            Err(why) => {
                skipped("mounts", &why);
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs a program; or why it failed.
fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// A network namespace with its loopback interface.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Option<Self> {
        let name = format!("quake-{name}-{}", std::process::id());
        if let Err(why) = run(Command::new("ip").args(["netns", "add", &name])) {
            skipped("namespaces", &why);
            return None;
        }
        let namespace = Self(name);
        run(Command::new("ip").args(["-n", &namespace.0, "link", "set", "lo", "up"])).unwrap();
        Some(namespace)
    }

    /// How many of 400 datagrams arrive.
    fn arriving(&self) -> u32 {
        let script = "
import socket, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('127.0.0.1', 0))
receiver.setblocking(False)
arrived = 0
def receive():
    global arrived
    try:
        while True:
            arrived += len(receiver.recv(9))
    except BlockingIOError:
        pass
for number in range(400):
    receiver.sendto(b'x', receiver.getsockname())
    receive()
time.sleep(0.1)
receive()
print(arrived)
";
        let words = ["netns", "exec", &self.0, "python3", "-c", script];
        let output = run(Command::new("ip").args(words)).unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

#[test]
fn packets_that_are_lost() {
    let Some(namespace) = Namespace::new("lost") else { return };
    assert_eq!(namespace.arriving(), 400);
    let stress = format!(
        "resource = 'network'\nnamespace = '{}'\ninterface = 'lo'\nloss = 0.5",
        namespace.0
    );
    let about_half = || (100..300).contains(&namespace.arriving());
    holds_and_gives_back(&stress, |_, _| about_half(), |_| namespace.arriving() == 400);
}

#[test]
fn packets_that_are_late_or_said_to_be_short_of_that() {
    let Some(namespace) = Namespace::new("late") else { return };
    let stress = format!(
        "resource = 'network'\nnamespace = '{}'\ninterface = 'lo'\nloss = 0.01\ndelay = '100ms'",
        namespace.0
    );
    let injector = Injector::start(&stress);
    let short = injector.began();
    let show =
        run(Command::new("tc").args(["-n", &namespace.0, "qdisc", "show", "dev", "lo"])).unwrap();
    let show = String::from_utf8(show.stdout).unwrap();
    if short.is_empty() {
        assert!(show.contains("netem") && show.contains("delay 100ms"), "{show}");
    } else {
        // A kernel without netem.
        assert!(short.contains("lost, not late") && !show.contains("netem"), "{short}: {show}");
        skipped("netem", &short);
    }
}

#[test]
fn the_clock_of_a_server_that_is_started_with_libfaketime() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if !Path::new(library).exists() {
        skipped("libfaketime", &format!("there is no {library}"));
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let clock = place.path().join("clock");
    let mut server = Command::new("python3")
        .args(["-uc", "import time\nwhile input() == '': print(time.time())"])
        .envs([("LD_PRELOAD", library), ("FAKETIME_NO_CACHE", "1"), ("DONT_FAKE_MONOTONIC", "1")])
        .env("FAKETIME_TIMESTAMP_FILE", &clock)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ask = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut hours_off = || {
        writeln!(ask).unwrap();
        let shown: f64 = answers.next().unwrap().unwrap().parse().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        ((shown - now.as_secs_f64()) / 3600.0).round()
    };
    assert_eq!(hours_off(), 0.0);
    let hours_off = Mutex::new(&mut hours_off);
    let stress = format!("resource = 'clock'\nseconds = -7200\nfile = '{}'", clock.display());
    let is_off_by = |hours: f64| (hours_off.lock().unwrap())() == hours;
    holds_and_gives_back(&stress, |_, _| is_off_by(-2.0), |_| is_off_by(0.0));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn what_could_not_be_had_is_told() {
    let nobody = crate::fixture::free_address();
    let connections = format!("resource = 'connections'\ncount = 5\naddress = '{nobody}'");
    for (stress, short) in [
        (connections.as_str(), "0 could be had: Connection refused"),
        ("resource = 'disk-full'\ndirectory = '/no/such'", "No such file or directory"),
        ("resource = 'memory'\nsize = '10'", "no size"),
        ("resource = 'network'\ninterface = 'no-such'\nloss = 0.5", "tc: "),
        ("resource = 'clock'\nseconds = 1\nfile = '/no/such/clock'", "No such file or directory"),
    ] {
        let told = Injector::start(stress).began();
        assert!(told.contains(short), "{stress}: {told}");
    }
}
