//! Data that rests in its row.

use std::fmt::Write as _;

use rusqlite::{Connection, params};

use super::*;
use crate::pool::catalogue;

/// More than any content here.
const ALL_IN_ROWS: u64 = 1000;

fn bed() -> Bed {
    Bed::with(|settings| settings.largest_in_row = ALL_IN_ROWS)
}

fn upload(bed: &Bed, owner: &Principal, text: &str) -> Result<Lease, PoolError> {
    let mut incoming = bed.pool.receive(owner, None, None)?;
    incoming.append(text.to_owned())?;
    incoming.commit(None, false)
}

/// Adopts a file and waits until it is hashed and has no other name left.
fn register(bed: &Bed, owner: &Principal, text: &str) -> Result<Digest, PoolError> {
    let lease = bed.pool.register(owner, &bed.file("output", text), RegistrationMode::Copy)?;
    let digest = lease.known_digest()?;
    drop(lease);
    // The thread that hashes may have it open still.
    while !bed.names("adopted").is_empty() {
        bed.pool.sweep_and_search(false)?;
    }
    Ok(digest)
}

fn in_row(bed: &Bed) -> Vec<bool> {
    bed.pool.objects().unwrap().iter().map(|object| object.in_row).collect()
}

#[test]
fn small_data_has_no_file_and_large_data_has_one() {
    let bed = bed();
    let (small, large) = ("s".repeat(1000), "l".repeat(1001));
    let lease = bed.store(&alice(), &small);
    assert_eq!(bed.names("objects"), [""; 0]);
    assert_eq!((text(&lease), lease.len()), (small.clone(), 1000));
    let about = fs::metadata(lease.path()).unwrap();
    assert_eq!(about.permissions().mode() & 0o7777, 0o444);
    let other = bed.store(&bob(), &large);
    assert_eq!(bed.names("objects"), [other.digest().unwrap().hex()]);
    assert_eq!(in_row(&bed), [false, true]);
    // One of no bytes, and in pieces.
    assert_eq!(text(&bed.store(&alice(), "")), "");
    let pieces = ["s".repeat(999).into(), "s".into()];
    let again = bed.pool.store(&alice(), &pieces, None, true).unwrap();
    assert_eq!(again.digest(), lease.digest());
    assert_eq!(bed.pool.objects().unwrap().len(), 3);
    // What is found says when it came, whenever it is opened.
    bed.pass(Duration::from_secs(100));
    let found = bed.pool.find(&alice(), &lease.digest().unwrap()).unwrap().unwrap();
    let modified = found.file().unwrap().metadata().unwrap().modified().unwrap();
    assert_eq!(modified, std::time::UNIX_EPOCH + Duration::from_millis(1_000_001));
}

#[test]
fn a_lease_outlives_its_row_and_can_be_granted() {
    let bed = Bed::with(|settings| {
        settings.largest_in_row = ALL_IN_ROWS;
        settings.quota = Some(30);
        settings.owner_quota = Arc::new(Some(20));
    });
    let lease = bed.store(&alice(), "0123456789");
    let digest = lease.digest().unwrap();
    assert_eq!(bed.pool.remove(&digest).unwrap(), 10);
    // Its number is another's now.
    let other = bed.store(&bob(), "9876543210");
    assert_eq!(bed.pool.charged(&alice()).unwrap(), 0);
    let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    drop(lease);
    let granted = bed.pool.redeem(&grant.url).unwrap().unwrap();
    assert_eq!((text(&granted.lease), granted.lease.digest()), ("0123456789".into(), Some(digest)));
    assert_eq!((bed.pool.charged(&alice()).unwrap(), bed.pool.total().unwrap()), (10, 20));

    // It needs room as if it came anew, and gets none that is granted to others.
    bed.pool.grant(&other, &bob(), GrantRequest::default()).unwrap();
    let late = bed.store(&bob(), "abcdefghij");
    bed.pool.remove(&late.digest().unwrap()).unwrap();
    let third = bed.store(&Principal::anonymous(), "klmnopqrst");
    bed.pool.grant(&third, &Principal::anonymous(), GrantRequest::default()).unwrap();
    let error = bed.pool.grant(&late, &bob(), GrantRequest::default()).unwrap_err();
    assert!(matches!(error, PoolError::Quota { limit: "pool_quota", value: 30, .. }), "{error}");
    bed.pool.remove(&third.digest().unwrap()).unwrap();
    bed.pool.grant(&late, &bob(), GrantRequest::default()).unwrap();
    bed.pool.remove(&digest).unwrap();
    let error = bed.pool.grant(&third, &bob(), GrantRequest::default()).unwrap_err();
    assert!(matches!(error, PoolError::Quota { limit: "owner_disk", .. }), "{error}");
}

