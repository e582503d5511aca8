//! The service that paper 003 measures (`getMatrix`), and what else shows what a call costs: an
//! echo of a matrix and of a file, a digest of a file, a sum of two numbers, and one that is slow.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fishplate_contract::{Argument, Fault, FaultCode, Parameter, Payload, Value};
use xxhash_rust::xxh3::Xxh3;

use super::super::{Context, FunctionEntry, Functions, PackedArray, PayloadReader};

/// The largest matrix given, rows and columns: 64 MB.
const LARGEST: i32 = 4000;

/// The longest nap, in seconds.
const LONGEST_NAP: f64 = 3600.0;

/// How often a nap looks whether it is still wanted.
const NAP_STEP: Duration = Duration::from_millis(20);

pub(super) fn service() -> Functions {
    Functions::new("matrix", "urn:fishplate:matrix")
        .title("Matrices and files, to measure calls with")
        .documentation(
            "Functions of the server itself. Their results cost nothing, so a call costs what its \
             transport costs (paper 003).",
        )
        .with(
            FunctionEntry::new("getMatrix", ["n"], ["matrix"], get_matrix)
                .documentation("Gives a matrix of n rows and n columns.")
                .repeatable()
                .quick_if(is_small)
                .input("n", |n| from_to(n.help("Rows and columns."), &0, &LARGEST))
                .output("matrix", |matrix| {
                    matrix.help("Random numbers from 0 to 1, the same for each n.")
                }),
        )
        .with(
            FunctionEntry::new("echo", ["matrix"], ["matrix"], |matrix: PackedArray<f32, 2>| {
                Ok(matrix)
            })
            .documentation("Gives a matrix back.")
            .repeatable()
            .quick(),
        )
        .with(
            FunctionEntry::new("echoFile", ["data"], ["data"], |data: Payload| Ok(data))
                .documentation("Gives a file back.")
                .repeatable()
                .quick(),
        )
        .with(
            FunctionEntry::new("checksum", ["data"], ["digest", "length"], checksum)
                .documentation("Reads a file, while it arrives if it can.")
                .repeatable()
                .output("digest", |digest| digest.help("XXH3, 16 hexadecimal digits."))
                .output("length", |length| Parameter { unit: "B".to_owned(), ..length }),
        )
        .with(
            FunctionEntry::new("add", ["x", "y"], ["sum"], add)
                .documentation("Adds two numbers.")
                .repeatable()
                .quick(),
        )
        .with(
            FunctionEntry::with_context("nap", ["seconds"], ["slept"], nap)
                .documentation("Takes its time; tells how far it is, and ends early if it should.")
                .input("seconds", |seconds| from_to(seconds, &0, &LONGEST_NAP)),
        )
}

fn from_to(parameter: Parameter, min: &dyn Display, max: &dyn Display) -> Parameter {
    Parameter { min: Some(min.to_string()), max: Some(max.to_string()), ..parameter }
}

/// A matrix of so many rows is made in the time in which a thread is woken for it.
const SMALL: i32 = 100;

fn is_small(arguments: &[Argument]) -> bool {
    arguments.iter().all(|argument| match &argument.value {
        Value::Text(n) => n.parse().is_ok_and(|n: i32| n <= SMALL),
        _ => false,
    })
}

/// The matrix given last. Making one would take longer than sending it.
static LAST: Mutex<Option<(u64, Bytes)>> = Mutex::new(None);

fn last() -> MutexGuard<'static, Option<(u64, Bytes)>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn get_matrix(n: i32) -> Result<PackedArray<f32, 2>, Fault> {
    let n = u64::try_from(n).unwrap_or_default();
    // A statement of its own, so that the lock is not held while a matrix is made.
    let found = last().as_ref().filter(|(size, _)| *size == n).map(|(_, bytes)| bytes.clone());
    let bytes = found.unwrap_or_else(|| {
        let made = elements(n);
        *last() = Some((n, made.clone()));
        made
    });
    PackedArray::new([n, n], Payload::Inline(bytes))
        .ok_or_else(|| Fault::new(FaultCode::Internal, "a matrix without its elements"))
}

