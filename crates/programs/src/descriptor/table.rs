//! Tables of a file in TOML: typed access that reports what is of another type, and afterwards the
//! keys that nobody asked for.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use fishplate_contract::lexical::closest;

use super::diagnostic::{DiagnosticReport, SourceText};
use super::text::SpannedText;

/// A table being read.
#[derive(Debug)]
pub struct Table<'t> {
    /// As messages name it: `[limits]`, `the service file`.
    pub name: String,
    /// Where it is named, for what is missing in it.
    pub span: Range<usize>,
    entries: &'t DeTable<'t>,
    asked: Vec<&'static str>,
    homes: &'static [(&'static str, &'static [&'static str])],
}

/// The tables of a file; every mistake of syntax is reported, and gives `None`.
pub fn parse<'s>(
    source: &'s SourceText,
    report: &mut DiagnosticReport<'_>,
) -> Option<Spanned<DeTable<'s>>> {
    let (root, errors) = DeTable::parse_recoverable(&source.text);
    let mut line_before = 0;
    let mut errors: Vec<_> = errors
        .into_iter()
        .map(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))
        .collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, message) in errors {
        // What else the parser says of the same line follows from the first.
        let (line, _) = source.position(span.start);
        if line != line_before {
            let hint = message.contains("escape").then(|| {
                "between double quotes a backslash begins an escape: write \\\\, or put the text \
                 between single quotes"
                    .to_owned()
            });
            report.error(span, message).maybe_hint(hint);
        }
        line_before = line;
    }
    // What follows from a syntax error would hide it.
    (!report.has_errors()).then_some(root)
}

/// Keys of a service file that people put into the wrong table, and the table that has them; empty: the top.
const HOMES: [(&str, &[&str]); 6] = [
    (
        "",
        &[
            "name",
            "title",
            "namespace",
            "documentation",
            "command",
            "stage",
            "environment",
            "modules",
            "container",
            "max_running",
        ],
    ),
    (
        "limits",
        &["wall_time", "memory", "cores", "output_size", "log_size", "value_size", "kill_grace"],
    ),
    ("exit", &["success", "meaning"]),
    ("failure", &["log"]),
    ("progress", &["pattern", "stream"]),
    ("ranks", &["max", "limits"]),
];

impl<'t> Table<'t> {
    /// All of a file, under a name for messages.
    pub fn root(entries: &'t DeTable<'t>, name: &str) -> Self {
        Self { name: name.to_owned(), span: 0..0, entries, asked: Vec::new(), homes: &[] }
    }

    /// All of a service file.
    pub(super) fn of_service(entries: &'t DeTable<'t>) -> Self {
        Self { homes: &HOMES, ..Self::root(entries, "the service file") }
    }

    /// The value of a key.
    pub fn get(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked.push(key);
        self.entries.get(key)
    }

    /// Where a key stands.
    pub fn key_span(&self, key: &str) -> Option<Range<usize>> {
        self.entries.get_key_value(key).map(|(key, _)| key.span())
    }

    /// A string.
    pub fn string(
        &mut self,
        key: &'static str,
        report: &mut DiagnosticReport<'_>,
    ) -> Option<SpannedText> {
        let value = self.get(key)?;
        let text = as_text(value);
        if text.is_none() {
            wrong_type(report, &format!("`{key}`"), "a string", value);
        }
        text
    }

