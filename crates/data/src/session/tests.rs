use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicI64, Ordering};

use fishplate_contract::{Fault, FaultCode, FileHandle as _, PlacementMethod};
use tempfile::TempDir;

use super::*;
use crate::{Pool, PoolSettings, RegistrationMode};

/// A clock that stands until it is moved.
struct Still(AtomicI64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

struct Bed {
    directory: TempDir,
    clock: Arc<Still>,
    sessions: Sessions,
}

impl Bed {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut SessionSettings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = SessionSettings::new(directory.path().join("sessions"));
        settings.disk_reserve = 0;
        set(&mut settings);
        // Files have the machine's time.
        let now = fishplate_contract::SystemClock.now().0;
        let clock = Arc::new(Still(AtomicI64::new(now)));
        let sessions = Sessions::new(settings, clock.clone()).unwrap();
        Self { directory, clock, sessions }
    }

    fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(millis(time), Ordering::SeqCst);
    }

    fn open(&self) -> SessionId {
        self.sessions.open(&alice(), None).unwrap().id
    }

    fn put(&self, id: &SessionId, name: &str, text: &str) -> Result<PlacementMethod, SessionError> {
        let file = self.directory.path().join("output");
        let _ = fs::remove_file(&file);
        fs::write(&file, text).unwrap();
        self.sessions.put(&alice(), id, name, &file, RegistrationMode::Link)
    }

    fn text(&self, id: &SessionId, name: &str) -> String {
        let held = self.sessions.get(&alice(), id, name).unwrap();
        fs::read_to_string(held.path()).unwrap()
    }

    fn versions(&self, id: &SessionId) -> usize {
        names_in(&self.sessions.directory(id).join("versions")).unwrap().len()
    }
}

fn alice() -> Principal {
    Principal::named("alice")
}

fn bob() -> Principal {
    Principal::named("bob")
}

#[test]
fn a_session_is_its_owners_alone() {
    let bed = Bed::new();
    let session = bed.sessions.open(&alice(), None).unwrap();
    bed.put(&session.id, "mesh", "1 2 3").unwrap();
    assert_eq!(bed.sessions.list(&alice()).unwrap(), std::slice::from_ref(&session));
    assert_eq!(bed.sessions.list(&bob()).unwrap(), []);
    let file = bed.directory.path().join("output");
    let none = |result: Result<(), SessionError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, SessionError::NoSuchSession), "{error}");
        assert_eq!(Fault::from(error).code, FaultCode::NoSuchSession);
    };
    let all = |owner: &Principal, id: &SessionId| {
        let sessions = &bed.sessions;
        none(sessions.find(owner, id).map(drop));
        none(sessions.touch(owner, id).map(drop));
        none(sessions.files(owner, id).map(drop));
        none(sessions.get(owner, id, "mesh").map(drop));
        none(sessions.put(owner, id, "mesh", &file, RegistrationMode::Copy).map(drop));
        none(sessions.remove_file(owner, id, "mesh").map(drop));
        none(sessions.close(owner, id));
    };
    all(&bob(), &session.id);
    all(&Principal::anonymous(), &session.id);
    all(&alice(), &SessionId::from_bytes([1; 16]));
    assert_eq!(bed.text(&session.id, "mesh"), "1 2 3");
    bed.sessions.close(&alice(), &session.id).unwrap();
    all(&alice(), &session.id);
    assert_eq!(names_in(&bed.sessions.settings().directory).unwrap(), [".key"]);
}

