//! One member of an archive after the other: its name, what it is, and its bytes.
//!
//! Headers are read by the crate `tar`; what comes in front of them (pax records, GNU's long names)
//! is read here, because it is memory that the sender chooses.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::{ArchiveError, LONGEST_PATH};

/// Bytes of a header, and what everything is rounded up to.
const BLOCK: usize = 512;

/// Bytes of what may stand in front of one header.
const LONGEST_EXTENSION: u64 = 1 << 20;

/// How many things may stand in front of one header: two long names, a pax record, some defaults.
const MOST_EXTENSIONS: usize = 8;

/// Reads an archive's members.
#[derive(Debug)]
pub struct ArchiveReader<R> {
    source: R,
    /// Bytes of the current member that were not read, and those that fill its last block.
    left: u64,
    padding: u64,
    path: Vec<u8>,
    /// What stands in front of the current member: how many, and bytes of it.
    extensions: (usize, u64),
}

/// A member; its bytes are to be read from its reader before the next is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArchiveEntry {
    /// As it is written, directories perhaps with a slash at the end.
    pub(super) path: Vec<u8>,
    pub(super) kind: MemberKind,
    /// Permissions: no more than the nine bits.
    pub(super) mode: u32,
    /// Seconds since 1970.
    pub(super) modified: i64,
    /// Bytes that follow.
    pub(super) size: u64,
    /// Bytes that stood in front of it: pax records and long names.
    pub(super) before: u64,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberKind {
    File,
    Directory,
    /// To this target, relative to the link.
    Symlink(Vec<u8>),
    /// Another name of this member.
    Hardlink(Vec<u8>),
}

/// What stands in front of a header and says more than fits there.
#[derive(Debug, Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<i64>,
}

