//! Requests by the real curl.

use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What curl got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    /// The value of a field of the last answer's head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let head = self.head.trim_end().rsplit("\r\n\r\n").next().unwrap_or_default();
        head.lines().find_map(|line| {
            let (its, value) = line.split_once(':')?;
            its.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text, without the line's end.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap().trim_end()
    }
}

/// A command of curl that is silent.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new("curl");
    // What the machine's user has set is not ours.
    command.args(["--disable", "--silent", "--show-error", "--max-time", "60"]).args(words);
    command.stdin(Stdio::null()).env("NO_PROXY", "*");
    command
}

/// Runs curl; there must be an answer.
#[track_caller]
pub(crate) fn curl(words: &[&str]) -> Got {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut command = command(&["--dump-header", &path("head"), "--output", &path("body")]);
    let done = command.args(["--write-out", "%{http_code}"]).args(words).output().unwrap();
    let status = String::from_utf8(done.stdout).unwrap();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap_or_default();
    let got = Got {
        status: status.parse().unwrap_or_default(),
        head: String::from_utf8(read("head")).unwrap(),
        body: read("body"),
    };
    assert!(got.status > 0, "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    got
}
