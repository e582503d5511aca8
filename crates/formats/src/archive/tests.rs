//! What is packed comes out the same; what is evil does not come out at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;

fn packed(directory: &Path) -> Result<Vec<u8>, ArchiveError> {
    let archive = tempfile::NamedTempFile::new().unwrap();
    pack(&File::open(directory).unwrap(), archive.as_file(), &mut || true)?;
    Ok(fs::read(archive.path()).unwrap())
}

/// Unpacked below a directory of its own, in which nothing else may appear.
fn unpacked(archive: &[u8], limits: &ArchiveLimits) -> Result<(TempDir, PathBuf), ArchiveError> {
    let around = tempfile::tempdir().unwrap();
    let to = around.path().join("to");
    let done = unpack(archive, archive.starts_with(&[0x28, 0xb5]), &to, limits);
    let beside: Vec<_> = fs::read_dir(around.path()).unwrap().flatten().collect();
    assert_eq!(beside.len(), usize::from(done.is_ok()), "{beside:?}");
    done.map(|_| (around, to))
}

/// Everything in a directory by its path: what it is, its mode, and its bytes or target.
fn tree(root: &Path) -> BTreeMap<String, (char, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            let metadata = entry.metadata().unwrap();
            let mode = metadata.mode() & 0o777;
            let what = if metadata.is_dir() {
                rest.push(path.clone());
                ('d', mode, Vec::new())
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                ('l', 0, target.into_os_string().into_encoded_bytes())
            } else {
                ('f', mode, fs::read(&path).unwrap())
            };
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), what);
        }
    }
    found
}

/// An archive of entries as anybody could write them.
#[derive(Default)]
struct Evil(Vec<u8>);

impl Evil {
    fn entry(mut self, kind: EntryType, path: &str, link: &str, bytes: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o7777);
        header.set_size(bytes.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str) -> Self {
        self.entry(EntryType::Regular, path, "", b"x")
    }

    fn link(self, path: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, path, to, b"")
    }

    fn pax(self, key: &str, value: &str) -> Self {
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|length| *length == rest + length.to_string().len()).unwrap();
        let record = format!("{length} {key}={value}\n");
        self.entry(EntryType::XHeader, "pax", "", record.as_bytes())
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }

    fn refused(self) -> String {
        unpacked(&self.end(), &ArchiveLimits::default())
            .map(|(_, to)| tree(&to))
            .unwrap_err()
            .to_string()
    }
}

/// An archive of one file, `a`.
fn small_archive() -> Vec<u8> {
    Evil::default().file("a").end()
}

