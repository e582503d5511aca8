//! Packets that leave by an interface, lost or late.
//!
//! `tc` does it (tc(8)): with netem where the kernel has that; without it, packets are lost by a filter whose program draws
//! a random number, and none can be late.

use std::io;
use std::process::Command;
use std::time::Duration;

/// A classic BPF program: load a random number (`SKF_AD_OFF + SKF_AD_RANDOM`, linux/filter.h), and drop the packet
/// (`TC_ACT_SHOT`) unless it is as large as the fourth part of its text, else go on (`TC_ACT_UNSPEC`).
const DROP_BELOW: &str = "4,32 0 0 4294963256,53 0 1 THRESHOLD,6 0 0 4294967295,6 0 0 2";

/// A rule that was set.
#[derive(Debug)]
pub(super) struct Impairment {
    namespace: Option<String>,
    interface: String,
    /// The discipline by which it is done.
    discipline: &'static str,
    short: Option<String>,
}

impl Impairment {
    /// Sets it. Needs the right to configure the network (root).
    pub(super) fn begin(
        namespace: Option<&str>,
        interface: &str,
        loss: f64,
        delay: Duration,
    ) -> io::Result<Self> {
        let set = |discipline, short| Self {
            namespace: namespace.map(str::to_owned),
            interface: interface.to_owned(),
            discipline,
            short,
        };
        let percent = format!("{:.4}%", 100.0 * loss);
        let late = format!("{}us", delay.as_micros());
        let root = ["dev", interface, "root"];
        let netem = ["netem", "loss", &percent, "delay", &late];
        let words = [&["qdisc", "replace"], &root[..], &netem[..]].concat();
        let Err(refused) = tc(namespace, &words) else { return Ok(set("root", None)) };
        if loss <= 0.0 {
            return Err(refused);
        }
        tc(namespace, &["qdisc", "replace", "dev", interface, "clsact"])?;
        let impairment = set("clsact", None);
        #[expect(clippy::cast_possible_truncation, reason = "below 2^32")]
        let threshold = (loss.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
        let program = DROP_BELOW.replace("THRESHOLD", &threshold.to_string());
        let filter =
            ["filter", "replace", "dev", interface, "egress", "pref", "1", "bpf", "da", "bytecode"];
        if let Err(error) = tc(namespace, &[&filter[..], &[&program]].concat()) {
            impairment.end()?;
            return Err(error);
        }
        let short = (!delay.is_zero()).then(|| format!("packets are lost, not late: {refused}"));
        Ok(Self { short, ..impairment })
    }

    /// What could not be had.
    pub(super) fn short(&self) -> Option<String> {
        self.short.clone()
    }

    /// Takes it away.
    pub(super) fn end(&self) -> io::Result<()> {
        let words = ["qdisc", "delete", "dev", &self.interface, self.discipline];
        tc(self.namespace.as_deref(), &words)
    }
}

fn tc(namespace: Option<&str>, words: &[&str]) -> io::Result<()> {
    let mut command = Command::new("tc");
    if let Some(namespace) = namespace {
        command.args(["-netns", namespace]);
    }
    let output = command.args(words).output();
    let output =
        output.map_err(|error| io::Error::new(error.kind(), format!("cannot run tc: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("tc: {}", said.lines().next().unwrap_or("failed"))))
}
