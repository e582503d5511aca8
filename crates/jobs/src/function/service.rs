//! A service of functions: names, help and bounds beside the code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fishplate_contract::{
    Argument, DataType, Fault, FaultCode, Operation, Outcome, Parameter, Service, Signature, Value,
};
use fishplate_formats::dimension::check_empty_rows;

use super::accept::accept;
use super::signature::{Callable, CallableWithContext, Closure, ClosureWithContext, ParameterType};
use super::{Context, Function};
use fishplate_programs::plan::JobLimits;
use fishplate_programs::template::is_name;

/// A service whose operations are functions of this process.
#[derive(Debug)]
pub struct Functions {
    service: Service,
    /// In the order of the service's operations.
    entries: Vec<FunctionEntry>,
    max_running: Option<u32>,
}

/// A function with what callers see of it.
#[derive(Debug)]
pub struct FunctionEntry {
    operation: Operation,
    function: Box<dyn Function>,
    quick: fn(&[Argument]) -> bool,
    repeatable: bool,
    wall_time: Option<Duration>,
    limits: JobLimits,
}

impl Functions {
    /// A service of that name, an XML `NCName`, and namespace, an absolute URI. It has no
    /// operations yet.
    ///
    /// # Panics
    /// If the name is none.
    pub fn new(name: &str, namespace: &str) -> Self {
        assert!(is_name(name), "{name:?} is no name for a service");
        let service = Service {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            title: name.to_owned(),
            documentation: String::new(),
            operations: Vec::new(),
        };
        Self { service, entries: Vec::new(), max_running: None }
    }

    /// The same with a full name for people.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        title.clone_into(&mut self.service.title);
        self
    }

    /// The same with a text that says what it does.
    #[must_use]
    pub fn documentation(mut self, text: &str) -> Self {
        text.clone_into(&mut self.service.documentation);
        self
    }

    /// The same with another bound on how many of its jobs run at once.
    #[must_use]
    pub fn max_running(mut self, most: u32) -> Self {
        self.max_running = Some(most);
        self
    }

    /// The same with this function as one more operation.
    ///
    /// # Panics
    /// If there is one of that name.
    #[must_use]
    pub fn with(mut self, entry: FunctionEntry) -> Self {
        let name = &entry.operation.name;
        assert!(self.service.operation(name).is_none(), "two operations are called {name}");
        self.service.operations.push(entry.operation.clone());
        self.entries.push(entry);
        self
    }

    /// The same with a closure as one more operation and nothing more to say of it.
    ///
    /// # Panics
    /// If there is one of that name, or the names are not as many as the closure's parameters and
    /// outputs.
    #[must_use]
    pub fn function<Arguments: 'static>(
        self,
        name: &str,
        inputs: impl IntoIterator<Item = &'static str>,
        outputs: impl IntoIterator<Item = &'static str>,
        closure: impl Callable<Arguments>,
    ) -> Self {
        self.with(FunctionEntry::new(name, inputs, outputs, closure))
    }

    /// What callers see.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// How many of its jobs run at once, if it says so.
    pub fn most_running(&self) -> Option<u32> {
        self.max_running
    }

    /// The function of that operation.
    ///
    /// # Errors
    /// `UnknownOperation`.
    pub fn entry(&self, operation: &str) -> Result<&FunctionEntry, Fault> {
        self.index_of(operation).map(|index| self.at(index))
    }

    /// The function of a place that [`Functions::index_of`] gave.
    ///
    /// # Panics
    /// If it has none there.
    pub fn at(&self, index: usize) -> &FunctionEntry {
        &self.entries[index]
    }

    /// The place of that operation's function.
    ///
    /// # Errors
    /// `UnknownOperation`.
    pub fn index_of(&self, operation: &str) -> Result<usize, Fault> {
        let found = self.entries.iter().position(|entry| entry.operation.name == operation);
        found.ok_or_else(|| {
            let known: Vec<&str> =
                self.entries.iter().map(|entry| entry.operation.name.as_str()).collect();
            let what = format!(
                "service {} has no operation {operation:?}; it has {}",
                self.service.name,
                known.join(", ")
            );
            Fault::new(FaultCode::UnknownOperation, what)
        })
    }
}

