//! The file of a domain: which services, how many ranks of each, with which arguments. In TOML, or in XML ([`mpfl`]).

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fishplate_client::arguments::{ArgumentWord, WordError, without_files};
use fishplate_programs::descriptor::table::{self, Table, wrong_type};
use fishplate_programs::descriptor::{DiagnosticReport, SourceText};

use super::mpfl;
use crate::output::diagnostics::Mistakes;
use crate::output::failure::UsageError;

pub(super) use fishplate_programs::descriptor::text::SpannedText;

/// Some ranks, as the file has them.
#[derive(Clone, Debug)]
pub(crate) struct DomainPart {
    /// Their service.
    pub(crate) service: ServiceChoice,
    /// Which operation, if it has several.
    pub(crate) operation: Option<String>,
    /// How many.
    pub(crate) ranks: u32,
    /// What each of them is given.
    pub(crate) inputs: Vec<ArgumentWord>,
}

/// Which service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceChoice {
    /// The one at this URL.
    Url(String),
    /// The first on these servers that has an interface and can be a rank.
    Interface {
        /// As for `fishplate find`.
        wanted: String,
        /// In this order.
        servers: Vec<String>,
    },
}

/// Some ranks as one of the two forms has them, before they are checked.
#[derive(Debug)]
pub(super) struct InstancesEntry {
    /// What it is called there.
    name: &'static str,
    span: Range<usize>,
    pub(super) service: Option<SpannedText>,
    pub(super) interface: Option<SpannedText>,
    pub(super) servers: Vec<SpannedText>,
    /// Above zero.
    pub(super) ranks: Option<u32>,
    /// It stands there, but is wrong, which was told.
    has_bad_ranks: bool,
    pub(super) operation: Option<SpannedText>,
    pub(super) arguments: Vec<SpannedText>,
}

impl InstancesEntry {
    pub(super) fn new(name: &'static str, span: Range<usize>) -> Self {
        Self {
            name,
            span,
            service: None,
            interface: None,
            servers: Vec::new(),
            ranks: None,
            has_bad_ranks: false,
            operation: None,
            arguments: Vec::new(),
        }
    }
}

/// Reads it: XML (MPFL) if it begins with a tag, else TOML.
///
/// # Errors
/// It can't be read; [`Mistakes`].
pub(super) fn read(path: &Path) -> Result<Vec<DomainPart>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let source = SourceText { name: path.display().to_string(), text };
    let mut report = DiagnosticReport::new(&source.text);
    let parts = parts(&source, &mut report);
    let diagnostics = report.finish();
    Mistakes::rejected(source, diagnostics)?;
    Ok(parts)
}

/// Has every file that the parts name be one of a directory: who wrote them may read no other.
///
/// # Errors
/// [`UsageError`]: which file is none of it.
pub(super) fn confine(parts: &mut [DomainPart], directory: &Path) -> Result<()> {
    let directory = directory.canonicalize()?;
    let inside = |path: &Path| -> Result<PathBuf> {
        let found = directory.join(path).canonicalize().ok();
        let found = found.filter(|found| found.starts_with(&directory));
        let what = || UsageError(format!("{}: it is no file of the inputs", path.display()));
        Ok(found.ok_or_else(what)?)
    };
    for part in parts {
        for input in &mut part.inputs {
            if let ArgumentWord::File { path, .. } | ArgumentWord::Offer { path, .. } = input {
                *path = inside(path)?;
            }
        }
        if let ServiceChoice::Interface { wanted, .. } = &mut part.service
            && !wanted.contains("://")
            && wanted.contains(['/', '.'])
        {
            *wanted = inside(Path::new(wanted))?.display().to_string();
        }
    }
    Ok(())
}

fn parts(source: &SourceText, report: &mut DiagnosticReport<'_>) -> Vec<DomainPart> {
    let entries = if mpfl::is_xml(&source.text) {
        mpfl::read(&source.text, report)
    } else {
        toml_entries(source, report)
    };
    if entries.is_empty() && !report.has_errors() {
        report
            .error(0..0, "the domain has no ranks: there are no [[instances]]")
            .hint("[[instances]] with service = \"http://somewhere.com/moldyn\" and ranks = 2");
    }
    entries.into_iter().filter_map(|entry| checked(entry, report)).collect()
}

