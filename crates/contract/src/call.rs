//! One call, its options, and what came of it. Every face enters at [`Call`] and leaves at
//! [`Outcome`].

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::array::Array;
use crate::fault::Fault;
use crate::payload::Payload;
use crate::service::Parameter;
use crate::session::SessionId;

/// A request to run one operation of one service.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the service.
    pub service: String,
    /// Name of the operation.
    pub operation: String,
    /// What the caller gave, in the caller's order.
    pub arguments: Vec<Argument>,
    /// Our own options, which travel beside the arguments and never among them.
    pub options: CallOptions,
    /// Who calls.
    pub principal: Principal,
}

/// A named value: an argument of a call or an output of a job.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Name of the parameter.
    pub name: String,
    /// Tells repeated values apart: the `name` attribute, a file's name (outputs by glob).
    pub label: Option<String>,
    /// The value.
    pub value: Value,
}

impl Argument {
    /// A value of a parameter that stands once.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self { name: name.into(), label: None, value }
    }

    /// The same in the form that its parameter has: a text for a file is its bytes.
    #[must_use]
    pub fn in_form_of(mut self, parameter: &Parameter) -> Self {
        if parameter.data_type.is_binary()
            && let Value::Text(text) = &mut self.value
        {
            self.value = Value::Data(Payload::Inline(std::mem::take(text).into()));
        }
        self
    }

    /// A value as text.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(name, Value::Text(text.into()))
    }
}

/// A value of a parameter.
#[derive(Clone, Debug)]
pub enum Value {
    /// A scalar in its lexical form, as it was sent.
    Text(String),
    /// A file's bytes.
    Data(Payload),
    /// An array of numbers.
    Array(Array),
    /// Named fields (reports only).
    Record(Vec<Argument>),
}

impl Value {
    /// The bytes of a file or of an array.
    pub fn payload(&self) -> Option<&Payload> {
        match self {
            Self::Data(payload) | Self::Array(Array { data: payload, .. }) => Some(payload),
            Self::Text(_) | Self::Record(_) => None,
        }
    }

    /// The same, to be put elsewhere.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Data(payload) | Self::Array(Array { data: payload, .. }) => Some(payload),
            Self::Text(_) | Self::Record(_) => None,
        }
    }

    /// Its bytes are still on their way.
    pub fn is_stream(&self) -> bool {
        matches!(self.payload(), Some(Payload::Stream(_)))
    }
}

/// What a caller may ask for beside the operation's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Idempotency key: the same key of the same owner on the same service never runs twice.
    pub key: Option<String>,
    /// The session that the job runs in.
    pub session: Option<SessionId>,
    /// How the caller wants outputs; those not named are as in [`OutputForm::default`].
    pub outputs: Vec<OutputChoice>,
    /// What the face keeps with the job for its own later answers about it; nobody else reads it.
    pub note: Option<String>,
    /// What of the job the face tells somebody by itself, who may be told only once it was kept that he is to be.
    pub notices: Notices,
}

/// What of a job is to be told, without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// That its program was started.
    pub start: bool,
    /// How it ended.
    pub end: bool,
}

/// How a caller wants one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChoice {
    /// Name of the output; [`OutputChoice::ALL`] for all that hold files or arrays.
    pub name: String,
    /// By value or by reference.
    pub form: OutputForm,
    /// URL to which the server delivers it (`mailto:`, `s3:`, `ftp:`, ...), which then is the
    /// reference.
    pub to: Option<String>,
}

impl OutputChoice {
    /// Stands for every output that holds a file or an array and has no choice of its own.
    pub const ALL: &'static str = "*";
}

/// By value or by reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputForm {
    /// In the answer, as its packaging has it; outside a session, what is not chosen.
    #[default]
    Value,
    /// As a URL, to be fetched by whoever has it; in a session, what is not chosen.
    Reference,
    /// By reference if it is large (`reference_size`), else by value; the answer shows which.
    Auto,
}

impl OutputForm {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::Value, Self::Reference, Self::Auto];

    /// Its name on every face.
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Reference => "reference",
            Self::Auto => "auto",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// Who calls, and so who owns the jobs that come of it. Two of one name are the same, whatever their credentials are good for.
#[derive(Clone, Debug)]
pub struct Principal {
    name: String,
    /// The services that the credential is good for; `None`: all.
    services: Option<Arc<[String]>>,
}

impl Principal {
    /// Everybody who did not say who they are; they share their jobs.
    pub fn anonymous() -> Self {
        Self::named("")
    }

    /// A named principal, as the authentication in front of us told it. Nobody's name is empty.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), services: None }
    }

    /// The same, with a credential that is good for these services only; for all, if there are none.
    #[must_use]
    pub fn limited_to(mut self, services: &[String]) -> Self {
        self.services = (!services.is_empty()).then(|| services.into());
        self
    }

    /// Whether the credential is good for a service.
    pub fn is_for(&self, service: &str) -> bool {
        self.services.as_ref().is_none_or(|services| services.iter().any(|name| name == service))
    }

    /// The services that the credential is good for; none: all.
    pub fn services(&self) -> &[String] {
        self.services.as_deref().unwrap_or_default()
    }

    /// Nobody in particular.
    pub fn is_anonymous(&self) -> bool {
        self.name.is_empty()
    }

    /// Its name; empty if it is anonymous.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// What came of a call: the outputs in the operation's order, or a fault.
pub type Outcome = Result<Vec<Argument>, Fault>;
