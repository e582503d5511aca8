//! One attachment as several inputs; callers who go away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use fishplate_contract::{Array, ElementType};
use fishplate_formats::array_file::Format;
use tempfile::TempDir;

use super::*;

#[derive(Debug)]
struct Attachment {
    path: PathBuf,
    kept: AtomicBool,
}

impl FileHandle for Attachment {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

fn attachment(directory: &Path, bytes: &[u8]) -> Arc<Attachment> {
    let path = directory.join("attachment");
    fs::write(&path, bytes).unwrap();
    Arc::new(Attachment { path, kept: AtomicBool::new(false) })
}

fn placement(path: &str, content: PlacedInput) -> InputPlacement {
    InputPlacement { path: path.to_owned(), content }
}

fn array(held: &Arc<Attachment>, delimiter: char) -> PlacedInput {
    let data = Payload::Spooled(Arc::<Attachment>::clone(held));
    PlacedInput::Array(
        Array { element: ElementType::Int, shape: vec![2], data },
        Format::Text { delimiter },
    )
}

fn bytes(held: &Arc<Attachment>) -> PlacedInput {
    PlacedInput::Bytes(Payload::Spooled(Arc::<Attachment>::clone(held)))
}

#[test]
fn the_same_bytes_have_one_fingerprint_wherever_they_are() {
    let directory = TempDir::new().unwrap();
    let held = attachment(directory.path(), b"the same bytes");
    let of = |payload: Payload, name: &str| {
        let value = Value::Data(payload);
        fingerprint("call", &[Argument::new(name, value)]).unwrap()
    };
    let inline = of(Payload::Inline("the same bytes".into()), "data");
    let pieces: Arc<[bytes::Bytes]> = Arc::new(["the same".into(), " bytes".into()]);
    assert_eq!(of(Payload::Pieces(pieces), "data"), inline);
    assert_eq!(of(Payload::Spooled(Arc::<Attachment>::clone(&held)), "data"), inline);
    assert_ne!(of(Payload::Spooled(held), "other"), inline);
    assert_ne!(of(Payload::Inline("the same byteS".into()), "data"), inline);
}

#[test]
fn one_attachment_may_be_several_inputs() {
    for durable in [false, true] {
        let directory = TempDir::new().unwrap();
        let numbers = [1_i32.to_le_bytes(), 2_i32.to_le_bytes()].concat();
        let held = attachment(directory.path(), &numbers);
        let placements = [
            placement("a", bytes(&held)),
            placement("b", array(&held, ' ')),
            placement("sub/c", bytes(&held)),
            placement("d", bytes(&held)),
            placement("e", array(&held, ',')),
        ];
        place_all(directory.path(), &placements, durable, &ArchiveLimits::default()).unwrap();
        let read = |path: &str| fs::read(directory.path().join("work").join(path)).unwrap();
        for path in ["a", "sub/c", "d"] {
            assert_eq!(read(path), numbers, "{path}");
        }
        assert_eq!(read("b"), b"1\n2\n");
        assert_eq!(read("e"), b"1\n2\n");
        // The last of them moved it.
        assert!(held.kept.load(Ordering::Relaxed) && !held.path.exists());
    }
}

#[test]
fn the_file_of_arrays_stays_its_holders() {
    let directory = TempDir::new().unwrap();
    let held = attachment(directory.path(), &[0; 8]);
    let placements = [placement("a", array(&held, ' ')), placement("b", array(&held, ','))];
    place_all(directory.path(), &placements, false, &ArchiveLimits::default()).unwrap();
    assert!(!held.kept.load(Ordering::Relaxed) && held.path.exists());
}

#[test]
fn a_file_that_others_hold_too_is_copied() {
    let directory = TempDir::new().unwrap();
    let held: Arc<dyn FileHandle> = Arc::new(Pooled(attachment(directory.path(), b"whole")));
    let path = held.path().to_owned();
    let placements = [placement("a", PlacedInput::Bytes(Payload::Spooled(held)))];
    place_all(directory.path(), &placements, true, &ArchiveLimits::default()).unwrap();
    assert_eq!(fs::read(directory.path().join("work/a")).unwrap(), b"whole");
    assert_eq!(fs::read(path).unwrap(), b"whole");
}

/// A file of a pool.
#[derive(Debug)]
struct Pooled(Arc<Attachment>);

impl FileHandle for Pooled {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self) {
        panic!("it is not ours");
    }
}

#[test]
fn a_directory_is_unpacked_when_it_is_accepted() {
    let archive = crate::engine::tests::small_archive();
    for spooled in [false, true] {
        let directory = TempDir::new().unwrap();
        let payload = match spooled {
            true => Payload::Spooled(attachment(directory.path(), &archive)),
            false => Payload::Inline(archive.clone().into()),
        };
        let content = PlacedInput::Directory(payload, "case".to_owned());
        let placements = [placement("sub/case", content)];
        place_all(directory.path(), &placements, true, &ArchiveLimits::default()).unwrap();
        assert_eq!(fs::read(directory.path().join("work/sub/case/a")).unwrap(), b"x");
        let narrow = ArchiveLimits { entries: 0, ..ArchiveLimits::default() };
        let other = TempDir::new().unwrap();
        let refused = place_all(other.path(), &placements, true, &narrow).unwrap_err();
        let PlacementError::Refused(fault) = refused else { panic!("{refused:?}") };
        assert_eq!(fault.code, FaultCode::InvalidValue);
        assert_eq!(fault.parameter.as_deref(), Some("case"));
        assert_eq!(fault.limit.unwrap().name, "directory_entries");
    }
}

#[tokio::test]
async fn what_is_being_accepted_is_accepted_though_its_caller_goes_wherever_that_is() {
    let (write, written) = oneshot::channel();
    let (tell, told) = oneshot::channel();
    let mut caller = Box::pin(accepting(async move {
        tell.send(written.await.is_ok()).unwrap();
    }));
    assert!(caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::thread::spawn(move || drop(caller)).join().unwrap();
    write.send(()).unwrap();
    assert_eq!(told.await, Ok(true));
}
