//! What the pool costs: small data stored, granted and redeemed, large data received, hashed beside.
//!
//! `cargo bench -p fishplate-data --bench pool [-- DIRECTORY]`. Each figure stands beside what the
//! file system or the processor needs for it anyway.

#![expect(clippy::print_stdout, reason = "it prints figures")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fishplate_contract::{Principal, SystemClock};
use fishplate_data::{GrantRequest, Pool, PoolSettings};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

const SMALL: usize = 1024;
const COUNT: usize = 5000;
const THREADS: usize = 4;
const LARGE: u64 = 1 << 30;
const CHUNK: usize = 256 << 10;

fn main() {
    let parent = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let directory = match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    }
    .expect("a directory");
    let pool = Pool::open(PoolSettings::new(directory.path().join("pool")), Arc::new(SystemClock))
        .expect("a pool");
    let plain = directory.path().join("plain");
    fs::create_dir(&plain).expect("a directory");
    each("1 KiB into a plain file", COUNT, |number| {
        let mut file = File::create(plain.join(number.to_string())).expect("a file");
        file.write_all(&small(0, number)).expect("writing");
    });
    let owner = Principal::anonymous();
    let store = |thread, number| {
        pool.store(&owner, &[small(thread, number)], None, false).expect("storing")
    };
    each("1 KiB into the pool", COUNT, |number| drop(store(1, number)));
    each("1 KiB that is there already", COUNT, |number| drop(store(1, number)));
    threads("1 KiB into the pool, 4 threads", |thread, number| drop(store(10 + thread, number)));
    let mut urls = Vec::new();
    each("grant", COUNT, |number| {
        let lease = store(1, number);
        let grant = pool.grant(&lease, &owner, GrantRequest::default()).expect("a grant");
        urls.push(grant.url);
    });
    each("redeem", COUNT, |number| {
        assert!(pool.redeem(&urls[number]).expect("redeeming").is_some());
    });
    large(&pool, &owner, &plain);
}

fn small(thread: usize, number: usize) -> Bytes {
    let mut bytes = vec![0; SMALL];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&thread.to_le_bytes());
    bytes.into()
}

fn each(what: &str, count: usize, mut work: impl FnMut(usize)) {
    let start = Start::now();
    (0..count).for_each(&mut work);
    tell(what, count, start);
}

fn threads(what: &str, work: impl Fn(usize, usize) + Sync) {
    let (start, work) = (Start::now(), &work);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..COUNT).for_each(|number| work(thread, number)));
        }
    });
    tell(what, COUNT * THREADS, start);
}

fn tell(what: &str, count: usize, start: Start) {
    let count = f64::from(u32::try_from(count).expect("a count"));
    let (wall, processor) = start.elapsed();
    let (wall, processor) = (wall / count * 1e6, processor / count * 1e6);
    println!("{what:<34} {wall:>8.1} us each, {processor:>6.1} us of processors");
}

/// When something began, by the clock and by the time that this process had of the processors,
/// which tells more on a machine that does other things too.
#[derive(Clone, Copy)]
struct Start(Instant, f64);

impl Start {
    fn now() -> Self {
        Self(Instant::now(), processor_time())
    }

    fn elapsed(self) -> (f64, f64) {
        (self.0.elapsed().as_secs_f64(), processor_time() - self.1)
    }
}

fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let seconds =
        |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs()).as_secs_f64();
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn large(pool: &Pool, owner: &Principal, plain: &Path) {
    let chunk = Bytes::from(vec![7; CHUNK]);
    let chunks = LARGE / CHUNK as u64;
    let start = Start::now();
    let mut file = File::create(plain.join("large")).expect("a file");
    (0..chunks).for_each(|_| file.write_all(&chunk).expect("writing"));
    rate("1 GiB into a plain file", start);
    drop(file);
    let start = Start::now();
    let mut incoming = pool.receive(owner, None, Some(LARGE)).expect("receiving");
    (0..chunks).for_each(|_| incoming.append(chunk.clone()).expect("appending"));
    rate("1 GiB into the pool, until written", start);
    let lease = incoming.commit(None, false).expect("committing");
    rate("1 GiB into the pool, until hashed", start);
    let digest = lease.digest().expect("a digest");
    let start = Start::now();
    pool.verify(&digest, |_| {}).expect("verifying");
    rate("1 GiB hashed from its file", start);
}

fn rate(what: &str, start: Start) {
    let (wall, processor) = start.elapsed();
    let rate = 1.073_741_824 / wall;
    println!("{what:<34} {rate:>8.2} GB/s, {processor:>5.2} s of processors");
}
