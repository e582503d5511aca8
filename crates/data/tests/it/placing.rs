//! Every way of placing, on file systems that have it and on those that do not.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use fishplate_contract::PlacementMethod;
use fishplate_data::{PlacementPurpose, place};

use crate::{Mount, may_mount, skipped};

const BYTES: &[u8] = b"what is placed";

fn source(directory: &Path, mode: u32) -> std::path::PathBuf {
    let source = directory.join(format!("source-{mode:o}"));
    fs::write(&source, BYTES).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(mode)).unwrap();
    source
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Places, and checks what must be true however it was done.
fn placed(source: &Path, target: &Path, wish: PlacementPurpose) -> PlacementMethod {
    let placing = place(source, target, wish).unwrap();
    assert_eq!(fs::read(target).unwrap(), BYTES);
    let mode = fs::metadata(target).unwrap().permissions().mode() & 0o777;
    if placing == PlacementMethod::Link {
        assert_eq!((wish, inode(source), mode), (PlacementPurpose::Shared, inode(target), 0o444));
    } else {
        assert_eq!(mode, 0o600);
        fs::write(target, "written to").unwrap();
        assert_eq!(fs::read(source).unwrap(), BYTES, "the source changed");
    }
    placing
}

#[test]
fn without_reflinks_a_shared_file_is_linked_and_a_private_one_copied() {
    let bed = tempfile::tempdir_in("/dev/shm").unwrap();
    let whole = source(bed.path(), 0o444);
    let at = |name: &str| bed.path().join(name);
    assert_eq!(placed(&whole, &at("shared"), PlacementPurpose::Shared), PlacementMethod::Link);
    assert_eq!(placed(&whole, &at("private"), PlacementPurpose::Private), PlacementMethod::Copy);
    // Somebody could write to it by its other name.
    let writable = source(bed.path(), 0o644);
    assert_eq!(placed(&writable, &at("writable"), PlacementPurpose::Shared), PlacementMethod::Copy);
    let error = place(&whole, &at("shared"), PlacementPurpose::Private).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "nothing is replaced");
    assert_eq!(inode(&whole), inode(&at("shared")));
    let error = place(&at("none"), &at("new"), PlacementPurpose::Private).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(!at("new").exists());
}

#[test]
fn into_another_file_system_it_is_copied() {
    let bed = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    if fs::metadata(bed.path()).unwrap().dev() == fs::metadata(other.path()).unwrap().dev() {
        skipped("file-systems", "/tmp and /dev/shm are one file system");
        return;
    }
    let whole = source(bed.path(), 0o444);
    for wish in [PlacementPurpose::Shared, PlacementPurpose::Private] {
        let target = other.path().join(format!("{wish:?}"));
        assert_eq!(placed(&whole, &target, wish), PlacementMethod::Copy);
    }
}

#[test]
fn with_reflinks_blocks_are_shared() {
    if !may_mount() {
        return;
    }
    let bed = tempfile::tempdir().unwrap();
    for (number, make) in [["mkfs.btrfs", "-q"], ["mkfs.xfs", "-q"]].into_iter().enumerate() {
        let image = bed.path().join(format!("image-{number}"));
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let made = Command::new(make[0]).args(&make[1..]).arg(&image).status();
        if !made.is_ok_and(|status| status.success()) {
            skipped("tools", &format!("this machine has no {}", make[0]));
            continue;
        }
        let disk = bed.path().join(format!("disk-{number}"));
        let image = image.to_str().unwrap();
        let Some(_mount) = Mount::new(&["-o", "loop", image], &disk) else { continue };
        let whole = source(&disk, 0o444);
        for wish in [PlacementPurpose::Shared, PlacementPurpose::Private] {
            let target = disk.join(format!("{wish:?}"));
            assert_eq!(placed(&whole, &target, wish), PlacementMethod::Reflink, "{}", make[0]);
        }
    }
}
