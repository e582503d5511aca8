//! The committed files that the program or its source writes, so that they never lag behind it:
//! `specs/*.wsdl`, `docs/reference/cli.md` and `configuration.md`, the tables in `docs/reference/faults.md` and `limits.md`,
//! the lists of `docs/reference/mpi.md`.

mod cli;
mod faults;
mod limits;
mod mpi;
mod specs;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file, and what should be in it.
struct Generated {
    /// Path from the workspace's root.
    path: PathBuf,
    text: String,
}

pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let root = crate::root::workspace();
    let mut check = false;
    let mut binary = root.join("target/debug/fishplate");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--check" => check = true,
            "--binary" => binary = options.next().context("--binary needs a file")?.into(),
            other => bail!("generate has no option {other}"),
        }
    }
    let binary = binary
        .canonicalize()
        .with_context(|| format!("{} is not there: cargo build -p fishplate", binary.display()))?;
    let mut all = vec![
        limits::page(&root)?,
        faults::page(&root)?,
        cli::page(&binary)?,
        cli::configuration(&binary)?,
        mpi::page(&root)?,
    ];
    all.extend(specs::pages(&root, &binary)?);
    let stale = specs::without_a_service(&root, &all)?;
    if check { compare(&root, &all, &stale) } else { write(&root, &all, &stale) }
}

fn compare(root: &Path, all: &[Generated], stale: &[PathBuf]) -> anyhow::Result<()> {
    let differs = |page: &&Generated| {
        !std::fs::read_to_string(root.join(&page.path)).is_ok_and(|text| text == page.text)
    };
    let old: Vec<String> = all
        .iter()
        .filter(differs)
        .map(|page| page.path.display().to_string())
        .chain(stale.iter().map(|path| format!("{} (of no example)", path.display())))
        .collect();
    if !old.is_empty() {
        bail!("out of date, run cargo xtask generate and commit:\n  {}", old.join("\n  "));
    }
    crate::report(&format!("generate: {} files are up to date", all.len()));
    Ok(())
}

fn write(root: &Path, all: &[Generated], stale: &[PathBuf]) -> anyhow::Result<()> {
    for page in all {
        let path = root.join(&page.path);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(&path, &page.text)
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    for path in stale {
        std::fs::remove_file(root.join(path))?;
    }
    crate::report(&format!("generate: {} files written", all.len()));
    Ok(())
}

/// The page with what stands between `<!-- generated: NAME -->` and `<!-- end -->` exchanged.
fn with_region(page: &str, name: &str, text: &str) -> anyhow::Result<String> {
    let start = format!("<!-- generated: {name} -->\n");
    let (before, rest) =
        page.split_once(&start).with_context(|| format!("the page lacks a line {start:?}"))?;
    let (_, after) = rest
        .split_once("<!-- end -->")
        .with_context(|| format!("nothing ends the region {name}: write <!-- end -->"))?;
    Ok(format!("{before}{start}{}\n<!-- end -->{after}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_exchanged_and_the_rest_stays() {
        let page = "a\n<!-- generated: t -->\nold\n<!-- end -->\nz\n";
        let new = with_region(page, "t", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- generated: t -->\nnew\n<!-- end -->\nz\n");
        assert_eq!(with_region(&new, "t", "new\n").unwrap(), new, "it is a fixed point");
        assert!(with_region("no region", "t", "new").is_err());
    }

    #[test]
    fn an_old_a_missing_and_a_stale_file_fail_the_check() {
        let root = tempfile::tempdir().unwrap();
        let page = |text: &str| Generated { path: "page.md".into(), text: text.to_owned() };
        assert!(compare(root.path(), &[page("new")], &[]).is_err(), "missing");
        write(root.path(), &[page("old")], &[]).unwrap();
        assert!(compare(root.path(), &[page("new")], &[]).is_err(), "old");
        assert!(compare(root.path(), &[page("old")], &["gone.wsdl".into()]).is_err(), "stale");
        assert!(compare(root.path(), &[page("old")], &[]).is_ok());
    }
}
