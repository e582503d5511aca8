//! The process's life as a rank: `MPI_Init` to `MPI_Finalize`, and what it can ask about itself.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use fishplate_ranks::launch::Client;
use fishplate_ranks::{Process, Settings};

use crate::arguments::{Buffer, Opaque, Out, TextOut};
use crate::buffer::Buffered;
use crate::constants::*;
use crate::entry::{entries, values};
use crate::error::{Result, error};
use crate::handle::{COMM_SELF, COMM_WORLD, Comm, GROUP_EMPTY, Info};
use crate::request::{Pending, RequestObject};

/// What there is once for a process.
struct Environment {
    world: World,
    /// It has left its domain.
    left: bool,
    /// Which process joined; its children are no ranks.
    pid: u32,
    main_thread: Option<ThreadId>,
    thread_level: c_int,
}

/// The world model (MPI 5.0, 11.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    Before,
    Initialized,
    Finalized,
}

static ENVIRONMENT: Mutex<Environment> = Mutex::new(Environment {
    world: World::Before,
    left: false,
    pid: 0,
    main_thread: None,
    thread_level: MPI_THREAD_SINGLE,
});

/// There from the first of world and sessions on, also for objects that outlive them; apart, so that `MPI_Abort` waits for nobody.
static CLIENT: OnceLock<Client> = OnceLock::new();
/// Sessions that are open.
static SESSIONS: AtomicU32 = AtomicU32::new(0);
/// When `MPI_Wtime` is zero.
static BEGIN: OnceLock<Instant> = OnceLock::new();
/// The domain's rank of this process, for messages.
static RANK: AtomicI32 = AtomicI32::new(-1);

fn environment() -> MutexGuard<'static, Environment> {
    ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why predefined communicators are not there, if so.
pub(crate) fn problem() -> Option<&'static str> {
    match environment().world {
        World::Before => Some("MPI_Init was not called"),
        World::Initialized => None,
        World::Finalized => Some("MPI_Finalize was called"),
    }
}

/// The rank in the domain, once it is known.
pub(crate) fn rank() -> Option<c_int> {
    Some(RANK.load(Ordering::Relaxed)).filter(|rank| *rank >= 0)
}

/// How long `MPI_Abort` waits for what C's streams still have to write: another thread may hold one.
const FLUSH_TIME: Duration = Duration::from_secs(1);

unsafe extern "C" {
    /// Of C's library: has a function called when the process exits.
    fn atexit(function: extern "C" fn()) -> c_int;
    /// Writes what a stream, or every one, has in memory.
    fn fflush(stream: *mut c_void) -> c_int;
    /// Says how a descriptor behaves.
    fn fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    /// Sets how memory is allocated.
    #[cfg(target_env = "gnu")]
    fn mallopt(parameter: c_int, value: c_int) -> c_int;
    /// Ends the process, and calls nothing.
    fn _exit(code: c_int) -> !;
}

/// Ends all ranks, and this one without its destructors: other threads may be using what those take away.
pub(crate) fn abort(code: c_int) -> ! {
    let (done, is_done) = mpsc::channel();
    let flush = move || {
        // SAFETY: a null pointer means all streams.
        unsafe { fflush(std::ptr::null_mut()) };
        let _ = done.send(());
    };
    if std::thread::Builder::new().spawn(flush).is_ok() {
        let _ = is_done.recv_timeout(FLUSH_TIME);
    }
    if let Some(client) = CLIENT.get() {
        client.abort(code);
    }
    // SAFETY: it needs nothing.
    unsafe { _exit(code) }
}

/// The process, which joins its domain now if it has not.
pub(crate) fn process() -> Result<Arc<Process>> {
    let mut environment = environment();
    join(&mut environment)
}

/// What is allocated and freed for one message after the other comes from the heap and stays there, up to this many bytes at its end. (Larger pieces
/// than `KEPT_PIECE` can't.) As it is given back to the system each time, it comes again as page faults: pickled arrays of 1 to 16 MB take 1.4 to 1.6
/// times as long (medians).
#[cfg(target_env = "gnu")]
const KEPT: c_int = 64 << 20;
#[cfg(target_env = "gnu")]
const KEPT_PIECE: c_int = 32 << 20;

