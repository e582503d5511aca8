//! Where the library of the MPI ABI is: beside the binary that looks for it.

use std::path::{Path, PathBuf};

/// The name by which programs ask for it (MPI 5.0, chapter 20).
pub const SONAME: &str = "libmpi_abi.so.1";
/// Where it is, relative to the directory of the binary: beside it; where packages install it; where cargo builds it.
pub const PLACES: [&str; 3] =
    ["libmpi_abi.so.1", "../lib/fishplate/libmpi_abi.so.1", "libmpi_abi.so"];

/// The library for the binary in this directory, if there is one.
pub fn find(directory: &Path) -> Option<PathBuf> {
    PLACES.iter().map(|place| directory.join(place)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_found_beside_the_binary_where_it_is_installed_and_where_it_is_built() {
        let root = tempfile::tempdir().unwrap();
        let binaries = root.path().join("bin");
        fs::create_dir_all(root.path().join("lib/fishplate")).unwrap();
        fs::create_dir(&binaries).unwrap();
        assert_eq!(find(&binaries), None);
        // From the last to the first, each before those that were there.
        for place in PLACES.iter().rev() {
            fs::write(binaries.join(place), "").unwrap();
            assert_eq!(find(&binaries), Some(binaries.join(place)));
        }
    }
}
