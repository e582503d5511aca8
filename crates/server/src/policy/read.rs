//! From a file's text to a policy and everything there is to say about it (`docs/reference/policy.md`).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fishplate_contract::interface::DATA;
use fishplate_contract::lexical::closest;
use fishplate_contract::{Limit, LimitUnit};
use fishplate_formats::units::read_limit;
use fishplate_jobs::store::quota::Quota;
use fishplate_programs::descriptor::diagnostic::DiagnosticReport;
use fishplate_programs::descriptor::table::{self, Table, as_lexical, as_text, wrong_type};
use fishplate_programs::descriptor::text::SpannedText;
use fishplate_programs::descriptor::{Diagnostic, Severity, SourceText};

use super::quotas::{NONE, QuotaRule};
use super::rules::{ANYBODY, AUTHENTICATED, AccessPolicy, Effect, GROUP, Rule, SETS};
use crate::authentication::users::check_name;
use crate::dispatch::authorise::Action;
use crate::providers::session;

/// Members by the group's name, with its `@`.
type Groups = BTreeMap<String, BTreeSet<String>>;

/// What came of a check.
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    /// What was checked.
    pub source: SourceText,
    /// What it says; there unless a diagnostic is an error.
    pub policy: Option<AccessPolicy>,
    /// Everything there is to say, in the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

/// Whether a text in TOML is a policy and not a service: by its tables, though something may be wrong with them.
pub fn is_policy(text: &str) -> bool {
    let begins = |line: &str| {
        let key = line.trim_start_matches(['[', ' ']);
        let key = key.split([']', '=', ' ', '.']).next().unwrap_or_default();
        matches!((line.starts_with('['), key), (true, "allow" | "deny" | "quota" | "groups"))
    };
    text.lines().map(str::trim).any(begins)
}

/// Checks the text of a policy.
pub fn check(source: SourceText) -> CheckedPolicy {
    let mut report = DiagnosticReport::new(&source.text);
    let read = read(&source, &mut report);
    let diagnostics = report.finish();
    let wrong = diagnostics.iter().any(|it| it.severity == Severity::Error);
    CheckedPolicy { policy: read.filter(|_| !wrong), diagnostics, source }
}

fn read(source: &SourceText, report: &mut DiagnosticReport<'_>) -> Option<AccessPolicy> {
    let parsed = table::parse(source, report)?;
    let mut root = Table::root(parsed.get_ref(), "a policy");
    let groups = groups(&mut root, report);
    let mut rules = Vec::new();
    for effect in [Effect::Allow, Effect::Deny] {
        let name = format!("[[{}]]", effect.name());
        for item in root.list(effect.name(), "a list of tables", report) {
            let Some(entries) = item.get_ref().as_table() else {
                wrong_type(report, &format!("an item of `{}`", effect.name()), "a table", item);
                continue;
            };
            let mut rule = Table::root(entries, &name);
            rule.span = item.span();
            let line = source.position(item.span().start).0;
            rules.extend(read_rule(effect, line, rule, &groups, report));
        }
    }
    let mut quotas = Vec::new();
    for item in root.list("quota", "a list of tables", report) {
        match item.get_ref().as_table() {
            Some(entries) => {
                let mut rule = Table::root(entries, "[[quota]]");
                rule.span = item.span();
                quotas.extend(read_quota(rule, &groups, report));
            }
            None => wrong_type(report, "an item of `quota`", "a table", item),
        }
    }
    root.finish(report);
    rules.sort_by_key(|rule| rule.line);
    if !rules.iter().any(|rule| rule.effect == Effect::Allow) && !report.has_errors() {
        report
            .warning(0..0, "nobody may do anything: there is no rule that allows something")
            .hint("[[allow]] with who = \"@authenticated\" lets everybody who is known do all");
    }
    Some(AccessPolicy::new(groups, rules, quotas))
}