#[test]
fn a_file_that_is_read_does_not_change_when_it_is_replaced() {
    let bed = Bed::new();
    let id = bed.open();
    assert_eq!(bed.put(&id, "mesh", "one").unwrap(), PlacementMethod::Link);
    let read = bed.sessions.get(&alice(), &id, "mesh").unwrap();
    bed.put(&id, "mesh", "two!").unwrap();
    assert_eq!(fs::read_to_string(read.path()).unwrap(), "one");
    assert_eq!(bed.text(&id, "mesh"), "two!");
    let files = bed.sessions.files(&alice(), &id).unwrap();
    assert_eq!(
        files.iter().map(|file| (file.name.as_str(), file.len)).collect::<Vec<_>>(),
        [("mesh", 4)]
    );
    bed.pass(Duration::from_mins(2));
    assert_eq!(bed.sessions.sweep_idle(&|_| false).unwrap().orphans, 0);
    assert_eq!(fs::read_to_string(read.path()).unwrap(), "one");
    drop(read);
    assert_eq!(bed.sessions.sweep_idle(&|_| false).unwrap().orphans, 1);
    bed.put(&id, "mesh", "three").unwrap();
    assert_eq!(bed.versions(&id), 1);
    assert!(bed.sessions.remove_file(&alice(), &id, "mesh").unwrap());
    assert!(!bed.sessions.remove_file(&alice(), &id, "mesh").unwrap());
    assert_eq!(bed.versions(&id), 0);
    let error = bed.sessions.get(&alice(), &id, "mesh").unwrap_err();
    assert!(matches!(&error, SessionError::NoSuchFile { name } if name == "mesh"), "{error}");
}

#[test]
fn a_lease_of_the_pool_is_shared_with_it() {
    let bed = Bed::new();
    let settings = PoolSettings::new(bed.directory.path().join("pool"));
    let text = "data".repeat(usize::try_from(settings.largest_in_row).unwrap());
    let pool = Pool::open(settings, bed.clock.clone()).unwrap();
    let lease = pool.store(&alice(), &[text.clone().into()], None, false).unwrap();
    let id = bed.open();
    let placing = bed.sessions.put_held(&alice(), &id, "mesh", &lease).unwrap();
    let held = bed.sessions.get(&alice(), &id, "mesh").unwrap();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(placing == PlacementMethod::Link, inode(held.path()) == inode(lease.path()));
    assert_ne!(placing, PlacementMethod::Copy, "this file system has links");
    pool.remove(&lease.digest().unwrap()).unwrap_err();
    drop(lease);
    assert_eq!(fs::read_to_string(held.path()).unwrap(), text);
    // What is small has no file: it is copied.
    let lease = pool.store(&alice(), &["small".into()], None, false).unwrap();
    assert_eq!(
        bed.sessions.put_held(&alice(), &id, "tiny", &lease).unwrap(),
        PlacementMethod::Copy
    );
    drop(lease);
    let held = bed.sessions.get(&alice(), &id, "tiny").unwrap();
    assert_eq!(fs::read_to_string(held.path()).unwrap(), "small");
    let about = fs::symlink_metadata(held.path()).unwrap();
    assert_eq!((about.is_file(), about.mode() & 0o7777), (true, 0o444));
}

#[test]
fn names_are_checked() {
    let bed = Bed::new();
    let id = bed.open();
    let long = "a".repeat(256);
    for name in ["", ".", "..", "a/b", "/a", "a\0", "a\n", "\u{85}", &long] {
        let error = bed.put(&id, name, "x").unwrap_err();
        assert!(matches!(error, SessionError::BadName { .. }), "{name:?}: {error}");
        assert_eq!(Fault::from(error).code, FaultCode::InvalidValue);
        let error = bed.sessions.get(&alice(), &id, name).unwrap_err();
        assert!(matches!(error, SessionError::BadName { .. }), "{name:?}: {error}");
    }
    for name in ["...", ".a", "a b", "männlich", "-rf", &long[1..]] {
        bed.put(&id, name, name).unwrap();
        assert_eq!(bed.text(&id, name), name);
    }
}

#[test]
fn a_session_has_a_quota() {
    let bed = Bed::with(|settings| {
        settings.quota = Some(10);
        settings.files = 3;
    });
    let id = bed.open();
    bed.put(&id, "a", "12345").unwrap();
    bed.put(&id, "b", "12345").unwrap();
    let error = bed.put(&id, "c", "1").unwrap_err();
    let quota = SessionError::Quota { limit: "session_quota", value: 10, wanted: 1 };
    assert_eq!(error.to_string(), quota.to_string());
    assert_eq!(Fault::from(error).limit.unwrap().name, "session_quota");
    // A replaced file counts once.
    bed.put(&id, "b", "123").unwrap();
    bed.put(&id, "c", "1").unwrap();
    let error = bed.put(&id, "d", "1").unwrap_err();
    assert!(matches!(error, SessionError::Quota { limit: "session_files", .. }), "{error}");
    bed.put(&id, "c", "2").unwrap();
    assert_eq!(bed.versions(&id), 3);
    // Another session has its own.
    bed.put(&bed.open(), "a", "1234567890").unwrap();
}

