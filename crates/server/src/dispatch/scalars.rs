//! The arguments of what is asked of the server itself: scalars, each accepted by its parameter.

use fishplate_contract::{Argument, Fault, Signature, Value};

/// Scalars by name.
#[derive(Debug)]
pub struct Scalars(Vec<(String, String)>);

impl Scalars {
    /// Those among the arguments, as their parameters accept them.
    ///
    /// # Errors
    /// What the parameter says of a value.
    pub fn accept(signature: &Signature, arguments: Vec<Argument>) -> Result<Self, Fault> {
        let mut accepted = Vec::new();
        for argument in arguments {
            let parameter = signature.input(&argument.name);
            if let (Value::Text(text), Some(parameter)) = (&argument.value, parameter) {
                let text = parameter.accept(text)?.into_owned();
                accepted.push((argument.name, text));
            }
        }
        Ok(Self(accepted))
    }

    /// The one of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(its, _)| its == name).map(|(_, text)| text.as_str())
    }
}
