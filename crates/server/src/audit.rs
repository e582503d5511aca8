//! What an administrator is asked about afterwards: who logged in from where, what was refused to whom, and who changed
//! what about it. `DATA/audit.log`, a JSON object a line, which only the server's user can read.
//!
//! It is no part of the log of events: that goes to standard error, at a level that somebody chose, and drops lines when
//! its reader stalls. Operators' commands write here too, each line in one piece. What happens again and again is a line
//! when it begins, and one with its number (`times`) when its minute, or hour, is over: the next event tells. A server
//! counts in memory, and a thread of its own writes; scripts of a web server, a process for each request, count in a file
//! that they share.

mod repetitions;

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use fishplate_contract::{Clock, Fault, SystemClock};
use serde::{Deserialize, Serialize};

use self::repetitions::Repetitions;

use crate::dispatch::report::date_time;
use crate::settings::Settings;

/// Its name in the data directory. What was too long for it is in a file of this name and `.1`.
pub const FILE: &str = "audit.log";

/// What scripts count together.
const COUNTS: &str = "audit.counts";

/// Refusals are counted for so long.
const REFUSALS: Duration = Duration::from_secs(60);

/// Logins are counted for so long.
const LOGINS: Duration = Duration::from_secs(3600);

/// So many logins are told apart in an hour.
const MOST_LOGINS: usize = 10_000;

tokio::task_local! {
    /// Where whoever is answered in this task calls from.
    pub(crate) static CALLER: IpAddr;
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Of which kind.
    pub event: AuditKind,
    /// Who it was; for a wrong password, the user whose it is, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// From where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// How somebody logged in; what was refused; what was changed.
    pub what: String,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Serialize)]
struct Line {
    time: String,
    #[serde(flatten)]
    event: AuditEvent,
    /// How often since the line before that says the same; once, if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
}

/// The file, and what is not in it yet.
pub struct AuditLog {
    file: AuditFile,
    clock: Arc<dyn Clock>,
    counts: Counts,
}

/// Where it is written, and how long it may become in bytes.
#[derive(Clone, Debug)]
struct AuditFile {
    path: PathBuf,
    size: u64,
}

/// What happens again and again.
#[derive(Debug, Serialize, Deserialize)]
struct Repeated {
    logins: Repetitions,
    refusals: Repetitions,
}

/// Where repetitions are counted.
#[derive(Debug)]
enum Counts {
    /// Here, as long as this process lives.
    Process(Box<Mutex<Repeated>>, Writer),
    /// In a file, of which others have a part.
    Shared(PathBuf, Bounds),
}

/// Events that are told apart at once.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    refusals: usize,
}

impl Repeated {
    fn new(bounds: Bounds) -> Self {
        Self {
            logins: Repetitions::new(LOGINS, MOST_LOGINS),
            refusals: Repetitions::new(REFUSALS, bounds.refusals),
        }
    }

    fn of(&mut self, kind: AuditKind) -> &mut Repetitions {
        if kind == AuditKind::Login { &mut self.logins } else { &mut self.refusals }
    }
}

impl AuditLog {
    /// That of a data directory, for a server.
    pub fn open(data: &Path, settings: &Settings) -> Self {
        Self::with_clock(data, settings, Arc::new(SystemClock))
    }

    fn with_clock(data: &Path, settings: &Settings, clock: Arc<dyn Clock>) -> Self {
        let file = AuditFile::of(data, settings.audit_size);
        let writer = Writer::start(file.clone());
        let repeated = Repeated::new(Bounds { refusals: settings.audit_lines });
        Self { file, clock, counts: Counts::Process(Box::new(Mutex::new(repeated)), writer) }
    }

    /// The same for one of many processes that each answer one request.
    pub fn of_script(data: &Path, settings: &Settings) -> Self {
        Self::of_script_with_clock(data, settings, Arc::new(SystemClock))
    }

    fn of_script_with_clock(data: &Path, settings: &Settings, clock: Arc<dyn Clock>) -> Self {
        let bounds = Bounds { refusals: settings.audit_lines };
        let counts = Counts::Shared(data.join(COUNTS), bounds);
        Self { file: AuditFile::of(data, settings.audit_size), clock, counts }
    }

