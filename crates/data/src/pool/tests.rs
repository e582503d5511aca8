//! One process: what goes in comes out, once, and what is in use stays.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use fishplate_contract::{FileHandle as _, Principal, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::skipped::skipped;
use crate::{GrantRequest, Lease};

mod small;

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
    pool: Pool,
}

impl Bed {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut PoolSettings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = PoolSettings::new(directory.path().join("pool"));
        settings.disk_reserve = 0;
        // The texts of these tests are short: as if they were large.
        settings.largest_in_row = 0;
        set(&mut settings);
        let clock = Arc::new(Still(AtomicI64::new(1_000_000)));
        let pool = Pool::open(settings, clock.clone()).unwrap();
        Self { directory, clock, pool }
    }

    fn pass(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn store(&self, owner: &Principal, text: &str) -> Lease {
        self.pass(Duration::from_millis(1));
        self.pool.store(owner, &[Bytes::copy_from_slice(text.as_bytes())], None, false).unwrap()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn names(&self, part: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut directories = vec![self.pool.0.directory().join(part)];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    names.push(entry.file_name().into_string().unwrap());
                }
            }
        }
        names
    }
}

fn alice() -> Principal {
    Principal::named("alice")
}

fn bob() -> Principal {
    Principal::named("bob")
}

fn text(lease: &Lease) -> String {
    fs::read_to_string(lease.path()).unwrap()
}

#[test]
fn the_same_content_is_one_file_and_each_owner_is_charged_for_it() {
    let bed = Bed::new();
    let first = bed.store(&alice(), "hello");
    let second = bed.store(&bob(), "hello");
    bed.store(&alice(), "hello");
    assert_eq!(first.path(), second.path());
    assert_eq!(text(&first), "hello");
    assert_eq!(first.digest(), second.digest());
    let mode = fs::metadata(first.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);
    assert_eq!(bed.names("objects"), [first.digest().unwrap().hex()]);
    assert_eq!(bed.names("incoming"), Vec::<String>::new());
    assert_eq!(bed.pool.total().unwrap(), 5);
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 5);
    assert_eq!(bed.pool.charged(&bob()).unwrap(), 5);
}

#[test]
fn a_digest_is_no_grant() {
    let bed = Bed::new();
    let digest = bed.store(&alice(), "secret").digest().unwrap();
    assert!(bed.pool.find(&bob(), &digest).unwrap().is_none());
    assert_eq!(text(&bed.pool.find(&alice(), &digest).unwrap().unwrap()), "secret");
}

#[test]
fn a_grant_gives_the_data_until_it_expires_or_is_revoked() {
    let bed = Bed::new();
    let lease = bed.store(&alice(), "mesh");
    let request = |life| GrantRequest {
        origin: "http://127.0.0.1:1/at/data".to_owned(),
        name: "a mesh.vtk".to_owned(),
        media_type: "text/plain".to_owned(),
        life,
    };
    let grant = bed.pool.grant(&lease, &alice(), request(None)).unwrap();
    let (_, token) = grant.url.split_once("http://127.0.0.1:1/at/data/data/").unwrap();
    let token = token.strip_suffix("/a%20mesh.vtk").unwrap();
    assert_eq!(token.len(), 43);
    for known in [grant.url.as_str(), token, &format!("http://other/data/{token}")] {
        let granted = bed.pool.redeem(known).unwrap().unwrap();
        assert_eq!(text(&granted.lease), "mesh");
        assert_eq!(
            (granted.name.as_str(), granted.media_type.as_str()),
            ("a mesh.vtk", "text/plain")
        );
        assert_eq!((granted.owner, granted.expires), (alice(), grant.expires));
    }
    for unknown in ["", "http://other/data/", &token[1..], &format!("http://other/{token}")] {
        assert!(bed.pool.redeem(unknown).unwrap().is_none(), "{unknown}");
    }
    // The catalogue does not tell the token.
    let catalogue = bed.pool.0.directory().join("pool.sqlite");
    let wal = bed.pool.0.directory().join("pool.sqlite-wal");
    for file in [catalogue, wal] {
        let bytes = fs::read(file).unwrap();
        assert!(!bytes.windows(token.len()).any(|window| window == token.as_bytes()));
    }
    assert!(!bed.pool.revoke(&bob(), &grant.url).unwrap(), "another's grant was revoked");
    assert!(bed.pool.revoke(&alice(), &grant.url).unwrap());
    assert!(bed.pool.redeem(&grant.url).unwrap().is_none());

    let short = bed.pool.grant(&lease, &alice(), request(Some(Duration::from_secs(5)))).unwrap();
    bed.pass(Duration::from_millis(4999));
    assert!(bed.pool.redeem(&short.url).unwrap().is_some());
    bed.pass(Duration::from_millis(1));
    assert!(bed.pool.redeem(&short.url).unwrap().is_none());
    let long = request(Some(Duration::from_hours(10_000)));
    let long = bed.pool.grant(&lease, &alice(), long).unwrap();
    assert_eq!(long.expires, bed.pool.now().after(bed.pool.settings().grant_life));
    assert_eq!(bed.pool.grants(&alice()).unwrap().len(), 1);
    assert!(bed.pool.revoke_any(&long.id.to_string()).unwrap());
    assert!(bed.pool.grants(&alice()).unwrap().is_empty());
}

