//! The words of a call: `x=1`, `y:two`, `out:result`, `out:result=FILE` (paper 000, Figure 5), and
//! `y@URL`, `y@FILE`, `ref:result`, `auto:result` for data by reference (section 4.5).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use fishplate_contract::{Argument, DataRef, DataType, OutputChoice, OutputForm, Payload, Value};
use fishplate_data::transfer::{DESTINATIONS, SOURCES};
use fishplate_formats::dimension::Dimensions;
use fishplate_wire::wsdl::DescribedOperation;

use crate::array::{from_file, from_text};
use crate::data::Offer;
use crate::directory;
use crate::error::Error;
use crate::input::{blocking, file_input, text_input};
use crate::service::{input_of, output_of};

/// An argument as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentWord {
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
    /// `NAME@URL`.
    Reference {
        /// Name of the input.
        name: String,
        /// Where the server gets its value.
        url: String,
    },
    /// `NAME@FILE`.
    Offer {
        /// Name of the input.
        name: String,
        /// The file that the server gets from us.
        path: PathBuf,
    },
    /// `out:NAME`, `ref:NAME`, `auto:NAME`, with or without `=` and where it goes.
    Out(RequestedOutput),
}

/// An output that somebody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Name of the output; [`OutputChoice::ALL`] for all.
    pub name: String,
    /// By value, by reference, or as the server likes.
    pub form: OutputForm,
    /// The file or directory for what comes by value, if told.
    pub to: Option<PathBuf>,
    /// The URL to which the server delivers it.
    pub deliver_to: Option<String>,
}

impl RequestedOutput {
    /// Where it goes if it comes by value: as told, or a file of its name.
    pub fn target(&self) -> PathBuf {
        self.to.clone().unwrap_or_else(|| PathBuf::from(&self.name))
    }

    fn choice(&self) -> OutputChoice {
        OutputChoice { name: self.name.clone(), form: self.form, to: self.deliver_to.clone() }
    }

    /// It may go into a file.
    pub fn may_be_file(&self) -> bool {
        self.form != OutputForm::Reference
    }
}

/// Where `NAME:-` comes from.
const STDIN: &str = "/dev/stdin";
/// Where `out:NAME=-` goes.
pub const STDOUT: &str = "/dev/stdout";

/// A word that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// Neither `=` nor `:`.
    #[error(
        "cannot read the argument {0:?}: write NAME=VALUE, NAME:FILE (the content of a file), \
         NAME@URL (a reference), out:NAME (an output into a file) or ref:NAME (an output as a \
         reference)"
    )]
    NoForm(String),
    /// Nothing before `=`, `:` or `@`.
    #[error("the argument {0:?} names no parameter: write NAME=VALUE, NAME:FILE or NAME@URL")]
    NoName(String),
    /// `NAME@`.
    #[error(
        "the argument {0:?} refers to nothing: write NAME@URL, or NAME@FILE for a file of yours"
    )]
    NoSource(String),
    /// A URL that nobody gets data from.
    #[error(
        "the argument {word:?} refers to data by {scheme:?}: write a URL that begins with {}, \
         session:FILE for a file of the session, or ./FILE for a file of yours",
        listed(&SOURCES)
    )]
    Source {
        /// As it was typed.
        word: String,
        /// Its scheme.
        scheme: String,
    },
    /// A URL that nobody delivers to.
    #[error(
        "the argument {word:?} does not tell where to deliver to: write ref:NAME=URL with a URL \
         that begins with {}, ref:NAME for a reference at the server, or out:NAME=FILE for a file \
         of yours",
        listed(&DESTINATIONS)
    )]
    Destination {
        /// As it was typed.
        word: String,
    },
    /// `out:NAME=http://...`.
    #[error(
        "the argument {word:?} would write a file named after a URL: write ref:{name}=URL to have \
         the server deliver it there, or out:{name}=FILE for a file of yours"
    )]
    UrlAsFile {
        /// As it was typed.
        word: String,
        /// The output.
        name: String,
    },
    /// `NAME:`.
    #[error("the argument {0:?} names no file: write NAME:FILE, or NAME= for an empty value")]
    NoFile(String),
    /// `out=...`, `ref=...`.
    #[error(
        "the argument {word:?} sets no input, because {prefix} is reserved for outputs: \
         write {}",
        forms(prefix)
    )]
    Out {
        /// As it was typed.
        word: String,
        /// `out`, `ref` or `auto`.
        prefix: &'static str,
    },
    /// `out:` without a name, or `out:NAME=` without a file.
    #[error("the argument {word:?} is incomplete: write {}", forms(prefix))]
    IncompleteOut {
        /// As it was typed.
        word: String,
        /// `out`, `ref` or `auto`.
        prefix: &'static str,
    },
    /// `out:*`.
    #[error("the argument {0:?} names no output: * stands for all in ref:* and auto:* only")]
    AllIntoFile(String),
    /// An output twice.
    #[error("the output {0} is asked for more than once")]
    OutTwice(String),
    /// `out:x=- out:y=-`.
    #[error("only one output can go to standard output, not {0} as well")]
    StdoutTwice(String),
    /// An output where inputs are given only.
    #[error("spawn gives no outputs: fetch {0} with `fishplate results URL JOB out:{0}`")]
    OutOfSpawn(String),
    /// `NAME@FILE` where nothing serves files of ours.
    #[error("nothing offers {} to the server: write NAME:FILE to send it", .0.display())]
    NoOffer(PathBuf),
    /// An input where outputs are asked for only.
    #[error("results takes no inputs such as {0:?}: write out:NAME, out:NAME=FILE or ref:NAME")]
    InputOfResults(String),
}

