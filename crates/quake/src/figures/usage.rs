//! What processes of the system use, and whether that grows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Brief;
use crate::record::{Headroom, ProcessSample, Resources, SystemSecond};
use crate::statistics::ageing::{Ageing, Criteria, Sample};

/// The kernel counts resident pages by processor, and adds them up 64 at a time (`SPLIT_RSS_COUNTING`,
/// `percpu_counter`): smaller growth is none, in bytes.
const MEMORY_STEP: f64 = 64.0 * 4096.0;

/// Whether a process uses a resource up.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ResourceAgeing {
    /// The process, by the experiment's name.
    pub process: String,
    /// `memory` (bytes), `descriptors` or `threads`.
    pub resource: String,
    /// How often it was started: the longest of its lives is judged.
    pub lives: usize,
    /// How much of it was left at the end, and what has no more: the host, or the process by a limit of its own.
    #[serde(default)]
    pub room: Option<(u64, String)>,
    /// What can be said.
    #[serde(flatten)]
    pub ageing: Ageing,
}

/// How much a process uses.
type Amount = fn(&Resources) -> u64;

/// A life of a process: until it was started again.
#[derive(Debug)]
struct Life {
    pid: u32,
    samples: Vec<(f64, f64, ProcessSample)>,
}

/// Gathers what is used.
#[derive(Debug)]
pub(super) struct Usage {
    /// Right answers until the end of each second.
    requests: Vec<u64>,
    lives: BTreeMap<String, Vec<Life>>,
    /// As it was last told.
    headroom: BTreeMap<String, Headroom>,
    pub(super) memory_peak: u64,
    pub(super) memory_available: Option<u64>,
    pub(super) processor: u64,
}

impl Usage {
    pub(super) fn new(seconds: &[Brief]) -> Self {
        let until = seconds.iter().scan(0, |total, second| {
            *total += second.right;
            Some(*total)
        });
        Self {
            requests: until.collect(),
            lives: BTreeMap::new(),
            headroom: BTreeMap::new(),
            memory_peak: 0,
            memory_available: None,
            processor: 0,
        }
    }

    pub(super) fn add(&mut self, second: &SystemSecond) {
        let memory = second.processes.values().map(|sample| sample.all.memory).sum();
        self.memory_peak = self.memory_peak.max(memory);
        self.memory_available = Some(second.memory_available);
        self.headroom.extend(second.headroom.clone());
        let at = second.second as usize;
        let requests = self.requests.get(at).or(self.requests.last()).copied().unwrap_or(0);
        for (name, sample) in &second.processes {
            self.processor += sample.processor;
            if sample.all.memory == 0 {
                continue; // It is gone.
            }
            let lives = self.lives.entry(name.clone()).or_default();
            if lives.last().is_none_or(|life| life.pid != sample.pid) {
                lives.push(Life { pid: sample.pid, samples: Vec::new() });
            }
            let life = lives.last_mut().expect("one was pushed");
            life.samples.push((f64::from(second.second), requests as f64, *sample));
        }
    }

    /// How much is left of a resource, where that is known.
    fn room(&self, process: &str, resource: &str) -> Option<(u64, String)> {
        let own = self.headroom.get(process);
        match resource {
            "memory" => {
                let host = self.memory_available.map(|left| (left, "the host's memory".to_owned()));
                host.into_iter().chain(own.and_then(|own| own.memory.clone())).min()
            }
            "descriptors" => own.and_then(|own| own.descriptors.clone()),
            _ => None,
        }
    }

    /// What can be said of each process, by its longest life, until the system failed: what has failed uses nothing up.
    pub(super) fn ageing(&self, criteria: Criteria, until: Option<f64>) -> Vec<ResourceAgeing> {
        let resources: [(&str, f64, Amount); 3] = [
            ("memory", MEMORY_STEP, |sample| sample.memory),
            ("descriptors", criteria.negligible_count, |sample| sample.descriptors),
            ("threads", criteria.negligible_count, |sample| sample.threads),
        ];
        let mut all = Vec::new();
        for (process, lives) in &self.lives {
            let Some(longest) = lives.iter().max_by_key(|life| life.samples.len()) else {
                continue;
            };
            for (resource, least, of) in resources {
                let sample = |(second, requests, sample): &(f64, f64, ProcessSample)| Sample {
                    second: *second,
                    requests: *requests,
                    value: of(&sample.lasting.unwrap_or(sample.all)) as f64,
                };
                let before = |at: &Sample| until.is_none_or(|until| at.second < until);
                let samples: Vec<Sample> =
                    longest.samples.iter().map(sample).filter(before).collect();
                all.push(ResourceAgeing {
                    process: process.clone(),
                    resource: resource.to_owned(),
                    lives: lives.len(),
                    room: self.room(process, resource),
                    ageing: Ageing::of(&samples, criteria, least),
                });
            }
        }
        all
    }
}
