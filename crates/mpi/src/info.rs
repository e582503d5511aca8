//! Info objects (MPI 5.0, chapter 10): keys and values, in the order in which they were set.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arguments::{Out, Text, TextOut};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::Info;

/// Keys and values.
#[derive(Debug, Default)]
pub(crate) struct InfoObject(Mutex<Vec<(String, String)>>);

impl InfoObject {
    fn lock(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &str) -> Option<String> {
        self.lock().iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    fn set(&self, key: String, value: String) {
        let mut entries = self.lock();
        match entries.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => entries.push((key, value)),
        }
    }

    /// The same entries in an object of their own.
    pub(crate) fn copied(&self) -> Self {
        Self(Mutex::new(self.lock().clone()))
    }

    /// Takes over what another has.
    pub(crate) fn update(&self, other: Info) -> Result<()> {
        if other != Info::NULL {
            self.merge(&*other.get()?);
        }
        Ok(())
    }

    /// The same of an object.
    pub(crate) fn merge(&self, other: &Self) {
        let other = other.lock().clone();
        other.into_iter().for_each(|(key, value)| self.set(key, value));
    }

    /// Leaves out a key.
    pub(crate) fn remove(&self, key: &str) {
        self.lock().retain(|(known, _)| known != key);
    }

    /// What a key has.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        self.get(key)
    }
}

/// A new object's handle.
pub(crate) fn of<K: Into<String>, V: Into<String>>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> Info {
    let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
    Info::new(InfoObject(Mutex::new(entries.collect())))
}

/// What is known of how this process was started (MPI 5.0, 11.2.1).
pub(crate) fn of_this_process() -> Vec<(String, String)> {
    let mut entries = Vec::new();
    let mut add = |key: &str, value: Option<String>| {
        entries.extend(value.map(|value| (key.to_owned(), value)));
    };
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    add("command", words.next());
    add("argv", Some(words.collect::<Vec<_>>().join(" ")));
    add("maxprocs", std::env::var(fishplate_ranks::launch::environment::RANKS).ok());
    add("host", Some(crate::environment::host()));
    add("arch", Some(std::env::consts::ARCH.to_owned()));
    add("wdir", std::env::current_dir().ok().map(|path| path.display().to_string()));
    add("thread_level", Some("MPI_THREAD_MULTIPLE".to_owned()));
    entries
}

/// `MPI_INFO_ENV`.
pub(crate) fn predefined() -> Vec<Option<Arc<InfoObject>>> {
    vec![None, Some(Arc::new(InfoObject(Mutex::new(of_this_process()))))]
}

fn text(text: Text, most: usize, class: c_int, what: &str) -> Result<String> {
    let text = text.get()?;
    if text.is_empty() || text.len() >= most {
        return Err(error(
            class,
            format!("a {what} has {} bytes, and should have 1 to {}", text.len(), most - 1),
        ));
    }
    Ok(text)
}

fn key_of(key: Text) -> Result<String> {
    text(key, MPI_MAX_INFO_KEY, MPI_ERR_INFO_KEY, "key")
}

entries! {
    fn Info_create(info: Out<Info>) on () => {
        info.set(Info::new(InfoObject::default()))
    }
    fn Info_dup(info: Info, copy: Out<Info>) on () => {
        copy.set(Info::new(info.get()?.copied()))
    }
    fn Info_free(info: Out<Info>) on () => {
        info.free().map(|_| ())
    }
    fn Info_set(info: Info, key: Text, value: Text) on () => {
        let value = text(value, MPI_MAX_INFO_VAL, MPI_ERR_INFO_VALUE, "value")?;
        info.get()?.set(key_of(key)?, value);
        Ok(())
    }
    fn Info_delete(info: Info, key: Text) on () => {
        let (info, key) = (info.get()?, key_of(key)?);
        let mut entries = info.lock();
        let at = entries.iter().position(|(known, _)| *known == key);
        let at = at.ok_or_else(|| error(MPI_ERR_INFO_NOKEY, format!("there is no key {key}")))?;
        entries.remove(at);
        Ok(())
    }
    fn Info_get(info: Info, key: Text, length: c_int, value: TextOut, flag: Out<c_int>) on () => {
        let found = info.get()?.get(&key_of(key)?);
        flag.set_flag(found.is_some())?;
        match found {
            Some(found) => value.set(&found, usize::try_from(length).unwrap_or_default() + 1).map(|_| ()),
            None => Ok(()),
        }
    }
    fn Info_get_string(info: Info, key: Text, length: Out<c_int>, value: TextOut, flag: Out<c_int>) on () => {
        let found = info.get()?.get(&key_of(key)?);
        flag.set_flag(found.is_some())?;
        if let Some(found) = found {
            let capacity = usize::try_from(length.get()?).unwrap_or_default();
            if capacity > 0 {
                value.set(&found, capacity)?;
            }
            length.set_count(found.len() + 1)?;
        }
        Ok(())
    }
    fn Info_get_valuelen(info: Info, key: Text, length: Out<c_int>, flag: Out<c_int>) on () => {
        let found = info.get()?.get(&key_of(key)?);
        flag.set_flag(found.is_some())?;
        found.map_or(Ok(()), |found| length.set_count(found.len()))
    }
    fn Info_get_nkeys(info: Info, count: Out<c_int>) on () => {
        count.set_count(info.get()?.lock().len())
    }
    fn Info_get_nthkey(info: Info, at: c_int, key: TextOut) on () => {
        let info = info.get()?;
        let entries = info.lock();
        let found = usize::try_from(at).ok().and_then(|at| entries.get(at));
        let (name, _) = found.ok_or_else(|| {
            error(MPI_ERR_ARG, format!("there is no key {at}: there are {}, counted from 0", entries.len()))
        })?;
        key.set(name, MPI_MAX_INFO_KEY).map(|_| ())
    }
}
