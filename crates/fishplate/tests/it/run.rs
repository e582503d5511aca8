//! Commands of the binary as a user gives them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use fishplate_client::Settings;
use serde_json::Value;
use tempfile::TempDir;

use crate::server::FISHPLATE;

/// All that `--packaging` takes.
pub(crate) fn packagings() -> impl Iterator<Item = &'static str> {
    Settings::PACKAGINGS.into_iter().map(|(name, ..)| name)
}

/// A user with a directory.
pub(crate) struct User {
    dir: TempDir,
    /// Where commands note what to go on with.
    state: TempDir,
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), state: TempDir::new().unwrap() }
    }

    /// A path in the user's directory.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Names of all files in the directory, hidden ones too.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, called: &str, words: &[&str]) -> Command {
        let mut command = Command::new(FISHPLATE);
        command.arg0(called);
        self.prepared(command, words)
    }

    /// A command with these words behind it, as this user gives it.
    fn prepared(&self, mut command: Command, words: &[&str]) -> Command {
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.state.path());
        command.env("XDG_CONFIG_HOME", self.state.path().join("config"));
        command.env("HOME", self.state.path()).env_remove("FISHPLATE_TOKEN").env_remove("NETRC");
        command
            .env_remove("FISHPLATE_URL")
            .env_remove("FISHPLATE_CA_FILE")
            .env_remove("GATEWAY_INTERFACE");
        command
    }

    /// Runs `fishplate` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Said {
        said(self.command("fishplate", words).output().unwrap())
    }

    /// Runs `fishplate` with these words on another machine.
    pub(crate) fn run_on(&self, machine: &str, words: &[&str]) -> Said {
        said(self.prepared(on(Some(machine)), words).output().unwrap())
    }

    /// Runs `fishplate` with these words, and these variables in its environment.
    pub(crate) fn run_in(&self, variables: &[(&str, &str)], words: &[&str]) -> Said {
        let mut command = self.command("fishplate", words);
        said(command.envs(variables.iter().copied()).output().unwrap())
    }

    /// Runs a command that succeeds; gives its largest resident memory in KiB, as last seen while
    /// it ran.
    pub(crate) fn peak(&self, words: &[&str]) -> u64 {
        let mut child = self.command("fishplate", words).stdout(Stdio::null()).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let seen = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
            peak = seen.unwrap_or(peak);
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{words:?}: {status}");
                return peak;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Runs the binary under another name.
    pub(crate) fn run_as(&self, called: &str, words: &[&str]) -> Said {
        said(self.command(called, words).output().unwrap())
    }

    /// Runs a command that succeeds; gives its standard output.
    pub(crate) fn succeed(&self, words: &[&str]) -> String {
        let said = self.run(words);
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        said.stdout
    }

    /// Runs a command with `--json` that succeeds.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let said = self.succeed(&[words, &["--json"]].concat());
        serde_json::from_str(&said).unwrap()
    }

    /// The same, with a pipe to its standard input.
    pub(crate) fn start_with_input(&self, words: &[&str]) -> (Child, ChildStdin) {
        let mut command = self.command("fishplate", words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        (child, input)
    }

    /// Starts a command and lets it run.
    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.start_in(&[], words)
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_in(&self, variables: &[(&str, &str)], words: &[&str]) -> Child {
        let mut command = self.command("fishplate", words);
        command.envs(variables.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// The binary, on this machine or another one ([`crate::networks`]).
pub(crate) fn on(machine: Option<&str>) -> Command {
    let Some(machine) = machine else { return Command::new(FISHPLATE) };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", machine, FISHPLATE]);
    command
}

/// Waits for a command that was started.
pub(crate) fn ended(child: Child) -> Said {
    said(child.wait_with_output().unwrap())
}

fn said(output: Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
