//! Handles: pointer-sized numbers. The standard's own are below [`FIRST`]; ours count up from there, so that every one
//! fits a Fortran integer, and a wrong one is an error and no crash.

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use slab::Slab;

use crate::arguments::Out;
use crate::constants::*;
use crate::error::{Result, error};

/// The first handle that is made by a program (MPI 5.0, 20.3.3).
const FIRST: usize = 0x1000;

/// What a handle is of.
pub(crate) trait Kind: Sized + 'static {
    /// What it stands for.
    type Object: Send + Sync + 'static;
    /// Its name in messages.
    const NAME: &'static str;
    /// The null handle. The predefined ones follow it.
    const NULL: usize;
    /// The class of the error that a wrong one is.
    const CLASS: c_int;

    /// Where its objects are.
    fn table() -> &'static Table<Self::Object>;
}

/// Objects by handle.
pub(crate) struct Table<T>(RwLock<Objects<T>>);

struct Objects<T> {
    /// By their handle's distance from the null handle.
    predefined: Vec<Option<Arc<T>>>,
    made: Slab<Arc<T>>,
}

impl<T> Table<T> {
    /// Without objects.
    pub(crate) fn new(predefined: Vec<Option<Arc<T>>>) -> Self {
        Self(RwLock::new(Objects { predefined, made: Slab::new() }))
    }

