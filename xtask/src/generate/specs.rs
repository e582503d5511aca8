//! The WSDL of each example: what a server publishes for its service file.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::Generated;

const SPECS: &str = "specs";

/// Stands in the committed files for the address of the server that wrote them.
const ADDRESS: &str = "http://localhost:8080";

pub(super) fn pages(root: &Path, binary: &Path) -> anyhow::Result<Vec<Generated>> {
    let files = service_files(&root.join("examples"))?;
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let data = tempfile::tempdir()?;
    let mut server = Server::start(root, binary, data.path(), &files)?;
    let mut pages = Vec::new();
    for _ in &files {
        let (name, url) = server.ready()?;
        let output = Command::new(binary).args(["wsdl", &url]).output()?;
        if !output.status.success() {
            bail!("fishplate wsdl {url}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let text = String::from_utf8(output.stdout)?.replace(&origin(&url)?, ADDRESS);
        pages.push(Generated { path: Path::new(SPECS).join(format!("{name}.wsdl")), text });
    }
    Ok(pages)
}

/// Committed WSDLs that no example has any more.
pub(super) fn without_a_service(root: &Path, all: &[Generated]) -> anyhow::Result<Vec<PathBuf>> {
    let there = files_below(&root.join(SPECS), "wsdl")?;
    Ok(there
        .into_iter()
        .filter_map(|path| path.strip_prefix(root).map(Path::to_path_buf).ok())
        .filter(|path| all.iter().all(|page| page.path != *path))
        .collect())
}

/// Every TOML file below a directory that is a service file: it has a name and a command. One server has them all, so those of several
/// (`sites/SITE/*.toml`, where names come again) are left out.
fn service_files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in files_below(directory, "toml")? {
        if path.strip_prefix(directory)?.iter().any(|part| part == "sites") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let begins = |key: &str| text.lines().any(|line| line.starts_with(key));
        if begins("name =") && (begins("command =") || begins("[operation.")) {
            found.push(path);
        }
    }
    Ok(found)
}

fn files_below(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !directory.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path, extension)?);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `http://127.0.0.1:4711` of a URL.
fn origin(url: &str) -> anyhow::Result<String> {
    let (scheme, rest) = url.split_once("://").with_context(|| format!("no URL: {url}"))?;
    let host = rest.split('/').next().unwrap_or(rest);
    Ok(format!("{scheme}://{host}"))
}

/// A server that ends with this value.
struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Server {
    fn start(root: &Path, binary: &Path, data: &Path, files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(files)
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} does not start", binary.display()))?;
        let stdout = child.stdout.take().context("the server has no output")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// The next service that is ready, and its address.
    fn ready(&mut self) -> anyhow::Result<(String, String)> {
        let line = self.lines.next().context("the server ended before it was ready")??;
        let (name, url) = line
            .split_once(' ')
            .with_context(|| format!("the server printed {line:?}, not NAME URL"))?;
        Ok((name.to_owned(), url.trim().to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked, not killed, so that it takes its helpers with it.
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_service_files_below_examples_count() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["deep", "sites/one"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for (path, text) in [
            ("deep/a.toml", "name = \"a\"\ncommand = [\"true\"]\n"),
            ("sites/one/a.toml", "name = \"a\"\ncommand = [\"true\"]\n"),
            ("b.toml", "name = \"b\"\n[operation.mesh]\n"),
            ("pyproject.toml", "[project]\nname = \"c\"\n"),
            ("notes.txt", "name = \ncommand = \n"),
        ] {
            std::fs::write(root.path().join(path), text).unwrap();
        }
        let found = service_files(root.path()).unwrap();
        assert_eq!(found, [root.path().join("b.toml"), root.path().join("deep/a.toml")]);
    }

    #[test]
    fn the_origin_of_a_url_is_its_scheme_and_host() {
        assert_eq!(origin("http://127.0.0.1:4711/a/b?wsdl").unwrap(), "http://127.0.0.1:4711");
        assert!(origin("a/b").is_err());
    }
}
