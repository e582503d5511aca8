//! How long and how large what a run does and is told may be: `[limits]` of an experiment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// The limits of a run. Each is a key of `[limits]`, with this default.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How long the warm-up may take; then the cell is not run.
    #[serde(with = "duration")]
    pub warm_up: Duration,
    /// How long `system.configure` may take.
    #[serde(with = "duration")]
    pub configure: Duration,
    /// How long the audit's program may take.
    #[serde(with = "duration")]
    pub audit: Duration,
    /// Bytes that it may write.
    #[serde(with = "size")]
    pub audit_size: u64,
    /// How long a checker may take for an answer.
    #[serde(with = "duration")]
    pub checker: Duration,
    /// So many deadlines a client waits for an answer; then it goes on without one.
    pub deadlines: u32,
    /// Bytes of an answer's body that are kept, if a judgement needs the whole of it.
    #[serde(with = "size")]
    pub answer_size: u64,
    /// Cookies that a client keeps; the oldest gives way (RFC 6265, section 6.1, asks for 50 at least).
    pub cookies: usize,
    /// Bytes of a cookie that is kept (likewise 4096 at least).
    #[serde(with = "size")]
    pub cookie_size: u64,
    /// Bytes of a process's log, its last ones, that are sent from another host.
    #[serde(with = "size")]
    pub log_size: u64,
    /// Bytes of an agent's log of requests.
    #[serde(with = "size")]
    pub requests_size: u64,
    /// Requests that are named one by one, of each kind (wrong, by each agent; lost, doubled, invented).
    pub named_requests: usize,
    /// How long an agent may take for what it does at once.
    #[serde(with = "duration")]
    pub agent_answer: Duration,
    /// How much later than its end an agent may tell of a second; then that is judged without it.
    #[serde(with = "duration")]
    pub agent_late: Duration,
    /// How much longer than its deadline an agent's load may take to end when it is told to, its log included.
    #[serde(with = "duration")]
    pub agent_end: Duration,
    /// How much longer than its processes are allowed the system may take to end.
    #[serde(with = "duration")]
    pub system_end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            warm_up: Duration::from_secs(600),
            configure: Duration::from_secs(600),
            audit: Duration::from_secs(600),
            audit_size: 1 << 30,
            checker: Duration::from_secs(10),
            deadlines: 10,
            answer_size: 64 << 20,
            cookies: 50,
            cookie_size: 4 << 10,
            log_size: 4 << 20,
            requests_size: 64 << 30,
            named_requests: 10_000,
            agent_answer: Duration::from_secs(60),
            agent_late: Duration::from_secs(3),
            agent_end: Duration::from_secs(60),
            system_end: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The names of those that are 0, with what would be right.
    pub(super) fn zeros(&self) -> Vec<(String, &'static str)> {
        let values = serde_json::to_value(self).expect("numbers and texts are JSON");
        let all = values.as_object().into_iter().flatten();
        let zero = all.filter_map(|(name, value)| match value.as_str() {
            None => (value.as_u64() == Some(0)).then(|| (name.clone(), "1 or more")),
            Some("0ms") => Some((name.clone(), "a time such as 10s")),
            Some("0B") => Some((name.clone(), "a size with its unit, such as 64MiB")),
            Some(_) => None,
        });
        zero.collect()
    }
}

/// Sizes as `64MiB`.
mod size {
    use fishplate_formats::units;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        units::size(&String::deserialize(from)?).map_err(D::Error::custom)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(size: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{size}B"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_setting_and_none_is_0() {
        let values = serde_json::to_value(Limits::default()).expect("it is JSON");
        let names: Vec<&String> = values.as_object().expect("a table").keys().collect();
        assert_eq!(names.len(), 16);
        for name in names {
            let (set, zero) = match values[name].as_str() {
                None => ("7", "0"),
                Some(text) if text.ends_with("ms") => ("'7s'", "'0s'"),
                Some(_) => ("'7KiB'", "'0B'"),
            };
            let read = |value: &str| toml::from_str::<Limits>(&format!("{name} = {value}"));
            let changed = read(set).expect(name);
            assert_ne!(changed, Limits::default(), "{name}");
            assert!(changed.zeros().is_empty(), "{name}");
            let zeros = read(zero).expect(name).zeros();
            assert_eq!(zeros.iter().map(|(name, _)| name).collect::<Vec<_>>(), [name]);
        }
    }

    #[test]
    fn they_are_the_same_after_their_way_to_another_host() {
        let json = serde_json::to_string(&Limits::default()).expect("it can be sent");
        assert_eq!(serde_json::from_str::<Limits>(&json).expect("and read"), Limits::default());
    }
}
