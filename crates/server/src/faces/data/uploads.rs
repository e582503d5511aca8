//! Resumable uploads as they are remembered: a small file each, beside the bytes that the pool holds
//! on their way in. So an upload survives the server, and CGI processes share it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fishplate_contract::{Principal, SessionId, lock};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, OwnedMutexGuard};

/// The uploads of a data directory.
/// Cheap to clone. What touches the disk blocks.
#[derive(Clone, Debug)]
pub struct Uploads(Arc<UploadsInner>);

#[derive(Debug)]
struct UploadsInner {
    directory: PathBuf,
    /// How many of one owner may be under way (`uploads_open`).
    most: usize,
    /// Held while those of an owner are counted, so that nobody else begins one meanwhile.
    counting: Mutex<()>,
    /// Uploads to which somebody appends or wants to.
    busy: Mutex<HashMap<UploadId, Arc<AppendTurn>>>,
}

/// Uploads under way, in the directory of uploads.
const OPEN: &str = "open";

/// Uploads that were completed: remembered so that who missed the answer learns it.
const DONE: &str = "done";

/// An upload's name: as unguessable as a session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UploadId(SessionId);

/// What is remembered of an upload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Upload {
    owner: String,
    /// The file's name; empty if it has none.
    pub(super) name: String,
    /// Empty if not told.
    pub(super) media_type: String,
    /// Bytes of the whole, once somebody told.
    pub(super) length: Option<u64>,
    /// What the whole must be, as a field of RFC 9530.
    pub(super) digest: Option<String>,
    /// What was sent is all of it; then the address of the data.
    pub(super) done: Option<CompletedUpload>,
}

/// An upload that was completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CompletedUpload {
    pub(super) url: String,
    pub(super) length: u64,
}

/// Who may append to an upload: one at a time, and whoever comes later drives the one before away,
/// because its sender has given that request up.
#[derive(Debug, Default)]
pub(super) struct AppendTurn {
    at_work: Arc<tokio::sync::Mutex<()>>,
    leave: Notify,
}

impl AppendTurn {
    /// Sends away who is at work, and waits for that.
    pub(super) async fn take(self: &Arc<Self>) -> OwnedMutexGuard<()> {
        loop {
            if let Ok(mine) = Arc::clone(&self.at_work).try_lock_owned() {
                return mine;
            }
            self.leave.notify_waiters();
            let soon = Duration::from_millis(50);
            // Who began to listen just now did not hear it.
            if let Ok(mine) =
                tokio::time::timeout(soon, Arc::clone(&self.at_work).lock_owned()).await
            {
                return mine;
            }
        }
    }

    /// Ends when somebody else wants the upload.
    pub(super) async fn superseded(&self) {
        self.leave.notified().await;
    }
}

impl Upload {
    pub(super) fn new(owner: &Principal, name: String, media_type: String) -> Self {
        let owner = owner.as_str().to_owned();
        Self { owner, name, media_type, length: None, digest: None, done: None }
    }

    /// Whose it is.
    pub(super) fn owner(&self) -> Principal {
        match self.owner.as_str() {
            "" => Principal::anonymous(),
            name => Principal::named(name),
        }
    }
}

impl UploadId {
    /// A new one.
    pub(super) fn draw() -> io::Result<Self> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(SessionId::from_bytes(bits)))
    }

    /// Under which the pool keeps its bytes.
    pub(super) fn key(self) -> String {
        format!("upload-{self}")
    }
}

impl std::fmt::Display for UploadId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for UploadId {
    type Err = fishplate_contract::session::NotASessionId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Uploads {
    /// Those of this data directory; so many of one owner may be under way.
    ///
    /// # Errors
    /// If their directory cannot be made.
    pub fn open(data: &Path, most: usize) -> io::Result<Self> {
        let directory = data.join("uploads");
        for part in [OPEN, DONE] {
            let directory = directory.join(part);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let (counting, busy) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(UploadsInner { directory, most, counting, busy })))
    }

    /// How many of one owner may be under way.
    pub(super) fn most(&self) -> usize {
        self.0.most
    }

    /// What is remembered of an upload; `None` if there is none of that name, or of this owner.
    pub(super) fn find(&self, id: UploadId, owner: &Principal) -> io::Result<Option<Upload>> {
        // Another process may complete it while we look.
        for part in [DONE, OPEN, DONE] {
            if let Some(upload) = read(&self.path(part, id))? {
                return Ok(Some(upload).filter(|upload| upload.owner() == *owner));
            }
        }
        Ok(None)
    }

    /// Remembers a new one. `false`: its owner has too many under way.
    pub(super) fn begin(&self, id: UploadId, upload: &Upload) -> io::Result<bool> {
        let _alone = lock(&self.0.counting);
        let mut others = 0;
        for entry in fs::read_dir(self.0.directory.join(OPEN))?.flatten() {
            let theirs = read(&entry.path())?.is_some_and(|it| it.owner == upload.owner);
            others += usize::from(theirs);
        }
        if others >= self.0.most {
            return Ok(false);
        }
        self.keep(id, upload).map(|()| true)
    }