#[test]
fn an_registered_file_is_there_at_once_and_gets_its_digest() {
    let bed = Bed::new();
    for how in [RegistrationMode::Link, RegistrationMode::Copy] {
        let name = format!("{how:?}");
        let file = bed.file(&name, &format!("output by {name}"));
        let lease = bed.pool.register(&alice(), &file, how).unwrap();
        assert_eq!(text(&lease), format!("output by {name}"));
        let same = fs::metadata(&file).unwrap().ino() == fs::metadata(lease.path()).unwrap().ino();
        assert_eq!(same, how == RegistrationMode::Link);
        let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
        let digest = lease.known_digest().unwrap();
        assert_eq!(digest, hash::of_bytes([format!("output by {name}").as_bytes()]));
        assert_eq!(lease.digest(), Some(digest));
        // The name that the lease has stays as long as it.
        assert_eq!(text(&lease), format!("output by {name}"));
        let granted = bed.pool.redeem(&grant.url).unwrap().unwrap();
        assert_eq!(granted.lease.digest(), Some(digest));
        assert_eq!(granted.lease.path(), bed.pool.0.object_path(&digest));
    }
    bed.pool.sweep().unwrap();
    assert_eq!(bed.names("adopted"), Vec::<String>::new());
    assert_eq!(bed.names("objects").len(), 2);
}

#[test]
fn what_can_not_be_linked_safely_is_copied() {
    let bed = Bed::new();
    let registered = |file: &Path| {
        let lease = bed.pool.register(&alice(), file, RegistrationMode::Link).unwrap();
        fs::metadata(lease.path()).unwrap().ino() == fs::metadata(file).unwrap().ino()
    };
    let open = bed.file("open", "somebody still writes to it");
    let writer = File::options().append(true).open(&open).unwrap();
    assert!(!registered(&open));
    drop(writer);
    assert!(registered(&bed.file("closed", "nobody writes to it")));
    let linked = bed.file("linked", "it has another name");
    fs::hard_link(&linked, bed.directory.path().join("another")).unwrap();
    assert!(!registered(&linked));

    let directory = bed.directory.path();
    std::os::unix::fs::symlink(&linked, directory.join("symbolic")).unwrap();
    for no_file in [directory.to_owned(), directory.join("symbolic"), directory.join("none")] {
        let error = bed.pool.register(&alice(), &no_file, RegistrationMode::Link).unwrap_err();
        assert!(matches!(error, PoolError::Io { .. }), "{error}");
    }
}

