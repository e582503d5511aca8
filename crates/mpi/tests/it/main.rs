//! The library as programs have it: its symbols, and C programs that are compiled against the standard's header and started
//! with `fishplate run`. mpi4py's own tests: `make mpi4py`.

#[path = "../../../../tests/guide.rs"]
mod guide;
mod guides;
mod moldyn;
mod mpi4py;
mod programs;
mod symbols;

#[path = "../../../../tests/skipped.rs"]
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where cargo puts the library and the launcher, which are built on the way.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "fishplate-mpi", "--package", "fishplate"]);
        assert!(build.status().unwrap().success(), "cargo build");
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug")
    })
}

/// The header that programs are compiled against.
fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/mpi.h")
}
