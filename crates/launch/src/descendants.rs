//! All processes that this one started, and those that they started, however they were left.

use std::collections::HashMap;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to every descendant. What one of them starts meanwhile is found the next time: this process is its
/// subreaper, so it is a descendant for as long as it lives.
pub(crate) fn signal(signal: Signal) -> usize {
    let descendants = of(std::process::id().cast_signed());
    for &pid in &descendants {
        // Its number is not used again before we have reaped it or its parent has.
        let _ = kill(Pid::from_raw(pid), signal);
    }
    descendants.len()
}

fn of(ancestor: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended in between has no such file.
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = children.remove(&ancestor).unwrap_or_default();
    let mut at = 0;
    while at < all.len() {
        all.extend(children.remove(&all[at]).unwrap_or_default());
        at += 1;
    }
    all
}

/// The parent in a `/proc/PID/stat`: behind the name, which may hold anything, and the state.
fn parent(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_whatever_the_name() {
        assert_eq!(parent(b"12 (a) S 7 (b) 3) R 34 12 12 0"), Some(34));
        assert_eq!(parent(b"12 (sh) S 7 12"), Some(7));
        assert_eq!(parent(b""), None);
    }
}
