//! The bytes of a payload, wherever they are.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use fishplate_contract::Payload;

/// What is read of a file at once: a multiple of every element's size.
pub(super) const CHUNK: usize = 256 << 10;

/// Bytes that can be read in pieces and anywhere.
pub(super) enum ByteSource<'p> {
    Pieces(&'p [Bytes]),
    File(File),
}

impl<'p> ByteSource<'p> {
    pub(super) fn open(payload: &'p Payload) -> io::Result<Self> {
        if let Some(pieces) = payload.pieces() {
            return Ok(Self::Pieces(pieces));
        }
        match payload {
            Payload::Spooled(held) => Ok(Self::File(File::open(held.path())?)),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Hands on all bytes, always whole elements.
    pub(super) fn each(
        &mut self,
        element: usize,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Pieces(pieces) => each_of_pieces(pieces, element, take),
            Self::File(file) => each_of_file(file, take),
        }
    }

    /// Fills `to` with the bytes from an offset.
    pub(super) fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        let pieces = match self {
            Self::File(file) => return file.read_exact_at(to, offset),
            Self::Pieces(pieces) => pieces,
        };
        let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut filled = 0;
        for piece in *pieces {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let length = (piece.len() - skip).min(to.len() - filled);
            to[filled..filled + length].copy_from_slice(&piece[skip..skip + length]);
            filled += length;
            skip = 0;
            if filled == to.len() {
                return Ok(());
            }
        }
        if filled == to.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

fn each_of_pieces(
    pieces: &[Bytes],
    element: usize,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // An element may be cut by the ends of pieces.
    let mut carry: Vec<u8> = Vec::with_capacity(element);
    for piece in pieces {
        let mut rest = &piece[..];
        if !carry.is_empty() {
            let (head, tail) = rest.split_at(rest.len().min(element - carry.len()));
            carry.extend_from_slice(head);
            rest = tail;
            if carry.len() == element {
                take(&carry)?;
                carry.clear();
            }
        }
        let (whole, cut) = rest.split_at(rest.len() - rest.len() % element);
        take(whole)?;
        carry.extend_from_slice(cut);
    }
    if carry.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn each_of_file(file: &File, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = fill(file, &mut chunk)?;
        take(&chunk[..read])?;
        if read < CHUNK {
            return Ok(());
        }
    }
}

/// Reads until `to` is full or the file ends.
pub(super) fn fill(mut file: &File, to: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < to.len() {
        match file.read(&mut to[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
