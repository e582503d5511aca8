//! What tools are made of.

use std::sync::Arc;

use fishplate_contract::{Caller, Verb, VerbDefinition};

/// Services whose operations are tools, as one caller may use them.
pub trait Services: Send + Sync + 'static {
    /// The operations, in an order that lasts. No two services have one name.
    fn operations(&self) -> Vec<OperationName>;

    /// The service of that name; `None` if the caller may know of none.
    fn service(&self, name: &str) -> Option<ServiceTools>;
}

/// An operation of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationName {
    /// The service.
    pub service: String,
    /// Its operation.
    pub operation: String,
}

/// A service, and who calls it.
#[derive(Clone)]
pub struct ServiceTools {
    /// Its full name.
    pub title: String,
    /// What it does.
    pub documentation: String,
    /// Its verbs.
    pub verbs: Vec<VerbDefinition>,
    /// It takes our options (how outputs are wanted); services of others do not.
    pub takes_options: bool,
    /// Who calls it.
    pub caller: Arc<dyn Caller>,
}

impl ServiceTools {
    /// The verb of an operation, if it has it.
    pub(crate) fn verb(&self, verb: Verb, operation: &str) -> Option<&VerbDefinition> {
        self.verbs.iter().find(|it| it.verb == verb && it.operation == operation)
    }
}