fn toml_entries(source: &SourceText, report: &mut DiagnosticReport<'_>) -> Vec<InstancesEntry> {
    let mut entries = Vec::new();
    let Some(parsed) = table::parse(source, report) else { return entries };
    let mut root = Table::root(parsed.get_ref(), "the file of a domain");
    for item in root.list("instances", "a list of tables", report) {
        let Some(of) = item.get_ref().as_table() else {
            wrong_type(report, "an item of `instances`", "a table", item);
            continue;
        };
        let mut table = Table::root(of, "[[instances]]");
        table.span = item.span();
        let mut entry = InstancesEntry::new("[[instances]]", item.span());
        entry.service = table.string("service", report);
        entry.interface = table.string("interface", report);
        entry.servers = table.strings("servers", report);
        entry.ranks = table.count("ranks", report).map(|(ranks, _)| ranks);
        entry.has_bad_ranks = entry.ranks.is_none() && table.key_span("ranks").is_some();
        entry.operation = table.string("operation", report);
        entry.arguments = table.strings("arguments", report);
        table.finish(report);
        entries.push(entry);
    }
    root.finish(report);
    entries
}

fn checked(entry: InstancesEntry, report: &mut DiagnosticReport<'_>) -> Option<DomainPart> {
    let (name, span) = (entry.name, entry.span);
    if entry.ranks.is_none() && !entry.has_bad_ranks {
        report.error(span.clone(), format!("{name} has no `ranks`: how many there are"));
    }
    let servers: Vec<String> = entry.servers.into_iter().map(|server| server.value).collect();
    let service = match (entry.service, entry.interface) {
        (Some(service), None) if servers.is_empty() => Some(ServiceChoice::Url(service.value)),
        (None, Some(wanted)) if !servers.is_empty() => {
            Some(ServiceChoice::Interface { wanted: wanted.value, servers })
        }
        (None, None) if servers.is_empty() => {
            report
                .error(span, format!("{name} has no `service`: the URL of a service"))
                .hint("or an `interface` and the servers on which it is looked for");
            None
        }
        _ => {
            let what = format!("{name} has either a `service`, or an `interface` and servers");
            report.error(span, what);
            None
        }
    };
    let mut inputs = Vec::new();
    for word in entry.arguments {
        match input(&word.value) {
            Ok(read) => inputs.extend(read),
            Err(error) => {
                report.error(word.span, error.to_string()).hint(
                    "write arguments as for `fishplate call`: [\"x=1\", \"y:FILE\"]; --results gets the outputs",
                );
            }
        }
    }
    let operation = entry.operation.map(|name| name.value);
    Some(DomainPart { service: service?, operation, ranks: entry.ranks?, inputs })
}

