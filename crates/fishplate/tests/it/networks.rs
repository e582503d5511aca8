//! Machines with networks of their own: each is a network namespace with one address, at a switch that is none of this machine's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::skipped::skipped;

/// Several machines at one switch.
pub(crate) struct Network {
    number: u8,
    machines: Vec<String>,
}

impl Network {
    /// So many; `None`, and told, where they can't be made.
    pub(crate) fn new(machines: usize) -> Option<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let process = u8::try_from(std::process::id() % 25).unwrap();
        let number = process * 10 + NEXT.fetch_add(1, Ordering::Relaxed) % 10;
        let name = |place: String| format!("fpnet{number}{place}");
        let mut network = Self { number, machines: Vec::new() };
        let switch = name("s".to_owned());
        network.ip(&["netns", "add", &switch])?;
        network.machines.push(switch.clone());
        network.ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"])?;
        network.ip(&["-n", &switch, "link", "set", "switch", "up"])?;
        for place in 0..machines {
            let machine = name(place.to_string());
            network.ip(&["netns", "add", &machine])?;
            network.machines.push(machine.clone());
            let plug = format!("plug{place}");
            let address = format!("{}/24", network.address(place));
            let link =
                ["-n", &machine, "link", "add", "wire", "type", "veth", "peer", "name", &plug];
            network.ip(&[&link[..], &["netns", &switch]].concat())?;
            network.ip(&["-n", &switch, "link", "set", &plug, "master", "switch", "up"])?;
            network.ip(&["-n", &machine, "address", "add", &address, "dev", "wire"])?;
            network.ip(&["-n", &machine, "link", "set", "wire", "up"])?;
            network.ip(&["-n", &machine, "link", "set", "lo", "up"])?;
        }
        Some(network)
    }

    /// Where others reach a machine; those from `machines` on are nobody's.
    pub(crate) fn address(&self, machine: usize) -> String {
        format!("10.197.{}.{}", self.number, machine + 1)
    }

    /// What `ip netns` calls a machine.
    pub(crate) fn machine(&self, machine: usize) -> &str {
        &self.machines[machine + 1]
    }

    /// Has all machines know a host by these addresses, in this order.
    pub(crate) fn name(&self, host: &str, addresses: &[String]) {
        let lines: String = addresses.iter().map(|address| format!("{address} {host}\n")).collect();
        for machine in &self.machines[1..] {
            fs::create_dir_all(files(machine)).unwrap();
            fs::write(files(machine).join("hosts"), format!("127.0.0.1 localhost\n{lines}"))
                .unwrap();
        }
    }

    /// A command on a machine.
    pub(crate) fn command(&self, machine: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.machine(machine), program]);
        command
    }

    fn ip(&self, words: &[&str]) -> Option<()> {
        let done = Command::new("ip").args(words).output();
        let is_done = done.is_ok_and(|done| done.status.success());
        if !is_done {
            skipped("networks", &format!("only root makes networks (ip {})", words.join(" ")));
        }
        is_done.then_some(())
    }
}

/// What stands there on a machine's place of `/etc` (ip-netns(8)).
fn files(machine: &str) -> PathBuf {
    PathBuf::from("/etc/netns").join(machine)
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            let _ = Command::new("ip").args(["netns", "delete", machine]).status();
            let _ = fs::remove_dir_all(files(machine));
        }
    }
}
