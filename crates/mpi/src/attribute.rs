//! Attributes (MPI 5.0, 7.7): what programs keep with communicators and datatypes, and what the standard keeps there.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use fishplate_ranks::launch::environment::APPLICATION;

use crate::arguments::{Opaque, Out};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Error, Result, error, returned};
use crate::handle::{Comm, Datatype, Win};

type Copy = unsafe extern "C" fn(
    handle: usize,
    keyval: c_int,
    extra: *mut c_void,
    old: *mut c_void,
    new: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int;
type Delete = unsafe extern "C" fn(
    handle: usize,
    keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int;

/// `MPI_COMM_DUP_FN` and its like, an address; the null functions are 0.
const DUP_FUNCTION: usize = 1;
/// The first key of a program.
const FIRST_KEY: c_int = 0x1000;

/// A function's address, as C gives it.
#[derive(Clone, std::marker::Copy)]
#[repr(transparent)]
struct Address(usize);

/// What a key is for.
#[derive(Clone, std::marker::Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Comm,
    Datatype,
    Win,
}

/// A key: what happens to its values when an object is duplicated or freed.
#[derive(Debug)]
struct Key {
    number: c_int,
    holder: Holder,
    copy: CopyFunction,
    delete: Option<Delete>,
    extra: Opaque,
}

#[derive(Debug)]
enum CopyFunction {
    None,
    Dup,
    Function(Copy),
}

/// The keys that there are: one that was freed stays while an object has a value of it (MPI 5.0, 7.7.2). A number is
/// never used again.
struct Keys {
    by_number: BTreeMap<c_int, Weak<Key>>,
    /// By number, too.
    not_freed: BTreeMap<c_int, Arc<Key>>,
    next: c_int,
}

fn keys() -> MutexGuard<'static, Keys> {
    static KEYS: Mutex<Keys> = Mutex::new(Keys {
        by_number: BTreeMap::new(),
        not_freed: BTreeMap::new(),
        next: FIRST_KEY,
    });
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrong_key(number: c_int) -> Error {
    error(MPI_ERR_KEYVAL, format!("{number} is no key of attributes of this kind of object"))
}

fn key(number: c_int, holder: Holder) -> Result<Arc<Key>> {
    let found = keys().by_number.get(&number).and_then(Weak::upgrade);
    found.filter(|key| key.holder == holder).ok_or_else(|| wrong_key(number))
}

fn create(
    holder: Holder,
    copy: Address,
    delete: Option<Delete>,
    number: Out<c_int>,
    extra: Opaque,
) -> Result<()> {
    let copy = match copy.0 {
        0 => CopyFunction::None,
        DUP_FUNCTION => CopyFunction::Dup,
        // SAFETY: the program gave us the address of a function of this type.
        address => CopyFunction::Function(unsafe { std::mem::transmute::<usize, Copy>(address) }),
    };
    let mut keys = keys();
    let value = keys.next;
    keys.next = value.checked_add(1).ok_or_else(|| error(MPI_ERR_NO_MEM, "no more keys"))?;
    let key = Arc::new(Key { number: value, holder, copy, delete, extra });
    keys.by_number.insert(value, Arc::downgrade(&key));
    keys.not_freed.insert(value, key);
    number.set(value)
}

fn free(holder: Holder, number: Out<c_int>) -> Result<()> {
    let number_given = key(number.get()?, holder)?.number;
    let mut keys = keys();
    keys.not_freed.remove(&number_given);
    keys.by_number.retain(|_, key| key.strong_count() > 0);
    number.set(MPI_KEYVAL_INVALID)
}

/// The attributes of an object, in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Mutex<Vec<(Arc<Key>, Opaque)>>);

impl Attributes {
    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<Key>, Opaque)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, holder: Holder, handle: usize, number: c_int, value: Opaque) -> Result<()> {
        let key = key(number, holder)?;
        self.take(handle, number)?;
        self.lock().push((key, value));
        Ok(())
    }

    fn get(&self, holder: Holder, number: c_int) -> Result<Option<Opaque>> {
        let found =
            self.lock().iter().find(|(key, _)| key.number == number).map(|(_, value)| *value);
        match found {
            Some(value) => Ok(Some(value)),
            None => key(number, holder).map(|_| None),
        }
    }

    fn delete(&self, holder: Holder, handle: usize, number: c_int) -> Result<()> {
        key(number, holder)?;
        self.take(handle, number)
    }

    /// Calls the delete function, and forgets the value if that has no objection.
    fn take(&self, handle: usize, number: c_int) -> Result<()> {
        let found = self.lock().iter().find(|(key, _)| key.number == number).cloned();
        let Some((key, value)) = found else { return Ok(()) };
        if let Some(delete) = key.delete {
            // SAFETY: the program gave us the function, and the pointers that it gets.
            returned(unsafe { delete(handle, number, value.0, key.extra.0) })?;
        }
        self.lock().retain(|(other, _)| other.number != number);
        Ok(())
    }

    /// The object goes: the last set is the first to go.
    pub(crate) fn delete_all(&self, handle: usize) -> Result<()> {
        loop {
            let last = self.lock().last().map(|(key, _)| key.number);
            let Some(number) = last else { return Ok(()) };
            self.take(handle, number)?;
        }
    }

    /// Those of a duplicate.
    pub(crate) fn copied(&self, handle: usize) -> Result<Self> {
        let all = self.lock().clone();
        let mut copies = Vec::new();
        for (key, old) in all {
            let mut value = old.0;
            let mut flag = 0;
            match &key.copy {
                CopyFunction::None => {}
                CopyFunction::Dup => flag = 1,
                CopyFunction::Function(copy) => {
                    // SAFETY: the program gave us the function and its pointers; the places live here.
                    returned(unsafe {
                        copy(handle, key.number, key.extra.0, old.0, &raw mut value, &raw mut flag)
                    })?;
                }
            }
            if flag != 0 {
                copies.push((key, Opaque(value)));
            }
        }
        Ok(Self(Mutex::new(copies)))
    }
}