#[test]
fn an_registered_duplicate_becomes_the_file_that_is_there() {
    let bed = Bed::new();
    let first = bed.store(&alice(), "the same");
    let second =
        bed.pool.register(&bob(), &bed.file("output", "the same"), RegistrationMode::Link).unwrap();
    let early = bed.pool.grant(&second, &bob(), GrantRequest::default()).unwrap();
    assert_eq!(second.known_digest().unwrap(), first.digest().unwrap());
    let late = bed.pool.grant(&second, &bob(), GrantRequest::default()).unwrap();
    for grant in [early, late] {
        let granted = bed.pool.redeem(&grant.url).unwrap().unwrap();
        assert_eq!(granted.lease.path(), first.path());
    }
    bed.pool.sweep().unwrap();
    assert_eq!(bed.names("adopted").len(), 1, "it is still read by that name");
    assert_eq!(bed.pool.duplicates().unwrap(), Duplicates { count: 1, bytes: 8 });
    assert_eq!(text(&second), "the same");
    drop(second);
    bed.pool.sweep().unwrap();
    assert_eq!(bed.names("adopted").len(), 0);
    assert_eq!(bed.pool.objects().unwrap().len(), 1);
    assert_eq!(bed.pool.total().unwrap(), 8);
    assert_eq!(bed.pool.duplicates().unwrap(), Duplicates { count: 0, bytes: 0 });
    for owner in [alice(), bob()] {
        assert_eq!(bed.pool.charged(&owner).unwrap(), 8);
    }
}

#[test]
fn what_is_pinned_or_granted_goes_by_force_only() {
    let bed = Bed::new();
    let digest = bed.store(&alice(), "held").digest().unwrap();
    let lease = bed.pool.find(&alice(), &digest).unwrap().unwrap();
    let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    drop(lease);
    bed.pool.pin(&digest, true).unwrap();
    assert!(bed.pool.revoke(&alice(), &grant.url).unwrap());
    assert!(matches!(bed.pool.remove_unheld(&digest), Err(PoolError::InUse)), "it is pinned");
    bed.pool.pin(&digest, false).unwrap();
    let lease = bed.pool.find(&alice(), &digest).unwrap().unwrap();
    bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    drop(lease);
    assert!(matches!(bed.pool.remove_unheld(&digest), Err(PoolError::InUse)), "it is granted");
    assert_eq!(bed.pool.remove(&digest).unwrap(), 4);
    let other = bed.store(&alice(), "not held").digest().unwrap();
    assert_eq!(bed.pool.remove_unheld(&other).unwrap(), 8);
}

#[test]
fn a_grant_of_a_duplicate_holds_though_the_other_was_removed() {
    let bed = Bed::new();
    let first = bed.store(&alice(), "the same").digest().unwrap();
    let second =
        bed.pool.register(&bob(), &bed.file("output", "the same"), RegistrationMode::Link).unwrap();
    assert_eq!(second.known_digest().unwrap(), first);
    bed.pool.remove(&first).unwrap();
    let grant = bed.pool.grant(&second, &bob(), GrantRequest::default()).unwrap();
    drop(second);
    let granted = bed.pool.redeem(&grant.url).unwrap().unwrap();
    assert_eq!(granted.lease.known_digest().unwrap(), first);
    assert_eq!(text(&granted.lease), "the same");
}

