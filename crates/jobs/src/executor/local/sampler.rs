//! How near a running job is to its limits, looked at often when it nears one fast and seldom
//! when it does not.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fishplate_formats::disk::FreeSpace;
use fishplate_formats::units;

use super::disk_shortage::{self, DiskConsumer, DiskShortage};
use super::process_tree::{ReachedLimit, value_files};
use super::procfs::Stat;
use crate::workspace;
use fishplate_programs::plan::Plan;

/// Shortest and longest time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(250);

/// Longest time between two looks at memory that has a limit: nothing else grows as fast.
const LONGEST_FOR_MEMORY: Duration = Duration::from_millis(50);

/// How often memory is looked at when it has no limit, only to tell the most that was used.
const MEMORY_STATISTIC: Duration = Duration::from_secs(1);

/// Counting the files of a workspace takes at most this share of the time.
const COUNTING_SHARE: u32 = 20;

/// What is known of a job's use of the machine.
#[derive(Debug)]
pub(super) struct Samplers {
    calm: Duration,
    next: Instant,
    sizes: UsageSampler,
    memory: UsageSampler,
    memory_at: Instant,
    max_memory: u64,
    disk: UsageSampler,
    shortage: Option<DiskShortage>,
    output: UsageSampler,
    output_at: Instant,
}

#[derive(Debug, Default)]
struct UsageSampler {
    last: Option<(Instant, u64)>,
}

impl UsageSampler {
    /// When to look again if there is `room` left before the limit: in half the time in which it
    /// would be used up if all went on as between the last looks.
    fn next(&mut self, now: Instant, room: u64) -> Duration {
        let before = self.last.replace((now, room));
        let Some((at, earlier)) = before else { return LONGEST };
        let used = earlier.saturating_sub(room);
        if used == 0 {
            return LONGEST;
        }
        let rate = used as f64 / (now - at).as_secs_f64().max(1e-6);
        Duration::try_from_secs_f64(room as f64 / rate / 2.0).unwrap_or(LONGEST).min(LONGEST)
    }
}

impl Samplers {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            calm: Duration::from_millis(2),
            next: now,
            sizes: UsageSampler::default(),
            memory: UsageSampler::default(),
            memory_at: now,
            max_memory: 0,
            disk: UsageSampler::default(),
            shortage: None,
            output: UsageSampler::default(),
            output_at: now,
        }
    }

    /// Largest resident memory seen, in bytes.
    pub(super) fn max_memory(&self) -> u64 {
        self.max_memory
    }

    /// The limit that the job is over, if it is, and when to look again.
    pub(super) fn look(
        &mut self,
        now: Instant,
        directory: &Path,
        (plan, started): (&Plan, i64),
        members: &dyn Fn() -> Vec<Stat>,
    ) -> (Option<ReachedLimit>, Duration) {
        if now < self.next {
            return (None, self.next - now);
        }
        self.calm = (self.calm * 3 / 2).min(LONGEST);
        let (room, hit) = sizes(directory, plan, false);
        if hit.is_some() {
            return (hit, SHORTEST);
        }
        let mut wait = self.calm.min(self.sizes.next(now, room));
        let looks = [
            self.look_at_memory(now, plan, members),
            self.look_at_disk(now, &DiskConsumer { directory, plan, started, members }),
            self.look_at_output(now, directory, plan),
        ];
        for look in looks {
            match look {
                Ok(next) => wait = wait.min(next),
                Err(hit) => return (Some(hit), SHORTEST),
            }
        }
        let wait = wait.max(SHORTEST);
        self.next = now + wait;
        (None, wait)
    }

    fn look_at_memory(
        &mut self,
        now: Instant,
        plan: &Plan,
        members: &dyn Fn() -> Vec<Stat>,
    ) -> Result<Duration, ReachedLimit> {
        let limit = plan.limits.memory;
        if limit.is_none() && now < self.memory_at {
            return Ok(LONGEST);
        }
        self.memory_at = now + MEMORY_STATISTIC;
        let resident: u64 = members().iter().map(|stat| stat.resident).sum();
        let used = resident.saturating_mul(page_size());
        self.max_memory = self.max_memory.max(used);
        let Some(limit) = limit else { return Ok(LONGEST) };
        if used > limit {
            return Err(("memory".into(), units::exact(limit)));
        }
        Ok(self.memory.next(now, limit - used).min(LONGEST_FOR_MEMORY))
    }

    fn look_at_disk(
        &mut self,
        now: Instant,
        job: &DiskConsumer<'_>,
    ) -> Result<Duration, ReachedLimit> {
        let reserve = job.plan.limits.disk_reserve;
        let Some(free) = free_bytes(job.directory) else { return Ok(LONGEST) };
        let Some(missing) = reserve.checked_sub(free).filter(|missing| *missing > 0) else {
            self.shortage = None;
            return Ok(self.disk.next(now, free - reserve));
        };
        match DiskShortage::look(&mut self.shortage, now, job, missing) {
            Some(next) => Ok(next),
            None => Err(disk_shortage::hit(reserve)),
        }
    }

    fn look_at_output(
        &mut self,
        now: Instant,
        directory: &Path,
        plan: &Plan,
    ) -> Result<Duration, ReachedLimit> {
        let Some(limit) = plan.limits.output_size else { return Ok(LONGEST) };
        if now < self.output_at {
            return Ok(self.output_at - now);
        }
        let begin = Instant::now();
        let used = workspace::workspace_use(directory);
        self.output_at = now + begin.elapsed() * COUNTING_SHARE;
        if used > limit {
            return Err(("output_size".into(), units::exact(limit)));
        }
        Ok(self.output.next(now, limit - used).max(self.output_at.saturating_duration_since(now)))
    }
}

/// Room left in the file that is nearest to its limit, and the limit that one is over. At the end
/// the workspace counts too.
pub(super) fn sizes(
    directory: &Path,
    plan: &Plan,
    at_the_end: bool,
) -> (u64, Option<ReachedLimit>) {
    let length = |path: &Path| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len());
    let limits = &plan.limits;
    let mut room = u64::MAX;
    for (redirected, log) in [(&plan.stdout, "stdout"), (&plan.stderr, "stderr")] {
        if redirected.is_none() {
            match limits.log_size.checked_sub(length(&directory.join(log))) {
                Some(left) => room = room.min(left),
                None => return (0, Some(("log_size".into(), units::exact(limits.log_size)))),
            }
        }
    }
    for file in value_files(plan, directory) {
        match limits.value_size.checked_sub(length(&file)) {
            Some(left) => room = room.min(left),
            None => return (0, Some(("value_size".into(), units::exact(limits.value_size)))),
        }
    }
    if at_the_end
        && let Some(most) = limits.output_size
        && workspace::workspace_use(directory) > most
    {
        return (0, Some(("output_size".into(), units::exact(most))));
    }
    (room, None)
}

/// Bytes that may still be written where the job's directory is.
pub(super) fn free_bytes(directory: &Path) -> Option<u64> {
    FreeSpace::at(directory).ok().map(|free| free.bytes)
}

fn page_size() -> u64 {
    use nix::unistd::{SysconfVar, sysconf};
    let size = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_up_fast_is_looked_at_before_it_is_full() {
        let mut sampler = UsageSampler::default();
        let start = Instant::now();
        assert_eq!(sampler.next(start, 1000), LONGEST);
        let wait = sampler.next(start + Duration::from_millis(10), 900);
        assert_eq!(wait, Duration::from_millis(45), "10 a millisecond, 900 left");
        assert_eq!(sampler.next(start + Duration::from_millis(20), 900), LONGEST, "calm again");
    }
}
