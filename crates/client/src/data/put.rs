//! A file to a server, which gives a reference to it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use fishplate_contract::{DataRef, Digest};
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::body::SegmentBody;
use crate::data::digesting::{self, DigestPair, StopOnDrop};
use crate::data::upload::{self, REPR_DIGEST, StoredData, UploadState};
use crate::error::Error;
use crate::input::blocking;
use crate::location;
use crate::meter::Meter;
use crate::retry::{pause, retrying};
use crate::settings::Settings;
use crate::transport::Transport;

/// A file of at most this many bytes goes in one request: 256 KiB.
pub const ONE_REQUEST: u64 = 256 << 10;

/// What a segment of a path keeps as it is (RFC 3986, `unreserved`).
pub(crate) const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A place that takes files.
pub struct UploadTarget {
    transport: Transport,
    settings: Settings,
    place: TargetKind,
    state_dir: Option<PathBuf>,
}

enum TargetKind {
    /// Files go under this URL, and an upload that breaks is taken up again.
    Resumable(Uri),
    /// Some HTTP server that takes `PUT`: under the URL if it ends with a slash, else there.
    Plain(Uri),
}

impl UploadTarget {
    /// The place that is meant by a URL: of a Fishplate server, of one of its services, of its
    /// `data/`; else any HTTP server that takes `PUT`.
    ///
    /// # Errors
    /// See [`Error`]: the URL, the transport.
    pub async fn find(url: &str, settings: Settings) -> Result<Self, Error> {
        let url = location::parse(url)?;
        let transport = Transport::new(&settings, &url);
        let mut place = TargetKind::Plain(url.clone());
        for candidate in location::beside(&url, "data/")? {
            if upload::is_resumable(&transport, &candidate).await? {
                place = TargetKind::Resumable(candidate);
                break;
            }
        }
        Ok(Self { transport, settings, place, state_dir: None })
    }

    /// Keeps in this directory what is needed to go on with an upload after this process has
    /// ended; without, only broken connections are mended.
    #[must_use]
    pub fn remembering(mut self, state_dir: PathBuf) -> Self {
        self.state_dir = Some(state_dir);
        self
    }

    /// Brings a file there. What was told to have arrived is verified by its digest.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn put(&self, file: &Path, meter: &Arc<Meter>) -> Result<DataRef, Error> {
        let path = file.to_owned();
        let source =
            blocking(move || UploadSource::open(&path).map_err(Error::file("read", &path)));
        let source = source.await?;
        meter.start(Some(source.len));
        match &self.place {
            TargetKind::Plain(url) => self.put_plainly(&source, url, meter).await,
            TargetKind::Resumable(url) => {
                let url = under(url, &source.name)?;
                match &source.content {
                    Some(content) => self.put_at_once(&source, content, &url, meter).await,
                    None => self.put_in_parts(&source, &url, meter).await,
                }
            }
        }
    }

    async fn put_at_once(
        &self,
        source: &UploadSource,
        content: &Bytes,
        url: &Uri,
        meter: &Arc<Meter>,
    ) -> Result<DataRef, Error> {
        let mut digesting = DigestPair::new(None);
        digesting.update(content);
        let digest = digesting.finish().0;
        // The same bytes twice are the same data.
        let answer = retrying(self.settings.retry, meter, || {
            meter.set_sent(0);
            let body = SegmentBody::of_bytes(content, Some(Arc::clone(meter)));
            upload::whole(&self.transport, url, told(&digest), body)
        });
        self.reference(answer.await?, url, source, digest).await
    }

    async fn put_plainly(
        &self,
        source: &UploadSource,
        to: &Uri,
        meter: &Arc<Meter>,
    ) -> Result<DataRef, Error> {
        let url = if to.path().ends_with('/') { under(to, &source.name)? } else { to.clone() };
        let digest = source.digest().await?;
        let answer = retrying(self.settings.retry, meter, || {
            meter.set_sent(0);
            let (body, failure) = source.body(0, meter);
            let sent = upload::sent(&self.transport, Method::PUT, &url, told(&digest), body);
            async move { sent.await.map_err(|error| failure.take().unwrap_or(error)) }
        });
        self.reference(answer.await?, &url, source, digest).await
    }

    async fn put_in_parts(
        &self,
        source: &UploadSource,
        url: &Uri,
        meter: &Arc<Meter>,
    ) -> Result<DataRef, Error> {
        let note = self.state_dir.as_deref().map(|dir| ResumeNote::of(dir, source, url));
        let stop = StopOnDrop::default();
        let (path, told) = (source.path.clone(), Arc::clone(&stop.0));
        // Beside the upload, and at the end faster than it.
        let digesting = tokio::task::spawn_blocking(move || digesting::of_file(&path, &told));
        let uploading = RunningUpload { target: self, source, url, meter, note: note.as_ref() };
        let stored = uploading.run().await?;
        let digest = match digesting.await {
            Ok(digest) => digest.map_err(Error::file("read", &source.path))?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        if let Some(note) = &note {
            note.forget().await;
        }
        // It was told to stop by nobody: `stop` is dropped after.
        let digest = digest.unwrap_or(Digest::Sha256([0; 32]));
        self.reference(stored, url, source, digest).await
    }

    /// Where we ask for what the server says to be at `url`: at the address that it was reached at,
    /// which need not be its public one (through a tunnel, say).
    fn reached(&self, url: &Uri) -> Result<Uri, Error> {
        match &self.place {
            TargetKind::Resumable(place) => at_host_of(place, url),
            TargetKind::Plain(_) => Ok(url.clone()),
        }
    }

    /// The reference that the last answer tells, verified.
    async fn reference(
        &self,
        stored: StoredData,
        asked: &Uri,
        source: &UploadSource,
        digest: Digest,
    ) -> Result<DataRef, Error> {
        let url = stored.url.unwrap_or_else(|| asked.clone());
        let mut arrived = stored.digest;
        let at = self.reached(&url)?;
        if arrived.is_none() && matches!(self.place, TargetKind::Resumable(_)) {
            arrived = upload::digest_of(&self.transport, &at).await?;
        }
        if let Some(Digest::Sha256(_)) = arrived
            && arrived != Some(digest)
        {
            // It is of no use to anybody; if it stays, it expires.
            let empty = (HeaderMap::new(), SegmentBody::empty());
            let _ = upload::sent(&self.transport, Method::DELETE, &at, empty.0, empty.1).await;
            return Err(Error::DataMismatch {
                url: url.to_string(),
                reason: format!(
                    "what arrived has another digest than {}; did the file change meanwhile?",
                    source.path.display()
                ),
            });
        }
        Ok(DataRef { url: url.to_string(), len: Some(source.len), digest: Some(digest) })
    }
}