impl<R: Read> ArchiveReader<R> {
    /// A reader of the archive that this gives.
    pub fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0, path: Vec::new(), extensions: (0, 0) }
    }

    /// Reads all of it and keeps nothing; tells how many members and bytes there were.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn skim(mut self) -> Result<(u64, u64), ArchiveError> {
        let (mut entries, mut bytes) = (0, 0_u64);
        while let Some(entry) = self.next()? {
            entries += 1;
            bytes = bytes.saturating_add(entry.size);
        }
        Ok((entries, bytes))
    }

    /// The next member; `None` at the archive's end. What was not read of the last is passed over.
    pub(super) fn next(&mut self) -> Result<Option<ArchiveEntry>, ArchiveError> {
        let mut extension = Extension::default();
        self.extensions = (0, 0);
        loop {
            self.pass_over()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let size = header.entry_size().map_err(|_| malformed("a size in it is no number"))?;
            match header.entry_type() {
                EntryType::XHeader => self.pax(size, &mut extension)?,
                EntryType::XGlobalHeader => {
                    // Defaults for all that follows (a comment, as a rule): none that we need.
                    self.extension(size)?;
                }
                EntryType::GNULongName => extension.path = Some(self.long_name(size)?),
                EntryType::GNULongLink => extension.link = Some(self.long_name(size)?),
                _ => return self.member(&header, size, extension).map(Some),
            }
        }
    }

    fn member(
        &mut self,
        header: &Header,
        size: u64,
        extension: Extension,
    ) -> Result<ArchiveEntry, ArchiveError> {
        let path = extension.path.unwrap_or_else(|| header.path_bytes().into_owned());
        if path.len() > LONGEST_PATH {
            return Err(ArchiveError::path(&path, "has a path"));
        }
        self.path.clone_from(&path);
        let link = extension.link.or_else(|| Some(header.link_name_bytes()?.into_owned()));
        let target = || link.ok_or_else(|| ArchiveError::entry(&path, "is a link to nothing"));
        // Old archives have no type for directories but a slash.
        let slash = path.last() == Some(&b'/');
        let kind = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous if slash => MemberKind::Directory,
            EntryType::Regular | EntryType::Continuous => MemberKind::File,
            EntryType::Directory => MemberKind::Directory,
            EntryType::Symlink => MemberKind::Symlink(target()?),
            EntryType::Link => MemberKind::Hardlink(target()?),
            other => return Err(ArchiveError::entry(&path, refused(other))),
        };
        // A link has no bytes of its own, whatever its size says (pax allows a hard link to).
        let size = match kind {
            MemberKind::File | MemberKind::Hardlink(_) => extension.size.unwrap_or(size),
            MemberKind::Directory | MemberKind::Symlink(_) => 0,
        };
        self.expect(size);
        let mode = header.mode().unwrap_or(0o644) & 0o777;
        let modified = extension.modified.unwrap_or_else(|| {
            header.mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0)
        });
        Ok(ArchiveEntry { path, kind, mode, modified, size, before: self.extensions.1 })
    }

    /// A header, or `None` for the block of zeros at the end.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.source.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(source(error)),
            }
        }
        if filled < BLOCK {
            return Err(self.cut());
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let told = header.cksum().map_err(|_| malformed("it is no tar archive"))?;
        if told != checksum(&block) {
            return Err(malformed("it is no tar archive, or is damaged: a checksum is wrong"));
        }
        Ok(Some(header))
    }

    fn expect(&mut self, size: u64) {
        self.left = size;
        let over = size % BLOCK as u64;
        self.padding = if over == 0 { 0 } else { BLOCK as u64 - over };
    }

    fn pass_over(&mut self) -> Result<(), ArchiveError> {
        let rest = self.left.checked_add(self.padding).ok_or_else(|| self.cut())?;
        let passed = io::copy(&mut (&mut self.source).take(rest), &mut io::sink());
        (self.left, self.padding) = (0, 0);
        if passed.map_err(source)? < rest { Err(self.cut()) } else { Ok(()) }
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let (count, bytes) = &mut self.extensions;
        *count += 1;
        *bytes = bytes.saturating_add(size);
        if *bytes > LONGEST_EXTENSION {
            return Err(malformed("what stands in front of an entry is longer than 1 MiB"));
        }
        if *count > MOST_EXTENSIONS {
            return Err(malformed("more than 8 records stand in front of an entry"));
        }
        self.expect(size);
        let mut bytes = Vec::new();
        let read = self.take_all().read_to_end(&mut bytes);
        read.map_err(source)?;
        if (bytes.len() as u64) < size { Err(self.cut()) } else { Ok(bytes) }
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.extension(size)?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        name.truncate(end);
        Ok(name)
    }

    /// Records `LENGTH KEY=VALUE\n`.
    fn pax(&mut self, size: u64, extension: &mut Extension) -> Result<(), ArchiveError> {
        let bytes = self.extension(size)?;
        let broken = || malformed("a pax record in it can't be read");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
            let length: usize = number(&rest[..space]).ok_or_else(broken)?;
            let record = rest.get(space + 1..length).ok_or_else(broken)?;
            let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(broken)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => extension.path = Some(value.to_vec()),
                b"linkpath" => extension.link = Some(value.to_vec()),
                b"size" => extension.size = Some(number(value).ok_or_else(broken)?),
                b"mtime" => {
                    let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
                    extension.modified = number(whole);
                }
                sparse if sparse.starts_with(b"GNU.sparse.") => {
                    return Err(malformed("it holds sparse files: pack without --sparse"));
                }
                _ => {}
            }
            rest = &rest[length..];
        }
        Ok(())
    }

    /// The bytes of the current member.
    pub(super) fn take_all(&mut self) -> impl Read {
        Member(self)
    }

    /// An archive that ends before its end.
    pub(super) fn cut(&self) -> ArchiveError {
        let after = String::from_utf8_lossy(&self.path);
        let after = fishplate_contract::lexical::shortened(&after).to_string();
        malformed(&match after.as_str() {
            "" => "it is no tar archive, or is cut short".to_owned(),
            after => format!("it is cut short, after {after:?}"),
        })
    }
}

struct Member<'r, R>(&'r mut ArchiveReader<R>);

impl<R: Read> Read for Member<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.0.left).unwrap_or(usize::MAX).min(to.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.0.source.read(&mut to[..most])?;
        self.0.left -= read as u64;
        Ok(read)
    }
}

fn checksum(block: &[u8; BLOCK]) -> u32 {
    let field = 148..156;
    let byte = |(at, byte): (usize, &u8)| u32::from(if field.contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(byte).sum()
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn malformed(what: &str) -> ArchiveError {
    ArchiveError::Malformed(what.to_owned())
}

/// What reading the archive failed with: the compression tells damage as an error of reading.
fn source(error: io::Error) -> ArchiveError {
    match error.raw_os_error() {
        Some(_) => ArchiveError::Io(error),
        None => malformed(&format!("it can't be read: {error}")),
    }
}

fn refused(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Char | EntryType::Block => "is a device; files, directories and links are taken",
        EntryType::Fifo => "is a FIFO; files, directories and links are taken",
        EntryType::GNUSparse => "is a sparse file; pack without --sparse",
        _ => "is of a type that is not known; files, directories and links are taken",
    }
}
