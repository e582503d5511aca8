//! Words that mean something to a shell, and nothing to us: no shell ever runs.

use super::escape::{SlotEnd, end_of_slot};
use super::parse::is_name;
use super::problem::{CommandPosition, Problem};
use super::slot;
use fishplate_contract::DataType;

const PIPELINE: &str =
    "no shell runs; put the whole pipeline into a script and make that the program";
const FRESH: &str = "no shell runs; `>` and `2>` write new files, since each job has a workspace \
                     of its own";
const BOTH: &str = "no shell runs; redirect each stream to a file of its own with `>` and `2>` \
                    (what is not redirected is kept in the job's log)";

/// Warns of a word that was probably meant for a shell.
pub(super) fn about(word: &str, has_slot: bool, at: CommandPosition) -> Option<Problem> {
    if let Some(hint) = operator(word) {
        let message = format!("the program gets `{word}` as a word");
        return Some(Problem::warning(at, message).label("means nothing here").hint(hint));
    }
    if let Some(operator) = ["2>", ">", "<"].into_iter().find(|o| word.starts_with(o)) {
        let glued = word.len() > operator.len();
        if glued && has_slot {
            let message = format!("`{operator}` stands in a word of its own");
            let hint = format!("write '{operator}' '{}'", &word[operator.len()..]);
            return Some(Problem::error(at, message).hint(hint));
        }
        if glued && is_name(&word[operator.len()..]) {
            let message = format!("the program gets `{word}` as a word");
            let hint = format!("to redirect, put a space between `{operator}` and the file's name");
            return Some(Problem::warning(at, message).hint(hint));
        }
    }
    if has_slot {
        return None;
    }
    if is_glob(word) {
        let message = format!("the program gets `{word}` as it stands");
        return Some(Problem::warning(at, message).hint(
            "no shell runs, so no file names are put in its place; name each file, or make a \
             script the program",
        ));
    }
    if let Some(variable) = variable(word) {
        let message = format!("`{variable}` is not replaced");
        return Some(
            Problem::warning(at, message).hint("no shell runs; write the path or value itself"),
        );
    }
    almost_slot(word, at.word)
}

fn operator(word: &str) -> Option<&'static str> {
    Some(match word {
        "|" | "||" | "|&" | "&&" | "&" | ";" => PIPELINE,
        ">>" | "2>>" | ">|" | "&>>" => FRESH,
        "2>&1" | "1>&2" | ">&2" | "&>" | ">&" => BOTH,
        "1>" => "`>` redirects standard output",
        "<<" | "<<<" | "<>" => "`<` takes a file, or a slot such as `[in val text:string]`",
        _ => return None,
    })
}

/// A file name pattern; not every word with an asterisk, since many are regular expressions.
fn is_glob(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-*?".contains(&byte);
    word == "*"
        || (word.contains('*')
            && word.bytes().all(plain)
            && !word.contains(".*")
            && !word.starts_with('-'))
}

fn variable(word: &str) -> Option<&str> {
    if word == "~" || word.starts_with("~/") {
        return Some("~");
    }
    let start = word.find('$')?;
    let name = &word[start + 1..];
    let end = name
        .find(|c: char| !(c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()))
        .unwrap_or(name.len());
    let is_variable = end > 1 && !name.starts_with(|c: char| c.is_ascii_digit());
    (is_variable || name.starts_with('{') || name.starts_with('('))
        .then(|| if is_variable { &word[start..=start + end] } else { &word[start..] })
}

/// `[x:int]`: a slot whose direction was forgotten.
fn almost_slot(word: &str, index: usize) -> Option<Problem> {
    let start = word.find('[')?;
    let SlotEnd::Closed(end) = end_of_slot(&word[start + 1..]) else { return None };
    let content = &word[start + 1..][..end];
    let (name, type_name) = content.split_once(':')?;
    let name = name.strip_prefix("val ").or_else(|| name.strip_prefix("file ")).unwrap_or(name);
    let data_type = DataType::from_name(type_name);
    let passing = match data_type.as_ref().and_then(DataType::as_array) {
        Some(_) => "file",
        None => "val",
    };
    let known = data_type.is_some()
        || slot::probable_type(type_name).is_some_and(|_| content.contains(' '));
    (is_name(name) && known).then(|| {
        let at = CommandPosition { word: index, span: start..start + content.len() + 2 };
        Problem::warning(at, format!("`[{content}]` is text, not a slot"))
            .hint(format!("a slot begins with its direction: `[in {passing} {name}:{type_name}]`"))
    })
}
