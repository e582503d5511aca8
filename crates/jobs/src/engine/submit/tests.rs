//! One attachment as several inputs.

use std::sync::atomic::AtomicBool;

use fishplate_contract::{Array, Element};
use tempfile::TempDir;

use super::*;
use crate::array_file::Format;

#[derive(Debug)]
struct Attachment {
    path: PathBuf,
    kept: AtomicBool,
}

impl Held for Attachment {
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

fn placement(path: &str, content: Placed) -> Placement {
    Placement { path: path.to_owned(), content }
}

fn array(held: &Arc<Attachment>, delimiter: char) -> Placed {
    let data = Payload::Spooled(Arc::<Attachment>::clone(held));
    Placed::Array(Array { element: Element::Int, shape: vec![2], data }, Format::Text { delimiter })
}

fn bytes(held: &Arc<Attachment>) -> Placed {
    Placed::Bytes(Payload::Spooled(Arc::<Attachment>::clone(held)))
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
        place_all(directory.path(), &placements, durable).unwrap();
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
    place_all(directory.path(), &placements, false).unwrap();
    assert!(!held.kept.load(Ordering::Relaxed) && held.path.exists());
}
