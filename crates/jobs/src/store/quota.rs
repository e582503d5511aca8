//! What one owner may have, and what of it is used. Processor time and traffic are counted over days (UTC), the present
//! one and those before it; what is in force is told anew at each question.

use std::fmt::Debug;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{Fault, FaultCode, Timestamp};
use fishplate_formats::units;

use super::usage::DAY;

/// Something that one owner may have so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quota {
    /// Jobs that run at once; more wait.
    Running,
    /// Jobs that wait for one service.
    Queued,
    /// Processor time of jobs, in milliseconds.
    CpuTime,
    /// Bytes that came and went.
    Traffic,
    /// Bytes of jobs that are kept, and of data.
    Disk,
}

impl Quota {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Queued, Self::CpuTime, Self::Traffic, Self::Disk];

    /// The name of its limit.
    pub fn limit(self) -> &'static str {
        match self {
            Self::Running => "owner_running",
            Self::Queued => "owner_queued",
            Self::CpuTime => "owner_cpu_time",
            Self::Traffic => "owner_traffic",
            Self::Disk => "owner_disk",
        }
    }

    /// Its name where it is clear that it is an owner's: in a policy, in a table.
    pub fn name(self) -> &'static str {
        self.limit().trim_start_matches("owner_")
    }

    /// An amount, for people.
    pub fn told(self, amount: u64) -> String {
        match self {
            Self::Running | Self::Queued => amount.to_string(),
            Self::CpuTime => units::rounded_time(amount),
            Self::Traffic | Self::Disk => units::rounded(amount),
        }
    }
}

/// What one owner may have; `None`: as much as there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerLimits {
    /// [`Quota::Running`].
    pub running: Option<u64>,
    /// [`Quota::Queued`].
    pub queued: Option<u64>,
    /// [`Quota::CpuTime`].
    pub cpu_time: Option<u64>,
    /// [`Quota::Traffic`].
    pub traffic: Option<u64>,
    /// [`Quota::Disk`].
    pub disk: Option<u64>,
    /// In which days processor time and traffic are counted.
    pub period: QuotaPeriod,
}

impl Default for OwnerLimits {
    fn default() -> Self {
        Self {
            running: DEFAULTS.owner_running,
            queued: DEFAULTS.owner_queued,
            cpu_time: DEFAULTS.owner_cpu_time,
            traffic: DEFAULTS.owner_traffic,
            disk: DEFAULTS.owner_disk,
            period: QuotaPeriod::new(DEFAULTS.quota_period),
        }
    }
}

impl OwnerLimits {
    /// How much of this.
    pub fn get(&self, quota: Quota) -> Option<u64> {
        *self.clone().field(quota)
    }

    /// The field of this.
    pub fn field(&mut self, quota: Quota) -> &mut Option<u64> {
        match quota {
            Quota::Running => &mut self.running,
            Quota::Queued => &mut self.queued,
            Quota::CpuTime => &mut self.cpu_time,
            Quota::Traffic => &mut self.traffic,
            Quota::Disk => &mut self.disk,
        }
    }

    /// Whether it has to be known what was used.
    pub fn counts(&self) -> bool {
        self.cpu_time.or(self.traffic).or(self.disk).is_some()
    }
}

/// What each owner may have.
pub trait OwnerQuotas: Debug + Send + Sync {
    /// Of the owner of this name.
    fn of(&self, owner: &str) -> OwnerLimits;
}

/// The same for all.
impl OwnerQuotas for OwnerLimits {
    fn of(&self, _: &str) -> OwnerLimits {
        *self
    }
}

/// The days in which processor time and traffic are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaPeriod {
    days: i64,
}

impl QuotaPeriod {
    /// As many days as this takes, and not less than one.
    pub fn new(period: Duration) -> Self {
        let days = period.as_millis().div_ceil(DAY.unsigned_abs().into());
        // More than there were since 1970.
        Self { days: i64::try_from(days).unwrap_or(i64::MAX).clamp(1, 100_000) }
    }

    /// How many days.
    pub fn days(self) -> i64 {
        self.days
    }

    /// Where the first of these days begins, if this is in the last.
    pub fn start(self, now: Timestamp) -> Timestamp {
        Timestamp((now.0.div_euclid(DAY) + 1 - self.days) * DAY)
    }

    /// When a day is none of them any more.
    fn end_of(self, day: Timestamp) -> Timestamp {
        Timestamp(day.0 + self.days * DAY)
    }
}

/// What was used on one day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayUsage {
    /// Where the day begins.
    pub day: Timestamp,
    /// Processor seconds.
    pub cpu_seconds: f64,
    /// Bytes that came and went.
    pub bytes: u64,
}