/// How an output is asked for.
fn forms(prefix: &str) -> &'static str {
    match prefix {
        "ref" => "ref:NAME or ref:NAME=URL",
        "auto" => "auto:NAME or auto:NAME=FILE",
        _ => "out:NAME or out:NAME=FILE",
    }
}

/// Understands one word. The first `=`, `:` or `@` decides.
pub fn parse(word: &str) -> Result<ArgumentWord, WordError> {
    let Some(at) = word.find(['=', ':', '@']) else {
        return Err(WordError::NoForm(word.to_owned()));
    };
    let (name, sign, rest) = (&word[..at], word.as_bytes()[at], &word[at + 1..]);
    let output = match name {
        "" => return Err(WordError::NoName(word.to_owned())),
        "out" => Some(("out", OutputForm::Value)),
        "ref" => Some(("ref", OutputForm::Reference)),
        // An input of that name can still have a value.
        "auto" if sign == b':' => Some(("auto", OutputForm::Auto)),
        _ => None,
    };
    match (output, sign) {
        (Some((prefix, form)), b':') => wanted(word, prefix, form, rest).map(ArgumentWord::Out),
        (Some((prefix, _)), _) => Err(WordError::Out { word: word.to_owned(), prefix }),
        (None, b'@') => referred(word, name, rest),
        (None, b':') if rest.is_empty() => Err(WordError::NoFile(word.to_owned())),
        (None, b':') => {
            let path = PathBuf::from(if rest == "-" { STDIN } else { rest });
            Ok(ArgumentWord::File { name: name.to_owned(), path })
        }
        (None, _) => Ok(ArgumentWord::Value { name: name.to_owned(), text: rest.to_owned() }),
    }
}

fn wanted(
    word: &str,
    prefix: &'static str,
    form: OutputForm,
    rest: &str,
) -> Result<RequestedOutput, WordError> {
    let (name, to) = match rest.split_once('=') {
        Some((name, to)) => (name, Some(to)),
        None => (rest, None),
    };
    if name.is_empty() || to == Some("") {
        return Err(WordError::IncompleteOut { word: word.to_owned(), prefix });
    }
    let all = name == OutputChoice::ALL;
    if all && (form == OutputForm::Value || to.is_some()) {
        return Err(WordError::AllIntoFile(word.to_owned()));
    }
    let mut wanted = RequestedOutput { name: name.to_owned(), form, ..RequestedOutput::default() };
    match (form, to) {
        (OutputForm::Reference, Some(url)) => {
            if !scheme(url).is_some_and(|scheme| DESTINATIONS.contains(&&*scheme)) {
                return Err(WordError::Destination { word: word.to_owned() });
            }
            wanted.deliver_to = Some(url.to_owned());
        }
        (_, Some(to)) if to.contains("://") || to.starts_with("mailto:") => {
            return Err(WordError::UrlAsFile { word: word.to_owned(), name: name.to_owned() });
        }
        (_, Some("-")) => wanted.to = Some(PathBuf::from(STDOUT)),
        (_, to) => wanted.to = to.map(PathBuf::from),
    }
    Ok(wanted)
}