/// 24 random bits a number, in \[0, 1), so that it prints with eight or nine digits. Knuth's linear
/// congruential generator, begun with n.
#[expect(clippy::cast_precision_loss, reason = "24 bits, which a float holds exactly")]
fn elements(n: u64) -> Bytes {
    let mut state = n;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0
    };
    (0..n * n).flat_map(|_| next().to_le_bytes()).collect::<Vec<u8>>().into()
}

/// Digest and length.
fn checksum(mut data: PayloadReader) -> Result<(String, i64), Fault> {
    let mut digest = Xxh3::new();
    let mut length = 0_u64;
    while let Some(chunk) = data.chunk()? {
        digest.update(&chunk);
        length += chunk.len() as u64;
    }
    Ok((format!("{:016x}", digest.digest()), i64::try_from(length).unwrap_or(i64::MAX)))
}

fn add(x: i32, y: i32) -> Result<i32, Fault> {
    x.checked_add(y).ok_or_else(|| {
        let what = format!("the sum of {x} and {y} is no int");
        Fault::new(FaultCode::ValueOutOfRange, what)
    })
}

fn nap(context: &Context, seconds: f64) -> Result<f64, Fault> {
    let begun = Instant::now();
    let whole = Duration::from_secs_f64(seconds);
    loop {
        let slept = begun.elapsed();
        context.progress(if whole.is_zero() { 1.0 } else { slept.div_duration_f64(whole) });
        if slept >= whole || context.is_cancelled() {
            return Ok(slept.as_secs_f64());
        }
        thread::sleep(NAP_STEP.min(whole - slept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_at_most_64_mb() {
        let functions = service();
        let entry = functions.entry("getMatrix").unwrap();
        let asked = |n: i32| vec![Argument::text("n", n.to_string())];
        assert!(entry.accept(asked(LARGEST)).is_ok());
        let fault = entry.accept(asked(LARGEST + 1)).unwrap_err();
        assert_eq!(fault.code, FaultCode::ValueOutOfRange);
        assert_eq!(i64::from(LARGEST).pow(2) * 4, 64_000_000);
    }

    #[test]
    fn only_a_small_matrix_is_made_where_its_message_was_read() {
        let functions = service();
        let entry = functions.entry("getMatrix").unwrap();
        let quick = |n: i32| entry.is_quick(&[Argument::text("n", n.to_string())]);
        assert_eq!([0, SMALL, SMALL + 1, LARGEST].map(quick), [true, true, false, false]);
    }

    #[test]
    fn a_matrix_is_the_same_for_each_size() {
        let bytes = |n| get_matrix(n).unwrap().data().pieces().unwrap().concat();
        let three = bytes(3);
        assert_eq!((three.len(), bytes(0).len(), bytes(50).len()), (36, 0, 10_000));
        assert_eq!(three, bytes(3));
        // As every peer of the benchmark makes it.
        assert_eq!(three[..4], 0.113_210_2_f32.to_le_bytes());
    }

    fn read(payload: &Payload) -> Result<(String, i64), Fault> {
        checksum(PayloadReader::new(payload)?)
    }

    #[test]
    fn a_file_has_the_same_digest_in_memory_and_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let context =
            Context::new(&super::super::super::context::Scratch::new(directory.path(), 0));
        let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut file = context.create().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let spooled = read(&file.finish()).unwrap();
        assert_eq!(read(&Payload::Inline(Bytes::from(bytes))).unwrap(), spooled);
        assert_eq!(spooled.1, 4_000_000);
        let empty = read(&Payload::Inline(Bytes::new())).unwrap();
        assert_eq!(empty, ("2d06800538d394c2".to_owned(), 0));
    }

    #[test]
    fn a_sum_that_is_none_is_a_fault() {
        assert_eq!(add(40, 2), Ok(42));
        assert_eq!(add(i32::MAX, 1).unwrap_err().code, FaultCode::ValueOutOfRange);
    }
}
