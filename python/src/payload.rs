//! Data by handle: memory of Python's, files, references. Nothing here is copied that need not be.

use std::ptr::NonNull;

use bytes::Bytes;
use fishplate_client::array::from_file;
use fishplate_client::{Error, directory, file_input, save};
use fishplate_contract as contract;
use fishplate_contract::{ArrayType, DataRef, Digest, Element};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

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
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(pieces) = self.0.pieces() else { return Ok(None) };
        let len = pieces.iter().map(Bytes::len).sum();
        PyBytes::new_with(py, len, |mut to| {
            for piece in pieces {
                let (here, rest) = to.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                to = rest;
            }
            Ok(())
        })
        .map(Some)
    }

    /// Puts the bytes into a file, in the place of what was there; a reference is not followed.
    fn save(&self, path: PathBuf) -> Task {
        let payload = self.0.clone();
        Task::of(async move { save(&payload, &path).await }, |py, ()| Ok(py.None()))
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
        let element = Element::from_name(element)
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
