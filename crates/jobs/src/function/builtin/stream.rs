//! A file that exists nowhere: it is made while it is sent.

use bytes::Bytes;
use fishplate_contract::{ByteStream, Fault, Parameter};
use fishplate_data::stream::Writer;

use super::super::{Context, FunctionEntry, Functions};

/// Bytes that are made at once.
const CHUNK: usize = 64 << 10;

pub(super) fn service() -> Functions {
    Functions::new("stream", "urn:fishplate:stream")
        .title("Files of any length that exist nowhere")
        .documentation(
            "A function of the server itself. What it gives is sent while it is made, and is never whole in \
             memory or on a disk.",
        )
        .with(
            FunctionEntry::with_context("call", ["n"], ["data"], numbers)
                .documentation("Gives a file of n bytes.")
                .repeatable()
                .input("n", |n| Parameter {
                    min: Some("0".to_owned()),
                    unit: "B".to_owned(),
                    ..n.help("Its length.")
                })
                .output("data", |data| {
                    data.help("The numbers from 0 on, 8 bytes each, little-endian.")
                }),
        )
}

fn numbers(context: &Context, n: i64) -> Result<ByteStream, Fault> {
    let all = n.unsigned_abs();
    context.stream(move |to: &mut Writer| {
        let starts = (0..all).step_by(CHUNK);
        starts.map(|at| chunk(at, all)).try_for_each(|chunk| Ok(to.push(chunk)?))
    })
}

/// The bytes from this one on, which is the first of a number.
fn chunk(at: u64, all: u64) -> Bytes {
    let len = usize::try_from(all - at).unwrap_or(CHUNK).min(CHUNK);
    let numbers = (at / 8..).take(len.div_ceil(8));
    let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use fishplate_contract::Payload;

    use super::super::super::PayloadReader;
    use super::super::super::context::Scratch;
    use super::*;

    #[test]
    fn a_file_is_as_long_as_was_asked_and_counts() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::new(&Scratch::new(directory.path(), 0));
        for n in [0, 1, 8, 65_535, 65_536, 65_537, 200_001] {
            let stream = numbers(&context, n).unwrap();
            let mut read = Vec::new();
            PayloadReader::new(&Payload::Stream(stream)).unwrap().read_to_end(&mut read).unwrap();
            let expected = (0..30_000_u64).flat_map(u64::to_le_bytes);
            assert!(read.iter().copied().eq(expected.take(n.try_into().unwrap())), "{n}");
        }
    }
}
