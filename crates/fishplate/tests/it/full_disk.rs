//! A disk without a byte left: whoever filled it is ended, everybody is told, nobody else is harmed.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::disk::{self, Disk};
use crate::processes;
use crate::server::{Server, until};
use crate::soap::{Version, ask};

/// However slow the machine is, a caller waits no longer for an end that is known.
const TOLD: Duration = Duration::from_secs(30);

/// Each of these has waited for the word and then fills the disk, as its number says.
const PROGRAM: &str = r#"
case $1 in
7) echo 7; exit;;
3) echo 3; : > DIR/calm; until [ -e DIR/end ]; do sleep 0.05; done; exit;;
esac
: > DIR/running; until [ -e DIR/go ]; do sleep 0.05; done
case $1 in
1) cat /dev/zero > big; : > DIR/full; exit 1;;
2) cat /dev/zero > big; : > DIR/full; exec sleep 1000;;
4) for n in 1 2 3 4 5 6 7 8; do cat /dev/zero > big$n & done; wait; : > DIR/full; exec sleep 1000;;
5) exec 3> big; rm big; cat /dev/zero >&3; : > DIR/full; exec sleep 1000;;
6) cat /dev/zero > big; : > DIR/full; exit 0;;
8) head -c 8M /dev/zero > big; : > DIR/full; exec sleep 1000;;
esac
"#;

/// A server whose data directory is a small disk. `None` if this user can't mount one.
fn server() -> Option<(Server, Disk)> {
    let mut server = Server::prepare();
    let disk = disk::small(&server.path("data"), 32)?;
    server.script("program", PROGRAM);
    let line = ["-n", "test", "--", "./program", "[in val x:int]", ">", "[out file y:raw]"];
    server.serve(&[&["--limit", "disk_reserve=4MiB"][..], &line].concat());
    Some((server, disk))
}

fn call(server: &Server, x: u32) -> crate::soap::Answer {
    ask(server, Version::V11, "call", &format!("<x>{x}</x>"))
}

/// Writes until there is no room for another byte.
fn fill(path: &Path) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    for size in [64 << 10, 4 << 10, 1] {
        let chunk = vec![1; size];
        while file.write(&chunk).is_ok_and(|written| written > 0) {}
    }
}

/// A call is answered by the limit, in time.
#[track_caller]
fn assert_ended(ended: &crate::soap::Answer, asked: Instant, what: &str) {
    ended.assert_fault(Version::V11, "LimitExceeded");
    assert_eq!(ended.limit(), Some("disk_reserve"), "{what}: {ended:#?}");
    assert!(asked.elapsed() < TOLD, "{what}: after {:?}", asked.elapsed());
}

fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids {
        let _ = kill(Pid::from_raw(*pid), signal);
    }
}

#[test]
fn who_fills_the_disk_while_nobody_can_look_is_ended_all_the_same() {
    let Some((server, _disk)) = server() else { return };
    let good = |what: &str| until(what, || call(&server, 7).status == 200);
    good("calls work at the start");
    for (x, what) in [
        (1, "a program that fails when the disk is full"),
        (2, "one that stays"),
        (4, "many processes at once"),
        (5, "a file without a name"),
        (6, "one that takes no notice"),
    ] {
        for name in ["running", "go", "full"] {
            let _ = std::fs::remove_file(server.path(name));
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| call(&server, x));
            until("it runs", || server.path("running").exists());
            let supervisors = processes::job_processes(&server.data());
            signal_all(&supervisors, Signal::SIGSTOP);
            std::fs::write(server.path("go"), "").unwrap();
            until("the disk is full", || server.path("full").exists());
            let asked = Instant::now();
            signal_all(&supervisors, Signal::SIGCONT);
            assert_ended(&waiting.join().unwrap(), asked, what);
        });
        good(&format!("calls work after {what}"));
    }
}

#[test]
fn at_the_last_byte_each_job_has_its_end_and_nobody_elses() {
    let Some((server, _disk)) = server() else { return };
    let filler = server.path("data/filler");
    std::thread::scope(|scope| {
        let spawned = ask(&server, Version::V11, "spawn", "<x>3</x>");
        let job = format!("<job>{}</job>", spawned.text("job").unwrap());
        until("it runs", || server.path("calm").exists());
        std::fs::remove_file(server.path("calm")).unwrap();
        let calm = scope.spawn(|| call(&server, 3));
        until("another runs", || server.path("calm").exists());
        let greedy = scope.spawn(|| call(&server, 8));
        until("and one that takes much", || server.path("running").exists());
        std::fs::write(server.path("go"), "").unwrap();
        until("and holds it", || server.path("full").exists());
        fill(&filler);
        let asked = Instant::now();
        assert_ended(&greedy.join().unwrap(), asked, "what holds most");

        // Its caller is told before what it held is free again.
        until("there is room again", || {
            let status = nix::sys::statvfs::statvfs(&server.data()).unwrap();
            status.blocks_available() * status.fragment_size() >= 8 << 20
        });
        fill(&filler);
        let asked = Instant::now();
        std::fs::write(server.path("end"), "").unwrap();
        let calm = calm.join().unwrap();
        assert_eq!(calm.status, 200, "{calm:#?}");
        let state = || ask(&server, Version::V11, "status", &job);
        until("the spawned one is known to be done", || state().text("state") == Some("done"));
        assert!(asked.elapsed() < TOLD, "{:?}", asked.elapsed());
        let refused = call(&server, 7);
        refused.assert_fault(Version::V11, "StorageFull");

        // Room can be made by removing a job, too.
        fill(&filler);
        assert_eq!(ask(&server, Version::V11, "remove", &job).status, 200);
    });
    std::fs::remove_file(&filler).unwrap();
    until("calls work again", || call(&server, 7).status == 200);
}

#[test]
fn what_a_kept_job_took_of_the_disk_is_free_again_when_it_is_ended() {
    let Some((server, _disk)) = server() else { return };
    std::fs::write(server.path("go"), "").unwrap();
    for x in [1, 2, 6] {
        let spawned = ask(&server, Version::V11, "spawn", &format!("<x>{x}</x>"));
        let job = format!("<job>{}</job>", spawned.text("job").unwrap());
        let ask = |verb: &str| ask(&server, Version::V11, verb, &job);
        until("it is ended", || ask("running").text("running") == Some("false"));
        let status = ask("status");
        let message = status.text("message").unwrap();
        assert!(message.contains("disk_reserve"), "{x}: {message}");
        assert!(message.contains("removed to make room for others"), "{x}: {message}");
        ask("results").assert_fault(Version::V11, "LimitExceeded");
        assert_eq!(ask("log").status, 200, "its log stays");
        let others = call(&server, 7);
        assert_eq!(others.status, 200, "{x}: {others:#?}");
    }
}