    /// Somebody is known by this kind of credential.
    pub(crate) fn login(&self, user: &str, with: &'static str, address: IpAddr) {
        let (user, address) = (Some(user.to_owned()), Some(address));
        let event = AuditEvent { event: AuditKind::Login, user, address, what: with.to_owned() };
        self.count(event);
    }

    /// Something was refused.
    pub(crate) fn refusal(&self, user: Option<&str>, address: Option<IpAddr>, fault: &Fault) {
        let user = user.filter(|user| !user.is_empty()).map(str::to_owned);
        let what = fault.to_string();
        self.count(AuditEvent { event: AuditKind::Refusal, user, address, what });
    }

    /// Something was changed.
    pub(crate) fn change(&self, what: String) {
        let event = AuditKind::Change;
        self.write(vec![(AuditEvent { event, user: None, address: None, what }, None)]);
    }

    fn count(&self, event: AuditEvent) {
        let (kind, now) = (event.event, self.clock.now());
        let lines = match &self.counts {
            Counts::Process(repeated, _) => {
                let mut repeated = repeated.lock().unwrap_or_else(PoisonError::into_inner);
                repeated.of(kind).count(event, now)
            }
            Counts::Shared(path, bounds) => {
                let counted =
                    in_file(path, *bounds, |repeated| repeated.of(kind).count(event.clone(), now));
                counted.unwrap_or_else(|error| {
                    tracing::error!(%error, file = %path.display(), "an event could not be counted");
                    vec![(event, None)]
                })
            }
        };
        self.write(lines);
    }

    /// Whoever waits for an answer of a server does not wait for the disk, and gets it whether this works or not.
    fn write(&self, events: Vec<(AuditEvent, Option<u64>)>) {
        if events.is_empty() {
            return;
        }
        let time = date_time(self.clock.now());
        let line = |(event, times)| Line { time: time.clone(), event, times };
        let lines = events.into_iter().map(line).collect();
        match &self.counts {
            Counts::Process(_, writer) => writer.write(lines),
            Counts::Shared(..) => self.file.append_or_tell(&lines),
        }
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let Counts::Process(repeated, _) = &self.counts else { return };
        let mut repeated = repeated.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = [repeated.logins.end(), repeated.refusals.end()].concat();
        drop(repeated);
        self.write(lines);
    }
}

/// A thread that writes lines. Dropped, it has written all.
#[derive(Debug)]
struct Writer {
    lines: Option<mpsc::Sender<Vec<Line>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// # Panics
    /// If the system has no thread left to give at start-up.
    fn start(file: AuditFile) -> Self {
        let (lines, to_write) = mpsc::channel::<Vec<Line>>();
        let work = move || to_write.iter().for_each(|lines| file.append_or_tell(&lines));
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(work);
        Self { lines: Some(lines), thread: Some(thread.expect("a thread for the audit log")) }
    }

    fn write(&self, lines: Vec<Line>) {
        // It ends with us.
        let _ = self.lines.as_ref().map(|to| to.send(lines));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the audit log was not written to its end");
        }
    }
}

/// Counts in a file that other processes count in too. What can't be read begins anew.
fn in_file<T>(
    path: &Path,
    bounds: Bounds,
    count: impl FnOnce(&mut Repeated) -> T,
) -> io::Result<T> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    file.lock()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let mut repeated = serde_json::from_slice(&text).unwrap_or_else(|_| Repeated::new(bounds));
    repeated.refusals.set_most(bounds.refusals);
    let counted = count(&mut repeated);
    let text = serde_json::to_vec(&repeated)?;
    file.rewind()?;
    file.write_all(&text)?;
    file.set_len(text.len() as u64)?;
    Ok(counted)
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
    let line = Line { time: date_time(SystemClock.now()), event, times: None };
    AuditFile::of(data, u64::MAX).append(&[line])
}

impl AuditFile {
    fn of(data: &Path, size: u64) -> Self {
        Self { path: data.join(FILE), size }
    }

    fn append_or_tell(&self, lines: &[Line]) {
        if let Err(error) = self.append(lines) {
            tracing::error!(%error, file = %self.path.display(), "an event could not be noted");
        }
    }

