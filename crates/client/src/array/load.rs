//! Values of inputs that are arrays.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::mem;
use std::path::Path;

use fishplate_contract::{Array, ArrayType, Payload};
use fishplate_formats::array_file::{self, Format, LocatedBytes, ReadError, text::TextReader};
use fishplate_formats::dimension::Dimensions;
use fishplate_formats::json;
use tempfile::NamedTempFile;

use crate::error::Error;
use crate::input::{self, LocalFile, blocking};

/// An input that is no array of its type.
#[derive(Debug, thiserror::Error)]
#[error("the input {name} is no {wanted}: {why}")]
pub struct ArrayError {
    /// Name of the input.
    pub name: String,
    /// Its type.
    pub wanted: ArrayType,
    /// What was found, and what would be right.
    pub why: String,
}

/// The array that a word tells: lists within lists, or rows of numbers.
///
/// # Errors
/// What is wrong with it.
pub fn from_text(
    name: &str,
    wanted: &ArrayType,
    known: &mut Dimensions,
    text: &str,
) -> Result<Array, ArrayError> {
    let error = |why: String| ArrayError { name: name.to_owned(), wanted: wanted.clone(), why };
    let (shape, bytes) = if text.trim_start().starts_with('[') {
        json::parse_array(wanted.element, wanted.rank(), text).map_err(error)?
    } else {
        let delimiter = if text.contains(',') { ',' } else { ' ' };
        let mut reader = TextReader::new(wanted.element, &known.axes(wanted), delimiter);
        let mut bytes = Vec::new();
        let shape = reader.feed(text.as_bytes(), &mut bytes);
        let shape = shape.and_then(|()| reader.finish(&mut bytes));
        (shape.map_err(|wrong| error(wrong.to_string()))?, bytes)
    };
    known.bind(wanted, &shape, "it").map_err(error)?;
    Ok(Array { element: wanted.element, shape, data: Payload::Inline(bytes.into()) })
}

/// The array in a file: `.npy` by its name or its first bytes, `.csv`, `.bin` and `.raw` by their
/// names, else text. A large one that is not in the file as it travels is converted into a temporary
/// file.
///
/// # Errors
/// [`Error::File`]; [`ArrayError`] if it is no such array.
pub async fn from_file(
    name: &str,
    wanted: &ArrayType,
    known: &mut Dimensions,
    path: &Path,
) -> Result<Array, Error> {
    let (name, wanted, path) = (name.to_owned(), wanted.clone(), path.to_owned());
    let mut learnt = mem::take(known);
    // It may be large, and must not keep a signal waiting.
    let (array, learnt) =
        blocking(move || (read(&name, &wanted, &mut learnt, &path), learnt)).await;
    *known = learnt;
    array
}

fn read(
    name: &str,
    wanted: &ArrayType,
    known: &mut Dimensions,
    path: &Path,
) -> Result<Array, Error> {
    let error = |why: String| {
        Error::from(ArrayError { name: name.to_owned(), wanted: wanted.clone(), why })
    };
    let shown = path.display().to_string();
    let unreadable = |source: io::Error| Error::file("read", path)(source);
    let file = open(path).map_err(unreadable)?;
    let format = format_of(path, &file).map_err(unreadable)?;
    let axes = known.axes(wanted);
    // The file made last is the one that counts; those before it were on the way to it.
    let mut made: Option<NamedTempFile> = None;
    let mut create = || made.insert(input::temporary()?).reopen();
    let found = array_file::read(&file, &format, wanted.element, &axes, &mut create);
    let found = found.map_err(|wrong| {
        let hint = match (&wrong, format.is_raw()) {
            (ReadError::Length(_), true) => "; a .npy file or a text tells it",
            _ => "",
        };
        error(format!("{}{hint}", wrong.about(&shown)))
    })?;
    known.bind(wanted, &found.shape, &shown).map_err(error)?;
    let data = match (found.bytes, made) {
        (LocatedBytes::Memory(bytes), _) => Ok(Payload::Inline(bytes.into())),
        (LocatedBytes::New(_), Some(made)) => LocalFile::temporary(made),
        (LocatedBytes::Same | LocatedBytes::New(_), _) => {
            file.metadata().map(|metadata| LocalFile::payload(path, metadata.len()))
        }
    };
    let data = data.map_err(unreadable)?;
    Ok(Array { element: wanted.element, shape: found.shape, data })
}

