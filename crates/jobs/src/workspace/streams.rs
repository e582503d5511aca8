//! What a program says while it runs: its log from an offset, and its progress.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use regex::bytes::Regex;

use super::{beneath, stream_path, work};
use fishplate_programs::plan::Plan;

/// One of a program's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Most bytes that one [`read_log`] gives.
pub const MOST_LOG_READ: usize = 1 << 20;

/// How much of a stream's end is searched for progress.
const PROGRESS_WINDOW: u64 = 64 << 10;

/// What a stream holds from `offset` on, at most `max` bytes, and the offset after it. A stream
/// that is not there yet is empty.
///
/// # Errors
/// The log can't be read.
pub fn read_log(
    plan: &Plan,
    directory: &Path,
    stream: OutputStream,
    offset: u64,
    max: usize,
) -> io::Result<(Vec<u8>, u64)> {
    let mut bytes = Vec::new();
    let mut file = match open_stream(plan, directory, stream) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((bytes, offset)),
        Err(error) => return Err(error),
    };
    // No file system takes every offset: beyond the end there is nothing to read, wherever it is.
    if offset >= file.metadata()?.len() {
        return Ok((bytes, offset));
    }
    file.seek(SeekFrom::Start(offset))?;
    file.take(max.min(MOST_LOG_READ) as u64).read_to_end(&mut bytes)?;
    let next = offset + bytes.len() as u64;
    Ok((bytes, next))
}

/// How many bytes a stream holds by now.
///
/// # Errors
/// The log can't be read.
pub fn log_length(plan: &Plan, directory: &Path, stream: OutputStream) -> io::Result<u64> {
    match open_stream(plan, directory, stream).and_then(|file| file.metadata()) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// The share done, 0 to 1: the last match of the plan's progress pattern near the end of its
/// stream. `None` if the plan has none, or nothing matches (yet).
pub fn progress(plan: &Plan, directory: &Path) -> Option<f64> {
    let rule = plan.progress.as_ref()?;
    let mut file = match rule.stream.as_str() {
        "stdout" => open_stream(plan, directory, OutputStream::Stdout),
        "stderr" => open_stream(plan, directory, OutputStream::Stderr),
        file => beneath::open_regular(&work(directory), file),
    }
    .ok()?;
    let tail = tail(&mut file, PROGRESS_WINDOW).ok()?;
    let pattern = Regex::new(&rule.pattern).ok()?;
    let last = pattern.captures_iter(&tail).last()?;
    let number = |group: usize| {
        std::str::from_utf8(last.get(group)?.as_bytes()).ok()?.trim().parse::<f64>().ok()
    };
    let share = match pattern.captures_len() {
        0 | 1 => return None,
        2 => number(1)? / 100.0,
        _ => number(1)? / number(2)?,
    };
    share.is_finite().then(|| share.clamp(0.0, 1.0))
}

/// Opens a stream of the program for reading.
pub(super) fn open_stream(plan: &Plan, directory: &Path, stream: OutputStream) -> io::Result<File> {
    let redirected = match stream {
        OutputStream::Stdout => &plan.stdout,
        OutputStream::Stderr => &plan.stderr,
    };
    match redirected {
        Some(file) => beneath::open_regular(&work(directory), file),
        None => File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(stream_path(plan, directory, stream)),
    }
}

/// The last bytes of a file, at most `most`.
pub(super) fn tail(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
