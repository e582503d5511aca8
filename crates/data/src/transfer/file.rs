//! Files of this machine, beneath directories that the operator names and nowhere else.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use url::Url;

use super::{
    Delivery, OpenedSource, ReadRequest, TransferBody, TransferError, TransferFuture, Transport,
    Validator,
};

/// The rule that keeps other files apart, by the name of its setting.
pub const FILE_ROOTS: &str = "file_roots";
/// How much of a file is read at once.
const PIECE: usize = 1 << 20;

/// The transport of `file:`.
#[derive(Clone, Debug, Default)]
pub struct Files {
    roots: Vec<PathBuf>,
}

impl Files {
    /// Files beneath these directories. No symbolic link leads out of them.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }

    /// Opens the file at an address.
    fn beneath(&self, url: &Url) -> Result<File, TransferError> {
        let path = url.to_file_path().ok().filter(|_| url.query().is_none()).ok_or_else(|| {
            TransferError::Refused {
                peer: "file:".to_owned(),
                answer: "that an address of a file is file:///PATH".to_owned(),
            }
        })?;
        let inside =
            |root: &PathBuf| Some((root.clone(), path.strip_prefix(root).ok()?.to_owned()));
        let Some((root, rest)) = self.roots.iter().find_map(inside) else {
            return Err(forbidden("it is beneath none of the roots"));
        };
        match open_beneath(&root, &rest) {
            Ok(file) => Ok(file),
            Err(Errno::EXDEV | Errno::ELOOP) => Err(forbidden("it leads out of its root")),
            Err(error) => Err(TransferError::Refused {
                peer: "file:".to_owned(),
                answer: io::Error::from(error).to_string(),
            }),
        }
    }
}

fn forbidden(what: &str) -> TransferError {
    TransferError::Forbidden { address: format!("file: {what}"), rule: FILE_ROOTS }
}

fn open_beneath(root: &Path, rest: &Path) -> Result<File, Errno> {
    let directory = openat2(
        AT_FDCWD,
        root,
        OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC),
    )?;
    // Not blocking: opening a pipe would wait for its writer.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let file = File::from(openat2(&directory, rest, OpenHow::new().flags(flags).resolve(resolve))?);
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_file { Ok(file) } else { Err(Errno::EISDIR) }
}

/// Tells a file that was written to from what it was.
fn version(metadata: &Metadata) -> Validator {
    let time = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec());
    Validator(format!("{}-{}-{}-{time:?}", metadata.dev(), metadata.ino(), metadata.len()))
}

impl Transport for Files {
    fn schemes(&self) -> &[&'static str] {
        &["file"]
    }

    fn delivers(&self) -> bool {
        false
    }

    fn accepts(&self, _: &Url) -> Result<(), TransferError> {
        Err(no_deliveries())
    }

    fn open<'t>(&'t self, from: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        Box::pin(async move {
            let file = self.beneath(from)?;
            let metadata = file.metadata().map_err(local)?;
            let (version, total) = (version(&metadata), metadata.len());
            let same = want.version.is_none_or(|wanted| wanted == version);
            let (offset, len) = if same && want.offset <= total {
                (want.offset, want.len.unwrap_or(u64::MAX))
            } else {
                (0, u64::MAX)
            };
            let end = offset.saturating_add(len).min(total);
            let body =
                FileContent { file: Arc::new(file), at: offset, end, version: version.clone() };
            let version = Some(version);
            Ok(OpenedSource {
                offset,
                total: Some(total),
                version,
                digest: None,
                body: Box::new(body),
            })
        })
    }

    fn deliver<'t>(&'t self, _: &'t Delivery, _: &'t Url) -> TransferFuture<'t, Option<Url>> {
        Box::pin(std::future::ready(Err(no_deliveries())))
    }

    fn local<'t>(&'t self, from: &'t Url) -> TransferFuture<'t, Option<File>> {
        Box::pin(async { self.beneath(from).map(Some) })
    }
}

fn no_deliveries() -> TransferError {
    let message = "file: takes no deliveries: ask for the output by reference";
    TransferError::Unsupported(message.to_owned())
}

#[derive(Debug)]
struct FileContent {
    file: Arc<File>,
    at: u64,
    end: u64,
    version: Validator,
}

