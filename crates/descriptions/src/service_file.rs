//! A service file while it is written: the reader of such files says whether it is right.

use std::collections::BTreeMap;
use std::path::Path;

use fishplate_programs::descriptor::{Severity, SourceText, check_text};
use fishplate_programs::template::Template;
use toml::Value;

use crate::report::{Gaps, Imported};

/// The keys of a table, in their order.
pub(crate) type Keys = Vec<(&'static str, Value)>;

/// What stands in a service file.
#[derive(Debug, Default)]
pub(crate) struct ServiceFile {
    /// Where it comes from, for people.
    pub(crate) origin: &'static str,
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) documentation: String,
    pub(crate) template: Template,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) inputs: Vec<(String, Keys)>,
    pub(crate) outputs: Vec<(String, Keys)>,
    pub(crate) groups: Vec<(String, Keys)>,
    pub(crate) success: Vec<i32>,
    pub(crate) meanings: BTreeMap<i32, String>,
    /// In seconds.
    pub(crate) wall_time: Option<u64>,
}

impl ServiceFile {
    /// The file, checked.
    pub(crate) fn finish(self, mut gaps: Gaps, renamed: BTreeMap<String, String>) -> Imported {
        let text = self.render(&gaps);
        let source = SourceText { name: format!("{}.toml", self.name), text };
        if !gaps.fatal {
            let checked = check_text(&source, Path::new("/"));
            let mistakes = checked.diagnostics.iter();
            for mistake in mistakes.filter(|it| it.severity == Severity::Error) {
                let at = source.text.get(mistake.span.clone()).unwrap_or_default();
                gaps.fatal(at, mistake.message.clone());
            }
        }
        let service_file = (!gaps.fatal).then_some(source.text);
        Imported { name: self.name, service_file, gaps: gaps.list, renamed }
    }

    fn render(&self, gaps: &Gaps) -> String {
        let mut text = format!("# From {}, by `fishplate import`.\n", self.origin);
        for gap in &gaps.list {
            let what = if gap.lost { "Not said" } else { "Left out" };
            let line = format!("{what}: {}: {}", gap.field, gap.reason);
            text.push_str(&format!("# {}\n", crate::field::one_line(&line)));
        }
        text.push('\n');
        push_key(&mut text, "name", &self.name.as_str().into());
        for (key, value) in [("title", &self.title), ("documentation", &self.documentation)] {
            if !value.trim().is_empty() {
                push_key(&mut text, key, &value.trim().into());
            }
        }
        text.push_str("command = [\n");
        for word in self.template.to_words() {
            text.push_str(&format!("    {},\n", Value::from(word)));
        }
        text.push_str("]\n");
        let environment: toml::Table = self
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        if !environment.is_empty() {
            push_key(&mut text, "environment", &Value::Table(environment));
        }
        for (side, tables) in
            [("input", &self.inputs), ("output", &self.outputs), ("group", &self.groups)]
        {
            for (name, keys) in tables.iter().filter(|(_, keys)| !keys.is_empty()) {
                text.push_str(&format!("\n[{side}.{}]\n", quoted_key(name)));
                keys.iter().for_each(|(key, value)| push_key(&mut text, key, value));
            }
        }
        self.render_end(&mut text);
        text
    }

    fn render_end(&self, text: &mut String) {
        if !self.success.is_empty() || !self.meanings.is_empty() {
            text.push_str("\n[exit]\n");
        }
        if !self.success.is_empty() {
            let codes: Vec<i64> = self.success.iter().copied().map(i64::from).collect();
            push_key(text, "success", &codes.into());
        }
        if !self.meanings.is_empty() {
            let named =
                self.meanings.iter().map(|(code, text)| (code.to_string(), text.as_str().into()));
            push_key(text, "meaning", &Value::Table(named.collect()));
        }
        if let Some(seconds) = self.wall_time {
            text.push_str(&format!("\n[limits]\nwall_time = \"{seconds}s\"\n"));
        }
    }
}

fn push_key(text: &mut String, key: &str, value: &Value) {
    text.push_str(&format!("{key} = {value}\n"));
}

/// A key as it stands in a table's head: names have dots too.
fn quoted_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.chars().all(bare) { name.to_owned() } else { format!("\"{name}\"") }
}
