//! `Range` (RFC 9110, section 14): which bytes of a representation are asked for.

use std::ops::Range;

/// More ranges than this are asked for by nobody who means well; then all is sent.
const MOST: usize = 16;

/// What to send of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RangeChoice {
    /// All of it: no range was asked for, or none that is understood.
    All,
    /// These ranges, in the order they were asked for, none of them empty.
    Parts(Vec<Range<u64>>),
    /// Ranges, of which it has none.
    Nothing,
}

/// What a `Range` field asks for of so many bytes.
pub(super) fn wanted(field: &str, len: u64) -> RangeChoice {
    let Some((unit, set)) = field.trim().split_once('=') else { return RangeChoice::All };
    if !unit.eq_ignore_ascii_case("bytes") {
        return RangeChoice::All;
    }
    let specs: Vec<&str> = set.split(',').map(str::trim).filter(|spec| !spec.is_empty()).collect();
    if specs.is_empty() || specs.len() > MOST {
        return RangeChoice::All;
    }
    let mut parts = Vec::new();
    for spec in specs {
        match part(spec, len) {
            // A field that is not of the grammar is ignored as a whole.
            None => return RangeChoice::All,
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
        }
    }
    if parts.is_empty() {
        return RangeChoice::Nothing;
    }
    let asked: u64 = parts.iter().map(|part| part.end - part.start).sum();
    // Overlapping ranges that ask for more than there is (RFC 9110, section 17.15).
    if asked > len { RangeChoice::All } else { RangeChoice::Parts(parts) }
}

/// One range; empty if the representation has none of it, `None` if it is no range.
fn part(spec: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond all bounds is a number.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        return Some(len.saturating_sub(number(last)?)..len);
    }
    let first = number(first)?;
    let end = match last {
        "" => len,
        last => {
            let last = number(last)?;
            if last < first {
                return None;
            }
            last.saturating_add(1).min(len)
        }
    };
    Some(first.min(end)..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_asks_for_what_the_standard_says() {
        let parts = |field: &str| match wanted(field, 10_000) {
            RangeChoice::Parts(parts) => {
                parts.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
            }
            other => panic!("{field}: {other:?}"),
        };
        assert_eq!(parts("bytes=0-499"), [(0, 500)]);
        assert_eq!(parts("bytes=500-"), [(500, 10_000)]);
        assert_eq!(parts("bytes=-500"), [(9500, 10_000)]);
        assert_eq!(parts("bytes=9500-20000"), [(9500, 10_000)]);
        assert_eq!(parts("bytes=-20000"), [(0, 10_000)]);
        assert_eq!(parts("BYTES=0-1"), [(0, 2)]);
        assert_eq!(parts("bytes=0-0, -1"), [(0, 1), (9999, 10_000)]);
        assert_eq!(parts(" bytes= 1-2 ,, 20000- "), [(1, 3)]);
        assert_eq!(parts("bytes=5-99999999999999999999999"), [(5, 10_000)]);
    }

    #[test]
    fn what_is_not_there_is_told_and_what_is_no_range_is_ignored() {
        for field in ["bytes=10000-", "bytes=-0", "bytes=20000-30000, -0"] {
            assert_eq!(wanted(field, 10_000), RangeChoice::Nothing, "{field}");
        }
        assert_eq!(wanted("bytes=0-", 0), RangeChoice::Nothing);
        for field in ["", "bytes=", "bytes=a-b", "bytes=5-3", "bytes=-", "pages=1-2", "bytes=+1-2"]
        {
            assert_eq!(wanted(field, 10_000), RangeChoice::All, "{field}");
        }
    }

    #[test]
    fn many_ranges_and_overlapping_ones_are_no_attack() {
        let many = format!("bytes={}", vec!["0-1"; MOST + 1].join(","));
        assert_eq!(wanted(&many, 10_000), RangeChoice::All);
        assert_eq!(wanted("bytes=0-,0-", 10_000), RangeChoice::All);
    }
}