static LAST_USED_CODE: AtomicI32 = AtomicI32::new(MPI_ERR_LASTCODE);
static UNIVERSE: AtomicI32 = AtomicI32::new(1);

/// `MPI_LASTUSEDCODE` changes when a program adds codes.
pub(crate) fn set_last_used_code(code: c_int) {
    LAST_USED_CODE.store(code, Ordering::Relaxed);
}

/// A predefined attribute of communicators (MPI 5.0, 9.1.2): a pointer to its value.
fn predefined(number: c_int) -> Result<Option<*mut c_int>> {
    static TAG_UB: AtomicI32 = AtomicI32::new(crate::point_to_point::TAG_UB);
    static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
    static IO: AtomicI32 = AtomicI32::new(MPI_ANY_SOURCE);
    static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(0);
    static APPNUM: LazyLock<AtomicI32> = LazyLock::new(|| {
        let told = std::env::var(APPLICATION).ok().and_then(|number| number.parse().ok());
        AtomicI32::new(told.unwrap_or_default())
    });
    let value = match number {
        MPI_TAG_UB => &TAG_UB,
        MPI_HOST => &HOST,
        MPI_IO => &IO,
        MPI_WTIME_IS_GLOBAL => &WTIME_IS_GLOBAL,
        MPI_APPNUM => &APPNUM,
        MPI_LASTUSEDCODE => &LAST_USED_CODE,
        MPI_UNIVERSE_SIZE => {
            let world = crate::environment::process()?.world().size();
            UNIVERSE.store(c_int::try_from(world).unwrap_or(c_int::MAX), Ordering::Relaxed);
            &UNIVERSE
        }
        _ => return Ok(None),
    };
    Ok(Some(value.as_ptr()))
}

fn found(value: Option<Opaque>, place: Out<Opaque>, flag: Out<c_int>) -> Result<()> {
    flag.set_flag(value.is_some())?;
    value.map_or(Ok(()), |value| place.set(value))
}

