//! What the processes of the system and its host use, second by second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fishplate_formats::disk::FreeSpace;

use super::proc;
use super::process::SeenProcess;
use crate::probe::Probe;
use crate::record::{Headroom, LASTING, ProcessSample, Resources, SystemSecond};

/// Every so many seconds connections are counted, for which the kernel walks its table of all connections, and it is read what
/// limits leave.
const CONNECTIONS_EVERY: u32 = 10;

/// Takes a sample of the system each second.
#[derive(Debug)]
pub struct Sampler {
    processes: BTreeMap<String, SeenProcess>,
    port: u16,
    /// To that port, when they were last counted.
    connections: u64,
    directory: PathBuf,
    probe: Probe,
    /// Processor time of each process and its descendants until now, in microseconds.
    used: BTreeMap<String, u64>,
    /// The host's, in ticks: used, all.
    host: (u64, u64),
    /// This process's, in microseconds.
    own: u64,
}

impl Sampler {
    pub(super) fn new(
        processes: BTreeMap<String, SeenProcess>,
        port: u16,
        directory: PathBuf,
        probe: Probe,
    ) -> Self {
        let (used, host, own) = (BTreeMap::new(), (0, 0), 0);
        let mut sampler =
            Self { processes, port, connections: 0, directory, probe, used, host, own };
        // Times count from now.
        sampler.sample(0);
        sampler
    }

    /// What is used now; times are those since the last sample.
    pub fn sample(&mut self, second: u32) -> SystemSecond {
        let names: Vec<String> = self.processes.keys().cloned().collect();
        let samples = names.into_iter().filter_map(|name| {
            let sample = self.process(&name)?;
            Some((name, sample))
        });
        let processes = samples.collect();
        let mut headroom = BTreeMap::new();
        if second.is_multiple_of(CONNECTIONS_EVERY) {
            self.connections = proc::connections(self.port);
            headroom =
                self.processes.iter().map(|(name, seen)| (name.clone(), left(seen))).collect();
        }
        let host = proc::processor().unwrap_or_default();
        let (used, all) = (host.0.saturating_sub(self.host.0), host.1.saturating_sub(self.host.1));
        let own = proc::own_processor();
        let watching = own.saturating_sub(self.own);
        (self.host, self.own) = (host, own);
        SystemSecond {
            second,
            processes,
            headroom,
            connections: self.connections,
            memory_available: proc::memory_available().unwrap_or(0),
            disk_free: FreeSpace::at(&self.directory).map_or(0, |free| free.bytes),
            processor: if all == 0 { 0.0 } else { used as f64 / all as f64 },
            probe: self.probe.last(),
            watching,
        }
    }

    fn process(&mut self, name: &str) -> Option<ProcessSample> {
        let seen = &self.processes[name];
        let reaper = seen.reaper.cast_signed();
        let tree = proc::descendants(reaper);
        let of_ended = proc::stat(reaper).map_or(0, |reaper| reaper.processor_of_reaped());
        let used = of_ended + tree.iter().map(proc::Stat::processor).sum::<u64>();
        let before = self.used.insert(name.to_owned(), used).unwrap_or(0);
        let pid = seen.pid()?;
        let main = pid.cast_signed();
        let itself = tree.iter().find(|stat| stat.pid == main && !stat.has_ended())?;
        seen.is_alive();
        let now = proc::since_boot();
        let lived = |stat: &proc::Stat| now.saturating_sub(stat.started());
        // What it started with it counts from the beginning.
        let stays = LASTING.min(lived(itself) / 2);
        let used_by = |stat: &proc::Stat| Resources {
            memory: proc::anonymous(stat.pid).unwrap_or(0),
            threads: stat.threads,
            descriptors: proc::descriptors(stat.pid).unwrap_or(0),
        };
        let resources: Vec<(&proc::Stat, Resources)> =
            tree.iter().map(|stat| (stat, used_by(stat))).collect();
        Some(ProcessSample {
            pid,
            all: resources.iter().map(|(_, of)| *of).sum(),
            lasting: Some(
                resources.iter().filter(|(stat, _)| lived(stat) >= stays).map(|(_, of)| *of).sum(),
            ),
            processor: used.saturating_sub(before),
        })
    }
}

/// What the process or one of its children has least left of.
fn left(seen: &SeenProcess) -> Headroom {
    let of = proc::descendants(seen.reaper.cast_signed()).into_iter();
    of.map(|stat| proc::headroom(stat.pid)).fold(Headroom::default(), |least, of| Headroom {
        memory: least.memory.into_iter().chain(of.memory).min(),
        descriptors: least.descriptors.into_iter().chain(of.descriptors).min(),
    })
}
