//! What the kernel tells of processes and of the host (proc(5)). It is read plainly: these few numbers are a small part
//! of what a crate for `/proc` reads, and what is read each second beside the system under test has to be little.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use crate::record::Headroom;

/// What `/proc/PID/stat` tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    state: u8,
    parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Processor time of its own, in clock ticks.
    own: u64,
    /// Of the children that it has reaped.
    reaped: u64,
    pub(crate) threads: u64,
    /// When it began, in clock ticks since the boot.
    begin: u64,
}

impl Stat {
    /// Whether it is dead, and only waits to be reaped.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Processor time in microseconds, with that of children that it has reaped.
    pub(crate) fn processor(&self) -> u64 {
        micros(self.own + self.reaped)
    }

    /// When it began, since the boot.
    pub(crate) fn started(&self) -> Duration {
        Duration::from_micros(micros(self.begin))
    }

    /// Processor time in microseconds of the children that it has reaped.
    pub(crate) fn processor_of_reaped(&self) -> u64 {
        micros(self.reaped)
    }
}

/// How long ago the host was booted, as [`Stat::started`] counts.
pub(crate) fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

fn micros(ticks: u64) -> u64 {
    ticks * 1_000_000 / number_of(SysconfVar::CLK_TCK, 100)
}

fn number_of(variable: SysconfVar, otherwise: u64) -> u64 {
    let value = sysconf(variable).ok().flatten();
    value
        .and_then(|value| u64::try_from(value).ok())
        .filter(|value| *value > 0)
        .unwrap_or(otherwise)
}

/// Bytes that a line of `/proc/PID/stat` and `statm` has at most, with much to spare: one read gets it, where
/// [`fs::read`] takes five for a file that tells no size.
const LINE: usize = 4096;

/// What is told of a process; none if there is none.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let mut line = [0; LINE];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(pid, &line[..length])
}

fn parse_stat(pid: i32, text: &[u8]) -> Option<Stat> {
    // The second field is the program's name in parentheses, and may hold anything.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    // Numbered as in proc(5), where the state is the third.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        own: number(14)? + number(15)?,
        reaped: number(16)? + number(17)?,
        threads: number(20)?,
        begin: number(22)?,
    })
}

/// All that a process has started and that was started by these, itself not among them.
pub(crate) fn descendants(of: i32) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(stat) = pid.and_then(stat) {
            children.entry(stat.parent).or_default().push(stat);
        }
    }
    let mut all = children.remove(&of).unwrap_or_default();
    let mut at = 0;
    while at < all.len() {
        all.extend(children.remove(&all[at].pid).unwrap_or_default());
        at += 1;
    }
    all
}

/// How many files a process has open.
pub(crate) fn descriptors(pid: i32) -> Option<u64> {
    let directory = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the kernel has counted them.
    match fs::metadata(&directory).ok()?.len() {
        0 => Some(fs::read_dir(&directory).ok()?.count() as u64),
        counted => Some(counted),
    }
}

/// The anonymous memory of a process, in bytes: what is resident, less what is of files or shared.
pub(crate) fn anonymous(pid: i32) -> Option<u64> {
    let mut line = [0; LINE];
    let length = File::open(format!("/proc/{pid}/statm")).ok()?.read(&mut line).ok()?;
    anonymous_in(std::str::from_utf8(&line[..length]).ok()?)
}

fn anonymous_in(text: &str) -> Option<u64> {
    // Pages: size, resident, shared (files and shared memory).
    let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * number_of(SysconfVar::PAGE_SIZE, 4096))
}

/// What a process could still have before it reaches a limit of its own.
pub(crate) fn headroom(pid: i32) -> Headroom {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let address_space = soft_limit(&limits, "Max address space").and_then(|limit| {
        Some((
            limit.saturating_sub(address_space(pid)?),
            "its address space (RLIMIT_AS)".to_owned(),
        ))
    });
    let group = control_group_room(pid)
        .map(|room| (room, "its control group's memory (memory.max)".to_owned()));
    let descriptors = soft_limit(&limits, "Max open files").and_then(|limit| {
        Some((
            limit.saturating_sub(descriptors(pid)?),
            "its limit of descriptors (RLIMIT_NOFILE)".to_owned(),
        ))
    });
    Headroom { memory: address_space.into_iter().chain(group).min(), descriptors }
}

/// A soft limit in `/proc/PID/limits`, if there is one.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let values = text.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_ascii_whitespace().next()?.parse().ok()
}

/// The address space of a process, in bytes.
fn address_space(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(pages * number_of(SysconfVar::PAGE_SIZE, 4096))
}

/// What is left in the control group (version 2) of a process, and in those that it is in, in bytes; none without a limit.
fn control_group_room(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = Path::new(CONTROL_GROUPS).join(path);
    let groups = group.ancestors().take_while(|group| group.starts_with(CONTROL_GROUPS));
    groups.filter_map(room_in_group).min()
}

