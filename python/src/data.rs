//! Data that moves without a service: brought to a server, got from anywhere, offered by ourselves.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use fishplate_client::data::{DownloadTarget, Offer as Serving, Sources, UploadTarget};
use fishplate_client::{Credentials, Error, Settings};
use fishplate_contract as contract;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::payload::Payload;
use crate::service::{Auth, CONNECTIONS, Service};
use crate::task::Task;

/// How data is reached if no service tells: nobody in particular asks.
static PLAIN: LazyLock<Reach> = LazyLock::new(|| Reach::of(Settings::default()));

/// How a server is reached, and the connections that are kept for it.
pub(crate) struct Reach {
    pub(crate) settings: Settings,
    sources: OnceLock<Arc<Sources>>,
}

impl Reach {
    pub(crate) fn of(settings: Settings) -> Self {
        Self { settings, sources: OnceLock::new() }
    }

    fn sources(&self) -> Result<Arc<Sources>, Error> {
        if let Some(known) = self.sources.get() {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Sources::new(&self.settings)?);
        Ok(Arc::clone(self.sources.get_or_init(|| made)))
    }
}

/// Bytes of values that this process has sent and received.
static MOVED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Work whose bytes count, whatever comes of it.
pub(crate) async fn counted<T>(
    meter: Arc<fishplate_client::Meter>,
    work: impl Future<Output = T>,
) -> T {
    let done = work.await;
    MOVED[0].fetch_add(meter.sent(), Relaxed);
    MOVED[1].fetch_add(meter.received(), Relaxed);
    done
}

/// Bytes that this process has sent and received in calls, results, `put` and `get`.
#[pyfunction]
pub(crate) fn transferred() -> (u64, u64) {
    (MOVED[0].load(Relaxed), MOVED[1].load(Relaxed))
}

/// How much was transferred.
#[pyclass(frozen, module = "fishplate._native")]
#[derive(Default)]
pub(crate) struct Meter(Arc<fishplate_client::Meter>);

#[pymethods]
impl Meter {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Bytes sent, and how many it will be; 0 if that is not known yet.
    #[getter]
    fn sent(&self) -> (u64, u64) {
        (self.0.sent(), self.0.to_send())
    }

    /// Bytes received, and how many it will be; 0 if that is not known yet.
    #[getter]
    fn received(&self) -> (u64, u64) {
        (self.0.received(), self.0.to_receive())
    }
}

/// Gets what a reference refers to into a file, which appears whole and verified or not at all.
#[pyfunction]
#[pyo3(signature = (reference, path, *, meter=None, via=None))]
pub(crate) fn get(
    reference: &Bound<'_, Payload>,
    path: PathBuf,
    meter: Option<&Bound<'_, Meter>>,
    via: Option<&Bound<'_, Service>>,
) -> PyResult<Task> {
    let contract::Payload::Reference(from) = reference.get().0.clone() else {
        return Err(PyValueError::new_err("this is no reference"));
    };
    let sources = via.map_or(&*PLAIN, |service| &service.get().reach).sources();
    let meter = meter.map(|meter| Arc::clone(&meter.get().0)).unwrap_or_default();
    let counter = Arc::clone(&meter);
    let getting = async move { sources?.get(&from, &DownloadTarget::File(path), &meter).await };
    let getting = counted(counter, getting);
    Ok(Task::of(getting, |py, got| {
        Ok((got.len, got.digest.to_string()).into_pyobject(py)?.into_any().unbind())
    }))
}

/// Brings a file to a server: the reference to it.
#[pyfunction]
#[pyo3(signature = (path, url, *, meter=None, auth=None))]
pub(crate) fn put(
    path: PathBuf,
    url: String,
    meter: Option<&Bound<'_, Meter>>,
    auth: Option<Auth>,
) -> Task {
    let credentials = Credentials::of_user().with(auth.map(Auth::credential));
    let settings =
        Settings { credentials, connections: CONNECTIONS.clone(), ..Settings::default() };
    let meter = meter.map(|meter| Arc::clone(&meter.get().0)).unwrap_or_default();
    let counter = Arc::clone(&meter);
    let putting = async move { UploadTarget::find(&url, settings).await?.put(&path, &meter).await };
    Task::of(counted(counter, putting), reference)
}

fn reference(py: Python<'_>, to: contract::DataRef) -> PyResult<Py<PyAny>> {
    Ok(Payload(contract::Payload::Reference(to)).into_pyobject(py)?.into_any().unbind())
}

/// Files that we serve ourselves until this is closed.
#[pyclass(frozen, module = "fishplate._native")]
pub(crate) struct Offer(Mutex<Option<Arc<Serving>>>);

#[pymethods]
impl Offer {
    /// Listens at `HOST[:PORT]`, or on this machine's address on the way to a URL.
    #[staticmethod]
    #[pyo3(signature = (*, at=None, towards=None))]
    fn open(at: Option<String>, towards: Option<String>) -> PyResult<Task> {
        if at.is_none() && towards.is_none() {
            return Err(PyValueError::new_err("say where to listen: at=HOST, or towards=URL"));
        }
        let opening = async move {
            match at {
                Some(address) => Serving::at(&address).await,
                None => Serving::towards(&towards.unwrap_or_default()).await,
            }
        };
        Ok(Task::of(opening, |py, serving| {
            let offer = Self(Mutex::new(Some(Arc::new(serving))));
            Ok(offer.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Offers a file: the reference to it.
    fn add(&self, path: PathBuf) -> PyResult<Task> {
        let serving = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let serving =
            serving.ok_or_else(|| PyRuntimeError::new_err("this offer was closed already"))?;
        let adding = async move { serving.add(&path).await };
        Ok(Task::of(adding, reference))
    }

    /// Serves them no more.
    fn close(&self) -> Task {
        let serving = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped where there is a runtime.
        let closing = async move {
            drop(serving);
            Ok::<_, Error>(())
        };
        Task::of(closing, |py, ()| Ok(py.None()))
    }
}
