//! What every call needs while it writes its schedule.

#![expect(unsafe_code, reason = "a schedule holds the caller's buffers without their lifetime")]

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::buffer::{ReceiveBuffer, SendBuffer, Span};
use crate::collective::accumulator::Accumulator;
use crate::collective::arguments::Contribution;
use crate::collective::schedule::Schedule;
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::header::Rank;
use crate::operation::Operation;

/// A schedule that is being written, with what every call needs.
pub(super) struct ScheduleBuilder<'a> {
    pub(super) s: Schedule,
    pub(super) me: Rank,
    pub(super) size: u32,
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> ScheduleBuilder<'a> {
    pub(super) fn new(communicator: &Communicator) -> Self {
        Self::of(communicator.rank(), communicator.size(), Schedule::new())
    }

    pub(super) fn of(me: Rank, size: u32, s: Schedule) -> Self {
        Self { s, me, size, buffers: PhantomData }
    }

    pub(super) fn reducing(communicator: &Communicator, operation: &Operation) -> Self {
        Self::of(communicator.rank(), communicator.size(), Schedule::reducing(operation))
    }

    pub(super) fn data<T: Pod>(&mut self, data: &'a [T]) -> Span {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        // SAFETY: the `Collective` borrows it for `'a`, waits when it is run, and its scope waits when it is started.
        self.s.send_buffer(unsafe { SendBuffer::from_raw(bytes.as_ptr(), bytes.len()) })
    }

    pub(super) fn target<T: Pod>(&mut self, data: &'a mut [T]) -> Span {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        // SAFETY: as above, and exclusively.
        self.s.receive_buffer(unsafe { ReceiveBuffer::from_raw(bytes.as_mut_ptr(), bytes.len()) })
    }

    /// So many equal blocks of a buffer.
    pub(super) fn blocks(
        &self,
        argument: &'static str,
        whole: &Span,
        element: usize,
    ) -> Result<Vec<Span>> {
        let (length, size) = (whole.length(), self.size as usize);
        if !length.is_multiple_of(size * element) {
            let problem =
                format!("its {} elements are not a multiple of {size} ranks", length / element);
            return Err(Error::Argument { argument, problem });
        }
        let block = length / size;
        Ok((0..size).map(|at| whole.part(at * block..(at + 1) * block)).collect())
    }

    /// A copy.
    pub(super) fn copied(&mut self, span: &Span) -> Span {
        let copy = self.s.scratch(span.length());
        self.s.copy(span, &copy);
        copy
    }

    /// The contribution, to be reduced into `into`, or into memory of its own.
    pub(super) fn accumulator<T: Pod>(
        &mut self,
        send: Contribution<'a, T>,
        into: Option<&Span>,
    ) -> Result<Accumulator> {
        let (data, into) = match (send, into) {
            (Contribution::Data(data), Some(into)) => {
                let data = self.data(data);
                same_length("send", &data, into, size_of::<T>())?;
                (data, into.clone())
            }
            (Contribution::InPlace, Some(into)) => (into.clone(), into.clone()),
            (send, None) => {
                let data = self.sent(send)?;
                let into = self.s.scratch(data.length());
                (data, into)
            }
        };
        Ok(Accumulator::new(data, into))
    }

    /// The contribution in memory that may be written and is lost: `into`, if it is there already.
    pub(super) fn value<T: Pod>(
        &mut self,
        send: Contribution<'a, T>,
        into: Option<&Span>,
    ) -> Result<Span> {
        let mut value = self.accumulator(send, into)?;
        value.settle(&mut self.s);
        Ok(value.result().clone())
    }

    /// The contribution where the caller has it, of a rank that gets nothing.
    pub(super) fn sent<T: Pod>(&mut self, send: Contribution<'a, T>) -> Result<Span> {
        match send {
            Contribution::Data(data) => Ok(self.data(data)),
            Contribution::InPlace => {
                let problem = "only the root has its contribution in place".to_owned();
                Err(Error::Argument { argument: "send", problem })
            }
        }
    }
}

pub(super) fn same_length(
    argument: &'static str,
    is: &Span,
    should: &Span,
    element: usize,
) -> Result<()> {
    if is.length() == should.length() {
        return Ok(());
    }
    let problem = format!(
        "it has {} elements, and should have {}",
        is.length() / element,
        should.length() / element
    );
    Err(Error::Argument { argument, problem })
}

/// Buffers of bytes may hold elements of any size.
pub(super) fn whole_elements<T>(operation: &Operation) -> Result<()> {
    if [1, operation.element()].contains(&size_of::<T>()) {
        return Ok(());
    }
    let problem = format!(
        "it is for elements of {} bytes, and these have {}",
        operation.element(),
        size_of::<T>()
    );
    Err(Error::Argument { argument: "operation", problem })
}

/// A contribution that stays as it is while `all` is written.
pub(super) fn sent_to_all<'a, T: Pod>(
    builder: &mut ScheduleBuilder<'a>,
    send: Contribution<'a, T>,
    all: &Span,
) -> Span {
    match send {
        Contribution::Data(data) => builder.data(data),
        Contribution::InPlace => builder.copied(all),
    }
}

/// The root's own block of a scatter: copied, unless it stays in place.
pub(super) fn keep_own(
    builder: &mut ScheduleBuilder<'_>,
    own: &Span,
    mine: Span,
    element: usize,
) -> Result<Span> {
    if mine.length() == 0 {
        return Ok(own.clone());
    }
    same_length("receive", &mine, own, element)?;
    builder.s.copy(own, &mine);
    Ok(mine)
}
