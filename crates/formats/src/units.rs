//! Durations and sizes as people write them, for service files and for options of commands.

use std::time::Duration;

use fishplate_contract::limits::{CoreMultiple, Limit, LimitDefault, LimitUnit};

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is no duration: write one such as 90s, 2h, 1h30m or 7d")]
pub struct NotADuration {
    /// What was written.
    pub text: String,
}

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is no size: write one such as 64MiB (64 * 1024 * 1024 bytes) or 10GB")]
pub struct NotASize {
    /// What was written.
    pub text: String,
}

/// Reads a duration: numbers with units from `ms` to `w`; a day has 24 hours.
///
/// # Errors
/// If it is none, has no unit, or is negative.
pub fn duration(text: &str) -> Result<Duration, NotADuration> {
    let wrong = || NotADuration { text: text.to_owned() };
    let span: jiff::Span = text.trim().parse().map_err(|_| wrong())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let signed = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// Reads a size in bytes: a number with a unit, binary (`KiB`, `MiB`, `GiB`, `TiB`) or decimal
/// (`kB`, `MB`, `GB`, `TB`), or a number of bytes with `B`.
///
/// # Errors
/// If it is none, or has no unit.
pub fn size(text: &str) -> Result<u64, NotASize> {
    let wrong = || NotASize { text: text.to_owned() };
    if !text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(wrong());
    }
    text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(|_| wrong())
}

/// A size as people write limits: `64 MiB`; in bytes if no unit gives a whole number.
pub fn exact(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// A time in the largest unit that gives a whole number: `5 min`.
fn exact_time(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", millis / unit),
        None => format!("{millis} ms"),
    }
}

/// A time with a unit that suits it, rounded: `1.5 h`.
pub fn rounded_time(millis: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "rounded anyway")]
    let seconds = millis as f64 / 1000.0;
    match seconds {
        ..60.0 => format!("{seconds:.1} s"),
        ..3600.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// The day (UTC) of a moment, in milliseconds since 1970: `2026-11-22`.
pub fn day(millis: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string()
}

/// A limit's default, for people.
pub fn limit_default(limit: &Limit) -> String {
    let value = match limit.default() {
        LimitDefault::None => return "none".to_owned(),
        LimitDefault::Cores(CoreMultiple { per_core, least }) => {
            return format!("{per_core} a core, at least {least}");
        }
        LimitDefault::Value(value) => value,
    };
    match limit.unit {
        LimitUnit::Count => value.to_string(),
        LimitUnit::Bytes => exact(value),
        LimitUnit::Rate => format!("{} a second", exact(value)),
        LimitUnit::Time => exact_time(value),
    }
}

/// Reads the value of a limit, in the unit of its kind.
///
/// # Errors
/// What it takes, for people.
pub fn read_limit(unit: LimitUnit, text: &str) -> Result<u64, &'static str> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).ok();
    let (value, takes) = match unit {
        LimitUnit::Count => (text.parse().ok(), "a whole number"),
        LimitUnit::Bytes | LimitUnit::Rate => (size(text).ok(), "a size such as 64MiB"),
        LimitUnit::Time => (duration(text).ok().and_then(millis), "a duration such as 30s or 2h"),
    };
    value.ok_or(takes)
}

/// A limit's value as people write it, in the limit's unit.
///
/// # Errors
/// Why it can't have that value, for people.
pub fn read_value_of(limit: &Limit, text: &str) -> Result<u64, String> {
    let name = limit.name;
    match read_limit(limit.unit, text) {
        Ok(0) if limit.above_zero => Err(format!("{name} has to be above zero")),
        value => value.map_err(|takes| format!("{name} takes {takes}")),
    }
}

/// A size with a unit that suits it, rounded: `1.5 KiB`.
pub fn rounded(bytes: u64) -> String {
    bytesize::ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("2h", 7200.0),
            ("1h30m", 5400.0),
            ("1h 30m", 5400.0),
            ("7d", 604_800.0),
            ("250ms", 0.25),
            ("1w", 604_800.0),
        ] {
            assert_eq!(duration(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for text in ["", "90", "2 fortnights", "-5s", "1 month", "h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(
            duration("90").unwrap_err().to_string(),
            "\"90\" is no duration: write one such as 90s, 2h, 1h30m or 7d"
        );
    }

    #[test]
    fn sizes_have_units_binary_or_decimal() {
        for (text, bytes) in [
            ("4GiB", 4 << 30),
            ("64MiB", 64 << 20),
            ("10GB", 10_000_000_000),
            ("1.5 KiB", 1536),
            ("100B", 100),
        ] {
            assert_eq!(size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "64", "-1MiB", "4 Gibis", "MiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(
            size("64").unwrap_err().to_string(),
            "\"64\" is no size: write one such as 64MiB (64 * 1024 * 1024 bytes) or 10GB"
        );
    }

    #[test]
    fn a_default_is_told_as_it_may_be_set() {
        for limit in Limit::all() {
            let (name, told) = (limit.name, limit_default(limit));
            if let LimitDefault::Value(value) = limit.default() {
                let text = told.trim_end_matches(" a second").replace(" bytes", "B");
                assert_eq!(read_limit(limit.unit, &text), Ok(value), "{name}: {told}");
            }
        }
    }

    #[test]
    fn times_are_rounded_and_days_are_of_utc() {
        let told = [1234, 90_000, 5_400_000, 360_000_000].map(rounded_time);
        assert_eq!(told, ["1.2 s", "1.5 min", "1.5 h", "100.0 h"]);
        assert_eq!([0, 86_400_000 * 365 - 1].map(day), ["1970-01-01", "1970-12-31"]);
    }

    #[test]
    fn sizes_are_told_exactly_or_rounded() {
        for (bytes, exactly, roundly) in [
            (0, "0 bytes", "0 B"),
            (1023, "1023 bytes", "1023 B"),
            (1536, "1536 bytes", "1.5 KiB"),
            (64 << 20, "64 MiB", "64.0 MiB"),
            (1 << 30, "1 GiB", "1.0 GiB"),
        ] {
            assert_eq!((&*exact(bytes), &*rounded(bytes)), (exactly, roundly));
        }
    }
}