#[test]
fn the_least_recently_used_goes_that_nobody_needs() {
    let bed = Bed::with(|settings| settings.quota = Some(50));
    let ten = |digit: &str| digit.repeat(10);
    let leased = bed.store(&alice(), &ten("0"));
    let granted = bed.store(&alice(), &ten("1"));
    let grant = bed.pool.grant(&granted, &alice(), GrantRequest::default()).unwrap();
    let pinned = bed.store(&alice(), &ten("2")).digest().unwrap();
    bed.pool.pin(&pinned, true).unwrap();
    let used = bed.store(&alice(), &ten("3")).digest().unwrap();
    let unused = bed.store(&alice(), &ten("4")).digest().unwrap();
    drop(granted);
    bed.pass(Duration::from_secs(1));
    assert!(bed.pool.find(&alice(), &used).unwrap().is_some());
    bed.store(&alice(), &ten("5"));
    assert!(bed.pool.find(&alice(), &unused).unwrap().is_none());
    for kept in [leased.digest().unwrap(), pinned, used] {
        assert!(bed.pool.find(&alice(), &kept).unwrap().is_some());
    }
    assert!(bed.pool.redeem(&grant.url).unwrap().is_some());
    // Three are in use: one of thirty can't have room, one of twenty can.
    let thirty = [Bytes::from(ten("678"))];
    let error = bed.pool.store(&alice(), &thirty, None, false).unwrap_err();
    assert!(matches!(error, PoolError::Quota { limit: "pool_quota", value: 50, .. }), "{error}");
    let fault = fishplate_contract::Fault::from(error);
    assert_eq!(fault.code, fishplate_contract::FaultCode::QuotaExceeded);
    assert_eq!(fault.limit.unwrap().name, "pool_quota");
    bed.store(&alice(), &ten("67"));
    // Whatever kept them is gone.
    drop(leased);
    bed.pool.pin(&pinned, false).unwrap();
    bed.pass(bed.pool.settings().grant_life);
    bed.store(&alice(), &ten("12345"));
    assert_eq!(bed.names("objects").len(), 1);
}

#[test]
fn an_owner_has_a_quota_of_their_own() {
    let bed = Bed::with(|settings| settings.owner_quota = Arc::new(Some(20)));
    let ten = |digit: &str| digit.repeat(10);
    let shared = bed.store(&bob(), &ten("0")).digest().unwrap();
    bed.store(&alice(), &ten("0"));
    let second = bed.store(&alice(), &ten("1"));
    // What alice does not need goes from her charge, and stays with bob.
    let third = bed.store(&alice(), &ten("2"));
    assert!(bed.pool.find(&alice(), &shared).unwrap().is_none());
    assert!(bed.pool.find(&bob(), &shared).unwrap().is_some());
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 20);
    let error = bed.pool.store(&alice(), &[Bytes::from(ten("3"))], None, false).unwrap_err();
    let refused = |error: &PoolError| {
        matches!(error, PoolError::Quota { limit: "owner_disk", value: 20, .. })
    };
    assert!(refused(&error), "{error}");
    // An upload is refused before its bytes come, and with what others are uploading.
    drop(second);
    let error = bed.pool.receive(&alice(), None, Some(21)).unwrap_err();
    assert!(refused(&error), "{error}");
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 20, "nothing went for what can't have room");
    let arriving = bed.pool.receive(&alice(), None, Some(10)).unwrap();
    let error = bed.pool.receive(&alice(), None, Some(10)).unwrap_err();
    assert!(refused(&error), "{error}");
    drop(arriving);
    bed.pool.receive(&alice(), None, Some(10)).unwrap();
    // To grant what another holds is to hold it.
    drop(third);
    let other = bed.pool.find(&bob(), &shared).unwrap().unwrap();
    bed.pool.grant(&other, &alice(), GrantRequest::default()).unwrap();
    assert!(bed.pool.find(&alice(), &shared).unwrap().is_some());
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 20);
}

#[test]
fn a_lease_that_ended_holds_nothing_though_its_file_is_open_elsewhere() {
    let bed = Bed::new();
    let lease = bed.store(&alice(), &"0".repeat(100_000));
    let digest = lease.digest().unwrap();
    // As in a process that is being forked.
    let copy = lease.file().unwrap().try_clone().unwrap();
    let reader = lease.reopened().unwrap();
    drop(lease);
    assert!(matches!(bed.pool.remove(&digest), Err(PoolError::InUse)), "somebody reads it");
    drop(reader);
    assert_eq!(bed.pool.remove(&digest).unwrap(), 100_000);
    drop(copy);
}

