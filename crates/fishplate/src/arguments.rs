//! The words of a call: `x=1`, `y:two`, `out:result`, `out:result=FILE` (paper 000, Figure 5).

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::Result;
use fishplate_client::service::{input_of, output_of};
use fishplate_client::{Error, file_input, input::text_input};
use fishplate_contract::{Argument, DataType, Value};
use fishplate_jobs::dimension::Dimensions;
use fishplate_wire::wsdl::DescribedOperation;

use crate::array::{from_file, from_text};

/// An argument as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// `NAME=VALUE`.
    Value {
        /// Name of the input.
        name: String,
        /// Its value, to the letter.
        text: String,
    },
    /// `NAME:FILE`.
    File {
        /// Name of the input.
        name: String,
        /// The file whose content is its value.
        path: PathBuf,
    },
    /// `out:NAME` or `out:NAME=FILE`.
    Out(Wanted),
}

/// An output that shall go to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Name of the output.
    pub(crate) name: String,
    /// The file or directory, if told.
    pub(crate) to: Option<PathBuf>,
}

/// A word that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WordError {
    /// Neither `=` nor `:`.
    #[error(
        "cannot read the argument {0:?}: write NAME=VALUE, NAME:FILE (the content of a file) or \
         out:NAME (an output into a file)"
    )]
    NoForm(String),
    /// Nothing before `=` or `:`.
    #[error("the argument {0:?} names no parameter: write NAME=VALUE or NAME:FILE")]
    NoName(String),
    /// `NAME:`.
    #[error("the argument {0:?} names no file: write NAME:FILE, or NAME= for an empty value")]
    NoFile(String),
    /// `out=...`.
    #[error(
        "the argument {0:?} sets no input, because out is reserved for outputs: \
         write out:NAME or out:NAME=FILE"
    )]
    Out(String),
    /// `out:` without a name, or `out:NAME=` without a file.
    #[error("the argument {0:?} is incomplete: write out:NAME or out:NAME=FILE")]
    IncompleteOut(String),
    /// `ref:...` or `ref=...`.
    #[error(
        "the argument {0:?} cannot be used: ref is reserved for data by reference, which this \
         version does not have; write NAME:FILE"
    )]
    Ref(String),
    /// An output twice.
    #[error("the output {0} is asked for more than once")]
    OutTwice(String),
    /// An output where inputs are given only.
    #[error("spawn gives no outputs: fetch {0} with `fishplate results URL JOB out:{0}`")]
    OutOfSpawn(String),
    /// An input where outputs are asked for only.
    #[error("results takes no inputs such as {0:?}: write out:NAME or out:NAME=FILE")]
    InputOfResults(String),
}

/// Understands one word. The first `=` or `:` decides.
pub(crate) fn parse(word: &str) -> Result<Word, WordError> {
    let Some(at) = word.find(['=', ':']) else { return Err(WordError::NoForm(word.to_owned())) };
    let (name, rest) = (&word[..at], &word[at + 1..]);
    let is_file = word.as_bytes()[at] == b':';
    match name {
        "" => Err(WordError::NoName(word.to_owned())),
        "ref" => Err(WordError::Ref(word.to_owned())),
        "out" if !is_file => Err(WordError::Out(word.to_owned())),
        "out" => {
            let (name, to) = match rest.split_once('=') {
                Some((name, file)) => (name, Some(file)),
                None => (rest, None),
            };
            if name.is_empty() || to == Some("") {
                return Err(WordError::IncompleteOut(word.to_owned()));
            }
            Ok(Word::Out(Wanted { name: name.to_owned(), to: to.map(PathBuf::from) }))
        }
        _ if is_file && rest.is_empty() => Err(WordError::NoFile(word.to_owned())),
        _ if is_file => Ok(Word::File { name: name.to_owned(), path: PathBuf::from(rest) }),
        _ => Ok(Word::Value { name: name.to_owned(), text: rest.to_owned() }),
    }
}

/// The words of a call: inputs and outputs, in the order they were typed.
pub(crate) fn parse_all(words: &[String]) -> Result<(Vec<Word>, Vec<Wanted>), WordError> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for word in words {
        match parse(word)? {
            Word::Out(wanted) => {
                if !seen.insert(wanted.name.clone()) {
                    return Err(WordError::OutTwice(wanted.name));
                }
                outputs.push(wanted);
            }
            input => inputs.push(input),
        }
    }
    Ok((inputs, outputs))
}

/// The words of `spawn`: inputs only.
pub(crate) fn inputs_only(words: &[String]) -> Result<Vec<Word>, WordError> {
    let (inputs, outputs) = parse_all(words)?;
    match outputs.into_iter().next() {
        Some(wanted) => Err(WordError::OutOfSpawn(wanted.name)),
        None => Ok(inputs),
    }
}

/// The words of `results`: outputs only.
pub(crate) fn outputs_only(words: &[String]) -> Result<Vec<Wanted>, WordError> {
    for word in words {
        if !matches!(parse(word)?, Word::Out(_)) {
            return Err(WordError::InputOfResults(word.clone()));
        }
    }
    parse_all(words).map(|(_, outputs)| outputs)
}

