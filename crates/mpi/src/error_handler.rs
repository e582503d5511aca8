//! Error handlers (MPI 5.0, 9.3): who is told when a function fails.

use std::ffi::c_int;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::arguments::Out;
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Error, Result, error, text_of};
use crate::handle::{
    COMM_SELF, COMM_WORLD, Comm, ERRORS_ARE_FATAL, ERRORS_RETURN, Errhandler, File, Handle, Kind,
    Session, Win,
};

/// `MPI_Comm_errhandler_function` and its like: a place with the handle, a place with the code.
type Function = unsafe extern "C" fn(handle: *mut usize, code: *mut c_int, ...);

/// What is done with an error.
#[derive(Debug)]
pub(crate) enum ErrorHandler {
    /// All ranks end.
    Fatal,
    /// All ranks that are connected by the communicator end; so do all.
    Abort,
    /// The code is returned.
    Return,
    /// A function of the program is called.
    Function(UserHandler),
}

/// A function that handles errors of objects of one kind.
#[derive(Debug)]
pub(crate) struct UserHandler {
    /// The kind's name.
    kind: &'static str,
    function: Function,
    /// The handle that the program has of it, and how often it was given it and has not freed it. All are the same one, as from
    /// other implementations, so that two tell by being equal that they are of one handler.
    handle: Mutex<Option<(Errhandler, usize)>>,
}

impl ErrorHandler {
    /// A handle for the program, which frees it. A predefined one has one of its own.
    fn give(self: &Arc<Self>, predefined: Errhandler) -> Errhandler {
        let Self::Function(user) = &**self else { return predefined };
        let mut given = user.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let (handle, count) = given.get_or_insert_with(|| (Errhandler::of(self.clone()), 0));
        *count += 1;
        *handle
    }

    /// The program frees a handle of it.
    fn take_back(&self, handle: Errhandler) -> Result<()> {
        let Self::Function(user) = self else { return Ok(()) };
        let mut given = user.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = given.as_mut().filter(|(_, count)| *count > 1) {
            *count -= 1;
            return Ok(());
        }
        *given = None;
        handle.remove().map(drop)
    }
}

/// Those of `mpi.h`, by their distance from the null handle.
pub(crate) fn predefined() -> Vec<Option<Arc<ErrorHandler>>> {
    let handlers = [ErrorHandler::Fatal, ErrorHandler::Abort, ErrorHandler::Return];
    std::iter::once(None).chain(handlers.map(|handler| Some(Arc::new(handler)))).collect()
}

/// The error handler of an object.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<SlotHandler>);

#[derive(Clone, Debug)]
struct SlotHandler {
    handle: Errhandler,
    object: Arc<ErrorHandler>,
    /// Whether the program has set it.
    is_set: bool,
}

impl SlotHandler {
    /// One that the program sets for an object of this kind.
    fn of(handler: Errhandler, kind: &str) -> Result<Self> {
        let object = handler.get()?;
        if let ErrorHandler::Function(UserHandler { kind: of, .. }) = &*object
            && *of != kind
        {
            return Err(error(
                MPI_ERR_ARG,
                format!("this error handler was made for a {of}, not for a {kind}"),
            ));
        }
        Ok(Self { handle: handler, object, is_set: true })
    }
}

impl Slot {
    /// With the handler that the program gives for an object of this kind.
    pub(crate) fn new(handler: Errhandler, kind: &str) -> Result<Self> {
        Ok(Self(Mutex::new(SlotHandler::of(handler, kind)?)))
    }

