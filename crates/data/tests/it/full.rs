//! A disk that is full, or a process that may write no more: a clear error, and what was there
//! stays.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode, FileHandle as _, SystemClock};
use fishplate_data::session::{SessionError, SessionSettings};
use fishplate_data::{
    GrantRequest, Pool, PoolError, PoolSettings, RegistrationMode, Sessions, Shortage,
};
use fishplate_formats::disk::FreeSpace;
use nix::sys::resource::{Resource, setrlimit};

use crate::{Mount, child, files, may_mount, owner, place};

fn open(directory: &Path, reserve: u64) -> Pool {
    let mut settings = PoolSettings::new(directory.join("pool"));
    settings.disk_reserve = reserve;
    Pool::open(settings, Arc::new(SystemClock)).unwrap()
}

fn is_full(error: PoolError) -> bool {
    let full = matches!(error, PoolError::Full { .. });
    full && Fault::from(error).code == FaultCode::StorageFull
}

#[test]
fn a_full_disk_is_told_after_all_that_nobody_needs_went() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    let disk = bed.path().join("disk");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=16m", "tmpfs"], &disk) else {
        return;
    };
    let pool = open(&disk, 1 << 20);
    let piece = |byte: u8| Bytes::from(vec![byte; 1 << 20]);
    let kept = pool.store(&owner(0), &[piece(0)], None, false).unwrap();
    let grant = pool.grant(&kept, &owner(0), GrantRequest::default()).unwrap();
    // Twice what the disk holds: what nobody needs makes room.
    for byte in 1..32 {
        pool.store(&owner(0), &[piece(byte)], None, false).unwrap();
    }
    // And now what somebody does need does not.
    let mut leases = Vec::new();
    let error = (32..64)
        .find_map(|byte| match pool.store(&owner(0), &[piece(byte)], None, false) {
            Ok(lease) => {
                leases.push(lease);
                None
            }
            Err(error) => Some(error),
        })
        .expect("the disk is full at last");
    assert!(is_full(error));
    assert!(leases.len() > 8, "only {} leases had room", leases.len());
    let large = pool.receive(&owner(0), None, Some(20 << 20)).unwrap_err();
    assert!(is_full(large));
    // One that did not say how much there is gets an error when there is no room, and keeps what
    // it has.
    let mut incoming = pool.receive(&owner(0), Some("key"), None).unwrap();
    let error = (0..32).find_map(|_| incoming.append(piece(9)).err());
    assert!(is_full(error.expect("the disk is full at last")));
    drop(incoming);
    assert_eq!(fs::read(kept.path()).unwrap(), piece(0));
    leases.iter().for_each(|lease| assert_eq!(fs::read(lease.path()).unwrap().len(), 1 << 20));
    leases.clear();
    pool.store(&owner(0), &[piece(99)], None, false).unwrap();

    // Somebody else leaves nothing at all, not even for the catalogue.
    let mut other = fs::File::create(disk.join("other")).unwrap();
    let mut filled = 0;
    while let Ok(written) = other.write(&[0; 4096]) {
        filled += written;
    }
    assert!(filled > 0);
    assert_eq!(fs::read(pool.redeem(&grant.url).unwrap().unwrap().lease.path()).unwrap(), piece(0));
    // What nobody needs goes after all.
    assert!(pool.sweep().unwrap().evicted > 0);
    pool.store(&owner(0), &[piece(100)], None, false).unwrap();
}

