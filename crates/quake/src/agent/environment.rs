//! Facts of a host that figures depend on.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::utsname::uname;

/// Bytes of a fact.
const LENGTH: usize = 200;

/// Processor, cores, memory, kernel of this host, and the version of this program.
pub(super) fn environment() -> BTreeMap<String, String> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = uname().ok().map(|uname| {
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
    });
    let facts = [
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", Some(cores.to_string())),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", kernel),
        ("fishplate", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    let known = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
    known.map(|(name, fact)| (name, fact.chars().take(LENGTH).collect())).collect()
}

/// What stands behind the first colon of a line that begins so.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
