//! The literal command line with typed slots (paper 000, section 4.2, Figure 4).
//!
//! `./add.sh '[in val x:int]' '[in val y:int]' '>' '[out file result:int]'` is a template of four
//! items: the program, two words that are slots, and a redirection. No shell ever reads it: a
//! word stays one word whatever its slots are filled with.
//!
//! - a **slot** is `[DIRECTION PASSING NAME:TYPE]`, part of a word or a whole word; a bracket that
//!   does not begin like a slot is text (`[0-9]`), and doubled brackets in front of what does are
//!   text too (`[[in val x:int]` is the text `[in val x:int]`); brackets of an array's type belong
//!   to the slot (`[in file m:float[][]]`)
//! - the words `<`, `>` and `2>` **redirect**; the word after each is a slot or a file's name
//!
//! [`parse`](mod@parse) reports everything that is wrong, each with the word's index and the bytes within it.

mod escape;
mod notice;
mod parse;
mod problem;
mod slot;
pub mod words;

use std::fmt;

use fishplate_contract::DataType;

pub(crate) use slot::{array_problem, probable_type, type_names};

pub use parse::{Parsed, SlotPosition, is_name, parse, reject_file_name};
pub use problem::{CommandPosition, Problem, Severity};

/// A parsed command line: the program's word first, then words and redirections as they stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// In the order of the command line.
    pub items: Vec<CommandItem>,
}

/// A word of the program's command line, or a redirection.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandItem {
    /// Becomes exactly one word, or none if its slot is optional and left out.
    Word(Word),
    /// Connects a standard stream with a file of the workspace.
    Redirect(StandardStream, StreamTarget),
}

/// Text and slots that make one word. Neighbouring texts are one text, and none is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Word {
    /// From left to right; an empty word has no parts.
    pub parts: Vec<WordPart>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq)]
pub enum WordPart {
    /// Reaches the program as it stands.
    Text(String),
    /// Is filled from a parameter.
    Slot(Slot),
}

/// A typed hole in the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Which way the value goes.
    pub direction: Direction,
    /// How it gets to the program.
    pub passing: ArgumentPassing,
    /// Name of the parameter.
    pub name: String,
    /// Type of the parameter.
    pub data_type: DataType,
    /// A string goes to the program without the white space around it.
    pub trim: bool,
}

/// Which way a slot's value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the program.
    In,
    /// From the program.
    Out,
    /// Both: the program changes the file in place.
    InOut,
}

impl Direction {
    /// As it stands in a slot.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "in out",
        }
    }

    /// The caller gives a value.
    pub fn takes(self) -> bool {
        self != Self::Out
    }

    /// The caller gets a value.
    pub fn gives(self) -> bool {
        self != Self::In
    }
}

/// How a slot's value gets to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentPassing {
    /// It stands on the command line.
    Val,
    /// The name of a file that holds it stands on the command line.
    File,
}

impl ArgumentPassing {
    /// As it stands in a slot.
    pub fn name(self) -> &'static str {
        match self {
            Self::Val => "val",
            Self::File => "file",
        }
    }
}

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStream {
    /// `<`
    Input,
    /// `>`
    Output,
    /// `2>`
    Error,
}

impl StandardStream {
    /// The word that redirects it.
    pub fn operator(self) -> &'static str {
        match self {
            Self::Input => "<",
            Self::Output => ">",
            Self::Error => "2>",
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "standard input",
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }

    /// The stream that this word redirects.
    pub fn from_operator(word: &str) -> Option<Self> {
        [Self::Input, Self::Output, Self::Error].into_iter().find(|s| s.operator() == word)
    }
}

/// What a stream is connected with.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamTarget {
    /// A file of the workspace that is no parameter.
    File(String),
    /// A parameter's file.
    Slot(Slot),
}

impl Template {
    /// The program as it is written: the text of the first word.
    pub fn program(&self) -> &str {
        match self.items.first() {
            Some(CommandItem::Word(word)) => match word.parts.first() {
                Some(WordPart::Text(text)) => text,
                _ => "",
            },
            _ => "",
        }
    }

    /// Every slot, in the order of the command line.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.items.iter().flat_map(|item| {
            let (word, redirected) = match item {
                CommandItem::Word(word) => (Some(word), None),
                CommandItem::Redirect(_, StreamTarget::Slot(slot)) => (None, Some(slot)),
                CommandItem::Redirect(_, StreamTarget::File(_)) => (None, None),
            };
            word.into_iter().flat_map(Word::slots).chain(redirected)
        })
    }

    /// The words that [`parse`](mod@parse) makes this template of.
    pub fn to_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for item in &self.items {
            match item {
                CommandItem::Word(word) => words.push(word.to_string()),
                CommandItem::Redirect(stream, target) => {
                    words.push(stream.operator().to_owned());
                    words.push(match target {
                        StreamTarget::File(name) => escape::escaped(name, ""),
                        StreamTarget::Slot(slot) => slot.to_string(),
                    });
                }
            }
        }
        words
    }
}

impl Word {
    /// A word without slots.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { parts: if text.is_empty() { Vec::new() } else { vec![WordPart::Text(text)] } }
    }

    /// Its slots.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Slot(slot) => Some(slot),
            WordPart::Text(_) => None,
        })
    }

    /// Its text, if it has no slots.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [WordPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // From the right, because whether a bracket needs an escape depends on what follows it.
        let mut rendered = String::new();
        for part in self.parts.iter().rev() {
            let piece = match part {
                WordPart::Text(text) => escape::escaped(text, &rendered),
                WordPart::Slot(slot) => slot.to_string(),
            };
            rendered.insert_str(0, &piece);
        }
        f.write_str(&rendered)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{} {} {}:{}{}]",
            self.direction.name(),
            self.passing.name(),
            self.name,
            self.data_type.name(),
            if self.trim { " trim" } else { "" },
        )
    }
}

#[cfg(test)]
mod tests;
