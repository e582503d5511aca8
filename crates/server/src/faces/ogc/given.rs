//! What an operation was given, as far as a form can be filled with it again: texts and addresses as they were sent, and
//! which files there were.

use fishplate_contract::{Argument, Payload, Value};
use serde::{Deserialize, Serialize};

/// The inputs of a request, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct GivenInputs(Vec<GivenInput>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenInput {
    /// The parameter's name.
    pub(crate) name: String,
    /// How it was given.
    #[serde(flatten)]
    pub(crate) value: GivenValue,
}

/// How an input was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GivenValue {
    /// As this text.
    Text(String),
    /// At this address.
    Url(String),
    /// As a file, which had this name if it had one.
    File(String),
}

/// Bytes that are kept with a value, beside it.
const AROUND: usize = 24;

impl GivenInputs {
    /// Those of arguments, which no form has told.
    pub(super) fn of(arguments: &[Argument]) -> Self {
        let value = |value: &Value| match value {
            Value::Text(text) => Some(GivenValue::Text(text.clone())),
            Value::Data(Payload::Reference(reference)) => {
                Some(GivenValue::Url(reference.url.clone()))
            }
            Value::Data(_) | Value::Array(_) => Some(GivenValue::File(String::new())),
            Value::Record(_) => None,
        };
        let given = arguments.iter().filter_map(|it| Some((&*it.name, value(&it.value)?)));
        let mut all = Self::default();
        given.for_each(|(name, value)| all.push(name, value));
        all
    }

    /// One more.
    pub(crate) fn push(&mut self, name: &str, value: GivenValue) {
        self.0.push(GivenInput { name: name.to_owned(), value });
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &GivenInput> {
        self.0.iter()
    }

    /// Those of a parameter.
    pub(crate) fn of_parameter<'g>(
        &'g self,
        name: &'g str,
    ) -> impl Iterator<Item = &'g GivenValue> + 'g {
        self.0.iter().filter(move |given| given.name == name).map(|given| &given.value)
    }

    /// Those that have so many bytes together, in their order, as they are kept; what is too long is left out.
    pub(super) fn within(mut self, most: usize) -> Self {
        let mut left = most;
        self.0.retain(|GivenInput { name, value }| {
            let (GivenValue::Text(text) | GivenValue::Url(text) | GivenValue::File(text)) = value;
            let room = left.checked_sub(name.len() + text.len() + AROUND);
            left = room.unwrap_or(left);
            room.is_some()
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use fishplate_contract::DataRef;

    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_comes_back() {
        let data = Value::Data(Payload::Reference(DataRef::new("http://h/a")));
        let arguments = [
            Argument::text("n", "3"),
            Argument::text("long", "x".repeat(100)),
            Argument::new("mesh", data),
            Argument::new("deck", Value::Data(Payload::Inline("abc".into()))),
        ];
        let given = GivenInputs::of(&arguments).within(100);
        let kept = serde_json::to_string(&given).unwrap();
        assert_eq!(
            kept,
            r#"[{"name":"n","text":"3"},{"name":"mesh","url":"http://h/a"},{"name":"deck","file":""}]"#
        );
        assert_eq!(serde_json::from_str::<GivenInputs>(&kept).unwrap(), given);
        let mesh: Vec<_> = given.of_parameter("mesh").collect();
        assert_eq!(mesh, [&GivenValue::Url("http://h/a".to_owned())]);
    }
}
