//! The tables of `docs/reference/limits.md`, a section a group of [`fishplate_contract::limits`].

use std::path::Path;

use anyhow::Context;
use fishplate_contract::limits::{GROUPS, Limit, LimitSetting};
use fishplate_formats::units;

use super::{Generated, with_region};

const PAGE: &str = "docs/reference/limits.md";

pub(super) fn page(root: &Path) -> anyhow::Result<Generated> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("{PAGE} can't be read"))?;
    let text = GROUPS
        .iter()
        .try_fold(page, |page, (group, limits)| with_region(&page, group, &table(limits)))?;
    Ok(Generated { path: PAGE.into(), text })
}

fn table(limits: &[Limit]) -> String {
    let rows = limits.iter().map(|limit| {
        let elsewhere = match limit.setting {
            LimitSetting::Server | LimitSetting::ServiceFile => String::new(),
            setting => format!(", {}", setting.place()),
        };
        let default = units::limit_default(limit);
        let meaning: Vec<&str> = limit.meaning.iter().map(|line| line.trim()).collect();
        format!("| `{}` | {default}{elsewhere} | {} |", limit.name, meaning.join(" "))
    });
    let head = ["| name | default | bounds |", "|---|---|---|"].map(str::to_owned);
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_name_default_and_meaning() {
        let limit = |name: &str| *Limit::all().find(|limit| limit.name == name).unwrap();
        assert_eq!(
            table(&[limit("xml_depth"), limit("directory_path")]),
            "| name | default | bounds |\n|---|---|---|\n\
             | `xml_depth` | 64 | elements within each other |\n\
             | `directory_path` | 4 KiB, fixed | bytes of one path in a directory that a caller sends \
             (`InvalidValue`) |"
        );
    }
}