/// The same path at another's scheme, host and port, if it lies below that one.
fn at_host_of(place: &Uri, url: &Uri) -> Result<Uri, Error> {
    if !url.path().starts_with(place.path()) {
        return Ok(url.clone());
    }
    let mut parts = url.clone().into_parts();
    parts.scheme = place.scheme().cloned();
    parts.authority = place.authority().cloned();
    Uri::from_parts(parts)
        .map_err(|error| Error::BadUrl { url: url.to_string(), reason: error.to_string() })
}

/// An upload in parts on its way.
struct RunningUpload<'u> {
    target: &'u UploadTarget,
    source: &'u UploadSource,
    url: &'u Uri,
    meter: &'u Arc<Meter>,
    note: Option<&'u ResumeNote>,
}

impl RunningUpload<'_> {
    /// Sends, asks what is there whenever the connection broke, and goes on from there. The tries
    /// are counted anew whenever one brought something.
    async fn run(&self) -> Result<StoredData, Error> {
        let (transport, retry) = (&self.target.transport, self.target.settings.retry);
        let mut upload = None;
        if let Some(note) = self.note {
            upload = note.read().await;
        }
        let (mut failures, mut furthest, mut reached) = (0, 0, false);
        loop {
            let error = match self.go_on(transport, &mut upload, &mut furthest, &mut failures).await
            {
                Ok(Some(stored)) => return Ok(stored),
                Ok(None) => continue,
                Err(error) => error,
            };
            reached |= !matches!(error, Error::Unreachable { .. });
            failures += 1;
            if !error.is_transient() || !reached || failures >= retry.attempts {
                return Err(error);
            }
            pause(retry, self.meter, &error, failures, retry.attempts).await;
        }
    }

    /// One step; the head of the last answer once all is there.
    async fn go_on(
        &self,
        transport: &Transport,
        upload: &mut Option<Uri>,
        furthest: &mut u64,
        failures: &mut u32,
    ) -> Result<Option<StoredData>, Error> {
        let (at, standing) = match upload {
            Some(at) => (at.clone(), upload::standing(transport, at).await?),
            None => {
                let at = upload::create(transport, self.url, self.source.len).await?;
                let at = self.target.reached(&at)?;
                if let Some(note) = self.note {
                    note.write(&at).await;
                }
                *upload = Some(at.clone());
                (at, UploadState::At(0))
            }
        };
        let standing = match standing {
            UploadState::At(offset) if offset <= self.source.len => {
                if offset > *furthest {
                    (*furthest, *failures) = (offset, 0);
                }
                self.meter.set_sent(offset);
                let (body, failure) = self.source.body(offset, self.meter);
                let appended = upload::append(transport, &at, offset, body).await;
                appended.map_err(|error| failure.take().unwrap_or(error))?
            }
            UploadState::At(_) => UploadState::Gone, // Not of this file.
            other => other,
        };
        match standing {
            UploadState::Complete(stored) if stored.url.is_some() => Ok(Some(stored)),
            // It broke just before its last answer, which nobody can tell any more.
            UploadState::Complete(_) | UploadState::Gone => {
                *upload = None;
                *failures += 1;
                let lost = || Error::ConnectionLost {
                    url: at.to_string(),
                    reason: "the server forgets the upload again and again".to_owned(),
                };
                if *failures >= self.target.settings.retry.attempts {
                    Err(lost())
                } else {
                    Ok(None)
                }
            }
            UploadState::At(_) => Ok(None),
        }
    }
}

