//! `MPI_Status` (MPI 5.0, 3.2.5 and 20.3.1), and Fortran's, which is the same eight integers.

use std::ffi::c_int;

use crate::arguments::{Integer, Out};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::Datatype;

/// As C has it. The first three of our own five integers are used: bytes, low and high, and whether it was cancelled.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Status {
    pub(crate) source: c_int,
    pub(crate) tag: c_int,
    pub(crate) error: c_int,
    internal: [c_int; 5],
}

impl Status {
    /// That of what was no operation (MPI 5.0, 3.7.3).
    pub(crate) const EMPTY: Self = Self::new(MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    /// That of a receive from `MPI_PROC_NULL`.
    pub(crate) const PROC_NULL: Self = Self::new(MPI_PROC_NULL, MPI_ANY_TAG, 0, false);

    const fn new(source: c_int, tag: c_int, bytes: u64, cancelled: bool) -> Self {
        let mut status = Self { source, tag, error: MPI_SUCCESS, internal: [0; 5] };
        status.set_bytes(bytes);
        status.internal[2] = cancelled as c_int;
        status
    }

    /// That of a message or a cancelled receive.
    pub(crate) fn of(status: fishplate_ranks::Status) -> Self {
        let rank = |rank: Option<u32>| rank.and_then(|rank| c_int::try_from(rank).ok());
        Self::new(
            rank(status.source).unwrap_or(MPI_ANY_SOURCE),
            status.tag.unwrap_or(MPI_ANY_TAG),
            status.length as u64,
            status.cancelled,
        )
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
    #[expect(clippy::cast_possible_wrap, reason = "bits, in C's type")]
    const fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as u32 as c_int;
    }

    /// Bytes that were received.
    pub(crate) fn bytes(&self) -> usize {
        let half = |at: usize| u64::from(self.internal[at].cast_unsigned());
        usize::try_from(half(0) | half(1) << 32).unwrap_or(usize::MAX)
    }

    /// Whether it was cancelled.
    pub(crate) fn cancelled(&self) -> bool {
        self.internal[2] != 0
    }
}

impl Out<Status> {
    /// Puts it there, if the caller wants it: of a message all but `MPI_ERROR` (MPI 5.0, 3.2.5).
    pub(crate) fn put(self, status: &Status) {
        let empty = status.source == MPI_ANY_SOURCE;
        if let Some(old) = self.get_if() {
            self.set_if(if empty { *status } else { Status { error: old.error, ..*status } });
        }
    }
}

/// A count, or `MPI_UNDEFINED` if there is none that fits.
fn set_count<C: Integer + Copy>(place: Out<C>, count: Option<usize>) -> Result<()> {
    let count = count.and_then(|count| i64::try_from(count).ok()).and_then(C::of);
    place.set(
        count.or_else(|| C::of(MPI_UNDEFINED.into())).ok_or_else(|| error(MPI_ERR_COUNT, ""))?,
    )
}

fn elements(status: &Status, datatype: Datatype) -> Result<Option<usize>> {
    Ok(datatype.get()?.layout.elements(status.bytes()))
}

fn set_elements(place: Out<Status>, datatype: Datatype, count: i64) -> Result<()> {
    let bytes = datatype.get()?.layout.bytes_of(count.count()?);
    let mut status = place.get()?;
    status.set_bytes(bytes as u64);
    place.set(status)
}

/// One field of a status.
fn change(place: Out<Status>, change: impl FnOnce(&mut Status)) -> Result<()> {
    let mut status = place.get()?;
    change(&mut status);
    place.set(status)
}

entries! {
    fn Get_count<C>(status: Out<Status>, datatype: Datatype, count: Out<C>) on () => {
        let (size, bytes) = (datatype.get()?.layout.size, status.get()?.bytes());
        set_count(count, match size {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then_some(bytes / size),
        })
    }
    fn Get_elements<C>(status: Out<Status>, datatype: Datatype, count: Out<C>) on () => {
        set_count(count, elements(&status.get()?, datatype)?)
    }
    fn Get_elements_x(status: Out<Status>, datatype: Datatype, count: Out<i64>) on () => {
        set_count(count, elements(&status.get()?, datatype)?)
    }
    fn Test_cancelled(status: Out<Status>, flag: Out<c_int>) on () => {
        flag.set_flag(status.get()?.cancelled())
    }
    fn Status_get_source(status: Out<Status>, source: Out<c_int>) on () => {
        source.set(status.get()?.source)
    }
    fn Status_get_tag(status: Out<Status>, tag: Out<c_int>) on () => {
        tag.set(status.get()?.tag)
    }
    fn Status_get_error(status: Out<Status>, error: Out<c_int>) on () => {
        error.set(status.get()?.error)
    }
    fn Status_set_source(status: Out<Status>, source: c_int) on () => {
        change(status, |status| status.source = source)
    }
    fn Status_set_tag(status: Out<Status>, tag: c_int) on () => {
        change(status, |status| status.tag = tag)
    }
    fn Status_set_error(status: Out<Status>, error: c_int) on () => {
        change(status, |status| status.error = error)
    }
    fn Status_set_cancelled(status: Out<Status>, flag: c_int) on () => {
        change(status, |status| status.internal[2] = c_int::from(flag != 0))
    }
    fn Status_set_elements<C>(status: Out<Status>, datatype: Datatype, count: C) on () => {
        set_elements(status, datatype, count.into())
    }
    fn Status_set_elements_x(status: Out<Status>, datatype: Datatype, count: i64) on () => {
        set_elements(status, datatype, count)
    }
}
