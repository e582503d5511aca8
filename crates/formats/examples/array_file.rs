//! How fast arrays are read from files and written to them, against copying the same bytes.
//! `cargo run --release -p fishplate-formats --example array_file [NUMBERS]`

#![expect(clippy::print_stdout, reason = "it is there to print")]

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fishplate_contract::{Array, ElementType, Payload};
use fishplate_formats::array_file::{ByteOrder, Format, Order, read, write};

const COLUMNS: u64 = 1000;

fn main() -> io::Result<()> {
    let told = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let rows = told.unwrap_or(10_000_000_u64).div_ceil(COLUMNS);
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let formats = [
        ("text", Format::default()),
        ("raw", Format::PLAIN),
        ("raw, big-endian", Format::Raw { byte_order: ByteOrder::Big, order: Order::C }),
        ("raw, Fortran", Format::Raw { byte_order: ByteOrder::Little, order: Order::Fortran }),
        ("npy", Format::Npy),
    ];
    for element in ElementType::ALL {
        let numbers = (0..rows * COLUMNS).flat_map(|at| number(element, at));
        let bytes = Bytes::from_iter(numbers);
        println!("{} {}: {} MB", rows * COLUMNS, element.name(), bytes.len() / 1_000_000);
        let copied = timed(|| std::fs::write(path("copy"), &bytes))?;
        println!("  {:16} written in {copied:?}", "bytes");
        let shape = vec![rows, COLUMNS];
        let array = Array { element, shape, data: Payload::Inline(bytes.clone()) };
        for (name, format) in formats {
            let file = path("array");
            let written = timed(|| write(&array, &format, &File::create(&file)?))?;
            let axes = [None, Some(COLUMNS)];
            let mut create = || {
                File::options().create(true).truncate(true).read(true).write(true).open(path("new"))
            };
            let read = timed(|| {
                let found = read(&File::open(&file)?, &format, element, &axes, &mut create);
                found.map(drop).map_err(io::Error::other)
            })?;
            println!("  {name:16} written in {written:?}, read in {read:?}");
        }
    }
    Ok(())
}

/// The number that is not simple to print.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "any number does")]
fn number(element: ElementType, at: u64) -> Vec<u8> {
    let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let real = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    match element {
        ElementType::Int => ((mixed >> 32) as i32).to_le_bytes().to_vec(),
        ElementType::Long => mixed.to_le_bytes().to_vec(),
        ElementType::Float => (real as f32).to_le_bytes().to_vec(),
        ElementType::Double => real.to_le_bytes().to_vec(),
    }
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}
