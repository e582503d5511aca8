//! Machines with networks of their own: each is a network namespace with one address, at a switch that is none of this machine's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::geteuid;

use crate::skipped::skipped;

/// Several machines at one switch.
pub(crate) struct Network {
    machines: Vec<String>,
}

impl Network {
    /// So many; `None`, and told, where they can't be made.
    pub(crate) fn new(machines: usize) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let name = |place: &str| format!("fishplate-{process}-{number}-{place}");
        let switch = name("switch");
        if !geteuid().is_root() {
            skipped("networks", "only root makes networks");
            return None;
        }
        let mut network = Self { machines: Vec::new() };
        network.add(&switch)?;
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"]);
        ip(&["-n", &switch, "link", "set", "switch", "up"]);
        for place in 0..machines {
            let machine = name(&place.to_string());
            network.add(&machine);
            let plug = format!("plug{place}");
            let address = format!("{}/24", network.address(place));
            let link =
                ["-n", &machine, "link", "add", "wire", "type", "veth", "peer", "name", &plug];
            ip(&[&link[..], &["netns", &switch]].concat());
            ip(&["-n", &switch, "link", "set", &plug, "master", "switch", "up"]);
            ip(&["-n", &machine, "address", "add", &address, "dev", "wire"]);
            ip(&["-n", &machine, "link", "set", "wire", "up"]);
            ip(&["-n", &machine, "link", "set", "lo", "up"]);
        }
        Some(network)
    }

    /// Where others reach a machine; those from `machines` on are nobody's.
    pub(crate) fn address(&self, machine: usize) -> String {
        format!("10.197.0.{}", machine + 1)
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

    /// Makes a machine; `None`, and told, if that is not allowed (in a container, even to root).
    fn add(&mut self, machine: &str) -> Option<()> {
        let done = Command::new("ip").args(["netns", "add", machine]).output().unwrap();
        self.machines.push(machine.to_owned());
        let said = String::from_utf8_lossy(&done.stderr);
        if said.contains("not permitted") || said.contains("Permission denied") {
            skipped("networks", said.trim());
            return None;
        }
        assert!(done.status.success(), "{said}");
        Some(())
    }
}

fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().unwrap();
    assert!(done.status.success(), "{words:?} {}", String::from_utf8_lossy(&done.stderr));
}

/// What stands there on a machine's place of `/etc` (ip-netns(8)).
fn files(machine: &str) -> PathBuf {
    PathBuf::from("/etc/netns").join(machine)
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            let _ = Command::new("ip").args(["netns", "delete", machine]).output();
            let _ = fs::remove_dir_all(files(machine));
        }
    }
}