#[test]
fn many_puts_at_once_keep_to_the_quota() {
    let bed = Bed::with(|settings| settings.quota = Some(100));
    let id = bed.open();
    let put: u64 = std::thread::scope(|scope| {
        let putters: Vec<_> = (0..4)
            .map(|thread| {
                let (bed, id) = (&bed, &id);
                scope.spawn(move || {
                    let file = bed.directory.path().join(format!("output {thread}"));
                    let put = |number: u64| {
                        let _ = fs::remove_file(&file);
                        fs::write(&file, "0123456789").unwrap();
                        let name = format!("{thread} {number}");
                        bed.sessions.put(&alice(), id, &name, &file, RegistrationMode::Link).is_ok()
                    };
                    (0..10).filter(|number| put(*number)).count() as u64
                })
            })
            .collect();
        putters.into_iter().map(|putter| putter.join().unwrap()).sum()
    });
    assert_eq!(put, 10);
    let files = bed.sessions.files(&alice(), &id).unwrap();
    assert_eq!(files.iter().map(|file| file.len).sum::<u64>(), 100);
    assert_eq!(bed.versions(&id), 10, "what was refused was removed");
}

#[test]
fn an_idle_session_expires_and_one_in_use_does_not() {
    let bed = Bed::with(|settings| settings.idle = Duration::from_hours(1));
    let session = bed.sessions.open(&alice(), Some(Duration::from_hours(9))).unwrap();
    assert_eq!(session.expires, session.used.after(Duration::from_hours(1)), "it was too long");
    let short = bed.sessions.open(&alice(), Some(Duration::from_mins(1))).unwrap().id;
    let busy = bed.sessions.open(&alice(), Some(Duration::from_mins(1))).unwrap().id;
    bed.pass(Duration::from_secs(59));
    bed.sessions.touch(&alice(), &short).unwrap();
    bed.pass(Duration::from_secs(59));
    let expired = bed.sessions.sweep_idle(&|id| *id == busy).unwrap().expired;
    assert_eq!(expired, []);
    bed.pass(Duration::from_secs(1));
    // Nobody has swept yet.
    assert!(matches!(bed.sessions.find(&alice(), &short), Err(SessionError::NoSuchSession)));
    assert_eq!(bed.sessions.list(&alice()).unwrap().len(), 2);
    assert_eq!(bed.sessions.sweep_idle(&|id| *id == busy).unwrap().expired, [short]);
    bed.sessions.find(&alice(), &busy).unwrap();
    bed.sessions.find(&alice(), &session.id).unwrap();
}

#[test]
fn what_processes_left_that_were_killed_is_swept() {
    let bed = Bed::new();
    let id = bed.open();
    bed.put(&id, "mesh", "kept").unwrap();
    let directory = bed.sessions.settings().directory.clone();
    let session = bed.sessions.directory(&id);
    for left in [".new-1", ".closed-2"] {
        fs::create_dir_all(directory.join(left).join("names")).unwrap();
    }
    fs::write(directory.join(".key-3"), "half").unwrap();
    fs::write(session.join("versions").join("left"), "left").unwrap();
    symlink_left(&session);
    // What is new may be somebody's who is at it.
    assert_eq!(bed.sessions.sweep_idle(&|_| false).unwrap().orphans, 1);
    bed.pass(Duration::from_mins(2));
    assert_eq!(bed.sessions.sweep_idle(&|_| false).unwrap().orphans, 4);
    let mut names = names_in(&directory).unwrap();
    names.sort();
    assert_eq!(names, [".key".to_owned(), id.to_string()]);
    assert_eq!(names_in(&session).unwrap().len(), 3);
    assert_eq!(bed.text(&id, "mesh"), "kept");
}

