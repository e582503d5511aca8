//! Closures as functions: their parameters' types are the operation's.

use std::fmt;
use std::marker::PhantomData;

use fishplate_contract::{Argument, DataType, Fault, FaultCode, Outcome, Parameter, Value};

use super::value::{FromValue, IntoOutputs, IntoValue};
use super::{Context, Function};

/// What its type in Rust says of a parameter.
#[derive(Clone, Debug)]
pub struct ParameterType {
    /// The type that callers see.
    pub data_type: DataType,
    /// It may be left out.
    pub optional: bool,
    /// Its file may be given while it arrives, or while it is made.
    pub streamed: bool,
}

impl ParameterType {
    fn input<T: FromValue>() -> Self {
        Self { data_type: T::data_type(), optional: T::OPTIONAL, streamed: T::STREAMED }
    }

    pub(super) fn output<T: IntoValue>() -> Self {
        Self { data_type: T::data_type(), optional: T::OPTIONAL, streamed: T::STREAMED }
    }
}

/// A closure of up to six parameters that gives its outputs or a fault. `Arguments` is the tuple
/// of the parameters' types, which tells the implementations apart.
pub trait Callable<Arguments>: Send + Sync + 'static {
    /// Its parameters.
    fn inputs() -> Vec<ParameterType>;

    /// Its outputs.
    fn outputs() -> Vec<ParameterType>;

    /// Calls it with one value for each parameter.
    ///
    /// # Errors
    /// The closure's own fault, or that of a value that is not of its parameter's type.
    fn call(
        &self,
        values: &mut ArgumentValues<'_>,
        context: &Context,
    ) -> Result<Vec<Option<Value>>, Fault>;
}

/// The same for a closure whose first parameter is the [`Context`].
pub trait CallableWithContext<Arguments>: Send + Sync + 'static {
    /// Its parameters, the context left out.
    fn inputs() -> Vec<ParameterType>;

    /// Its outputs.
    fn outputs() -> Vec<ParameterType>;

    /// Calls it with one value for each parameter.
    ///
    /// # Errors
    /// The closure's own fault, or that of a value that is not of its parameter's type.
    fn call(
        &self,
        values: &mut ArgumentValues<'_>,
        context: &Context,
    ) -> Result<Vec<Option<Value>>, Fault>;
}

/// The values of a call, in the order of its parameters.
#[derive(Debug)]
pub struct ArgumentValues<'v> {
    names: std::slice::Iter<'v, String>,
    arguments: Vec<Argument>,
    /// Bytes of spooled data that may still be read into memory.
    most: Option<u64>,
    /// What was allowed in the first place.
    allowed: u64,
}

impl<'v> ArgumentValues<'v> {
    fn new(names: &'v [String], arguments: Vec<Argument>, most: Option<u64>) -> Self {
        Self { names: names.iter(), arguments, most, allowed: most.unwrap_or(u64::MAX) }
    }

    fn next<T: FromValue>(&mut self) -> Result<T, Fault> {
        let Some(name) = self.names.next() else { return T::from_value(None) };
        let at = self.arguments.iter().position(|argument| argument.name == *name);
        let value = at.map(|at| self.arguments.swap_remove(at).value);
        if T::IN_MEMORY
            && let Some(Value::Array(array)) = &value
        {
            self.take(name, array.data.len().unwrap_or(u64::MAX))?;
        }
        T::from_value(value).map_err(|fault| match fault.parameter {
            Some(_) => fault,
            None => fault.parameter(&**name),
        })
    }

    fn take(&mut self, name: &str, bytes: u64) -> Result<(), Fault> {
        let Some(most) = &mut self.most else { return Ok(()) };
        if let Some(left) = most.checked_sub(bytes) {
            *most = left;
            return Ok(());
        }
        let what = format!(
            "parameter {name} has {bytes} bytes, which the function takes into memory, and the \
             limit function_memory is {} bytes; send less",
            self.allowed
        );
        Err(Fault::new(FaultCode::MessageTooLarge, what)
            .parameter(name)
            .limit("function_memory", format!("{} bytes", self.allowed)))
    }
}

macro_rules! callables {
    ($(($($name:ident),*))+) => {$(
        impl<F, R, $($name: FromValue),*> Callable<($($name,)*)> for F
        where
            F: Fn($($name),*) -> Result<R, Fault> + Send + Sync + 'static,
            R: IntoOutputs,
        {
            fn inputs() -> Vec<ParameterType> {
                vec![$(ParameterType::input::<$name>()),*]
            }

            fn outputs() -> Vec<ParameterType> {
                R::types()
            }

            fn call(
                &self,
                _values: &mut ArgumentValues<'_>,
                _context: &Context,
            ) -> Result<Vec<Option<Value>>, Fault> {
                self($(_values.next::<$name>()?),*).map(R::into_values)
            }
        }

        impl<F, R, $($name: FromValue),*> CallableWithContext<($($name,)*)> for F
        where
            F: Fn(&Context, $($name),*) -> Result<R, Fault> + Send + Sync + 'static,
            R: IntoOutputs,
        {
            fn inputs() -> Vec<ParameterType> {
                vec![$(ParameterType::input::<$name>()),*]
            }

            fn outputs() -> Vec<ParameterType> {
                R::types()
            }

            fn call(
                &self,
                _values: &mut ArgumentValues<'_>,
                context: &Context,
            ) -> Result<Vec<Option<Value>>, Fault> {
                self(context, $(_values.next::<$name>()?),*)
                    .map(R::into_values)
            }
        }
    )+};
}

callables! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, G)
}

/// A closure with the names of its parameters.
pub(super) struct Closure<F, Arguments> {
    pub(super) closure: F,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) arguments: PhantomData<fn(Arguments)>,
}

/// The same with the context.
pub(super) struct ClosureWithContext<F, Arguments>(pub(super) Closure<F, Arguments>);

impl<F, Arguments> Closure<F, Arguments> {
    pub(super) fn new(closure: F, inputs: &[Parameter], outputs: &[Parameter]) -> Self {
        let names = |parameters: &[Parameter]| {
            parameters.iter().map(|parameter| parameter.name.clone()).collect()
        };
        Self { closure, inputs: names(inputs), outputs: names(outputs), arguments: PhantomData }
    }

    fn answer(
        &self,
        arguments: Vec<Argument>,
        context: &Context,
        call: impl FnOnce(&F, &mut ArgumentValues<'_>) -> Result<Vec<Option<Value>>, Fault>,
    ) -> Outcome {
        let mut values = ArgumentValues::new(&self.inputs, arguments, context.most_in_memory());
        let values = call(&self.closure, &mut values)?;
        let named = self.outputs.iter().zip(values);
        Ok(named.filter_map(|(name, value)| Some(Argument::new(&**name, value?))).collect())
    }
}

impl<F: Callable<Arguments>, Arguments: 'static> Function for Closure<F, Arguments> {
    fn call(&self, arguments: Vec<Argument>, context: &Context) -> Outcome {
        self.answer(arguments, context, |closure, values| closure.call(values, context))
    }
}

impl<F: CallableWithContext<Arguments>, Arguments: 'static> Function
    for ClosureWithContext<F, Arguments>
{
    fn call(&self, arguments: Vec<Argument>, context: &Context) -> Outcome {
        self.0.answer(arguments, context, |closure, values| closure.call(values, context))
    }
}

impl<F, Arguments> fmt::Debug for Closure<F, Arguments> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closure")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl<F, Arguments> fmt::Debug for ClosureWithContext<F, Arguments> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
