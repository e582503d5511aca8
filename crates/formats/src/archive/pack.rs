//! A directory to an archive: the same directory gives the same bytes.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use super::ArchiveError;
use super::unpack::stays_inside;

/// The largest size that a header holds in digits.
const LARGEST_IN_HEADER: u64 = 0o77_777_777_777;

/// Bytes that are collected before they are written.
const CHUNK: usize = 256 << 10;

/// Packs what is in an open directory, in the order of the names, as a pax archive. What is neither file
/// nor directory nor link (a socket that a program left) holds no data and is left out. `room` is
/// asked from time to time whether there is any.
///
/// # Errors
/// A link that leads out of the directory, a name that is not UTF-8, or what the disk said.
pub fn pack(
    directory: &File,
    to: &File,
    room: &mut dyn FnMut() -> bool,
) -> Result<(), ArchiveError> {
    let root = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let mut packer = Packer { to: BufWriter::with_capacity(CHUNK, to), room };
    packer.directory(&root, "", 0)?;
    packer.to.write_all(&[0; 1024])?;
    packer.to.flush()?;
    Ok(())
}

struct Packer<'p> {
    to: BufWriter<&'p File>,
    room: &'p mut dyn FnMut() -> bool,
}

impl Packer<'_> {
    fn directory(&mut self, at: &Path, path: &str, depth: usize) -> Result<(), ArchiveError> {
        let names: io::Result<Vec<OsString>> =
            fs::read_dir(at)?.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names?;
        names.sort_unstable();
        for name in names {
            let shown = if path.is_empty() { String::new() } else { format!("{path}/") };
            let Some(text) = name.to_str() else {
                let whole = [shown.as_bytes(), name.as_bytes()].concat();
                return Err(ArchiveError::entry(&whole, "has a name that is not UTF-8"));
            };
            let (inner, shown) = (at.join(&name), format!("{shown}{text}"));
            let metadata = fs::symlink_metadata(&inner)?;
            let kind = metadata.file_type();
            if kind.is_dir() {
                let mut header = header(EntryType::Directory, &metadata);
                self.entry(&mut header, &format!("{shown}/"), None, 0)?;
                self.directory(&inner, &shown, depth + 1)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&inner)?;
                let target = target.as_os_str().as_bytes();
                if !stays_inside(target, depth) {
                    let rule = "is a link that leads out of the directory, or might";
                    return Err(ArchiveError::entry(shown.as_bytes(), rule));
                }
                let mut header = header(EntryType::Symlink, &metadata);
                self.entry(&mut header, &shown, Some(target), 0)?;
            } else if kind.is_file() {
                self.file(&inner, &shown, &metadata)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, at: &Path, path: &str, metadata: &Metadata) -> Result<(), ArchiveError> {
        if !(self.room)() {
            return Err(ArchiveError::Full);
        }
        let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(at)?;
        let size = metadata.len();
        self.entry(&mut header(EntryType::Regular, metadata), path, None, size)?;
        let mut left = size;
        while left > 0 {
            // In pieces, so that the disk is looked at; each by the kernel, where it can.
            let piece = left.min(64 << 20);
            self.to.flush()?;
            let copied = io::copy(&mut (&file).take(piece), self.to.get_mut())?;
            if copied == 0 {
                let rule = "became shorter while it was packed";
                return Err(ArchiveError::entry(path.as_bytes(), rule));
            }
            left -= copied;
            if left > 0 && !(self.room)() {
                return Err(ArchiveError::Full);
            }
        }
        self.fill(size)
    }

    fn entry(
        &mut self,
        header: &mut Header,
        path: &str,
        link: Option<&[u8]>,
        size: u64,
    ) -> Result<(), ArchiveError> {
        let mut records = Vec::new();
        if header.set_path(path).is_err() || !path.is_ascii() {
            record(&mut records, "path", path.as_bytes());
            set_name(header, path);
        }
        if let Some(link) = link {
            let short = std::str::from_utf8(link).is_ok_and(str::is_ascii) && link.len() < 100;
            if short {
                header.set_link_name_literal(link)?;
            } else {
                record(&mut records, "linkpath", link);
            }
        }
        if size > LARGEST_IN_HEADER {
            record(&mut records, "size", size.to_string().as_bytes());
            header.set_size(0);
        } else {
            header.set_size(size);
        }
        header.set_cksum();
        if !records.is_empty() {
            let mut front = Header::new_ustar();
            front.set_entry_type(EntryType::XHeader);
            front.set_size(records.len() as u64);
            front.set_mode(0o600);
            set_name(&mut front, "PaxHeaders");
            front.set_cksum();
            self.to.write_all(front.as_bytes())?;
            self.to.write_all(&records)?;
            self.fill(records.len() as u64)?;
        }
        self.to.write_all(header.as_bytes())?;
        Ok(())
    }

    /// Zeros to the end of the block.
    fn fill(&mut self, size: u64) -> Result<(), ArchiveError> {
        let over = usize::try_from(size % 512).unwrap_or(0);
        if over > 0 {
            self.to.write_all(&[0; 512][over..])?;
        }
        Ok(())
    }
}

fn header(kind: EntryType, metadata: &Metadata) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(metadata.mode() & 0o777);
    // Before 1970 is told as 1970.
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0).min(LARGEST_IN_HEADER));
    header
}

/// A name for those who don't read pax records: what fits of it.
fn set_name(header: &mut Header, path: &str) {
    let plain = |byte: u8| if byte.is_ascii_graphic() { byte } else { b'_' };
    if let Some(ustar) = header.as_ustar_mut() {
        ustar.name.fill(0);
        ustar.prefix.fill(0);
        for (to, byte) in ustar.name.iter_mut().zip(path.bytes()) {
            *to = plain(byte);
        }
    }
}

/// A pax record, which begins with its own length.
fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + digits(length) {
        length = rest + digits(length);
    }
    to.extend_from_slice(format!("{length} {key}=").as_bytes());
    to.extend_from_slice(value);
    to.push(b'\n');
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}
