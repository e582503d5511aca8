//! A store, as tasks of a runtime use it: no task waits for a disk or for another process in a thread
//! of the runtime.

use std::sync::Arc;

use super::commit::{GroupCommit, WriteError};
use super::{Store, StoreError, Transaction};

/// A store for tasks. Writes are gathered into groups, in a thread of their own; reads wait for no
/// writer, in a thread that may block.
pub struct AsyncStore {
    store: Arc<dyn Store>,
    commit: GroupCommit,
}

impl AsyncStore {
    /// This store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { commit: GroupCommit::new(Arc::clone(&store)), store }
    }

    /// Runs `work` within the next group; see [`GroupCommit::write`].
    ///
    /// # Errors
    /// What `work` returned, or what the storage said at commit.
    pub async fn write<T: Send + 'static>(
        &self,
        durable: bool,
        work: impl FnOnce(&mut dyn Transaction) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, WriteError> {
        self.commit.write(durable, work).await
    }

    /// Runs `work`, which only reads, and gives its result.
    ///
    /// # Errors
    /// What `work` returned.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Transaction) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(|store| {
            let (mut work, mut found) = (Some(work), None);
            store.read(&mut |transaction| {
                let work = work.take().ok_or(StoreError::Closed)?;
                found = Some(work(transaction)?);
                Ok(())
            })?;
            found.ok_or(StoreError::Closed)
        })
        .await
    }

    /// The store itself, for threads that may block.
    pub fn blocking(&self) -> &dyn Store {
        &*self.store
    }

    /// Has the store itself do something that may take a while.
    ///
    /// # Errors
    /// What it says.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || work(&*store)).await;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "the job store gave no answer");
            Err(StoreError::Closed)
        })
    }
}

impl std::fmt::Debug for AsyncStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.commit.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;
    use crate::store::memory::MemoryStore;

    /// A store whose reads wait until they are let go.
    struct Slow(MemoryStore, Mutex<Receiver<()>>);

    impl Store for Slow {
        fn transact(
            &self,
            durable: bool,
            work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
        ) -> Result<(), StoreError> {
            self.0.transact(durable, work)
        }

        fn read(
            &self,
            work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
        ) -> Result<(), StoreError> {
            let let_go = self.1.lock().unwrap().recv_timeout(Duration::from_secs(30));
            let_go.map_err(|_| StoreError::Closed)?;
            self.0.read(work)
        }
    }

    #[tokio::test]
    async fn a_slow_read_leaves_the_runtime_to_others() {
        let (let_go, waits) = channel();
        let store = AsyncStore::new(Arc::new(Slow(MemoryStore::default(), Mutex::new(waits))));
        let other = async {
            tokio::task::yield_now().await;
            store.write(false, |t| t.backlog()).await.unwrap();
            let_go.send(()).unwrap();
        };
        let (read, ()) = tokio::join!(store.read(|t| t.backlog()), other);
        assert_eq!(read.unwrap().queued, 0);
    }
}