impl FunctionEntry {
    /// A closure under that name: `inputs` and `outputs` are the names of its parameters and of
    /// what it gives, in order.
    ///
    /// # Panics
    /// If a name is none, or there are not as many as the closure's parameters and outputs.
    pub fn new<Arguments: 'static, C: Callable<Arguments>>(
        name: &str,
        inputs: impl IntoIterator<Item = &'static str>,
        outputs: impl IntoIterator<Item = &'static str>,
        closure: C,
    ) -> Self {
        let signature = signature(name, (inputs, C::inputs()), (outputs, C::outputs()));
        let function = Closure::new(closure, &signature.inputs, &signature.outputs);
        Self::of(name, signature, function)
    }

    /// The same for a closure whose first parameter is the [`Context`].
    ///
    /// # Panics
    /// If a name is none, or there are not as many as the closure's parameters and outputs.
    pub fn with_context<Arguments: 'static, C: CallableWithContext<Arguments>>(
        name: &str,
        inputs: impl IntoIterator<Item = &'static str>,
        outputs: impl IntoIterator<Item = &'static str>,
        closure: C,
    ) -> Self {
        let signature = signature(name, (inputs, C::inputs()), (outputs, C::outputs()));
        let function = Closure::new(closure, &signature.inputs, &signature.outputs);
        Self::of(name, signature, ClosureWithContext(function))
    }

    /// Any function with the signature that it has.
    ///
    /// # Panics
    /// If the name is none.
    pub fn of(name: &str, signature: Signature, function: impl Function + 'static) -> Self {
        assert!(is_name(name), "{name:?} is no name for an operation");
        let operation =
            Operation { name: name.to_owned(), documentation: String::new(), signature };
        Self {
            operation,
            function: Box::new(function),
            quick: |_| false,
            repeatable: false,
            wall_time: None,
            limits: JobLimits::default(),
        }
    }

    /// The same with a text that says what it does.
    #[must_use]
    pub fn documentation(mut self, text: &str) -> Self {
        text.clone_into(&mut self.operation.documentation);
        self
    }

    /// The same with more to say of one of its inputs: help, a unit, a range, a default.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn input(mut self, name: &str, tell: impl FnOnce(Parameter) -> Parameter) -> Self {
        tell_of(&mut self.operation.signature.inputs, name, tell);
        self
    }

    /// The same with more to say of one of its outputs.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn output(mut self, name: &str, tell: impl FnOnce(Parameter) -> Parameter) -> Self {
        tell_of(&mut self.operation.signature.outputs, name, tell);
        self
    }

    /// The same, but a call runs where its message was read, without a thread of its own: for what
    /// takes microseconds and never waits. (A file that it reads while it arrives is waited for on a thread.)
    #[must_use]
    pub fn quick(self) -> Self {
        self.quick_if(|_| true)
    }

    /// The same for the calls of which this says so: for what takes microseconds with most arguments, and
    /// long with some. It is given them as they were accepted.
    #[must_use]
    pub fn quick_if(mut self, quick: fn(&[Argument]) -> bool) -> Self {
        self.quick = quick;
        self
    }

    /// The same, but running it twice does no harm and gives the same: a call with an idempotency
    /// key then needs no job to keep the promise of the key.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// The same with another bound on how long a call or a job of it may take.
    #[must_use]
    pub fn wall_time(mut self, most: Duration) -> Self {
        self.wall_time = Some(most);
        self
    }

    /// The same with other limits on its jobs.
    #[must_use]
    pub fn limits(mut self, limits: JobLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What callers see.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Whether a call of it with these arguments runs where its message was read.
    pub fn is_quick(&self, arguments: &[Argument]) -> bool {
        (self.quick)(arguments)
    }

    /// Whether running it twice does no harm and gives the same.
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Whether an output is sent while it is made.
    pub fn gives_streams(&self) -> bool {
        self.operation.signature.outputs.iter().any(|output| output.streamed)
    }

    /// How long a call of it may take, if it says so.
    pub fn most_time(&self) -> Option<Duration> {
        self.wall_time
    }

    /// What its jobs may use.
    pub fn job_limits(&self) -> JobLimits {
        let wall_time = self.wall_time.map(|most| most.as_secs_f64());
        JobLimits { wall_time: wall_time.or(self.limits.wall_time), ..self.limits.clone() }
    }

    /// A call's arguments, each checked as its parameter wants it, defaults filled in.
    ///
    /// # Errors
    /// A fault that names the parameter and says what would be right.
    pub fn accept(&self, arguments: Vec<Argument>) -> Result<Vec<Argument>, Fault> {
        accept(&self.operation.name, &self.operation.signature.inputs, arguments)
    }

    /// Runs it here, with arguments that were accepted. One that panics is an `Internal` fault.
    ///
    /// # Errors
    /// The function's own fault.
    pub fn run(&self, arguments: Vec<Argument>, context: &Context) -> Outcome {
        // A function that panicked may be called again: what it keeps between calls is its own
        // affair, and locks of the standard library tell of it.
        let run = catch_unwind(AssertUnwindSafe(|| self.function.call(arguments, context)));
        let outcome = run.unwrap_or_else(|panic| {
            let operation = &self.operation.name;
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            tracing::error!(operation, message, "a function panicked");
            let what = format!("the function {operation} failed; the server's log has more");
            Err(Fault::new(FaultCode::Internal, what))
        });
        outcome.and_then(|outputs| outputs.iter().try_for_each(check_output).map(|()| outputs))
    }
}

