//! What a service offers, from its description.

use fishplate_client::find;
use fishplate_contract as contract;
use fishplate_wire::wsdl::DescribedOperation;
use pyo3::prelude::*;

/// One input or output of an operation.
#[pyclass(frozen, get_all, module = "fishplate")]
#[derive(Clone)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: String,
    /// Its type: `int`, `long`, `float`, `double`, `bool`, `string`, `raw` (a file), `xml`, `dir`
    /// (a directory), or an array such as `double[n,m]`.
    pub(crate) r#type: String,
    /// What its elements are (`int`, `long`, `float`, `double`), if it is an array.
    element: Option<&'static str>,
    /// Lengths of its axes, if it is an array: a number, a name, or nothing.
    dimensions: Option<Vec<String>>,
    /// One line for people.
    help: String,
    /// Physical unit, such as `mm`; empty if it has none.
    unit: String,
    /// Media type of a file; empty if not told.
    media_type: String,
    /// It is one file, which can be a stream.
    file: bool,
    /// May be left out.
    optional: bool,
    /// The text used when it is left out.
    default: Option<String>,
    /// May stand any number of times.
    repeated: bool,
    /// The only texts allowed, if not empty.
    choices: Vec<String>,
    /// Smallest value allowed.
    min: Option<String>,
    /// Largest value allowed.
    max: Option<String>,
}

impl Parameter {
    fn of(parameter: &contract::Parameter) -> Self {
        let array = parameter.data_type.as_array();
        Self {
            name: parameter.name.clone(),
            r#type: parameter.data_type.name().into_owned(),
            element: array.map(|array| array.element.name()),
            dimensions: array.map(|array| array.dimensions.iter().map(length).collect()),
            help: parameter.help.clone(),
            unit: parameter.unit.clone(),
            media_type: parameter.media_type.clone(),
            file: parameter.is_file(),
            optional: parameter.optional,
            default: parameter.default.clone(),
            repeated: parameter.repeated,
            choices: parameter.choices.clone(),
            min: parameter.min.clone(),
            max: parameter.max.clone(),
        }
    }
}

fn length(dimension: &contract::Dimension) -> String {
    match dimension {
        contract::Dimension::Any => String::new(),
        contract::Dimension::Named(name) => name.clone(),
        contract::Dimension::Fixed(length) => length.to_string(),
    }
}

#[pymethods]
impl Parameter {
    fn __repr__(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" [{}]", self.unit) };
        format!("<{}: {}{unit}>", self.name, self.r#type)
    }
}

/// What a service does when it is called by this name.
#[pyclass(frozen, get_all, module = "fishplate._native")]
pub(crate) struct Operation {
    /// Its name; `call` if the service has only one.
    name: String,
    /// What it does.
    documentation: String,
    /// What it takes, in order.
    inputs: Vec<Parameter>,
    /// What it gives, in order.
    outputs: Vec<Parameter>,
}

impl Operation {
    pub(crate) fn of(described: &DescribedOperation) -> Self {
        let definition = &described.definition;
        Self {
            name: definition.operation.clone(),
            documentation: definition.documentation.clone(),
            inputs: definition.signature.inputs.iter().map(Parameter::of).collect(),
            outputs: definition.signature.outputs.iter().map(Parameter::of).collect(),
        }
    }
}

/// One thing in which two interfaces differ.
#[pyclass(frozen, module = "fishplate")]
pub(crate) struct Difference(pub(crate) find::Difference);

#[pymethods]
impl Difference {
    /// The operation.
    #[getter]
    fn operation(&self) -> &str {
        &self.0.operation
    }

    /// The parameter, with its direction: `input x`. `None` if it is about the whole operation.
    #[getter]
    fn parameter(&self) -> Option<&str> {
        self.0.parameter.as_deref()
    }

    /// What of it: `unit`, `type`.
    #[getter]
    fn what(&self) -> &'static str {
        self.0.what
    }

    /// As the first has it.
    #[getter]
    fn first(&self) -> &str {
        &self.0.first
    }

    /// As the second has it.
    #[getter]
    fn second(&self) -> &str {
        &self.0.second
    }

    /// Whether who calls the first can't call the second in its place.
    #[getter]
    fn breaks(&self) -> bool {
        self.0.breaks
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Difference {}>", self.0)
    }
}
