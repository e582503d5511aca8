//! How a command ends: the one table of exit codes.

use std::process::ExitCode;

use fishplate_client::Error;
use fishplate_contract::{Blame, Fault, FaultCode, JobState};
use fishplate_data::transfer::TransferError;

macro_rules! exits {
    ($($name:ident $code:literal $meaning:literal,)+) => {
        /// How a command ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Exit { $(#[doc = $meaning] $name,)+ }

        impl Exit {
            /// All of them, in the order of their codes.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The exit code.
            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$name => $code,)+ }
            }

            /// What it means.
            pub(crate) fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }
        }
    };
}

exits! {
    Success 0 "success",
    Other 1 "it did not work, for a reason that no other code tells (a fault of our own, say)",
    Usage 2 "wrong usage, or a local file that cannot be read or written",
    Sender 3 "the service refused the request: the same request will not do better",
    Receiver 4 "the service could not do it: the request may be right",
    Program 5 "the program failed, was killed, ran into a limit, or left an output out",
    Unreachable 6 "the server cannot be reached, does not answer in time, or is no service",
    NotFinished 7 "the job has not ended yet",
    NoSuchJob 8 "there is no such job of yours on this service",
    Unknown 9 "it cannot be known whether or how the program ran",
    Untrusted 10 "a benchmark found that the server under test fails, or uses something up",
    Incomplete 11 "an import left out what callers, the program or its outputs would notice; the service file is there",
    Interrupted 130 "interrupted (SIGINT); the job may go on at the server",
    BrokenPipe 141 "nobody reads the output any more (SIGPIPE)",
    Terminated 143 "terminated (SIGTERM); the job may go on at the server",
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    /// How a command ends after this error of the client.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error {
            Error::Fault(fault) => Self::of_fault(fault),
            Error::Unreachable { .. }
            | Error::ConnectionLost { .. }
            | Error::TimedOut { .. }
            | Error::Http { .. }
            | Error::NotWsdl { .. }
            | Error::NoService { .. }
            | Error::NoAddress { .. }
            | Error::NoSessions { .. }
            | Error::BrokenOff(_)
            | Error::BadAnswer { .. } => Self::Unreachable,
            Error::DataMismatch { .. } => Self::Sender,
            Error::Transfer(error) => Self::of_transfer(error),
            _ => Self::Usage,
        }
    }

    fn of_transfer(error: &TransferError) -> Self {
        match error {
            TransferError::Broken { .. }
            | TransferError::Unreachable { .. }
            | TransferError::Busy { .. }
            | TransferError::Strange { .. }
            | TransferError::Unresolved { .. } => Self::Unreachable,
            TransferError::Refused { .. } | TransferError::Forbidden { .. } => Self::Sender,
            TransferError::Unsupported(_) | TransferError::Local { .. } => Self::Usage,
        }
    }

    /// How a command ends after this fault.
    pub(crate) fn of_fault(fault: &Fault) -> Self {
        match fault.code {
            FaultCode::NotFinished => Self::NotFinished,
            FaultCode::NoSuchJob => Self::NoSuchJob,
            FaultCode::OutcomeUnknown => Self::Unknown,
            FaultCode::ProgramFailed
            | FaultCode::ProgramKilled
            | FaultCode::OutputInvalid
            | FaultCode::LimitExceeded
            | FaultCode::JobKilled => Self::Program,
            code if code.blame() == Blame::Sender => Self::Sender,
            _ => Self::Receiver,
        }
    }

    /// How `wait` ends for a job in this state.
    pub(crate) fn of_state(state: JobState) -> Self {
        match state {
            JobState::Done => Self::Success,
            JobState::Failed | JobState::Killed => Self::Program,
            JobState::Unknown => Self::Unknown,
            JobState::Fetching | JobState::Queued | JobState::Running => Self::NotFinished,
        }
    }

    /// The table as text.
    pub(crate) fn table() -> String {
        Self::ALL.iter().map(|exit| format!("{:>5}  {}\n", exit.code(), exit.meaning())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_holds_exactly_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/exit-codes.md");
        let reference = std::fs::read_to_string(path).unwrap();
        let rows: Vec<_> = reference
            .lines()
            .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
            .collect();
        let expected: Vec<_> = Exit::ALL
            .iter()
            .map(|exit| format!("| {} | {} |", exit.code(), exit.meaning()))
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn every_fault_has_an_exit_code_and_the_special_ones_theirs() {
        for code in FaultCode::ALL {
            let exit = Exit::of_fault(&Fault::new(*code, ""));
            let expected = match code.name() {
                "NotFinished" => 7,
                "NoSuchJob" => 8,
                "OutcomeUnknown" => 9,
                "ProgramFailed" | "ProgramKilled" | "OutputInvalid" | "LimitExceeded"
                | "JobKilled" => 5,
                _ if code.blame() == Blame::Sender => 3,
                _ => 4,
            };
            assert_eq!(exit.code(), expected, "{}", code.name());
        }
    }
}
