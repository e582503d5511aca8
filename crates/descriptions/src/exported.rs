//! What both exports make of a service: the words of `fishplate call` that it is, and names of its parameters.

use std::collections::BTreeSet;

use fishplate_contract::{DataType, Parameter, Signature};
use serde_json::{Map, Value};

use crate::names::distinct;

/// An operation of a service, to be called by a description of it.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'s> {
    /// Where the service is.
    pub url: &'s str,
    /// What callers call; `None`: the service has no other.
    pub operation: Option<&'s str>,
    /// The service's title.
    pub title: &'s str,
    /// What it does.
    pub documentation: &'s str,
    /// What it takes and gives.
    pub signature: &'s Signature,
}

/// Parameters with what a description calls them.
pub(crate) type Named<'s> = Vec<(String, &'s Parameter)>;

impl<'s> Exported<'s> {
    /// The words behind `fishplate call` that stand before all parameters.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'s str> {
        let operation = self.operation.into_iter().flat_map(|verb| ["--operation", verb]);
        std::iter::once(self.url).chain(operation)
    }

    /// Inputs and outputs, each with a name of its own among all, as a language spells it. The output of an `in out` parameter
    /// is `NAME_out`.
    pub(crate) fn named(&self, spell: impl Fn(&str) -> String) -> (Named<'s>, Named<'s>) {
        let Signature { inputs, outputs } = self.signature;
        let mut taken = BTreeSet::new();
        let mut name = |wish: &str| distinct(&mut taken, &spell(wish));
        let named = inputs.iter().map(|it| (name(&it.name), it)).collect();
        let wish = |it: &Parameter| match self.signature.input(&it.name) {
            Some(_) => format!("{}_out", it.name),
            None => it.name.clone(),
        };
        (named, outputs.iter().map(|it| (name(&wish(it)), it)).collect())
    }
}

/// The word that says where an output is written.
pub(crate) fn output_word(parameter: &Parameter) -> String {
    format!("out:{}={}", parameter.name, place(parameter))
}

/// What stands in front of a value: `x=` of a text, `x:` of a file.
pub(crate) fn lead(parameter: &Parameter) -> String {
    let sign = if in_file(parameter) { ':' } else { '=' };
    format!("{}{sign}", parameter.name)
}

/// It comes and goes as a file, or a directory.
pub(crate) fn in_file(parameter: &Parameter) -> bool {
    parameter.data_type.is_binary() || parameter.data_type.as_array().is_some()
}

/// Where an output is written: a file called after it, or a directory for several. (A directory around them would have to be there.)
pub(crate) fn place(parameter: &Parameter) -> String {
    let ends = if is_directory(parameter) { "/" } else { "" };
    format!("output.{}{ends}", parameter.name)
}

/// It is written as a directory: one that it is, or one that has several files.
pub(crate) fn is_directory(parameter: &Parameter) -> bool {
    parameter.repeated || parameter.data_type == DataType::Dir
}

/// Adds the help, with what else a caller should know, if there is any.
pub(crate) fn describe(described: &mut Map<String, Value>, member: &str, parameter: &Parameter) {
    let about = about(parameter);
    if !about.is_empty() {
        described.insert(member.to_owned(), about.into());
    }
}

fn about(parameter: &Parameter) -> String {
    let mut about = parameter.help.trim().to_owned();
    let mut add = |text: String| {
        about = if about.is_empty() { text } else { format!("{about} ({text})") };
    };
    if !parameter.unit.is_empty() {
        add(format!("in {}", parameter.unit));
    }
    if parameter.data_type.as_array().is_some() {
        add(format!("an array {}", parameter.data_type.name()));
    }
    if let Some(default) = &parameter.default {
        add(format!("default {default}"));
    }
    about
}
