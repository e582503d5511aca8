//! Data by handle: memory of Python's, files, references. Nothing here is copied that need not be.

use std::borrow::Cow;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Cursor};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use fishplate_client::array::from_file;
use fishplate_client::input::stream_of;
use fishplate_client::{Error, directory, file_input, save};
use fishplate_contract as contract;
use fishplate_contract::{ArrayType, ByteStream, DataRef, Digest, ElementType, Fault, FaultCode};
use fishplate_data::stream::{deferred, pipe};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use tokio::sync::Mutex;

use crate::describe::Parameter;
use crate::task::Task;

/// The bytes of a value, wherever they are.
#[pyclass(frozen, module = "fishplate._native")]
#[derive(Clone)]
pub(crate) struct Payload(pub(crate) contract::Payload);

#[pymethods]
impl Payload {
    /// The memory of an object, which is held and not copied; it must be C-contiguous, and must
    /// not change until it was sent.
    #[staticmethod]
    fn from_buffer(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(contract::Payload::Inline(Bytes::from_owner(Exported::by(data)?))))
    }

    /// A file of this machine, read while it is sent.
    #[staticmethod]
    fn from_file(path: PathBuf) -> Task {
        Self::made(async move { file_input(&path).await })
    }

    /// A directory of this machine, as an archive.
    #[staticmethod]
    fn pack(path: PathBuf) -> Task {
        Self::made(directory::packed(path))
    }

    /// What an iterator gives, bytes at a time, asked for as it is sent.
    #[staticmethod]
    fn from_iterator(chunks: Py<PyAny>) -> Self {
        Self(contract::Payload::Stream(deferred(|| iterated(chunks))))
    }

    /// The bytes as they come, or from where they are.
    fn chunks(&self) -> PyResult<Chunks> {
        let stream = match &self.0 {
            contract::Payload::Stream(stream) => stream.clone(),
            contract::Payload::Spooled(held) => stream_of(File::open(held.path())?)?,
            contract::Payload::Inline(bytes) => stream_of(Cursor::new(bytes.clone()))?,
            contract::Payload::Pieces(pieces) => stream_of(Cursor::new(pieces.concat()))?,
            contract::Payload::Reference(reference) => {
                let what = format!("{} is elsewhere, and no stream", reference.url);
                return Err(PyValueError::new_err(what));
            }
        };
        let chunks = stream.take().map_err(|fault| PyValueError::new_err(fault.message))?;
        Ok(Chunks(Arc::new(Mutex::new(Numbered { chunks, taken: 0, last: None }))))
    }

    /// Data elsewhere; a digest as in RFC 9530 (`sha-256=:...:`).
    #[staticmethod]
    #[pyo3(signature = (url, size=None, digest=None))]
    fn reference(url: String, size: Option<u64>, digest: Option<&str>) -> PyResult<Self> {
        let digest = digest
            .map(|text| {
                Digest::from_field(text)
                    .ok_or_else(|| PyValueError::new_err(format!("{text:?} is no digest")))
            })
            .transpose()?;
        Ok(Self(contract::Payload::Reference(DataRef { url, len: size, digest })))
    }

    /// Length in bytes, if it is known.
    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.len()
    }

    /// Where the data is, if it is elsewhere.
    #[getter]
    fn url(&self) -> Option<&str> {
        match &self.0 {
            contract::Payload::Reference(reference) => Some(&reference.url),
            _ => None,
        }
    }

    /// What the data must be, if it is elsewhere and that was told.
    #[getter]
    fn digest(&self) -> Option<String> {
        match &self.0 {
            contract::Payload::Reference(reference) => {
                reference.digest.map(|digest| digest.to_string())
            }
            _ => None,
        }
    }

    /// The hidden file that holds the bytes, if they are in one.
    #[getter]
    fn file(&self) -> Option<PathBuf> {
        match &self.0 {
            contract::Payload::Spooled(held) => Some(held.path().to_owned()),
            _ => None,
        }
    }

    /// The bytes, if they are in memory.
    fn memory<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.in_memory().map(|bytes| PyBytes::new(py, &bytes))
    }

    /// The bytes, if they are in memory, where they may be changed.
    fn writable<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyByteArray>> {
        self.in_memory().map(|bytes| PyByteArray::new(py, &bytes))
    }

    /// Puts the bytes into a file, in the place of what was there; a reference is not followed.
    fn save(&self, path: PathBuf) -> Task {
        let payload = self.0.clone();
        Task::of(async move { save(&payload, &path).await }, |py, _| Ok(py.None()))
    }

    /// Unpacks the archive that it is into a directory that is not there yet, or is empty.
    fn unpack(&self, name: String, path: PathBuf) -> Task {
        Task::of(directory::unpacked(self.0.clone(), name, path), |py, ()| Ok(py.None()))
    }
}

impl Payload {
    fn made(work: impl Future<Output = Result<contract::Payload, Error>> + Send + 'static) -> Task {
        Task::of(work, |py, payload| Ok(Self(payload).into_pyobject(py)?.into_any().unbind()))
    }

    fn in_memory(&self) -> Option<Cow<'_, [u8]>> {
        Some(match self.0.pieces()? {
            [block] => Cow::Borrowed(block),
            pieces => Cow::Owned(pieces.concat()),
        })
    }
}