#[test]
fn an_upload_is_verified() {
    let bed = Bed::new();
    let abc = hash::of_bytes([&b"abc"[..]]);
    let abc512 = "sha-512=:3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==:";
    let abc512 = Digest::from_field(abc512).unwrap();
    for told in [None, Some(&abc), Some(&abc512)] {
        let mut incoming = bed.pool.receive(&alice(), None, Some(3)).unwrap();
        incoming.append("ab").unwrap();
        incoming.append("c").unwrap();
        assert_eq!(incoming.commit(told, told.is_some()).unwrap().digest(), Some(abc));
        let stored = bed.pool.store(&alice(), &["a".into(), "bc".into()], told, told.is_some());
        assert_eq!(stored.unwrap().digest(), Some(abc));
    }
    for told in [&abc, &abc512] {
        let mut incoming = bed.pool.receive(&alice(), Some("key"), None).unwrap();
        incoming.append("abd").unwrap();
        let error = incoming.commit(Some(told), false).unwrap_err();
        assert!(matches!(error, PoolError::Mismatch { .. }), "{error}");
        assert!(bed.pool.receive(&alice(), Some("key"), None).unwrap().is_empty());
        let error = bed.pool.store(&alice(), &["abd".into()], Some(told), false).unwrap_err();
        assert!(matches!(error, PoolError::Mismatch { .. }), "{error}");
    }
    let mut incoming = bed.pool.receive(&alice(), Some("key"), Some(3)).unwrap();
    incoming.append("ab").unwrap();
    assert!(matches!(incoming.append("cd"), Err(PoolError::Mismatch { .. })));
    let error = incoming.commit(None, false).unwrap_err();
    assert!(matches!(error, PoolError::Mismatch { .. }), "{error}");
    // It was too short; what there was is there.
    let mut incoming = bed.pool.receive(&alice(), Some("key"), Some(3)).unwrap();
    assert_eq!(incoming.len(), 2);
    incoming.append("c").unwrap();
    assert_eq!(incoming.commit(Some(&abc), false).unwrap().digest(), Some(abc));
    assert_eq!(bed.names("incoming"), Vec::<String>::new());
}

#[test]
fn what_is_hashed_beside_is_hashed_whole() {
    let bed = Bed::new();
    let bytes: Vec<u8> = (0..9_000_007_u32).map(|at| (at % 251) as u8).collect();
    let whole = hash::of_bytes([&bytes[..]]);
    for (piece, cut) in [(1 << 10, 5_000_000), (300_000, 0), (9_000_007, 1)] {
        let mut incoming = bed.pool.receive(&alice(), Some("key"), None).unwrap();
        for part in bytes[..6_000_000].chunks(piece) {
            incoming.append(Bytes::copy_from_slice(part)).unwrap();
        }
        incoming.truncate(cut).unwrap();
        drop(incoming);
        let mut incoming = bed.pool.receive(&alice(), Some("key"), None).unwrap();
        assert_eq!(incoming.len(), cut);
        for part in bytes[usize::try_from(cut).unwrap()..].chunks(piece) {
            incoming.append(Bytes::copy_from_slice(part)).unwrap();
        }
        let lease = incoming.commit(None, false).unwrap();
        assert_eq!(lease.digest(), Some(whole));
        assert_eq!(lease.len(), 9_000_007);
    }
}

#[test]
fn a_version_is_remembered_with_the_bytes_it_is_of() {
    let bed = Bed::new();
    let mut incoming = bed.pool.receive(&alice(), Some("key"), None).unwrap();
    incoming.note_version("v1").unwrap();
    incoming.append("some").unwrap();
    assert!(matches!(bed.pool.receive(&alice(), Some("key"), None), Err(PoolError::Busy)));
    drop(incoming);
    let mut incoming = bed.pool.receive(&alice(), Some("key"), None).unwrap();
    assert_eq!(incoming.version(), Some("v1"));
    incoming.truncate(0).unwrap();
    assert_eq!(incoming.version(), None);
    drop(incoming);
    assert_eq!(bed.pool.receive(&alice(), Some("key"), None).unwrap().version(), None);
}

