//! An array to a file.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use fishplate_contract::Array;

use super::format::{ByteOrder, Format, Order};
use super::npy::NpyHeader;
use super::source::{ByteSource, CHUNK};
use super::text::TextWriter;
use super::{raw, transpose};

/// Writes an array to a new file.
///
/// # Errors
/// The array's bytes cannot be read (a reference is not followed), are not as many as its shape
/// says, or the file cannot be written.
pub fn write(array: &Array, format: &Format, to: &File) -> io::Result<()> {
    let turned = matches!(format, Format::Raw { order: Order::Fortran, .. });
    let large = array.data.len().is_some_and(|len| len > transpose::IN_MEMORY);
    match *format {
        Format::Raw { byte_order, .. } if turned && large && array.shape.len() > 1 => {
            check(array)?;
            turn_at(&ByteSource::open(&array.data)?, array, byte_order == ByteOrder::Big, to)
        }
        Format::Npy | Format::PLAIN => {
            check(array)?;
            let mut to = to;
            if *format == Format::Npy {
                to.write_all(&NpyHeader::print(array.element, &array.shape))?;
            }
            match ByteSource::open(&array.data)? {
                // Within the kernel where it can.
                ByteSource::File(mut file) => io::copy(&mut file, &mut to).map(drop),
                mut pieces => pieces.each(1, &mut |bytes| to.write_all(bytes)),
            }
        }
        _ => write_to(array, format, &mut { to }),
    }
}

/// A small array as the bytes of a file.
///
/// # Errors
/// The array's bytes cannot be read or are not as many as its shape says.
pub fn to_bytes(array: &Array, format: &Format) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_to(array, format, &mut bytes)?;
    Ok(bytes)
}

fn check(array: &Array) -> io::Result<()> {
    let size = Array::size(array.element, &array.shape);
    if size != array.data.len() {
        let what = "the array has not as many bytes as its shape says";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(())
}

fn write_to(array: &Array, format: &Format, to: &mut dyn io::Write) -> io::Result<()> {
    check(array)?;
    let mut source = ByteSource::open(&array.data)?;
    let element = array.element.size();
    match *format {
        Format::Text { delimiter } => {
            let mut writer = TextWriter::new(array.element, &array.shape, delimiter);
            let mut text = Vec::with_capacity(CHUNK);
            source.each(element, &mut |elements| {
                for part in elements.chunks(TEXT_AT_ONCE) {
                    writer.feed(part, &mut text);
                    if text.len() >= CHUNK {
                        to.write_all(&text)?;
                        text.clear();
                    }
                }
                Ok(())
            })?;
            to.write_all(&text)
        }
        Format::Npy => {
            to.write_all(&NpyHeader::print(array.element, &array.shape))?;
            source.each(1, &mut |bytes| to.write_all(bytes))
        }
        Format::PLAIN => source.each(1, &mut |bytes| to.write_all(bytes)),
        Format::Raw { byte_order, order } => {
            let big = byte_order == ByteOrder::Big;
            match order == Order::Fortran && array.shape.len() > 1 {
                true => turn(&source, array, big, to),
                false if big => swap(source, element, to),
                false => source.each(1, &mut |bytes| to.write_all(bytes)),
            }
        }
    }
}

/// Bytes of elements whose text is made at once: a multiple of every element's size.
const TEXT_AT_ONCE: usize = 8 << 10;

fn swap(mut source: ByteSource<'_>, element: usize, to: &mut dyn io::Write) -> io::Result<()> {
    let mut swapped = Vec::with_capacity(CHUNK);
    source.each(element, &mut |bytes| {
        for part in bytes.chunks(CHUNK) {
            swapped.clear();
            swapped.extend_from_slice(part);
            raw::swap(&mut swapped, element);
            to.write_all(&swapped)?;
        }
        Ok(())
    })
}

fn turn(
    source: &ByteSource<'_>,
    array: &Array,
    big: bool,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let size = array.element.size();
    let mut bytes = vec![0; usize::try_from(array.data.len().unwrap_or(0)).unwrap_or(0)];
    source.read_at(&mut bytes, 0)?;
    if big {
        raw::swap(&mut bytes, size);
    }
    to.write_all(&transpose::reversed(&bytes, &array.shape, size))
}

fn turn_at(source: &ByteSource<'_>, array: &Array, big: bool, to: &File) -> io::Result<()> {
    let size = array.element.size();
    let read_at = |part: &mut [u8], offset: u64| {
        source.read_at(part, offset)?;
        if big {
            raw::swap(part, size);
        }
        Ok(())
    };
    let write_at = |part: &[u8], offset: u64| to.write_all_at(part, offset);
    transpose::reverse_at(&array.shape, size, &read_at, &write_at)
}