    fn get(&self) -> SlotHandler {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, for an object made from this one's.
    pub(crate) fn inherited(&self) -> Self {
        Self(Mutex::new(self.get()))
    }

    fn set(&self, handler: Errhandler, kind: &str) -> Result<()> {
        let held = SlotHandler::of(handler, kind)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    /// A handle of it, which the caller frees.
    fn handle(&self) -> Errhandler {
        let SlotHandler { handle, object, .. } = self.get();
        object.give(handle)
    }
}

/// What an error belongs to: an object with an error handler, or nothing.
pub(crate) trait Blamed: Copy {
    /// Its kind.
    const KIND: &'static str;
    /// Its error handler, and its handle for it.
    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)>;
}

impl Blamed for Comm {
    const KIND: &'static str = "communicator";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        Some((self.get().ok()?.error_handler.get().object, self.to_address()))
    }
}

/// What makes an object of this kind with this handler is told by it (MPI 5.0, 7.4.2 and 11.3.1).
impl Blamed for (Errhandler, &'static str) {
    const KIND: &'static str = "error handler";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        Some((SlotHandler::of(self.0, self.1).ok()?.object, Comm::NULL.to_address()))
    }
}

impl Blamed for Session {
    const KIND: &'static str = "session";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        let session = self.get().ok()?;
        Some((session.error_handler.get().object, self.to_address()))
    }
}

/// The handler of `MPI_FILE_NULL`, with which files begin. They alone return their errors by default (MPI 5.0, 14.7).
static FILES: LazyLock<Slot> = LazyLock::new(|| {
    let object = Arc::new(ErrorHandler::Return);
    Slot(Mutex::new(SlotHandler { handle: ERRORS_RETURN, object, is_set: false }))
});

/// That of this file; there is none but `MPI_FILE_NULL`.
fn of_file(file: File) -> Result<&'static Slot> {
    if file != File::NULL {
        file.get()?;
    }
    Ok(&FILES)
}

impl Blamed for File {
    const KIND: &'static str = "file";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        Some((FILES.get().object, self.to_address()))
    }
}

/// What is only returned.
#[derive(Clone, Copy)]
pub(crate) struct Returned;

impl Blamed for Returned {
    const KIND: &'static str = "tool";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        Some((ERRORS_RETURN.get().ok()?, 0))
    }
}

/// What belongs to no object is raised with `MPI_COMM_SELF` (MPI 5.0, 9.3);
/// with `MPI_COMM_WORLD`, as before MPI 4.0, if the program has set that one's handler only.
impl Blamed for () {
    const KIND: &'static str = "communicator";

    fn handler(self) -> Option<(Arc<ErrorHandler>, usize)> {
        let held = |comm: Comm| Some((comm, comm.get().ok()?.error_handler.get()));
        let is_set = |(_, held): &(Comm, SlotHandler)| held.is_set;
        let found = [COMM_SELF, COMM_WORLD].into_iter().filter_map(held).find(is_set);
        let (comm, held) = found.or_else(|| held(COMM_SELF))?;
        Some((held.object, comm.to_address()))
    }
}

/// What the function returns: success, or its error's code once the handler has had it.
pub(crate) fn finish(function: &'static str, blamed: impl Blamed, result: Result<()>) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(function, blamed, &error),
    }
}

/// Tells the handler; the error's code.
#[cold]
pub(crate) fn raise<B: Blamed>(function: &str, blamed: B, error: &Error) -> c_int {
    let mut code = error.code(function);
    let found = match error.comm {
        Some(comm) => comm.handler(),
        None => blamed.handler(),
    };
    match found.or_else(|| ().handler()) {
        Some((handler, handle)) => match &*handler {
            ErrorHandler::Return => {}
            ErrorHandler::Function(UserHandler { function, .. }) => {
                let mut handle = handle;
                // SAFETY: the program gave us a function with these arguments; both places live here.
                unsafe { function(&raw mut handle, &raw mut code) };
            }
            ErrorHandler::Fatal | ErrorHandler::Abort => fatal(code),
        },
        None => fatal(code),
    }
    code
}

fn fatal(code: c_int) -> ! {
    let rank = crate::environment::rank().map_or(String::new(), |rank| format!("rank {rank}: "));
    // Nothing better can be done if nobody reads it.
    let _ = writeln!(std::io::stderr(), "{rank}{}", text_of(code));
    crate::environment::abort(1)
}

