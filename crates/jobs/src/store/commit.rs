//! Group commit: many writers, one transaction. A thread of its own takes what has gathered while
//! the transaction before was being written, so that under load one `fsync` serves many.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::{Store, StoreError, Transaction};

/// The most that one transaction takes, so that nobody waits for ever.
const LARGEST_GROUP: usize = 256;

/// Writes to a store, gathered into groups.
pub struct GroupCommit {
    queue: Option<Sender<QueuedCommit>>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the writer once the transaction is over whether it was committed.
type CommitReply = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

type CommitWork =
    Box<dyn FnOnce(&mut dyn Transaction) -> Result<CommitReply, (StoreError, CommitReply)> + Send>;

struct QueuedCommit {
    durable: bool,
    work: CommitWork,
    /// Used instead of `work` if no transaction could begin.
    refuse: CommitReply,
}

/// A write that did not happen.
pub type WriteError = Arc<StoreError>;

impl GroupCommit {
    /// Starts the thread.
    ///
    /// # Panics
    /// If the system has no thread left to give at start-up.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let (queue, items) = channel();
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_groups(&*store, &items))
            .expect("a thread for the job store");
        Self { queue: Some(queue), thread: Some(thread) }
    }

    /// Runs `work` within the next group and gives its result once the group is committed.
    ///
    /// # Errors
    /// What `work` returned, or what the storage said at commit. An error of one work fails the
    /// whole group: those that were in it with the same error, nothing of them has happened.
    pub async fn write<T: Send + 'static>(
        &self,
        durable: bool,
        work: impl FnOnce(&mut dyn Transaction) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (tell, told) = oneshot::channel();
        let tell = Arc::new(Mutex::new(Some(tell)));
        let answer =
            move |tell: CommitNotifier<T>| -> Box<dyn FnOnce(Result<T, WriteError>) + Send> {
                Box::new(move |result| {
                    let tell = tell.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(tell) = tell {
                        let _ = tell.send(result);
                    }
                })
            };
        let (ran, refused) = (answer(Arc::clone(&tell)), answer(tell));
        let refuse: CommitReply = Box::new(move |result| refused(result.and(Err(closed()))));
        let work: CommitWork = Box::new(move |transaction| match work(transaction) {
            Ok(value) => Ok(Box::new(move |committed| ran(committed.map(|()| value)))),
            Err(error) => {
                Err((error, Box::new(move |committed| ran(committed.and(Err(closed()))))))
            }
        });
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(QueuedCommit { durable, work, refuse }).map_err(|_| StoreError::Closed)?;
        told.await.unwrap_or_else(|_| Err(closed()))
    }
}

type CommitNotifier<T> = Arc<Mutex<Option<oneshot::Sender<Result<T, WriteError>>>>>;

fn closed() -> WriteError {
    Arc::new(StoreError::Closed)
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_groups(store: &dyn Store, items: &Receiver<QueuedCommit>) {
    while let Ok(first) = items.recv() {
        let mut group = vec![first];
        while group.len() < LARGEST_GROUP
            && let Ok(item) = items.try_recv()
        {
            group.push(item);
        }
        write_group(store, group);
    }
}

/// Writes a group. If a work fails, those that ran with it are told the same error, for nothing of
/// them has happened; those that had not run yet are tried without it.
fn write_group(store: &dyn Store, group: Vec<QueuedCommit>) {
    let mut waiting = VecDeque::from(group);
    while !waiting.is_empty() {
        let durable = waiting.iter().any(|item| item.durable);
        let mut answers = Vec::with_capacity(waiting.len());
        let committed = store.transact(durable, &mut |transaction| {
            while let Some(item) = waiting.pop_front() {
                match (item.work)(transaction) {
                    Ok(answer) => answers.push(answer),
                    Err((error, answer)) => {
                        answers.push(answer);
                        return Err(error);
                    }
                }
            }
            Ok(())
        });
        let committed = committed.map_err(Arc::new);
        if committed.is_err() && answers.is_empty() {
            // The transaction did not even begin: tell everybody.
            for item in waiting.drain(..) {
                (item.refuse)(committed.clone());
            }
        }
        for answer in answers {
            answer(committed.clone());
        }
    }
}

impl std::fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupCommit").finish_non_exhaustive()
    }
}