fn groups(root: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Groups {
    let mut groups = Groups::new();
    for (name, value) in root.named("groups", report) {
        let group = format!("{GROUP}{}", name.value);
        if matches!(group.as_str(), ANYBODY | AUTHENTICATED) {
            report
                .error(name.span, format!("`{group}` is there in every policy"))
                .hint("give this group another name");
            continue;
        }
        if name.value.starts_with(GROUP) {
            report
                .error(name.span, "a group's name has its @ in rules only")
                .hint(format!("write {}", name.value.trim_start_matches(GROUP)));
            continue;
        }
        if check_name(&name.value).is_err() {
            report.error(name.span, "a group's name has no blanks, colons or control characters");
            continue;
        }
        let Some(items) = value.get_ref().as_array() else {
            wrong_type(report, &format!("group `{}`", name.value), "a list of users", value);
            continue;
        };
        let mut members = BTreeSet::new();
        for item in items {
            match as_text(item) {
                Some(member) if member.value.starts_with(GROUP) => {
                    report
                        .error(member.span, "groups have users as members, no groups")
                        .hint("name both groups in `who`");
                }
                Some(member) if member.value.is_empty() => {
                    report.error(member.span, "nobody's name is empty");
                }
                Some(member) => {
                    if !members.insert(member.value.clone()) {
                        report.warning(member.span, format!("`{}` stands twice", member.value));
                    }
                }
                None => wrong_type(report, "a member", "a user's name", item),
            }
        }
        groups.insert(group, members);
    }
    groups
}

fn read_rule(
    effect: Effect,
    line: usize,
    mut table: Table<'_>,
    groups: &Groups,
    report: &mut DiagnosticReport<'_>,
) -> Option<Rule> {
    let who = users(&mut table, groups, report);
    let services = names(&mut table, "service", report);
    let operations = names(&mut table, "operation", report);
    let may = names(&mut table, "may", report);
    if operations.is_some() && services.is_none() {
        let span = table.key_span("operation").unwrap_or_default();
        report.error(span, "`operation` needs a `service` whose operations these are");
    }
    let actions =
        may.map(|words| words.into_iter().flat_map(|word| actions(&word, report)).collect());
    if let (Effect::Deny, Some(who), Some(services)) = (effect, &who, &services)
        && services.iter().all(|it| [DATA, session::NAME].contains(&it.value.as_str()))
        && actions.as_ref().is_some_and(|all: &HashSet<Action>| all.contains(&Action::Read))
        && !who.iter().any(|it| it.value == ANYBODY)
    {
        let span = table.key_span("who").unwrap_or_default();
        report
            .warning(
                span,
                "nobody is asked for a name at addresses of data: `read` is denied to no one",
            )
            .hint(format!("`who = \"{ANYBODY}\"` closes them for all"));
    }
    table.finish(report);
    let values = |names: Vec<SpannedText>| names.into_iter().map(|name| name.value).collect();
    let who = values(who?);
    let (services, operations) = (services.map(values), operations.map(values));
    Some(Rule { effect, line, who, services, operations, actions })
}

/// `who` of a rule, which must be there.
fn users(
    table: &mut Table<'_>,
    groups: &Groups,
    report: &mut DiagnosticReport<'_>,
) -> Option<Vec<SpannedText>> {
    let who = names(table, "who", report);
    if table.key_span("who").is_none() {
        report
            .error(table.span.clone(), format!("{} does not say `who`", table.name))
            .hint(format!("a user, a group as @NAME, {AUTHENTICATED} or {ANYBODY}"));
    }
    for name in who.iter().flatten() {
        let known = [ANYBODY, AUTHENTICATED].contains(&name.value.as_str())
            || groups.contains_key(&name.value);
        if name.value.starts_with(GROUP) && !known {
            let all = groups.keys().map(String::as_str).chain([ANYBODY, AUTHENTICATED]);
            let near = closest(&name.value, all).map(|near| format!("`{near}` is one"));
            report
                .error(name.span.clone(), format!("there is no group `{}`", name.value))
                .hint(near.unwrap_or_else(|| "[groups] names its members".to_owned()));
        } else if name.value.is_empty() {
            report.error(name.span.clone(), "nobody's name is empty");
        } else if let Some(group) = [ANYBODY, AUTHENTICATED]
            .into_iter()
            .chain(groups.keys().map(String::as_str))
            .find(|group| group.strip_prefix(GROUP) == Some(&name.value))
        {
            report
                .warning(name.span.clone(), format!("this is the user `{}`", name.value))
                .hint(format!("the group is `{group}`"));
        }
    }
    who
}

fn read_quota(
    mut table: Table<'_>,
    groups: &Groups,
    report: &mut DiagnosticReport<'_>,
) -> Option<QuotaRule> {
    let who = users(&mut table, groups, report);
    let mut limits = Vec::new();
    for quota in Quota::ALL {
        let Some(value) = table.get(quota.name()) else { continue };
        let unit = Limit::all().find(|limit| limit.name == quota.limit()).map(|limit| limit.unit);
        let text = as_lexical(value).map(|text| text.value).unwrap_or_default();
        match read_limit(unit.unwrap_or(LimitUnit::Count), &text) {
            Ok(most) => limits.push((quota, Some(most))),
            Err(_) if text == NONE => limits.push((quota, None)),
            Err(takes) => {
                report.error(
                    value.span(),
                    format!("`{}` takes {takes}, or \"{NONE}\"", quota.name()),
                );
            }
        }
    }
    if limits.is_empty() && !report.has_errors() {
        let all = Quota::ALL.map(Quota::name).join(", ");
        report
            .error(table.span.clone(), "[[quota]] does not say how much of what")
            .hint(format!("it knows {all}"));
    }
    table.finish(report);
    Some(QuotaRule { who: who?.into_iter().map(|name| name.value).collect(), limits })
}

/// The actions that a word stands for.
fn actions(word: &SpannedText, report: &mut DiagnosticReport<'_>) -> Vec<Action> {
    let set = SETS.iter().find(|(name, _)| *name == word.value).map(|(_, actions)| *actions);
    let found = set.map(<[Action]>::to_vec).or_else(|| Some(vec![Action::from_name(&word.value)?]));
    found.unwrap_or_else(|| {
        let all: Vec<&str> =
            Action::all().map(Action::name).chain(SETS.map(|(name, _)| name)).collect();
        let hint = match closest(&word.value, all.iter().copied()) {
            Some(near) => format!("`{near}` is something"),
            None => format!("there is {}", all.join(", ")),
        };
        report
            .error(word.span.clone(), format!("`{}` is nothing one can do", word.value))
            .hint(hint);
        Vec::new()
    })
}

/// A name or a list of names; `None` if the key is not there.
fn names(
    table: &mut Table<'_>,
    key: &'static str,
    report: &mut DiagnosticReport<'_>,
) -> Option<Vec<SpannedText>> {
    let value = table.get(key)?;
    let found = match as_text(value) {
        Some(one) => vec![one],
        None if value.get_ref().is_array() => table.strings(key, report),
        None => {
            wrong_type(report, &format!("`{key}`"), "a name or a list of names", value);
            return Some(Vec::new());
        }
    };
    if found.is_empty() {
        report
            .error(value.span(), format!("`{key}` names nothing"))
            .hint(format!("leave `{key}` out to mean all, or name some"));
    }
    Some(found)
}
