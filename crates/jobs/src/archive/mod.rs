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
