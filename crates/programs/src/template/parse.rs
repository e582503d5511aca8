//! From words to a template.

use fishplate_contract::DataType;

use super::escape::{SlotEnd, begins_slot, end_of_slot};
use super::notice;
use super::problem::{CommandPosition, Problem, Severity};
use super::{
    CommandItem, Direction, Slot, StandardStream, StreamTarget, Template, Word, WordPart, slot,
};

/// What a command line turned out to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// As much of it as could be understood; usable if no problem is an error.
    pub template: Template,
    /// Where each slot stands, in the order of [`Template::slots`].
    pub places: Vec<SlotPosition>,
    /// All that is to be said about it, in the order of the words.
    pub problems: Vec<Problem>,
    /// The name of some slot could not be read, so that the names known are not all.
    pub nameless: bool,
}

/// Where a slot stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPosition {
    /// Name of its parameter.
    pub name: String,
    /// The whole slot, brackets included.
    pub at: CommandPosition,
}

impl Parsed {
    /// Something must be put right first.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The template, or what must be put right.
    ///
    /// # Errors
    /// The problems that are errors.
    pub fn into_result(mut self) -> Result<Template, Vec<Problem>> {
        self.problems.retain(|problem| problem.severity == Severity::Error);
        if self.problems.is_empty() { Ok(self.template) } else { Err(self.problems) }
    }
}

/// What a name may be, for messages.
pub(super) const NAME_RULE: &str =
    "a name begins with a letter or `_` and goes on with letters, digits, `_`, `-` and `.`";

/// A name that is an XML `NCName` of ASCII characters and so fits XML, files and command lines.
pub fn is_name(text: &str) -> bool {
    let first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let rest = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    text.as_bytes().first().is_some_and(first) && text.as_bytes().iter().all(rest)
}

/// Why a text cannot be the name of a file in a workspace: what would be right. `None` if it can.
pub fn reject_file_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a file's name is not empty")
    } else if name.starts_with('/') {
        Some("a file of the workspace has a relative name, such as `job.inp` or `0/U`")
    } else if name.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        Some("a file's name goes straight down from the workspace: no `..`, `.` or `//`")
    } else if name.starts_with('-') {
        Some("a file's name that begins with `-` could pass for an option of the program")
    } else if name.chars().any(char::is_control) {
        Some("a file's name has no control characters")
    } else {
        None
    }
}

/// Reads a command line, one item a word, the program first.
pub fn parse<W: AsRef<str>>(words: &[W]) -> Parsed {
    let mut parser = Parser::default();
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let word = word.as_ref();
        parser.index = index;
        match StandardStream::from_operator(word) {
            Some(_) if index == 0 => {
                let misplaced = "the program comes first, redirections after it";
                parser.push(parser.error(word, misplaced));
                index += 1;
            }
            Some(stream) => {
                let target = words.get(index + 1).map(AsRef::as_ref);
                index += if parser.redirect(stream, word, target) { 2 } else { 1 };
            }
            None => {
                let parts = parser.word(word);
                parser.parsed.template.items.push(CommandItem::Word(Word { parts }));
                index += 1;
            }
        }
    }
    parser.finish()
}

#[derive(Default)]
struct Parser {
    parsed: Parsed,
    index: usize,
    redirected: Vec<StandardStream>,
    seen: Vec<(String, Direction)>,
}

impl Parser {
    fn at(&self, span: std::ops::Range<usize>) -> CommandPosition {
        CommandPosition { word: self.index, span }
    }

    fn push(&mut self, problem: Problem) {
        self.parsed.problems.push(problem);
    }

    fn error(&self, word: &str, message: impl Into<String>) -> Problem {
        Problem::error(self.at(0..word.len()), message)
    }

    /// The parts of a word, and the problems in it.
    fn word(&mut self, word: &str) -> Vec<WordPart> {
        let parts = self.parts(word);
        let has_slot = parts.iter().any(|part| matches!(part, WordPart::Slot(_)));
        if self.index == 0 {
            if has_slot {
                self.push(self.error(word, "the program cannot be a slot").hint(
                    "a caller would choose what runs; give each program a service of its own",
                ));
            }
            return parts;
        }
        if let Some(problem) = notice::about(word, has_slot, self.at(0..word.len())) {
            self.push(problem);
        }
        parts
    }

