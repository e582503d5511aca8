//! What a reference refers to into a file: taken up where it broke, verified, and under its name
//! only when it is whole.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use fishplate_contract::{DataRef, Digest};
use fishplate_data::transfer::{OpenedSource, ReadRequest, TransferBody, Transport};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use url::Url;

use crate::data::digesting::{self, DigestPair};
use crate::data::partial::{PartialFile, PartialIdentity};
use crate::error::Error;
use crate::input::blocking;
use crate::meter::Meter;
use crate::retry::pause;
use crate::save::{is_special, target_of};
use crate::settings::Retry;

/// Chunks that may wait for the disk.
const CHUNKS_AHEAD: usize = 16;

/// Where data goes.
#[derive(Clone, Debug)]
pub enum DownloadTarget {
    /// A file. While it is not whole its bytes are in `NAME.part`, and `NAME.part.json` tells of
    /// what, so that another process can go on.
    File(PathBuf),
    /// Standard output; a broken connection is mended, but nothing is left for another process.
    Stdout,
}

/// Data that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Its bytes.
    pub len: u64,
    /// Its SHA-256.
    pub digest: Digest,
    /// It was compared with a digest that the reference or its origin told.
    pub verified: bool,
    /// Bytes that an earlier, interrupted run had brought.
    pub resumed: u64,
}

/// Gets what a reference refers to through the transport of its scheme.
///
/// # Errors
/// [`Error::Transfer`], [`Error::DataMismatch`] (the half file is removed then), [`Error::File`].
pub async fn get(
    transport: &dyn Transport,
    from: &DataRef,
    to: &DownloadTarget,
    retry: Retry,
    meter: &Arc<Meter>,
) -> Result<Download, Error> {
    let url = Url::parse(&from.url)
        .map_err(|error| Error::BadUrl { url: from.url.clone(), reason: error.to_string() })?;
    meter.start(Some(0));
    let part = part_of(to);
    let mut sink = open(to, part.as_ref(), from).await?;
    let resumed = sink.at;
    meter.set_received(resumed);
    meter.expect(sink.of.total.unwrap_or(0));
    let getting = RunningDownload { transport, url: &url, from, part: part.as_ref(), meter };
    if !sink.is_whole() {
        sink = match getting.run(sink, retry).await {
            Ok(sink) => sink,
            Err(error) => {
                leave_no_empty(part).await;
                return Err(error);
            }
        };
    }
    let got = getting.verified(sink, resumed).await?;
    if let Some(part) = part {
        let path = part.path().to_owned();
        blocking(move || part.complete()).await.map_err(Error::file("write", &path))?;
    }
    Ok(got)
}

/// A half of nothing helps nobody to go on.
async fn leave_no_empty(part: Option<PartialFile>) {
    let Some(part) = part else { return };
    let removing = blocking(move || match part.path().metadata() {
        Ok(metadata) if metadata.len() == 0 => part.discard(),
        _ => Ok(()),
    });
    // Why nothing came is what matters.
    let _ = removing.await;
}

/// A special file has no half.
fn part_of(to: &DownloadTarget) -> Option<PartialFile> {
    match to {
        DownloadTarget::File(path) if !is_special(path) => Some(PartialFile::of(&target_of(path))),
        DownloadTarget::File(_) | DownloadTarget::Stdout => None,
    }
}

async fn open(
    to: &DownloadTarget,
    part: Option<&PartialFile>,
    from: &DataRef,
) -> Result<DownloadSink, Error> {
    let (to, part, from) = (to.clone(), part.cloned(), from.clone());
    let path = match (&part, &to) {
        (Some(part), _) => part.path().to_owned(),
        (None, DownloadTarget::File(path)) => path.clone(),
        (None, DownloadTarget::Stdout) => PathBuf::from("standard output"),
    };
    let opening = blocking(move || match (part, to) {
        (Some(part), _) => DownloadSink::of_part(&part, &from),
        (None, DownloadTarget::File(path)) => {
            Ok(DownloadSink::of_stream(File::options().append(true).open(path)?, &from))
        }
        (None, DownloadTarget::Stdout) => {
            Ok(DownloadSink::of_stream(duplicate_of_stdout()?, &from))
        }
    });
    opening.await.map_err(Error::file("write", &path))
}

fn duplicate_of_stdout() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// All that one transfer needs.
struct RunningDownload<'g> {
    transport: &'g dyn Transport,
    url: &'g Url,
    from: &'g DataRef,
    part: Option<&'g PartialFile>,
    meter: &'g Arc<Meter>,
}