/// Checks that what a function gave can be answered.
fn check_output(output: &Argument) -> Result<(), Fault> {
    match &output.value {
        Value::Array(array) => {
            let what = format!("output {}", output.name);
            check_empty_rows(&array.shape, &what).map_err(|problem| {
                Fault::new(FaultCode::OutputInvalid, problem).parameter(&output.name)
            })
        }
        Value::Record(fields) => fields.iter().try_for_each(check_output),
        Value::Text(_) | Value::Data(_) => Ok(()),
    }
}

fn signature<'n>(
    operation: &str,
    (inputs, input_types): (impl IntoIterator<Item = &'n str>, Vec<ParameterType>),
    (outputs, output_types): (impl IntoIterator<Item = &'n str>, Vec<ParameterType>),
) -> Signature {
    let parameters = |names: Vec<&str>, types: Vec<ParameterType>| -> Vec<Parameter> {
        assert!(
            names.len() == types.len(),
            "{operation} has {} parameters or outputs, but names for {}",
            types.len(),
            names.len()
        );
        let typed = names.into_iter().zip(types);
        typed.map(|(name, typed)| parameter(operation, name, typed)).collect()
    };
    Signature {
        inputs: parameters(inputs.into_iter().collect(), input_types),
        outputs: parameters(outputs.into_iter().collect(), output_types),
    }
}

fn parameter(operation: &str, name: &str, typed: ParameterType) -> Parameter {
    let ParameterType { data_type, optional, streamed } = typed;
    assert!(is_name(name), "{operation}: {name:?} is no name for a parameter");
    // There is no command line in which a text could pass for an option.
    let allow_leading_dash = data_type == DataType::String;
    Parameter { optional, streamed, allow_leading_dash, ..Parameter::new(name, data_type) }
}

fn tell_of(parameters: &mut [Parameter], name: &str, tell: impl FnOnce(Parameter) -> Parameter) {
    let found = parameters.iter_mut().find(|parameter| parameter.name == name);
    let Some(parameter) = found else { panic!("there is no parameter {name}") };
    let told = tell(parameter.clone());
    // Name and type are the function's.
    *parameter =
        Parameter { name: parameter.name.clone(), data_type: parameter.data_type.clone(), ..told };
}

#[cfg(test)]
mod tests;