#[test]
fn a_row_gives_way_to_a_file_and_a_lost_file_to_a_row() {
    let bed = bed();
    let lease = bed.store(&alice(), "the same");
    let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    let path = bed.pool.0.object_path(&lease.digest().unwrap());
    let granted = || text(&bed.pool.redeem(&grant.url).unwrap().unwrap().lease);
    // An upload has a file, which stays when the same comes from memory.
    upload(&bed, &bob(), "the same").unwrap();
    assert_eq!((in_row(&bed), path.exists()), (vec![false], true));
    bed.store(&alice(), "the same");
    bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    assert_eq!((in_row(&bed), granted()), (vec![false], "the same".into()));
    // A file that was lost is replaced.
    fs::remove_file(&path).unwrap();
    assert!(bed.pool.redeem(&grant.url).unwrap().is_none());
    bed.store(&alice(), "the same");
    assert_eq!((in_row(&bed), granted()), (vec![true], "the same".into()));
    // So is one that was damaged, whatever its length.
    for wrong in ["the sane", "another length"] {
        upload(&bed, &bob(), "the same").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, wrong).unwrap();
        bed.store(&alice(), "the same");
        assert_eq!((in_row(&bed), granted()), (vec![true], "the same".into()));
        let damaged = bed.pool.0.directory().join("damaged").join(path.file_name().unwrap());
        assert_eq!(fs::read_to_string(damaged).unwrap(), wrong);
    }
    // An unhashed file is one, too.
    register(&bed, &bob(), "the same").unwrap();
    assert_eq!((in_row(&bed), granted()), (vec![false], "the same".into()));
    assert_eq!((bed.pool.total().unwrap(), bed.pool.charged(&bob()).unwrap()), (8, 8));
    assert_eq!(text(&lease), "the same");
}

#[test]
fn a_file_beside_a_row_with_content_is_swept() {
    let bed = bed();
    let digest = bed.store(&alice(), "content").digest().unwrap();
    let path = bed.pool.0.object_path(&digest);
    // As one leaves it that is killed between naming the file and writing its row.
    fs::write(&path, "content").unwrap();
    let reading = crate::lease::open_leased(&path).unwrap();
    assert_eq!(bed.pool.sweep_and_search(true).unwrap(), SweepReport::default(), "somebody has it");
    drop(reading);
    let swept = bed.pool.sweep_and_search(true).unwrap();
    assert_eq!((swept.orphans, swept.missing, path.exists()), (1, 0, false));
    assert_eq!(text(&bed.pool.find(&alice(), &digest).unwrap().unwrap()), "content");
    // Who was to take the file for the data finds that it is gone.
    let entry = object::NewObject::Whole(digest);
    bed.pool.0.enter(&bob(), 7, false, &entry).unwrap();
    assert_eq!(text(&bed.pool.find(&bob(), &digest).unwrap().unwrap()), "content");
}

#[test]
fn what_goes_leaves_its_room_to_the_disk() {
    let bed = bed();
    let file = bed.pool.0.directory().join("pool.sqlite");
    let least = 100 << 10;
    for number in 0..500 {
        bed.store(&alice(), &format!("{number:<1000}"));
    }
    assert_eq!(bed.pool.total().unwrap(), 500_000);
    bed.pool.0.catalogue.give_back(0).unwrap();
    let before = fs::metadata(&file).unwrap().len();
    assert!(before > 500_000, "{before}");
    assert!(!bed.pool.0.catalogue.give_back(least).unwrap(), "it has nothing to give");
    bed.pass(bed.pool.settings().idle + Duration::from_millis(1));
    assert_eq!(bed.pool.sweep().unwrap().evicted, 500_000);
    assert!(bed.pool.0.catalogue.give_back(least).unwrap());
    let after = fs::metadata(&file).unwrap().len();
    assert!(after < before / 4, "{before} {after}");
    assert_eq!(bed.pool.0.catalogue.log_len(), 0);
}

