//! Directories as one payload: tar archives.

/// What a directory that a caller sends may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and directories in it.
    pub entries: u64,
    /// Bytes of all its files together.
    pub size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1_000_000, size: 1 << 40 }
    }
}

/// Unpacks an archive into a directory that is not there yet.
///
/// # Errors
/// What is wrong with the archive.
pub fn unpack_file(
    _archive: &std::path::Path,
    _to: &std::path::Path,
    _parameter: &str,
    _limits: &Limits,
) -> Result<(), fishplate_contract::Fault> {
    let what = "directories are not unpacked yet; send files";
    Err(fishplate_contract::Fault::new(fishplate_contract::FaultCode::NotSupported, what))
}