/// What an iterator gives, asked for on a thread of its own.
fn iterated(chunks: Py<PyAny>) -> io::Result<ByteStream> {
    let (mut writer, stream) = pipe();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let outcome = loop {
            match Python::attach(|py| next(chunks.bind(py))) {
                // Whoever sends no more has said why.
                Ok(Some(chunk)) => match writer.push(chunk) {
                    Ok(()) => {}
                    Err(closed) => break Err(closed.into()),
                },
                Ok(None) => break Ok(()),
                Err(error) => {
                    let what = format!("the input broke off: {error}");
                    break Err(Fault::new(FaultCode::TransferFailed, what));
                }
            }
        };
        writer.finish(outcome);
        Python::attach(|_| drop(chunks));
    })?;
    Ok(stream)
}

/// The next bytes of an iterator.
fn next(chunks: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    match chunks.call_method0("__next__") {
        // They may change once the next ones are asked for.
        Ok(chunk) => Ok(Some(Bytes::copy_from_slice(Exported::by(&chunk)?.as_ref()))),
        Err(error) if error.is_instance_of::<PyStopIteration>(chunks.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes that come one chunk after the other.
#[pyclass(frozen, module = "fishplate._native")]
pub(crate) struct Chunks(Arc<Mutex<Numbered>>);

/// Chunks that are numbered, from 0. The last one is kept until the next is asked for: whoever waited for it
/// may have been cancelled, and asks again.
struct Numbered {
    chunks: contract::Chunks,
    /// How many were taken.
    taken: u64,
    last: Option<Result<Bytes, Fault>>,
}

impl Numbered {
    async fn chunk(&mut self, number: u64) -> Result<Option<Bytes>, Fault> {
        if number == self.taken {
            self.last = poll_fn(|context| self.chunks.as_mut().poll_next(context)).await;
            self.taken += 1;
        } else if number + 1 != self.taken {
            return Err(Fault::new(FaultCode::Internal, "a stream was read twice at once"));
        }
        self.last.clone().transpose()
    }
}

#[pymethods]
impl Chunks {
    /// The one of this number, which is the next or, once more, the last; `None` at the end.
    fn get(&self, number: u64) -> Task {
        let chunks = Arc::clone(&self.0);
        let next = async move { chunks.lock().await.chunk(number).await.map_err(Error::BrokenOff) };
        Task::of(next, |py, chunk| {
            Ok(chunk.map(|chunk| PyBytes::new(py, &chunk)).into_pyobject(py)?.unbind())
        })
    }
}

/// An array of numbers: its elements' bytes, little-endian, in C order.
#[pyclass(frozen, module = "fishplate._native")]
#[derive(Clone)]
pub(crate) struct Array(pub(crate) contract::Array);

#[pymethods]
impl Array {
    /// An array of `int`, `long`, `float` or `double`.
    #[new]
    fn new(element: &str, shape: Vec<u64>, data: &Bound<'_, Payload>) -> PyResult<Self> {
        let element = ElementType::from_name(element)
            .ok_or_else(|| PyValueError::new_err(format!("{element:?} is no type of elements")))?;
        Ok(Self(contract::Array { element, shape, data: data.get().0.clone() }))
    }

    /// The array in a file, as an input takes it: `.npy`, `.csv`, raw numbers, or rows of them.
    #[staticmethod]
    fn from_file(parameter: &Bound<'_, Parameter>, path: PathBuf) -> PyResult<Task> {
        let parameter = parameter.get();
        let wanted: ArrayType = parameter
            .r#type
            .parse()
            .map_err(|_| PyValueError::new_err("the parameter is no array"))?;
        let name = parameter.name.clone();
        let reading =
            async move { from_file(&name, &wanted, &mut Default::default(), &path).await };
        let made = |py: Python<'_>, array| Ok(Self(array).into_pyobject(py)?.into_any().unbind());
        Ok(Task::of(reading, made))
    }

    /// Type of its elements.
    #[getter]
    fn element(&self) -> &'static str {
        self.0.element.name()
    }

    /// Lengths of its axes, slowest index first.
    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.0.shape.clone()
    }

    /// Its elements.
    #[getter]
    fn data(&self) -> Payload {
        Payload(self.0.data.clone())
    }
}

/// Memory of a Python object, which cannot be moved or freed while this lives.
struct Exported {
    _of: PyBuffer<u8>,
    at: NonNull<[u8]>,
}

impl Exported {
    fn by(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(data)?;
        let at = buffer
            .as_slice_ptr()
            .ok_or_else(|| PyBufferError::new_err("the memory must be C-contiguous"))?;
        Ok(Self { _of: buffer, at })
    }
}

#[expect(unsafe_code, reason = "PyBuffer may be sent; so may the address of what it holds")]
// SAFETY: the pointer is only read, and is valid on every thread as long as the buffer is held.
unsafe impl Send for Exported {}

impl AsRef<[u8]> for Exported {
    #[expect(unsafe_code, reason = "the buffer protocol gives a pointer")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the exporter keeps the memory where it is as long as the buffer is held. That
        // nobody writes to it meanwhile is asked of the caller, as of every user of the protocol.
        unsafe { self.at.as_ref() }
    }
}