/// Opens a file; what is none (a pipe) is copied into one first.
fn open(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        let mut copy = tempfile::tempfile()?;
        io::copy(&mut file, &mut copy)?;
        copy.rewind()?;
        return Ok(copy);
    }
    Ok(file)
}

fn format_of(path: &Path, mut file: &File) -> io::Result<Format> {
    let mut start = Vec::new();
    file.take(array_file::npy::MAGIC.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    let is_npy = start == array_file::npy::MAGIC;
    Ok(if is_npy { Format::Npy } else { Format::of_name(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ArrayType {
        text.parse().unwrap()
    }

    fn bytes(array: &Array) -> Vec<u8> {
        array_file::to_bytes(array, &Format::PLAIN).unwrap()
    }

    fn ints(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn a_word_tells_lists_or_rows() {
        for (wanted, text, shape) in [
            ("int[][]", "[[1,2],[3,4]]", vec![2, 2]),
            ("int[][]", "1 2\n3 4", vec![2, 2]),
            ("int[][]", "1,2\n3,4\n", vec![2, 2]),
            ("int[]", "1 2 3 4", vec![4]),
            ("int[,2]", "1 2 3 4", vec![2, 2]),
        ] {
            let read = from_text("m", &of(wanted), &mut Dimensions::default(), text);
            if wanted == "int[,2]" {
                assert!(read.unwrap_err().why.contains("more than 2 numbers"));
                continue;
            }
            let array = read.unwrap();
            assert_eq!((bytes(&array), array.shape), (ints(&[1, 2, 3, 4]), shape), "{text}");
        }
        let wrong = from_text("m", &of("int[3]"), &mut Dimensions::default(), "[1,2]");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "the input m is no int[3]: it has the shape 2, and its axis 1 must be 3 long (int[3])"
        );
    }

    #[test]
    fn a_file_is_read_as_its_name_or_its_beginning_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut npy = array_file::npy::NpyHeader::print(of("int[]").element, &[2, 2]);
        npy.extend(ints(&[1, 2, 3, 4]));
        let mut known = Dimensions::default();
        known.tell("n", 2, "the input n");
        for (name, content) in [
            ("m.txt", &b"# m\n1 2\n3 4\n"[..]),
            ("m", b"1 2\n3 4"),
            ("m.csv", b"1,2\n3,4\n"),
            ("m.npy", &npy),
            ("numpy", &npy),
            ("m.bin", &ints(&[1, 2, 3, 4])),
        ] {
            let path = directory.path().join(name);
            std::fs::write(&path, content).unwrap();
            let array = read("m", &of("int[n,]"), &mut known, &path).unwrap();
            assert_eq!((bytes(&array), array.shape), (ints(&[1, 2, 3, 4]), vec![2, 2]), "{name}");
        }
        let path = directory.path().join("m.bin");
        let error = read("m", &of("int[][]"), &mut Dimensions::default(), &path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the input m is no int[][]: {}: a raw file does not tell its shape, and 2 axes are \
                 of unknown length; one may be; a .npy file or a text tells it",
                path.display()
            )
        );
    }

    #[test]
    fn a_large_file_is_converted_once_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.txt");
        std::fs::write(&path, "1 2 3 4\n".repeat(5000)).unwrap();
        let mut known = Dimensions::default();
        let array = read("m", &of("int[][]"), &mut known, &path).unwrap();
        let Payload::Spooled(held) = &array.data else { panic!("it is large") };
        let temporary = held.path().to_owned();
        assert_eq!(held.len(), 80_000);
        assert!(temporary != path && temporary.exists());
        assert_eq!(bytes(&array), ints(&[1, 2, 3, 4]).repeat(5000));
        drop(array);
        assert!(!temporary.exists());
    }
}
