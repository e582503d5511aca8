//! A file, and what is wrong with it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::Experiment;

/// Why a file is no experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// It can't be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is no TOML, or has a key or a value that none has there. TOML's own message has line and column.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// It says what can't be done.
    #[error("{}", listed(path, flaws))]
    Flawed {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in the order of the file's tables.
        flaws: Vec<Flaw>,
    },
}

/// One thing that is wrong with an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Where it stands, from 1; where the table begins, if it is something that is missing there.
    pub line: Option<usize>,
    /// Which key, as `operation.0.weight`.
    pub field: String,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}: {}", self.field, self.wrong, self.right)
    }
}

fn listed(path: &Path, flaws: &[Flaw]) -> String {
    let lines: Vec<String> =
        flaws.iter().map(|flaw| format!("{}: {flaw}", path.display())).collect();
    lines.join("\n")
}

impl Experiment {
    /// The experiment in a file.
    ///
    /// # Errors
    /// It can't be read, is none, or says what can't be done: then all of that.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let unreadable = |source| ExperimentError::Unreadable { path: path.to_owned(), source };
        Self::read_text(&std::fs::read_to_string(path).map_err(unreadable)?, path)
    }

    /// The experiment in the text of a file, which may have been changed since.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_text(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let path = path.to_owned();
        let mut experiment: Self = match toml::from_str(text) {
            Ok(experiment) => experiment,
            Err(error) => {
                return Err(ExperimentError::Syntax { path, message: error.to_string() });
            }
        };
        let here = match std::path::absolute(&path) {
            Ok(absolute) => absolute.parent().unwrap_or(Path::new("/")).to_owned(),
            Err(source) => return Err(ExperimentError::Unreadable { path, source }),
        };
        experiment.here = here;
        let mut flaws = experiment.flaws();
        if flaws.is_empty() {
            return Ok(experiment);
        }
        for flaw in &mut flaws {
            flaw.line = line_of(text, &flaw.field);
        }
        Err(ExperimentError::Flawed { path, flaws })
    }
}

