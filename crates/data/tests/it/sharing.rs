//! Several processes, one pool.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{FileHandle as _, SystemClock};
use fishplate_data::{GrantRequest, Pool, PoolError, PoolSettings, RegistrationMode};

use crate::{child, files, kill, owner, place, sha256};

fn open(place: &Path) -> Pool {
    let mut settings = PoolSettings::new(place.join("pool"));
    settings.quota = Some(100_000);
    settings.disk_reserve = 0;
    Pool::open(settings, Arc::new(SystemClock)).unwrap()
}

fn bytes(byte: u8, len: usize) -> [Bytes; 1] {
    [vec![byte; len].into()]
}

#[test]
#[ignore = "runs as a child of the tests below"]
fn holder() {
    let pool = open(&place());
    let lease = pool.store(&owner(0), &bytes(1, 60_000), None, false).unwrap();
    let mut incoming = pool.receive(&owner(0), Some("key"), None).unwrap();
    incoming.append(Bytes::from_static(b"so far")).unwrap();
    incoming.note_version("v1").unwrap();
    // Its row is there for others.
    let grant = pool.grant(&lease, &owner(0), GrantRequest::default()).unwrap();
    pool.revoke(&owner(0), &grant.url).unwrap();
    println!("\n@ holds");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn what_another_process_uses_stays_until_it_dies() {
    let bed = tempfile::tempdir().unwrap();
    let mut holder = child("sharing::holder", bed.path()).stdin(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(holder.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line == "@ holds"));
    let pool = open(bed.path());
    let held = sha256(&bytes(1, 60_000)[0]);

    let refused = pool.store(&owner(1), &bytes(2, 60_000), None, false);
    assert!(matches!(refused, Err(PoolError::Quota { limit: "pool_quota", .. })), "{refused:?}");
    assert!(matches!(pool.remove(&held), Err(PoolError::InUse)));
    let busy = pool.receive(&owner(0), Some("key"), None);
    assert!(matches!(busy, Err(PoolError::Busy)), "{busy:?}");
    assert!(pool.receive(&owner(1), Some("key"), None).unwrap().is_empty(), "another's key");

    kill(&mut holder);
    pool.store(&owner(1), &bytes(2, 60_000), None, false).unwrap();
    assert!(pool.find(&owner(0), &held).unwrap().is_none(), "it was evicted");
    let mut resumed = pool.receive(&owner(0), Some("key"), None).unwrap();
    assert_eq!((resumed.len(), resumed.version()), (6, Some("v1")));
    resumed.append(Bytes::from_static(b" good")).unwrap();
    let lease = resumed.commit(Some(&sha256(b"so far good")), false).unwrap();
    assert_eq!(fs::read(lease.path()).unwrap(), b"so far good");
}

#[test]
#[ignore = "runs as a child of the test below"]
fn uploader() {
    let pool = open(&place());
    for round in 0..40_u8 {
        let mut incoming = pool.receive(&owner(0), None, Some(2000)).unwrap();
        incoming.append(vec![round; 2000]).unwrap();
        let uploaded = incoming.commit(None, false).unwrap();
        let stored = pool.store(&owner(1), &bytes(round, 2000), None, false).unwrap();
        assert_eq!(fs::read(uploaded.path()).unwrap(), fs::read(stored.path()).unwrap());
    }
}

#[test]
fn concurrent_uploads_of_the_same_end_as_one_file() {
    let bed = tempfile::tempdir().unwrap();
    let uploaders: Vec<_> =
        (0..4).map(|_| child("sharing::uploader", bed.path()).spawn().unwrap()).collect();
    for uploader in uploaders {
        let ended = uploader.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let pool = open(bed.path());
    assert_eq!(pool.objects().unwrap().len(), 40);
    assert_eq!(files(&bed.path().join("pool/objects")).len(), 40);
    assert_eq!(pool.total().unwrap(), 80_000);
    assert_eq!(files(&bed.path().join("pool/incoming")).len(), 0);
}

#[test]
#[ignore = "runs as a child of the test below"]
fn adopter() {
    let pool = open(&place());
    let file = place().join("output");
    // Large enough that it is not hashed yet when this is killed.
    fs::write(&file, vec![3; 90_000]).unwrap();
    let lease = pool.register(&owner(0), &file, RegistrationMode::Link).unwrap();
    let grant = pool.grant(&lease, &owner(0), GrantRequest::default()).unwrap();
    println!("\n@ {}", grant.url);
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn what_was_adopted_survives_its_process() {
    for _ in 0..5 {
        let bed = tempfile::tempdir().unwrap();
        let mut adopter =
            child("sharing::adopter", bed.path()).stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(adopter.stdout.take().unwrap());
        let lines = output.lines().map_while(Result::ok);
        let url = lines.filter_map(|line| line.strip_prefix("@ ").map(str::to_owned)).next();
        kill(&mut adopter);
        fs::remove_file(bed.path().join("output")).unwrap();
        let pool = open(bed.path());
        let granted = pool.redeem(&url.unwrap()).unwrap().unwrap();
        assert_eq!(granted.lease.known_digest().unwrap(), sha256(&[3; 90_000]));
        assert_eq!(fs::read(granted.lease.path()).unwrap(), [3; 90_000]);
    }
}

#[test]
#[ignore = "runs as a child of the test below"]
fn small_holder() {
    let pool = open(&place());
    let lease = pool.store(&owner(0), &bytes(1, 1000), None, true).unwrap();
    println!("\n@ holds");
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().next().unwrap().unwrap();
    let grant = pool.grant(&lease, &owner(0), GrantRequest::default()).unwrap();
    println!("\n@ {}", grant.url);
    std::io::stdout().flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn small_data_that_goes_while_another_process_uses_it_can_be_granted() {
    for with_file in [false, true] {
        let bed = tempfile::tempdir().unwrap();
        let mut holder =
            child("sharing::small_holder", bed.path()).stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == "@ holds"));
        let pool = open(bed.path());
        let digest = sha256(&bytes(1, 1000)[0]);
        assert_eq!(files(&bed.path().join("pool/objects")).len(), 0);
        assert!(pool.find(&owner(1), &digest).unwrap().is_none());
        assert_eq!(pool.remove(&digest).unwrap(), 1000);
        // Its number is another's, and it may be a file by now.
        pool.store(&owner(1), &bytes(2, 1000), None, true).unwrap();
        if with_file {
            let mut incoming = pool.receive(&owner(1), None, None).unwrap();
            incoming.append(vec![1; 1000]).unwrap();
            incoming.commit(None, false).unwrap();
        }
        holder.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let granted = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("@ "));
        let granted = pool.redeem(&granted.unwrap()[2..]).unwrap().unwrap();
        kill(&mut holder);
        assert_eq!(fs::read(granted.lease.path()).unwrap(), [1; 1000]);
        assert_eq!(files(&bed.path().join("pool/objects")).len(), usize::from(with_file));
        assert_eq!(pool.total().unwrap(), 2000);
    }
}
