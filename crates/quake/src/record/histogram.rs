//! Histograms of times as text: HDR, version 2, deflated, in base64.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Digits that are kept of a time: 3, so that a value is off by less than 0.1 %.
const DIGITS: u8 = 3;

/// A text that is no histogram.
#[derive(Debug, thiserror::Error)]
#[error("a histogram can't be read: {why}")]
pub struct NotAHistogram {
    /// What was wrong.
    pub why: String,
}

/// An empty one of microseconds; it grows with what is recorded.
pub fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are allowed")
}

/// As text; an empty one is the empty text.
pub fn encode(histogram: &Histogram<u64>) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("memory takes all bytes");
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// Adds one that stands as text.
///
/// # Errors
/// If it is none.
pub fn add(to: &mut Histogram<u64>, text: &str) -> Result<(), NotAHistogram> {
    if text.is_empty() {
        return Ok(());
    }
    let bad = |why: &dyn ToString| NotAHistogram { why: why.to_string() };
    let bytes = base64_simd::STANDARD.decode_to_vec(text).map_err(|error| bad(&error))?;
    let read: Histogram<u64> =
        Deserializer::new().deserialize(&mut &*bytes).map_err(|error| bad(&error))?;
    to.add(read).map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_agents_saw_is_what_one_would_have_seen() {
        let (mut one, mut other, mut both) = (empty(), empty(), empty());
        for time in 1..=20_000_u64 {
            let agent = if time % 3 == 0 { &mut one } else { &mut other };
            agent.record(time * 7).expect("it grows");
            both.record(time * 7).expect("it grows");
        }
        let mut merged = empty();
        for agent in [&one, &other] {
            add(&mut merged, &encode(agent)).expect("it is one");
        }
        assert_eq!(merged, both);
        let p99 = merged.value_at_quantile(0.99);
        assert!((138_400..=138_900).contains(&p99), "{p99} is not 99 % of 140,000");
    }

    #[test]
    fn none_is_nothing_and_nonsense_is_refused() {
        let mut merged = empty();
        add(&mut merged, &encode(&empty())).expect("nothing");
        assert!(merged.is_empty());
        for nonsense in ["%", "AAAA", "HISTFAAAAEV42pNpmSzMwMDAxQABzFCaEUoz2X+AsIQGAA"] {
            assert!(add(&mut merged, nonsense).is_err(), "{nonsense}");
        }
        assert!(merged.is_empty());
    }
}
