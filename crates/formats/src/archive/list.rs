//! What is in an archive, without unpacking it.

use std::io::{BufRead as _, BufReader, Read};

use super::entry::{ArchiveEntry, ArchiveReader, MemberKind};
use super::unpack::{WINDOW, ZSTD};
use super::{ArchiveError, LONGEST_PATH};

/// Where the magic of a tar archive stands in its first block (POSIX.1-2001, ustar).
const MAGIC: (usize, &[u8]) = (257, b"ustar");

/// The first members of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In the archive's order.
    pub members: Vec<ListedMember>,
    /// There are no others.
    pub complete: bool,
}

/// A member as it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its path; what is not UTF-8 is replaced. A directory's ends with a slash.
    pub path: String,
    /// Bytes of a file; of what is none, nothing.
    pub size: Option<u64>,
}

/// Whether a file that begins so may be an archive that [`list`] reads: a tar archive, or something compressed by zstd.
pub fn is_archive(head: &[u8]) -> bool {
    let (at, magic) = MAGIC;
    head.starts_with(&ZSTD) || head.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// Lists at most so many members, reading at most `budget` bytes of the archive, uncompressed.
///
/// # Errors
/// If it begins as no archive does.
pub fn list(archive: impl Read, most: usize, budget: u64) -> Result<Listing, ArchiveError> {
    let mut archive = BufReader::new(archive);
    if !archive.fill_buf()?.starts_with(&ZSTD) {
        return listed(archive.take(budget), most);
    }
    let mut plain = zstd::Decoder::with_buffer(archive)?;
    plain.window_log_max(WINDOW)?;
    listed(plain.take(budget), most)
}

fn listed(archive: impl Read, most: usize) -> Result<Listing, ArchiveError> {
    let mut reader = ArchiveReader::new(archive);
    let mut listing = Listing::default();
    loop {
        match reader.next() {
            Ok(Some(entry)) if listing.members.len() < most => listing.members.push(told(&entry)),
            Ok(Some(_)) => return Ok(listing),
            Ok(None) => {
                listing.complete = true;
                return Ok(listing);
            }
            // Cut off by the budget, or damaged: what was read is told.
            Err(_) if !listing.members.is_empty() => return Ok(listing),
            Err(error) => return Err(error),
        }
    }
}

fn told(entry: &ArchiveEntry) -> ListedMember {
    let path = &entry.path[..entry.path.len().min(LONGEST_PATH)];
    let mut path = String::from_utf8_lossy(path).into_owned();
    let is_directory = matches!(entry.kind, MemberKind::Directory);
    if is_directory && !path.ends_with('/') {
        path.push('/');
    }
    let size = matches!(entry.kind, MemberKind::File).then_some(entry.size);
    ListedMember { path, size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in [("a.txt", &[b'a'; 3][..]), ("big.bin", &[0; 5000]), ("z", b"zz")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append_data(&mut header, path, bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn names(listing: &Listing) -> Vec<(&str, Option<u64>)> {
        listing.members.iter().map(|member| (member.path.as_str(), member.size)).collect()
    }

    #[test]
    fn members_are_listed_as_far_as_is_wanted() {
        let tar = archive();
        assert!(is_archive(&tar) && !is_archive(&tar[..200]) && !is_archive(b"text"));
        let all = [("a.txt", Some(3)), ("big.bin", Some(5000)), ("z", Some(2))];
        for packed in [tar.clone(), zstd::encode_all(&tar[..], 1).unwrap()] {
            let whole = list(&packed[..], 10, 1 << 20).unwrap();
            assert_eq!((names(&whole), whole.complete), (all.to_vec(), true));
            let some = list(&packed[..], 2, 1 << 20).unwrap();
            assert_eq!((names(&some), some.complete), (all[..2].to_vec(), false));
            let cut = list(&packed[..], 10, 3000).unwrap();
            assert_eq!((names(&cut), cut.complete), (all[..2].to_vec(), false));
        }
        assert!(list(&b"no archive at all"[..], 10, 1 << 20).is_err());
    }
}