/// `NAME@URL`, or a file of ours: what begins with a name of two or more letters and a colon is a URL.
fn referred(word: &str, name: &str, rest: &str) -> Result<ArgumentWord, WordError> {
    let name = name.to_owned();
    match scheme(rest) {
        None if rest.is_empty() => Err(WordError::NoSource(word.to_owned())),
        None => Ok(ArgumentWord::Offer { name, path: PathBuf::from(rest) }),
        Some(scheme) if scheme == "session" || SOURCES.contains(&&*scheme) => {
            Ok(ArgumentWord::Reference { name, url: rest.to_owned() })
        }
        Some(scheme) => Err(WordError::Source { word: word.to_owned(), scheme }),
    }
}

/// `http:, https: or file:`
fn listed(schemes: &[&str]) -> String {
    let (last, others) = schemes.split_last().unwrap_or((&"", &[]));
    format!("{}: or {last}:", others.join(":, "))
}

/// The scheme of a URL, in lower case (RFC 3986, section 3.1).
fn scheme(url: &str) -> Option<String> {
    let (scheme, _) = url.split_once(':')?;
    let mut letters = scheme.chars();
    let first = letters.next()?.is_ascii_alphabetic();
    let others = letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (first && others && scheme.len() > 1).then(|| scheme.to_ascii_lowercase())
}

/// The words of a call: inputs and outputs, in the order they were typed.
pub fn parse_all(words: &[String]) -> Result<(Vec<ArgumentWord>, Vec<RequestedOutput>), WordError> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for word in words {
        match parse(word)? {
            ArgumentWord::Out(wanted) => {
                if !seen.insert(wanted.name.clone()) {
                    return Err(WordError::OutTwice(wanted.name));
                }
                if to_stdout(&wanted) && outputs.iter().any(to_stdout) {
                    return Err(WordError::StdoutTwice(wanted.name));
                }
                outputs.push(wanted);
            }
            input => inputs.push(input),
        }
    }
    Ok((inputs, outputs))
}

fn to_stdout(wanted: &RequestedOutput) -> bool {
    wanted.to.as_deref() == Some(Path::new(STDOUT))
}

/// Whether a word is `out:NAME=-`.
pub fn asks_for_stdout(word: &str) -> bool {
    matches!(parse(word), Ok(ArgumentWord::Out(wanted)) if to_stdout(&wanted))
}

/// The words of `spawn`: inputs, and how outputs are wanted, but none into a file of ours.
pub fn without_files(
    words: &[String],
) -> Result<(Vec<ArgumentWord>, Vec<RequestedOutput>), WordError> {
    let (inputs, outputs) = parse_all(words)?;
    match outputs.iter().find(|wanted| wanted.form == OutputForm::Value || wanted.to.is_some()) {
        Some(wanted) => Err(WordError::OutOfSpawn(wanted.name.clone())),
        None => Ok((inputs, outputs)),
    }
}

/// The words of `results`: outputs only.
pub fn outputs_only(words: &[String]) -> Result<Vec<RequestedOutput>, WordError> {
    for word in words {
        if !matches!(parse(word)?, ArgumentWord::Out(_)) {
            return Err(WordError::InputOfResults(word.clone()));
        }
    }
    parse_all(words).map(|(_, outputs)| outputs)
}

/// What the server is told of the outputs of a call. By value is what it does anyway, unless the call
/// is in a session or has a choice for all.
pub fn choices(wanted: &[RequestedOutput], in_session: bool) -> Vec<OutputChoice> {
    let all = wanted.iter().any(|wanted| wanted.name == OutputChoice::ALL);
    let told = wanted.iter().filter(|wanted| {
        in_session || all || wanted.form != OutputForm::Value || wanted.deliver_to.is_some()
    });
    told.map(RequestedOutput::choice).collect()
}

/// What the server is told of the outputs of a job that has ended: all of it, because the call may have
/// chosen otherwise.
pub fn choices_again(wanted: &[RequestedOutput]) -> Vec<OutputChoice> {
    wanted.iter().map(RequestedOutput::choice).collect()
}

