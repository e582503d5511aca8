//! Errors as exceptions, which the Python half defines.

use std::error::Error as _;

use fishplate_client::Error;
use fishplate_contract::{CallError, Fault, FaultCode};
use fishplate_data::transfer::TransferError;
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Where the exceptions are.
const EXCEPTIONS: &str = "fishplate.errors";

/// The exception for an error; if the Python half cannot make it, why not.
pub(crate) fn raised(py: Python<'_>, error: CallError) -> PyErr {
    let fault = error.fault().cloned();
    let made = match (error.into_source().downcast::<Error>(), fault) {
        (Ok(error), _) => of_client(py, &error),
        (Err(_), Some(fault)) => fault_as_exception(py, &fault),
        (Err(other), None) => {
            let fault = Fault::new(FaultCode::Internal, other.to_string());
            fault_as_exception(py, &fault)
        }
    };
    made.map_or_else(|failure| failure, PyErr::from_value)
}

fn of_client<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    match error {
        Error::Fault(fault) => fault_as_exception(py, fault),
        // What a server would say in our place.
        Error::DataMismatch { .. } => {
            fault_as_exception(py, &Fault::new(FaultCode::DataMismatch, error.to_string()))
        }
        Error::BrokenOff(fault) => fault_as_exception(py, fault),
        // Our own disk.
        Error::Transfer(TransferError::Local { .. }) => {
            PyOSError::type_object(py).call1((error.to_string(),))
        }
        Error::Transfer(transfer) => fault_as_exception(py, &transfer.into()),
        other => error_as_exception(py, other),
    }
}

fn fault_as_exception<'py>(py: Python<'py>, fault: &Fault) -> PyResult<Bound<'py, PyAny>> {
    let parts = PyDict::new(py);
    parts.set_item("parameter", &fault.parameter)?;
    parts.set_item("limit", fault.limit.as_ref().map(|limit| (&limit.name, &limit.value)))?;
    parts.set_item("job", fault.job.map(|job| job.to_string()))?;
    parts.set_item("exit_code", fault.exit_code)?;
    parts.set_item("signal", &fault.signal)?;
    parts.set_item("stderr", &fault.stderr)?;
    parts.set_item("retry_after", fault.retry_after.map(|wait| wait.as_secs_f64()))?;
    let arguments = (fault.code.name(), &fault.message);
    py.import(EXCEPTIONS)?.getattr("_fault")?.call(arguments, Some(&parts))
}

fn error_as_exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let class = match error {
        Error::Unreachable { .. } => "Unreachable",
        Error::ConnectionLost { .. } => "ConnectionLost",
        Error::TimedOut { .. } => "Timeout",
        Error::UnknownOperation { .. }
        | Error::UnknownParameter { .. }
        | Error::MissingParameter { .. }
        | Error::RepeatedParameter { .. }
        | Error::Array(_) => "ArgumentError",
        Error::Delivery(error) => {
            return PyOSError::type_object(py).call1((error.to_string(),));
        }
        Error::BadUrl { .. } => "BadUrl",
        Error::File { source, path, .. } => {
            // As `open` would say it.
            let system = PyOSError::type_object(py);
            let text = source.to_string();
            return match source.raw_os_error() {
                Some(number) => system.call1((number, reason(&text), path)),
                None => system.call1((format!("{error}: {text}"),)),
            };
        }
        _ => "NotUnderstood",
    };
    let mut text = error.to_string();
    match error {
        Error::UnknownOperation { closest, known, .. }
        | Error::UnknownParameter { closest, known, .. } => match closest {
            Some(closest) => text.push_str(&format!("; did you mean {closest}?")),
            None => text.push_str(&format!("; there are: {}", known.join(", "))),
        },
        other => {
            if let Some(source) = other.source() {
                text.push_str(&format!(": {source}"));
            }
        }
    }
    let made = py.import(EXCEPTIONS)?.getattr(class)?.call1((text,))?;
    if let Error::Http { status, .. } = error {
        made.setattr("status", status)?;
    }
    Ok(made)
}

/// Without the number that Rust appends.
fn reason(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}
