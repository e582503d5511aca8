//! The command line of a descriptor: words as a POSIX shell makes them, with value keys in them.

use fishplate_programs::template::{Direction, StandardStream, StreamTarget, reject_file_name};

use super::input::DescribedInput;
use crate::report::Gaps;

/// A word, or a redirection with the word after it.
#[derive(Clone, Debug)]
pub(super) enum Token {
    Word(Vec<Part>),
    Redirect(StandardStream, Vec<Part>),
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// The input of this index.
    Input(usize),
}

impl Part {
    pub(super) fn input(&self) -> Option<usize> {
        match self {
            Self::Input(index) => Some(*index),
            Self::Text(_) => None,
        }
    }
}

/// The first of as many characters as there may be inputs: none that a command line has (Unicode's plane 15 is
/// for private use).
const FIRST: u32 = 0xF_0000;

/// Inputs that there may be.
const MOST: usize = 0xFFFE;

/// Words that mean something to a shell, which does not run here.
const OPERATORS: [&str; 14] =
    ["|", "||", "|&", "&&", "&", ";", ";;", ">>", "2>>", "2>&1", "1>&2", ">&2", "&>", "<<"];

/// The words of a command line. What only a shell could do makes the import fail.
pub(super) fn tokens(line: &str, inputs: &[DescribedInput], gaps: &mut Gaps) -> Vec<Token> {
    let field = "command-line";
    if inputs.len() > MOST || line.chars().any(|c| index_of(c).is_some()) {
        gaps.fatal(field, "it has too many inputs, or characters of private use");
        return Vec::new();
    }
    let mut marked = line.to_owned();
    // Of keys within others, the longer one first.
    let mut keys: Vec<(usize, &str)> = inputs
        .iter()
        .enumerate()
        .filter_map(|(index, input)| Some((index, input.value_key.as_deref()?)))
        .filter(|(_, key)| !key.is_empty())
        .collect();
    keys.sort_by_key(|(_, key)| std::cmp::Reverse(key.len()));
    for (index, key) in keys {
        marked = marked.replace(key, &mark(index).to_string());
    }
    let words = match shell_words::split(&marked) {
        Ok(words) => words,
        Err(_) => {
            gaps.fatal(field, "a quote has no end");
            return Vec::new();
        }
    };
    if let Some(word) = words.iter().find(|word| needs_shell(word)) {
        let shown: String = word.chars().filter(|c| index_of(*c).is_none()).collect();
        gaps.fatal(field, format!("`{shown}` needs a shell, and none runs; put it into a script"));
        return Vec::new();
    }
    let mut tokens = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        tokens.push(match StandardStream::from_operator(word) {
            Some(stream) => {
                Token::Redirect(stream, words.next().map_or(Vec::new(), |it| parts(it)))
            }
            None => Token::Word(parts(word)),
        });
    }
    tokens
}

/// What stands for an input in a text until all keys were looked for.
pub(super) fn mark(index: usize) -> char {
    let code = u32::try_from(index).map_or(FIRST, |index| FIRST + index);
    char::from_u32(code).unwrap_or('\u{FFFD}')
}

fn index_of(c: char) -> Option<usize> {
    let index = usize::try_from(u32::from(c).checked_sub(FIRST)?).ok()?;
    (index < MOST).then_some(index)
}

/// Whether a shell would do something with a word, which is here without one. (One that was quoted is not told apart.)
fn needs_shell(word: &str) -> bool {
    StandardStream::from_operator(word).is_none()
        && (OPERATORS.contains(&word) || word.contains(['|', '&', ';', '<', '>', '`', '$']))
}

fn parts(word: &str) -> Vec<Part> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    for c in word.chars() {
        let Some(index) = index_of(c) else {
            text.push(c);
            continue;
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(Part::Input(index));
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

/// What a stream is connected with, and the input that it is.
pub(super) fn target(
    stream: StandardStream,
    parts: &[Part],
    inputs: &[DescribedInput],
    gaps: &mut Gaps,
) -> Option<(StreamTarget, Option<usize>)> {
    let field = "command-line";
    match parts {
        [Part::Text(name)] if reject_file_name(name).is_none() => {
            Some((StreamTarget::File(name.clone()), None))
        }
        [Part::Input(index)] if stream == StandardStream::Input => {
            let input = &inputs[*index];
            if input.left_out || input.list || input.is_flag || input.has_key("prefix") {
                gaps.fatal(input.field(), "it can't be standard input");
                return None;
            }
            Some((StreamTarget::Slot(input.slot(Direction::In)), Some(*index)))
        }
        [Part::Input(index)] => {
            // The program's output goes where its caller says; here it is a parameter.
            let input = &inputs[*index];
            let reason = format!(
                "{} goes into the file that it names; add `[out file NAME:raw]` in its place",
                stream.name()
            );
            gaps.fatal(input.field(), reason);
            None
        }
        _ => {
            gaps.fatal(field, format!("{} is redirected to more than a file", stream.name()));
            None
        }
    }
}
