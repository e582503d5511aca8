//! An output where its program left it, and as a file that can be brought elsewhere.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fishplate_contract::{Array, ElementType, Fault, FaultCode, FileHandle, Payload};
use fishplate_formats::array_file::{self, Format, npy};

use crate::completion::DeliveredOutput;
use crate::executor::{ArrayBytes, Output, OutputContent};
use crate::stager::OutputFile;
use crate::workspace;

/// A file of a job's directory. It stays there until the job is removed, whoever drops this.
#[derive(Debug)]
pub(super) struct OutputHandle {
    path: PathBuf,
    len: u64,
}

impl OutputHandle {
    pub(super) fn new(path: PathBuf, len: u64) -> Self {
        Self { path, len }
    }
}

impl FileHandle for OutputHandle {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep(&self) {}
}

impl Output {
    /// Bytes of a file or an array; `None` for what goes by value only.
    pub(super) fn len(&self) -> Option<u64> {
        match &self.content {
            OutputContent::Text(_) | OutputContent::TextFile { .. } => None,
            OutputContent::File { len, .. } | OutputContent::Archive { len, .. } => Some(*len),
            OutputContent::Array { bytes: ArrayBytes::Inline(bytes), .. } => {
                Some(bytes.len() as u64)
            }
            OutputContent::Array { bytes: ArrayBytes::File { len, .. }, .. } => Some(*len),
        }
    }
}

/// An output as one file; an array becomes a `.npy` file, which tells its shape.
pub(super) fn file(
    directory: &Path,
    outputs: &[Output],
    at: usize,
    in_session: bool,
) -> io::Result<OutputFile> {
    let output = &outputs[at];
    let (path, len, extension) = match &output.content {
        OutputContent::File { path, .. } => {
            // Opened as it is collected: what a program put in its place is none.
            let len = workspace::open_output(directory, path)?.metadata()?.len();
            (workspace::work(directory).join(path), len, "")
        }
        OutputContent::Archive { path, len } => (directory.join(path), *len, ".tar"),
        OutputContent::Array { element, shape, bytes } => {
            let path = array(directory, at, element, shape, bytes)?;
            let len = fs::metadata(&path)?.len();
            (path, len, ".npy")
        }
        OutputContent::Text(_) | OutputContent::TextFile { .. } => {
            return Err(io::Error::other("it is no file"));
        }
    };
    let name = if in_session {
        name_in_session(outputs, at)
    } else {
        match &output.content {
            OutputContent::File { path, .. } => {
                safe(path.rsplit('/').next().unwrap_or(&output.name))
            }
            _ => format!("{}{extension}", safe(&output.name)),
        }
    };
    let media_type = match (output.media_type.as_str(), extension) {
        ("", ".tar") => "application/x-tar".to_owned(),
        ("", ".npy") => npy::MEDIA_TYPE.to_owned(),
        (told, _) => told.to_owned(),
    };
    Ok(OutputFile { parameter: output.name.clone(), path, len, name, media_type })
}

/// The array's file beside the workspace; made once.
fn array(
    directory: &Path,
    at: usize,
    element: &str,
    shape: &[u64],
    bytes: &ArrayBytes,
) -> io::Result<PathBuf> {
    let place = directory.join("sent");
    let path = place.join(format!("{at}.npy"));
    if path.exists() {
        return Ok(path);
    }
    let element = ElementType::from_name(element).ok_or(io::ErrorKind::InvalidData)?;
    let data = match bytes {
        ArrayBytes::Inline(bytes) => Payload::Inline(bytes.clone().into()),
        ArrayBytes::File { path, len } => {
            Payload::Spooled(Arc::new(OutputHandle::new(directory.join(path), *len)))
        }
    };
    fs::create_dir_all(&place)?;
    // Another caller may be at it too: whoever is last replaces the same by the same.
    let temporary = tempfile_in(&place)?;
    array_file::write(&Array { element, shape: shape.to_vec(), data }, &Format::Npy, &temporary.1)?;
    fs::rename(&temporary.0, &path)?;
    Ok(path)
}