/// What a group's memory may grow by, with the files in it that the kernel can take back.
fn room_in_group(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let max: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat")?;
    let files = ["active_file ", "inactive_file "].into_iter().filter_map(|name| {
        stat.lines().find_map(|line| line.strip_prefix(name))?.parse::<u64>().ok()
    });
    Some(max.saturating_sub(used.saturating_sub(files.sum())))
}

/// Where control groups are.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The host's memory that is available, in bytes.
pub(crate) fn memory_available() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The host's processor time since its boot, in clock ticks: what was used, and all there was.
pub(crate) fn processor() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let times = text.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first two.
    let times: Vec<u64> =
        times.split_ascii_whitespace().take(8).filter_map(|time| time.parse().ok()).collect();
    let all = times.iter().sum::<u64>();
    Some((all - times.get(3)? - times.get(4)?, all))
}

/// How many processes the kernel has killed for want of memory since the boot, on the host or in a cgroup.
pub(crate) fn out_of_memory_kills() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    kills.and_then(|kills| kills.parse().ok()).unwrap_or(0)
}

/// Established connections to a port of this host. Each read of these files has the kernel walk its table of all
/// connections, which is large if it is empty, too (some milliseconds): so few are made.
pub(crate) fn connections(port: u16) -> u64 {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| {
        let mut table = Vec::with_capacity(TABLE);
        File::open(path).ok()?.read_to_end(&mut table).ok()?;
        String::from_utf8(table).ok()
    });
    tables.map(|table| connections_in(&table, port)).sum()
}

/// Bytes of a table of connections that are read at once.
const TABLE: usize = 64 << 10;

fn connections_in(table: &str, port: u16) -> u64 {
    let port = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1).is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("01")
    });
    lines.count() as u64
}

/// The processor time of this process, in microseconds.
pub(crate) fn own_processor() -> u64 {
    let time = getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| usage.user_time().num_microseconds() + usage.system_time().num_microseconds());
    time.ok().and_then(|time| u64::try_from(time).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_the_name() {
        let text = b"12 (a) S 7 (b) 3) R 34 12 12 0 -1 4194560 1 2 3 4 50 7 200 100 20 0 9 0 815 1234 321 1844";
        let stat = parse_stat(12, text).expect("it is one");
        assert_eq!((stat.parent, stat.group, stat.threads), (34, 12, 9));
        assert_eq!((stat.own, stat.reaped, stat.begin), (57, 300, 815));
        for cut in 0..text.len() - 5 {
            let _ = parse_stat(12, &text[..cut]);
        }
    }

    #[test]
    fn anonymous_memory_is_what_is_resident_and_not_shared() {
        let page = number_of(SysconfVar::PAGE_SIZE, 4096);
        assert_eq!(anonymous_in("765 405 378 5 0 123 0"), Some(27 * page));
        assert_eq!(anonymous_in("765 405"), None);
        // A process that ends.
        assert_eq!(anonymous_in("0 0 0 0 0 0 0"), Some(0));
    }

    #[test]
    fn a_limit_that_is_none_is_no_limit() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max open files            1024                 524288               files     \n\
            Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(soft_limit(text, "Max open files"), Some(1024));
        assert_eq!(soft_limit(text, "Max address space"), None);
    }

    #[test]
    fn a_group_has_room_for_what_it_may_still_have_and_for_its_files() {
        let group = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            fs::write(group.path().join(name), text).expect("it can be written");
        };
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 400\nfile 300\ninactive_file 120\nactive_file 30\n");
        assert_eq!(room_in_group(group.path()), None, "it has no limit");
        write("memory.max", "1000\n");
        assert_eq!(room_in_group(group.path()), Some(450));
        write("memory.max", "500\n");
        assert_eq!(room_in_group(group.path()), Some(0), "it is above");
        assert_eq!(room_in_group(&group.path().join("none")), None);
    }

    #[test]
    fn established_connections_of_a_port_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000\n\
            1: 0100007F:1F90 0100007F:A2C4 01 00000000\n\
            2: 0100007F:A2C4 0100007F:1F90 01 00000000\n\
            3: 0100007F:1F90 0100007F:A2C6 06 00000000\n";
        assert_eq!(connections_in(table, 8080), 1);
        assert_eq!(connections_in(table, 80), 0);
    }

    #[test]
    fn this_host_and_this_process_are_read() {
        let own = stat(std::process::id().cast_signed()).expect("this process");
        assert!(own.threads > 0 && !own.has_ended());
        let lived = since_boot() - own.started();
        assert!(lived < Duration::from_secs(3600), "this test takes no hour: {lived:?}");
        assert!(descriptors(own.pid).expect("they are open") >= 3);
        assert!(anonymous(own.pid).expect("one's own can be read") > 0);
        let (left, by) = headroom(own.pid).descriptors.expect("it has a limit");
        assert!(left > 0 && by.contains("RLIMIT_NOFILE"), "{left} {by}");
        assert!(memory_available().expect("there is some") > 0);
        let (used, all) = processor().expect("there is one");
        assert!(used > 0 && used < all);
        assert!(own_processor() > 0);
    }
}