#[test]
fn damaged_content_is_neither_served_nor_taken_for_what_comes() {
    let bed = bed();
    let lease = bed.store(&alice(), "sound");
    let digest = lease.digest().unwrap();
    let grant = bed.pool.grant(&lease, &alice(), GrantRequest::default()).unwrap();
    drop(lease);
    let catalogue = Connection::open(bed.pool.0.directory().join("pool.sqlite")).unwrap();
    let damage = |wrong: &str| {
        // What nobody waits for is written before it is read.
        bed.pool.total().unwrap();
        let changed = catalogue.execute("UPDATE objects SET content = ?1", [wrong.as_bytes()]);
        assert_eq!(changed.unwrap(), 1);
    };
    let kept = || {
        let path = bed.pool.0.directory().join("damaged").join(digest.hex());
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(path).unwrap();
        text
    };
    let granted = || bed.pool.redeem(&grant.url).unwrap().map(|granted| text(&granted.lease));
    let sound = Some("sound".to_owned());
    // By whoever wants it, and by the operator; then by what comes anew, each way.
    damage("wrong");
    assert_eq!((granted(), kept()), (None, "wrong".into()));
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Missing);
    bed.store(&alice(), "sound");
    assert_eq!(granted(), sound);
    damage("cut");
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Damaged);
    assert_eq!(kept(), "cut");
    bed.store(&alice(), "sound");
    assert_eq!(bed.pool.verify(&digest, |_| {}).unwrap(), Verification::Sound);
    damage("stored");
    bed.store(&bob(), "sound");
    assert_eq!((granted(), kept()), (sound.clone(), "stored".into()));
    damage("uploaded");
    upload(&bed, &bob(), "sound").unwrap();
    assert_eq!((granted(), kept()), (sound.clone(), "uploaded".into()));
    bed.pool.remove(&digest).unwrap();
    bed.store(&alice(), "sound");
    damage("adopted");
    register(&bed, &bob(), "sound").unwrap();
    assert_eq!(kept(), "adopted");
    // What nobody stores anew is forgotten, and what was kept goes after a while.
    bed.pool.remove(&digest).unwrap();
    bed.store(&alice(), "sound");
    damage("lost");
    assert!(bed.pool.find(&alice(), &digest).unwrap().is_none());
    assert_eq!(bed.pool.sweep_and_search(true).unwrap().missing, 1);
    assert_eq!(bed.names("damaged").len(), 1);
    bed.pass(bed.pool.settings().idle);
    bed.pool.sweep().unwrap();
    assert_eq!(bed.names("damaged").len(), 0);
}

#[test]
fn a_pool_of_an_older_fishplate_is_taken_over() {
    for version in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = PoolSettings::new(directory.path());
        settings.disk_reserve = 0;
        let digest = hash::of_bytes([&b"data"[..]]);
        fs::create_dir_all(directory.path().join("objects").join(&digest.hex()[..2])).unwrap();
        let file = directory.path().join("objects").join(&digest.hex()[..2]).join(digest.hex());
        fs::write(&file, "data").unwrap();
        let catalogue = Connection::open(directory.path().join("pool.sqlite")).unwrap();
        catalogue::tests::make(&catalogue, version);
        let row =
            "INSERT INTO objects (digest, size, created, used, pinned) VALUES (?1, 4, 1, 2, 1)";
        catalogue.execute(row, [digest.as_bytes()]).unwrap();
        catalogue.execute("INSERT INTO holdings VALUES ('alice', 1, 4)", []).unwrap();
        let grant = "INSERT INTO grants VALUES (?1, 1, 'alice', 'http://a', 'n', 't', 1, 2000000)";
        catalogue.execute(grant, params![[7_u8; 32]]).unwrap();
        let name = format!("k-{}", digest.hex());
        let rests = "INSERT INTO incoming (name, version) VALUES (?1, 'v1')";
        catalogue.execute(rests, [&name]).unwrap();
        drop(catalogue);

        let clock = Arc::new(Still(AtomicI64::new(1_000_000)));
        let pool = Pool::open(settings.clone(), clock.clone()).unwrap();
        let stored = pool.store(&alice(), &["new".into()], None, true).unwrap();
        let pragma = |name: &str| {
            let read = |sql: &Connection| sql.query_row(name, [], |row| row.get::<_, i32>(0));
            pool.0.catalogue.read(read).unwrap()
        };
        assert_eq!((pragma("PRAGMA user_version"), pragma("PRAGMA auto_vacuum")), (3, 2));
        drop(pool);
        // And again, as it is now.
        let pool = Pool::open(settings, clock).unwrap();
        assert_eq!(text(&pool.find(&alice(), &digest).unwrap().unwrap()), "data");
        assert_eq!(text(&pool.find(&alice(), &stored.digest().unwrap()).unwrap().unwrap()), "new");
        let objects = pool.objects().unwrap();
        let old = objects.iter().find(|object| object.digest == Some(digest)).unwrap();
        assert_eq!((old.in_row, old.pinned, old.grants.len()), (false, true, 1), "{version}");
        assert_eq!((objects.len(), pool.total().unwrap()), (2, 7));
        assert_eq!(pool.charged(&alice()).unwrap(), 7);
        let rests = pool.0.resting(&name).unwrap().unwrap();
        assert_eq!(rests.version.as_deref(), Some("v1"));
    }
}