/// The values of the inputs: a file's bytes for a file input, the numbers in it for an array, a file's
/// trimmed text for others; references to what is elsewhere and, by `offer`, to our own files.
pub async fn load(
    operation: &DescribedOperation,
    inputs: Vec<ArgumentWord>,
    offer: Option<&Offer>,
) -> Result<Vec<Argument>, Error> {
    let mut arguments = Vec::with_capacity(inputs.len());
    let mut known = lengths(operation, &inputs);
    for input in inputs {
        arguments.push(match input {
            ArgumentWord::Value { name, text } => {
                let value = match &input_of(operation, &name)?.data_type {
                    DataType::Array(array) => {
                        Value::Array(from_text(&name, array, &mut known, &text)?)
                    }
                    _ => Value::Text(text),
                };
                Argument::new(name, value)
            }
            ArgumentWord::File { name, path } => {
                let value = match &input_of(operation, &name)?.data_type {
                    DataType::Array(array) => {
                        Value::Array(from_file(&name, array, &mut known, &path).await?)
                    }
                    DataType::Dir if path.is_dir() => Value::Data(directory::packed(path).await?),
                    data_type if data_type.is_binary() => Value::Data(file_input(&path).await?),
                    _ => text_input(&path).await?,
                };
                Argument::new(name, value)
            }
            ArgumentWord::Reference { name, url } => {
                input_of(operation, &name)?;
                Argument::new(name, Value::Data(Payload::Reference(DataRef::new(url))))
            }
            ArgumentWord::Offer { name, path } => {
                let is_directory = input_of(operation, &name)?.data_type == DataType::Dir;
                let offer = offer.ok_or_else(|| WordError::NoOffer(path.clone()))?;
                let reference = match is_directory && path.is_dir() {
                    false => offer.add(&path).await?,
                    true => {
                        let packing = move || directory::packed_to_offer(&path);
                        let (guard, path) = blocking(packing).await?;
                        offer.add_temporary(&path, guard).await?
                    }
                };
                Argument::new(name, Value::Data(Payload::Reference(reference)))
            }
            ArgumentWord::Out(wanted) => unreachable!("output {} among the inputs", wanted.name),
        });
    }
    Ok(arguments)
}

