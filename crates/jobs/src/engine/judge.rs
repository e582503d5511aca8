//! From the end of a program to the end of its job: what its description calls success.

use fishplate_contract::{FaultCode, JobState, Timestamp};

use crate::completion::Completion;
use crate::executor::{Collected, ProgramExit};
use fishplate_programs::plan::Plan;

/// What is told of a job that filled the disk.
const GIVEN_BACK: &str = "; what it wrote was removed to make room for others, but for the beginning \
                          of its log";

/// Judges an end by the plan. `ending.collected` is set.
pub(super) fn judge(plan: &Plan, ending: ProgramExit, now: Timestamp) -> Completion {
    let nothing = Collected::default();
    let verdict = verdict(plan, &ending, ending.collected.as_ref().unwrap_or(&nothing));
    let (state, fault, parameter) = match verdict {
        None => (JobState::Done, None, None),
        Some(Verdict { code, message, parameter }) => {
            let killed = code == FaultCode::JobKilled;
            let state = if killed { JobState::Killed } else { JobState::Failed };
            (state, Some((code.name().to_owned(), message)), parameter)
        }
    };
    let ended = if ending.ended > 0 { ending.ended } else { now.0 };
    Completion {
        state: state.name().to_owned(),
        ended,
        noted: None,
        fault,
        parameter,
        refused_by: None,
        ending: Some(ending),
        answer: plan.answer.clone(),
        sent: Vec::new(),
        unsent: false,
        transfers: Vec::new(),
    }
}

/// Whether a job was ended because it took what must stay free for all.
pub(super) fn took_too_much(ending: &ProgramExit) -> bool {
    ending.limit.as_ref().is_some_and(|(name, _)| name == "disk_reserve")
}

struct Verdict {
    code: FaultCode,
    message: String,
    parameter: Option<String>,
}

