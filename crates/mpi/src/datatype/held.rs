//! Handles of datatypes that outlive `MPI_Type_free`, for functions of programs that are called with them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::handle::Datatype;

#[derive(Default)]
struct Use {
    holders: usize,
    /// The program has freed it.
    freed: bool,
}

type Uses = BTreeMap<usize, Use>;

/// By the handle.
fn uses() -> MutexGuard<'static, Uses> {
    static USES: Mutex<Uses> = Mutex::new(BTreeMap::new());
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle that is good as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldHandle(Datatype);

impl HeldHandle {
    /// Of a datatype that is not freed yet.
    pub(crate) fn new(handle: Datatype) -> Self {
        uses().entry(handle.to_address()).or_default().holders += 1;
        Self(handle)
    }

    /// The handle.
    pub(crate) fn get(&self) -> Datatype {
        self.0
    }
}

impl Drop for HeldHandle {
    fn drop(&mut self) {
        let mut uses = uses();
        let key = self.0.to_address();
        let Some(one) = uses.get_mut(&key) else { return };
        one.holders -= 1;
        if one.holders == 0 && uses.remove(&key).is_some_and(|one| one.freed) {
            // It is there: nobody else removes it.
            let _ = self.0.remove();
        }
    }
}

/// Ends a handle, now or when nobody holds it any more.
pub(super) fn free(handle: Datatype) -> Result<()> {
    match uses().get_mut(&handle.to_address()) {
        Some(one) => one.freed = true,
        None => drop(handle.remove()?),
    }
    Ok(())
}
