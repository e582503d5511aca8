//! One word of the command line with its values: itself with its prefix, one for each value of a list, or
//! none.

use std::borrow::Cow;

use fishplate_contract::lexical::trimmed;
use fishplate_contract::{Fault, FaultCode};

use super::command_line;
use super::fill::AcceptedValue;
use crate::descriptor::{Input, Invocation, ListForm};
use crate::template::{ArgumentPassing, Slot, Word, WordPart};

pub(super) struct FillValues<'v> {
    pub(super) invocation: &'v Invocation,
    pub(super) accepted: &'v [AcceptedValue],
}

impl FillValues<'_> {
    fn of(&self, slot: &Slot) -> Option<(&Input, &AcceptedValue)> {
        let inputs = self.invocation.inputs.iter().zip(self.accepted);
        inputs.into_iter().find(|(input, _)| input.parameter.name == slot.name)
    }

    /// The words that a word becomes.
    pub(super) fn words(&self, word: &Word) -> Result<Vec<String>, Fault> {
        let mut taken = word.slots().filter(|slot| slot.direction.takes());
        let Some((input, value)) = taken.next().and_then(|slot| self.of(slot)) else {
            return Ok(one_word(word, |slot| self.text(slot))?.into_iter().collect());
        };
        if !input.flag.is_empty() {
            return Ok(if is_true(value) { input.flag.clone() } else { Vec::new() });
        }
        let Some(form) = &input.list else {
            let text = one_word(word, |slot| self.text(slot))?;
            // One word may have several slots, but then none of them has a prefix.
            return Ok(text.map_or(Vec::new(), |text| prefixed(input, text)));
        };
        let texts = self.texts(input, value);
        match form {
            _ if texts.is_empty() => Ok(Vec::new()),
            ListForm::Joined(separator) => {
                reject_separator(input, separator, &texts)?;
                let joined = texts.join(separator);
                if texts[0].trim_start().is_empty() && joined.trim_start().starts_with('-') {
                    let name = &input.parameter.name;
                    let what = format!(
                        "the first value of parameter {name} is empty, so that the program would take the list for an option"
                    );
                    return Err(Fault::new(FaultCode::InvalidValue, what).parameter(name));
                }
                let text = one_word(word, |_| Some(Cow::Borrowed(joined.as_str())))?;
                Ok(text.map_or(Vec::new(), |text| prefixed(input, text)))
            }
            ListForm::Words | ListForm::Prefixed => {
                let mut words = Vec::new();
                for (index, text) in texts.iter().enumerate() {
                    let text = one_word(word, |_| Some(Cow::Borrowed(text.as_str())))?;
                    let leads = index == 0 || *form == ListForm::Prefixed;
                    match text {
                        Some(text) if leads => words.extend(prefixed(input, text)),
                        text => words.extend(text),
                    }
                }
                Ok(words)
            }
        }
    }

    /// The texts that the values of a list become.
    fn texts(&self, input: &Input, value: &AcceptedValue) -> Vec<String> {
        let AcceptedValue::Several(values) = value else { return Vec::new() };
        let text = |(index, value): (usize, &AcceptedValue)| match value {
            AcceptedValue::Text(text) if input.filename.is_none() => Some(text.clone()),
            _ => input.file(index + 1),
        };
        values.iter().enumerate().filter_map(text).collect()
    }

    /// The text that a slot becomes; `None` leaves out its word.
    fn text(&self, slot: &Slot) -> Option<Cow<'_, str>> {
        if slot.passing == ArgumentPassing::File {
            return self.files(slot)?.into_iter().next().map(Cow::Owned);
        }
        match self.of(slot)?.1 {
            AcceptedValue::Text(text) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    /// The files of a slot that is passed by file, or that a stream is connected with.
    pub(super) fn files(&self, slot: &Slot) -> Option<Vec<String>> {
        if !slot.direction.takes() {
            return Some(vec![self.invocation.output_file(&slot.name)?.to_owned()]);
        }
        let (input, value) = self.of(slot)?;
        match value {
            AcceptedValue::Absent => None,
            AcceptedValue::Several(_) => Some(self.texts(input, value)),
            _ => Some(vec![input.file(1)?]),
        }
    }
}

/// Whether a value is a truth value that holds.
fn is_true(value: &AcceptedValue) -> bool {
    matches!(value, AcceptedValue::Text(text) if matches!(text.as_str(), "true" | "1"))
}

/// A word behind the prefix of its input.
fn prefixed(input: &Input, text: String) -> Vec<String> {
    input.prefix.iter().cloned().chain([text]).collect()
}

/// A value that holds the separator would become two.
fn reject_separator(input: &Input, separator: &str, texts: &[String]) -> Result<(), Fault> {
    if separator.is_empty() || !texts.iter().any(|text| text.contains(separator)) {
        return Ok(());
    }
    let name = &input.parameter.name;
    let message =
        format!("a value of parameter {name} holds {separator:?}, which stands between values");
    Err(Fault::new(FaultCode::InvalidValue, message).parameter(name))
}

/// The word with the texts of its slots; `None` if one of them has none.
fn one_word<'t>(
    word: &Word,
    text_of: impl Fn(&Slot) -> Option<Cow<'t, str>>,
) -> Result<Option<String>, Fault> {
    let mut text = String::new();
    let (mut led_by_nothing, mut last) = (None, None);
    for part in &word.parts {
        let slot = match part {
            WordPart::Text(literal) => {
                text.push_str(literal);
                continue;
            }
            WordPart::Slot(slot) => slot,
        };
        let Some(value) = text_of(slot) else { return Ok(None) };
        if text.is_empty() && trimmed(&value).is_empty() {
            led_by_nothing = Some(&slot.name);
        }
        command_line::check_word(&slot.name, text.len() + value.len())?;
        text.push_str(&value);
        last = Some(&slot.name);
    }
    if let Some(name) = led_by_nothing.filter(|_| trimmed(&text).starts_with('-')) {
        let message = format!(
            "parameter {name} may not be empty: what follows it begins with '-' and could pass \
             for an option of the program"
        );
        return Err(Fault::new(FaultCode::InvalidValue, message).parameter(name));
    }
    if let Some(name) = last {
        command_line::check_word(name, text.len())?;
    }
    Ok(Some(text))
}
