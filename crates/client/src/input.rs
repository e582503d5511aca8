//! Values of inputs from files.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{ByteStream, Fault, FaultCode, FileHandle, Payload, Value, lexical};
use fishplate_data::stream::pipe;
use tempfile::{NamedTempFile, TempPath};

use crate::error::Error;

/// A file of at most this many bytes is read at once; a larger one while it is sent.
const INLINE: u64 = 16 << 10;

/// Most bytes of a file whose text is the value of a scalar input: 16 MiB, as servers take.
pub const TEXT_INPUT_SIZE: u64 = DEFAULTS.text_size as u64;

/// The bytes of a file as the value of an input. It must not change until it was sent. What is no
/// regular file (a pipe) is a stream, sent as it comes: such a call can't be tried again by itself.
///
/// # Errors
/// [`Error::File`].
pub async fn file_input(path: &Path) -> Result<Payload, Error> {
    let path = path.to_owned();
    blocking(move || payload(&path).map_err(Error::file("read", &path))).await
}

/// The text of a file, white space around it removed, as the value of a scalar input.
///
/// # Errors
/// [`Error::File`], also if it is larger than [`TEXT_INPUT_SIZE`] or no UTF-8.
pub async fn text_input(path: &Path) -> Result<Value, Error> {
    let path = path.to_owned();
    blocking(move || text(&path).map_err(Error::file("read", &path))).await.map(Value::Text)
}

/// Runs what blocks without blocking the runtime.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn payload(path: &Path) -> io::Result<Payload> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Ok(Payload::Stream(stream_of(File::open(path)?)?));
    }
    if metadata.len() <= INLINE {
        return Ok(Payload::Inline(Bytes::from(fs::read(path)?)));
    }
    File::open(path)?; // So that a file we may not read is told now, not in the middle.
    Ok(LocalFile::payload(path, metadata.len()))
}

/// What a reader gives, as a stream; read by a thread of its own, which nobody waits for: what comes from a
/// terminal may never end.
///
/// # Errors
/// If the system gives no thread.
pub fn stream_of(from: impl Read + Send + 'static) -> io::Result<ByteStream> {
    let (mut writer, stream) = pipe();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        // Whoever reads no more has said why to those who care.
        let copied = io::copy(&mut BufReader::with_capacity(CHUNK, from), &mut writer);
        writer.finish(copied.map(drop).map_err(|error| {
            Fault::new(FaultCode::TransferFailed, format!("cannot read the input: {error}"))
        }));
    })?;
    Ok(stream)
}

/// A file that is removed when it is dropped.
pub(crate) fn temporary() -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".fishplate-").tempfile()
}

/// Bytes of a stream that are read at once.
const CHUNK: usize = 64 << 10;

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_INPUT_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_INPUT_SIZE {
        let message = format!("it is larger than {} MiB", TEXT_INPUT_SIZE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the value of this input is text, and it is not UTF-8",
        )
    })?;
    Ok(lexical::trimmed(&text).to_owned())
}

/// A file of the caller's, which stays, or a temporary one, which goes with the value.
#[derive(Debug)]
pub(crate) struct LocalFile {
    path: PathBuf,
    len: u64,
    /// Removes a temporary one.
    _guard: Option<TempPath>,
}

impl LocalFile {
    pub(crate) fn at(path: &Path, len: u64) -> Self {
        Self { path: path.to_owned(), len, _guard: None }
    }

    /// The bytes of a file of the caller's.
    pub(crate) fn payload(path: &Path, len: u64) -> Payload {
        Payload::Spooled(Arc::new(Self::at(path, len)))
    }

    /// The bytes of a temporary file.
    pub(crate) fn temporary(file: NamedTempFile) -> io::Result<Payload> {
        let len = file.as_file().metadata()?.len();
        let guard = file.into_temp_path();
        let path = guard.to_path_buf();
        Ok(Payload::Spooled(Arc::new(Self { path, len, _guard: Some(guard) })))
    }
}

impl FileHandle for LocalFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_small_file_is_read_and_a_large_one_is_referred_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, vec![1; 16 << 10]).unwrap();
        assert!(matches!(file_input(&path).await, Ok(Payload::Inline(_))));
        fs::write(&path, vec![1; (16 << 10) + 1]).unwrap();
        let Ok(Payload::Spooled(held)) = file_input(&path).await else { panic!() };
        assert_eq!((held.path(), held.len()), (path.as_path(), (16 << 10) + 1));
    }

    #[tokio::test]
    async fn the_text_of_a_file_is_trimmed_and_must_be_utf8() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("two");
        fs::write(&path, " 2\n").unwrap();
        assert!(matches!(text_input(&path).await, Ok(Value::Text(text)) if text == "2"));
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(text_input(&path).await, Err(Error::File { .. })));
        File::create(&path).unwrap().set_len(TEXT_INPUT_SIZE + 1).unwrap();
        assert!(matches!(text_input(&path).await, Err(Error::File { .. })));
    }

    #[tokio::test]
    async fn a_directory_and_a_missing_file_are_errors_that_name_them() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("none")] {
            let error = file_input(&path).await.unwrap_err();
            assert!(matches!(error, Error::File { doing: "read", path: at, .. } if at == path));
        }
    }
}
