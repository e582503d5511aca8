//! Arguments from Python and outputs to Python: a text, a payload or an array each.

use fishplate_contract::{Argument, Results, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::payload::{Array, Payload};

/// Name, label and value of each.
pub(crate) type Given<'py> = Vec<(String, Option<String>, Bound<'py, PyAny>)>;

/// What Python gives.
pub(crate) fn arguments(given: Given<'_>) -> PyResult<Vec<Argument>> {
    given
        .into_iter()
        .map(|(name, label, value)| Ok(Argument { name, label, value: of(&value)? }))
        .collect()
}

fn of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(Value::Text(text));
    }
    if let Ok(payload) = value.cast::<Payload>() {
        return Ok(Value::Data(payload.get().0.clone()));
    }
    if let Ok(array) = value.cast::<Array>() {
        return Ok(Value::Array(array.get().0.clone()));
    }
    Err(PyTypeError::new_err("a value is a text, a payload or an array"))
}

/// What Python gets: the outputs, and the job behind them if there is one that stays.
pub(crate) fn reply(py: Python<'_>, reply: Results) -> PyResult<Py<PyAny>> {
    let outputs = outputs(py, reply.outputs)?;
    let job = reply.job.map(|job| job.id.to_string());
    Ok((outputs, job).into_pyobject(py)?.into_any().unbind())
}

fn outputs(py: Python<'_>, given: Vec<Argument>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for argument in given {
        let Argument { name, label, value } = argument;
        let value = as_object(py, value)?;
        list.append(PyTuple::new(
            py,
            [name.into_pyobject(py)?.into_any(), label.into_pyobject(py)?.into_any(), value],
        )?)?;
    }
    Ok(list)
}

fn as_object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Data(payload) => Payload(payload).into_pyobject(py)?.into_any(),
        Value::Array(array) => Array(array).into_pyobject(py)?.into_any(),
        Value::Record(fields) => outputs(py, fields)?.into_any(),
    })
}
