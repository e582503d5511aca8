//! One string as words, quoted as for a POSIX shell (XCU 2.2), with the place of every byte. The
//! same words as `shell_words::split` gives, which knows no places; that they agree is tested.
//! Beyond it, a slot needs no quotes although it has spaces in it.

use std::ops::Range;

use super::escape::{SlotEnd, begins_slot, end_of_slot};

/// A word and where it comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocatedWord {
    /// The word, quotes removed.
    pub text: String,
    /// For every byte of `text` its offset in the line; one more for the word's end.
    pub offsets: Vec<usize>,
}

/// A quote that has no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quote has no end")]
pub struct OpenQuote {
    /// From the quote to the end of the line.
    pub span: Range<usize>,
}

impl LocatedWord {
    fn push(&mut self, offset: usize, c: char) {
        self.text.push(c);
        self.offsets.extend(offset..offset + c.len_utf8());
    }
}

/// Splits a line into words.
///
/// # Errors
/// [`OpenQuote`] if a quote has no end.
pub fn split(line: &str) -> Result<Vec<LocatedWord>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<LocatedWord> = None;
    let mut rest = line.char_indices().peekable();
    while let Some((offset, c)) = rest.next() {
        match c {
            ' ' | '\t' | '\n' => finish(&mut words, &mut word, offset),
            '#' if word.is_none() => while rest.next_if(|(_, c)| *c != '\n').is_some() {},
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some((_, '\'')) => break,
                        Some((offset, c)) => word.push(offset, c),
                        None => return Err(OpenQuote { span: offset..line.len() }),
                    }
                }
            }
            '"' => double_quoted(word.get_or_insert_default(), &mut rest)
                .ok_or(OpenQuote { span: offset..line.len() })?,
            '\\' => match rest.next() {
                // A line that goes on; it ends no word and begins none.
                Some((_, '\n')) => {}
                Some((offset, c)) => word.get_or_insert_default().push(offset, c),
                None => word.get_or_insert_default().push(offset, '\\'),
            },
            '[' => {
                let word = word.get_or_insert_default();
                word.push(offset, c);
                let after = &line[offset + 1..];
                let end = if begins_slot(after) { end_of_slot(after) } else { UNKNOWN };
                if let SlotEnd::Closed(length) | SlotEnd::Broken(length) = end {
                    let end = offset + 1 + length;
                    while let Some((offset, c)) = rest.next_if(|(offset, _)| *offset < end) {
                        word.push(offset, c);
                    }
                }
            }
            _ => word.get_or_insert_default().push(offset, c),
        }
    }
    finish(&mut words, &mut word, line.len());
    Ok(words)
}

/// What is no slot ends as any word.
const UNKNOWN: SlotEnd = SlotEnd::Open { in_type: false };

fn finish(words: &mut Vec<LocatedWord>, word: &mut Option<LocatedWord>, end: usize) {
    if let Some(mut word) = word.take() {
        word.offsets.push(end);
        words.push(word);
    }
}

fn double_quoted(
    word: &mut LocatedWord,
    rest: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
) -> Option<()> {
    loop {
        match rest.next()? {
            (_, '"') => return Some(()),
            (offset, '\\') => match rest.next()? {
                (_, '\n') => {}
                (offset, c @ ('$' | '`' | '"' | '\\')) => word.push(offset, c),
                (next, c) => {
                    word.push(offset, '\\');
                    word.push(next, c);
                }
            },
            (offset, c) => word.push(offset, c),
        }
    }
}
