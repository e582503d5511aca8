//! A domain file in XML, the form of the papers' message passing flow language (MPFL). Neither paper prints its grammar, so elements and
//! attributes are those of the TOML form:
//!
//! ```xml
//! <domain xmlns="urn:fishplate:mpfl:1">
//!   <instances service="http://somewhere.com/moldyn" ranks="2" operation="solve">
//!     <argument>mm=8</argument>
//!   </instances>
//!   <instances interface="moldyn.wsdl" ranks="2">
//!     <server>http://there.com</server>
//!   </instances>
//! </domain>
//! ```
//!
//! It is read by the reader of SOAP messages, with its limits: no DOCTYPE, no entities of its own, bounded depth.

use std::ops::Range;

use fishplate_contract::{Fault, FaultCode};
use fishplate_programs::descriptor::DiagnosticReport;
use fishplate_wire::WireLimits;
use fishplate_wire::xml::{Handler, StartTag, Tokenizer};

use super::file::{InstancesEntry, SpannedText};

/// The namespace of its elements.
pub(super) const NAMESPACE: &str = "urn:fishplate:mpfl:1";

/// Whether a text is XML, by its first character, which no TOML begins with.
pub(super) fn is_xml(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}

/// Reads what stands there; the first mistake ends the reading.
pub(super) fn read(text: &str, report: &mut DiagnosticReport<'_>) -> Vec<InstancesEntry> {
    let mut tokenizer = Tokenizer::new(None, &WireLimits::default());
    let mut reader = Reader::default();
    let mut bytes = [0; 4];
    // One by one, so that the place of each token is known.
    let read = text.char_indices().try_for_each(|(at, one)| {
        reader.at = at;
        if one == '<' {
            reader.tag = at;
        }
        tokenizer.feed(one.encode_utf8(&mut bytes).as_bytes(), &mut reader)
    });
    let read = read.and_then(|()| {
        reader.at = text.len();
        tokenizer.finish(&mut reader)
    });
    if let Err(fault) = read {
        let at = reader.at.min(text.len());
        report.error(reader.refused.unwrap_or(at..at + 1), fault.message);
        return Vec::new();
    }
    reader.entries
}

#[derive(Default)]
struct Reader {
    /// Where the character stands that is being read, and the last `<`.
    at: usize,
    tag: usize,
    depth: usize,
    /// The text of an element whose content is one, and where that begins.
    text: Option<(&'static str, SpannedText)>,
    entries: Vec<InstancesEntry>,
    /// What we refused, rather than the tokenizer.
    refused: Option<Range<usize>>,
}

impl Reader {
    fn refuse(&mut self, what: String) -> Fault {
        self.refused = Some(self.tag..self.at + 1);
        Fault::new(FaultCode::InvalidValue, what)
    }

    fn instances(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        let span = self.tag..self.at + 1;
        let mut entry = InstancesEntry::new("<instances>", span.clone());
        for attribute in tag.attributes {
            let text = || SpannedText { value: attribute.value.to_string(), span: span.clone() };
            match (attribute.namespace, attribute.local) {
                ("", "service") => entry.service = Some(text()),
                ("", "interface") => entry.interface = Some(text()),
                ("", "operation") => entry.operation = Some(text()),
                ("", "ranks") => {
                    let ranks = attribute.value.trim().parse().ok().filter(|ranks| *ranks > 0);
                    let Some(ranks) = ranks else {
                        let what = "`ranks` is a whole number from 1 upwards".to_owned();
                        return Err(self.refuse(what));
                    };
                    entry.ranks = Some(ranks);
                }
                (_, other) => {
                    let what = format!(
                        "<instances> has no attribute `{other}`, but service, interface, ranks, operation"
                    );
                    return Err(self.refuse(what));
                }
            }
        }
        self.entries.push(entry);
        Ok(())
    }
}

impl Handler for Reader {
    fn start(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        let known = match (self.depth, tag.local) {
            _ if tag.namespace != NAMESPACE => false,
            (0, "domain") => true,
            (1, "instances") => {
                self.instances(tag)?;
                true
            }
            (2, "server" | "argument") => {
                let name = if tag.local == "server" { "server" } else { "argument" };
                let text = SpannedText { value: String::new(), span: self.tag..self.at + 1 };
                self.text = Some((name, text));
                true
            }
            _ => false,
        };
        if !known {
            let right = match self.depth {
                0 => "the file of a domain is <domain>",
                1 => "in <domain> there are <instances>",
                2 => "in <instances> there are <server> and <argument>",
                _ => "in <server> and <argument> there is text only",
            };
            let raw = tag.raw;
            let what = format!("<{raw}> has no place here: {right} of the namespace {NAMESPACE}");
            return Err(self.refuse(what));
        }
        self.depth += 1;
        Ok(())
    }

    fn end(&mut self, _: &str) -> Result<(), Fault> {
        self.depth -= 1;
        if let (Some((name, text)), Some(entry)) = (self.text.take(), self.entries.last_mut()) {
            let texts = if name == "server" { &mut entry.servers } else { &mut entry.arguments };
            texts.push(text);
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        match &mut self.text {
            Some((_, of)) => of.value.push_str(text),
            None if text.trim().is_empty() => {}
            None => {
                self.tag = self.at;
                return Err(self.refuse("text stands in <server> and <argument> only".to_owned()));
            }
        }
        Ok(())
    }
}
