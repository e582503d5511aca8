//! One process: what goes in comes out, once, and what is in use stays.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use fishplate_contract::{Held as _, Principal, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::{GrantRequest, Lease};

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
fn an_adopted_file_is_there_at_once_and_gets_its_digest() {
    let bed = Bed::new();
    for how in [Adoption::Link, Adoption::Copy] {
        let name = format!("{how:?}");
        let file = bed.file(&name, &format!("output by {name}"));
        let lease = bed.pool.adopt(&alice(), &file, how).unwrap();
        assert_eq!(text(&lease), format!("output by {name}"));
        let same = fs::metadata(&file).unwrap().ino() == fs::metadata(lease.path()).unwrap().ino();
        assert_eq!(same, how == Adoption::Link);
        let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
        let digest = lease.settled_digest().unwrap();
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
