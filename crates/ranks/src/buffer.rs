//! Memory of callers that a request uses: the one place with `unsafe` between the API and the socket.
//!
//! A buffer is a pointer that its maker promises to keep good until its request is complete or released.
//! What is built on it is safe: blocking calls wait, and [`crate::request::Scope`] waits for what was started in it.

#![expect(unsafe_code, reason = "a non-blocking operation outlives the call that lends it memory")]

/// Memory that is sent.
#[derive(Clone, Copy, Debug)]
pub struct SendBuffer {
    start: *const u8,
    length: usize,
}

/// Memory that is received into.
#[derive(Debug)]
pub struct ReceiveBuffer {
    start: *mut u8,
    length: usize,
}

// SAFETY: it is a shared borrow of bytes in all but its lifetime, which `from_raw` obliges its caller to keep.
unsafe impl Send for SendBuffer {}
// SAFETY: it is an exclusive borrow of bytes in all but its lifetime, and not Clone.
unsafe impl Send for ReceiveBuffer {}

impl SendBuffer {
    /// The bytes from `start`.
    ///
    /// # Safety
    ///
    /// They must be readable, and nobody may write them, until the request that uses them is complete or released.
    /// `start` may be anything if `length` is 0.
    pub unsafe fn from_raw(start: *const u8, length: usize) -> Self {
        Self { start, length }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `from_raw`'s caller keeps them readable and unchanged while a request has this buffer.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// Some of them.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "a part within the buffer");
        Self { start: self.start.wrapping_add(range.start), length: range.len() }
    }
}

impl ReceiveBuffer {
    /// The bytes from `start`.
    ///
    /// # Safety
    ///
    /// They must be writable and initialised, and nobody else may read or write them, until the request that uses them is complete or
    /// released. `start` may be anything if `length` is 0.
    pub unsafe fn from_raw(start: *mut u8, length: usize) -> Self {
        Self { start, length }
    }

    /// The same memory for another request, when this one's is over: `from_raw`'s caller has promised it for both.
    pub(crate) fn again(&self) -> Self {
        Self { start: self.start, length: self.length }
    }

    /// Some of it, for a part of a message. Parts are filled one after another, so none is written while another is.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "a part within the buffer");
        Self { start: self.start.wrapping_add(range.start), length: range.len() }
    }

    /// How many bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Its beginning.
    pub(crate) fn first(self, length: usize) -> Self {
        assert!(length <= self.length, "a part within the buffer");
        Self { start: self.start, length }
    }

    /// Its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: `from_raw`'s caller keeps them writable and to us alone while a request has this buffer.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

/// Memory of a collective operation: the caller's, or its own, of which steps use parts.
#[derive(Debug)]
pub(crate) enum Memory {
    /// The caller's send buffer.
    Send(SendBuffer),
    /// The caller's receive buffer.
    Receive(ReceiveBuffer),
    /// Of the operation's own.
    Scratch(Box<[u8]>),
}

impl Memory {
    fn length(&self) -> usize {
        match self {
            Self::Send(buffer) => buffer.length,
            Self::Receive(buffer) => buffer.length,
            Self::Scratch(bytes) => bytes.len(),
        }
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Send(buffer) => buffer.start.cast_mut(),
            Self::Receive(buffer) => buffer.start,
            Self::Scratch(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// The same buffer of the caller's, or scratch of its own, for a schedule that runs when this one does not.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Send(buffer) => Self::Send(*buffer),
            Self::Receive(buffer) => Self::Receive(buffer.again()),
            Self::Scratch(bytes) => Self::Scratch(vec![0; bytes.len()].into()),
        }
    }

    fn writable(&self) -> bool {
        !matches!(self, Self::Send(_))
    }

    /// A part, to be sent. The schedule that owns this memory outlives the request, and no step between the send and
    /// its wait writes the part.
    pub(crate) fn send(&mut self, range: std::ops::Range<usize>) -> SendBuffer {
        assert!(range.start <= range.end && range.end <= self.length(), "a part within the memory");
        SendBuffer { start: self.start().wrapping_add(range.start), length: range.len() }
    }

    /// A part, to be received into. The schedule that owns this memory outlives the request, and no step between the receive and
    /// its wait uses the part.
    pub(crate) fn receive(&mut self, range: std::ops::Range<usize>) -> ReceiveBuffer {
        assert!(self.writable(), "nothing is received into a send buffer");
        assert!(range.start <= range.end && range.end <= self.length(), "a part within the memory");
        ReceiveBuffer { start: self.start().wrapping_add(range.start), length: range.len() }
    }
}

/// A part of one of several memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) memory: usize,
    pub(crate) range: std::ops::Range<usize>,
}

impl Span {
    /// A part of it.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.range.len(),
            "a part within the span"
        );
        Self {
            memory: self.memory,
            range: self.range.start + range.start..self.range.start + range.end,
        }
    }

    /// How many bytes it is.
    pub(crate) fn length(&self) -> usize {
        self.range.len()
    }
}

/// Does something with two parts of equal length that don't overlap, of which the second is written.
pub(crate) fn combine(
    memory: &mut [Memory],
    from: &Span,
    to: &Span,
    act: impl FnOnce(&[u8], &mut [u8]),
) {
    assert_eq!(from.length(), to.length(), "parts of equal length");
    if from.length() == 0 {
        return;
    }
    let apart = from.range.end <= to.range.start || to.range.end <= from.range.start;
    assert!(from.memory != to.memory || apart, "parts that don't overlap");
    let source = memory[from.memory].send(from.range.clone());
    let mut target = memory[to.memory].receive(to.range.clone());
    // The parts are disjoint: by the assertion within one memory, and two memories are two buffers of the caller's, one of
    // them borrowed exclusively, or of our own.
    act(source.bytes(), target.bytes());
}
