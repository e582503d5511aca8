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
        // For each change of these the build script of `ring` is run again, and all that uses it is compiled anew.
        for (name, _) in std::env::vars_os() {
            let named = name.to_string_lossy();
            let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"];
            if of_package.iter().any(|prefix| named.starts_with(prefix)) {
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
