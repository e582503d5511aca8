//! One call, its options, and what came of it. Every face enters at [`Call`] and leaves at
//! [`Outcome`].

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

/// What a caller may ask for beside the operation's arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Idempotency key: the same key of the same owner on the same service never runs twice.
    pub key: Option<String>,
    /// The session that the job runs in.
    pub session: Option<SessionId>,
    /// How the caller wants outputs; those not named are as in [`OutputForm::default`].
    pub outputs: Vec<OutputChoice>,
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

/// Who calls, and so who owns the jobs that come of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(String);

impl Principal {
    /// Everybody who did not say who they are; they share their jobs.
    pub fn anonymous() -> Self {
        Self(String::new())
    }

    /// A named principal, as the authentication in front of us told it. Nobody's name is empty.
    pub fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Nobody in particular.
    pub fn is_anonymous(&self) -> bool {
        self.0.is_empty()
    }

    /// Its name; empty if it is anonymous.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What came of a call: the outputs in the operation's order, or a fault.
pub type Outcome = Result<Vec<Argument>, Fault>;