/// The first thing that makes it no success, the most telling first.
fn verdict(plan: &Plan, ending: &ProgramExit, collected: &Collected) -> Option<Verdict> {
    let fault = |code, message: String| Some(Verdict { code, message, parameter: None });
    let program = plan.program.file_name().map_or_else(
        || plan.program.to_string_lossy().into_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    if ending.cancelled {
        return fault(
            FaultCode::JobKilled,
            format!("the job was killed on request{}", how(ending)),
        );
    }
    if let Some((name, value)) = &ending.limit {
        return fault(
            FaultCode::LimitExceeded,
            format!(
                "{program} was stopped: it ran into the limit {name} of {value}{}{}",
                how(ending),
                if took_too_much(ending) { GIVEN_BACK } else { "" },
            ),
        );
    }
    if let Some(told) = &collected.fault
        && let Some(code) = FaultCode::from_name(&told.code)
    {
        let (message, parameter) = (told.message.clone(), told.parameter.clone());
        return Some(Verdict { code, message, parameter });
    }
    if let Some(signal) = &ending.signal {
        return fault(FaultCode::ProgramKilled, format!("{program} was ended by signal {signal}"));
    }
    let rules = &plan.success;
    if let Some(code) = ending.exit_code
        && !rules.exit_codes.contains(&code)
    {
        let meaning =
            rules.meanings.get(&code).map_or_else(String::new, |meaning| format!(": {meaning}"));
        return fault(
            FaultCode::ProgramFailed,
            format!("{program} ended with exit code {code}{meaning}"),
        );
    }
    if let Some(line) = &collected.failure_line {
        return fault(
            FaultCode::ProgramFailed,
            format!("{program} reported a failure in its log: {line}"),
        );
    }
    let (parameter, message) = collected.problem.clone()?;
    let parameter = Some(parameter).filter(|name| !name.is_empty());
    Some(Verdict { code: FaultCode::OutputInvalid, message, parameter })
}

fn how(ending: &ProgramExit) -> String {
    match (ending.ended_by.as_str(), ending.swept) {
        ("", _) => String::new(),
        (by, 0) => format!("; its processes were ended by {by}"),
        (by, swept) => format!("; its processes were ended by {by}, {swept} beside the program"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::executor::{ProgramFault, conformance};
    use fishplate_programs::plan::SuccessRules;

    fn plan() -> Plan {
        let success = SuccessRules {
            exit_codes: vec![0, 3],
            meanings: BTreeMap::from([(201, "did not converge".to_owned())]),
            failure_patterns: Vec::new(),
        };
        Plan { success, ..conformance::plan("/usr/bin/ccx", &[]) }
    }

    fn judged(change: impl FnOnce(&mut ProgramExit)) -> (JobState, String) {
        let mut ending = ProgramExit {
            exit_code: Some(0),
            ended: 5,
            collected: Some(Collected::default()),
            ..ProgramExit::default()
        };
        change(&mut ending);
        let completion = judge(&plan(), ending, Timestamp(9));
        let fault = completion.fault.as_ref();
        let text = fault.map_or(String::new(), |(code, message)| format!("{code}: {message}"));
        (completion.state(), text)
    }

    #[test]
    fn success_is_what_the_description_calls_so() {
        assert_eq!(judged(|_| ()), (JobState::Done, String::new()));
        assert_eq!(judged(|ending| ending.exit_code = Some(3)).0, JobState::Done);
    }

    #[test]
    fn each_failure_says_what_it_was() {
        type JudgedCase = (fn(&mut ProgramExit), JobState, &'static str);
        let cases: [JudgedCase; 6] = [
            (
                |ending| ending.exit_code = Some(201),
                JobState::Failed,
                "ProgramFailed: ccx ended with exit code 201: did not converge",
            ),
            (
                |ending| {
                    ending.exit_code = None;
                    ending.signal = Some("SIGSEGV".to_owned());
                },
                JobState::Failed,
                "ProgramKilled: ccx was ended by signal SIGSEGV",
            ),
            (
                |ending| {
                    ending.signal = Some("SIGKILL".to_owned());
                    ending.limit = Some(("wall_time".to_owned(), "2 s".to_owned()));
                    ending.ended_by = "sweep".to_owned();
                    ending.swept = 2;
                },
                JobState::Failed,
                "LimitExceeded: ccx was stopped: it ran into the limit wall_time of 2 s; \
                 its processes were ended by sweep, 2 beside the program",
            ),
            (
                |ending| {
                    ending.signal = Some("SIGTERM".to_owned());
                    ending.cancelled = true;
                    ending.ended_by = "cgroup".to_owned();
                },
                JobState::Killed,
                "JobKilled: the job was killed on request; its processes were ended by cgroup",
            ),
            (
                |ending| {
                    ending.collected.as_mut().unwrap().failure_line =
                        Some("*ERROR in input".to_owned());
                },
                JobState::Failed,
                "ProgramFailed: ccx reported a failure in its log: *ERROR in input",
            ),
            (
                |ending| {
                    ending.collected.as_mut().unwrap().problem =
                        Some(("mesh".to_owned(), "output mesh: no file".to_owned()));
                },
                JobState::Failed,
                "OutputInvalid: output mesh: no file",
            ),
        ];
        for (change, state, text) in cases {
            assert_eq!(judged(change), (state, text.to_owned()));
        }
    }

    #[test]
    fn a_fault_that_the_program_told_is_the_jobs() {
        let told = ProgramFault {
            code: "ValueOutOfRange".to_owned(),
            message: "x is too large".to_owned(),
            parameter: Some("x".to_owned()),
        };
        let fault = judged(|ending| {
            ending.exit_code = Some(1);
            ending.collected.as_mut().unwrap().fault = Some(told.clone());
        });
        assert_eq!(fault, (JobState::Failed, "ValueOutOfRange: x is too large".to_owned()));
        let killed = judged(|ending| {
            ending.cancelled = true;
            ending.collected.as_mut().unwrap().fault = Some(told);
        });
        assert_eq!(killed.0, JobState::Killed);
    }
}