#[test]
fn a_broken_upload_is_given_up_after_a_while() {
    let bed = Bed::new();
    // Files have the machine's time.
    let now = fishplate_contract::SystemClock.now().0;
    bed.clock.0.store(now, Ordering::SeqCst);
    let begin = |key| {
        let mut incoming = bed.pool.receive(&alice(), Some(key), None).unwrap();
        incoming.append("some").unwrap();
        incoming
    };
    drop(begin("left"));
    let kept = begin("kept");
    bed.pass(bed.pool.settings().incoming_life - Duration::from_mins(1));
    assert_eq!(bed.pool.sweep().unwrap().incoming, 0);
    bed.pass(Duration::from_mins(2));
    assert_eq!(bed.pool.sweep().unwrap().incoming, 1);
    assert_eq!(bed.names("incoming").len(), 1);
    assert_eq!(text(&kept.commit(None, false).unwrap()), "some");
}

#[test]
fn what_rests_in_part_is_charged_to_its_owner() {
    let bed = Bed::with(|settings| settings.owner_quota = Arc::new(Some(20)));
    let begin = |key| {
        let mut incoming = bed.pool.receive(&alice(), Some(key), None).unwrap();
        incoming.append("0123456789".to_owned()).unwrap();
        incoming
    };
    drop(begin("key").only_if_resumable());
    assert_eq!(bed.names("incoming"), [""; 0], "nobody can go on with it");
    drop(begin("key"));
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 10);
    assert_eq!(bed.pool.total().unwrap(), 10);
    let resumed = bed.pool.receive(&alice(), Some("key"), Some(20)).unwrap();
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 0, "it is arriving");
    drop(resumed);
    let partials = bed.pool.partials().unwrap();
    assert_eq!(partials.len(), 1);
    assert_eq!((partials[0].len, partials[0].owner.clone()), (10, Some(alice())));

    // A process that was killed leaves more than it told.
    fs::write(bed.pool.0.incoming_path(&partials[0].name), "0123456789abcde").unwrap();
    bed.pool.sweep().unwrap();
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 15);
    // It goes when its owner needs the room, not when another one does.
    bed.pool.receive(&bob(), None, Some(20)).unwrap();
    assert_eq!(bed.names("incoming").len(), 1);
    bed.pool.receive(&alice(), None, Some(10)).unwrap();
    assert_eq!(bed.names("incoming").len(), 0);
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 0);

    let busy = begin("key");
    let name = bed.pool.partials().unwrap().remove(0).name;
    assert!(matches!(bed.pool.remove_partial(&name), Err(PoolError::InUse)));
    drop(busy);
    assert_eq!(bed.pool.remove_partial(&name).unwrap(), 10);
    assert!(matches!(bed.pool.remove_partial(&name), Err(PoolError::NoSuchData)));
    // A row whose file is gone is charged to nobody.
    drop(begin("key"));
    fs::remove_file(bed.pool.0.incoming_path(&name)).unwrap();
    bed.pool.sweep().unwrap();
    assert_eq!(bed.pool.total().unwrap(), 0);
}

