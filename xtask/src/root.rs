//! Where the workspace is.

use std::path::{Path, PathBuf};

/// The workspace's root: the directory above this crate.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
