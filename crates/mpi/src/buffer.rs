//! Choice buffers as bytes: in their place where a datatype leaves no gaps, else packed.

use std::sync::{Arc, Mutex, PoisonError};

use fishplate_ranks::collective::Blocks;

use crate::arguments::{Buffer, Integer, Out};
use crate::constants::*;
use crate::datatype::Layout;
use crate::error::{Result, error};
use crate::handle::Datatype;

/// An address, a count and a datatype.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) buffer: Buffer,
    pub(crate) count: usize,
    pub(crate) layout: Arc<Layout>,
}

impl Data {
    /// What the caller gave.
    pub(crate) fn new(buffer: Buffer, count: impl Integer, datatype: Datatype) -> Result<Self> {
        Self::of(buffer, count.count()?, layout_of(datatype)?)
    }

    /// Several times as much, one after the other.
    pub(crate) fn repeated(
        buffer: Buffer,
        count: impl Integer,
        datatype: Datatype,
        times: usize,
    ) -> Result<Self> {
        Self::of(buffer, count.count()?.saturating_mul(times), layout_of(datatype)?)
    }

    fn of(buffer: Buffer, count: usize, layout: Arc<Layout>) -> Result<Self> {
        let data = Self { buffer, count, layout }.in_memory()?;
        if data.layout.true_lower_bound == 0 && !buffer.is_in_place() {
            buffer.check(data.size())?;
        }
        Ok(data)
    }

    /// An error, if no memory has so much.
    fn in_memory(self) -> Result<Self> {
        if isize::try_from(self.size()).is_ok() {
            return Ok(self);
        }
        Err(error(MPI_ERR_COUNT, format!("{} elements are more than memory has", self.count)))
    }

    /// Data of no length.
    pub(crate) fn none() -> Self {
        Self {
            buffer: Buffer::of(&[]),
            count: 0,
            layout: Arc::new(Layout::of(crate::datatype::Basic::BYTE)),
        }
    }

    /// Bytes of data.
    pub(crate) fn size(&self) -> usize {
        self.layout.size.saturating_mul(self.count)
    }

    /// Where its bytes are, if they are one run.
    fn run(&self) -> Option<Buffer> {
        if self.size() == 0 {
            return Some(Buffer::of(&[]));
        }
        self.layout.run(self.count).map(|start| self.buffer.offset(start))
    }

    /// Copies it to `to`.
    pub(crate) fn pack(&self, mut to: &mut [u8]) {
        self.layout.walk(self.count, true, &mut |at, length, _| {
            let (part, rest) = std::mem::take(&mut to).split_at_mut(length);
            part.copy_from_slice(self.buffer.offset(at).bytes(length));
            to = rest;
            true
        });
    }

    /// Fills it from `from`, which may end before it is full.
    pub(crate) fn unpack(&self, mut from: &[u8]) {
        self.layout.walk(self.count, true, &mut |at, length, _| {
            let (part, rest) = from.split_at(length.min(from.len()));
            self.buffer.offset(at).bytes_mut(part.len()).copy_from_slice(part);
            from = rest;
            !from.is_empty()
        });
    }

    /// Its bytes, to be sent.
    pub(crate) fn outgoing(&self) -> Bytes {
        match self.run() {
            Some(start) => Bytes { start, length: self.size(), own: None },
            None => {
                let bytes = Bytes::owned(self.size());
                self.pack(bytes.lend_mut());
                bytes
            }
        }
    }

    /// Memory for its bytes, to be received into; with what is there, if `filled`.
    pub(crate) fn incoming(self, filled: bool) -> Landing {
        let bytes = match self.run() {
            Some(start) => Bytes { start, length: self.size(), own: None },
            None => Bytes::owned(self.size()),
        };
        if filled && bytes.own.is_some() {
            self.pack(bytes.lend_mut());
        }
        // What comes straight to its place is not looked at again.
        let data = if bytes.is_owned() { vec![self] } else { Vec::new() };
        Landing { bytes, data }
    }
}

fn layout_of(datatype: Datatype) -> Result<Arc<Layout>> {
    datatype.read(|datatype| datatype.layout.clone())
}

/// Bytes of the caller's, or our own.
#[derive(Debug)]
pub(crate) struct Bytes {
    start: Buffer,
    length: usize,
    /// What `start` points to, if it is ours.
    own: Option<Box<[u8]>>,
}

impl Bytes {
    fn owned(length: usize) -> Self {
        let own = vec![0; length].into_boxed_slice();
        Self { start: Buffer::of(&own), length, own: Some(own) }
    }

    /// Whether they are ours, and have to be kept.
    pub(crate) fn is_owned(&self) -> bool {
        self.own.is_some()
    }

    /// A copy.
    pub(crate) fn copied(&self) -> Self {
        let copy = Self::owned(self.length);
        copy.lend_mut().copy_from_slice(self.lend());
        copy
    }

    /// The bytes, which are good while this lives.
    pub(crate) fn lend<'a>(&self) -> &'a [u8] {
        self.start.bytes(self.length)
    }

    /// The same, to be written.
    pub(crate) fn lend_mut<'a>(&self) -> &'a mut [u8] {
        self.start.bytes_mut(self.length)
    }
}

/// Where received bytes go first, and where they belong.
#[derive(Debug)]
pub(crate) struct Landing {
    pub(crate) bytes: Bytes,
    data: Vec<Data>,
}

impl Landing {
    /// Whether what is received would overwrite the beginning of what is sent.
    pub(crate) fn begins_with(&self, sent: &Bytes) -> bool {
        let lengths = [self.bytes.length, sent.length];
        self.bytes.start.address() == sent.start.address() && !lengths.contains(&0)
    }

