//! How many sessions there are, and whose.
//!
//! Other processes open and close sessions of the same directory. It tells the truth, but to ask it of
//! everything for each session that is opened would take longer the more there are: so what was read is
//! remembered, and what is new is read again after a moment, or before anybody is refused.

use std::collections::{HashMap, HashSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fishplate_contract::{Principal, SessionId};

use super::{SessionError, Sessions};

/// How long what other processes did may not be known.
const MOMENT: Duration = Duration::from_secs(1);

/// The sessions that are known.
#[derive(Debug, Default)]
pub(super) struct SessionIndex {
    owners: HashMap<SessionId, Principal>,
    counts: HashMap<Principal, usize>,
    taken: Option<Instant>,
}

impl SessionIndex {
    pub(super) fn add(&mut self, id: SessionId, owner: &Principal) {
        if self.owners.insert(id, owner.clone()).is_none() {
            *self.counts.entry(owner.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, id: &SessionId) {
        let Some(owner) = self.owners.remove(id) else { return };
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }

    fn is_of_now(&self) -> bool {
        self.taken.is_some_and(|taken| taken.elapsed() < MOMENT)
    }
}

impl Sessions {
    /// The index, if this owner may open one more session.
    pub(super) fn index_for(
        &self,
        owner: &Principal,
    ) -> Result<MutexGuard<'_, SessionIndex>, SessionError> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = !index.is_of_now();
        if fresh {
            self.take(&mut index)?;
        }
        if let Err(error) = self.admits(&index, owner) {
            if fresh {
                return Err(error);
            }
            // Somebody else may have closed some.
            self.take(&mut index)?;
            self.admits(&index, owner)?;
        }
        Ok(index)
    }

    fn admits(&self, index: &SessionIndex, owner: &Principal) -> Result<(), SessionError> {
        let own = index.counts.get(owner).copied().unwrap_or_default();
        for (limit, count, most) in [
            ("sessions_per_owner", own, self.settings.per_owner),
            ("sessions_open", index.owners.len(), self.settings.open),
        ] {
            if count >= most {
                return Err(SessionError::TooMany { limit, value: most });
            }
        }
        Ok(())
    }

    fn take(&self, index: &mut SessionIndex) -> Result<(), SessionError> {
        let there: HashSet<SessionId> = self.ids()?.into_iter().collect();
        let gone: Vec<SessionId> =
            index.owners.keys().filter(|id| !there.contains(id)).copied().collect();
        gone.iter().for_each(|id| index.remove(id));
        for id in there {
            if !index.owners.contains_key(&id) {
                match self.read(&id) {
                    Ok(session) => index.add(id, &session.owner),
                    // Closed meanwhile.
                    Err(SessionError::NoSuchSession) => {}
                    Err(error) => {
                        // It counts, as nobody's; others are not concerned.
                        tracing::warn!(session = %id, %error, "a session can't be read");
                        index.add(id, &Principal::anonymous());
                    }
                }
            }
        }
        index.taken = Some(Instant::now());
        Ok(())
    }

    /// A session was closed.
    pub(super) fn forget(&self, id: &SessionId) {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}