/// Has memory kept, unless the program's user has said what shall be (mallopt(3)).
#[cfg(target_env = "gnu")]
fn keep_memory() {
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    const VARIABLES: [&str; 2] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"];
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if VARIABLES.iter().any(|name| std::env::var_os(name).is_some())
        || tunables.contains("glibc.malloc.")
    {
        return;
    }
    // SAFETY: it takes numbers, and one that it does not like changes nothing.
    unsafe {
        mallopt(M_TRIM_THRESHOLD, KEPT);
        mallopt(M_MMAP_THRESHOLD, KEPT_PIECE);
    }
}

fn join(environment: &mut Environment) -> Result<Arc<Process>> {
    if let Some(client) = CLIENT.get() {
        return Ok(client.process().clone());
    }
    #[cfg(target_env = "gnu")]
    keep_memory();
    // A program bounds buffered sends itself, with the buffers that it attaches.
    let settings = Settings { buffer_size: usize::MAX >> 1, ..Settings::default() };
    let client = Client::join(settings).map_err(|cause| error(MPI_ERR_OTHER, cause.to_string()))?;
    let process = client.process().clone();
    RANK.store(c_int::try_from(process.rank()).unwrap_or(-1), Ordering::Relaxed);
    GROUP_EMPTY.define(Some(Arc::new(process.world().group().include(&[])?)));
    environment.main_thread = Some(std::thread::current().id());
    BEGIN.get_or_init(Instant::now);
    environment.pid = std::process::id();
    if let Some(launcher) = client.launcher() {
        end_with(launcher)?;
    }
    CLIENT.get_or_init(|| client);
    // SAFETY: the function is there as long as this library, and does not unwind.
    if unsafe { atexit(leave_at_exit) } != 0 {
        return Err(error(MPI_ERR_NO_MEM, "no more functions can be called at the exit"));
    }
    Ok(process)
}

/// Has the system kill this process when the launcher is gone (fcntl(2)): as a script's program it has another parent, and
/// goes on without that.
fn end_with(launcher: BorrowedFd<'_>) -> Result<()> {
    const F_SETFL: c_int = 4;
    const F_SETOWN: c_int = 8;
    const F_SETSIG: c_int = 10;
    const O_ASYNC: c_int = 0o20000;
    const SIGKILL: c_int = 9;
    let pid = c_int::try_from(std::process::id()).unwrap_or_default();
    for (command, argument) in [(F_SETSIG, SIGKILL), (F_SETOWN, pid), (F_SETFL, O_ASYNC)] {
        // SAFETY: these commands take a number.
        if unsafe { fcntl(launcher.as_raw_fd(), command, argument) } < 0 {
            let cause = std::io::Error::last_os_error();
            return Err(error(MPI_ERR_OTHER, format!("the launcher can't be watched: {cause}")));
        }
    }
    Ok(())
}

impl Environment {
    /// Whether it is time to leave the domain: once, when neither world nor session is open.
    fn leaves(&mut self) -> bool {
        let is_over = SESSIONS.load(Ordering::Relaxed) == 0 && self.world != World::Initialized;
        let leaves = is_over && !self.left;
        self.left |= leaves;
        leaves
    }
}

fn leave() {
    if let Some(client) = CLIENT.get() {
        client.leave();
    }
}

/// A program of sessions only has no `MPI_Finalize` with which it leaves: it does so when it exits with none open.
extern "C" fn leave_at_exit() {
    // Who exits may have the lock.
    let Ok(mut environment) = ENVIRONMENT.try_lock() else { return };
    let leaves = environment.pid == std::process::id() && environment.leaves();
    drop(environment);
    if leaves {
        leave();
    }
}

