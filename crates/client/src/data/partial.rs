//! Half files, and what tells how to go on with them: `NAME.part` holds the bytes, `NAME.part.json`
//! says of what.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fishplate_contract::{DataRef, Digest};
use fishplate_data::transfer::Validator;
use serde_json::{Value, json};

/// A file that is not whole yet.
#[derive(Clone, Debug)]
pub(crate) struct PartialFile {
    target: PathBuf,
    part: PathBuf,
    state: PathBuf,
}

/// What the bytes that are there are the beginning of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialIdentity {
    pub(crate) url: String,
    pub(crate) version: Option<Validator>,
    pub(crate) digest: Option<Digest>,
    pub(crate) total: Option<u64>,
}

impl PartialIdentity {
    /// Whether it may be gone on with: the same address or the same digest, and a way to see that
    /// the rest belongs to it.
    pub(crate) fn continues(&self, from: &DataRef) -> bool {
        let same_digest = from.digest.is_some() && from.digest == self.digest;
        let other_digest = from.digest.is_some() && self.digest.is_some() && !same_digest;
        let same_address = self.url == from.url && !other_digest;
        same_digest || same_address && (self.version.is_some() || from.digest.is_some())
    }
}

impl PartialFile {
    /// The half file of this one.
    pub(crate) fn of(target: &Path) -> Self {
        let with = |suffix: &str| {
            let mut name = OsString::from(target.as_os_str());
            name.push(suffix);
            PathBuf::from(name)
        };
        Self { target: target.to_owned(), part: with(".part"), state: with(".part.json") }
    }

    /// Where its bytes are.
    pub(crate) fn path(&self) -> &Path {
        &self.part
    }

    /// The bytes that are there, of what they are, and how many they are; else none.
    pub(crate) fn open(&self) -> io::Result<(File, PartialIdentity)> {
        let of = fs::read(&self.state).ok().and_then(|text| read(&text));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(of.is_none());
        Ok((options.open(&self.part)?, of.unwrap_or_default()))
    }

    /// Notes of what its bytes are.
    pub(crate) fn note(&self, of: &PartialIdentity) -> io::Result<()> {
        let text = json!({
            "url": of.url,
            "version": of.version.as_ref().map(|version| &version.0),
            "digest": of.digest.map(|digest| digest.to_string()),
            "size": of.total,
        });
        let dir = match self.state.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        // A URL may be a grant: it is nobody else's to read.
        let mut file = tempfile::Builder::new().prefix(".fishplate-").tempfile_in(dir)?;
        file.write_all(text.to_string().as_bytes())?;
        file.persist(&self.state)?;
        Ok(())
    }

    /// It is whole: it takes its name.
    pub(crate) fn complete(&self) -> io::Result<()> {
        fs::rename(&self.part, &self.target)?;
        ignore_missing(fs::remove_file(&self.state))
    }

    /// It is of no use.
    pub(crate) fn discard(&self) -> io::Result<()> {
        ignore_missing(fs::remove_file(&self.state))?;
        ignore_missing(fs::remove_file(&self.part))
    }
}

fn read(text: &[u8]) -> Option<PartialIdentity> {
    let state: Value = serde_json::from_slice(text).ok()?;
    let version = state["version"].as_str();
    Some(PartialIdentity {
        url: state["url"].as_str()?.to_owned(),
        version: version.map(|version| Validator(version.to_owned())),
        digest: state["digest"].as_str().and_then(Digest::from_field),
        total: state["size"].as_u64(),
    })
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_file_is_gone_on_with_if_it_is_of_the_same_data() {
        let digest = Some(Digest::Sha256([1; 32]));
        let from = |url: &str, digest| DataRef { url: url.to_owned(), len: None, digest };
        let of = |url: &str, version: Option<&str>, digest| PartialIdentity {
            url: url.to_owned(),
            version: version.map(|version| Validator(version.to_owned())),
            digest,
            total: None,
        };
        assert!(of("a", Some("1"), None).continues(&from("a", None)));
        assert!(of("a", None, None).continues(&from("a", digest)));
        assert!(of("b", None, digest).continues(&from("a", digest)));
        assert!(!of("a", None, None).continues(&from("a", None)));
        assert!(!of("b", Some("1"), None).continues(&from("a", None)));
        let other = Some(Digest::Sha256([2; 32]));
        assert!(!of("a", Some("1"), other).continues(&from("a", digest)));
    }

    #[test]
    fn what_was_noted_is_read_again_and_all_goes_in_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let part = PartialFile::of(&dir.path().join("mesh.msh"));
        let of = PartialIdentity {
            url: "http://h/data/x".to_owned(),
            version: Some(Validator("\"7\"".to_owned())),
            digest: Some(Digest::Sha256([9; 32])),
            total: Some(5),
        };
        let (mut file, none) = part.open().unwrap();
        assert_eq!(none, PartialIdentity::default());
        part.note(&of).unwrap();
        file.write_all(b"half").unwrap();
        let (file, again) = part.open().unwrap();
        assert_eq!((file.metadata().unwrap().len(), again), (4, of));
        part.complete().unwrap();
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(fs::read(dir.path().join("mesh.msh")).unwrap(), b"half");
        part.discard().unwrap();
    }
}