    fn read<U>(&self, act: impl FnOnce(&Objects<T>) -> U) -> U {
        act(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<U>(&self, act: impl FnOnce(&mut Objects<T>) -> U) -> U {
        act(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A handle, as C has it.
#[repr(transparent)]
pub(crate) struct Handle<K>(usize, PhantomData<fn() -> K>);

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Handle<K> {}

impl<K> PartialEq for Handle<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K> Eq for Handle<K> {}

impl<K: Kind> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}", K::NAME, self.0)
    }
}

impl<K: Kind> Handle<K> {
    /// The null handle.
    pub(crate) const NULL: Self = Self::predefined(K::NULL);

    /// One of `mpi.h`.
    pub(crate) const fn predefined(value: usize) -> Self {
        Self(value, PhantomData)
    }

    /// A new object's.
    pub(crate) fn new(object: K::Object) -> Self {
        Self::of(Arc::new(object))
    }

    /// The same.
    pub(crate) fn of(object: Arc<K::Object>) -> Self {
        Self(K::table().write(|objects| FIRST + objects.made.insert(object)), PhantomData)
    }

    /// Gives a predefined handle its object, or takes it away.
    pub(crate) fn define(self, object: Option<Arc<K::Object>>) {
        K::table().write(|objects| {
            let at = self.0 - K::NULL;
            if objects.predefined.len() <= at {
                objects.predefined.resize_with(at + 1, || None);
            }
            objects.predefined[at] = object;
        });
    }

    /// Its object.
    pub(crate) fn get(self) -> Result<Arc<K::Object>> {
        self.read(Arc::clone)
    }

    /// A part of its object, which costs less than all of it.
    pub(crate) fn read<T>(self, of: impl FnOnce(&Arc<K::Object>) -> T) -> Result<T> {
        let found = K::table().read(|objects| {
            let object = match self.0.checked_sub(FIRST) {
                Some(at) => objects.made.get(at),
                None => {
                    let at = self.0.checked_sub(K::NULL);
                    at.and_then(|at| objects.predefined.get(at)?.as_ref())
                }
            };
            object.map(of)
        });
        found.ok_or_else(|| self.invalid())
    }

    /// What the first of all objects that programs have made gives.
    pub(crate) fn first<T>(of: impl Fn(&K::Object) -> Option<T>) -> Option<T> {
        K::table().read(|objects| objects.made.iter().find_map(|(_, object)| of(object)))
    }

    /// Ends a handle; its object lives on while something uses it.
    pub(crate) fn remove(self) -> Result<Arc<K::Object>> {
        let at = self.0.checked_sub(FIRST).ok_or_else(|| self.invalid())?;
        K::table().write(|objects| objects.made.try_remove(at)).ok_or_else(|| self.invalid())
    }

    /// Why it has no object.
    fn invalid(self) -> crate::error::Error {
        let problem = if self == Self::NULL {
            format!("the {} is null", K::NAME)
        } else if let Some(problem) = crate::environment::problem() {
            format!("{self:?}: {problem}")
        } else {
            format!("there is no {self:?} (any more)")
        };
        error(K::CLASS, problem)
    }

    /// Whether it is one of `mpi.h`.
    pub(crate) fn is_predefined(self) -> bool {
        self.0 < FIRST
    }

    /// As an integer.
    pub(crate) fn to_int(self) -> c_int {
        c_int::try_from(self.0).unwrap_or(-1)
    }

    /// From an integer.
    pub(crate) fn from_int(value: c_int) -> Self {
        Self(usize::try_from(value).unwrap_or(K::NULL), PhantomData)
    }

    /// As callbacks get it.
    pub(crate) fn to_address(self) -> usize {
        self.0
    }
}

impl<K: Kind> Out<Handle<K>> {
    /// Ends the handle that is there, and puts the null handle there.
    pub(crate) fn free(self) -> Result<Arc<K::Object>> {
        let object = self.get()?.remove()?;
        self.set(Handle::NULL)?;
        Ok(object)
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $alias:ident = $kind:ident { $object:ty, $name:literal, $null:literal, $class:ident, $predefined:expr })+) => { $(
        $(#[doc = $doc])+
        pub(crate) struct $kind;

        impl Kind for $kind {
            type Object = $object;
            const NAME: &'static str = $name;
            const NULL: usize = $null;
            const CLASS: c_int = $class;

            fn table() -> &'static Table<Self::Object> {
                static TABLE: LazyLock<Table<$object>> = LazyLock::new(|| Table::new($predefined));
                &TABLE
            }
        }

        $(#[doc = $doc])+
        pub(crate) type $alias = Handle<$kind>;
    )+ };
}

kinds! {
    /// Of reductions.
    Op = OpKind { crate::operation::Op, "operation", 0x20, MPI_ERR_OP, crate::operation::predefined() }
    /// Of communicators.
    Comm = CommKind { crate::communicator::CommObject, "communicator", 0x100, MPI_ERR_COMM, Vec::new() }
    /// Of groups.
    Group = GroupKind { crate::group::GroupObject, "group", 0x108, MPI_ERR_GROUP, Vec::new() }
    /// Of windows; there are none.
    Win = WinKind { (), "window", 0x110, MPI_ERR_WIN, Vec::new() }
    /// Of files; there are none.
    File = FileKind { (), "file", 0x118, MPI_ERR_FILE, Vec::new() }
    /// Of sessions.
    Session = SessionKind { crate::session::SessionObject, "session", 0x120, MPI_ERR_SESSION, Vec::new() }
    /// Of messages that a matched probe took.
    Message = MessageKind { crate::point_to_point::MatchedMessage, "message", 0x128, MPI_ERR_REQUEST, Vec::new() }
    /// Of info objects.
    Info = InfoKind { crate::info::InfoObject, "info", 0x130, MPI_ERR_INFO, crate::info::predefined() }
    /// Of error handlers.
    Errhandler = ErrhandlerKind {
        crate::error_handler::ErrorHandler, "error handler", 0x140, MPI_ERR_ERRHANDLER, crate::error_handler::predefined()
    }
    /// Of requests.
    Request = RequestKind { crate::request::RequestObject, "request", 0x180, MPI_ERR_REQUEST, Vec::new() }
    /// Of datatypes.
    Datatype = DatatypeKind { crate::datatype::DatatypeObject, "datatype", 0x200, MPI_ERR_TYPE, crate::datatype::predefined() }
}

/// `MPI_COMM_WORLD`.
pub(crate) const COMM_WORLD: Comm = Comm::predefined(0x101);
/// `MPI_COMM_SELF`.
pub(crate) const COMM_SELF: Comm = Comm::predefined(0x102);
/// `MPI_GROUP_EMPTY`.
pub(crate) const GROUP_EMPTY: Group = Group::predefined(0x109);
/// `MPI_MESSAGE_NO_PROC`.
pub(crate) const MESSAGE_NO_PROC: Message = Message::predefined(0x129);
/// `MPI_ERRORS_ARE_FATAL`.
pub(crate) const ERRORS_ARE_FATAL: Errhandler = Errhandler::predefined(0x141);
/// `MPI_ERRORS_RETURN`.
pub(crate) const ERRORS_RETURN: Errhandler = Errhandler::predefined(0x143);