#[test]
fn the_reserve_of_the_disk_stays_free() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    let disk = bed.path().join("disk");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=16m", "tmpfs"], &disk) else {
        return;
    };
    let pool = open(&disk, 6 << 20);
    let error = pool.receive(&owner(0), None, Some(8 << 20)).unwrap_err();
    let PoolError::Full { shortage: Some(Shortage { free, .. }), .. } = error else {
        panic!("{error:?}");
    };
    let told = format!("8388608 bytes are needed, {free}, 12582912 are reserved");
    let fault = Fault::from(error);
    assert_eq!(fault.code, FaultCode::StorageFull);
    assert_eq!(fault.message, format!("the server's disk is full: {told}"));
    let limit = fault.limit.unwrap();
    assert_eq!((&*limit.name, &*limit.value), ("disk_reserve", "6291456 bytes"));
    let lease = pool.store(&owner(0), &[vec![1; 1 << 20].into()], None, false).unwrap();
    drop(lease);
    // Something else fills the disk: what nobody needs goes at the next sweep.
    fs::write(disk.join("other"), vec![0; 4 << 20]).unwrap();
    assert_eq!(pool.sweep().unwrap().evicted, 1 << 20);

    let mut settings = SessionSettings::new(disk.join("sessions"));
    settings.disk_reserve = 5 << 20;
    let sessions = Sessions::new(settings, Arc::new(SystemClock)).unwrap();
    let session = sessions.open(&owner(0), None).unwrap();
    fs::write(disk.join("more"), vec![0; 3 << 20]).unwrap();
    let file = bed.path().join("file");
    fs::write(&file, "x").unwrap();
    let error =
        sessions.put(&owner(0), &session.id, "x", &file, RegistrationMode::Copy).unwrap_err();
    assert!(matches!(error, SessionError::Full { .. }), "{error}");
    let fault = Fault::from(error);
    assert_eq!(fault.code, FaultCode::StorageFull);
    assert_eq!(fault.limit.unwrap().name, "disk_reserve");
}

#[test]
fn what_came_in_part_goes_before_others_are_refused() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    let disk = bed.path().join("disk");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=16m", "tmpfs"], &disk) else {
        return;
    };
    let pool = open(&disk, 1 << 20);
    let begin = |key: &str| {
        let mut incoming = pool.receive(&owner(1), Some(key), None).unwrap();
        incoming.note_version("v1").unwrap();
        incoming.append(vec![1; 5 << 20]).unwrap();
        incoming
    };
    let (resting, writing) = (begin("rests"), begin("is being written"));
    drop(resting);
    // What is being written stays; what rests does not.
    let error = pool.receive(&owner(0), None, Some(12 << 20)).unwrap_err();
    assert!(is_full(error));
    pool.receive(&owner(0), None, Some(8 << 20)).unwrap();
    assert_eq!(files(&disk.join("pool/incoming")).len(), 1);
    drop(writing);
    // So it is when something else fills the disk.
    fs::write(disk.join("other"), vec![0; 10 << 20]).unwrap();
    assert_eq!(pool.sweep().unwrap().evicted, 5 << 20);
    assert_eq!(pool.charged(&owner(1)).unwrap(), 0);
}

#[test]
#[ignore = "runs as a child of the test below"]
fn limited() {
    let directory = place();
    let pool = open(&directory, 0);
    // As a disk without room: writes fail beyond a megabyte of a file.
    setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, 1 << 20).unwrap();
    #[expect(unsafe_code, reason = "else the limit's signal ends this process")]
    // SAFETY: ignoring a signal runs no handler.
    unsafe {
        nix::sys::signal::signal(
            nix::sys::signal::Signal::SIGXFSZ,
            nix::sys::signal::SigHandler::SigIgn,
        )
        .unwrap();
    }
    let error = pool.store(&owner(0), &[vec![1; 3 << 20].into()], None, false).unwrap_err();
    assert!(is_full(error));
    let mut incoming = pool.receive(&owner(0), None, None).unwrap();
    incoming.append(vec![1; 1 << 20]).unwrap();
    assert!(is_full(incoming.append(vec![1; 1]).unwrap_err()));
    drop(incoming);
    assert_eq!(files(&directory.join("pool/incoming")).len(), 0);
    pool.store(&owner(0), &[vec![1; 100].into()], None, false).unwrap();
}