impl TransferBody for FileContent {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(async {
            if self.at == self.end {
                return self.unchanged().map(|()| None);
            }
            let (file, at) = (Arc::clone(&self.file), self.at);
            let len = usize::try_from(self.end - at).unwrap_or(PIECE).min(PIECE);
            let reading = tokio::task::spawn_blocking(move || {
                let mut piece = BytesMut::zeroed(len);
                let got = file.read_at(&mut piece, at)?;
                piece.truncate(got);
                Ok(piece.freeze())
            });
            let piece = reading.await.map_err(io::Error::other).flatten().map_err(local)?;
            if piece.is_empty() {
                return Err(changed());
            }
            self.at += piece.len() as u64;
            Ok(Some(piece))
        })
    }
}

impl FileContent {
    fn unchanged(&self) -> Result<(), TransferError> {
        let metadata = self.file.metadata().map_err(local)?;
        if version(&metadata) == self.version { Ok(()) } else { Err(changed()) }
    }
}

fn changed() -> TransferError {
    let reason = "it was written to while it was read".to_owned();
    TransferError::Broken { peer: "file:".to_owned(), reason }
}

fn local(source: io::Error) -> TransferError {
    TransferError::Local { what: "reading a file", source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::transfer::conformance::{self, DigestAnnouncement, Features, Peer, rest};

    struct Root(tempfile::TempDir);

    fn url(path: &Path) -> Url {
        Url::from_file_path(path).unwrap()
    }

    impl Peer for Root {
        fn transport(&self) -> Arc<dyn Transport> {
            Arc::new(Files::new(vec!["/nowhere".into(), self.0.path().to_owned()]))
        }

        fn features(&self) -> Features {
            Features {
                reads: true,
                ranges: true,
                versions: true,
                lengths: true,
                digest: DigestAnnouncement::Never,
                breaks: false,
                delivers: false,
            }
        }

        fn put(&self, name: &str, bytes: &[u8]) -> Url {
            let path = self.0.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            url(&path)
        }

        fn missing(&self) -> Url {
            url(&self.0.path().join("nothing here"))
        }
    }

    #[tokio::test]
    async fn files_conform() {
        conformance::run(&Root(tempfile::tempdir().unwrap())).await;
    }

    #[tokio::test]
    async fn nothing_leads_out_of_a_root() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let root = Root(tempfile::tempdir().unwrap());
        root.put("inside", b"inside");
        let at = |name: &str| root.0.path().join(name);
        symlink(&secret, at("link")).unwrap();
        symlink(outside.path(), at("directory")).unwrap();
        symlink("../".repeat(20) + "etc/passwd", at("relative")).unwrap();
        symlink("/proc/self/root/etc/passwd", at("magic")).unwrap();
        symlink("inside", at("good")).unwrap();
        let transport = root.transport();
        for path in [&secret, &at("link"), &at("directory/secret"), &at("relative"), &at("magic")] {
            let error = transport.open(&url(path), ReadRequest::default()).await.unwrap_err();
            let named = matches!(error, TransferError::Forbidden { rule: FILE_ROOTS, .. });
            assert!(named, "{}: {error:?}", path.display());
        }
        let climbing = format!("file://{}/../secret", root.0.path().display());
        let error =
            transport.open(&climbing.parse().unwrap(), ReadRequest::default()).await.unwrap_err();
        assert!(matches!(error, TransferError::Forbidden { .. }), "{error:?}");
        let mut good = transport.open(&url(&at("good")), ReadRequest::default()).await.unwrap();
        assert_eq!(rest(&mut good).await.unwrap(), b"inside");
    }

    #[tokio::test]
    async fn only_files_are_files() {
        let root = Root(tempfile::tempdir().unwrap());
        nix::unistd::mkfifo(&root.0.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["pipe", "", "."] {
            let at = url(&root.0.path().join(name));
            let error = root.transport().open(&at, ReadRequest::default()).await.unwrap_err();
            assert!(matches!(error, TransferError::Refused { .. }), "{name}: {error:?}");
        }
        let elsewhere = Url::parse("file://example.org/x").unwrap();
        let error = root.transport().open(&elsewhere, ReadRequest::default()).await.unwrap_err();
        assert!(matches!(error, TransferError::Refused { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_file_that_changes_while_it_is_read_does_not_pass() {
        let root = Root(tempfile::tempdir().unwrap());
        let at = root.put("log", &[1; 3 << 20]);
        let mut opened = root.transport().open(&at, ReadRequest::default()).await.unwrap();
        opened.body.next().await.unwrap();
        root.put("log", &[2; 3 << 20]);
        let error = rest(&mut opened).await.unwrap_err();
        assert!(matches!(error, TransferError::Broken { .. }), "{error:?}");
    }
}