fn get_comm(comm: Comm, number: c_int, value: Out<Opaque>, flag: Out<c_int>) -> Result<()> {
    let object = comm.get()?;
    if let Some(pointer) = predefined(number)? {
        return found(Some(Opaque(pointer.cast())), value, flag);
    }
    found(object.attributes.get(Holder::Comm, number)?, value, flag)
}

fn set_comm(comm: Comm, number: c_int, value: Opaque) -> Result<()> {
    comm.get()?.attributes.set(Holder::Comm, comm.to_address(), number, value)
}

fn delete_comm(comm: Comm, number: c_int) -> Result<()> {
    comm.get()?.attributes.delete(Holder::Comm, comm.to_address(), number)
}

entries! {
    fn Comm_create_keyval(copy: Address, delete: Option<Delete>, key: Out<c_int>, extra: Opaque) on () => {
        create(Holder::Comm, copy, delete, key, extra)
    }
    fn Keyval_create(copy: Address, delete: Option<Delete>, key: Out<c_int>, extra: Opaque) on () => {
        create(Holder::Comm, copy, delete, key, extra)
    }
    fn Type_create_keyval(copy: Address, delete: Option<Delete>, key: Out<c_int>, extra: Opaque) on () => {
        create(Holder::Datatype, copy, delete, key, extra)
    }
    fn Win_create_keyval(copy: Address, delete: Option<Delete>, key: Out<c_int>, extra: Opaque) on () => {
        create(Holder::Win, copy, delete, key, extra)
    }
    fn Comm_free_keyval(key: Out<c_int>) on () => {
        free(Holder::Comm, key)
    }
    fn Keyval_free(key: Out<c_int>) on () => {
        free(Holder::Comm, key)
    }
    fn Type_free_keyval(key: Out<c_int>) on () => {
        free(Holder::Datatype, key)
    }
    fn Win_free_keyval(key: Out<c_int>) on () => {
        free(Holder::Win, key)
    }
    fn Comm_get_attr(comm: Comm, key: c_int, value: Out<Opaque>, flag: Out<c_int>) on comm => {
        get_comm(comm, key, value, flag)
    }
    fn Attr_get(comm: Comm, key: c_int, value: Out<Opaque>, flag: Out<c_int>) on comm => {
        get_comm(comm, key, value, flag)
    }
    fn Comm_set_attr(comm: Comm, key: c_int, value: Opaque) on comm => {
        set_comm(comm, key, value)
    }
    fn Attr_put(comm: Comm, key: c_int, value: Opaque) on comm => {
        set_comm(comm, key, value)
    }
    fn Comm_delete_attr(comm: Comm, key: c_int) on comm => {
        delete_comm(comm, key)
    }
    fn Attr_delete(comm: Comm, key: c_int) on comm => {
        delete_comm(comm, key)
    }
    fn Type_get_attr(datatype: Datatype, key: c_int, value: Out<Opaque>, flag: Out<c_int>) on () => {
        found(datatype.get()?.attributes.get(Holder::Datatype, key)?, value, flag)
    }
    fn Type_set_attr(datatype: Datatype, key: c_int, value: Opaque) on () => {
        datatype.get()?.attributes.set(Holder::Datatype, datatype.to_address(), key, value)
    }
    fn Type_delete_attr(datatype: Datatype, key: c_int) on () => {
        datatype.get()?.attributes.delete(Holder::Datatype, datatype.to_address(), key)
    }
    fn Win_get_attr(win: Win, _key: c_int, _value: Out<Opaque>, _flag: Out<c_int>) on () => {
        win.get().map(|_| ())
    }
    fn Win_set_attr(win: Win, _key: c_int, _value: Opaque) on () => {
        win.get().map(|_| ())
    }
    fn Win_delete_attr(win: Win, _key: c_int) on () => {
        win.get().map(|_| ())
    }
}
