//! What an administrator is asked about afterwards: who logged in from where, what was refused to whom, and who changed
//! what about it. `DATA/audit.log`, a JSON object a line, which only the server's user can read.
//!
//! It is no part of the log of events: that goes to standard error, at a level that somebody chose, and drops lines when
//! its reader stalls. Operators' commands write here too, each line in one piece. What happens again and again is a line
//! when it begins, and one with its number (`times`) when its minute, or hour, is over: the next event tells.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::{Clock as _, Fault, SystemClock};
use serde::Serialize;
use tokio::time::Instant;

use crate::dispatch::report::date_time;
use crate::settings::Settings;

/// Its name in the data directory. What was too long for it is in a file of this name and `.1`.
pub const FILE: &str = "audit.log";

/// Refusals are counted for so long.
const REFUSALS: Duration = Duration::from_secs(60);

/// Logins are counted for so long.
const LOGINS: Duration = Duration::from_secs(3600);

/// So many logins are told apart in an hour.
const MOST_LOGINS: usize = 10_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AuditEvent {
    /// Of which kind.
    pub event: AuditKind,
    /// Who it was; for a wrong password, the user whose it is, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// How somebody logged in; what was refused; what was changed.
    pub what: String,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// It became known who calls.
    Login,
    /// It did not, or who calls may not do that.
    Refusal,
    /// Of the policy, of users, of tokens.
    Change,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'e> {
    time: String,
    #[serde(flatten)]
    event: &'e AuditEvent,
    /// How often since the line before that says the same; once, if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
}

/// The file, and what is not in it yet.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    /// The longest that it may become, in bytes.
    size: u64,
    logins: Mutex<Repetitions>,
    refusals: Mutex<Repetitions>,
}

impl AuditLog {
    /// That of a data directory.
    pub fn open(data: &Path, settings: &Settings) -> Self {
        Self {
            path: data.join(FILE),
            size: settings.audit_size,
            logins: Mutex::new(Repetitions::new(LOGINS, MOST_LOGINS)),
            refusals: Mutex::new(Repetitions::new(REFUSALS, settings.audit_lines)),
        }
    }

    /// Somebody is known by this kind of credential.
    pub(crate) fn login(&self, user: &str, with: &'static str, address: IpAddr) {
        let (user, address) = (Some(user.to_owned()), Some(address));
        let event = AuditEvent { event: AuditKind::Login, user, address, what: with.to_owned() };
        self.count(&self.logins, event);
    }

    /// Something was refused.
    pub(crate) fn refusal(&self, user: Option<&str>, address: Option<IpAddr>, fault: &Fault) {
        let user = user.filter(|user| !user.is_empty()).map(str::to_owned);
        let what = fault.to_string();
        self.count(&self.refusals, AuditEvent { event: AuditKind::Refusal, user, address, what });
    }

    /// Something was changed.
    pub(crate) fn change(&self, what: String) {
        let event = AuditKind::Change;
        self.write(&[(AuditEvent { event, user: None, address: None, what }, None)]);
    }

    fn count(&self, repetitions: &Mutex<Repetitions>, event: AuditEvent) {
        let mut repetitions = repetitions.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = repetitions.count(event, Instant::now());
        self.write(&lines);
    }

