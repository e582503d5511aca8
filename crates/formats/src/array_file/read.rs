//! A file to an array's bytes.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use fishplate_contract::{Array, ElementType};

use super::format::{ByteOrder, Format, Order};
use super::npy::{HEADER_SIZE, NpyError, NpyHeader};
use super::source::{ByteSource, CHUNK, fill};
use super::text::{TextError, TextReader};
use super::{raw, transpose};

/// An array of up to so many bytes is given in memory.
pub const SMALL: usize = 16 << 10;

/// An array that was found in a file.
#[derive(Debug)]
pub struct FoundArray {
    /// Lengths of its axes.
    pub shape: Vec<u64>,
    /// Its elements, little-endian, in C order.
    pub bytes: LocatedBytes,
}

/// Where the bytes of an array are.
#[derive(Debug)]
pub enum LocatedBytes {
    /// Here: at most [`SMALL`].
    Memory(Vec<u8>),
    /// The file that was read consists of them.
    Same,
    /// In the new file.
    New(File),
}

/// A file that does not hold the array it should.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A text that is none of numbers.
    #[error("{0}")]
    Text(TextError),
    /// A header of `.npy` or a number behind it.
    #[error("{0}")]
    Npy(NpyError),
    /// A length that does not fit.
    #[error("{0}")]
    Length(String),
    /// The file cannot be read, or the new one not be written.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
}

impl ReadError {
    /// What is wrong with the file of this name, in a sentence.
    pub fn about(&self, path: &str) -> String {
        match self {
            Self::Text(error) => format!("{path}, {error}"),
            Self::Npy(error) => format!("{path}: {error}"),
            Self::Length(what) => format!("{path}: {what}"),
            Self::Io(error) => format!("{path} can't be read: {error}"),
        }
    }
}

/// Reads the array in a file, whose axes are so long as far as that is known: at least one. What is
/// larger than [`SMALL`] and not in the file as it stands is written to the file that `create` makes,
/// which can be read too. The shape is as the file has it: whether that is right, the caller says.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn read(
    file: &File,
    format: &Format,
    element: ElementType,
    axes: &[Option<u64>],
    create: &mut dyn FnMut() -> io::Result<File>,
) -> Result<FoundArray, ReadError> {
    let mut spill = SpillBuffer { small: Vec::new(), file: None, create };
    match format {
        Format::Text { delimiter } => {
            let reader = TextReader::new(element, axes, *delimiter);
            let shape = read_text(file, reader, &mut spill)?;
            Ok(FoundArray { shape, bytes: spill.finish()? })
        }
        Format::Raw { byte_order, order } => {
            let len = file.metadata()?.len();
            let shape = raw::shape(element, axes, len).map_err(ReadError::Length)?;
            let size = element.size();
            let body = ArrayBody { file, offset: 0, len, size, big: *byte_order == ByteOrder::Big };
            let turned = *order == Order::Fortran && shape.len() > 1;
            if !turned && !body.big && len > SMALL as u64 {
                return Ok(FoundArray { shape, bytes: LocatedBytes::Same });
            }
            if turned {
                body.turn(&shape, &mut spill)?;
            } else {
                body.copy(&mut spill)?;
            }
            Ok(FoundArray { shape, bytes: spill.finish()? })
        }
        Format::Npy => read_npy(file, element, spill),
    }
}

fn read_text(
    file: &File,
    mut reader: TextReader,
    spill: &mut SpillBuffer<'_>,
) -> Result<Vec<u64>, ReadError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = fill(file, &mut chunk)?;
        reader.feed(&chunk[..read], &mut spill.small).map_err(ReadError::Text)?;
        if read < CHUNK {
            break;
        }
        spill.flush_full()?;
    }
    reader.finish(&mut spill.small).map_err(ReadError::Text)
}

