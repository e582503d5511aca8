use std::fs;
use std::sync::Mutex;

use fishplate_data::transfer::{Delivery, TransferError, TransferFuture, Validator};

use super::*;

const URL: &str = "test://there/mesh";

/// A place whose connections break after so many bytes, one after the other; then they last.
#[derive(Debug)]
struct Breaking {
    data: Vec<u8>,
    breaks: Mutex<Vec<usize>>,
    version: Option<Validator>,
    told: Option<Digest>,
    offsets: Mutex<Vec<u64>>,
}

impl Breaking {
    fn new(data: &[u8], breaks: &[usize]) -> Self {
        Self {
            data: data.to_vec(),
            breaks: Mutex::new(breaks.iter().rev().copied().collect()),
            version: Some(Validator("\"1\"".to_owned())),
            told: None,
            offsets: Mutex::default(),
        }
    }

    fn offsets(&self) -> Vec<u64> {
        self.offsets.lock().unwrap().clone()
    }
}

impl Transport for Breaking {
    fn schemes(&self) -> &[&'static str] {
        &["test"]
    }

    fn open<'t>(&'t self, _: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        self.offsets.lock().unwrap().push(want.offset);
        let same = want.version.is_none() || want.version == self.version;
        let offset = if same { want.offset } else { 0 };
        let rest = self.data[usize::try_from(offset).unwrap()..].to_vec();
        let breaks_after = self.breaks.lock().unwrap().pop();
        let opened = OpenedSource {
            offset,
            total: Some(self.data.len() as u64),
            version: self.version.clone(),
            digest: self.told,
            body: Box::new(Rest { left: Bytes::from(rest), breaks_after }),
        };
        Box::pin(std::future::ready(Ok(opened)))
    }

    fn deliver<'t>(&'t self, _: &'t Delivery, _: &'t Url) -> TransferFuture<'t, Option<Url>> {
        unreachable!("nothing is delivered")
    }
}

#[derive(Debug)]
struct Rest {
    left: Bytes,
    breaks_after: Option<usize>,
}

impl TransferBody for Rest {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        let most = self.left.len().min(7).min(self.breaks_after.unwrap_or(usize::MAX));
        let next = match (most, &mut self.breaks_after) {
            (_, Some(0)) => Err(TransferError::Broken {
                peer: "test://there".to_owned(),
                reason: "cut".to_owned(),
            }),
            (0, _) => Ok(None),
            (most, breaks_after) => {
                if let Some(left) = breaks_after {
                    *left -= most;
                }
                Ok(Some(self.left.split_to(most)))
            }
        };
        Box::pin(std::future::ready(next))
    }
}

fn retry() -> Retry {
    Retry { attempts: 3, first_wait: std::time::Duration::from_millis(1), ..Retry::default() }
}

async fn fetch(from: &Breaking, reference: &DataRef, to: &Path) -> Result<Download, Error> {
    let meter = Arc::new(Meter::default());
    let got = get(from, reference, &DownloadTarget::File(to.to_owned()), retry(), &meter).await;
    if let Ok(got) = &got {
        assert_eq!((meter.received(), meter.to_receive()), (got.len, got.len));
    }
    got
}

fn digest_of(bytes: &[u8]) -> Digest {
    let mut digesting = DigestPair::new(None);
    digesting.update(bytes);
    digesting.finish().0
}

fn data() -> Vec<u8> {
    (0..=255).cycle().take(1000).collect()
}

fn names(dir: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_connection_that_breaks_is_taken_up_where_it_broke_and_all_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("mesh");
    let mut from = Breaking::new(&data(), &[300, 0, 10]);
    from.told = Some(digest_of(&data()));
    let got = fetch(&from, &DataRef::new(URL), &to).await.unwrap();
    assert_eq!((got.len, got.verified, got.resumed), (1000, true, 0));
    assert_eq!(got.digest, digest_of(&data()));
    assert_eq!(fs::read(&to).unwrap(), data());
    assert_eq!(from.offsets(), [0, 300, 300, 310]);
    assert_eq!(names(&dir), ["mesh"]);
}