/// The lengths of axes that the whole numbers among the words tell.
fn lengths(operation: &DescribedOperation, inputs: &[ArgumentWord]) -> Dimensions {
    let mut known = Dimensions::default();
    for input in inputs {
        if let ArgumentWord::Value { name, text } = input
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
pub fn check_outputs(
    operation: &DescribedOperation,
    wanted: &[RequestedOutput],
) -> Result<(), Error> {
    let named = wanted.iter().filter(|wanted| wanted.name != OutputChoice::ALL);
    named.into_iter().try_for_each(|wanted| output_of(operation, &wanted.name).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(name: &str, to: Option<&str>) -> ArgumentWord {
        let to = to.map(PathBuf::from);
        ArgumentWord::Out(RequestedOutput {
            name: name.to_owned(),
            to,
            ..RequestedOutput::default()
        })
    }

    fn by_reference(name: &str, to: Option<&str>) -> ArgumentWord {
        let (form, deliver_to) = (OutputForm::Reference, to.map(str::to_owned));
        ArgumentWord::Out(RequestedOutput { name: name.to_owned(), form, to: None, deliver_to })
    }

    fn reference(name: &str, url: &str) -> ArgumentWord {
        ArgumentWord::Reference { name: name.to_owned(), url: url.to_owned() }
    }

    fn offer(name: &str, path: &str) -> ArgumentWord {
        ArgumentWord::Offer { name: name.to_owned(), path: PathBuf::from(path) }
    }

    fn value(name: &str, text: &str) -> ArgumentWord {
        ArgumentWord::Value { name: name.to_owned(), text: text.to_owned() }
    }

    fn file(name: &str, path: &str) -> ArgumentWord {
        ArgumentWord::File { name: name.to_owned(), path: PathBuf::from(path) }
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
            ("y:-", file("y", "/dev/stdin")),
            ("y:c:d", file("y", "c:d")),
            ("out:result", out("result", None)),
            ("out:result=f", out("result", Some("f"))),
            ("out:mesh=DIR/", out("mesh", Some("DIR/"))),
            ("out:r=a=b", out("r", Some("a=b"))),
            ("out:out", out("out", None)),
            ("outer=1", value("outer", "1")),
            ("auto=1", value("auto", "1")),
            ("y@http://h/data/x", reference("y", "http://h/data/x")),
            ("y@S3://bucket/key", reference("y", "S3://bucket/key")),
            ("y@session:mesh", reference("y", "session:mesh")),
            ("y@two", offer("y", "two")),
            ("y@/data/two", offer("y", "/data/two")),
            ("y@./a:b", offer("y", "./a:b")),
            ("y@c:d", offer("y", "c:d")),
            ("y@a=b", offer("y", "a=b")),
            ("ref:mesh", by_reference("mesh", None)),
            ("ref:*", by_reference("*", None)),
            ("ref:mesh=mailto:a@b", by_reference("mesh", Some("mailto:a@b"))),
            ("ref:mesh=s3://b/k=1", by_reference("mesh", Some("s3://b/k=1"))),
        ] {
            assert_eq!(parse(word), Ok(expected), "{word}");
        }
    }

    fn reserved(word: &str, prefix: &'static str) -> WordError {
        WordError::Out { word: word.to_owned(), prefix }
    }

    #[test]
    fn a_url_is_no_file() {
        for word in ["out:mesh=http://a/b", "auto:mesh=s3://b/k", "out:mesh=mailto:a@b"] {
            let said = parse(word).unwrap_err().to_string();
            assert!(said.contains("write ref:mesh=URL") && said.contains(word), "{said}");
        }
        assert!(parse("out:mesh=a:b").is_ok());
    }

    fn incomplete(word: &str, prefix: &'static str) -> WordError {
        WordError::IncompleteOut { word: word.to_owned(), prefix }
    }

    #[test]
    fn the_server_is_told_what_it_would_not_do_anyway() {
        let wanted = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            parse_all(&words).unwrap().1
        };
        let told = |words: &[&str], in_session| {
            let choices = choices(&wanted(words), in_session).into_iter();
            choices.map(|choice| (choice.name, choice.form.name())).collect::<Vec<_>>()
        };
        let choice = |name: &str, form| (name.to_owned(), form);
        assert_eq!(told(&["out:a", "ref:b"], false), [choice("b", "reference")]);
        assert_eq!(told(&["out:a"], true), [choice("a", "value")]);
        let again = choices_again(&wanted(&["out:a", "ref:b"]));
        let again: Vec<_> = again.iter().map(|it| (&*it.name, it.form.name())).collect();
        assert_eq!(again, [("a", "value"), ("b", "reference")]);
        let all = [choice("a", "value"), choice("*", "auto")];
        assert_eq!(told(&["out:a", "auto:*"], false), all);
        assert_eq!(
            choices(&wanted(&["ref:b=mailto:x@y"]), false)[0].to.as_deref(),
            Some("mailto:x@y")
        );
    }

    #[test]
    fn what_cannot_be_understood_is_told_with_what_would_be_right() {
        for (word, expected) in [
            ("x", WordError::NoForm("x".to_owned())),
            ("", WordError::NoForm(String::new())),
            ("=1", WordError::NoName("=1".to_owned())),
            (":f", WordError::NoName(":f".to_owned())),
            ("y:", WordError::NoFile("y:".to_owned())),
            ("@f", WordError::NoName("@f".to_owned())),
            ("y@", WordError::NoSource("y@".to_owned())),
            ("out=f", reserved("out=f", "out")),
            ("out@f", reserved("out@f", "out")),
            ("ref=x", reserved("ref=x", "ref")),
            ("out:", incomplete("out:", "out")),
            ("out:=f", incomplete("out:=f", "out")),
            ("out:r=", incomplete("out:r=", "out")),
            ("ref:", incomplete("ref:", "ref")),
            ("auto:r=", incomplete("auto:r=", "auto")),
            ("out:*", WordError::AllIntoFile("out:*".to_owned())),
            ("auto:*=dir/", WordError::AllIntoFile("auto:*=dir/".to_owned())),
            ("ref:r=file", WordError::Destination { word: "ref:r=file".to_owned() }),
            ("ref:r=gopher://h", WordError::Destination { word: "ref:r=gopher://h".to_owned() }),
            (
                "y@gopher://h/x",
                WordError::Source {
                    word: "y@gopher://h/x".to_owned(),
                    scheme: "gopher".to_owned(),
                },
            ),
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
        let streams = parse_all(&words(&["out:r=-", "out:q=-"]));
        assert_eq!(streams, Err(WordError::StdoutTwice("q".to_owned())));
        assert!(asks_for_stdout("out:r=-") && !asks_for_stdout("out:r=./-"));
        let spawn = without_files(&words(&["x=1", "ref:q", "out:r"]));
        assert_eq!(spawn, Err(WordError::OutOfSpawn("r".to_owned())));
        let results = outputs_only(&words(&["out:r", "x=1"]));
        assert_eq!(results, Err(WordError::InputOfResults("x=1".to_owned())));
    }
}
