//! What goes wrong, as the standard counts it: classes, and codes that carry a message.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fishplate_ranks as ranks;

use crate::arguments::{Out, Text, TextOut};
use crate::constants::*;
use crate::entry::entries;
use crate::handle::Comm;
use crate::status::Status;

/// A result of this room.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a function did not do what was asked.
#[derive(Clone, Debug)]
pub(crate) struct Error {
    /// The error's class, or a code that a callback returned.
    pub(crate) class: c_int,
    /// What was wrong, and what would be right; empty if a callback returned the code.
    pub(crate) message: String,
    /// The communicator that it belongs to, if the function was not given one.
    pub(crate) comm: Option<Comm>,
    /// Of what message, if one was received that was not as it should be.
    pub(crate) status: Option<Status>,
}

impl Error {
    /// The same, of this communicator.
    pub(crate) fn on(self, comm: Comm) -> Self {
        Self { comm: Some(comm), ..self }
    }
}

/// An error.
pub(crate) fn error(class: c_int, message: impl Into<String>) -> Error {
    Error { class, message: message.into(), comm: None, status: None }
}

/// What a callback returned.
pub(crate) fn returned(code: c_int) -> Result<()> {
    if code == MPI_SUCCESS { Ok(()) } else { Err(error(code, "")) }
}

impl Error {
    /// What went wrong with a receive from a rank of this group.
    pub(crate) fn of_receive(cause: ranks::Error, group: &ranks::Group) -> Self {
        let status = match &cause {
            ranks::Error::Truncated { capacity, from, tag, .. } => {
                let seen = ranks::Status {
                    source: Some(*from),
                    tag: Some(*tag),
                    length: usize::try_from(*capacity).unwrap_or(usize::MAX),
                    ..ranks::Status::EMPTY
                };
                Some(Status::of(seen.within(group)))
            }
            _ => None,
        };
        Self { status, ..cause.into() }
    }
}

impl From<ranks::Error> for Error {
    fn from(cause: ranks::Error) -> Self {
        let class = match &cause {
            ranks::Error::Failed { .. } | ranks::Error::Left { .. } => MPI_ERR_PROC_ABORTED,
            ranks::Error::Truncated { .. } => MPI_ERR_TRUNCATE,
            ranks::Error::InvalidRank { .. } => MPI_ERR_RANK,
            ranks::Error::InvalidTag { .. } => MPI_ERR_TAG,
            ranks::Error::BufferFull { .. } => MPI_ERR_BUFFER,
            ranks::Error::Argument { .. } => MPI_ERR_ARG,
            _ => MPI_ERR_OTHER,
        };
        error(class, cause.to_string())
    }
}

/// Messages that are remembered, for [`MPI_Error_string`](Codes::text): the latest.
const MESSAGES: usize = 128;
/// The first code of a message. Codes up to `MPI_ERR_LASTCODE` are the implementation's.
const FIRST_MESSAGE: c_int = 0x1000;
/// Classes that messages have are below this.
const CLASSES: c_int = 64;

/// Codes that are in use beyond the standard's.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    messages: VecDeque<String>,
    /// How many messages there were before the first of them.
    forgotten: usize,
    /// What programs added: classes are their own class.
    added: BTreeMap<c_int, Added>,
}

#[derive(Debug)]
struct Added {
    class: c_int,
    text: String,
}

static CODES: Mutex<Codes> =
    Mutex::new(Codes { messages: VecDeque::new(), forgotten: 0, added: BTreeMap::new() });

fn codes() -> MutexGuard<'static, Codes> {
    CODES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Error {
    /// The code that a program gets: its class and, for [`MESSAGES`] more errors, its message.
    pub(crate) fn code(&self, function: &str) -> c_int {
        if self.message.is_empty() || !(1..CLASSES).contains(&self.class) {
            return self.class;
        }
        let mut codes = codes();
        if codes.messages.len() == MESSAGES {
            codes.messages.pop_front();
            codes.forgotten += 1;
        }
        codes.messages.push_back(format!("{function}: {}", self.message));
        let slot = (codes.forgotten + codes.messages.len() - 1) % MESSAGES;
        FIRST_MESSAGE + c_int::try_from(slot).unwrap_or_default() * CLASSES + self.class
    }
}

