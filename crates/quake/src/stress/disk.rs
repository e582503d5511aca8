//! A file system that is full, or busy. The files have no name: with the process they are gone.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::thread;

use fishplate_formats::disk::{FreeSpace, is_full};
use fishplate_formats::units;

/// A busy file is written in pieces of this size, and begun again after so many.
const PIECE: usize = 1 << 20;
const PIECES: usize = 32;

/// The least that is written to fill a file system: a block.
const BLOCK: usize = 4096;

/// Fills the file system of a directory until so much is left, and keeps it so.
pub(super) fn fill(
    directory: &Path,
    free: &str,
    tell: impl Fn(Option<String>) + Send + 'static,
) -> io::Result<()> {
    let free = if free.trim().is_empty() { 0 } else { super::size(free)? };
    let mut file = tempfile::tempfile_in(directory)?;
    let take = move || {
        let error = take(&mut file, free).err()?;
        let left = FreeSpace::of(&file).map_or(0, |free| free.bytes);
        Some(format!("{} are left: {error}", units::rounded(left)))
    };
    super::take_again(take, tell)
}

fn take(file: &mut File, free: u64) -> io::Result<()> {
    let mut piece = vec![0x55; PIECE];
    loop {
        let left = FreeSpace::of(&*file)?.bytes;
        if left <= free && free > 0 {
            return Ok(());
        }
        let room = usize::try_from(left - free).unwrap_or(PIECE);
        // With nothing to be left, what the kernel still gives is taken too.
        let length = if free == 0 { piece.len() } else { room.min(piece.len()) };
        match file.write(&piece[..length]) {
            Ok(_) => {}
            Err(error) if is_full(&error) && piece.len() > BLOCK => piece.truncate(piece.len() / 2),
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Starts so many threads that write and sync. They end with the process.
pub(super) fn slow(directory: &Path, count: u32) -> io::Result<Option<String>> {
    for had in 0..count as usize {
        let mut file = tempfile::tempfile_in(directory)?;
        let writing = thread::Builder::new().spawn(move || {
            let piece = vec![0xAA; PIECE];
            loop {
                // What can't be written keeps the disk as busy.
                let _ = file.rewind();
                for _ in 0..PIECES {
                    let _ = file.write_all(&piece).and_then(|()| file.sync_data());
                }
            }
        });
        if let Err(error) = writing {
            return Ok(Some(super::short_of(had, count, "writers", &error)));
        }
    }
    Ok(None)
}
