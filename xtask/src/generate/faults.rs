//! The table of fault codes, read out of the macro that defines them, `fault_codes! { ... }`, and out of
//! the server's table of statuses.

use std::path::Path;

use anyhow::{Context, bail};

use super::{Generated, with_region};

const SOURCE: &str = "crates/contract/src/fault.rs";
const STATUSES: &str = "crates/server/src/status.rs";
const PAGE: &str = "docs/reference/faults.md";

pub(super) fn page(root: &Path) -> anyhow::Result<Generated> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("{path} can't be read"))
    };
    let table = table(&read(SOURCE)?, &read(STATUSES)?)?;
    Ok(Generated { path: PAGE.into(), text: with_region(&read(PAGE)?, "codes", &table)? })
}

/// The columns of a code's row in the table of statuses: `FaultCode::CODE => [500, 400, 404],`.
fn statuses(source: &str, code: &str) -> anyhow::Result<String> {
    let row = source.split_once(&format!("FaultCode::{code} => [")).and_then(|(_, row)| {
        let (columns, _) = row.split_once("],\n")?;
        Some(columns.replace(", ", " | "))
    });
    row.with_context(|| format!("{STATUSES} has no row of statuses for {code}"))
}

/// The protocols of the columns, which the table names in its first line.
fn protocols(source: &str) -> anyhow::Result<String> {
    let (_, after) = source
        .split_once("match code {\n        // ")
        .with_context(|| format!("{STATUSES} no longer names the protocols of its columns"))?;
    Ok(after.lines().next().unwrap_or_default().replace(", ", " | "))
}

fn table(source: &str, of_statuses: &str) -> anyhow::Result<String> {
    let (_, after) = source
        .split_once("\nfault_codes! {\n")
        .with_context(|| format!("{SOURCE} no longer lists its codes in fault_codes!"))?;
    let (list, _) = after.split_once("\n}").context("the list of codes has no end")?;
    let head = format!("| code | to blame | {} | meaning |", protocols(of_statuses)?);
    let below = format!("|{}", "---|".repeat(head.matches('|').count() - 1));
    let mut rows = vec![head, below];
    let mut meaning = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(text) = line.strip_prefix("///") {
            meaning.push(text.trim());
            continue;
        }
        let words: Vec<&str> = line.trim_end_matches(',').split_whitespace().collect();
        let [code, blame] = words.as_slice() else {
            bail!("not a code and who is to blame: {line:?}");
        };
        let whom = match *blame {
            "Sender" => "caller",
            "Receiver" => "server",
            other => bail!("{code}: nobody is called {other}"),
        };
        let statuses = statuses(of_statuses, code)?;
        rows.push(format!("| `{code}` | {whom} | {statuses} | {} |", meaning.join(" ")));
        meaning.clear();
    }
    Ok(rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_a_code_with_its_whole_comment() {
        let source = "x\nfault_codes! {\n    /// One line\n    /// and another.\n    Broken Sender,\n    /// Ours.\n    Internal Receiver,\n}\ny";
        let statuses = "match code {\n        // SOAP 1.1, SOAP 1.2, HTTP\n\
             FaultCode::Broken => [500, 400, 404],\n FaultCode::Internal => [500, 500, 500],\n";
        assert_eq!(
            table(source, statuses).unwrap(),
            "| code | to blame | SOAP 1.1 | SOAP 1.2 | HTTP | meaning |\n|---|---|---|---|---|---|\n\
             | `Broken` | caller | 500 | 400 | 404 | One line and another. |\n\
             | `Internal` | server | 500 | 500 | 500 | Ours. |"
        );
        assert!(table(source, "FaultCode::Broken => [500, 400, 404],\n").is_err());
    }

    #[test]
    fn a_list_of_another_form_is_an_error() {
        assert!(table("enum FaultCode { A }", "").is_err());
        assert!(table("\nfault_codes! {\n    Broken Nobody,\n}", "").is_err());
    }
}
