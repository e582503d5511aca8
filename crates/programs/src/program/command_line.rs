//! How long the system lets a command line be: execve(2), "Limits on size of arguments and
//! environment". What is longer could never start, so it is refused when it is sent.

use std::path::Path;

use fishplate_contract::{Fault, FaultCode};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// The limit on one argument. It is the system's.
pub const ARGUMENT_SIZE: &str = "argument_size";

/// The limit on all arguments and the environment together. It is the system's: a quarter of the
/// limit on the stack.
pub const ARGUMENTS_SIZE: &str = "arguments_size";

/// Pages that an argument may take with the zero at its end (`MAX_ARG_STRLEN`).
const PAGES: usize = 32;

/// What there is at least (`ARG_MAX`), and at most: three quarters of the usual stack.
const LEAST: u64 = 128 << 10;
const MOST: u64 = (8 << 20) / 4 * 3;

/// What is left for others: our own variable, the program's name, the interpreter of a script with
/// its argument.
const SPARE: usize = 16 << 10;

/// Bytes of the longest argument.
pub fn longest_argument() -> usize {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    PAGES * page.and_then(|page| usize::try_from(page).ok()).unwrap_or(4096) - 1
}

/// Bytes that all arguments and the environment may take together.
pub fn most_arguments() -> u64 {
    let stack = getrlimit(Resource::RLIMIT_STACK).map_or(LEAST, |(soft, _)| soft);
    (stack / 4).clamp(LEAST, MOST)
}

/// What a word or a variable of this length takes: itself, a zero and a pointer.
pub(super) fn room_of(len: usize) -> usize {
    len.saturating_add(1 + size_of::<usize>())
}

/// Whether a word of this length is short enough; the parameter that makes it so long.
pub(super) fn check_word(parameter: &str, len: usize) -> Result<(), Fault> {
    let most = longest_argument();
    if len <= most {
        return Ok(());
    }
    let what = format!(
        "parameter {parameter} becomes an argument of {len} bytes; the system takes {most}: ask the \
         service's owner to pass it in a file"
    );
    let fault = Fault::new(FaultCode::InvalidValue, what).parameter(parameter);
    Err(fault.limit(ARGUMENT_SIZE, format!("{most} bytes")))
}

/// Whether all words and the environment together are short enough.
pub(super) fn check_all(program: &Path, words: &[String], environment: usize) -> Result<(), Fault> {
    let words = words.iter().map(|word| room_of(word.len())).fold(0, usize::saturating_add);
    let all = words.saturating_add(environment).saturating_add(room_of(program.as_os_str().len()));
    let most = most_arguments();
    if all.saturating_add(SPARE) as u64 <= most {
        return Ok(());
    }
    let what = format!(
        "the arguments and the environment take {all} bytes together; the system takes {most}, less \
         {SPARE} for the program's start: send less, or ask the service's owner to pass values in files"
    );
    Err(Fault::new(FaultCode::InvalidValue, what).limit(ARGUMENTS_SIZE, format!("{most} bytes")))
}
