//! One slot: `[DIRECTION PASSING NAME:TYPE]`, with `trim` after the type if a string is to lose its
//! blanks.

use std::ops::Range;

use fishplate_contract::lexical::closest;
use fishplate_contract::{ArrayType, DataType, ElementType};

use super::parse::{NAME_RULE, is_name};
use super::problem::{CommandPosition, Problem};
use super::{ArgumentPassing, Direction, Slot};

/// Names that the command line of the client uses itself (paper 000, Figure 5).
const RESERVED: [&str; 2] = ["out", "ref"];

/// What people write who come from elsewhere.
const ALIASES: [(&str, &str); 22] = [
    ("integer", "int"),
    ("i32", "int"),
    ("i64", "long"),
    ("int32", "int"),
    ("int64", "long"),
    ("float32", "float"),
    ("float64", "double"),
    ("real", "double"),
    ("number", "double"),
    ("f64", "double"),
    ("f32", "float"),
    ("boolean", "bool"),
    ("flag", "bool"),
    ("str", "string"),
    ("text", "string"),
    ("binary", "raw"),
    ("bytes", "raw"),
    ("base64", "raw"),
    ("file", "raw"),
    ("data", "raw"),
    ("File", "raw"),
    ("document", "xml"),
];

/// A slot's content being read; `base` is where it begins in its word.
struct Reader<'p> {
    word: usize,
    base: usize,
    problems: &'p mut Vec<Problem>,
}

/// A piece of the content and where it stands in it.
#[derive(Clone, Debug)]
struct Token<'c> {
    text: &'c str,
    span: Range<usize>,
}

/// Reads what stands between the brackets. Gives a slot even if it is wrong, as long as its name
/// can be read, so that later checks know the name.
pub(super) fn read(
    content: &str,
    word: usize,
    base: usize,
    problems: &mut Vec<Problem>,
) -> Option<Slot> {
    let mut reader = Reader { word, base, problems };
    let (head, type_part) = match content.find(':') {
        Some(colon) => (&content[..colon], Some(colon + 1)),
        None => (content, None),
    };
    let mut tokens = tokens(head);
    let direction = reader.direction(&mut tokens)?;
    let passing = reader.passing(&mut tokens, direction, content);
    let name = reader.name(&tokens, content, passing.is_some());
    let passing = passing?;
    let name = name?;
    let mut trim = None;
    let data_type = match type_part {
        Some(start) => {
            let (type_name, span) = without_trim(&content[start..], start);
            trim = span;
            reader.data_type(type_name, start)
        }
        None => {
            let end = content.trim_end().len();
            reader.error(end..end, format!("`{name}` has no type")).hint = Some(format!(
                "write `[{} {} {name}:TYPE]` with one of {}",
                direction.name(),
                passing.name(),
                type_names()
            ));
            None
        }
    };
    let data_type = data_type.unwrap_or(DataType::String);
    reader.combination(direction, passing, &data_type, content, &name);
    if let Some(span) = trim.clone().filter(|_| data_type != DataType::String || !direction.takes())
    {
        let message = "`trim` is for a `string` that goes to the program".to_owned();
        reader.error(span, message).hint = Some("leave `trim` out".to_owned());
    }
    Some(Slot { direction, passing, name, data_type, trim: trim.is_some() })
}

/// What stands before the word `trim`, if a type does, and where `trim` stands.
fn without_trim(text: &str, start: usize) -> (&str, Option<Range<usize>>) {
    match text.trim_end().strip_suffix("trim") {
        Some(before) if before.trim_end() != before && !before.trim().is_empty() => {
            (before, Some(start + before.len()..start + before.len() + "trim".len()))
        }
        _ => (text, None),
    }
}

/// The types, for messages.
pub(crate) fn type_names() -> String {
    format!("{}, or an array such as double[]", DataType::NAMES.join(", "))
}

/// The type that was probably meant.
pub(crate) fn probable_type(text: &str) -> Option<String> {
    let (element, brackets) = text.split_at(text.find('[').unwrap_or(text.len()));
    let element = element.trim_end();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == element).map(|(_, name)| *name);
    let meant = match brackets {
        "" => alias.or_else(|| closest(element, DataType::NAMES)),
        _ => alias.or_else(|| closest(element, ElementType::ALL.map(ElementType::name))),
    };
    meant.map(|meant| format!("{meant}{brackets}")).filter(|it| DataType::from_name(it).is_some())
}