fn read_npy(
    file: &File,
    element: ElementType,
    mut spill: SpillBuffer<'_>,
) -> Result<FoundArray, ReadError> {
    let mut start = vec![0; HEADER_SIZE];
    let read = fill(file, &mut start)?;
    let header = NpyHeader::parse(&start[..read]).map_err(ReadError::Npy)?;
    let dtype = header.dtype;
    dtype.check(element).map_err(ReadError::Npy)?;
    let whole = file.metadata()?.len();
    let len = whole.saturating_sub(header.offset as u64);
    if header.size() != Some(len) {
        let shape = Array::shape_text(&header.shape);
        return Err(ReadError::Length(format!(
            "its header tells of {shape} {}, and {len} bytes follow it",
            dtype.name()
        )));
    }
    let body =
        ArrayBody { file, offset: header.offset as u64, len, size: dtype.size, big: dtype.big };
    let turned = header.fortran_order && header.shape.len() > 1;
    if !turned && dtype.is(element) {
        body.copy(&mut spill)?;
    } else if turned && dtype.is(element) {
        body.turn(&header.shape, &mut spill)?;
    } else {
        let mut before = 0;
        body.each(&mut |numbers| {
            dtype.convert(numbers, element, before, &mut spill.small).map_err(ReadError::Npy)?;
            before += (numbers.len() / dtype.size) as u64;
            Ok(spill.flush_full()?)
        })?;
        if turned {
            spill.turn(&header.shape, element.size())?;
        }
    }
    Ok(FoundArray { shape: header.shape, bytes: spill.finish()? })
}

/// The numbers in a file.
struct ArrayBody<'f> {
    file: &'f File,
    offset: u64,
    len: u64,
    /// Of a number.
    size: usize,
    /// They are big-endian.
    big: bool,
}

impl ArrayBody<'_> {
    /// Hands on all of it as it is, in whole numbers.
    fn each(
        &self,
        take: &mut dyn FnMut(&mut [u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = fill(file, &mut chunk)?;
            take(&mut chunk[..read])?;
            if read < CHUNK {
                return Ok(());
            }
        }
    }

    fn copy(&self, spill: &mut SpillBuffer<'_>) -> Result<(), ReadError> {
        if self.len > SMALL as u64 && !self.big {
            let mut file = self.file;
            file.seek(SeekFrom::Start(self.offset))?;
            // Within the kernel where it can.
            io::copy(&mut file, &mut spill.file()?)?;
            return Ok(());
        }
        self.each(&mut |numbers| {
            if self.big {
                raw::swap(numbers, self.size);
            }
            spill.small.extend_from_slice(numbers);
            Ok(spill.flush_full()?)
        })
    }

    /// The numbers of an array in Fortran order, in C order.
    fn turn(&self, shape: &[u64], spill: &mut SpillBuffer<'_>) -> Result<(), ReadError> {
        let shape: Vec<u64> = shape.iter().rev().copied().collect();
        let read_at = |to: &mut [u8], offset: u64| {
            self.file.read_exact_at(to, self.offset + offset)?;
            if self.big {
                raw::swap(to, self.size);
            }
            Ok(())
        };
        if self.len <= transpose::IN_MEMORY {
            let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
            read_at(&mut bytes, 0)?;
            spill.small = transpose::reversed(&bytes, &shape, self.size);
            return Ok(());
        }
        let to = spill.file()?;
        let write_at = |from: &[u8], offset: u64| to.write_all_at(from, offset);
        Ok(transpose::reverse_at(&shape, self.size, &read_at, &write_at)?)
    }
}

/// Bytes that are kept in memory while they are few.
struct SpillBuffer<'c> {
    small: Vec<u8>,
    file: Option<File>,
    create: &'c mut dyn FnMut() -> io::Result<File>,
}

impl SpillBuffer<'_> {
    fn file(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            self.file = Some((self.create)()?);
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes what has become too much.
    fn flush_full(&mut self) -> io::Result<()> {
        if self.small.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        let small = std::mem::take(&mut self.small);
        io::Write::write_all(&mut self.file()?, &small)?;
        self.small = small;
        self.small.clear();
        Ok(())
    }

    /// Turns what was written in Fortran order, now that all of it is there.
    fn turn(&mut self, shape: &[u64], size: usize) -> Result<(), ReadError> {
        let shape: Vec<u64> = shape.iter().rev().copied().collect();
        if self.file.is_none() {
            self.small = transpose::reversed(&self.small, &shape, size);
            return Ok(());
        }
        self.write()?;
        let Some(written) = self.file.take() else { return Ok(()) };
        let source = ByteSource::File(written);
        let to = self.file()?;
        let read_at = |part: &mut [u8], offset: u64| source.read_at(part, offset);
        let write_at = |part: &[u8], offset: u64| to.write_all_at(part, offset);
        Ok(transpose::reverse_at(&shape, size, &read_at, &write_at)?)
    }

    fn finish(mut self) -> io::Result<LocatedBytes> {
        if self.small.len() > SMALL || self.file.is_some() {
            self.write()?;
        }
        Ok(match self.file {
            Some(file) => LocatedBytes::New(file),
            None => LocatedBytes::Memory(self.small),
        })
    }
}