fn create<K: Kind>(function: Option<Function>, handler: Out<Errhandler>) -> Result<()> {
    let function =
        function.ok_or_else(|| error(MPI_ERR_ARG, "the error handler is a null pointer"))?;
    let user = UserHandler { kind: K::NAME, function, handle: Mutex::new(None) };
    handler.set(Arc::new(ErrorHandler::Function(user)).give(Errhandler::NULL))
}

fn call<B: Blamed>(blamed: B, code: c_int) -> Result<()> {
    raise("MPI_call_errhandler", blamed, &error(code, ""));
    Ok(())
}

/// Handles of objects with an error handler of their own.
fn slot<K: Kind, T>(handle: Handle<K>, of: impl FnOnce(&K::Object) -> T) -> Result<T> {
    Ok(of(&*handle.get()?))
}

entries! {
    fn Comm_create_errhandler(function: Option<Function>, handler: Out<Errhandler>) on () => {
        create::<crate::handle::CommKind>(function, handler)
    }
    fn Session_create_errhandler(function: Option<Function>, handler: Out<Errhandler>) on () => {
        create::<crate::handle::SessionKind>(function, handler)
    }
    fn File_create_errhandler(function: Option<Function>, handler: Out<Errhandler>) on () => {
        create::<crate::handle::FileKind>(function, handler)
    }
    fn Win_create_errhandler(function: Option<Function>, handler: Out<Errhandler>) on () => {
        create::<crate::handle::WinKind>(function, handler)
    }
    fn Comm_set_errhandler(comm: Comm, handler: Errhandler) on comm => {
        slot(comm, |comm| comm.error_handler.set(handler, Comm::KIND))?
    }
    fn Comm_get_errhandler(comm: Comm, handler: Out<Errhandler>) on comm => {
        handler.set(slot(comm, |comm| comm.error_handler.handle())?)
    }
    fn Comm_call_errhandler(comm: Comm, code: c_int) on comm => {
        comm.get()?;
        call(comm, code)
    }
    fn Session_set_errhandler(session: Session, handler: Errhandler) on session => {
        slot(session, |session| session.error_handler.set(handler, Session::KIND))?
    }
    fn Session_get_errhandler(session: Session, handler: Out<Errhandler>) on session => {
        handler.set(slot(session, |session| session.error_handler.handle())?)
    }
    fn Session_call_errhandler(session: Session, code: c_int) on session => {
        session.get()?;
        call(session, code)
    }
    fn File_get_errhandler(file: File, handler: Out<Errhandler>) on file => {
        handler.set(of_file(file)?.handle())
    }
    fn File_set_errhandler(file: File, handler: Errhandler) on file => {
        of_file(file)?.set(handler, File::KIND)
    }
    fn File_call_errhandler(file: File, code: c_int) on file => {
        of_file(file)?;
        call(file, code)
    }
    fn Win_get_errhandler(win: Win, _handler: Out<Errhandler>) on () => {
        win.get().map(|_| ())
    }
    fn Win_set_errhandler(win: Win, _handler: Errhandler) on () => {
        win.get().map(|_| ())
    }
    fn Win_call_errhandler(win: Win, _code: c_int) on () => {
        win.get().map(|_| ())
    }
    fn Errhandler_free(handler: Out<Errhandler>) on () => {
        let handle = handler.get()?;
        // What `MPI_Comm_get_errhandler` gave may be freed, a predefined one too.
        handle.get()?.take_back(handle)?;
        handler.set(Errhandler::NULL)
    }
}

/// The handler that objects begin with.
pub(crate) fn default_slot() -> Result<Slot> {
    let held =
        SlotHandler { handle: ERRORS_ARE_FATAL, object: ERRORS_ARE_FATAL.get()?, is_set: false };
    Ok(Slot(Mutex::new(held)))
}