impl RunningDownload<'_> {
    /// Opens, reads, and opens again where it broke. Tries are counted anew whenever one brought
    /// something.
    async fn run(&self, mut sink: DownloadSink, retry: Retry) -> Result<DownloadSink, Error> {
        let (mut failures, mut reached) = (0, false);
        loop {
            let before = sink.at;
            let tried = self.go_on(sink).await;
            sink = tried.0;
            let Err(error) = tried.1 else { return Ok(sink) };
            failures = if sink.at > before { 1 } else { failures + 1 };
            reached |= !error.is_unreachable() || sink.at > before;
            let attempts = retry.attempts(reached);
            if !error.is_transient() || failures >= attempts {
                return Err(error);
            }
            pause(retry, self.meter, &error, failures, attempts).await;
        }
    }

    /// One try, and all that it brought.
    async fn go_on(&self, mut sink: DownloadSink) -> (DownloadSink, Result<(), Error>) {
        let version = sink.of.version.clone();
        // What nothing tells from another version can't be gone on with.
        let is_known = version.is_some() || sink.of.digest.is_some();
        let offset = if is_known { sink.at } else { 0 };
        let want = ReadRequest { offset, len: None, version };
        let mut opened = match self.transport.open(self.url, want).await {
            Ok(opened) => opened,
            Err(error) => return (sink, Err(error.into())),
        };
        let skip = match self.align(&mut sink, &mut opened).await {
            Ok(skip) => skip,
            Err(error) => return (sink, Err(error)),
        };
        self.meter.set_received(sink.at);
        self.meter.expect(sink.of.total.unwrap_or(0));
        let mut body = opened.body;
        let writing = WriterThread::start(sink);
        let read = self.pass(body.as_mut(), &writing, skip).await;
        let (mut sink, written) = writing.end().await;
        if let Err(error) = written {
            return (sink, Err(Error::file("write", self.path())(error)));
        }
        if read.is_ok() && sink.of.digest.is_none() {
            // Whoever breaks off after the last byte of the data has told all that matters.
            sink.of.digest = body.digest().await.unwrap_or(None);
        }
        (sink, read)
    }

    async fn pass(
        &self,
        body: &mut dyn TransferBody,
        writing: &WriterThread,
        mut skip: u64,
    ) -> Result<(), Error> {
        while let Some(chunk) = body.next().await? {
            let skipped = skip.min(chunk.len() as u64);
            skip -= skipped;
            let chunk = chunk.slice(usize::try_from(skipped).unwrap_or(chunk.len())..);
            self.meter.add_received(chunk.len());
            if !chunk.is_empty() && !writing.put(chunk).await {
                break; // It says itself why it does not take more.
            }
        }
        Ok(())
    }

    /// Brings what is there and what was opened to the same byte; how many bytes to pass over.
    /// (`&mut`: of what is not `Sync`, that alone may be sent to another thread.)
    async fn align(
        &self,
        sink: &mut DownloadSink,
        opened: &mut OpenedSource,
    ) -> Result<u64, Error> {
        let same = sink.of.version.is_some() && sink.of.version == opened.version;
        let skip = match opened.offset {
            offset if offset == sink.at => 0,
            // A stream can't be begun again.
            0 if sink.is_stream && (same || sink.of.digest.is_some()) => sink.at,
            0 if !sink.is_stream => {
                sink.begin_again().map_err(Error::file("write", self.path()))?;
                0
            }
            _ => {
                return Err(Error::DataMismatch {
                    url: self.from.url.clone(),
                    reason: "it changed while it was read".to_owned(),
                });
            }
        };
        let before = if sink.at > 0 { sink.of.clone() } else { PartialIdentity::default() };
        let told = self.from.digest.or(before.digest).or(opened.digest);
        let total = opened.total.or(before.total).or(self.from.len);
        if let (Some(opened), Some(expected)) = (opened.total, self.from.len)
            && opened != expected
        {
            return Err(self.other_length(opened, expected));
        }
        if let (Some(is), Some(expected)) = (opened.digest, self.from.digest)
            && std::mem::discriminant(&is) == std::mem::discriminant(&expected)
            && is != expected
        {
            return Err(self.other_digest(is, expected));
        }
        if sink.at == 0 {
            sink.digesting = DigestPair::new(told.as_ref());
        }
        let url = self.from.url.clone();
        let of = PartialIdentity { url, version: opened.version.clone(), digest: told, total };
        if sink.of != of {
            sink.of = of.clone();
            if let Some(part) = self.part.cloned() {
                let noted = blocking(move || part.note(&of)).await;
                noted.map_err(Error::file("write", self.path()))?;
            }
        }
        Ok(skip)
    }

    async fn verified(&self, sink: DownloadSink, resumed: u64) -> Result<Download, Error> {
        let (len, of) = (sink.at, sink.of);
        let (sha256, sha512) = sink.digesting.finish();
        let problem = if let Some(expected) = of.total.or(self.from.len)
            && expected != len
        {
            Some(self.other_length(len, expected))
        } else {
            let differs =
                |is: Digest, told: Digest| (is != told).then(|| self.other_digest(is, told));
            match of.digest {
                Some(told @ Digest::Sha256(_)) => differs(sha256, told),
                Some(told @ Digest::Sha512(_)) => sha512.and_then(|is| differs(is, told)),
                None => None,
            }
        };
        if let Some(error) = problem {
            if let Some(part) = self.part.cloned() {
                blocking(move || part.discard())
                    .await
                    .map_err(Error::file("remove", self.path()))?;
            }
            return Err(error);
        }
        let verified = match of.digest {
            Some(Digest::Sha256(_)) => true,
            Some(Digest::Sha512(_)) => sha512.is_some(),
            None => false,
        };
        Ok(Download { len, digest: sha256, verified, resumed })
    }

    fn other_length(&self, is: u64, expected: u64) -> Error {
        Error::DataMismatch {
            url: self.from.url.clone(),
            reason: format!("it has {is} bytes, not {expected}"),
        }
    }

    /// In the digits that `sha256sum` prints.
    fn other_digest(&self, is: Digest, expected: Digest) -> Error {
        let (is, expected) = (is.hex(), expected.hex());
        Error::DataMismatch {
            url: self.from.url.clone(),
            reason: format!("its digest is {is}, not {expected}"),
        }
    }

    fn path(&self) -> &Path {
        self.part.map_or(Path::new("standard output"), PartialFile::path)
    }
}