#[test]
fn what_leads_out_is_refused_with_the_entry_and_the_rule() {
    let evil = Evil::default;
    let hardlink = |path, to| evil().file("f").entry(EntryType::Link, path, to, b"");
    for (archive, entry, rule) in [
        (evil().file("/etc/passwd"), "/etc/passwd", "absolute"),
        (evil().file("../x"), "../x", "upwards"),
        (evil().file("a/../../x"), "a/../../x", "upwards"),
        (evil().file("a/.."), "a/..", "upwards"),
        (evil().link("l", "/etc"), "l", "absolute"),
        (evil().link("l", "../x"), "l", "leads out"),
        (evil().link("a/l", "../../x"), "a/l", "leads out"),
        // Through another link, it would go further up than it seems.
        (evil().link("l", ".").link("m", "l/../x"), "m", "leads out"),
        (evil().link("l", "a").file("l/x"), "l/x", "no directory"),
        (evil().link("l", "a").link("l/x", "y"), "l/x", "no directory"),
        (evil().file("f").file("f/x"), "f/x", "no directory"),
        (evil().link("l", ""), "l", "link to nothing"),
        (hardlink("h", "/etc/passwd"), "h", "no entry"),
        (hardlink("h", "../../x"), "h", "no entry"),
        (hardlink("h", "g"), "h", "stand before"),
        (hardlink("h", "g/h"), "h", "stand before"),
        (hardlink("h", "."), "h", "directory"),
        (evil().link("l", "f").entry(EntryType::Link, "h", "l", b""), "h", "no file"),
        (evil().link("d", ".").entry(EntryType::Link, "h", "d/f", b""), "h", "stand before"),
        (evil().entry(EntryType::Char, "c", "", b""), "c", "device"),
        (evil().entry(EntryType::Block, "b", "", b""), "b", "device"),
        (evil().entry(EntryType::Fifo, "p", "", b""), "p", "FIFO"),
        (evil().entry(EntryType::GNUSparse, "s", "", b""), "s", "sparse"),
        (evil().entry(EntryType::new(b'Z'), "z", "", b""), "z", "not known"),
        (evil().pax("path", &"x".repeat(5000)).file("f"), "xxx", "directory_path"),
        (evil().pax("path", &"x".repeat(300)).file("f"), "xxx", "too long"),
        (evil().pax("path", "../x").file("f"), "../x", "upwards"),
        (evil().pax("path", "a\0b").file("f"), "a", "NUL"),
        (evil().pax("linkpath", "/etc").link("l", "ok"), "l", "absolute"),
        (evil().entry(EntryType::Directory, "d", "", b"").file("d"), "d", "no directory"),
    ] {
        let said = archive.refused();
        assert!(
            said.contains(&format!("entry \"{entry}")) && said.contains(rule),
            "{rule}: {said}"
        );
    }
}