/// What an owner has used, and has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerUsage {
    /// By what has ended, day by day; the earliest first.
    pub days: Vec<DayUsage>,
    /// Since jobs that run were started, in milliseconds: as if each took one processor.
    pub running_time: u64,
    /// How many jobs those are.
    pub running: u64,
    /// How many wait, or have their data fetched.
    pub queued: u64,
    /// Bytes that came for jobs that have not ended.
    pub unfinished_bytes: u64,
    /// Bytes of jobs, ended or not, their records not counted.
    pub job_bytes: u64,
    /// Bytes of data in the pool. A store knows nothing of it, and says 0.
    pub data_bytes: u64,
}

impl OwnerUsage {
    /// How much of this is used.
    pub fn get(&self, quota: Quota) -> u64 {
        let days = self.days.iter().map(|day| day.get(quota)).fold(0, u64::saturating_add);
        days.saturating_add(self.present(quota))
    }

    /// What of it is no past day's.
    fn present(&self, quota: Quota) -> u64 {
        match quota {
            Quota::Running => self.running,
            Quota::Queued => self.queued,
            Quota::CpuTime => self.running_time,
            Quota::Traffic => self.unfinished_bytes,
            Quota::Disk => self.job_bytes.saturating_add(self.data_bytes),
        }
    }

    /// What stands against so much more of this; `None`: nothing.
    pub fn excess(&self, quota: Quota, limits: &OwnerLimits, wanted: u64) -> Option<QuotaExcess> {
        let most = limits.get(quota)?;
        let used = self.get(quota);
        // Whoever has used all may not begin more, though nobody knows what that will use.
        let is_over = |used: u64| match wanted {
            0 => used >= most,
            wanted => used.saturating_add(wanted) > most,
        };
        if !is_over(used) {
            return None;
        }
        let (period, mut left) = (limits.period, used);
        let room_at = self.days.iter().find_map(|day| {
            left -= day.get(quota);
            (!is_over(left)).then(|| period.end_of(day.day))
        });
        Some(QuotaExcess { quota, used, wanted, most, days: period.days, room_at })
    }
}

impl DayUsage {
    fn get(&self, quota: Quota) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds of a processor; a cast saturates"
        )]
        match quota {
            Quota::CpuTime => (self.cpu_seconds * 1000.0) as u64,
            Quota::Traffic => self.bytes,
            Quota::Running | Quota::Queued | Quota::Disk => 0,
        }
    }
}

/// Why an owner gets no more of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExcess {
    /// Of what.
    pub quota: Quota,
    /// What is used of it.
    pub used: u64,
    /// What was to be used in addition.
    pub wanted: u64,
    /// What may be used.
    pub most: u64,
    /// Over how many days that is counted.
    pub days: i64,
    /// When there will be room; `None`: that is not known, or never.
    pub room_at: Option<Timestamp>,
}

impl QuotaExcess {
    /// What the owner is told.
    pub fn fault(&self, now: Timestamp) -> Fault {
        let Self { quota, most, room_at, .. } = *self;
        let most = match quota {
            Quota::CpuTime => format!("{} s", most / 1000),
            Quota::Traffic | Quota::Disk => format!("{most} bytes"),
            Quota::Running | Quota::Queued => most.to_string(),
        };
        let fault = Fault::new(FaultCode::QuotaExceeded, self.to_string());
        let fault = fault.limit(quota.limit(), most);
        match room_at {
            Some(at) => fault.retry_after(at.since(now)),
            None => fault,
        }
    }
}