    pub(super) fn boolean(
        &mut self,
        key: &'static str,
        report: &mut DiagnosticReport<'_>,
    ) -> Option<(bool, Range<usize>)> {
        let value = self.get(key)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            wrong_type(report, &format!("`{key}`"), "`true` or `false`", value);
        }
        Some((boolean?, value.span()))
    }

    /// A whole number of at least 1.
    pub fn count(
        &mut self,
        key: &'static str,
        report: &mut DiagnosticReport<'_>,
    ) -> Option<(u32, Range<usize>)> {
        let value = self.get(key)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|number| *number > 0);
        if number.is_none() {
            if value.get_ref().is_integer() {
                report.error(value.span(), format!("`{key}` is a whole number from 1 upwards"));
            } else {
                wrong_type(report, &format!("`{key}`"), "a whole number", value);
            }
        }
        Some((number?, value.span()))
    }

    /// A list of strings.
    pub fn strings(
        &mut self,
        key: &'static str,
        report: &mut DiagnosticReport<'_>,
    ) -> Vec<SpannedText> {
        let mut texts = Vec::new();
        for value in self.list(key, "a list of strings", report) {
            match as_text(value) {
                Some(text) => texts.push(text),
                None => wrong_type(report, &format!("an item of `{key}`"), "a string", value),
            }
        }
        texts
    }

    /// A list; `right` says what it should be.
    pub fn list(
        &mut self,
        key: &'static str,
        right: &str,
        report: &mut DiagnosticReport<'_>,
    ) -> &'t [Spanned<DeValue<'t>>] {
        let Some(value) = self.get(key) else { return &[] };
        match value.get_ref().as_array() {
            Some(items) => items,
            None => {
                wrong_type(report, &format!("`{key}`"), right, value);
                &[]
            }
        }
    }

    /// A table within this one.
    pub fn table(&mut self, key: &'static str, report: &mut DiagnosticReport<'_>) -> Option<Self> {
        let value = self.get(key)?;
        let span = self.key_span(key).unwrap_or(0..0);
        let table = as_table(value, span, self.nested(key));
        if table.is_none() {
            wrong_type(report, &format!("`{key}`"), "a table", value);
        }
        table
    }

    /// The entries of a table whose keys are names, in the order of the file.
    pub fn named(
        &mut self,
        key: &'static str,
        report: &mut DiagnosticReport<'_>,
    ) -> Vec<(SpannedText, &'t Spanned<DeValue<'t>>)> {
        let Some(mut table) = self.table(key, report) else { return Vec::new() };
        table.all()
    }

    /// All entries, in the order of the file.
    pub fn all(&mut self) -> Vec<(SpannedText, &'t Spanned<DeValue<'t>>)> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| {
                (SpannedText { value: key.get_ref().to_string(), span: key.span() }, value)
            })
            .collect();
        entries.sort_by_key(|(key, _)| key.span.start);
        entries
    }

    /// How messages name a table within this one.
    pub(super) fn nested(&self, key: &str) -> String {
        match self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => format!("[{name}.{key}]"),
            None => format!("[{key}]"),
        }
    }

    /// Reports the keys that nobody asked for.
    pub fn finish(mut self, report: &mut DiagnosticReport<'_>) {
        for (key, _) in self.all() {
            if self.asked.contains(&key.value.as_str()) {
                continue;
            }
            let hint = self.right_key(&key.value);
            report
                .error(key.span, format!("{} has no key `{}`", self.name, key.value))
                .maybe_hint(hint);
        }
    }

    fn right_key(&self, key: &str) -> Option<String> {
        if let Some(near) = closest(key, self.asked.iter().copied()) {
            return Some(format!("`{near}` is one"));
        }
        let home = self.homes.iter().find(|(_, keys)| keys.contains(&key)).map(|(home, _)| *home);
        match home {
            Some("") => Some(format!("`{key}` stands at the top, before the first [table]")),
            Some(home) => Some(format!("`{key}` stands in [{home}]")),
            None if self.asked.len() <= 12 => Some(format!("it knows {}", self.asked.join(", "))),
            None => None,
        }
    }
}

/// A value as a table, under a name for messages.
pub(super) fn as_table<'t>(
    value: &'t Spanned<DeValue<'t>>,
    span: Range<usize>,
    name: String,
) -> Option<Table<'t>> {
    let entries = value.get_ref().as_table()?;
    Some(Table { name, span, entries, asked: Vec::new(), homes: &HOMES })
}

/// A value as a string.
pub fn as_text(value: &Spanned<DeValue<'_>>) -> Option<SpannedText> {
    let text = value.get_ref().as_str()?;
    Some(SpannedText { value: text.to_owned(), span: value.span() })
}

/// A string, number or boolean as the text that a caller would send for it.
pub fn as_lexical(value: &Spanned<DeValue<'_>>) -> Option<SpannedText> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(boolean) => boolean.to_string(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string()
        }
        DeValue::Float(number) => match number.as_str() {
            "inf" | "+inf" => "INF".to_owned(),
            "-inf" => "-INF".to_owned(),
            "nan" | "+nan" | "-nan" => "NaN".to_owned(),
            text => text.to_owned(),
        },
        _ => return None,
    };
    Some(SpannedText { value: text, span: value.span() })
}

/// Reports a value that is of another type.
pub fn wrong_type(
    report: &mut DiagnosticReport<'_>,
    what: &str,
    right: &str,
    value: &Spanned<DeValue<'_>>,
) {
    let found = match value.get_ref().type_str() {
        kind @ ("integer" | "array") => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    report.error(value.span(), format!("{what} is {right}, not {found}")).label(found);
}
