//! What C hands over. Pointers of callers are followed here and nowhere else, so the rest is safe code.
//!
//! Every `unsafe` below rests on what the standard obliges callers to: an argument points to as much memory as its
//! description says, which nobody else uses until the call has returned, or for choice buffers until the operation
//! is complete; strings end with a zero. What can be checked is: a null pointer is an error.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::constants::{IN_PLACE, MPI_ERR_ARG, MPI_ERR_BUFFER, MPI_ERR_COUNT};
use crate::error::{Result, error};

/// `int` or `MPI_Count`: the type of counts.
pub(crate) trait Integer: Copy + Into<i64> + Send + Sync + 'static {
    /// Whether it is `MPI_Count`.
    const LARGE: bool;

    /// The value, if it fits.
    fn of(value: i64) -> Option<Self>;

    /// As a number of things.
    fn count(self) -> Result<usize> {
        let count: i64 = self.into();
        usize::try_from(count).map_err(|_| {
            error(MPI_ERR_COUNT, format!("a count is {count}, and should be 0 or more"))
        })
    }
}

impl Integer for c_int {
    const LARGE: bool = false;

    fn of(value: i64) -> Option<Self> {
        value.try_into().ok()
    }
}

impl Integer for i64 {
    const LARGE: bool = true;

    fn of(value: i64) -> Option<Self> {
        Some(value)
    }
}

fn null(what: &str) -> crate::error::Error {
    error(MPI_ERR_ARG, format!("{what} is a null pointer"))
}

/// Where the caller wants a result.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

// SAFETY: a pointer is sent as a number; following it is the business of this module's contract.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}

impl<T: Copy> Out<T> {
    /// Puts it there.
    pub(crate) fn set(self, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(null("the place for a result"));
        }
        self.set_if(value);
        Ok(())
    }

    /// Puts it there, if the caller wants it.
    pub(crate) fn set_if(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: see the module's contract.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What is there.
    pub(crate) fn get(self) -> Result<T> {
        self.get_if().ok_or_else(|| null("an argument"))
    }

    /// The same, if there is a place.
    pub(crate) fn get_if(self) -> Option<T> {
        // SAFETY: see the module's contract.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// The `at`th of several.
    pub(crate) fn at(self, at: usize) -> Self {
        Self(if self.0.is_null() { self.0 } else { self.0.wrapping_add(at) })
    }

    /// Puts several there.
    pub(crate) fn set_all(self, values: impl IntoIterator<Item = T>) -> Result<()> {
        (0..).zip(values).try_for_each(|(at, value)| self.at(at).set(value))
    }

    /// Where it is.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// The elements of a list, which are only read.
    pub(crate) fn of_list(list: List<T>) -> Self {
        Self(list.0.cast_mut())
    }

    /// A place in our own memory, for callbacks.
    pub(crate) fn to(value: &mut T) -> Self {
        Self(value)
    }
}

impl Out<c_int> {
    /// Puts a truth value there.
    pub(crate) fn set_flag(self, value: bool) -> Result<()> {
        self.set(c_int::from(value))
    }

    /// Puts a count there.
    pub(crate) fn set_count(self, count: usize) -> Result<()> {
        self.set(c_int::try_from(count).unwrap_or(c_int::MAX))
    }
}

/// An array that the caller gave.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct List<T>(*const T);

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<T> {}

impl<T: Copy> List<T> {
    /// Its first elements, copied.
    pub(crate) fn to_vec(self, length: usize) -> Result<Vec<T>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(null("an array"));
        }
        // SAFETY: see the module's contract.
        Ok((0..length).map(|at| unsafe { self.0.add(at).read_unaligned() }).collect())
    }
}

impl<T> List<T> {
    /// Where it is.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }
}

impl<T: Integer> List<T> {
    /// Its elements as counts, none of which is negative.
    pub(crate) fn counts(self, length: usize) -> Result<Vec<usize>> {
        self.to_vec(length)?.into_iter().map(Integer::count).collect()
    }

    /// Displacements and the like.
    pub(crate) fn integers(self, length: usize) -> Result<Vec<i64>> {
        Ok(self.to_vec(length)?.into_iter().map(Into::into).collect())
    }
}

/// A string that the caller gave.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Its text.
    pub(crate) fn get(self) -> Result<String> {
        if self.0.is_null() {
            return Err(null("a string"));
        }
        // SAFETY: see the module's contract.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Where the caller wants a string.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct TextOut(*mut c_char);

impl TextOut {
    /// Puts as much of it there as fits in `capacity` with its zero; how much that was.
    pub(crate) fn set(self, text: &str, capacity: usize) -> Result<usize> {
        if self.0.is_null() {
            return Err(null("the place for a string"));
        }
        let bytes = &text.as_bytes()[..text.len().min(capacity.saturating_sub(1))];
        let target = Out(self.0.cast::<u8>());
        target.set_all(bytes.iter().copied())?;
        target.at(bytes.len()).set(0)?;
        Ok(bytes.len())
    }

    /// The same, and its length.
    pub(crate) fn set_with_length(
        self,
        text: &str,
        capacity: usize,
        length: Out<c_int>,
    ) -> Result<()> {
        length.set_count(self.set(text, capacity)?)
    }
}

/// A choice buffer: memory that a datatype describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Buffer(*mut u8);

// SAFETY: a pointer is sent as a number; following it is the business of this module's contract.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Whether it is `MPI_IN_PLACE`.
    pub(crate) fn is_in_place(self) -> bool {
        self.0.addr() == IN_PLACE
    }

    /// Its address. `MPI_BOTTOM` is 0, with which displacements are addresses.
    pub(crate) fn address(self) -> usize {
        self.0.addr()
    }

    /// So many bytes further on.
    pub(crate) fn offset(self, bytes: i64) -> Self {
        Self(self.0.wrapping_offset(isize::try_from(bytes).unwrap_or_default()))
    }

    /// As callbacks get it.
    pub(crate) fn pointer(self) -> *mut c_void {
        self.0.cast()
    }

    /// The first bytes.
    pub(crate) fn bytes<'a>(self, length: usize) -> &'a [u8] {
        if length == 0 {
            return &[];
        }
        // SAFETY: see the module's contract.
        unsafe { std::slice::from_raw_parts(self.0, length) }
    }

    /// The same, to be written.
    pub(crate) fn bytes_mut<'a>(self, length: usize) -> &'a mut [u8] {
        if length == 0 {
            return &mut [];
        }
        // SAFETY: see the module's contract.
        unsafe { std::slice::from_raw_parts_mut(self.0, length) }
    }

    /// An error, if the bytes can't be there.
    pub(crate) fn check(self, length: usize) -> Result<()> {
        if self.0.is_null() && length > 0 {
            return Err(error(
                MPI_ERR_BUFFER,
                format!("the buffer of {length} bytes is a null pointer"),
            ));
        }
        Ok(())
    }

    /// The same, of memory of our own that outlives its use.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.as_ptr().cast_mut())
    }
}

/// A pointer that we keep for the caller and never follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: it is never followed.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}
