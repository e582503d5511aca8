//! Processes of this machine, named so that another one on it can tell whether they still live. A pid alone proves nothing (it is used again), so the name has the start time of
//! the process and the boot of the machine.

use std::fs;

/// Names this process.
pub fn this_process() -> String {
    let pid = std::process::id();
    let mut salt = [0; 4];
    // Only tells engines of one process apart; a machine without randomness fails elsewhere.
    let _ = getrandom::fill(&mut salt);
    format!("{}/{pid}/{}/{:08x}", boot(), started(pid).unwrap_or(0), u32::from_ne_bytes(salt))
}

/// The boot of this machine: it changes with every restart.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

/// The boot in which a process of this name was started.
pub fn boot_of(process: &str) -> &str {
    process.split('/').next().unwrap_or("")
}

/// Whether a process of this machine is known to be dead: it is gone, or the machine has been
/// restarted since.
///
/// One of another machine can't be told from one of an earlier boot by its name alone: whoever may see
/// names of several machines must not ask this (`docs/decisions`, 0005).
pub fn is_dead(process: &str) -> bool {
    let mut parts = process.split('/');
    let (Some(its_boot), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    if its_boot != boot() {
        return true;
    }
    let Ok(pid) = pid.parse::<u32>() else { return false };
    started(pid).is_none_or(|now| start.parse() != Ok(now))
}

/// When a process was started, in clock ticks since the boot (field 22 of `/proc/PID/stat`);
/// nothing if it is gone or a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_is_not_dead_and_an_ended_one_is() {
        assert!(!is_dead(&this_process()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let name = format!("{}/{}/{}/0", boot(), child.id(), started(child.id()).unwrap());
        assert!(!is_dead(&name));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_dead(&name));
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        assert!(is_dead(&format!("{}/{}/1/0", boot(), std::process::id())));
    }

    #[test]
    fn a_process_of_an_earlier_boot_is_dead() {
        assert!(is_dead("00000000-0000-0000-0000-000000000000/1/1/0"));
    }
}
