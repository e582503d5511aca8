//! Names of tools. Assistants take letters, digits, `_` and `-`, 64 at the most; services and operations are called more freely.

use std::collections::HashSet;

use fishplate_contract::interface::SOLE_OPERATION;

use crate::services::OperationName;

/// Tools about jobs, for clients that know no tasks.
pub(crate) const JOB_STATUS: &str = "job_status";
pub(crate) const JOB_RESULTS: &str = "job_results";
pub(crate) const JOB_LOG: &str = "job_log";
pub(crate) const JOB_CANCEL: &str = "job_cancel";

/// All of them.
pub(crate) const JOB_TOOLS: [&str; 4] = [JOB_STATUS, JOB_RESULTS, JOB_LOG, JOB_CANCEL];

/// Characters of a name.
const LONGEST: usize = 64;

/// The operations by the names of their tools, in their order: `SERVICE`, or `SERVICE_OPERATION` if that is not
/// [`SOLE_OPERATION`]; with a number where that would be another's name.
pub(crate) fn named(operations: Vec<OperationName>) -> Vec<(String, OperationName)> {
    let mut taken: HashSet<String> = JOB_TOOLS.map(str::to_owned).into();
    let mut named = Vec::with_capacity(operations.len());
    for of in operations {
        let plain = plain(&of);
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            let end = format!("_{number}");
            name = format!("{}{end}", &plain[..plain.len().min(LONGEST - end.len())]);
            number += 1;
        }
        named.push((name, of));
    }
    named
}

/// A name in ASCII.
fn plain(OperationName { service, operation }: &OperationName) -> String {
    let whole = match operation.as_str() {
        SOLE_OPERATION => service.clone(),
        operation => format!("{service}_{operation}"),
    };
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    whole.chars().map(allowed).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(service: &str, operation: &str) -> OperationName {
        OperationName { service: service.to_owned(), operation: operation.to_owned() }
    }

    fn names(operations: Vec<OperationName>) -> Vec<String> {
        named(operations).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_tool_is_called_as_its_service_and_no_two_are_called_alike() {
        let all = vec![
            of("heat-2d", "call"),
            of("mesh", "solve.it"),
            of("mesh_solve", "it"),
            of("größe", "call"),
            of("job_status", "call"),
        ];
        let expected = ["heat-2d", "mesh_solve_it", "mesh_solve_it_2", "gr__e", "job_status_2"];
        assert_eq!(names(all), expected);
    }

    proptest! {
        #[test]
        fn names_are_those_that_assistants_take(
            services in prop::collection::vec("[a-cé_.-]{1,70}", 0..20),
            operation in "[a-c.]{1,3}",
        ) {
            let all = services.iter().map(|service| of(service, &operation)).collect();
            let names = names(all);
            let good = |name: &String| {
                (1..=LONGEST).contains(&name.len())
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            };
            prop_assert!(names.iter().all(good), "{:?}", names);
            let once: HashSet<&String> = names.iter().collect();
            prop_assert_eq!(once.len(), names.len());
        }
    }
}
