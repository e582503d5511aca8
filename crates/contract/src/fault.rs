//! What went wrong, who is to blame, and what to do.

use std::fmt;
use std::time::Duration;

use crate::job::JobId;

/// An answer that is no result. Each face maps it to its own form; none adds to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What kind of fault, for programs.
    pub code: FaultCode,
    /// A sentence for people: what was wrong and what would be right.
    pub message: String,
    /// The parameter it is about.
    pub parameter: Option<String>,
    /// The limit it ran into.
    pub limit: Option<LimitHit>,
    /// The job it is about.
    pub job: Option<JobId>,
    /// The program's exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the program, such as `SIGSEGV`.
    pub signal: Option<String>,
    /// What the program's standard error said last.
    pub stderr: Option<String>,
    /// When it is worth trying again.
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// A fault with a sentence and nothing more.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            parameter: None,
            limit: None,
            job: None,
            exit_code: None,
            signal: None,
            stderr: None,
            retry_after: None,
        }
    }

    /// The same, about this parameter.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>) -> Self {
        self.parameter = Some(name.into());
        self
    }

    /// The same, about this limit and its value.
    #[must_use]
    pub fn limit(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.limit = Some(LimitHit { name: name.into(), value: value.to_string() });
        self
    }

    /// The same, about this job.
    #[must_use]
    pub fn job(mut self, job: JobId) -> Self {
        self.job = Some(job);
        self
    }

    /// The same, worth trying again after a while.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for Fault {}

/// A limit that stopped something, by the name it has in [`crate::limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHit {
    /// The limit's name.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
}

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller: the same request will not do better.
    Sender,
    /// This side: the request may be right.
    Receiver,
}

macro_rules! fault_codes {
    ($($(#[doc = $doc:literal])+ $name:ident $blame:ident,)+) => {
        /// The kinds of faults; the names are stable on every face.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultCode { $($(#[doc = $doc])+ $name,)+ }

        impl FaultCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Who has to change something.
            pub fn blame(self) -> Blame {
                match self { $(Self::$name => Blame::$blame,)+ }
            }

            /// What it means, for the reference.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }

            /// The code of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.name() == name)
            }
        }
    };
}

fault_codes! {
    /// It was not said who calls, or what was said is not so; the answer's WWW-Authenticate tells how to say it.
    Unauthenticated Sender,
    /// Who calls may not do that.
    Forbidden Sender,
    /// The message is not what its media type says: not XML, truncated, a broken part.
    MalformedMessage Sender,
    /// The message holds what SOAP forbids or what could do harm: a DOCTYPE, an entity, a processing instruction.
    ForbiddenContent Sender,
    /// The envelope is of no SOAP version we speak.
    VersionMismatch Sender,
    /// A media type or packaging that this server does not take.
    UnsupportedMediaType Sender,
    /// A limit on messages was exceeded; the detail names it.
    MessageTooLarge Sender,
    /// The sender was too slow; the detail names the limit.
    TimedOut Sender,
    /// A header marked mustUnderstand is not understood.
    MustUnderstand Sender,
    /// A part of the message is encoded (encodingStyle) in a way that is not understood.
    DataEncodingUnknown Sender,
    /// A WS-Addressing header is not acceptable.
    InvalidAddressing Sender,
    /// The service has no such operation.
    UnknownOperation Sender,
    /// SOAPAction or wsa:Action names another operation than the body.
    ActionMismatch Sender,
    /// No such service here.
    UnknownService Sender,
    /// A required parameter is missing.
    MissingParameter Sender,
    /// The operation has no parameter of that name, or it stands twice.
    UnexpectedParameter Sender,
    /// A value is not of its parameter's type.
    InvalidValue Sender,
    /// A value is of its type, but not among the allowed ones.
    ValueOutOfRange Sender,
    /// There is no such job of this owner on this service.
    NoSuchJob Sender,
    /// The job has not ended yet.
    NotFinished Sender,
    /// The idempotency key was used before with other arguments.
    KeyConflict Sender,
    /// Data at that reference is not there: never was, has expired, or was revoked.
    NoSuchData Sender,
    /// The server may not fetch from, or deliver to, that address; the detail names the rule.
    AddressForbidden Sender,
    /// Data is not what its reference or its origin says: another digest, another length.
    DataMismatch Sender,
    /// There is no such session of this owner, or it has expired.
    NoSuchSession Sender,
    /// Data could not be fetched or delivered; the message says what the other end did.
    TransferFailed Receiver,
    /// The queue is full; retryAfter says when to try again.
    QueueFull Receiver,
    /// The server is being stopped, or its host has no process left for a program; nothing was begun, and retryAfter
    /// says when to try again.
    Unavailable Receiver,
    /// A quota is used up; the detail names it.
    QuotaExceeded Receiver,
    /// The disk is full.
    StorageFull Receiver,
    /// The program does not exist or may not be executed.
    ProgramMissing Receiver,
    /// The program ended, but not as its description calls success.
    ProgramFailed Receiver,
    /// A signal ended the program.
    ProgramKilled Receiver,
    /// The program ended well, but an output that it should have written is missing or wrong.
    OutputInvalid Receiver,
    /// The job ran into a limit and was stopped; the detail names it.
    LimitExceeded Receiver,
    /// The job was killed on request.
    JobKilled Receiver,
    /// It cannot be proved whether or how the program ran; it is never run again on its own.
    OutcomeUnknown Receiver,
    /// This server does not do that (yet); the message says what it can do instead.
    NotSupported Sender,
    /// A fault of our own; the server's log has more.
    Internal Receiver,
}