impl std::fmt::Display for QuotaExcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { quota, used, wanted, most, days, room_at } = *self;
        let what = match quota {
            Quota::Running => "jobs that run",
            Quota::Queued => "jobs that wait",
            Quota::CpuTime => "of processor time",
            Quota::Traffic => "of data that comes and goes",
            Quota::Disk => "on the server's disk",
        };
        write!(f, "you may have {} {what}", quota.told(most))?;
        if matches!(quota, Quota::CpuTime | Quota::Traffic) {
            write!(f, " in {days} days")?;
        }
        write!(f, ", and {} are used", quota.told(used))?;
        if wanted > 0 {
            write!(f, "; this takes {} more", quota.told(wanted))?;
        }
        match room_at {
            Some(at) => write!(f, "; there is room again on {}", units::day(at.0)),
            None if quota == Quota::Disk => f.write_str(
                "; remove jobs that have ended (`fishplate remove`), or revoke references \
                 (`fishplate revoke`)",
            ),
            None if wanted > most => f.write_str("; it can never be"),
            None => f.write_str("; there is room again when jobs of yours have ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn usage(hours: &[(i64, f64)]) -> OwnerUsage {
        let day = |(day, hours): &(i64, f64)| DayUsage {
            day: Timestamp(day * DAY),
            cpu_seconds: hours * 3600.0,
            bytes: 0,
        };
        OwnerUsage { days: hours.iter().map(day).collect(), ..OwnerUsage::default() }
    }

    #[test]
    fn a_period_is_whole_days_that_end_with_this_one() {
        let start =
            |hours, now: i64| QuotaPeriod::new(Duration::from_hours(hours)).start(Timestamp(now)).0;
        assert_eq!(start(1, 5 * DAY + 7), 5 * DAY);
        assert_eq!(start(24, 5 * DAY + 7), 5 * DAY);
        assert_eq!(start(25, 5 * DAY), 4 * DAY);
        assert_eq!(start(30 * 24, 40 * DAY), 11 * DAY);
    }

    #[test]
    fn room_comes_again_when_the_day_is_over_in_which_it_was_used() {
        let limits = OwnerLimits { cpu_time: Some(10 * HOUR), ..OwnerLimits::default() };
        let excess = |usage: &OwnerUsage| usage.excess(Quota::CpuTime, &limits, 0);
        assert_eq!(excess(&usage(&[(1, 4.0), (2, 5.0)])), None);
        let mut used = usage(&[(1, 4.0), (2, 5.0), (3, 5.5)]);
        let over = excess(&used).unwrap();
        assert_eq!((over.used, over.room_at), (14 * HOUR + HOUR / 2, Some(Timestamp(32 * DAY))));
        // What runs is used, too.
        used.running_time = HOUR;
        assert_eq!(excess(&used).unwrap().room_at, Some(Timestamp(32 * DAY)));
        used.running_time = 20 * HOUR;
        let over = excess(&used).unwrap();
        assert_eq!(over.room_at, None);
        let fault = over.fault(Timestamp(0));
        assert_eq!(fault.code, FaultCode::QuotaExceeded);
        assert_eq!(
            fault.message,
            "you may have 10.0 h of processor time in 30 days, and 34.5 h are used; there is room again when jobs of \
             yours have ended"
        );
        let hit = fault.limit.unwrap();
        assert_eq!((hit.name.as_str(), hit.value.as_str()), ("owner_cpu_time", "36000 s"));
        assert_eq!(excess(&usage(&[(1, 4.0)])), None);
        let unlimited = OwnerLimits::default();
        assert_eq!(used.excess(Quota::CpuTime, &unlimited, 0), None);
    }

    #[test]
    fn what_takes_more_than_there_may_ever_be_is_told_so() {
        let period = QuotaPeriod::new(Duration::from_hours(24));
        let limits =
            OwnerLimits { traffic: Some(100), disk: Some(100), period, ..OwnerLimits::default() };
        let bytes = DayUsage { day: Timestamp(0), cpu_seconds: 0.0, bytes: 40 };
        let used = OwnerUsage {
            days: vec![bytes],
            job_bytes: 70,
            data_bytes: 20,
            ..OwnerUsage::default()
        };
        let wanted = |quota, bytes| used.excess(quota, &limits, bytes);
        assert_eq!(wanted(Quota::Traffic, 60), None);
        assert_eq!(wanted(Quota::Traffic, 61).unwrap().room_at, Some(Timestamp(DAY)));
        let never = wanted(Quota::Traffic, 101).unwrap();
        assert_eq!(never.room_at, None);
        assert!(never.to_string().ends_with("it can never be"), "{never}");
        assert_eq!(wanted(Quota::Disk, 10), None);
        let full = wanted(Quota::Disk, 11).unwrap();
        assert_eq!(
            full.to_string(),
            "you may have 100 B on the server's disk, and 90 B are used; this takes 11 B more; remove jobs \
             that have ended (`fishplate remove`), or revoke references (`fishplate revoke`)"
        );
    }

    #[test]
    fn each_quota_is_a_limit() {
        for quota in Quota::ALL {
            let limit = fishplate_contract::Limit::all().find(|limit| limit.name == quota.limit());
            assert!(limit.is_some(), "{quota:?}");
            let mut limits = OwnerLimits::default();
            *limits.field(quota) = Some(7);
            assert_eq!(
                Quota::ALL.map(|it| limits.get(it).is_some()),
                Quota::ALL.map(|it| it == quota)
            );
        }
    }
}