/// The least level of threads that gives what is required.
pub(crate) fn thread_level(required: c_int) -> c_int {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED];
    levels.into_iter().find(|level| *level >= required).unwrap_or(MPI_THREAD_MULTIPLE)
}

fn initialize(required: c_int) -> Result<c_int> {
    let mut environment = environment();
    match environment.world {
        World::Before => {}
        World::Initialized => return Err(error(MPI_ERR_OTHER, "MPI_Init was called before")),
        World::Finalized => {
            return Err(error(MPI_ERR_OTHER, "MPI_Init can't be called after MPI_Finalize"));
        }
    }
    let process = join(&mut environment)?;
    environment.main_thread = Some(std::thread::current().id());
    environment.thread_level = thread_level(required);
    environment.world = World::Initialized;
    crate::communicator::define_predefined(&process)?;
    Ok(environment.thread_level)
}

fn finalize() -> Result<()> {
    // Attributes of `MPI_COMM_SELF` go first, while everything still works (MPI 5.0, 11.2.4).
    if let Ok(alone) = COMM_SELF.get() {
        alone.attributes.delete_all(COMM_SELF.to_address())?;
    }
    if environment().world != World::Initialized {
        return Err(error(MPI_ERR_OTHER, "MPI_Init was not called, or MPI_Finalize was before"));
    }
    crate::request::finish_orphans();
    COMM_WORLD.define(None);
    COMM_SELF.define(None);
    let leaves = {
        let mut environment = environment();
        environment.world = World::Finalized;
        environment.leaves()
    };
    if leaves {
        leave();
    }
    Ok(())
}

