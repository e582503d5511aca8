//! Housekeeping: sessions that nobody used, and what processes that were killed left.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use fishplate_contract::SessionId;

use super::file::{remove_unread, version_of};
use super::{SessionError, Sessions, address, millis, names_in};

/// How old what is not named yet is before it can be what its process left.
const MOMENT: Duration = Duration::from_secs(60);

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSweepReport {
    /// Sessions that expired.
    pub expired: Vec<SessionId>,
    /// Files and directories that processes which were killed left.
    pub orphans: u64,
}

impl Sessions {
    /// Removes sessions that expired, unless they are in use (a job of theirs has not ended): those
    /// were used now. To be called every minute or so.
    ///
    /// # Errors
    /// If the directory can't be read or written.
    pub fn sweep_idle(
        &self,
        in_use: &dyn Fn(&SessionId) -> bool,
    ) -> Result<SessionSweepReport, SessionError> {
        let mut swept = SessionSweepReport::default();
        for id in self.ids()? {
            match self.sweep_one(&id, in_use, &mut swept) {
                // Closed meanwhile.
                Ok(()) | Err(SessionError::NoSuchSession) => {}
                Err(error) => return Err(error),
            }
        }
        let directory = &self.settings.directory;
        for name in names_in(directory)? {
            let path = directory.join(&name);
            let unfinished = name.starts_with(".new-") || name.starts_with(address::UNFINISHED);
            let dead =
                name.starts_with(".closed-") || (unfinished && self.is_older_than_a_moment(&path));
            // Whoever closes it removes it too.
            if dead && fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).is_ok() {
                swept.orphans += 1;
            }
        }
        Ok(swept)
    }

    fn sweep_one(
        &self,
        id: &SessionId,
        in_use: &dyn Fn(&SessionId) -> bool,
        swept: &mut SessionSweepReport,
    ) -> Result<(), SessionError> {
        let session = self.read(id)?;
        if in_use(id) {
            self.note_use(id, self.clock.now())?;
        } else if session.expires <= self.clock.now() {
            self.remove(id)?;
            swept.expired.push(*id);
            return Ok(());
        }
        let directory = self.directory(id);
        let versions = directory.join("versions");
        let there = names_in(&versions)?;
        // Names are looked at after versions: one that is named between is not taken for left.
        let mut named = HashSet::new();
        for name in names_in(&directory.join("names"))? {
            named.extend(version_of(&directory.join("names").join(name))?);
        }
        for version in there.into_iter().filter(|version| !named.contains(version)) {
            let path = versions.join(version);
            if self.is_older_than_a_moment(&path) && remove_unread(&path)? {
                swept.orphans += 1;
            }
        }
        // Names on their way.
        for name in names_in(&directory)? {
            let path = directory.join(&name);
            let known = matches!(name.as_str(), "session" | "names" | "versions");
            if !known && self.is_older_than_a_moment(&path) && fs::remove_file(&path).is_ok() {
                swept.orphans += 1;
            }
        }
        Ok(())
    }

    /// By its change, not by its modification: that of a linked file is its source's.
    fn is_older_than_a_moment(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        let changed = metadata.ctime().saturating_mul(1000);
        self.clock.now().0.saturating_sub(changed) >= millis(MOMENT)
    }
}
