//! Sessions in another place, and there as sessions again.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use fishplate_contract::SessionId;

use super::address::KEY;
use super::{SessionError, make_private, names_in};
use crate::backup::{Copier, CopyMode, shift};

/// How often a session is begun anew that changes while it is brought.
const TRIES: usize = 20;

/// Brings all sessions of a directory into one that is not there yet. Servers go on meanwhile. Gives
/// their number.
///
/// # Errors
/// If something can't be read or written.
pub fn backup(from: &Path, to: &Path, bringing: &mut Copier<'_>) -> Result<u64, SessionError> {
    make_private(to)?;
    let key = from.join(KEY);
    bringing
        .file(&key, &to.join(KEY), CopyMode::Copy)
        .map_err(SessionError::io("copying", &key))?;
    let mut count = 0;
    for name in names_in(from)? {
        if SessionId::from_str(&name).is_err() {
            continue;
        }
        let (session, target) = (from.join(&name), to.join(&name));
        for tries in 1.. {
            let before = bringing.brought;
            let error = match bring(&session, &target, bringing) {
                Ok(()) => {
                    count += 1;
                    break;
                }
                Err(error) => error,
            };
            // A file was put in the place of another, or the session was closed.
            bringing.brought = before;
            let _ = fs::remove_dir_all(&target);
            if !session.exists() {
                break;
            }
            if error.kind() != io::ErrorKind::NotFound || tries == TRIES {
                return Err(SessionError::io("copying", &session)(error));
            }
        }
    }
    Ok(count)
}

/// Names first, so that their versions are among those that are brought then.
fn bring(session: &Path, target: &Path, bringing: &mut Copier<'_>) -> io::Result<()> {
    make_private(target).map_err(|error| io::Error::other(error.to_string()))?;
    let sharing = |_: &Metadata| CopyMode::Link;
    bringing.tree(&session.join("names"), &target.join("names"), sharing)?;
    bringing.tree(&session.join("versions"), &target.join("versions"), sharing)?;
    for name in fs::read_dir(target.join("names"))? {
        // Turned between the two.
        fs::metadata(name?.path())?;
    }
    bringing.file(&session.join("session"), &target.join("session"), CopyMode::Copy)
}

/// Has all sessions of a directory idle anew for as long as they had when they were brought.
///
/// # Errors
/// If something can't be written.
pub fn shift_times(directory: &Path, by: Duration) -> Result<(), SessionError> {
    for name in names_in(directory)? {
        if SessionId::from_str(&name).is_ok() {
            let session = directory.join(&name).join("session");
            shift(&session, by).map_err(SessionError::io("writing", &session))?;
        }
    }
    Ok(())
}