/// An input as it is typed for `fishplate call`.
fn input(word: &str) -> Result<Vec<ArgumentWord>, WordError> {
    let (inputs, outputs) = without_files(&[word.to_owned()])?;
    match outputs.into_iter().next() {
        Some(output) => Err(WordError::OutOfSpawn(output.name)),
        None => Ok(inputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<DomainPart>, Vec<String>) {
        let source = SourceText { name: "d".to_owned(), text: text.to_owned() };
        let mut report = DiagnosticReport::new(&source.text);
        let parts = parts(&source, &mut report);
        let diagnostics = report.finish();
        for of in &diagnostics {
            assert!(text.get(of.span.clone()).is_some(), "{of:?}");
        }
        (parts, diagnostics.iter().map(|it| it.line(&source)).collect())
    }

    const TOML: &str = "[[instances]]\nservice = 'http://a/s'\nranks = 2\narguments = ['x=1', 'y=a<b']\n\
                        [[instances]]\ninterface = 'moldyn'\nservers = ['http://b', 'http://c']\nranks = 1\noperation = 'solve'\n";
    const XML: &str = "<?xml version='1.0'?>\n<domain xmlns='urn:fishplate:mpfl:1'>\n\
                       <instances service='http://a/s' ranks='2'>\n<argument>x=1</argument><argument>y=a&lt;b</argument></instances>\n\
                       <m:instances xmlns:m='urn:fishplate:mpfl:1' interface='moldyn' ranks='1' operation='solve'>\n\
                       <m:server>http://b</m:server><!-- first --><m:server>http://c</m:server></m:instances></domain>\n";

    #[test]
    fn both_forms_say_the_same() {
        let shown = |text: &str| {
            let (parts, said) = read_text(text);
            assert_eq!(said, [""; 0], "{text}");
            format!("{parts:?}")
        };
        assert_eq!(shown(XML), shown(TOML));
        let (parts, _) = read_text(XML);
        assert_eq!(parts[0].service, ServiceChoice::Url("http://a/s".to_owned()));
        assert_eq!((parts[0].ranks, parts[0].inputs.len()), (2, 2));
        let servers = vec!["http://b".to_owned(), "http://c".to_owned()];
        let wanted = "moldyn".to_owned();
        assert_eq!(parts[1].service, ServiceChoice::Interface { wanted, servers });
        assert_eq!((parts[1].ranks, parts[1].operation.as_deref()), (1, Some("solve")));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let domain =
            |inside: &str| format!("<domain xmlns='{}'>\n{inside}</domain>", mpfl::NAMESPACE);
        let deep = "<domain>".repeat(10_000);
        for (text, expected) in [
            ("", "d:1:1: error: the domain has no ranks"),
            ("[[instances]]\nranks = 1\n", "d:1:1: error: [[instances]] has no `service`"),
            ("[[instances]]\nservice = 'u'\n", "d:1:1: error: [[instances]] has no `ranks`"),
            (
                "[[instances]]\nservice = 'u'\nranks = 0\n",
                "d:3:9: error: `ranks` is a whole number from 1",
            ),
            (
                "[[instances]]\nservice = 'u'\nranks = 1\nrank = 2\n",
                "d:4:1: error: [[instances]] has no key `rank`",
            ),
            (
                "[[instances]]\nservice = 'u'\nranks = 1\narguments = ['out:x=y']\n",
                "d:4:14: error: ",
            ),
            (
                "[[instances]]\nservice = 'u'\nranks = 1\nservers = ['http://a']\n",
                "d:1:1: error: [[instances]] has either a `service`, or an `interface`",
            ),
            ("instances = 3", "d:1:13: error: `instances` is a list of tables"),
            ("<domain/>", "d:1:1: error: <domain> has no place here: the file of a domain is"),
            (&domain(""), "d:1:1: error: the domain has no ranks"),
            (&domain("<rank/>"), "d:2:1: error: <rank> has no place here: in <domain>"),
            (&domain(" <instances ranks='1'/>"), "d:2:2: error: <instances> has no `service`"),
            (&domain("<instances service='u'/>"), "d:2:1: error: <instances> has no `ranks`"),
            (&domain("<instances service='u' ranks='0'/>"), "d:2:1: error: `ranks` is a whole"),
            (&domain("<instances rank='1'/>"), "d:2:1: error: <instances> has no attribute `rank`"),
            (&domain("<instances>\n2</instances>"), "d:3:1: error: text stands in"),
            (&domain("<instances>\n<argument><b/>"), "d:3:11: error: <b> has no place here"),
            (&domain("</instances>"), "d:2:12: error: the message is not well-formed XML"),
            ("<!DOCTYPE domain [<!ENTITY a 'b'>]><domain/>", "d:1:"),
            (
                &domain("<instances service='u' ranks='1'><argument>=x</argument></instances>"),
                "d:2:34: error: the argument \"=x\" names no parameter",
            ),
            (&domain("&a;"), "d:2:3: error: the message holds a reference to an entity"),
            (&deep, "d:1:1: error: <domain> has no place here"),
        ] {
            let (_, said) = read_text(text);
            assert!(said.len() == 1 && said[0].starts_with(expected), "{text}: {said:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_domain_or_says_what_is_wrong(
            cuts in proptest::collection::vec((0..XML.len(), "[<>/a-z='&;! ]{0,3}"), 0..3),
        ) {
            let mut text = XML.to_owned();
            for (at, put) in cuts {
                text.insert_str(at.min(text.len()), &put);
            }
            let (parts, said) = read_text(&text);
            proptest::prop_assert!(parts.len() == 2 || !said.is_empty(), "{}", text);
        }
    }
}