/// The line of a key, or of the innermost table around it that is there.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut value = &DeValue::Table(root.into_inner());
    let mut at = None;
    for key in field.split('.') {
        let next = match key.parse::<usize>() {
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(key),
        };
        let Some(next) = next else { break };
        at = Some(next.span().start);
        value = next.get_ref();
    }
    Some(text[..at?].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"name = "x"
[system]
name = "Axis {heap}"
process.server = { start = ["java", "-Xmx{heap}", "{port}"], environment = { A = "{port:db}" } }
url = "http://127.0.0.1:{port}/{directory}{here}"
probe = { path = "/" }
[matrix]
heap = ["64m", "1g"]
[workload]
clients = 8
duration = "1m"
arrivals = { distribution = "spike", rate = 50.0, peak = 500.0, every = "10s", length = "1s" }
[[operation]]
name = "one"
weight = 2.5
[[operation]]
name = "two"
packaging = "mtom"
expect = { status = 500, sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" }
[[stress]]
resource = "memory"
size = "1GiB"
length = "20s"
[[fault]]
action = "kill"
every = "30s"
jitter = "5s"
[watchdog]
zombie_below = 0.01
rejuvenate = { memory_above = "1GiB" }
[audit]
count = ["cat", "{directory}/count"]
"#;

    fn read(text: &str) -> Result<Experiment, String> {
        Experiment::read_text(text, Path::new("/tmp/x.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_right_is_read() {
        let experiment = read(RIGHT).expect("nothing is wrong");
        assert_eq!(experiment.here, Path::new("/tmp"));
        assert_eq!(experiment.cells().len(), 2);
        assert_eq!(experiment.ports(), ["port", "port:db"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (right, wrong, line, told) in [
            ("\"x\"", "\"\"", 1, "name: it is empty"),
            (
                "{heap}\"",
                "{haep}\"",
                3,
                "system.name: {haep} is filled by nothing: did you mean {heap}?",
            ),
            ("{port:db}", "{prot}", 4, "system.process.server.environment.A: {prot}"),
            ("process.server", "process.tomcat", 4, "system.process: none is called server"),
            ("start = [\"java\", \"-Xmx{heap}\", \"{port}\"]", "start = []", 4, "it is empty"),
            (
                "environment =",
                "stop = \"SIGTERM\", environment =",
                4,
                "a signal's name without SIG",
            ),
            ("http://127", "127", 5, "system.url: it is no address"),
            ("path = \"/\"", "path = \"x\"", 6, "one that begins with /"),
            ("path = \"/\"", "operation = \"three\"", 6, "there is no such operation"),
            ("\"1g\"]", "\"64m\"]", 8, "a value stands there twice"),
            ("heap = [\"64m\", \"1g\"]", "heap = []", 8, "it has no values"),
            ("[workload]", "Heap = [\"x\"]\n[workload]", 9, "this can't be the name of a word"),
            ("[workload]", "port = [\"x\"]\n[workload]", 9, "has a meaning already"),
            ("name = \"x\"", "name = \"x\"\nexclude = [{ heap = \"2g\" }]", 2, "no such value"),
            ("clients = 8", "clients = 0", 10, "workload.clients: it is 0: 1 or more"),
            ("duration = \"1m\"", "", 9, "workload: nothing ends it"),
            ("duration = \"1m\"", "duration = \"0s\"", 11, "it is 0"),
            ("duration = \"1m\"", "requests = 1000000000", 11, "too many"),
            ("duration = \"1m\"", "duration = \"1m\"\nuser = \"ann\"", 12, "NAME:PASSWORD"),
            (
                "duration = \"1m\"",
                "duration = \"1m\"\nthink = { mean = \"1s\" }",
                12,
                "the loop is open",
            ),
            ("rate = 50.0", "rate = 0.0", 12, "workload.arrivals.rate: it is no rate"),
            ("peak = 500.0", "peak = inf", 12, "workload.arrivals.peak: it is no rate"),
            ("length = \"1s\"", "length = \"10s\"", 12, "spikes would overlap"),
            ("weight = 2.5", "weight = 0.0", 15, "operation.0.weight: it is no weight"),
            ("weight = 2.5", "template = \"none\"", 15, "there is no file /tmp/none"),
            ("weight = 2.5", "send_part = 1.0", 15, "below 1"),
            ("weight = 2.5", "read_rate = 0", 15, "1 or more"),
            ("\"two\"", "\"one\"", 17, "operation.1.name: an operation has it already"),
            ("\"mtom\"", "\"mime\"", 18, "xml, base64, mtom, swa, dime"),
            ("status = 500", "status = 100", 19, "200 to 599"),
            ("ba7816bf", "xa7816bf", 19, "as sha256sum prints them"),
            ("size = \"1GiB\"", "size = \"much\"", 22, "stress.0.size: it is no size"),
            ("length = \"20s\"", "length = \"0s\"", 23, "stress.0.length: it is 0"),
            ("every = \"30s\"", "every = \"5s\"", 26, "not longer than jitter"),
            ("action = \"kill\"", "action = \"kill\"\nprocess = \"db\"", 26, "no such process"),
            ("zombie_below = 0.01", "zombie_below = 2.0", 29, "it is no part"),
            ("zombie_below = 0.01", "zombie_below = 0.5", 29, "above degraded_below"),
            (
                "above = \"1GiB\"",
                "above = \"1\"",
                30,
                "watchdog.rejuvenate.memory_above: it is no size",
            ),
            (
                "resource = \"memory\"\nsize = \"1GiB\"",
                "resource = \"clock\"\nseconds = 9\nfile = \"{x}\"",
                23,
                "stress.0.file: {x} is filled by nothing",
            ),
            (
                "resource = \"memory\"\nsize = \"1GiB\"",
                "resource = \"network\"\nnamespace = \"{x}\"\ninterface = \"lo\"",
                22,
                "stress.0.namespace: {x} is filled by nothing",
            ),
            (
                "resource = \"memory\"\nsize = \"1GiB\"",
                "resource = \"network\"\nnamespace = \"a\"\ninterface = \"{x}\"",
                23,
                "stress.0.interface: {x} is filled by nothing",
            ),
            ("count =", "ledger = [\"x\"]\ncount =", 31, "one of ledger and count"),
            ("/count\"", "/{x}\"", 32, "audit.count: {x} is filled by nothing"),
        ] {
            assert!(RIGHT.contains(right), "{right}");
            let error = read(&RIGHT.replacen(right, wrong, 1)).expect_err(told);
            let place = format!("/tmp/x.toml: line {line}: ");
            let found = error.lines().any(|one| one.starts_with(&place) && one.contains(told));
            assert!(found, "{told} in line {line}, not:\n{error}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let text =
            RIGHT.replace("clients = 8", "clients = 0").replace("weight = 2.5", "weight = -1");
        assert_eq!(read(&text).expect_err("two are wrong").lines().count(), 2);
        let error = read("name = 3").expect_err("it is no text");
        assert!(error.contains("/tmp/x.toml: TOML parse error at line 1, column 8"), "{error}");
        let error = Experiment::read(Path::new("/no/such/file")).expect_err("it is not there");
        assert_eq!(error.to_string(), "cannot read /no/such/file");
    }
}