    /// Each time anew: another process may have put the file away, and this happens seldom.
    fn append(&self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line)?;
            text.push('\n');
        }
        let path = &self.path;
        let mut file = File::options().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        if file.metadata()?.len() > self.size {
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
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    use fishplate_contract::{FaultCode, Timestamp};
    use serde_json::Value;

    use super::*;

    fn lines(data: &Path) -> Vec<Value> {
        let text = fs::read_to_string(data.join(FILE)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A clock that stands until it is moved.
    #[derive(Default)]
    struct Still(AtomicI64);

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
    }

    fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::new("http://localhost");
        change(&mut settings);
        settings
    }

    /// Three minutes of refusals for four users, of which two are told apart, and what the log has of them.
    fn refused(log: impl Fn(&Path, &Settings, Arc<dyn Clock>) -> Arc<AuditLog>) -> Vec<Value> {
        let (data, clock) = (tempfile::tempdir().unwrap(), Arc::new(Still::default()));
        let settings = settings(|settings| settings.audit_lines = 2);
        for minute in 0..3 {
            clock.0.store(minute * 60_000, Ordering::Relaxed);
            for user in ["ada", "bob", "carl", "dora"].repeat(100) {
                let log = log(data.path(), &settings, Arc::clone(&clock) as _);
                log.refusal(Some(user), None, &Fault::new(FaultCode::Forbidden, "not here"));
            }
        }
        drop(log);
        lines(data.path())
    }

    #[test]
    fn scripts_count_together() {
        let lines = refused(|data, settings, clock| {
            Arc::new(AuditLog::of_script_with_clock(data, settings, clock))
        });
        let times = |user: Option<&str>| -> Vec<_> {
            let of = lines.iter().filter(|line| line["user"].as_str() == user);
            of.map(|line| line["times"].as_u64().unwrap_or(1)).collect()
        };
        // What the last minute has is told by what comes after it.
        assert_eq!(times(Some("ada")), [1, 99, 1, 99, 1]);
        assert_eq!(times(None), [200, 200]);
    }

    #[test]
    fn what_happens_again_is_counted_and_nothing_is_lost() {
        let one = OnceLock::new();
        let lines = refused(move |data, settings, clock| {
            Arc::clone(one.get_or_init(|| Arc::new(AuditLog::with_clock(data, settings, clock))))
        });
        let of = |user: Option<&str>| -> u64 {
            let of = lines.iter().filter(|line| line["user"].as_str() == user);
            of.map(|line| line["times"].as_u64().unwrap_or(1)).sum()
        };
        assert_eq!([of(Some("ada")), of(Some("bob")), of(None)], [300, 300, 600]);
        assert_eq!(lines.len(), 3 * 5);
        assert_eq!(lines[0]["what"], "Forbidden: not here");
    }

    #[test]
    fn it_is_bounded_and_private() {
        let data = tempfile::tempdir().unwrap();
        let log = AuditLog::open(data.path(), &settings(|settings| settings.audit_size = 1000));
        for number in 0..100 {
            log.change(format!("change {number}"));
        }
        drop(log);
        let [current, before] = [FILE, "audit.log.1"].map(|name| data.path().join(name));
        assert!(fs::metadata(&before).unwrap().len() < 1200);
        assert!(fs::metadata(&current).map_or(0, |file| file.len()) <= 1000);
        assert_eq!(fs::metadata(&before).unwrap().mode() & 0o777, 0o600);
        note_change(data.path(), "by an operator".to_owned()).unwrap();
        let last = lines(data.path()).pop().unwrap();
        assert_eq!((&last["event"], &last["what"]), (&"change".into(), &"by an operator".into()));
    }

    #[test]
    fn only_the_server_puts_the_file_away() {
        let data = tempfile::tempdir().unwrap();
        let long = fishplate_contract::limits::DEFAULTS.audit_size + 1;
        File::create(data.path().join(FILE)).unwrap().set_len(long).unwrap();
        note_change(data.path(), "by an operator".to_owned()).unwrap();
        assert!(fs::metadata(data.path().join(FILE)).unwrap().len() > long);
        AuditLog::open(data.path(), &settings(|_| {})).change("by the server".to_owned());
        assert!(!data.path().join(FILE).exists());
        assert!(data.path().join("audit.log.1").exists());
    }
}