impl Codes {
    /// The class of a code.
    fn class(&self, code: c_int) -> Result<c_int> {
        let last_message =
            FIRST_MESSAGE + CLASSES * c_int::try_from(MESSAGES).unwrap_or(c_int::MAX);
        match code {
            FIRST_MESSAGE.. if code < last_message => Ok((code - FIRST_MESSAGE) % CLASSES),
            _ if name_of(code).is_some() => Ok(code),
            _ => match self.added.get(&code) {
                Some(added) => Ok(added.class),
                None => Err(error(MPI_ERR_ARG, format!("{code} is no error code"))),
            },
        }
    }

    /// What is to be said of a code.
    fn text(&self, code: c_int) -> Result<String> {
        let class = self.class(code)?;
        if let Some(added) = self.added.get(&code) {
            return Ok(added.text.clone());
        }
        let name = name_of(class).unwrap_or_default();
        let slot = usize::try_from((code - FIRST_MESSAGE) / CLASSES)
            .ok()
            .filter(|_| code >= FIRST_MESSAGE);
        let message = slot.and_then(|slot| {
            let at = (slot + MESSAGES - self.forgotten % MESSAGES) % MESSAGES;
            self.messages.get(at)
        });
        Ok(message.map_or(name.to_owned(), |message| format!("{name}: {message}")))
    }

    fn add(&mut self, class: Option<c_int>) -> c_int {
        let code = self.added.last_key_value().map_or(MPI_ERR_LASTCODE, |(last, _)| *last) + 1;
        self.added.insert(code, Added { class: class.unwrap_or(code), text: String::new() });
        crate::attribute::set_last_used_code(code);
        code
    }

    /// What a program added, to be changed.
    fn added(&mut self, code: c_int) -> Result<&mut Added> {
        self.added
            .get_mut(&code)
            .ok_or_else(|| error(MPI_ERR_ARG, format!("{code} was not added by this program")))
    }

    fn remove(&mut self, code: c_int, is_class: bool) -> Result<()> {
        let added = self.added(code)?;
        if (added.class == code) != is_class {
            return Err(error(
                MPI_ERR_ARG,
                format!("{code} is a class, not a code, or the reverse"),
            ));
        }
        if !added.text.is_empty() {
            return Err(error(MPI_ERR_ARG, format!("{code} has a string: remove that first")));
        }
        if self.added.iter().any(|(other, added)| *other != code && added.class == code) {
            return Err(error(MPI_ERR_ARG, format!("class {code} has codes: remove them first")));
        }
        self.added.remove(&code);
        let last = self.added.last_key_value().map_or(MPI_ERR_LASTCODE, |(last, _)| *last);
        crate::attribute::set_last_used_code(last);
        Ok(())
    }
}

/// What is to be said of a code, whatever it is.
pub(crate) fn text_of(code: c_int) -> String {
    codes().text(code).unwrap_or_else(|_| format!("error {code}"))
}

/// A predefined class's name.
fn name_of(class: c_int) -> Option<&'static str> {
    CLASS_NAMES.iter().find(|(value, _)| *value == class).map(|(_, name)| *name)
}

entries! {
    fn Error_class(code: c_int, class: Out<c_int>) on () => {
        class.set(codes().class(code)?)
    }
    fn Error_string(code: c_int, text: TextOut, length: Out<c_int>) on () => {
        text.set_with_length(&codes().text(code)?, MPI_MAX_ERROR_STRING, length)
    }
    fn Add_error_class(class: Out<c_int>) on () => {
        class.set(codes().add(None))
    }
    fn Add_error_code(class: c_int, code: Out<c_int>) on () => {
        let mut codes = codes();
        if codes.class(class)? != class {
            return Err(error(MPI_ERR_ARG, format!("{class} is a code, not a class")));
        }
        code.set(codes.add(Some(class)))
    }
    fn Add_error_string(code: c_int, text: Text) on () => {
        codes().added(code)?.text = text.get()?;
        Ok(())
    }
    fn Remove_error_class(class: c_int) on () => {
        codes().remove(class, true)
    }
    fn Remove_error_code(code: c_int) on () => {
        codes().remove(code, false)
    }
    fn Remove_error_string(code: c_int) on () => {
        codes().added(code)?.text.clear();
        Ok(())
    }
}