    /// Puts the first bytes where they belong.
    pub(crate) fn finish(&self, mut length: usize) {
        if self.bytes.own.is_none() {
            return;
        }
        let mut from = self.bytes.lend();
        for data in &self.data {
            let size = data.size().min(length);
            data.unpack(&from[..size]);
            from = &from[size..];
            length -= size;
        }
    }

    /// The same for all bytes.
    pub(crate) fn finish_all(&self) {
        self.finish(self.bytes.length);
    }
}

/// Buffers of each rank, with different counts, displacements or datatypes.
#[derive(Clone, Debug)]
pub(crate) struct Parts(Vec<Data>);

impl Parts {
    /// Displacements in extents of one datatype.
    pub(crate) fn new(
        buffer: Buffer,
        counts: &[usize],
        displacements: &[i64],
        datatype: Datatype,
    ) -> Result<Self> {
        let layout = layout_of(datatype)?;
        let part = |(&count, &at): (&usize, &i64)| {
            let buffer = buffer.offset(at.wrapping_mul(layout.extent()));
            Data { buffer, count, layout: layout.clone() }.in_memory()
        };
        Ok(Self(counts.iter().zip(displacements).map(part).collect::<Result<_>>()?))
    }

    /// Displacements in bytes, and a datatype each.
    pub(crate) fn with_types(
        buffer: Buffer,
        counts: &[usize],
        displacements: &[i64],
        datatypes: &[Datatype],
    ) -> Result<Self> {
        let parts = counts.iter().zip(displacements).zip(datatypes);
        let part = |((&count, &at), datatype): ((&usize, &i64), &Datatype)| {
            // Nobody looks at the datatype of nothing.
            if count == 0 {
                return Ok(Data::none());
            }
            let layout = layout_of(*datatype)?;
            Data { buffer: buffer.offset(at), count, layout }.in_memory()
        };
        Ok(Self(parts.map(part).collect::<Result<_>>()?))
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// One memory that has all of them, and where each is in it; our own if a part has gaps.
    fn window(&self) -> (Bytes, Blocks) {
        let counts: Vec<usize> = self.0.iter().map(Data::size).collect();
        let runs: Option<Vec<usize>> =
            self.0.iter().map(|data| data.run().map(Buffer::address)).collect();
        let Some(runs) = runs else {
            return (Bytes::owned(counts.iter().sum()), Blocks::packed(&counts));
        };
        let filled = || runs.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let first = filled().map(|(start, _)| *start).min().unwrap_or_default();
        let end = filled().map(|(start, count)| start + count).max().unwrap_or_default();
        let base = self.0.iter().filter_map(Data::run).find(|run| run.address() == first);
        let start = base.unwrap_or(Buffer::of(&[]));
        let displacements = runs
            .iter()
            .zip(&counts)
            .map(|(run, count)| if *count > 0 { run - first } else { 0 })
            .collect();
        (Bytes { start, length: end - first, own: None }, Blocks { counts, displacements })
    }

    /// To be sent.
    pub(crate) fn outgoing(&self) -> (Bytes, Blocks) {
        let (bytes, blocks) = self.window();
        self.fill(&bytes, &blocks);
        (bytes, blocks)
    }

    /// To be received into; with what is there, if `filled`.
    pub(crate) fn incoming(self, filled: bool) -> (Landing, Blocks) {
        let (bytes, blocks) = self.window();
        if filled {
            self.fill(&bytes, &blocks);
        }
        (Landing { bytes, data: self.0 }, blocks)
    }

    fn fill(&self, bytes: &Bytes, blocks: &Blocks) {
        if bytes.own.is_none() {
            return;
        }
        let all = bytes.lend_mut();
        for ((data, &count), &at) in self.0.iter().zip(&blocks.counts).zip(&blocks.displacements) {
            data.pack(&mut all[at..at + count]);
        }
    }
}

/// An error, if a rank's buffer is `MPI_IN_PLACE` where that means nothing.
pub(crate) fn not_in_place(buffer: Buffer) -> Result<()> {
    if buffer.is_in_place() {
        return Err(error(MPI_ERR_BUFFER, "MPI_IN_PLACE means nothing here"));
    }
    Ok(())
}

/// A buffer for buffered sends that a program attached: a bound, because copies are in memory of our own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attachment {
    address: usize,
    size: usize,
}

impl Attachment {
    /// An error, if a message does not fit.
    pub(crate) fn check(self, length: usize) -> Result<()> {
        if self.address == BUFFER_AUTOMATIC || length <= self.size {
            return Ok(());
        }
        Err(error(
            MPI_ERR_BUFFER,
            format!("{length} bytes do not fit the attached buffer of {}", self.size),
        ))
    }
}

/// Where a program attaches a buffer (MPI 5.0, 3.6).
#[derive(Debug, Default)]
pub(crate) struct Buffered(Mutex<Option<Attachment>>);

impl Buffered {
    /// Nothing attached.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// What is attached.
    pub(crate) fn get(&self) -> Option<Attachment> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches one.
    pub(crate) fn attach(&self, buffer: Buffer, size: usize) -> Result<()> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return Err(error(MPI_ERR_BUFFER, "there is a buffer already: detach it first"));
        }
        *slot = Some(Attachment { address: buffer.address(), size });
        Ok(())
    }

    /// Detaches it. Nothing in it is in use.
    pub(crate) fn detach<C: Integer>(&self, address: Out<usize>, size: Out<C>) -> Result<()> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let taken = taken.unwrap_or(Attachment { address: 0, size: 0 });
        address.set(taken.address)?;
        let fits = i64::try_from(taken.size).ok().and_then(C::of);
        size.set(fits.ok_or_else(|| error(MPI_ERR_VALUE_TOO_LARGE, "use the form with _c"))?)
    }
}