#[tokio::test]
async fn another_run_goes_on_with_the_half_file_of_one_that_ended() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("mesh");
    let from = Breaking::new(&data(), &[400, 0, 0, 0]);
    let error = fetch(&from, &DataRef::new(URL), &to).await.unwrap_err();
    assert!(matches!(error, Error::Transfer(TransferError::Broken { .. })), "{error:?}");
    assert_eq!(names(&dir), ["mesh.part", "mesh.part.json"]);
    let from = Breaking::new(&data(), &[]);
    let got = fetch(&from, &DataRef::new(URL), &to).await.unwrap();
    assert_eq!((got.resumed, got.verified), (400, false));
    assert_eq!(from.offsets(), [400]);
    assert_eq!(fs::read(&to).unwrap(), data());
    assert_eq!(names(&dir), ["mesh"]);
}

#[tokio::test]
async fn a_whole_half_file_needs_its_name_only() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("mesh");
    let reference = DataRef { digest: Some(digest_of(&data())), ..DataRef::new(URL) };
    let of = PartialIdentity {
        url: URL.to_owned(),
        digest: reference.digest,
        total: Some(1000),
        version: None,
    };
    PartialFile::of(&to).note(&of).unwrap();
    fs::write(dir.path().join("mesh.part"), data()).unwrap();
    let from = Breaking::new(&data(), &[]);
    let got = fetch(&from, &reference, &to).await.unwrap();
    assert_eq!((got.len, got.resumed, got.verified), (1000, 1000, true));
    assert!(from.offsets().is_empty());
}

#[tokio::test]
async fn data_that_changed_or_has_no_version_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("mesh");
    let mut from = Breaking::new(&data(), &[400, 0, 0, 0]);
    fetch(&from, &DataRef::new(URL), &to).await.unwrap_err();
    let other: Vec<u8> = data().iter().map(|byte| !byte).collect();
    from = Breaking { version: Some(Validator("\"2\"".to_owned())), ..Breaking::new(&other, &[]) };
    fetch(&from, &DataRef::new(URL), &to).await.unwrap();
    assert_eq!(fs::read(&to).unwrap(), other);
    from = Breaking { version: None, ..Breaking::new(&data(), &[300]) };
    fetch(&from, &DataRef::new(URL), &to).await.unwrap();
    assert_eq!(from.offsets(), [0, 0]);
    assert_eq!(fs::read(&to).unwrap(), data());
}

#[tokio::test]
async fn a_wrong_digest_or_length_is_an_error_and_leaves_neither_file_nor_half() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("mesh");
    fs::write(&to, "old").unwrap();
    let right = digest_of(&data());
    let from = Breaking { told: Some(digest_of(b"other")), ..Breaking::new(&data(), &[]) };
    let plain = Breaking::new(&data(), &[]);
    let url = || URL.to_owned();
    let wrong_length = DataRef { url: url(), len: Some(999), digest: None };
    let wrong_digest = DataRef { url: url(), len: None, digest: Some(Digest::Sha512([1; 64])) };
    for (from, reference) in
        [(&from, &DataRef::new(URL)), (&plain, &wrong_length), (&plain, &wrong_digest)]
    {
        let error = fetch(from, reference, &to).await.unwrap_err();
        assert!(matches!(error, Error::DataMismatch { .. }), "{error:?}");
        assert_eq!(fs::read(&to).unwrap(), b"old");
        assert_eq!(names(&dir).iter().filter(|name| name.ends_with(".json")).count(), 0);
    }
    // What its origin tells beforehand saves reading it.
    let reference = DataRef { url: url(), len: Some(1000), digest: Some(right) };
    let error = fetch(&from, &reference, &to).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("not {}", right.hex())), "{error}");
    assert!(fetch(&plain, &reference, &to).await.unwrap().verified);
    assert_eq!(names(&dir), ["mesh"]);
}

#[tokio::test]
async fn a_stream_is_never_written_twice() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    make_pipe(&pipe);
    let reading = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read(pipe).unwrap())
    };
    let from = Breaking::new(&data(), &[300]);
    let meter = Arc::new(Meter::default());
    let got =
        get(&from, &DataRef::new(URL), &DownloadTarget::File(pipe), retry(), &meter).await.unwrap();
    assert_eq!(got.len, 1000);
    assert_eq!(reading.join().unwrap(), data());
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