/// Where bytes are written, and all that is known of those that are there.
struct DownloadSink {
    file: File,
    is_stream: bool,
    /// Bytes that are there.
    at: u64,
    digesting: DigestPair,
    of: PartialIdentity,
}

impl DownloadSink {
    fn of_stream(file: File, from: &DataRef) -> Self {
        let digesting = DigestPair::new(from.digest.as_ref());
        Self { file, is_stream: true, at: 0, digesting, of: PartialIdentity::default() }
    }

    /// With what an earlier run has left, if it is of the same data.
    fn of_part(part: &PartialFile, from: &DataRef) -> io::Result<Self> {
        let (mut file, mut of) = part.open()?;
        file.try_lock().map_err(|_| {
            let told = "another process is writing to it";
            io::Error::new(io::ErrorKind::ResourceBusy, told)
        })?;
        let mut len = file.metadata()?.len();
        if !of.continues(from) {
            (of, len) = (PartialIdentity::default(), 0);
        }
        of.digest = from.digest.or(of.digest);
        match of.total.or(from.len) {
            Some(total) if len > total => len = 0,
            // Nobody can be asked for what follows the end; without a digest the last byte is
            // asked for again, to see that it is the same version.
            Some(total) if len == total && of.digest.is_none() => len = len.saturating_sub(1),
            _ => {}
        }
        file.set_len(len)?;
        let mut digesting = DigestPair::new(of.digest.as_ref());
        digesting::pass(&mut file, len, &mut digesting, &AtomicBool::new(false))?;
        Ok(Self { file, is_stream: false, at: len, digesting, of })
    }

    fn is_whole(&self) -> bool {
        self.at > 0 && self.of.total == Some(self.at)
    }

    fn begin_again(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.at, self.digesting) = (0, DigestPair::new(None));
        Ok(())
    }

    fn write(&mut self, chunk: &Bytes) -> io::Result<()> {
        self.file.write_all(chunk)?;
        self.digesting.update(chunk);
        self.at += chunk.len() as u64;
        Ok(())
    }
}

/// A thread that writes what comes.
struct WriterThread {
    chunks: mpsc::Sender<Bytes>,
    thread: JoinHandle<(DownloadSink, io::Result<()>)>,
}

impl WriterThread {
    fn start(mut sink: DownloadSink) -> Self {
        let (chunks, mut receiver) = mpsc::channel::<Bytes>(CHUNKS_AHEAD);
        let thread = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = receiver.blocking_recv() {
                if let Err(error) = sink.write(&chunk) {
                    return (sink, Err(error));
                }
            }
            (sink, Ok(()))
        });
        Self { chunks, thread }
    }

    /// Whether it takes more.
    async fn put(&self, chunk: Bytes) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    async fn end(self) -> (DownloadSink, io::Result<()>) {
        drop(self.chunks);
        match self.thread.await {
            Ok(ended) => ended,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests;
