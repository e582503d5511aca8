//! The files that an experiment names: what is run depends on them as on its text.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::words::{TextPiece, pieces};
use super::{Experiment, fill};

/// What is read at once.
const BUFFER: usize = 64 << 10;

impl Experiment {
    /// The SHA-256 of each file that it names, by its path: templates, and the files that they and arguments are filled from;
    /// programs and files in the commands of system, checkers and audit, as far as they stand beside it (`{here}`);
    /// certificates. No secrets, and nothing that is found by a search path.
    ///
    /// # Errors
    /// One that is there can't be read.
    pub fn inputs(&self) -> io::Result<BTreeMap<String, String>> {
        let mut inputs = BTreeMap::new();
        let mut paths = Vec::new();
        for operation in &self.operations {
            let files = operation.arguments.iter().filter_map(|word| Some(word.split_once(':')?.1));
            paths.extend(files.map(|path| self.here.join(path)));
            let Some(template) = &operation.template else { continue };
            let template = self.here.join(template);
            let text = std::fs::read(&template)?;
            paths.extend(pieces(&text).into_iter().filter_map(|piece| match piece {
                TextPiece::Word(word) => {
                    let (kind, path) = word.split_once(':')?;
                    matches!(kind, "file" | "line").then(|| self.here.join(path))
                }
                TextPiece::Literal(_) => None,
            }));
            paths.push(template);
        }
        let here = [("here".to_owned(), self.here.display().to_string())].into();
        // What a stress writes is none.
        let is_input =
            |field: &str| field != "workload.token_file" && !field.starts_with("stress.");
        let named = self.texts().into_iter().filter(|(field, _)| is_input(field));
        for (field, text) in named {
            // What has words beside that is known when a cell begins.
            let Ok(text) = fill(text, &here) else { continue };
            let text = text.strip_prefix('@').unwrap_or(&text);
            if field == "workload.ca" || Path::new(text).is_absolute() {
                paths.push(self.here.join(text));
            }
        }
        for path in paths.into_iter().filter(|path| path.is_file()) {
            if let Entry::Vacant(new) = inputs.entry(self.shown(&path)) {
                new.insert(digest(&path)?);
            }
        }
        Ok(inputs)
    }

    /// A path as people know it: from the experiment's folder, if it is in it.
    fn shown(&self, path: &Path) -> String {
        let shown: PathBuf = path.strip_prefix(&self.here).unwrap_or(path).to_owned();
        shown.display().to_string()
    }
}

/// In hexadecimal digits.
fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut digest) = (File::open(path)?, Context::new(&SHA256));
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    Ok(digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_that_decide_what_is_run_are_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        };
        write("add.xml", "<x>{file:x.txt}</x>{line:names}{file:none}{random:1..2}");
        for name in
            ["x.txt", "names", "y.txt", "server.py", "check.py", "ca.pem", "token", "options"]
        {
            write(name, name);
        }
        let text = r#"name = "x"
            [system]
            name = "s"
            url = "http://127.0.0.1:{port}/"
            process.server = { start = ["python3", "{here}/server.py", "@{here}/options", "{port}"] }
            [workload]
            clients = 1
            requests = 1
            ca = "ca.pem"
            token_file = "token"
            [[operation]]
            name = "add"
            template = "add.xml"
            expect = { checker = ["{here}/check.py"] }
            [[operation]]
            name = "other"
            arguments = ["x=1", "y:y.txt"]
        "#;
        let path = folder.path().join("x.toml");
        let read = Experiment::read_text(text, &path).expect("it is one");
        let inputs = read.inputs().expect("they can be read");
        let names: Vec<&String> = inputs.keys().collect();
        let all =
            ["add.xml", "ca.pem", "check.py", "names", "options", "server.py", "x.txt", "y.txt"];
        assert_eq!(names, all);
        assert_eq!(inputs, read.inputs().expect("the same"));
        write("names", "others");
        let changed = read.inputs().expect("they can be read");
        let differ = changed.iter().filter(|(name, digest)| inputs[*name] != **digest);
        assert_eq!(differ.map(|(name, _)| name).collect::<Vec<_>>(), ["names"]);
    }
}