/// A session begins.
pub(crate) fn open_session() -> Result<()> {
    process()?;
    SESSIONS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// A session ends. The process leaves with the last one after `MPI_Finalize`; if the world was never there, it
/// leaves when it exits, because another session may begin.
pub(crate) fn close_session() {
    SESSIONS.fetch_sub(1, Ordering::Relaxed);
    let leaves = {
        let mut environment = environment();
        environment.world == World::Finalized && environment.leaves()
    };
    if leaves {
        leave();
    }
}

/// This host's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Seconds since the process joined, or since this was first asked.
fn elapsed() -> f64 {
    BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

entries! {
    fn Init(_argc: Opaque, _argv: Opaque) on () => {
        initialize(MPI_THREAD_SINGLE).map(|_| ())
    }
    fn Init_thread(_argc: Opaque, _argv: Opaque, required: c_int, provided: Out<c_int>) on () => {
        provided.set(initialize(required)?)
    }
    fn Initialized(flag: Out<c_int>) on () => {
        flag.set_flag(environment().world != World::Before)
    }
    fn Finalize() on () => {
        finalize()
    }
    fn Finalized(flag: Out<c_int>) on () => {
        flag.set_flag(environment().world == World::Finalized)
    }
    fn Query_thread(provided: Out<c_int>) on () => {
        provided.set(environment().thread_level)
    }
    fn Is_thread_main(flag: Out<c_int>) on () => {
        flag.set_flag(environment().main_thread == Some(std::thread::current().id()))
    }
    fn Abort(_comm: Comm, code: c_int) on () => {
        abort(code)
    }
    fn Get_version(version: Out<c_int>, subversion: Out<c_int>) on () => {
        version.set(5)?;
        subversion.set(0)
    }
    fn Get_library_version(version: TextOut, length: Out<c_int>) on () => {
        let text = concat!("Fishplate ", env!("CARGO_PKG_VERSION"));
        version.set_with_length(text, MPI_MAX_LIBRARY_VERSION_STRING, length)
    }
    fn Abi_get_version(major: Out<c_int>, minor: Out<c_int>) on () => {
        major.set(1)?;
        minor.set(0)
    }
    fn Abi_get_info(info: Out<Info>) on () => {
        let sizes = [("mpi_aint_size", "8"), ("mpi_count_size", "8"), ("mpi_offset_size", "8")];
        info.set(crate::info::of(sizes))
    }
    fn Abi_get_fortran_info(info: Out<Info>) on () => {
        info.set(crate::info::of(crate::datatype::fortran_info()))
    }
    fn Abi_set_fortran_info(_info: Info) on () => {
        Err(error(MPI_ERR_ABI, "the sizes of Fortran's types are known already"))
    }
    fn Abi_get_fortran_booleans(size: c_int, yes: Buffer, no: Buffer, is_set: Out<c_int>) on () => {
        let size = usize::try_from(size).unwrap_or_default();
        for (buffer, value) in [(yes, 1), (no, 0)] {
            let bytes = buffer.bytes_mut(size);
            bytes.fill(0);
            if let Some(first) = bytes.first_mut() {
                *first = value;
            }
        }
        is_set.set_flag(true)
    }
    fn Abi_set_fortran_booleans(_size: c_int, _yes: Buffer, _no: Buffer) on () => {
        Err(error(MPI_ERR_ABI, "Fortran's truth values are known already: 1 and 0"))
    }
    fn Get_processor_name(name: TextOut, length: Out<c_int>) on () => {
        name.set_with_length(&host(), MPI_MAX_PROCESSOR_NAME, length)
    }
    fn Get_hw_resource_info(info: Out<Info>) on () => {
        info.set(crate::info::of([("mpi://mpi_shared_memory", "true")]))
    }
    fn Get_address(location: Buffer, address: Out<usize>) on () => {
        address.set(location.address())
    }
    fn Alloc_mem(size: i64, _info: Info, address: Out<usize>) on () => {
        let size = usize::try_from(size)
            .map_err(|_| error(MPI_ERR_ARG, format!("{size} bytes can't be had: 0 or more are needed")))?;
        let mut memory = Vec::<u128>::new();
        memory.try_reserve_exact(size.div_ceil(size_of::<u128>()).max(1))
            .map_err(|cause| error(MPI_ERR_NO_MEM, format!("{size} bytes can't be had: {cause}")))?;
        let start = memory.as_ptr().addr();
        memories().push(memory);
        address.set(start)
    }
    fn Free_mem(address: Buffer) on () => {
        let mut memories = memories();
        let at = memories.iter().position(|memory| memory.as_ptr().addr() == address.address());
        let at = at.ok_or_else(|| error(MPI_ERR_BASE, "MPI_Alloc_mem did not give this memory"))?;
        memories.swap_remove(at);
        Ok(())
    }
    // Buffered sends are copied to memory of our own, so an attached buffer is never in use: it is a bound.
    fn Buffer_attach<C>(buffer: Buffer, size: C) on () => {
        BUFFER.attach(buffer, size.count()?)
    }
    fn Buffer_detach<C>(address: Out<usize>, size: Out<C>) on () => {
        BUFFER.detach(address, size)
    }
    fn Buffer_flush() on () => {
        Ok(())
    }
    fn Buffer_iflush(request: Out<crate::handle::Request>) on () => {
        request.set(RequestObject::start(COMM_SELF, Pending::done(&process()?)))
    }
    fn Info_create_env(_argc: c_int, _argv: Opaque, info: Out<Info>) on () => {
        info.set(crate::info::of(crate::info::of_this_process()))
    }
}

/// What `MPI_Buffer_attach` gave.
pub(crate) static BUFFER: Buffered = Buffered::new();

/// Room for so many, aligned for every type; the elements are the program's affair.
type Memories = Vec<Vec<u128>>;

/// What `MPI_Alloc_mem` gave.
fn memories() -> MutexGuard<'static, Memories> {
    static MEMORIES: Mutex<Memories> = Mutex::new(Vec::new());
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

values! {
    fn Wtime() -> f64 { elapsed() }
    fn Wtick() -> f64 { 1e-9 }
    fn Aint_add(base: i64, displacement: i64) -> i64 { base.wrapping_add(displacement) }
    fn Aint_diff(left: i64, right: i64) -> i64 { left.wrapping_sub(right) }
    fn Pcontrol(_level: c_int) -> c_int { MPI_SUCCESS }
}
