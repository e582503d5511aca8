//! Mutexes whose holders may panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, whether or not a holder panicked: what it guards is whole between any two statements, and the panic of one request
/// must not end all the others.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
