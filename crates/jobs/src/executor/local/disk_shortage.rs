//! Who is to go when less is free on the disk than must stay free: whoever takes the room, and not
//! who only happens to run then.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::process_tree::ReachedLimit;
use super::procfs::Stat;
use super::sampler::free_bytes;
use crate::workspace;
use fishplate_formats::units;
use fishplate_programs::plan::Plan;

/// A job on a disk that it may have filled.
pub(super) struct DiskConsumer<'a> {
    pub(super) directory: &'a Path,
    pub(super) plan: &'a Plan,
    /// When its program was started, in milliseconds since 1970.
    pub(super) started: i64,
    pub(super) members: &'a dyn Fn() -> Vec<Stat>,
}

/// Too little is free while a job runs.
#[derive(Debug)]
pub(super) struct DiskShortage {
    since: Instant,
    /// What the job held when it was first seen.
    held: u64,
    /// When what it holds is counted again.
    next: Instant,
}

/// How long a job that takes nothing more is let be though it holds as much as is missing: whoever
/// does take is ended meanwhile, and what he held may be free again.
const PATIENCE: Duration = Duration::from_secs(1);

/// The shortest time between two counts.
const RECOUNT: Duration = Duration::from_millis(2);

/// Counting takes at most this share of the time.
const COUNTING_SHARE: u32 = 4;

/// What anybody may take of the reserve: a line in a log is no reason to be ended.
const MOST_TOLERATED: u64 = 1 << 20;

/// The part of the reserve that anybody may take, if that is less; and what is left of it when
/// nothing is left.
const SHARE_TOLERATED: u64 = 16;

impl DiskShortage {
    /// Looks at a job when so many bytes are missing: when to look again, or `None` if it is to be
    /// ended.
    pub(super) fn look(
        shortage: &mut Option<Self>,
        now: Instant,
        job: &DiskConsumer<'_>,
        missing: u64,
    ) -> Option<Duration> {
        if let Some(this) = shortage
            && now < this.next
        {
            return Some(this.next - now);
        }
        let begin = Instant::now();
        let held = job.held();
        let pause = (begin.elapsed() * COUNTING_SHARE).max(RECOUNT);
        let this = shortage.get_or_insert(Self { since: now, held, next: now });
        this.next = now + pause;
        let tolerated = tolerated(job.plan.limits.disk_reserve);
        let takes = held >= this.held.saturating_add(tolerated);
        let keeps = now - this.since >= PATIENCE && held >= missing.max(tolerated);
        (!takes && !keeps).then_some(pause)
    }
}

impl DiskConsumer<'_> {
    /// Bytes on the disk that the job took since its start, those of files without a name too.
    fn held(&self) -> u64 {
        let named = workspace::taken_since(self.plan, self.directory, self.started);
        named + nameless(self.directory, &(self.members)())
    }

    /// The limit, if it is the reason why the program came to nothing, or what it wrote can't be
    /// whole. It may have filled the disk before anyone could look.
    pub(super) fn limit_at_the_end(&self, failed: bool) -> Option<ReachedLimit> {
        let reserve = self.plan.limits.disk_reserve;
        let free = free_bytes(self.directory)?;
        let missing = reserve.checked_sub(free).filter(|missing| *missing > 0)?;
        let nothing_left = free < reserve / SHARE_TOLERATED;
        let guilty = (failed || nothing_left) && self.held() >= missing.max(tolerated(reserve));
        guilty.then(|| hit(reserve))
    }
}

/// The limit, as it is told.
pub(super) fn hit(reserve: u64) -> ReachedLimit {
    ("disk_reserve".into(), units::exact(reserve))
}

fn tolerated(reserve: u64) -> u64 {
    (reserve / SHARE_TOLERATED).min(MOST_TOLERATED)
}

/// Bytes of the files on the disk of `directory` that these processes have open and that have no
/// name any more.
fn nameless(directory: &Path, members: &[Stat]) -> u64 {
    let Ok(disk) = fs::metadata(directory).map(|metadata| metadata.dev()) else { return 0 };
    let open = |stat: &Stat| fs::read_dir(format!("/proc/{}/fd", stat.pid)).ok();
    let mut seen = HashSet::new();
    let mut sum = 0;
    for entry in members.iter().filter_map(open).flatten().flatten() {
        let Ok(file) = fs::metadata(entry.path()) else { continue };
        let counts = file.is_file() && file.nlink() == 0 && file.dev() == disk;
        if counts && seen.insert(file.ino()) {
            sum += file.blocks() * 512;
        }
    }
    sum
}
