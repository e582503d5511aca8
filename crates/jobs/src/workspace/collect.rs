//! After the end: the outputs, and what the logs say of success.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use fishplate_contract::{DataType, lexical};
use globset::GlobBuilder;
use regex::bytes::RegexSet;

use super::arrays::CollectedArrays;
use super::streams::{open_stream, tail};
use super::{OutputStream, beneath, directories, disk_use, size, stream_path, work};
use crate::executor::{Collected, Output, OutputContent, ProgramExit, ProgramFault};
use fishplate_programs::plan::{OutputRule, OutputSource, Plan};

/// How much of standard error's end is kept with a job.
const STDERR_TAIL: u64 = 4 << 10;

/// A longer line of a log is looked at in pieces of this size.
const LONGEST_LINE: u64 = 64 << 10;

/// The outputs of a job that has ended, and what its logs say. Outputs are collected only if the
/// program ended as the plan calls success: nobody gets those of a job that failed.
pub fn collect(plan: &Plan, directory: &Path, ending: &ProgramExit) -> Collected {
    let mut collected = Collected {
        stderr_tail: stderr_tail(plan, directory),
        failure_line: failure_line(plan, directory),
        fault: told_fault(plan, directory),
        ..Collected::default()
    };
    let success = !ending.cancelled
        && ending.limit.is_none()
        && ending.exit_code.is_some_and(|code| plan.success.exit_codes.contains(&code));
    if success {
        let mut arrays = CollectedArrays::new(plan, directory);
        for rule in &plan.outputs {
            let found = collect_one(plan, directory, rule, &mut arrays, &mut collected.outputs);
            if let Err(problem) = found {
                collected.problem.get_or_insert((rule.name.clone(), problem));
            }
        }
    }
    collected.disk = disk_use(directory);
    collected
}

/// The fault that a program told, if its plan says where; a file that is none tells nothing.
fn told_fault(plan: &Plan, directory: &Path) -> Option<ProgramFault> {
    const LONGEST: u64 = 64 << 10;
    let file = beneath::open_regular(&work(directory), plan.fault.as_ref()?).ok()?;
    serde_json::from_reader(file.take(LONGEST)).ok()
}

fn collect_one(
    plan: &Plan,
    directory: &Path,
    rule: &OutputRule,
    arrays: &mut CollectedArrays<'_>,
    outputs: &mut Vec<Output>,
) -> Result<(), String> {
    let root = work(directory);
    match &rule.source {
        OutputSource::Path(path) if rule.data_type == DataType::Dir.name() => {
            let found = directories::pack(plan, directory, path, &rule.name, rule.required)?;
            outputs.extend(found.map(|content| output(rule, None, content)));
        }
        OutputSource::Path(path) => match beneath::open_regular(&root, path) {
            Ok(file) => {
                let content = content(plan, rule, path, file, arrays, left(outputs))?;
                outputs.push(output(rule, None, content));
            }
            Err(error) if is_absent(&error) && !rule.required => {}
            Err(error) if is_absent(&error) => {
                return Err(format!("the program did not write {path}"));
            }
            Err(error) => return Err(format!("{path} {}", why_not(&error))),
        },
        OutputSource::Glob(pattern) => {
            let paths = matching(&root, pattern)?;
            if paths.is_empty() && rule.required {
                return Err(format!("the program wrote no file that matches {pattern}"));
            }
            for path in paths {
                let file = beneath::open_regular(&root, &path)
                    .map_err(|error| format!("{path} {}", why_not(&error)))?;
                let content = content(plan, rule, &path, file, arrays, left(outputs))?;
                outputs.push(output(rule, Some(path), content));
            }
        }
    }
    Ok(())
}

fn output(rule: &OutputRule, label: Option<String>, content: OutputContent) -> Output {
    let media_type = match rule.data_type.as_str() {
        "xml" if rule.media_type.is_empty() => "application/xml".to_owned(),
        _ => rule.media_type.clone(),
    };
    Output { name: rule.name.clone(), label, media_type, content }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn why_not(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidInput {
        error.to_string()
    } else {
        format!("can't be read: {error}")
    }
}

/// Files of the workspace that a glob matches, in the order of their names.
fn matching(root: &Path, pattern: &str) -> Result<Vec<String>, String> {
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("the glob {pattern} is not valid: {error}"))?
        .compile_matcher();
    let mut paths = Vec::new();
    let mut unnameable = false;
    // A link that a program leaves beside its files ("latest") is none of them.
    size::walk(root, &mut |path, metadata| {
        if metadata.is_file() && glob.is_match(path) {
            match path.to_str() {
                Some(path) => paths.push(path.to_owned()),
                None => unnameable = true,
            }
        }
    });
    if unnameable {
        return Err(format!("a file that matches {pattern} has a name that is not UTF-8"));
    }
    paths.sort_unstable();
    Ok(paths)
}