    /// Whoever waits for an answer does not wait for the disk, and gets it whether this works or not.
    fn write(&self, lines: &[(AuditEvent, Option<u64>)]) {
        if !lines.is_empty()
            && let Err(error) = append(&self.path, self.size, lines)
        {
            tracing::error!(%error, file = %self.path.display(), "an event could not be noted");
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        for repetitions in [&self.logins, &self.refusals] {
            let lines = repetitions.lock().unwrap_or_else(PoisonError::into_inner).end();
            self.write(&lines);
        }
    }
}

/// Notes a change that an operator's command has made, whether a server runs or not.
///
/// # Errors
/// If the file can't be written.
pub fn note_change(data: &Path, what: String) -> io::Result<()> {
    let uid = nix::unistd::geteuid();
    let known = nix::unistd::User::from_uid(uid).ok().flatten();
    let user = known.map_or_else(|| uid.to_string(), |user| user.name);
    let event = AuditKind::Change;
    let event = AuditEvent { event, user: Some(user), address: None, what };
    // How long the file may become is the server's setting: its next line puts this one away.
    append(&data.join(FILE), u64::MAX, &[(event, None)])
}

/// Each time anew: another process may have put the file away, and this happens seldom.
fn append(path: &Path, size: u64, lines: &[(AuditEvent, Option<u64>)]) -> io::Result<()> {
    let time = date_time(SystemClock.now());
    let mut text = String::new();
    for (event, times) in lines {
        let (time, times) = (time.clone(), *times);
        text += &serde_json::to_string(&Line { time, event, times })?;
        text.push('\n');
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    if file.metadata()?.len() > size {
        file.lock()?;
        // Who waited for the lock may have lost the file to who had it.
        if fs::metadata(path)
            .is_ok_and(|there| there.ino() == file.metadata().map_or(0, |it| it.ino()))
        {
            fs::rename(path, path.with_extension("log.1"))?;
        }
    }
    Ok(())
}

/// How often the same happened since it was written.
#[derive(Debug)]
struct Repetitions {
    /// How long they are counted.
    time: Duration,
    /// How many events are told apart meanwhile.
    most: usize,
    begun: Option<Instant>,
    counts: HashMap<AuditEvent, u64>,
    /// Of those that were too many.
    others: u64,
}

impl Repetitions {
    fn new(time: Duration, most: usize) -> Self {
        Self { time, most, begun: None, counts: HashMap::new(), others: 0 }
    }

    /// The lines to be written now.
    fn count(&mut self, event: AuditEvent, now: Instant) -> Vec<(AuditEvent, Option<u64>)> {
        let mut lines = Vec::new();
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= self.time) {
            lines = self.end();
            self.begun = Some(now);
        }
        if let Some(count) = self.counts.get_mut(&event) {
            *count += 1;
        } else if self.counts.len() < self.most {
            self.counts.insert(event.clone(), 0);
            lines.push((event, None));
        } else {
            self.others += 1;
        }
        lines
    }

    /// What happened again, and was not written.
    fn end(&mut self) -> Vec<(AuditEvent, Option<u64>)> {
        let kind = self.counts.keys().next().map(|event| event.event);
        let again = self.counts.drain().filter(|(_, count)| *count > 0);
        let mut lines: Vec<_> = again.map(|(event, count)| (event, Some(count))).collect();
        if let (Some(event), others @ 1..) = (kind, std::mem::take(&mut self.others)) {
            let what = "others (limit audit_lines)".to_owned();
            lines.push((AuditEvent { event, user: None, address: None, what }, Some(others)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use fishplate_contract::FaultCode;
    use serde_json::Value;

    use super::*;

    fn lines(data: &Path) -> Vec<Value> {
        let text = fs::read_to_string(data.join(FILE)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn log(data: &Path, change: impl FnOnce(&mut Settings)) -> AuditLog {
        let mut settings = Settings::new("http://localhost");
        change(&mut settings);
        AuditLog::open(data, &settings)
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_again_is_counted_and_nothing_is_lost() {
        let data = tempfile::tempdir().unwrap();
        let log = log(data.path(), |settings| settings.audit_lines = 2);
        let refuse = |user: &str| {
            log.refusal(Some(user), None, &Fault::new(FaultCode::Forbidden, "not here"));
        };
        for _ in 0..3 {
            (0..100).for_each(|_| ["ada", "bob", "carl", "dora"].into_iter().for_each(refuse));
            assert!(lines(data.path()).len() <= 3 * 5);
            tokio::time::advance(REFUSALS).await;
        }
        drop(log);
        let lines = lines(data.path());
        let of = |user: Option<&str>| -> u64 {
            let of = lines.iter().filter(|line| line["user"].as_str() == user);
            of.map(|line| line["times"].as_u64().unwrap_or(1)).sum()
        };
        assert_eq!([of(Some("ada")), of(Some("bob")), of(None)], [300, 300, 600]);
        assert_eq!(lines.len(), 3 * 5);
        assert_eq!(lines[0]["what"], "Forbidden: not here");
    }

    #[tokio::test]
    async fn it_is_bounded_and_private() {
        let data = tempfile::tempdir().unwrap();
        let log = log(data.path(), |settings| settings.audit_size = 1000);
        for number in 0..100 {
            log.change(format!("change {number}"));
        }
        let [current, before] = [FILE, "audit.log.1"].map(|name| data.path().join(name));
        assert!(fs::metadata(&before).unwrap().len() < 1200);
        assert!(fs::metadata(&current).map_or(0, |file| file.len()) <= 1000);
        assert_eq!(fs::metadata(&before).unwrap().mode() & 0o777, 0o600);
        note_change(data.path(), "by an operator".to_owned()).unwrap();
        let last = lines(data.path()).pop().unwrap();
        assert_eq!((&last["event"], &last["what"]), (&"change".into(), &"by an operator".into()));
    }

    #[tokio::test]
    async fn only_the_server_puts_the_file_away() {
        let data = tempfile::tempdir().unwrap();
        let long = fishplate_contract::limits::DEFAULTS.audit_size + 1;
        File::create(data.path().join(FILE)).unwrap().set_len(long).unwrap();
        note_change(data.path(), "by an operator".to_owned()).unwrap();
        assert!(fs::metadata(data.path().join(FILE)).unwrap().len() > long);
        log(data.path(), |_| {}).change("by the server".to_owned());
        assert!(!data.path().join(FILE).exists());
        assert!(data.path().join("audit.log.1").exists());
    }
}
