//! `docs/reference/limits.md` is written by hand, for people; this sees that it names every limit
//! in the source, with the default that it has there, and that the server's can be set.

use std::path::Path;

use anyhow::{Context, bail};

const PAGE: &str = "docs/reference/limits.md";

/// Where limits are defined: a file, and a struct with a default for each field.
const SERVER: [(&str, &str); 3] = [
    ("crates/wire/src/limits.rs", "WireLimits"),
    ("crates/server/src/settings.rs", "Settings"),
    ("crates/jobs/src/engine/settings.rs", "Settings"),
];
/// Those of a job, which its service file sets.
const JOB: (&str, &str) = ("crates/jobs/src/plan.rs", "JobLimits");

/// Settings beside them that bound nothing.
const NO_LIMITS: [&str; 11] = [
    "data",
    "public_url",
    "user_header",
    "proxies",
    "login",
    "client_certificates",
    "allow_hosts",
    "allow_origins",
    "wire",
    "observe_every",
    "directories",
];

/// Has the table `limits! { ... }` of what `--limit` sets.
const SETTABLE: &str = "crates/server/src/settings.rs";

pub(super) fn check(root: &Path) -> anyhow::Result<()> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("{path} can't be read"))
    };
    let page = read(PAGE)?;
    let settable = settable(&read(SETTABLE)?)
        .with_context(|| format!("{SETTABLE} has no table limits! {{ ... }}"))?;
    let mut wrong = Vec::new();
    for (path, name) in SERVER.into_iter().chain([JOB]) {
        let source = read(path)?;
        let fields = fields(&source, name).with_context(|| format!("{path} has no {name}"))?;
        for field in fields.into_iter().filter(|field| !NO_LIMITS.contains(&field.as_str())) {
            wrong.extend(compare(&page, &field, default_of(&source, &field)));
            if name != JOB.1 && !settable.contains(&field) {
                wrong.push(format!("{field} can't be set: it is not in limits! of {SETTABLE}"));
            }
        }
    }
    wrong.extend(settable.iter().filter_map(|name| compare(&page, name, None)));
    wrong.sort();
    wrong.dedup();
    if !wrong.is_empty() {
        bail!("{PAGE} is not what the source says:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// What is wrong with a limit's row.
fn compare(page: &str, field: &str, default: Option<String>) -> Option<String> {
    let start = format!("| `{field}` |");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with(&start)).collect();
    let &[row] = rows.as_slice() else {
        return Some(format!("{field} has {} rows, not one", rows.len()));
    };
    let told = row[start.len()..].split('|').next().unwrap_or_default().trim();
    let default = default?;
    (!told.starts_with(&default)).then(|| format!("{field}: the default is {default}, not {told}"))
}

/// Public fields of a struct.
fn fields(source: &str, name: &str) -> Option<Vec<String>> {
    let (_, body) = source.split_once(&format!("pub struct {name} {{\n"))?;
    let (body, _) = body.split_once("\n}")?;
    let named = body.lines().filter_map(|line| line.trim().strip_prefix("pub "));
    Some(named.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect())
}

/// Names of the limits that `--limit` sets.
fn settable(source: &str) -> Option<Vec<String>> {
    let (_, table) = source.split_once("\nlimits! {\n")?;
    let (table, _) = table.split_once("\n}")?;
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    Some(table.lines().filter_map(first).collect())
}

/// A field's default as the page would write it, if it is a constant.
fn default_of(source: &str, field: &str) -> Option<String> {
    let start = format!("{field}: ");
    let values = source.lines().filter_map(|line| line.trim().strip_prefix(&start));
    values.filter_map(|value| render(value.strip_suffix(',')?)).next()
}

fn render(value: &str) -> Option<String> {
    if value == "None" {
        return Some("none".to_owned());
    }
    if let Some(seconds) = inside(value, "Duration::from_secs(") {
        return Some(time(product(seconds)?));
    }
    if let Some(millis) = inside(value, "Duration::from_millis(") {
        let millis = product(millis)?;
        return Some(format!("{}.{} s", millis / 1000, millis % 1000 / 100));
    }
    if let Some((number, shift)) = value.split_once(" << ") {
        let unit = match shift {
            "10" => "KiB",
            "20" => "MiB",
            "30" => "GiB",
            _ => return None,
        };
        return Some(format!("{number} {unit}"));
    }
    if let Some(seconds) = value.strip_suffix(".0") {
        return Some(format!("{seconds} s"));
    }
    let number = product(value)?;
    // Thousands are set apart from five digits on.
    let apart = number >= 10_000;
    Some(if apart { format!("{},{:03}", number / 1000, number % 1000) } else { number.to_string() })
}

fn inside<'v>(value: &'v str, start: &str) -> Option<&'v str> {
    value.strip_prefix(start)?.strip_suffix(')')
}

fn product(value: &str) -> Option<u64> {
    value.split('*').map(|factor| factor.trim().replace('_', "").parse::<u64>().ok()).product()
}

fn time(seconds: u64) -> String {
    match seconds {
        s if s >= 86_400 && s.is_multiple_of(86_400) => format!("{} days", s / 86_400),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
pub struct Settings {
    /// A.
    pub size: u64,
    /// B.
    pub wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size: 16 << 20,
            wait: Duration::from_secs(7 * 24 * 3600),
        }
    }
}
";

    #[test]
    fn fields_and_their_defaults_are_found() {
        assert_eq!(fields(SOURCE, "Settings").unwrap(), ["size", "wait"]);
        assert_eq!(fields(SOURCE, "Other"), None);
        assert_eq!(default_of(SOURCE, "size").as_deref(), Some("16 MiB"));
        assert_eq!(default_of(SOURCE, "wait").as_deref(), Some("7 days"));
    }

    #[test]
    fn what_can_be_set_stands_in_a_table() {
        let source =
            "x\nlimits! {\n    size Bytes jobs, \"A size.\";\n    wait Time jobs, \"T.\";\n}\n";
        assert_eq!(settable(source).unwrap(), ["size", "wait"]);
        assert_eq!(settable("x"), None);
    }

    #[test]
    fn defaults_are_written_as_people_do() {
        for (value, told) in [
            ("None", "none"),
            ("1000", "1000"),
            ("100_000", "100,000"),
            ("5.0", "5 s"),
            ("Duration::from_secs(75)", "75 s"),
            ("Duration::from_millis(500)", "0.5 s"),
        ] {
            assert_eq!(render(value).as_deref(), Some(told), "{value}");
        }
        assert_eq!(render("u32::try_from(cores)"), None);
    }

    #[test]
    fn a_limit_without_a_row_or_with_another_default_is_told() {
        let page = "| `size` | 16 MiB | bytes |\n";
        assert_eq!(compare(page, "size", Some("16 MiB".to_owned())), None);
        assert!(compare(page, "size", Some("8 MiB".to_owned())).is_some());
        assert!(compare(page, "wait", None).is_some());
    }

    #[test]
    fn the_real_page_says_what_the_source_says() {
        check(&crate::root::workspace()).unwrap();
    }
}
