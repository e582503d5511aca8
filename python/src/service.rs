//! A service's verbs.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use fishplate_client::find::{ServiceQuery, differences, find as find_services};
use fishplate_client::watch::CallWatch;
use fishplate_client::{
    Connections, Credential, Credentials, Error, Meter, Options, Settings, listing,
};
use fishplate_contract::{
    CallOptions, Caller, JobFilter, JobId, JobReport, JobState, LogStream, OutputChoice,
    OutputForm, SessionId,
};
use fishplate_wire::wsdl::WsdlError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::data::{Reach, counted};
use crate::describe::{Difference, Operation};
use crate::failure::raised;
use crate::report::told;
use crate::task::Task;
use crate::value::{Given, arguments, reply};

/// A service, known by its description.
#[pyclass(frozen, module = "fishplate._native")]
pub(crate) struct Service {
    client: fishplate_client::Service,
    pub(crate) reach: Reach,
}

/// Name, form and destination of an output that was chosen.
type Choice = (String, String, Option<String>);

#[pymethods]
impl Service {
    /// Fetches the description of the service at a URL.
    #[staticmethod]
    #[pyo3(signature = (url, *, timeout=None, connect_timeout=None, ca_file=None, address=None,
        packaging=None, auth=None))]
    fn connect(
        url: String,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
        ca_file: Option<PathBuf>,
        address: Option<String>,
        packaging: Option<&str>,
        auth: Option<Auth>,
    ) -> PyResult<Task> {
        let settings = settings(timeout, connect_timeout, ca_file, address, packaging, auth)?;
        let reach = Reach::of(settings.clone());
        let connecting =
            async move { fishplate_client::Service::connect_with(&url, settings).await };
        Ok(Task::of(connecting, |py, client| {
            Ok(Self { client, reach }.into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// The service at a URL by the description that it had, which stood at `wsdl_url`; nothing is asked.
    #[staticmethod]
    #[pyo3(signature = (url, wsdl, wsdl_url, *, timeout=None, connect_timeout=None, ca_file=None, address=None,
        packaging=None, auth=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn open(
        py: Python<'_>,
        url: &str,
        wsdl: String,
        wsdl_url: &str,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
        ca_file: Option<PathBuf>,
        address: Option<String>,
        packaging: Option<&str>,
        auth: Option<Auth>,
    ) -> PyResult<Self> {
        let settings = settings(timeout, connect_timeout, ca_file, address, packaging, auth)?;
        let reach = Reach::of(settings.clone());
        let client = fishplate_client::Service::open(url, wsdl, wsdl_url, settings)
            .map_err(|error| raised(py, error.into()))?;
        Ok(Self { client, reach })
    }

    /// In what the interface of another service differs from this one's.
    fn differences(&self, other: &Self) -> Vec<Difference> {
        let both = (self.client.description(), other.client.description());
        differences(both.0, both.1).into_iter().map(Difference).collect()
    }

    /// Short name.
    #[getter]
    fn name(&self) -> &str {
        &self.client.description().name
    }

    /// Full name.
    #[getter]
    fn title(&self) -> &str {
        &self.client.description().title
    }

    /// What it does.
    #[getter]
    fn documentation(&self) -> &str {
        &self.client.description().documentation
    }

    /// Where calls go.
    #[getter]
    fn address(&self) -> String {
        self.client.address()
    }

    /// Its description, as it was fetched.
    #[getter]
    fn wsdl(&self) -> &str {
        self.client.wsdl()
    }

    /// Where its description stands.
    #[getter]
    fn wsdl_url(&self) -> &str {
        self.client.wsdl_url()
    }

    /// The server is Fishplate: keys, references and sessions are understood.
    #[getter]
    fn ours(&self) -> bool {
        self.client.description().ours
    }

    /// What it offers, in the description's order.
    #[getter]
    fn operations(&self) -> Vec<Operation> {
        let known = self.client.operations().filter_map(|name| self.client.operation(name).ok());
        known.map(Operation::of).collect()
    }

    /// Runs an operation: the outputs, and the job's ID if there was a key.
    #[pyo3(signature = (operation, given, *, key=None, session=None, outputs=vec![], streams=vec![],
        timeout=None, watch=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn call(
        &self,
        operation: String,
        given: Given<'_>,
        key: Option<String>,
        session: Option<&str>,
        outputs: Vec<Choice>,
        streams: Vec<String>,
        timeout: Option<f64>,
        watch: Option<&Watch>,
    ) -> PyResult<Task> {
        let (arguments, options) = (arguments(given)?, options(key, session, outputs)?);
        let (meter, caller) = self.caller(streams, timeout)?;
        let (service, seen) = (self.client.clone(), watch.map(|watch| Arc::clone(&watch.last)));
        let calling = async move {
            let watch = match seen {
                Some(_) => CallWatch::before(&service, &operation, options.key.as_deref()).await,
                None => None,
            };
            let calling = caller.call(&operation, arguments, options);
            let (Some(watch), Some(seen)) = (watch, seen) else { return calling.await };
            let tell = |report| *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
            tokio::select! {
                reply = calling => reply,
                never = watch.follow(tell) => match never {},
            }
        };
        Ok(Task::of(counted(meter, calling), reply))
    }

    /// Starts an operation as a job: its ID, and whether it was there before, under the same key.
    #[pyo3(signature = (operation, given, *, key=None, session=None, outputs=vec![], timeout=None))]
    fn spawn(
        &self,
        operation: String,
        given: Given<'_>,
        key: Option<String>,
        session: Option<&str>,
        outputs: Vec<Choice>,
        timeout: Option<f64>,
    ) -> PyResult<Task> {
        let (arguments, options) = (arguments(given)?, options(key, session, outputs)?);
        let (service, meter) = (self.client.clone(), Arc::<Meter>::default());
        let options = Options {
            call: options,
            meter: Some(Arc::clone(&meter)),
            timeout: duration(timeout)?,
            ..Options::default()
        };
        let spawning = async move { service.submit(&operation, arguments, &options).await };
        Ok(Task::of(counted(meter, spawning), |py, job| {
            Ok((job.id.to_string(), job.existing).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// The results of a job that has ended: as `call` gives them.
    #[pyo3(signature = (operation, job, *, outputs=vec![], timeout=None))]
    fn results(
        &self,
        operation: String,
        job: &str,
        outputs: Vec<Choice>,
        timeout: Option<f64>,
    ) -> PyResult<Task> {
        let (job, outputs) = (job_id(job)?, choices(outputs)?);
        let (meter, caller) = self.caller(vec![], timeout)?;
        let asking = async move { caller.results(&operation, job, outputs).await };
        Ok(Task::of(counted(meter, asking), reply))
    }

    /// All there is to tell of a job.
    fn status(&self, job: &str) -> PyResult<Task> {
        let ((_, caller), job) = (self.caller(vec![], None)?, job_id(job)?);
        Ok(Task::of(async move { caller.status(job).await }, |py, report| {
            Ok(told(py, &report)?.into_any().unbind())
        }))
    }

    /// Ends a job: its state now, and what was done.
    fn kill(&self, job: &str) -> PyResult<Task> {
        let ((_, caller), job) = (self.caller(vec![], None)?, job_id(job)?);
        Ok(Task::of(async move { caller.kill(job).await }, |py, killed| {
            Ok((killed.state.name(), killed.message).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// What a job's program wrote from a byte on: the text, the next offset, whether it was all.
    #[pyo3(signature = (job, *, stderr=false, offset=0))]
    fn log(&self, job: &str, stderr: bool, offset: u64) -> PyResult<Task> {
        let ((_, caller), job) = (self.caller(vec![], None)?, job_id(job)?);
        let stream = if stderr { LogStream::Stderr } else { LogStream::Stdout };
        Ok(Task::of(async move { caller.log(job, stream, offset).await }, |py, page| {
            Ok((page.text, page.next, page.end).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Some of the caller's jobs, newest first, and whether there are more.
    #[pyo3(signature = (*, state=None, limit=None, after=None))]
    fn jobs(&self, state: Option<&str>, limit: Option<u32>, after: Option<&str>) -> PyResult<Task> {
        let unknown = |name| PyValueError::new_err(format!("{name:?} is no state of a job"));
        let filter = JobFilter {
            state: state
                .map(|name| JobState::from_name(name).ok_or_else(|| unknown(name)))
                .transpose()?,
            limit,
            after: after.map(job_id).transpose()?,
        };
        let (_, caller) = self.caller(vec![], None)?;
        Ok(Task::of(async move { caller.jobs(filter).await }, |py, page| {
            let jobs = PyList::empty(py);
            for report in &page.jobs {
                jobs.append(told(py, report)?)?;
            }
            Ok((jobs, page.more).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Forgets an ended job.
    fn remove(&self, job: &str) -> PyResult<Task> {
        let ((_, caller), job) = (self.caller(vec![], None)?, job_id(job)?);
        Ok(Task::of(async move { caller.remove(job).await }, |py, ()| Ok(py.None())))
    }
}

impl Service {
    /// Whoever calls it, with these outputs as streams, within so many seconds, and what counts the bytes
    /// of it.
    fn caller(
        &self,
        streams: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<(Arc<Meter>, impl Caller + use<>)> {
        let meter = Arc::<Meter>::default();
        let timeout = duration(timeout)?;
        let meter_of = Some(Arc::clone(&meter));
        let options = Options { streams, meter: meter_of, timeout, ..Options::default() };
        Ok((meter, self.client.with(options)))
    }
}

/// What is seen of a call that is waited for.
#[pyclass(frozen, module = "fishplate._native")]
pub(crate) struct Watch {
    /// What its job told last, until somebody takes it.
    last: Arc<Mutex<Option<JobReport>>>,
}

#[pymethods]
impl Watch {
    #[new]
    fn new() -> Self {
        Self { last: Arc::default() }
    }

    /// What the call's job has told since this was asked last.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.map(|report| told(py, &report)).transpose()
    }
}

/// What says who calls.
#[derive(FromPyObject)]
pub(crate) enum Auth {
    Token(String),
    Password(String, String),
}

impl Auth {
    pub(crate) fn credential(self) -> Credential {
        match self {
            Self::Token(token) => Credential::Token(token),
            Self::Password(user, password) => Credential::Password { user, password },
        }
    }
}

/// Names of the services of a server.
#[pyfunction]
#[pyo3(signature = (url, *, timeout=None, connect_timeout=None, ca_file=None, auth=None))]
pub(crate) fn services(
    url: String,
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    ca_file: Option<PathBuf>,
    auth: Option<Auth>,
) -> PyResult<Task> {
    let settings = settings(timeout, connect_timeout, ca_file, None, None, auth)?;
    let listing = async move {
        let listed = listing::list(&url, &settings).await?;
        let names = listed.map(|listed| listed.services);
        names.ok_or_else(|| Error::NotWsdl {
            url,
            source: WsdlError::Unusable("it lists no services".to_owned()),
        })
    };
    Ok(Task::of(listing, |py, names| Ok(names.into_pyobject(py)?.into_any().unbind())))
}

/// The services of these servers that are wanted, each with how it differs from that; why servers were passed over.
#[pyfunction]
#[pyo3(signature = (wanted, servers, *, timeout=None, connect_timeout=None, ca_file=None, address=None, packaging=None,
    auth=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn find(
    wanted: String,
    servers: Vec<String>,
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    ca_file: Option<PathBuf>,
    address: Option<String>,
    packaging: Option<&str>,
    auth: Option<Auth>,
) -> PyResult<Task> {
    let settings = settings(timeout, connect_timeout, ca_file, address, packaging, auth)?;
    let finding = async move {
        let wanted = ServiceQuery::named(&wanted, &settings).await?;
        find_services(&wanted, &servers, &settings).await
    };
    Ok(Task::of(finding, |py, found| {
        let services = PyList::empty(py);
        for of in found.services {
            let differences: Vec<_> = of.differences.into_iter().map(Difference).collect();
            let reach = Reach::of(of.service.settings().clone());
            services.append((Service { client: of.service, reach }, differences))?;
        }
        let away: Vec<_> = found.away.iter().map(ToString::to_string).collect();
        Ok((services, away).into_pyobject(py)?.into_any().unbind())
    }))
}

/// Those of this process: services that are called one after the other are often at the same host.
pub(crate) static CONNECTIONS: LazyLock<Connections> = LazyLock::new(Connections::default);

/// How a server is reached.
pub(crate) fn settings(
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    ca_file: Option<PathBuf>,
    address: Option<String>,
    packaging: Option<&str>,
    auth: Option<Auth>,
) -> PyResult<Settings> {
    let mut settings = Settings {
        timeout: duration(timeout)?,
        ca_file,
        address,
        credentials: Credentials::of_user().with(auth.map(Auth::credential)),
        connections: CONNECTIONS.clone(),
        ..Settings::default()
    };
    if let Some(wait) = duration(connect_timeout)? {
        settings.connect_timeout = wait;
    }
    let Some(name) = packaging else { return Ok(settings) };
    settings.packaged(name).ok_or_else(|| {
        let known = Settings::PACKAGINGS.map(|(name, ..)| name).join(", ");
        PyValueError::new_err(format!("{name:?} is no packaging; there are {known}"))
    })
}

fn options(
    key: Option<String>,
    session: Option<&str>,
    outputs: Vec<Choice>,
) -> PyResult<CallOptions> {
    let session: Option<SessionId> = session
        .map(|id| id.parse().map_err(|_| PyValueError::new_err(format!("{id:?} is no session"))))
        .transpose()?;
    Ok(CallOptions { key, session, outputs: choices(outputs)?, ..CallOptions::default() })
}

fn choices(outputs: Vec<Choice>) -> PyResult<Vec<OutputChoice>> {
    outputs.into_iter().map(choice).collect()
}

fn choice((name, form, to): Choice) -> PyResult<OutputChoice> {
    let form = OutputForm::from_name(&form).ok_or_else(|| {
        PyValueError::new_err(format!(
            "an output is wanted as \"value\", \"reference\" or \"auto\", not as {form:?}"
        ))
    })?;
    Ok(OutputChoice { name, form, to })
}

fn job_id(text: &str) -> PyResult<JobId> {
    text.parse().map_err(|_| PyValueError::new_err(format!("{text:?} is no job's ID")))
}

pub(crate) fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let of = |seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err(format!("{seconds} s is no time to wait")))
    };
    seconds.map(of).transpose()
}
