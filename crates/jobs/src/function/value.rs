//! Rust types as parameters.

use fishplate_contract::lexical;
use fishplate_contract::{ByteStream, DataType, Fault, FaultCode, Payload, Value};

use super::payload::PayloadReader;
use super::signature::ParameterType;

/// A type that a parameter can have.
///
/// Lexical texts were checked against [`FromValue::data_type`] before, so that reading one fails
/// only if it is of another type than it says.
pub trait FromValue: Sized {
    /// The parameter may be left out.
    const OPTIONAL: bool = false;

    /// A file is read once, from its beginning to its end, and may be given while it arrives.
    const STREAMED: bool = false;

    /// An array's elements are all read into memory, wherever they are.
    const IN_MEMORY: bool = false;

    /// The type that callers see.
    fn data_type() -> DataType;

    /// The value of a parameter; `None` if it was left out.
    ///
    /// # Errors
    /// If it is not of this type, or cannot be read.
    fn from_value(value: Option<Value>) -> Result<Self, Fault>;
}

/// A type that an output can have.
pub trait IntoValue: Sized {
    /// The output may be left out.
    const OPTIONAL: bool = false;

    /// A file that is sent while it is made.
    const STREAMED: bool = false;

    /// The type that callers see.
    fn data_type() -> DataType;

    /// The value of an output; `None` leaves it out.
    fn into_value(self) -> Option<Value>;
}

/// What a function gives: one output, or several as a tuple.
pub trait IntoOutputs: Sized {
    /// What is told of each output.
    fn types() -> Vec<ParameterType>;

    /// Their values, in order.
    fn into_values(self) -> Vec<Option<Value>>;
}

/// A value of another type than it should be.
pub(super) fn mismatch(data_type: &DataType) -> Fault {
    let what = format!("a value is not of type {}", data_type.name());
    Fault::new(FaultCode::InvalidValue, what)
}

fn text<T>(
    value: Option<&Value>,
    data_type: &DataType,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Fault> {
    match value {
        Some(Value::Text(text)) => read(text).ok_or_else(|| mismatch(data_type)),
        _ => Err(mismatch(data_type)),
    }
}

macro_rules! numbers {
    ($($number:ty: $data_type:ident $read:ident $print:ident,)+) => {$(
        impl FromValue for $number {
            fn data_type() -> DataType {
                DataType::$data_type
            }

            fn from_value(value: Option<Value>) -> Result<Self, Fault> {
                text(value.as_ref(), &DataType::$data_type, |text| {
                    fishplate_contract::number::$read(lexical::trimmed(text).as_bytes())
                })
            }
        }

        impl IntoValue for $number {
            fn data_type() -> DataType {
                DataType::$data_type
            }

            fn into_value(self) -> Option<Value> {
                let mut text = Vec::new();
                fishplate_contract::number::$print(self, &mut text);
                // Numbers are printed in ASCII.
                String::from_utf8(text).ok().map(Value::Text)
            }
        }
    )+};
}

numbers! {
    i32: Int int print_int,
    i64: Long long print_long,
    f32: Float float print_float,
    f64: Double double print_double,
}

impl FromValue for bool {
    fn data_type() -> DataType {
        DataType::Bool
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        text(value.as_ref(), &DataType::Bool, |text| match lexical::trimmed(text) {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }
}

impl IntoValue for bool {
    fn data_type() -> DataType {
        DataType::Bool
    }

    fn into_value(self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }
}

impl FromValue for String {
    fn data_type() -> DataType {
        DataType::String
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        match value {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(mismatch(&DataType::String)),
        }
    }
}

impl IntoValue for String {
    fn data_type() -> DataType {
        DataType::String
    }

    fn into_value(self) -> Option<Value> {
        Some(Value::Text(self))
    }
}

/// A file's bytes.
impl FromValue for Payload {
    fn data_type() -> DataType {
        DataType::Raw
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        match value {
            Some(Value::Data(payload)) => Ok(payload),
            _ => Err(mismatch(&DataType::Raw)),
        }
    }
}

impl IntoValue for Payload {
    fn data_type() -> DataType {
        DataType::Raw
    }

    fn into_value(self) -> Option<Value> {
        Some(Value::Data(self))
    }
}

/// A file that is read while it arrives, if it can be.
impl FromValue for PayloadReader {
    const STREAMED: bool = true;

    fn data_type() -> DataType {
        DataType::Raw
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        Self::new(&Payload::from_value(value)?)
    }
}

/// A file that is sent while it is made.
impl IntoValue for ByteStream {
    const STREAMED: bool = true;

    fn data_type() -> DataType {
        DataType::Raw
    }

    fn into_value(self) -> Option<Value> {
        Some(Value::Data(Payload::Stream(self)))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const OPTIONAL: bool = true;
    const STREAMED: bool = T::STREAMED;
    const IN_MEMORY: bool = T::IN_MEMORY;

    fn data_type() -> DataType {
        T::data_type()
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        value.map(|value| T::from_value(Some(value))).transpose()
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    const OPTIONAL: bool = true;
    const STREAMED: bool = T::STREAMED;

    fn data_type() -> DataType {
        T::data_type()
    }

    fn into_value(self) -> Option<Value> {
        self.and_then(T::into_value)
    }
}

impl<T: IntoValue> IntoOutputs for T {
    fn types() -> Vec<ParameterType> {
        vec![ParameterType::output::<T>()]
    }

    fn into_values(self) -> Vec<Option<Value>> {
        vec![self.into_value()]
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),*))+) => {$(
        impl<$($name: IntoValue),*> IntoOutputs for ($($name,)*) {
            fn types() -> Vec<ParameterType> {
                vec![$(ParameterType::output::<$name>()),*]
            }

            fn into_values(self) -> Vec<Option<Value>> {
                vec![$(self.$at.into_value()),*]
            }
        }
    )+};
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T>(value: &T, text: &str)
    where
        T: FromValue + IntoValue + PartialEq + Clone + std::fmt::Debug,
    {
        let printed = value.clone().into_value();
        assert!(matches!(&printed, Some(Value::Text(printed)) if printed == text), "{printed:?}");
        assert_eq!(T::from_value(printed).unwrap(), *value);
    }

    #[test]
    fn scalars_go_there_and_back() {
        there_and_back(&-7_i32, "-7");
        there_and_back(&i64::MIN, "-9223372036854775808");
        there_and_back(&true, "true");
        there_and_back(&" as it is ".to_owned(), " as it is ");
        there_and_back(&f64::NEG_INFINITY, "-INF");
        there_and_back(&0.1_f32, "0.1");
        there_and_back(&Some(3_i32), "3");
        assert_eq!(Option::<i32>::from_value(None), Ok(None));
        assert!(None::<i32>.into_value().is_none());
    }

    #[test]
    fn a_value_of_another_type_is_told() {
        let fault = i32::from_value(Some(Value::Text("one".to_owned()))).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidValue);
        assert!(fault.message.contains("int"), "{fault}");
        assert!(bool::from_value(None).is_err());
    }
}