/// The values of the inputs: a file's bytes for a file input, the numbers in it for an array, a file's
/// trimmed text for others.
pub(crate) async fn load(
    operation: &DescribedOperation,
    inputs: Vec<Word>,
) -> Result<Vec<Argument>> {
    let mut arguments = Vec::with_capacity(inputs.len());
    let mut known = lengths(operation, &inputs);
    for input in inputs {
        arguments.push(match input {
            Word::Value { name, text } => {
                let value = match &input_of(operation, &name)?.data_type {
                    DataType::Array(array) => {
                        Value::Array(from_text(&name, array, &mut known, &text)?)
                    }
                    _ => Value::Text(text),
                };
                Argument::new(name, value)
            }
            Word::File { name, path } => {
                let value = match &input_of(operation, &name)?.data_type {
                    DataType::Array(array) => {
                        let (name, array) = (name.clone(), array.clone());
                        // It may be large, and must not keep a signal waiting.
                        let (read, learnt) = tokio::task::spawn_blocking(move || {
                            let read = from_file(&name, &array, &mut known, &path);
                            (read, known)
                        })
                        .await?;
                        known = learnt;
                        Value::Array(read?)
                    }
                    data_type if data_type.is_binary() => file_input(&path).await?,
                    _ => text_input(&path).await?,
                };
                Argument::new(name, value)
            }
            Word::Out(wanted) => unreachable!("output {} among the inputs", wanted.name),
        });
    }
    Ok(arguments)
}

/// The lengths of axes that the whole numbers among the words tell.
fn lengths(operation: &DescribedOperation, inputs: &[Word]) -> Dimensions {
    let mut known = Dimensions::default();
    for input in inputs {
        if let Word::Value { name, text } = input
            && let Ok(parameter) = input_of(operation, name)
            && matches!(parameter.data_type, DataType::Int | DataType::Long)
            && let Ok(length) = text.trim().parse()
        {
            known.tell(name, length, format!("the input {name}"));
        }
    }
    known
}

/// Every wanted output is one of the operation's.
pub(crate) fn check_outputs(
    operation: &DescribedOperation,
    wanted: &[Wanted],
) -> Result<(), Error> {
    wanted.iter().try_for_each(|wanted| output_of(operation, &wanted.name).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(name: &str, to: Option<&str>) -> Word {
        Word::Out(Wanted { name: name.to_owned(), to: to.map(PathBuf::from) })
    }

    fn value(name: &str, text: &str) -> Word {
        Word::Value { name: name.to_owned(), text: text.to_owned() }
    }

    fn file(name: &str, path: &str) -> Word {
        Word::File { name: name.to_owned(), path: PathBuf::from(path) }
    }

    #[test]
    fn every_form_is_understood_and_the_first_sign_decides() {
        for (word, expected) in [
            ("x=1", value("x", "1")),
            ("x=", value("x", "")),
            ("x==", value("x", "=")),
            ("x=a:b", value("x", "a:b")),
            ("x=@file", value("x", "@file")),
            ("x= -1 ", value("x", " -1 ")),
            ("y:two", file("y", "two")),
            ("y:./a=b", file("y", "./a=b")),
            ("y:/dev/stdin", file("y", "/dev/stdin")),
            ("y:c:d", file("y", "c:d")),
            ("out:result", out("result", None)),
            ("out:result=f", out("result", Some("f"))),
            ("out:mesh=DIR/", out("mesh", Some("DIR/"))),
            ("out:r=a=b", out("r", Some("a=b"))),
            ("out:out", out("out", None)),
            ("outer=1", value("outer", "1")),
        ] {
            assert_eq!(parse(word), Ok(expected), "{word}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_told_with_what_would_be_right() {
        for (word, expected) in [
            ("x", WordError::NoForm("x".to_owned())),
            ("", WordError::NoForm(String::new())),
            ("=1", WordError::NoName("=1".to_owned())),
            (":f", WordError::NoName(":f".to_owned())),
            ("y:", WordError::NoFile("y:".to_owned())),
            ("out=f", WordError::Out("out=f".to_owned())),
            ("out:", WordError::IncompleteOut("out:".to_owned())),
            ("out:=f", WordError::IncompleteOut("out:=f".to_owned())),
            ("out:r=", WordError::IncompleteOut("out:r=".to_owned())),
            ("ref:x", WordError::Ref("ref:x".to_owned())),
            ("ref=x", WordError::Ref("ref=x".to_owned())),
        ] {
            assert_eq!(parse(word), Err(expected), "{word}");
        }
        assert_eq!(
            parse("out=f").unwrap_err().to_string(),
            "the argument \"out=f\" sets no input, because out is reserved for outputs: \
             write out:NAME or out:NAME=FILE"
        );
    }

    #[test]
    fn an_output_twice_and_a_word_of_the_wrong_command_are_refused() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let twice = parse_all(&words(&["out:r", "x=1", "out:r=f"]));
        assert_eq!(twice, Err(WordError::OutTwice("r".to_owned())));
        let spawn = inputs_only(&words(&["x=1", "out:r"]));
        assert_eq!(spawn, Err(WordError::OutOfSpawn("r".to_owned())));
        let results = outputs_only(&words(&["out:r", "x=1"]));
        assert_eq!(results, Err(WordError::InputOfResults("x=1".to_owned())));
    }
}