#[test]
fn what_is_no_archive_is_told_so() {
    let evil = Evil::default;
    for (archive, says) in [
        (Vec::new(), "no tar archive"),
        (b"PK\x03\x04".to_vec(), "no tar archive"),
        (vec![b'x'; 2048], "no tar archive"),
        (evil().pax("GNU.sparse.major", "1").file("f").end(), "sparse"),
        (evil().pax("size", "-1").file("f").end(), "pax record"),
        (evil().entry(EntryType::XHeader, "p", "", b"9 path=x").file("f").end(), "pax record"),
        (evil().entry(EntryType::XHeader, "p", "", b"99 path=x\n").file("f").end(), "pax record"),
        (evil().entry(EntryType::XHeader, "p", "", b"0 path=x\n").file("f").end(), "pax record"),
        (evil().file("f").0, "cut short, after \"f\""),
        (evil().pax("size", "9000000000000000000").file("f").end(), "holds more than"),
        (vec![0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "can't be read"),
    ] {
        let said = unpacked(&archive, &ArchiveLimits::default()).unwrap_err().to_string();
        assert!(said.contains(says), "{says}: {said}");
    }
    let long = vec![b'1'; 2 << 20];
    let said = evil().entry(EntryType::XHeader, "p", "", &long).file("f").refused();
    assert!(said.contains("longer than 1 MiB"), "{said}");
}

#[test]
fn what_stands_in_front_of_entries_is_bounded_and_counted() {
    let evil = Evil::default;
    let half = vec![b'1'; 600 << 10];
    let said = evil()
        .entry(EntryType::XGlobalHeader, "g", "", &half)
        .entry(EntryType::XGlobalHeader, "g", "", &half)
        .file("f")
        .refused();
    assert!(said.contains("longer than 1 MiB"), "{said}");
    let many = (0..9).fold(evil(), |it, _| it.entry(EntryType::XGlobalHeader, "g", "", b""));
    let said = many.file("f").refused();
    assert!(said.contains("more than 8 records"), "{said}");
    let few = (0..8).fold(evil(), |it, _| it.entry(EntryType::XGlobalHeader, "g", "", b""));
    assert!(unpacked(&few.file("f").end(), &ArchiveLimits::default()).is_ok());
    let long = evil().pax("comment", &"c".repeat(1000)).file("f").end();
    let within = |size| unpacked(&long, &ArchiveLimits { size, ..ArchiveLimits::default() });
    assert!(within(1100).is_ok());
    let fault = within(1000).unwrap_err().fault("case");
    assert_eq!(fault.limit.unwrap().name, "directory_size");
}

#[test]
fn unpacking_that_shall_stop_stops_and_leaves_nothing() {
    let around = tempfile::tempdir().unwrap();
    let (archive, to) = (around.path().join("archive"), around.path().join("to"));
    fs::write(&archive, small_archive()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(true);
    let limits = ArchiveLimits::default();
    unpack_file_unless(&archive, &to, "case", &limits, &stop).unwrap_err();
    assert!(!to.exists());
    stop.store(false, std::sync::atomic::Ordering::Relaxed);
    unpack_file_unless(&archive, &to, "case", &limits, &stop).unwrap();
    assert!(to.join("a").exists());
}

#[test]
fn a_path_that_is_too_long_names_the_limit() {
    let limit = |archive: Evil| {
        let error = unpacked(&archive.end(), &ArchiveLimits::default()).unwrap_err();
        fault_limit(error)
    };
    let path = "x".repeat(5000);
    assert_eq!(limit(Evil::default().pax("path", &path).file("f")), "directory_path");
    assert_eq!(limit(Evil::default().pax("linkpath", &path).link("l", "f")), "directory_path");
}

fn fault_limit(error: ArchiveError) -> String {
    error.fault("case").limit.map(|limit| limit.name).unwrap_or_default()
}

#[test]
fn limits_are_kept_and_named() {
    let archive = Evil::default().file("a").file("b").file("c").end();
    let within = |entries, size| {
        let limits = ArchiveLimits { entries, size, reserve: 0 };
        match unpacked(&archive, &limits) {
            Ok((_, to)) => tree(&to).len().to_string(),
            Err(error) => {
                let fault = error.fault("case");
                assert_eq!(fault.parameter.as_deref(), Some("case"));
                fault.limit.map(|limit| limit.name).unwrap_or_default()
            }
        }
    };
    assert_eq!(within(3, 3), "3");
    assert_eq!(within(2, 3), "directory_entries");
    assert_eq!(within(3, 2), "directory_size");
    let limits = ArchiveLimits { reserve: u64::MAX, ..ArchiveLimits::default() };
    let full = unpacked(&archive, &limits).unwrap_err();
    assert_eq!(full.fault("case").code, FaultCode::StorageFull);
}

#[test]
fn what_others_pack_is_read() {
    let mut builder = Builder::new(Vec::new());
    let long = format!("{}/{}", "directory".repeat(20), "file".repeat(30));
    let mut header = Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o6711);
    header.set_mtime(1_000_000_000);
    builder.append_data(&mut header, &long, &b"long"[..]).unwrap();
    let mut link = Header::new_gnu();
    link.set_entry_type(EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "l", &long).unwrap();
    let mut hard = Header::new_ustar();
    hard.set_entry_type(EntryType::Link);
    hard.set_size(0);
    builder.append_pax_extensions([("linkpath", long.as_bytes())]).unwrap();
    builder.append_data(&mut hard, "./h", &b""[..]).unwrap();
    let archive = builder.into_inner().unwrap();
    for archive in [zstd::encode_all(&archive[..], 3).unwrap(), archive] {
        let (_around, to) = unpacked(&archive, &ArchiveLimits::default()).unwrap();
        let file = to.join(&long);
        assert_eq!(fs::read(&file).unwrap(), b"long");
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o711, 1_000_000_000));
        assert_eq!(fs::read(to.join("l")).unwrap(), b"long");
        assert_eq!(fs::metadata(to.join("h")).unwrap().ino(), metadata.ino());
    }
}

#[test]
fn a_later_entry_replaces_an_earlier_one_and_nothing_else() {
    let archive = Evil::default()
        .file("a")
        .entry(EntryType::Link, "h", "a", b"")
        .entry(EntryType::Regular, "a", "", b"new")
        .link("a2", "a")
        .entry(EntryType::Regular, "a2", "", b"own");
    let (_around, to) = unpacked(&archive.end(), &ArchiveLimits::default()).unwrap();
    let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    assert_eq!((read("a"), read("h"), read("a2")), ("new".into(), "x".into(), "own".into()));
}