#[test]
fn damaged_data_is_neither_served_nor_taken_for_what_comes() {
    let bed = Bed::new();
    let stored = bed.store(&alice(), "sound");
    let (digest, path) = (stored.digest().unwrap(), stored.path().to_owned());
    let grant = bed.pool.grant(&stored, &alice(), GrantRequest::default()).unwrap();
    drop(stored);
    let damage = || {
        let writable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&path, writable).unwrap();
        fs::write(&path, "wrong").unwrap();
    };
    damage();
    // By what comes anew, from memory and through a file.
    assert_eq!(text(&bed.store(&bob(), "sound")), "sound");
    assert_eq!(bed.names("damaged"), [digest.hex()]);
    damage();
    let mut incoming = bed.pool.receive(&bob(), None, None).unwrap();
    incoming.append("sound".to_owned()).unwrap();
    assert_eq!(text(&incoming.commit(None, false).unwrap()), "sound");
    // By an unhashed file.
    damage();
    let registered =
        bed.pool.register(&bob(), &bed.file("out", "sound"), RegistrationMode::Copy).unwrap();
    assert_eq!(registered.known_digest().unwrap(), digest);
    assert_eq!(fs::read_to_string(&path).unwrap(), "sound");
    assert!(bed.pool.redeem(&grant.url).unwrap().is_some(), "the grant is good again");
    // By whoever wants it.
    damage();
    assert!(bed.pool.redeem(&grant.url).unwrap().is_none());
    assert!(bed.pool.find(&alice(), &digest).unwrap().is_none());
    // What only seems to have been written to stays, and need not be read twice.
    bed.store(&alice(), "sound");
    File::open(&path).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    assert_eq!(text(&bed.pool.find(&alice(), &digest).unwrap().unwrap()), "sound");
    assert!(fs::metadata(&path).unwrap().mtime() < 10_000, "the time of this test's clock");
    // What damage left no trace of is found by the operator.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    damage();
    File::open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Damaged);
    assert!(bed.pool.find(&alice(), &digest).unwrap().is_none());
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Missing);
    assert_eq!(bed.names("damaged").len(), 1);
    bed.pass(Duration::from_hours(25));
    bed.pool.sweep().unwrap();
    assert_eq!(bed.names("damaged").len(), 0);
}

#[test]
fn an_registered_file_that_lost_its_end_gets_no_name() {
    let bed = Bed::new();
    let inner = &bed.pool.0;
    // As a failure of power leaves it: the row says more than there is.
    let name = random_name().unwrap();
    fs::write(inner.registered_path(&name), "half").unwrap();
    let number = inner.enter(&alice(), 8, false, &object::NewObject::Unhashed(name)).unwrap();
    assert_eq!(inner.hash_registered(number, true).unwrap(), None);
    assert_eq!(bed.names("objects").len() + bed.names("adopted").len(), 0);
    assert_eq!((bed.names("damaged").len(), bed.pool.total().unwrap()), (1, 0));
}

#[test]
fn a_file_that_is_copied_keeps_its_mode() {
    let bed = Bed::new();
    let file = bed.file("out", "text");
    let writer = File::options().append(true).open(&file).unwrap();
    let mode = || fs::metadata(&file).unwrap().mode();
    let before = mode();
    let registered = bed.pool.register(&alice(), &file, RegistrationMode::Link).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 1, "it was copied");
    assert_eq!((mode(), text(&registered)), (before, "text".to_owned()));
    drop(writer);
}