/// What is wrong with a type that has brackets: the bytes it is about, what it is, and what would
/// be right. `None` if nothing is but the element's name.
pub(crate) fn array_problem(text: &str) -> Option<(Range<usize>, String, Option<String>)> {
    let open = text.find('[')?;
    let element = text[..open].trim_end();
    let mut rank = 0;
    let mut at = open;
    while at < text.len() {
        let length = text[at..].find(']').filter(|_| text[at..].starts_with('['));
        let Some(length) = length else {
            let message = format!("`{}` is no dimension of an array", &text[at..]);
            let hint = "an array's type is written `float[][]`, `double[n,m]` or `int[3]`";
            return Some((at..text.len(), message, Some(hint.to_owned())));
        };
        let mut start = at + 1;
        for dimension in text[start..at + length].split(',') {
            let span = start..start + dimension.len();
            start = span.end + 1;
            rank += 1;
            if format!("int[{dimension}]").parse::<ArrayType>().is_err() {
                let message = format!("`{}` is no dimension of an array", dimension.trim());
                let hint = "a dimension is a length such as 3, a name such as n, or nothing";
                return Some((span, message, Some(hint.to_owned())));
            }
        }
        at += length + 1;
        at += text[at..].len() - text[at..].trim_start().len();
    }
    if rank > ArrayType::MAX_RANK {
        let most = ArrayType::MAX_RANK;
        let message = format!("an array has at most {most} dimensions, not {rank}");
        return Some((open..text.len(), message, None));
    }
    let scalar = DataType::from_name(element)?;
    if scalar.as_array().is_none() && ElementType::from_name(element).is_none() {
        let message = format!("an array consists of numbers, not of `{element}`");
        let elements = ElementType::ALL.map(ElementType::name).join(", ");
        let hint = format!("its elements are one of {elements}; `raw` is a file of anything");
        return Some((0..element.len(), message, Some(hint)));
    }
    None
}

fn tokens(head: &str) -> Vec<Token<'_>> {
    let start_of = |text: &str| text.as_ptr() as usize - head.as_ptr() as usize;
    head.split_ascii_whitespace()
        .map(|text| Token { text, span: start_of(text)..start_of(text) + text.len() })
        .collect()
}

