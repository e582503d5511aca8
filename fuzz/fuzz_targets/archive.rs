//! Archives: however they are read they are the same, and whatever they are, nothing appears but in
//! the directory that they are unpacked into.

#![no_main]

use std::io::Read;
use std::path::PathBuf;
use std::{fs, process};

use fishplate_formats::archive::{ArchiveLimits, ArchiveReader, unpack};

/// Gives a few bytes at a time.
struct Few<'d>(&'d [u8], usize);

impl Read for Few<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let most = to.len().min(self.1);
        self.0.read(&mut to[..most])
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let told = |error| format!("{error}");
    let whole = ArchiveReader::new(data).skim().map_err(told);
    assert_eq!(ArchiveReader::new(Few(data, 7)).skim().map_err(told), whole);
    let around: PathBuf = std::env::temp_dir().join(format!("fishplate-fuzz-{}", process::id()));
    fs::create_dir_all(&around).unwrap();
    let limits = ArchiveLimits { entries: 100, size: 1 << 16, reserve: 0 };
    let to = around.join("to");
    let unpacked = unpack(data, data.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), &to, &limits);
    let there: Vec<_> = fs::read_dir(&around).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(there.len(), usize::from(unpacked.is_ok()), "{there:?}");
    fs::remove_dir_all(&around).unwrap();
});