#[test]
fn a_directory_with_what_cannot_be_sent_is_told_so() {
    for (target, inside) in [("/etc", false), ("../x", false), ("sub/../..", false), ("sub", true)]
    {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        symlink(target, directory.path().join("l")).unwrap();
        match packed(directory.path()) {
            Ok(_) => assert!(inside, "{target}"),
            Err(error) => assert!(!inside && error.to_string().contains("\"l\""), "{error}"),
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    let empty = packed(directory.path()).unwrap();
    assert_eq!(empty, [0; 1024], "a socket holds no data");
    drop(listener);
    let (_around, to) = unpacked(&empty, &ArchiveLimits::default()).unwrap();
    assert_eq!(tree(&to).len(), 0);
    assert!(matches!(packed_without_room(directory.path()), Err(ArchiveError::Full)));
}

fn packed_without_room(directory: &Path) -> Result<(), ArchiveError> {
    fs::write(directory.join("file"), "x").unwrap();
    let archive = tempfile::tempfile().unwrap();
    pack(&File::open(directory).unwrap(), &archive, &mut || false)
}

#[derive(Clone, Debug)]
enum Node {
    File(Vec<u8>, u32),
    Directory(BTreeMap<String, Node>),
    Symlink(String),
}

fn node() -> impl Strategy<Value = Node> {
    let file = (proptest::collection::vec(any::<u8>(), 0..2000), 0_u32..0o1000);
    let leaf = prop_oneof![
        file.prop_map(|(bytes, mode)| Node::File(bytes, mode)),
        "[a-zé]{1,8}(/[a-z]{1,60}){0,3}".prop_map(Node::Symlink),
    ];
    let name = prop_oneof!["[a-z]{1,3}", "[ -.0-~]{1,100}", "\\PC{1,30}"];
    leaf.prop_recursive(4, 24, 6, move |inner| {
        proptest::collection::btree_map(name.clone(), inner, 0..6).prop_map(Node::Directory)
    })
}

fn make(node: &Node, at: &Path) {
    match node {
        Node::File(bytes, mode) => {
            fs::write(at, bytes).unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(mode & 0o755 | 0o600)).unwrap();
        }
        Node::Symlink(target) => symlink(target, at).unwrap(),
        Node::Directory(inner) => {
            fs::create_dir(at).unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
            for (name, node) in inner {
                if !matches!(name.as_str(), "." | "..") && !name.contains('/') {
                    make(node, &at.join(name));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_packed_is_unpacked(node in node()) {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("root");
        fs::create_dir(&root).unwrap();
        make(&node, &root.join("top"));
        let archive = packed(&root).unwrap();
        prop_assert_eq!(&archive, &packed(&root).unwrap());
        let (_around, to) = unpacked(&archive, &ArchiveLimits::default()).unwrap();
        prop_assert_eq!(tree(&to), tree(&root));
        let (entries, _) = ArchiveReader::new(&archive[..]).skim().unwrap();
        prop_assert_eq!(entries, tree(&root).len() as u64);
    }

    #[test]
    fn no_bytes_harm(at in any::<proptest::sample::Index>(), byte in any::<u8>(),
                     noise in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = unpacked(&noise, &ArchiveLimits::default());
        let good = Evil::default()
            .file("a").link("l", "a").pax("path", "b/c").file("x")
            .entry(EntryType::Link, "h", "a", b"").end();
        let mut damaged = good.clone();
        damaged[at.index(good.len())] = byte;
        let _ = unpacked(&damaged, &ArchiveLimits::default());
        let cut = &good[..at.index(good.len() - 1024)];
        prop_assert!(unpacked(cut, &ArchiveLimits::default()).is_err());
    }
}
