//! The system under test, stress and the watchdog as they are on a host: with real processes, of which one is the
//! fixture, a server that fails as it is told (`tests/fixture/server.py`).

mod clients;
mod examples;
mod fixture;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod stress;
mod system;
mod watchdog;

use std::path::Path;
use std::time::{Duration, Instant};

use fishplate_quake::subprocess::{self, SubprocessCommand};

/// A subprocess is this binary again, with the words that reach [`subprocess`].
pub(crate) fn subprocesses() -> SubprocessCommand {
    let own = std::env::current_exe().unwrap().display().to_string();
    let words = ["--exact", "subprocess", "--ignored", "--nocapture", "--test-threads=1"];
    SubprocessCommand::new([own].into_iter().chain(words.map(str::to_owned)).collect())
}

#[test]
#[ignore = "what other tests start"]
fn subprocess() {
    subprocess::run();
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there, and not only waits to be reaped.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// A number that somebody writes into a file, when it is there.
pub(crate) fn number_in(file: &Path) -> u32 {
    let mut number = None;
    wait_until(&format!("a number in {}", file.display()), || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        number.is_some()
    });
    number.unwrap()
}
