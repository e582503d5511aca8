//! Work under way: begun when somebody waits for it, on the one runtime of the process.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use fishplate_contract::CallError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use crate::failure::raised;

/// How often a blocked thread asks whether Ctrl-C was pressed.
const SIGNALS: Duration = Duration::from_millis(100);

/// The process whose threads the runtime has.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A child made by `fork` has the runtime, but none of its threads: it would wait for ever.
fn runtime() -> PyResult<&'static Runtime> {
    let here = std::process::id();
    match PROCESS.compare_exchange(0, here, Relaxed, Relaxed) {
        Err(other) if other != here => Err(PyRuntimeError::new_err(
            "connections do not survive a fork: start processes by spawn or forkserver \
             (multiprocessing.set_start_method), or import fishplate in the child alone",
        )),
        _ => Ok(*RUNTIME),
    }
}

/// What becomes a Python object once the interpreter is ours again.
pub(crate) type Made = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Result<Made, CallError>> + Send>>;

#[expect(clippy::expect_used, reason = "without threads there is nothing to be done")]
static RUNTIME: LazyLock<&'static Runtime> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("fishplate")
        .enable_all()
        .build()
        .expect("the system gives threads");
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    // It is refused only if there is one already, and this is the one place that sets it.
    let _ = pyo3_async_runtimes::tokio::init_with_runtime(runtime);
    runtime
});

/// Something that takes time. It can be waited for once: `wait()` blocks without the interpreter's
/// lock and ends with Ctrl-C; `await` lets others run, and cancelling that cancels the work.
#[pyclass(frozen, generic, module = "fishplate._native")]
pub(crate) struct Task {
    work: Mutex<Option<Work>>,
}

impl Task {
    /// Work whose answer is made into a Python object by `make`.
    pub(crate) fn of<T: Send + 'static, E: Into<CallError>>(
        work: impl Future<Output = Result<T, E>> + Send + 'static,
        make: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work = async move {
            let done = work.await.map_err(Into::into)?;
            Ok(Box::new(move |py: Python<'_>| make(py, done)) as Made)
        };
        Self { work: Mutex::new(Some(Box::pin(work))) }
    }

    fn begin(&self) -> PyResult<Work> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.take().ok_or_else(|| PyRuntimeError::new_err("this task was waited for already"))
    }
}

#[pymethods]
impl Task {
    /// Blocks until it is done, and calls `tick` ten times a second meanwhile.
    #[pyo3(signature = (tick=None))]
    fn wait(&self, py: Python<'_>, tick: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let runtime = runtime()?;
        let mut running = runtime.spawn(self.begin()?);
        loop {
            let turn = py.detach(|| {
                runtime.block_on(async { tokio::time::timeout(SIGNALS, &mut running).await })
            });
            match turn {
                Ok(Ok(Ok(made))) => return made(py),
                Ok(Ok(Err(error))) => return Err(raised(py, error)),
                Ok(Err(broken)) => return Err(PyRuntimeError::new_err(broken.to_string())),
                Err(_not_yet) => py
                    .check_signals()
                    .and_then(|()| tick.map(Bound::call0).transpose())
                    .map(drop)
                    .inspect_err(|_| running.abort())?,
            }
        }
    }

    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        runtime()?;
        let work = self.begin()?;
        let awaited = pyo3_async_runtimes::tokio::future_into_py(py, async move {
            match work.await {
                Ok(made) => Python::attach(made),
                Err(error) => Err(Python::attach(|py| raised(py, error))),
            }
        })?;
        Ok(awaited.call_method0("__await__")?.unbind())
    }
}
