//! The same done to several things: all are tried, and each failure is told.

use anyhow::Error;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::{FailureContext, FailureReport};

/// What became of each thing so far.
pub(crate) struct BatchResult {
    output: Output,
    done: Vec<String>,
    failed: Vec<(String, FailureReport)>,
}

impl BatchResult {
    /// Nothing was tried yet.
    pub(crate) fn new(output: Output) -> Self {
        Self { output, done: Vec::new(), failed: Vec::new() }
    }

    /// Notes what became of one. Its failure is told at once.
    pub(crate) fn note(
        &mut self,
        name: &str,
        became: Result<(), Error>,
        about: FailureContext<'_>,
    ) {
        let Err(error) = became else { return self.done.push(name.to_owned()) };
        let mut failure = FailureReport::of(&error, about);
        failure.message = format!("{name}: {}", failure.message);
        super::tell(&failure, self.output);
        self.failed.push((name.to_owned(), failure));
    }

    /// What was done, and what was not and why; `name` is the member that names it.
    pub(crate) fn told(&self, name: &str) -> (Value, Value) {
        let failed = self.failed.iter().map(|(of, failure)| {
            let mut told = failure.json();
            told[name] = json!(of);
            told
        });
        (json!(self.done), failed.collect())
    }

    /// That of the first failure.
    pub(crate) fn exit(&self) -> Exit {
        self.failed.first().map_or(Exit::Success, |(_, failure)| failure.exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fishplate_client::Error;
    use fishplate_contract::{Fault, FaultCode};

    #[test]
    fn the_first_failure_tells_the_exit_code_and_all_are_listed() {
        let mut attempts = BatchResult::new(Output { json: true });
        assert_eq!(attempts.exit(), Exit::Success);
        let fault = Error::Fault(Fault::new(FaultCode::NoSuchData, "no file \"b\""));
        let unreachable = Error::Unreachable { url: "http://h".to_owned(), reason: "x".to_owned() };
        let about = FailureContext::default();
        attempts.note("a", Ok(()), about);
        attempts.note("b", Err(fault.into()), about);
        attempts.note("c", Err(unreachable.into()), about);
        assert_eq!(attempts.exit(), Exit::Sender);
        let (done, failed) = attempts.told("name");
        assert_eq!(done, json!(["a"]));
        assert_eq!(failed[0]["name"], "b");
        assert_eq!(failed[0]["error"]["code"], "NoSuchData");
        assert_eq!(failed[1]["error"]["exit"], 6);
    }
}
