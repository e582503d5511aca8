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

/// Where cargo puts the library and the launcher. In `make test` they are there; for `--package fishplate-mpi` alone they are
/// built here, with the features that the whole workspace gives them.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--tests"]);
        // The build script of `ring` is run again for each change of these, and all that uses it is compiled anew.
        for (name, _) in std::env::vars_os() {
            let named = name.to_string_lossy();
            if named.starts_with("CARGO_PKG_") || named.starts_with("CARGO_MANIFEST_") {
                build.env_remove(name);
            }
        }
        assert!(build.status().unwrap().success(), "cargo build");
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug")
    })
}

/// The header that programs are compiled against.
fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/mpi.h")
}