#[test]
fn what_a_killed_process_left_goes_at_once_and_what_is_being_written_stays() {
    let bed = Bed::new();
    let mut living = bed.pool.receive(&alice(), None, None).unwrap();
    living.append("some").unwrap();
    let copying = bed.pool.0.incoming_path("u-copying");
    let source = File::open(bed.file("source", "much")).unwrap();
    let (_copy, _) = crate::placement::copy_new(&source, &copying, WHOLE).unwrap();
    fs::write(bed.pool.0.incoming_path("u-dead"), "half").unwrap();
    // By a clock that was set back meanwhile, too.
    bed.clock.0.store(5, Ordering::SeqCst);
    assert_eq!(bed.pool.sweep().unwrap().incoming, 1);
    assert_eq!(bed.names("incoming").len(), 2);
    drop(living);
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_search() {
    let bed = Bed::new();
    bed.pool.sweep().unwrap();
    let orphan = bed.pool.0.object_path(&Digest::Sha256([7; 32]));
    fs::write(&orphan, "nobody's").unwrap();
    bed.clock.0.store(5, Ordering::SeqCst);
    assert_eq!(bed.pool.sweep().unwrap().orphans, 0);
    let Some(long_ago) = Instant::now().checked_sub(Duration::from_hours(1)) else {
        return skipped("uptime", "the machine was started within the last hour");
    };
    *lock(&bed.pool.0.searched) = Some(long_ago);
    assert_eq!(bed.pool.sweep().unwrap().orphans, 1);
}

#[test]
fn a_sweep_makes_files_and_rows_agree() {
    let bed = Bed::new();
    let lost = bed.store(&alice(), "lost");
    fs::remove_file(lost.path()).unwrap();
    let cut = bed.store(&alice(), "cut");
    fs::remove_file(cut.path()).unwrap();
    fs::write(cut.path(), "").unwrap();
    let unknown = bed.pool.0.object_path(&hash::of_bytes([&b"unknown"[..]]));
    fs::write(&unknown, "unknown").unwrap();
    fs::write(bed.pool.0.registered_path("left"), "left").unwrap();
    assert!(bed.pool.find(&alice(), &lost.digest().unwrap()).unwrap().is_none());
    assert!(bed.pool.find(&alice(), &cut.digest().unwrap()).unwrap().is_none());
    let swept = bed.pool.sweep().unwrap();
    assert_eq!((swept.orphans, swept.missing), (2, 2));
    assert!(!unknown.exists());
    // What was damaged is replaced by who stores it anew.
    assert_eq!(text(&bed.store(&alice(), "cut")), "cut");
    assert_eq!(text(&bed.store(&alice(), "lost")), "lost");
    assert_eq!(
        bed.pool.sweep().unwrap(),
        SweepReport::default(),
        "files and rows are compared seldom"
    );
    assert_eq!(bed.pool.sweep_and_search(true).unwrap(), SweepReport::default());
}

#[test]
fn what_nobody_used_for_long_goes() {
    let bed = Bed::new();
    let lease = bed.store(&alice(), "used");
    bed.store(&alice(), "unused");
    bed.pass(bed.pool.settings().idle);
    bed.store(&alice(), "new");
    assert_eq!(bed.pool.sweep().unwrap().evicted, 6);
    drop(lease);
    assert_eq!(bed.pool.sweep().unwrap().evicted, 4);
    assert_eq!(bed.pool.total().unwrap(), 3);
}

#[test]
fn the_operator_sees_verifies_and_removes() {
    let bed = Bed::new();
    let lease = bed.store(&alice(), "data");
    let digest = lease.digest().unwrap();
    bed.store(&Principal::anonymous(), "data");
    bed.pool.pin(&digest, true).unwrap();
    let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    let objects = bed.pool.objects().unwrap();
    let [object] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!((object.digest, object.len, object.pinned), (Some(digest), 4, true));
    assert_eq!(object.owners, [Principal::anonymous(), alice()]);
    assert_eq!(object.grants.iter().map(|it| it.id).collect::<Vec<_>>(), [grant.id]);

    let mut read = 0;
    assert_eq!(bed.pool.verify(&digest, |bytes| read += bytes).unwrap(), Verification::Sound);
    assert_eq!(read, 4);
    assert!(matches!(bed.pool.remove(&digest), Err(PoolError::InUse)));
    let path = lease.path().to_owned();
    drop(lease);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "date").unwrap();
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Damaged);
    assert!(!path.exists());
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Missing);
    assert_eq!(bed.pool.remove(&digest).unwrap(), 4);
    assert!(matches!(bed.pool.remove(&digest), Err(PoolError::NoSuchData)));
    assert!(matches!(bed.pool.pin(&digest, true), Err(PoolError::NoSuchData)));
    assert!(bed.pool.redeem(&grant.url).unwrap().is_none());
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 0);
}

#[test]
fn a_pool_of_a_newer_fishplate_is_left_alone() {
    let bed = Bed::new();
    let catalogue = bed.pool.0.directory().join("pool.sqlite");
    let connection = rusqlite::Connection::open(catalogue).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = Pool::open(bed.pool.settings().clone(), bed.clock.clone()).unwrap_err();
    assert!(matches!(error, PoolError::Schema { found: 99, .. }), "{error}");
}