    /// Remembers it; all of it or what was remembered before, whatever happens meanwhile.
    pub(super) fn keep(&self, id: UploadId, upload: &Upload) -> io::Result<()> {
        let part = if upload.done.is_some() { DONE } else { OPEN };
        let path = self.path(part, id);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(upload)?)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        File::open(self.0.directory.join(part))?.sync_all()?;
        if upload.done.is_some() { remove(&self.path(OPEN, id)) } else { Ok(()) }
    }

    /// Forgets it.
    pub(super) fn forget(&self, id: UploadId) -> io::Result<()> {
        remove(&self.path(OPEN, id))?;
        remove(&self.path(DONE, id))
    }

    /// Forgets those that nobody touched for so long; the pool sees to their bytes.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn sweep(&self, life: Duration) -> io::Result<()> {
        let now = SystemTime::now();
        for part in [OPEN, DONE] {
            for entry in fs::read_dir(self.0.directory.join(part))?.flatten() {
                let touched = entry.metadata().and_then(|about| about.modified());
                if touched.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > life)) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Who may append to this upload.
    pub(super) fn turn(&self, id: UploadId) -> Arc<AppendTurn> {
        let mut busy = lock(&self.0.busy);
        busy.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(busy.entry(id).or_default())
    }

    fn path(&self, part: &str, id: UploadId) -> PathBuf {
        self.0.directory.join(part).join(id.to_string())
    }
}

/// What a file remembers; `None` if there is none, or if nothing can be made of it.
fn read(path: &Path) -> io::Result<Option<Upload>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    match serde_json::from_slice(&text) {
        Ok(upload) => Ok(Some(upload)),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "an upload can't be read; it is lost");
            Ok(None)
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_remembered_for_its_owner_and_for_a_while() {
        let data = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(data.path(), 10).unwrap();
        let (owner, other) = (Principal::named("ada"), Principal::anonymous());
        let id = UploadId::draw().unwrap();
        let mut upload = Upload::new(&owner, "mesh".to_owned(), String::new());
        uploads.keep(id, &upload).unwrap();
        upload.length = Some(10);
        uploads.keep(id, &upload).unwrap();
        let uploads = Uploads::open(data.path(), 10).unwrap();
        assert_eq!(uploads.find(id, &owner).unwrap(), Some(upload));
        assert_eq!(uploads.find(id, &other).unwrap(), None);
        uploads.sweep(Duration::from_secs(3600)).unwrap();
        assert!(uploads.find(id, &owner).unwrap().is_some());
        uploads.sweep(Duration::ZERO).unwrap();
        assert_eq!(uploads.find(id, &owner).unwrap(), None);
        uploads.forget(id).unwrap();
        assert_eq!("..".parse::<UploadId>().ok(), None);
    }

    #[test]
    fn an_owner_has_so_many_under_way_and_what_cannot_be_read_is_none() {
        let data = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(data.path(), 2).unwrap();
        let (ada, bob) = (Principal::named("ada"), Principal::named("bob"));
        let begin = |owner: &Principal| {
            let id = UploadId::draw().unwrap();
            let upload = Upload::new(owner, String::new(), String::new());
            (id, uploads.begin(id, &upload).unwrap(), upload)
        };
        let (first, begun, mut upload) = begin(&ada);
        assert!(begun && begin(&ada).1);
        assert!(!begin(&ada).1, "a third one is too many");
        assert!(begin(&bob).1, "others are not concerned");
        upload.done = Some(CompletedUpload { url: "http://a".to_owned(), length: 1 });
        uploads.keep(first, &upload).unwrap();
        assert_eq!(uploads.find(first, &ada).unwrap(), Some(upload));
        let (third, begun, _) = begin(&ada);
        assert!(begun, "one that is done is not under way");
        fs::write(uploads.path(OPEN, third), "{").unwrap();
        assert_eq!(uploads.find(third, &ada).unwrap(), None);
        assert!(begin(&ada).1);
    }

    #[tokio::test]
    async fn whoever_comes_later_drives_away_who_was_there() {
        let data = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(data.path(), 10).unwrap();
        let id = UploadId::draw().unwrap();
        let first = uploads.turn(id);
        let mine = first.take().await;
        let working = tokio::spawn(async move {
            first.superseded().await;
            drop(mine);
        });
        drop(uploads.turn(id).take().await);
        working.await.unwrap();
        assert_eq!(lock(&uploads.0.busy).len(), 1);
        uploads.turn(UploadId::draw().unwrap());
        assert_eq!(lock(&uploads.0.busy).len(), 1, "what nobody uses is forgotten");
    }
}
