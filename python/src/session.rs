//! Sessions: spaces on a server in which programs share files.

use std::path::PathBuf;

use fishplate_client::{Session as Opened, Sessions};
use fishplate_contract as contract;
use fishplate_contract::Timestamp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::payload::Payload;
use crate::report::seconds;
use crate::service::{Auth, duration, settings};
use crate::task::Task;

/// A session that was opened, here or elsewhere.
#[pyclass(frozen, module = "fishplate._native")]
pub(crate) struct Session(Opened);

#[pymethods]
impl Session {
    /// Opens a session on the server that is meant by a URL; it ends when nobody has used it for
    /// so many seconds, or for as long as the server lets it. With an ID, one that is open.
    #[staticmethod]
    #[pyo3(signature = (url, *, id=None, idle=None, timeout=None, connect_timeout=None,
        ca_file=None, address=None, packaging=None, auth=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn open(
        url: String,
        id: Option<&str>,
        idle: Option<f64>,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
        ca_file: Option<PathBuf>,
        address: Option<String>,
        packaging: Option<&str>,
        auth: Option<Auth>,
    ) -> PyResult<Task> {
        let reached = settings(timeout, connect_timeout, ca_file, address, packaging, auth)?;
        let id = id
            .map(|id| {
                id.parse().map_err(|_| PyValueError::new_err(format!("{id:?} is no session")))
            })
            .transpose()?;
        let idle = duration(idle)?;
        let opening = async move {
            let sessions = Sessions::find(&url, reached).await?;
            match id {
                Some(id) => {
                    let mut session = sessions.session(id);
                    session.touch().await?;
                    Ok(session)
                }
                None => sessions.open(idle).await,
            }
        };
        Ok(Task::of(opening, |py, session| {
            Ok(Self(session).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Its name.
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    /// When it ends if nobody uses it, as it was told when it was opened; seconds since 1970.
    #[getter]
    fn expires(&self) -> Option<f64> {
        self.0.expires.map(seconds)
    }

    /// Has it begin to idle anew; when it ends then.
    fn touch(&self) -> Task {
        let mut session = self.0.clone();
        Task::of(async move { session.touch().await }, |py, expires: Timestamp| {
            Ok(seconds(expires).into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Its files: names and references.
    fn files(&self) -> Task {
        let session = self.0.clone();
        Task::of(async move { session.files().await }, |py, files| {
            let told = PyList::empty(py);
            for file in files {
                told.append((file.name, Payload(contract::Payload::Reference(file.reference))))?;
            }
            Ok(told.into_any().unbind())
        })
    }

    /// Removes a file.
    fn remove(&self, name: String) -> Task {
        let session = self.0.clone();
        Task::of(async move { session.remove(&name).await }, |py, ()| Ok(py.None()))
    }

    /// Ends it and removes its files.
    fn close(&self) -> Task {
        let session = self.0.clone();
        Task::of(async move { session.close().await }, |py, _| Ok(py.None()))
    }
}