    fn parts(&mut self, word: &str) -> Vec<WordPart> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut position = 0;
        while let Some(found) = word[position..].find('[') {
            let start = position + found;
            let run = word[start..].bytes().take_while(|byte| *byte == b'[').count();
            let after = start + run;
            text.push_str(&word[position..start]);
            position = after;
            if !begins_slot(&word[after..]) {
                text.extend(std::iter::repeat_n('[', run));
                continue;
            }
            text.extend(std::iter::repeat_n('[', run / 2));
            if run % 2 == 0 {
                continue;
            }
            let end = match end_of_slot(&word[after..]) {
                SlotEnd::Closed(end) => after + end,
                SlotEnd::Broken(end) => {
                    self.unterminated(after - 1..after + end, word, false);
                    position = after + end;
                    continue;
                }
                SlotEnd::Open { in_type } => {
                    self.unterminated(after - 1..word.len(), word, in_type);
                    return parts;
                }
            };
            position = end + 1;
            if let Some(slot) = self.slot(&word[after..end], after - 1..position) {
                if !text.is_empty() {
                    parts.push(WordPart::Text(std::mem::take(&mut text)));
                }
                parts.push(WordPart::Slot(slot));
            }
        }
        text.push_str(&word[position..]);
        if !text.is_empty() {
            parts.push(WordPart::Text(text));
        }
        parts
    }

    fn slot(&mut self, content: &str, span: std::ops::Range<usize>) -> Option<Slot> {
        let index = self.index;
        let slot = slot::read(content, index, span.start + 1, &mut self.parsed.problems);
        let Some(slot) = slot else {
            self.parsed.nameless = true;
            return None;
        };
        let twice = self.seen.iter().any(|(other, direction)| {
            *other == slot.name
                && ((direction.takes() && slot.direction.takes())
                    || (direction.gives() && slot.direction.gives()))
        });
        if twice {
            let name = &slot.name;
            let problem = Problem::error(
                CommandPosition { word: index, span: span.clone() },
                format!("the slot `{name}` stands twice"),
            )
            .label(format!("a second `{name}`"))
            .hint("each slot is a parameter of its own: give it a name of its own");
            self.push(problem);
        }
        self.seen.push((slot.name.clone(), slot.direction));
        self.parsed.places.push(SlotPosition { name: slot.name.clone(), at: self.at(span) });
        Some(slot)
    }

    fn unterminated(&mut self, span: std::ops::Range<usize>, word: &str, in_type: bool) {
        self.parsed.nameless = true;
        let at = self.at(span.clone());
        let hint = if in_type {
            "close the brackets of the type and then the slot's: `[in file m:float[n,m]]`"
        } else if word[span].contains(' ') {
            "close it with `]`"
        } else {
            "quote the slot so that it stays one word: '[in val x:int]'"
        };
        self.push(Problem::error(at, "the slot has no end").label("no `]` follows").hint(hint));
    }

    /// Reads a redirection; whether the word after it belongs to it.
    fn redirect(&mut self, stream: StandardStream, operator: &str, target: Option<&str>) -> bool {
        if self.redirected.contains(&stream) {
            let message = format!("{} is redirected twice", stream.name());
            self.push(self.error(operator, message));
        }
        self.redirected.push(stream);
        let Some(target) = target.filter(|word| StandardStream::from_operator(word).is_none())
        else {
            let message = format!("`{operator}` needs a file after it");
            self.push(self.error(operator, message).hint(format!(
                "a slot such as `[{} file NAME:TYPE]`, or the name of a file in the workspace",
                if stream == StandardStream::Input { "in" } else { "out" },
            )));
            return false;
        };
        self.index += 1;
        let before = self.parsed.problems.len();
        let parts = self.parts(target);
        let target_end = target.len();
        let readable = self.parsed.problems.len() == before;
        let item = match parts.as_slice() {
            [WordPart::Slot(slot)] => {
                self.redirect_slot(stream, slot, target_end);
                StreamTarget::Slot(slot.clone())
            }
            [WordPart::Text(name)] if readable => {
                if let Some(hint) = reject_file_name(name) {
                    let at = self.at(0..target_end);
                    let message = format!("`{operator}` cannot go to `{name}`");
                    self.push(Problem::error(at, message).hint(hint));
                }
                StreamTarget::File(name.clone())
            }
            _ if readable => {
                let message = format!("the word after `{operator}` is one slot or one file name");
                self.push(self.error(target, message));
                StreamTarget::File(String::new())
            }
            // Keeps the items in step with the words; no file has an empty name.
            _ => StreamTarget::File(String::new()),
        };
        self.parsed.template.items.push(CommandItem::Redirect(stream, item));
        true
    }

    fn redirect_slot(&mut self, stream: StandardStream, slot: &Slot, end: usize) {
        let right = match stream {
            StandardStream::Input => Direction::In,
            StandardStream::Output | StandardStream::Error => Direction::Out,
        };
        if slot.direction != right {
            let problem = Problem::error(
                self.at(0..end),
                format!("`{}` takes an `{}` slot", stream.operator(), right.name()),
            )
            .label(format!("this is an `{}` slot", slot.direction.name()));
            self.push(problem);
        } else if slot.data_type == DataType::Dir {
            let message = format!("{} is no directory", stream.name());
            let problem = Problem::error(self.at(0..end), message)
                .hint("a program finds a directory by its name: put the slot among its words");
            self.push(problem);
        }
    }

    fn finish(mut self) -> Parsed {
        let program = self.parsed.template.items.first();
        let missing = match program {
            None => true,
            Some(CommandItem::Word(word)) => word.parts.is_empty(),
            Some(CommandItem::Redirect(..)) => false,
        };
        if missing && !self.parsed.has_errors() {
            self.push(
                Problem::error(CommandPosition::default(), "the command line has no program")
                    .hint("write the program first, such as `./add.sh` or `gzip`"),
            );
        }
        self.parsed
    }
}