impl Reader<'_> {
    fn error(&mut self, span: Range<usize>, message: String) -> &mut Problem {
        let span = self.base + span.start..self.base + span.end;
        self.problems.push(Problem::error(CommandPosition { word: self.word, span }, message));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    fn direction(&mut self, tokens: &mut Vec<Token<'_>>) -> Option<Direction> {
        if tokens.is_empty() {
            return None;
        }
        let first = tokens.remove(0);
        let second = tokens.first().map(|token| (token.text, token.span.clone()));
        match (first.text, second) {
            ("in", Some(("out", _))) => {
                tokens.remove(0);
                Some(Direction::InOut)
            }
            ("out", Some(("in", span))) => {
                tokens.remove(0);
                let whole = first.span.start..span.end;
                self.error(whole, "the direction `out in` is written `in out`".to_owned());
                Some(Direction::InOut)
            }
            ("in", _) => Some(Direction::In),
            ("out", _) => Some(Direction::Out),
            (unknown, _) => {
                let meant = match unknown {
                    "inout" => Some("in out"),
                    "input" => Some("in"),
                    "output" => Some("out"),
                    _ => closest(unknown, ["in", "out"]),
                };
                let problem =
                    self.error(first.span, format!("`{unknown}` is no direction of a slot"));
                problem.label = "`in`, `out` or `in out`".to_owned();
                problem.hint = Some(match meant {
                    Some(meant) => format!("`{meant}` is one"),
                    None => "double the bracket (`[[`) if this is meant as text".to_owned(),
                });
                match meant {
                    Some("in out") => Some(Direction::InOut),
                    Some("out") => Some(Direction::Out),
                    _ => Some(Direction::In),
                }
            }
        }
    }

    fn passing(
        &mut self,
        tokens: &mut Vec<Token<'_>>,
        direction: Direction,
        content: &str,
    ) -> Option<ArgumentPassing> {
        let right = if direction == Direction::In { "`val` or `file`" } else { "`file`" };
        match tokens.first().map(|token| (token.text, token.span.clone())) {
            Some(("val", _)) => {
                tokens.remove(0);
                Some(ArgumentPassing::Val)
            }
            Some(("file", _)) => {
                tokens.remove(0);
                Some(ArgumentPassing::File)
            }
            Some((unknown, span)) if tokens.len() > 1 => {
                let meant = match unknown {
                    "value" => Some("val"),
                    _ => closest(unknown, ["val", "file"]),
                };
                let problem = self.error(span, format!("`{unknown}` is no way to pass a value"));
                problem.label = right.to_owned();
                problem.hint = meant.map(|meant| format!("`{meant}` is one"));
                tokens.remove(0);
                Some(if meant == Some("val") {
                    ArgumentPassing::Val
                } else {
                    ArgumentPassing::File
                })
            }
            other => {
                let at = other.map_or(content.trim_end().len(), |(_, span)| span.start);
                let problem =
                    self.error(at..at, format!("{right} is missing after `{}`", direction.name()));
                let type_name =
                    content.split_once(':').map_or("", |(_, type_name)| type_name.trim());
                let is_array =
                    DataType::from_name(type_name).is_some_and(|it| it.as_array().is_some());
                problem.hint = Some(match tokens.first() {
                    Some(name) if is_array => format!(
                        "arrays travel in files: write `[{} file {}:{type_name}]`",
                        direction.name(),
                        name.text
                    ),
                    _ => "`val` puts the value on the command line, `file` the name of a file \
                          that holds it"
                        .to_owned(),
                });
                (!tokens.is_empty()).then_some(ArgumentPassing::File)
            }
        }
    }

    fn name(&mut self, tokens: &[Token<'_>], content: &str, expected: bool) -> Option<String> {
        let Some(name) = tokens.first() else {
            if expected {
                let end = content.find(':').unwrap_or(content.trim_end().len());
                self.error(end..end, "the slot has no name".to_owned()).hint =
                    Some("write `[in val NAME:TYPE]`".to_owned());
            }
            return None;
        };
        if let Some(last) = tokens.last().filter(|_| tokens.len() > 1) {
            let span = name.span.start..last.span.end;
            self.error(span, "a slot's name is one word".to_owned()).hint =
                Some(NAME_RULE.to_owned());
        } else if !is_name(name.text) {
            let text = name.text;
            self.error(name.span.clone(), format!("`{text}` is no name for a parameter")).hint =
                Some(NAME_RULE.to_owned());
        } else if RESERVED.contains(&name.text) {
            let text = name.text;
            self.error(name.span.clone(), format!("the name `{text}` is reserved")).hint = Some(
                "callers write `out:NAME` and `ref:NAME` on the command line; take another name"
                    .to_owned(),
            );
        }
        Some(name.text.to_owned())
    }

    fn data_type(&mut self, text: &str, start: usize) -> Option<DataType> {
        let name = text.trim();
        let start = start + (text.len() - text.trim_start().len());
        if name.is_empty() {
            self.error(start..start, "the type is missing after `:`".to_owned()).hint =
                Some(format!("a type is one of {}", type_names()));
            return None;
        }
        if let Some(data_type) = DataType::from_name(name) {
            return Some(data_type);
        }
        if let Some((span, message, hint)) = array_problem(name) {
            self.error(start + span.start..start + span.end, message).hint = hint;
            return None;
        }
        let meant = probable_type(name);
        let problem =
            self.error(start..start + name.len(), format!("`{name}` is no type of a slot"));
        problem.label = format!("one of {}", type_names());
        problem.hint = meant.as_ref().map(|meant| format!("`{meant}` is one"));
        meant.as_deref().and_then(DataType::from_name)
    }

    fn combination(
        &mut self,
        direction: Direction,
        passing: ArgumentPassing,
        data_type: &DataType,
        content: &str,
        name: &str,
    ) {
        if passing == ArgumentPassing::File {
            return;
        }
        let at = content.find("val").map_or(0..0, |start| start..start + 3);
        if direction != Direction::In {
            let direction = direction.name();
            let problem =
                self.error(at, format!("an `{direction}` slot is passed by `file`, not by `val`"));
            problem.label = "a program cannot write to its command line".to_owned();
            problem.hint = Some(format!("write `[{direction} file {name}:{}]`", data_type.name()));
        } else if data_type.is_binary() {
            let type_name = data_type.name();
            let problem =
                self.error(at, format!("`{type_name}` is passed by `file`, not by `val`"));
            problem.label = "a file's bytes cannot stand on a command line".to_owned();
            problem.hint = Some(format!("write `[in file {name}:{type_name}]`"));
        } else if data_type.as_array().is_some() {
            let type_name = data_type.name();
            let problem =
                self.error(at, format!("`{type_name}` is passed by `file`, not by `val`"));
            problem.label = "an array's numbers cannot stand on a command line".to_owned();
            problem.hint =
                Some(format!("arrays travel in files: write `[in file {name}:{type_name}]`"));
        }
    }
}