/// A name on its way that never came.
fn symlink_left(session: &Path) {
    std::os::unix::fs::symlink("../versions/left", session.join("0123456789abcdef")).unwrap();
}

#[test]
fn an_address_gives_one_file_and_is_no_use_of_the_session() {
    let bed = Bed::with(|settings| settings.idle = Duration::from_secs(10));
    let id = bed.open();
    bed.put(&id, "mesh", "1").unwrap();
    bed.put(&id, "other", "2").unwrap();
    let token = bed.sessions.token(&id, "mesh").unwrap();
    assert!(!token.contains(&id.to_string()));
    assert_eq!(bed.sessions.token(&id, "mesh").unwrap(), token, "it stays");
    let again = Sessions::new(bed.sessions.settings().clone(), bed.clock.clone()).unwrap();
    let read = |token: &str, name: &str| again.get_by_address(token, name);
    let (whose, file) = read(&token, "mesh").unwrap();
    assert_eq!((whose, fs::read_to_string(file.path()).unwrap()), (alice(), "1".to_owned()));
    let id_text = id.to_string();
    let mut forged = token.clone();
    let last = if forged.pop() == Some('A') { 'E' } else { 'A' };
    forged.push(last);
    for (token, name) in
        [(&*token, "other"), (&id_text, "mesh"), (&forged, "mesh"), ("", "mesh"), ("é", "mesh")]
    {
        let refused = read(token, name);
        assert!(matches!(refused, Err(SessionError::NoSuchAddress)), "{token} {name}");
    }
    bed.pass(Duration::from_secs(8));
    read(&token, "mesh").unwrap();
    bed.pass(Duration::from_secs(8));
    assert!(matches!(read(&token, "mesh"), Err(SessionError::NoSuchAddress)), "nobody used it");
}

#[test]
fn sessions_are_counted_for_each_owner_and_in_all() {
    let bed = Bed::with(|settings| (settings.per_owner, settings.open) = (2, 3));
    let (bob, carol) = (Principal::named("bob"), Principal::named("carol"));
    let open = |owner: &Principal| bed.sessions.open(owner, None).map(|session| session.id);
    let limit = |result: Result<SessionId, SessionError>| {
        let fault = Fault::from(result.unwrap_err());
        assert_eq!(fault.code, FaultCode::QuotaExceeded);
        fault.limit.unwrap().name
    };
    // Another process.
    let other = Sessions::new(bed.sessions.settings().clone(), bed.clock.clone()).unwrap();
    let first = other.open(&alice(), None).unwrap().id;
    let second = bed.open();
    assert_eq!(limit(open(&alice())), "sessions_per_owner");
    let third = open(&bob).unwrap();
    assert_eq!(limit(open(&carol)), "sessions_open");
    // What others close makes room at once, and so does what expires.
    other.close(&alice(), &first).unwrap();
    open(&carol).unwrap();
    assert_eq!(limit(open(&alice())), "sessions_open");
    bed.pass(Duration::from_hours(48));
    bed.sessions.sweep_idle(&|id| *id == third).unwrap();
    bed.open();
    bed.open();
    assert_eq!(limit(open(&bob)), "sessions_open");
    assert!(bed.sessions.find(&alice(), &second).is_err());
}

#[test]
fn a_session_that_cannot_be_read_is_in_nobodys_way() {
    let bed = Bed::new();
    let broken = bed.open();
    let record = bed.sessions.settings().directory.join(broken.to_string()).join("session");
    assert!(record.exists(), "{}", record.display());
    fs::write(record, "").unwrap();
    let other = Sessions::new(bed.sessions.settings().clone(), bed.clock.clone()).unwrap();
    other.open(&Principal::named("bob"), None).unwrap();
}

#[test]
fn a_session_is_opened_within_the_reserve_of_the_disk_only() {
    let bed = Bed::with(|settings| settings.disk_reserve = u64::MAX / 2);
    let error = bed.sessions.open(&alice(), None).unwrap_err();
    assert!(matches!(error, SessionError::Full { .. }), "{error}");
    assert!(names_in(&bed.sessions.settings().directory).unwrap().len() <= 1, "something is left");
}