#[test]
fn a_write_that_fails_for_want_of_room_leaves_nothing() {
    let bed = tempfile::tempdir().unwrap();
    let ended = child("full::limited", bed.path()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
}

#[test]
fn small_data_is_refused_by_a_full_disk_and_has_room_again() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    let disk = bed.path().join("disk");
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"], &disk) else {
        return;
    };
    let pool = open(&disk, 4 << 20);
    let piece = |number: usize| Bytes::from(format!("{number} ").repeat(3000));
    let kept = pool.store(&owner(0), &[piece(0)], None, false).unwrap();
    let grant = pool.grant(&kept, &owner(0), GrantRequest::default()).unwrap();
    let held = pool.store(&owner(0), &[piece(1)], None, true).unwrap();
    // More than the disk holds, and nothing else in the pool: rows make room for rows.
    for number in 2..5000 {
        let stored = pool.store(&owner(0), &[piece(number)], None, number % 100 == 0);
        let lease = stored.unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(lease.len(), piece(number).len() as u64);
    }
    assert!(pool.find(&owner(0), &held.digest().unwrap()).unwrap().is_none(), "it was evicted");
    let mut other = fs::File::create(disk.join("other")).unwrap();
    while other.write(&[0; 4096]).is_ok() {}
    // It is refused, or what nobody needs goes for it; what is granted stays.
    for number in 5000..5005 {
        if let Err(error) = pool.store(&owner(0), &[piece(number)], None, true) {
            assert!(is_full(error));
        }
    }
    let granted = pool.redeem(&grant.url).unwrap().unwrap();
    assert_eq!(fs::read(granted.lease.path()).unwrap(), piece(0));
    drop(other);
    fs::remove_file(disk.join("other")).unwrap();
    pool.sweep_and_search(true).unwrap();
    let grant = pool.grant(&held, &owner(0), GrantRequest::default()).unwrap();
    drop(held);
    let granted = pool.redeem(&grant.url).unwrap().unwrap();
    assert_eq!(fs::read(granted.lease.path()).unwrap(), piece(1));
}

#[test]
#[ignore = "runs as a child of the test below"]
fn with_few_descriptors() {
    let pool = open(&place(), 0);
    let content = |number: usize| Bytes::from(format!("content {number}"));
    let store = |number| pool.store(&owner(0), &[content(number)], None, false).unwrap();
    store(0);
    setrlimit(Resource::RLIMIT_NOFILE, 60, 60).unwrap();
    let leases: Vec<_> = (0..200).map(store).collect();
    let grant = |lease| pool.grant(lease, &owner(0), GrantRequest::default()).unwrap();
    let grants: Vec<_> = leases.iter().map(grant).collect();
    for (number, grant) in grants.iter().enumerate() {
        let granted = pool.redeem(&grant.url).unwrap().unwrap();
        assert_eq!(fs::read(granted.lease.path()).unwrap(), content(number));
    }
    // Who opens more than can be open is told so, and gets no other's data.
    let read: Vec<_> = leases.iter().map(|lease| fs::read(lease.path())).collect();
    assert!(read.iter().any(Result::is_err));
    for (number, read) in read.into_iter().enumerate() {
        assert!(read.is_err() || read.unwrap() == content(number));
    }
}

#[test]
fn leases_of_small_data_take_no_descriptors() {
    let bed = tempfile::tempdir().unwrap();
    let ended = child("full::with_few_descriptors", bed.path()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
}

#[test]
fn a_disk_without_room_for_files_is_full() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    let disk = bed.path().join("disk");
    let options = "size=64m,nr_inodes=400";
    let Some(_mount) = Mount::new(&["-t", "tmpfs", "-o", options, "tmpfs"], &disk) else {
        return;
    };
    let pool = open(&disk, 8 << 20);
    let mut settings = SessionSettings::new(disk.join("sessions"));
    // Leaves twice as much: a quarter of the disk, or of its files.
    settings.disk_reserve = 8 << 20;
    let sessions = Sessions::new(settings, Arc::new(SystemClock)).unwrap();
    let error = (0..400).find_map(|_| sessions.open(&owner(0), None).err());
    let fault = Fault::from(error.expect("the disk is full at last"));
    assert_eq!(fault.code, FaultCode::StorageFull);
    assert_eq!(fault.limit.unwrap().name, "disk_reserve");
    assert!(fault.message.contains("files (inodes) are free"), "{}", fault.message);
    // There are some left for everybody else.
    let left = FreeSpace::at(&disk).unwrap();
    assert!(left.bytes > 60 << 20 && left.room() > 15 << 20, "{left}");
    assert!(is_full(pool.receive(&owner(0), None, Some(1 << 20)).unwrap_err()));
}
