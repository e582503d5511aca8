//! Processes that write to one pool are killed with -9 wherever they are: no half file is ever seen,
//! what was granted is there, and a sweep makes files and rows agree.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Clock, Digest, FileHandle as _, SystemClock, Timestamp};
use fishplate_data::pool::Verification;
use fishplate_data::session::SessionSettings;
use fishplate_data::{
    GrantRequest, Incoming, Lease, Pool, PoolError, PoolSettings, RegistrationMode, Sessions,
};

use crate::{child, files, kill, owner, place, sha256};

const ROUNDS: u64 = 20;
const WRITERS: usize = 3;
const KEYED: usize = 2 << 20;
const PIECE: usize = 16 << 10;

/// The machine's clock, some time later.
struct Later(Duration);

impl Clock for Later {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0)
    }
}

fn open(place: &Path, later: Duration) -> Pool {
    open_with(place, later, PoolSettings::new(place).largest_in_row)
}

fn open_with(place: &Path, later: Duration, largest_in_row: u64) -> Pool {
    let mut settings = PoolSettings::new(place.join("pool"));
    settings.quota = Some(12 << 20);
    settings.disk_reserve = 0;
    settings.grant_life = Duration::from_hours(1000);
    settings.largest_in_row = largest_in_row;
    Pool::open(settings, Arc::new(Later(later))).unwrap()
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

fn content(number: usize) -> Bytes {
    format!("content {number} ").repeat(1 + number * 13).into()
}

fn keyed_content(number: usize) -> Vec<u8> {
    (0..KEYED).map(|at| u8::try_from((at / 7 + at * number) % 251).unwrap()).collect()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@ {line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What is wrong with a leased file.
fn wrong(lease: &Lease) -> Option<String> {
    let told = lease.known_digest();
    match fs::read(lease.path()) {
        Ok(bytes) if told.as_ref().is_ok_and(|told| *told == sha256(&bytes)) => None,
        read => Some(format!("{lease:?} {told:?} {:?}", read.map(|bytes| bytes.len()))),
    }
}

#[test]
#[ignore = "runs as a child of the test below"]
fn writer() {
    let place = place();
    let mut dice = Dice(u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // The same data has a file with one process and none with another.
    let largest_in_row = [0, 2000, 16 << 10][dice.roll(3)];
    let pool = open_with(&place, Duration::ZERO, largest_in_row);
    let mut grants: Vec<String> = Vec::new();
    let mut leases: Vec<Lease> = Vec::new();
    say("ready");
    loop {
        match step(&pool, &place, &mut dice, &mut grants) {
            Ok(lease) => leases.extend(lease),
            Err(PoolError::Quota { .. } | PoolError::Busy) => {}
            Err(error) => {
                say(&format!("broken {error}"));
                panic!("{error}");
            }
        }
        if leases.len() > 6 {
            if let Some(wrong) = leases.iter().find_map(wrong) {
                say(&format!("broken {wrong}"));
                panic!("{wrong}");
            }
            leases.drain(..3);
        }
    }
}

fn step(
    pool: &Pool,
    place: &Path,
    dice: &mut Dice,
    grants: &mut Vec<String>,
) -> Result<Option<Lease>, PoolError> {
    let owner = owner(dice.roll(3));
    let request = GrantRequest { origin: "http://a".to_owned(), ..GrantRequest::default() };
    match dice.roll(12) {
        0..=2 => {
            let pieces = [content(dice.roll(40))];
            pool.store(&owner, &pieces, None, dice.roll(8) == 0).map(Some)
        }
        3 => {
            let bytes = content(dice.roll(40));
            let lease = pool.store(&owner, std::slice::from_ref(&bytes), None, false)?;
            let grant = pool.grant(&lease, &owner, request)?;
            say(&format!("granted {} {}", grant.url, sha256(&bytes).hex()));
            grants.push(grant.url);
            Ok(None)
        }
        4 | 8 => receive(pool, dice).map(Some),
        9 | 10 => {
            let mut incoming = pool.receive(&owner, None, None)?;
            incoming.append(content(dice.roll(40)))?;
            incoming.commit(None, dice.roll(8) == 0).map(Some)
        }
        5 => {
            let bytes = content(dice.roll(60));
            let file = place.join(format!("output-{}-{}", std::process::id(), dice.roll(1000)));
            let _ = fs::remove_file(&file);
            fs::write(&file, &bytes).unwrap();
            let how =
                if dice.roll(2) == 0 { RegistrationMode::Link } else { RegistrationMode::Copy };
            let lease = pool.register(&owner, &file, how)?;
            let grant = pool.grant(&lease, &owner, request)?;
            say(&format!("granted {} {}", grant.url, sha256(&bytes).hex()));
            fs::remove_file(&file).unwrap();
            Ok(Some(lease))
        }
        6 | 7 if !grants.is_empty() => {
            let url = grants.swap_remove(dice.roll(grants.len()));
            say(&format!("revoking {url}"));
            (0..3).try_for_each(|number| pool.revoke(&crate::owner(number), &url).map(drop))?;
            Ok(None)
        }
        _ => pool.sweep_and_search(dice.roll(4) == 0).map(|_| None),
    }
}

fn receive(pool: &Pool, dice: &mut Dice) -> Result<Lease, PoolError> {
    let number = dice.roll(4);
    let key = format!("key {number}");
    let incoming = pool.receive(&owner(0), Some(&key), Some(KEYED as u64))?;
    finish(incoming, number)
}

/// Receives what is not there yet.
fn finish(mut incoming: Incoming, number: usize) -> Result<Lease, PoolError> {
    let bytes = keyed_content(number);
    let mut at = usize::try_from(incoming.len()).unwrap();
    while at < bytes.len() {
        let end = (at + PIECE).min(bytes.len());
        incoming.append(Bytes::copy_from_slice(&bytes[at..end]))?;
        at = end;
    }
    incoming.commit(Some(&sha256(&bytes)), false)
}

#[test]
#[ignore = "runs as a child of the test below"]
fn receiver() {
    let pool = open(&place(), Duration::ZERO);
    let mut incoming = pool.receive(&owner(0), Some("last"), Some(KEYED as u64)).unwrap();
    incoming.append(keyed_content(9)[..KEYED / 2].to_vec()).unwrap();
    say("half");
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn writers_that_are_killed_leave_nothing_half() {
    let bed = tempfile::tempdir().unwrap();
    let place = bed.path();
    let mut granted: HashMap<String, String> = HashMap::new();
    let mut many = 0;
    for round in 0..ROUNDS {
        let mut writers: Vec<Child> =
            (0..WRITERS).map(|_| child("killing::writer", place).spawn().unwrap()).collect();
        let mut outputs = Vec::new();
        for writer in &mut writers {
            let mut output = BufReader::new(writer.stdout.take().unwrap());
            let mut line = String::new();
            while !line.starts_with("@ ready") {
                line.clear();
                assert!(output.read_line(&mut line).unwrap() > 0, "a writer did not start");
            }
            outputs.push(output);
        }
        // The moment of the kill is what varies, so here it is time that is waited for.
        std::thread::sleep(Duration::from_millis(20 + round * 37 % 160));
        for writer in &mut writers {
            kill(writer);
            std::thread::sleep(Duration::from_millis(round * 13 % 40));
        }
        for output in outputs {
            for line in output.lines().map_while(Result::ok) {
                let words: Vec<&str> = line.split(' ').collect();
                match words.as_slice() {
                    ["@", "granted", url, digest] => {
                        granted.insert((*url).to_owned(), (*digest).to_owned());
                        many += 1;
                    }
                    ["@", "revoking", url] => drop(granted.remove(*url)),
                    ["@", "broken", ..] => panic!("{line}"),
                    _ => {}
                }
            }
        }
        check_pool(place, &granted);
    }
    assert!(many > 0, "the writers did too little");
}

#[test]
fn an_upload_that_is_killed_goes_on_where_it_was() {
    let bed = tempfile::tempdir().unwrap();
    let place = bed.path();
    let mut receiver = child("killing::receiver", place).stdin(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "@ half"));
    kill(&mut receiver);
    check_pool(place, &HashMap::new());
    let pool = open(place, Duration::ZERO);
    let incoming = pool.receive(&owner(0), Some("last"), Some(KEYED as u64)).unwrap();
    assert_eq!(incoming.len(), KEYED as u64 / 2);
    assert_eq!(finish(incoming, 9).unwrap().digest(), Some(sha256(&keyed_content(9))));
    check_pool(place, &HashMap::new());
}

fn open_sessions(place: &Path, later: Duration) -> Sessions {
    let mut settings = SessionSettings::new(place.join("sessions"));
    settings.disk_reserve = 0;
    Sessions::new(settings, Arc::new(Later(later))).unwrap()
}

#[test]
#[ignore = "runs as a child of the test below"]
fn session_writer() {
    let place = place();
    let sessions = open_sessions(&place, Duration::ZERO);
    let mut dice = Dice(u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let file = place.join(format!("output-{}", std::process::id()));
    let me = owner(0);
    say("ready");
    loop {
        let session = sessions.open(&me, None).unwrap().id;
        for number in 0..dice.roll(12) {
            let _ = fs::remove_file(&file);
            fs::write(&file, content(dice.roll(40))).unwrap();
            let how =
                if dice.roll(2) == 0 { RegistrationMode::Link } else { RegistrationMode::Copy };
            let name = format!("output {}", number % 4);
            sessions.put(&me, &session, &name, &file, how).unwrap();
            say(&format!("put {session} {name}"));
        }
        if dice.roll(2) == 0 {
            say(&format!("closing {session}"));
            sessions.close(&me, &session).unwrap();
        }
    }
}

#[test]
fn sessions_of_processes_that_are_killed_are_whole() {
    let bed = tempfile::tempdir().unwrap();
    let place = bed.path();
    let mut there: HashMap<String, HashSet<String>> = HashMap::new();
    for round in 0..ROUNDS {
        let mut writer = child("killing::session_writer", place).spawn().unwrap();
        let mut output = BufReader::new(writer.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("@ put") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the writer did not start");
        }
        std::thread::sleep(Duration::from_millis(round * 7 % 60));
        kill(&mut writer);
        let lines = output.lines().map_while(Result::ok);
        for line in std::iter::once(line.trim_end().to_owned()).chain(lines) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words.as_slice() {
                ["@", "put", session, name] => {
                    there.entry((*session).to_owned()).or_default().insert((*name).to_owned());
                }
                ["@", "closing", session] => drop(there.remove(*session)),
                _ => {}
            }
        }
        check_sessions(place, &there);
    }
    assert!(!there.is_empty(), "the writers did too little");
}

/// Everything that must be true of sessions that nobody writes.
fn check_sessions(place: &Path, there: &HashMap<String, HashSet<String>>) {
    let sessions = open_sessions(place, Duration::from_hours(2));
    sessions.sweep_idle(&|_| false).unwrap();
    for (session, names) in there {
        let id = session.parse().unwrap();
        let files = sessions.files(&owner(0), &id).unwrap();
        for name in names {
            assert!(files.iter().any(|file| file.name == *name), "{name} of {session} is gone");
        }
    }
    for session in sessions.list(&owner(0)).unwrap() {
        let files = sessions.files(&owner(0), &session.id).unwrap();
        for file in &files {
            let held = sessions.get(&owner(0), &session.id, &file.name).unwrap();
            let text = fs::read_to_string(held.path()).unwrap();
            let number: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
            assert_eq!(text.as_bytes(), content(number), "a half file is visible");
        }
        let versions = place.join(format!("sessions/{}/versions", session.id));
        assert_eq!(crate::files(&versions).len(), files.len(), "a version was left");
    }
    for entry in fs::read_dir(place.join("sessions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == ".key" || !name.starts_with('.'), "{name} was left");
    }
}

/// Everything that must be true of a pool that nobody writes.
fn check_pool(place: &Path, granted: &HashMap<String, String>) {
    let directory = place.join("pool");
    let whole = |path: &Path| {
        let digest = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(sha256(&fs::read(path).unwrap()).hex(), digest, "a half file is visible");
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o444);
        Digest::from_sha256_hex(&digest).unwrap()
    };
    for path in files(&directory.join("objects")) {
        whole(&path);
    }

    let pool = open(place, Duration::from_hours(2));
    for (url, digest) in granted {
        let found = pool.redeem(url).unwrap().unwrap_or_else(|| panic!("{url} is gone"));
        assert_eq!(found.lease.known_digest().unwrap().hex(), *digest);
        assert_eq!(wrong(&found.lease), None);
    }
    // Adopted files that were left are hashed beside.
    let settled = || pool.objects().unwrap().iter().all(|object| object.digest.is_some());
    while !settled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    pool.sweep_and_search(true).unwrap();
    pool.sweep_and_search(true).unwrap();

    let mut there: Vec<_> = files(&directory.join("objects")).iter().map(|it| whole(it)).collect();
    let objects = pool.objects().unwrap();
    let has_file = objects.iter().filter(|object| !object.in_row);
    let mut known: Vec<_> = has_file.map(|object| object.digest.unwrap()).collect();
    there.sort();
    known.sort();
    assert_eq!(there, known, "files and rows agree");
    for object in &objects {
        let digest = object.digest.unwrap();
        assert_eq!(pool.verify(&digest, |_| {}).unwrap(), Verification::Sound);
    }
    assert_eq!(files(&directory.join("adopted")), Vec::<std::path::PathBuf>::new());
    for left in files(&directory.join("incoming")) {
        let name = left.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with("k-"), "{name} was left");
    }
    assert_eq!(pool.total().unwrap(), objects.iter().map(|object| object.len).sum::<u64>());
    for number in 0..3 {
        let held = objects.iter().filter(|object| object.owners.contains(&owner(number)));
        let charged = pool.charged(&owner(number)).unwrap();
        assert_eq!(charged, held.map(|object| object.len).sum::<u64>());
    }
}