/// A file that is brought somewhere.
struct UploadSource {
    path: PathBuf,
    name: String,
    len: u64,
    /// If it is small.
    content: Option<Bytes>,
    /// What changes if it changes.
    version: String,
}

impl UploadSource {
    fn open(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            let told = "it is a directory: pack it, say with `tar -cf NAME.tar DIRECTORY`";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, told));
        }
        if !metadata.is_file() {
            let told = "it is no regular file: write it to one first";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        let small = metadata.len() <= ONE_REQUEST;
        let content = if small { Some(Bytes::from(fs::read(path)?)) } else { None };
        fs::File::open(path)?; // So that a file we may not read is told now.
        let absolute = fs::canonicalize(path)?;
        let version = format!(
            "{} {} {} {} {}",
            absolute.display(),
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        let name = path.file_name().or_else(|| absolute.file_name());
        Ok(Self {
            path: path.to_owned(),
            name: name.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into()),
            len: content.as_ref().map_or(metadata.len(), |content| content.len() as u64),
            content,
            version,
        })
    }

    fn body(&self, from: u64, meter: &Arc<Meter>) -> (SegmentBody, crate::body::BodyFailure) {
        SegmentBody::of_file(&self.path, from, self.len, Some(Arc::clone(meter)))
    }

    async fn digest(&self) -> Result<Digest, Error> {
        let path = self.path.clone();
        let digest = blocking(move || digesting::of_file(&path, &AtomicBool::new(false))).await;
        let digest = digest.map_err(Error::file("read", &self.path))?;
        Ok(digest.unwrap_or(Digest::Sha256([0; 32])))
    }
}

/// Remembers where an upload of a file goes on, for the next process.
struct ResumeNote(PathBuf);

impl ResumeNote {
    fn of(dir: &Path, source: &UploadSource, url: &Uri) -> Self {
        let mut digesting = DigestPair::new(None);
        digesting.update(source.version.as_bytes());
        digesting.update(url.to_string().as_bytes());
        Self(dir.join(&digesting.finish().0.hex()[..32]))
    }

    async fn read(&self) -> Option<Uri> {
        let path = self.0.clone();
        let text = blocking(move || fs::read_to_string(path)).await.ok()?;
        location::parse(text.trim()).ok()
    }

    async fn write(&self, upload: &Uri) {
        let (path, text) = (self.0.clone(), format!("{upload}\n"));
        // Without it only this process can go on, which is no reason to stop.
        let _ = blocking(move || write_privately(&path, &text)).await;
    }

    async fn forget(&self) {
        let path = self.0.clone();
        // What stays is not found again: the file's next version has another name.
        let _ = blocking(move || fs::remove_file(path)).await;
    }
}

/// The URL of an upload is a key to it.
fn write_privately(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut file = tempfile::Builder::new().prefix(".").tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

fn told(digest: &Digest) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(digest.to_string()) {
        headers.insert(REPR_DIGEST, value);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers
}

/// A file's URL under one that ends with a slash.
fn under(url: &Uri, name: &str) -> Result<Uri, Error> {
    location::parse(&format!("{url}{}", utf8_percent_encode(name, SEGMENT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_names_publicly_is_asked_for_where_it_was_reached() {
        let place: Uri = "http://localhost:9000/p/data/".parse().unwrap();
        for (url, expected) in [
            ("https://public/p/data/uploads/7?x", "http://localhost:9000/p/data/uploads/7?x"),
            ("http://localhost:9000/p/data/t/a", "http://localhost:9000/p/data/t/a"),
            ("https://public/elsewhere/7", "https://public/elsewhere/7"),
        ] {
            let found = at_host_of(&place, &url.parse().unwrap()).unwrap();
            assert_eq!(found.to_string(), expected);
        }
    }
}
