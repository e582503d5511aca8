//! Digests of what passes by, and of files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fishplate_contract::Digest;
use ring::digest::{Context, SHA256, SHA512};

/// Bytes of a file that are read at once.
const CHUNK: usize = 256 << 10;

/// The digests of bytes that pass by: SHA-256 always, SHA-512 if something told it.
#[derive(Clone)]
pub(crate) struct DigestPair {
    sha256: Context,
    sha512: Option<Context>,
}

impl DigestPair {
    /// Nothing has passed yet. With what was told, so that it can be verified.
    pub(crate) fn new(told: Option<&Digest>) -> Self {
        let sha512 = matches!(told, Some(Digest::Sha512(_))).then(|| Context::new(&SHA512));
        Self { sha256: Context::new(&SHA256), sha512 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
    }

    /// The SHA-256, and the SHA-512 if it was to be told.
    pub(crate) fn finish(self) -> (Digest, Option<Digest>) {
        let sha256 = fixed(self.sha256).map(Digest::Sha256);
        let sha512 = self.sha512.and_then(fixed).map(Digest::Sha512);
        (sha256.unwrap_or(Digest::Sha256([0; 32])), sha512)
    }
}

fn fixed<const N: usize>(context: Context) -> Option<[u8; N]> {
    context.finish().as_ref().try_into().ok()
}

/// Digests a file as fast as it can be read; `None` if it was told to stop.
pub(crate) fn of_file(path: &Path, stop: &AtomicBool) -> io::Result<Option<Digest>> {
    let mut digesting = DigestPair::new(None);
    let whole = pass(&mut File::open(path)?, u64::MAX, &mut digesting, stop)?.is_some();
    Ok(whole.then(|| digesting.finish().0))
}

/// Lets so many bytes of a file pass; how many there were, or `None` if it was told to stop.
pub(crate) fn pass(
    file: &mut File,
    most: u64,
    digesting: &mut DigestPair,
    stop: &AtomicBool,
) -> io::Result<Option<u64>> {
    let mut chunk = vec![0; CHUNK];
    let (mut file, mut passed) = (file.take(most), 0);
    loop {
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(Some(passed)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digesting.update(&chunk[..read]);
        passed += read as u64;
    }
}

/// Tells a thread to stop when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct StopOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_digest_of_its_bytes_unless_one_is_told_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"abc").unwrap();
        let stop = AtomicBool::new(false);
        // FIPS 180-4, the example of one block.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_file(&path, &stop).unwrap().unwrap().hex(), expected);
        let told = Digest::Sha512([0; 64]);
        let mut both = DigestPair::new(Some(&told));
        both.update(b"abc");
        let (sha256, sha512) = both.finish();
        assert_eq!(sha256.hex(), expected);
        assert!(sha512.unwrap().hex().starts_with("ddaf35a193617abacc417349ae204131"));
        stop.store(true, Relaxed);
        assert_eq!(of_file(&path, &stop).unwrap(), None);
    }
}
