//! Agents on the manager's own host: processes of the same program, which dial it as others do.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::agent::Role;
use crate::agent::token::Token;

/// The process of an agent. It is gone when this is.
#[derive(Debug)]
pub(super) struct LocalAgent(Child);

impl LocalAgent {
    /// Starts one: `PROGRAM... --join ADDRESS --token-file -`, with the token on its standard input. What it says for
    /// people goes to the log. A terminal's Ctrl-C does not reach it: the manager tells it what is to be done then.
    pub(super) fn start(
        program: &[String],
        role: Role,
        manager: SocketAddr,
        token: &Token,
        log: &Path,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = program else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is an agent"));
        };
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command.args(arguments).args(["--join", &manager.to_string(), "--token-file", "-"]);
        if role == Role::System {
            command.arg("--system");
        }
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        let mut agent = Self(command.process_group(0).spawn()?);
        // Its end is the end of the file.
        if let Some(mut stdin) = agent.0.stdin.take() {
            stdin.write_all(token.reveal().as_bytes())?;
        }
        Ok(agent)
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

impl Drop for LocalAgent {
    fn drop(&mut self) {
        // What it began ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