/// Numbers that look random (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides
    }
}

/// Does something with a pool and tells what came of it.
fn step(bed: &Bed, dice: &mut Dice, grants: &mut Vec<String>) -> Result<String, PoolError> {
    let owner = [alice(), bob(), Principal::anonymous()][dice.roll(3)].clone();
    let content = format!("{} ", dice.roll(12)).repeat(1 + dice.roll(2) * 9);
    let digest = hash::of_bytes([content.as_bytes()]);
    let pieces = [Bytes::from(content.clone())];
    bed.pass(Duration::from_secs(1));
    let (what, which) = (dice.roll(14), dice.roll(grants.len().max(1)));
    Ok(match what {
        0..=2 => {
            let lease = bed.pool.store(&owner, &pieces, None, what == 0)?;
            format!("stored {}", text(&lease))
        }
        3 => format!("uploaded {}", text(&upload(bed, &owner, &content)?)),
        4 => format!("registered {:?}", register(bed, &owner, &content)?),
        5 => {
            let lease = bed.pool.store(&owner, &pieces, None, false)?;
            let request =
                GrantRequest { life: Some(Duration::from_secs(40)), ..GrantRequest::default() };
            let grant = bed.pool.grant(&lease, &owner, request)?;
            grants.push(grant.url);
            format!("granted until {:?}", grant.expires)
        }
        6 => match grants.get(which).map(|url| bed.pool.redeem(url)).transpose()?.flatten() {
            Some(granted) => format!("redeemed {} of {:?}", text(&granted.lease), granted.owner),
            None => "nothing to redeem".to_owned(),
        },
        7 if !grants.is_empty() => {
            format!("revoked {}", bed.pool.revoke(&owner, &grants.swap_remove(which))?)
        }
        8 => match bed.pool.find(&owner, &digest)? {
            Some(lease) => format!("found {} of {}", text(&lease), lease.len()),
            None => "nothing found".to_owned(),
        },
        9 => format!("pinned {:?}", bed.pool.pin(&digest, dice.roll(3) == 0)?),
        10 => format!("removed {}", bed.pool.remove(&digest)?),
        11 => format!("verified {:?}", bed.pool.verify(&digest, |_| {})?),
        12 => format!("{:?}", bed.pool.sweep_and_search(true)?),
        _ => {
            bed.pass(Duration::from_secs(30));
            "time passed".to_owned()
        }
    })
}

/// What is in a pool, as far as its users can tell.
fn state(bed: &Bed) -> String {
    let mut state = format!("{} bytes", bed.pool.total().unwrap());
    for owner in [alice(), bob(), Principal::anonymous()] {
        write!(state, ", {}", bed.pool.charged(&owner).unwrap()).unwrap();
    }
    for object in bed.pool.objects().unwrap() {
        let Object { digest, len, owners, grants, pinned, created, used, .. } = object;
        let grants = grants.len();
        write!(state, "\n{digest:?} {len} {owners:?} {grants} {pinned} {created:?} {used:?}")
            .unwrap();
    }
    state
}

#[test]
fn what_is_small_is_answered_as_what_is_large() {
    for seed in 1..=4 {
        let with = |largest_in_row| {
            Bed::with(|settings| {
                settings.largest_in_row = largest_in_row;
                settings.quota = Some(160);
                settings.owner_quota = Arc::new(Some(100));
                settings.idle = Duration::from_secs(60);
            })
        };
        // All in files, all in rows, some here and some there.
        let beds = [with(0), with(ALL_IN_ROWS), with(10)];
        let mut dice = beds.each_ref().map(|_| Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)));
        let mut grants = beds.each_ref().map(|_| Vec::new());
        let mut seen = String::new();
        for _ in 0..120 {
            let answers: [_; 3] = std::array::from_fn(|at| {
                let answer = step(&beds[at], &mut dice[at], &mut grants[at]);
                let answer = answer.unwrap_or_else(|error| format!("refused: {error}"));
                format!("{answer}\n{}", state(&beds[at]))
            });
            writeln!(seen, "{}", answers[0].lines().next().unwrap_or_default()).unwrap();
            assert_eq!(answers[0], answers[1], "seed {seed} after\n{seen}");
            assert_eq!(answers[0], answers[2], "seed {seed} after\n{seen}");
        }
        assert_eq!(beds[1].names("incoming"), [""; 0]);
    }
}