/// An output's value: of a binary type where it lies, of any other read and checked.
fn content(
    plan: &Plan,
    rule: &OutputRule,
    path: &str,
    file: File,
    arrays: &mut CollectedArrays<'_>,
    left: usize,
) -> Result<OutputContent, String> {
    let unreadable = |error: io::Error| format!("{path} can't be read: {error}");
    let data_type = DataType::from_name(&rule.data_type)
        .ok_or_else(|| format!("{} is no data type", rule.data_type))?;
    let len = file.metadata().map_err(unreadable)?.len();
    if rule.non_empty && len == 0 {
        return Err(format!("the program wrote nothing into {path}"));
    }
    if data_type.is_binary() {
        return Ok(OutputContent::File { path: path.to_owned(), len });
    }
    if let DataType::Array(array) = &data_type {
        return arrays.collect(rule, array, path, &file);
    }
    let most = plan.limits.value_size;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("{path} is larger than {most} bytes (value_size)"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8 text"))?;
    let text = match lexical::normal(&data_type, &text) {
        Cow::Borrowed(same) if same == text => text,
        other => other.into_owned(),
    };
    lexical::check(&data_type, &text).map_err(|expected| {
        format!("{path} holds {:?}, which is not {expected}", lexical::shortened(&text))
    })?;
    if text.len() > LONGEST_RECORDED || (data_type == DataType::String && text.len() > left) {
        return Ok(OutputContent::TextFile { path: path.to_owned(), len: text.len() as u64 });
    }
    Ok(OutputContent::Text(text))
}

/// Bytes of a text that is kept in the job's record; a longer one stays in its file.
const LONGEST_RECORDED: usize = 16 << 10;

/// Bytes of all texts that are kept there.
const MOST_RECORDED: usize = 64 << 10;

/// How long another text may be to be kept in the record.
fn left(outputs: &[Output]) -> usize {
    let recorded = outputs.iter().map(|output| match &output.content {
        OutputContent::Text(text) => text.len(),
        _ => 0,
    });
    MOST_RECORDED.saturating_sub(recorded.sum())
}

fn stderr_tail(plan: &Plan, directory: &Path) -> String {
    let path = stream_path(plan, directory, OutputStream::Stderr);
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        return String::new();
    }
    let Ok(mut file) = open_stream(plan, directory, OutputStream::Stderr) else {
        return String::new();
    };
    let bytes = tail(&mut file, STDERR_TAIL).unwrap_or_default();
    // A character that the cut went through is no character of the program's.
    let cut = bytes.len() as u64 == STDERR_TAIL;
    let torn = if cut { bytes.iter().take_while(|byte| **byte & 0xC0 == 0x80).count() } else { 0 };
    String::from_utf8_lossy(&bytes[torn..]).into_owned()
}

/// The first line of standard output, else of standard error, that the plan calls failure.
fn failure_line(plan: &Plan, directory: &Path) -> Option<String> {
    let patterns = &plan.success.failure_patterns;
    if patterns.is_empty() {
        return None;
    }
    let set = compiled(patterns)?;
    [OutputStream::Stdout, OutputStream::Stderr].into_iter().find_map(|stream| {
        let file = open_stream(plan, directory, stream).ok()?;
        first_match(&set, &mut BufReader::with_capacity(64 << 10, file))
    })
}

fn first_match(set: &RegexSet, reader: &mut BufReader<File>) -> Option<String> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if set.is_match(text) {
            return Some(cut(&String::from_utf8_lossy(text)));
        }
    }
}

/// A line as a fault can hold it.
fn cut(line: &str) -> String {
    const MOST: usize = 1000;
    line.chars().take(MOST).collect()
}

thread_local! {
    /// The patterns compiled last: a worker runs many jobs of one service.
    static COMPILED: RefCell<(Vec<String>, Option<RegexSet>)> =
        const { RefCell::new((Vec::new(), None)) };
}

/// The patterns, compiled; `None` if one is not valid, which the service's check would have found.
fn compiled(patterns: &[String]) -> Option<RegexSet> {
    COMPILED.with_borrow_mut(|(last, set)| {
        if last.as_slice() != patterns {
            *set = RegexSet::new(patterns).ok();
            *last = patterns.to_vec();
        }
        set.clone()
    })
}
