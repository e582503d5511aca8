//! From what was fetched to what the program gets: the file itself, an array in its format, a
//! directory.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fishplate_contract::{Array, ArrayType, Fault, FaultCode, Payload};
use fishplate_formats::array_file::{self, Format, LocatedBytes, npy};
use fishplate_formats::dimension::Dimensions;

use super::fetching::not_stored;
use super::output::OutputHandle;

/// Bytes of no particular format.
const BYTES: &str = "application/octet-stream";

/// Makes a file that was fetched what the program reads, as its description says: a `.npy` file the numbers alone, in C
/// order, for one that reads bytes of no particular format. Without a description every file is what it is. Tells whether
/// it is the file that was fetched.
pub(super) fn file(file: &Path, parameter: &str, media_type: &str) -> Result<bool, Fault> {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let takes_npy = essence.is_empty() || essence.contains("npy") || essence.contains("numpy");
    let stored = |error: io::Error| not_stored(&error);
    let mut source = File::open(file).map_err(stored)?;
    if takes_npy || !is_npy(&source) {
        return Ok(true);
    }
    let refused = |hint: &str| {
        let what = format!(
            "parameter {parameter} refers to an array ({}), and the program reads {essence}; {hint}",
            npy::MEDIA_TYPE
        );
        Fault::new(FaultCode::InvalidValue, what)
    };
    if essence != BYTES {
        return Err(refused("send what it reads, or describe the slot as an array"));
    }
    let Some(header) = plain_header(&source) else {
        return Err(refused("it is not whole, or its numbers are not in C order, little-endian"));
    };
    let made = TemporaryFile(file.with_extension("made"));
    let mut to = made.create().map_err(stored)?;
    source.seek(io::SeekFrom::Start(header.offset as u64)).map_err(stored)?;
    io::copy(&mut source, &mut to).map_err(stored)?;
    fs::rename(&made.0, file).map_err(stored)?;
    Ok(false)
}

/// What an array is to become.
pub(super) struct ArrayConversion<'a> {
    pub(super) parameter: &'a str,
    pub(super) data_type: &'a str,
    pub(super) format: &'a Format,
}

/// Makes a file that was fetched, a `.npy` file or an array's elements, an array's file in its
/// format. Tells whether it was one already.
pub(super) fn array(
    file: &Path,
    about: &ArrayConversion<'_>,
    shape: Option<&[u64]>,
    dimensions: &mut Dimensions,
) -> Result<bool, Fault> {
    let ArrayConversion { parameter, data_type, format } = about;
    let invalid = |what: String| Fault::new(FaultCode::InvalidValue, what);
    let stored = |error: io::Error| not_stored(&error);
    let array: ArrayType =
        data_type.parse().map_err(|_| invalid(format!("{data_type} is no type of an array")))?;
    let source = File::open(file).map_err(stored)?;
    let fetched_as = if is_npy(&source) { Format::Npy } else { Format::PLAIN };
    if let Some(shape) = shape_of_plain(&source, &array).filter(|_| **format == Format::Npy) {
        dimensions.bind(&array, &shape, &format!("parameter {parameter}")).map_err(invalid)?;
        return Ok(true);
    }
    let axes = match shape {
        Some(shape) => shape.iter().copied().map(Some).collect(),
        None => dimensions.axes(&array),
    };
    let temporary = TemporaryFile::beside(file);
    let mut create = || temporary.create();
    let found = array_file::read(&source, &fetched_as, array.element, &axes, &mut create).map_err(
        |error| match error {
            array_file::ReadError::Io(error) => not_stored(&error),
            error => invalid(error.about(&format!("what parameter {parameter} refers to"))),
        },
    )?;
    dimensions.bind(&array, &found.shape, &format!("parameter {parameter}")).map_err(invalid)?;
    if **format == Format::PLAIN && fetched_as == Format::PLAIN {
        return Ok(true);
    }
    let data = match found.bytes {
        LocatedBytes::Memory(bytes) => Payload::Inline(bytes.into()),
        LocatedBytes::Same => held(file).map_err(stored)?,
        LocatedBytes::New(_) => held(&temporary.0).map_err(stored)?,
    };
    let made = TemporaryFile(file.with_extension("made"));
    let to = made.create().map_err(stored)?;
    let array = Array { element: array.element, shape: found.shape, data };
    array_file::write(&array, format, &to).map_err(stored)?;
    fs::rename(&made.0, file).map_err(stored)?;
    Ok(false)
}

fn is_npy(file: &File) -> bool {
    let mut start = [0; npy::MAGIC.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == npy::MAGIC
}

/// The shape of a `.npy` file in which the numbers stand as a program of this machine expects them.
fn shape_of_plain(file: &File, array: &ArrayType) -> Option<Vec<u64>> {
    let header = plain_header(file)?;
    header.dtype.is(array.element).then_some(header.shape)
}

/// The header of a `.npy` file that is whole, and in which the numbers stand in C order, little-endian.
fn plain_header(file: &File) -> Option<npy::NpyHeader> {
    let mut start = vec![0; npy::HEADER_SIZE];
    let read = file.read_at(&mut start, 0).ok()?;
    let header = npy::NpyHeader::parse(&start[..read]).ok()?;
    let len = file.metadata().ok()?.len().checked_sub(header.offset as u64)?;
    let turned = header.fortran_order && header.shape.len() > 1;
    (!header.dtype.big && !turned && header.size() == Some(len)).then_some(header)
}

fn held(path: &Path) -> io::Result<Payload> {
    let len = fs::metadata(path)?.len();
    Ok(Payload::Spooled(Arc::new(OutputHandle::new(path.to_owned(), len))))
}

/// A file on the way to another, gone when it is dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn beside(file: &Path) -> Self {
        Self(file.with_extension("draft"))
    }

    /// Anew, if it was there.
    fn create(&self) -> io::Result<File> {
        let _ = fs::remove_file(&self.0);
        File::options().read(true).write(true).create_new(true).open(&self.0)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Unpacks an archive that was fetched, unless that shall stop; the directory takes its place.
pub(super) fn directory(
    file: &Path,
    parameter: &str,
    limits: &fishplate_formats::archive::ArchiveLimits,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    let archive = TemporaryFile(file.with_extension("archive"));
    fs::rename(file, &archive.0).map_err(|error| not_stored(&error))?;
    fishplate_formats::archive::unpack_file_unless(&archive.0, file, parameter, limits, stop)
}
