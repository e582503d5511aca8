//! What is told of jobs, as dictionaries: the Python half makes data classes of them.

use fishplate_contract::{JobReport, PlacementMethod, Timestamp, Transfer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// All there is to tell of a job.
pub(crate) fn told<'py>(py: Python<'py>, report: &JobReport) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("id", report.id.to_string())?;
    fields.set_item("service", &report.service)?;
    fields.set_item("operation", &report.operation)?;
    fields.set_item("state", report.state.name())?;
    fields.set_item("progress", report.progress)?;
    fields.set_item("message", &report.message)?;
    fields.set_item("submitted", seconds(report.submitted))?;
    fields.set_item("started", report.started.map(seconds))?;
    fields.set_item("ended", report.ended.map(seconds))?;
    fields.set_item("exit_code", report.exit_code)?;
    fields.set_item("signal", &report.signal)?;
    fields.set_item("cpu_seconds", report.usage.map(|usage| usage.cpu_seconds))?;
    fields.set_item("max_memory", report.usage.map(|usage| usage.max_memory))?;
    fields.set_item("disk", report.usage.map(|usage| usage.disk))?;
    let transfers = PyList::empty(py);
    for transfer in &report.transfers {
        transfers.append(transfer_told(py, transfer)?)?;
    }
    fields.set_item("transfers", transfers)?;
    Ok(fields)
}

fn transfer_told<'py>(py: Python<'py>, transfer: &Transfer) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("parameter", &transfer.parameter)?;
    fields.set_item("peer", &transfer.peer)?;
    fields.set_item("state", transfer.state.name())?;
    fields.set_item("bytes", transfer.bytes)?;
    fields.set_item("total", transfer.total)?;
    fields.set_item("placed", transfer.placed.map(PlacementMethod::name))?;
    fields.set_item("cached", transfer.cached)?;
    Ok(fields)
}

/// Seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of any date we meet fit")]
pub(crate) fn seconds(moment: Timestamp) -> f64 {
    moment.0 as f64 / 1000.0
}