fn tempfile_in(place: &Path) -> io::Result<(PathBuf, File)> {
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(|error| io::Error::other(error.to_string()))?;
    let path = place.join(format!("draft-{:016x}", u64::from_ne_bytes(salt)));
    let file = File::create_new(&path)?;
    Ok((path, file))
}

/// The parameter's name; of several files of one parameter, each with what tells it apart.
fn name_in_session(outputs: &[Output], at: usize) -> String {
    let name = |output: &Output| match &output.label {
        None => safe(&output.name),
        Some(label) => safe(&format!("{}-{label}", output.name)),
    };
    let own = name(&outputs[at]);
    let before = outputs[..at].iter().filter(|earlier| name(earlier) == own).count();
    if before == 0 { own } else { format!("{own}~{}", before + 1) }
}

/// The longest file name that is given to a file on its way.
const LONGEST_NAME: usize = 120;

/// A name that needs no escape anywhere.
fn safe(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    if name.starts_with('.') || name.is_empty() { format!("_{name}") } else { name }
}

/// An output that can't be sent, because it can't be read here.
pub(super) fn unreadable(error: &io::Error) -> Fault {
    if fishplate_formats::disk::is_full(error) {
        return Fault::new(FaultCode::StorageFull, "the server's disk is full");
    }
    Fault::new(FaultCode::Internal, format!("the output can't be read: {error}"))
}

/// What is remembered of a job's outputs in its directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum CachedOutputs {
    /// Addresses that they were given.
    Addresses,
    /// Where they were delivered.
    Delivered,
}

impl CachedOutputs {
    fn file(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::Delivered => "delivered",
        }
    }

    /// What is remembered; nothing if it can't be read.
    pub(super) fn read(self, directory: &Path) -> Vec<DeliveredOutput> {
        let text = fs::read(directory.join(self.file())).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Remembers one more, or the same output anew.
    pub(super) fn note(self, directory: &Path, sent: DeliveredOutput) {
        // One after the other: each writes what the one before wrote, and its own.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.read(directory);
        known.retain(|it| (&it.name, &it.label) != (&sent.name, &sent.label));
        known.push(sent);
        let write = || {
            let (path, mut file) = tempfile_in(directory)?;
            file.write_all(&serde_json::to_vec(&known)?)?;
            fs::rename(path, directory.join(self.file()))
        };
        if let Err(error) = write() {
            tracing::warn!(directory = %directory.display(), %error, "an output's address is not remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, label: Option<&str>) -> Output {
        let content = OutputContent::File { path: "dir/a b.frd".to_owned(), len: 1 };
        let (label, media_type) = (label.map(str::to_owned), String::new());
        Output { name: name.to_owned(), label, media_type, content }
    }

    #[test]
    fn names_on_the_way_are_safe_and_each_its_own() {
        assert_eq!(safe("../a/b?c.frd"), "_.._a_b_c.frd");
        assert_eq!(safe(".."), "_..");
        let outputs = [
            output("mesh", None),
            output("frames", Some("out/1.vtk")),
            output("frames", Some("out_1.vtk")),
        ];
        let names: Vec<String> = (0..3).map(|at| name_in_session(&outputs, at)).collect();
        assert_eq!(names, ["mesh", "frames-out_1.vtk", "frames-out_1.vtk~2"]);
    }

    #[test]
    fn addresses_are_remembered_one_an_output() {
        let directory = tempfile::tempdir().unwrap();
        let sent = |name: &str, url: &str| DeliveredOutput {
            name: name.to_owned(),
            label: None,
            url: url.to_owned(),
            len: Some(3),
            digest: None,
            expires: Some(9),
        };
        let known = CachedOutputs::Addresses;
        assert_eq!(known.read(directory.path()), []);
        known.note(directory.path(), sent("mesh", "http://a/1"));
        known.note(directory.path(), sent("grid", "http://a/2"));
        known.note(directory.path(), sent("mesh", "http://a/3"));
        let expected = [sent("grid", "http://a/2"), sent("mesh", "http://a/3")];
        assert_eq!(known.read(directory.path()), expected);
        assert_eq!(CachedOutputs::Delivered.read(directory.path()), []);
    }
}
