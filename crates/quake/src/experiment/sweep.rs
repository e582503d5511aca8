//! Keys of the file that the matrix sets: a name of it with a full stop is the path of one (`workload.clients`).

use serde_json::Value;

use super::Experiment;
use crate::record::Cell;

/// A name of the matrix that is the path of no key, or a value that its key does not take.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// There is no such key.
    #[error(
        "there is no key {path}: write its path, such as workload.clients or operation.0.weight"
    )]
    NoKey {
        /// What the matrix names.
        path: String,
    },
    /// The experiment is none with these values.
    #[error("{error}")]
    Value {
        /// The reader's error.
        error: serde_json::Error,
    },
}

impl Experiment {
    /// The experiment of one cell: keys that the matrix names by their path have the cell's values.
    ///
    /// # Errors
    /// A path that leads nowhere, or a value that its key does not take.
    pub fn of_cell(&self, cell: &Cell) -> Result<Self, SweepError> {
        let wrong = |error| SweepError::Value { error };
        let mut whole = serde_json::to_value(self).map_err(wrong)?;
        for (path, text) in cell.values.iter().filter(|(name, _)| is_path(name)) {
            let key = whole.pointer_mut(&format!("/{}", path.replace('.', "/")));
            let key = key.ok_or_else(|| SweepError::NoKey { path: path.clone() })?;
            // Numbers and `true` are written alike in TOML and JSON; all else is a text.
            *key = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        }
        let swept: Self = serde_json::from_value(whole).map_err(wrong)?;
        Ok(Self { here: self.here.clone(), ..swept })
    }
}

/// Whether a name of the matrix is the path of a key, beside being a word.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('.')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::{Arrivals, ExperimentError};

    fn read(matrix: &str) -> Result<Experiment, ExperimentError> {
        let text = format!(
            "name = \"x\"\n[matrix]\n{matrix}\n[system]\nname = \"{{workload.clients}} clients\"\n\
             url = \"http://127.0.0.1:{{port}}/\"\n[workload]\nclients = 1\nrequests = 1\n\
             arrivals = {{ distribution = \"poisson\", rate = 5.0 }}\n[[operation]]\nname = \"add\"\n"
        );
        Experiment::read_text(&text, Path::new("/there/x.toml"))
    }

    #[test]
    fn a_cell_has_the_values_of_the_keys_that_the_matrix_names() {
        let experiment = read(
            "\"workload.clients\" = [\"25\", \"300\"]\n\"workload.arrivals.rate\" = [\"0.5\"]\n\
             \"workload.duration\" = [\"1m\"]\n\"operation.0.name\" = [\"mean\"]",
        )
        .expect("all of these are keys");
        let cells = experiment.cells();
        let swept = experiment.of_cell(&cells[1]).expect("as it was read");
        assert_eq!(swept.workload.clients, 300);
        assert!(matches!(swept.workload.arrivals, Arrivals::Poisson { rate: 0.5 }));
        assert_eq!(swept.workload.duration.expect("one minute").as_secs(), 60);
        assert_eq!(swept.operations[0].name, "mean");
        assert_eq!(swept.here, Path::new("/there"));
    }

    #[test]
    fn a_path_that_leads_nowhere_and_a_value_that_is_none_are_told_when_the_file_is_read() {
        for (matrix, told) in [
            ("\"workload.client\" = [\"25\"]", "there is no key workload.client"),
            ("\"workload.clients\" = [\"1\", \"many\"]", "invalid type: string \"many\""),
            ("\"workload.clients\" = [\"0\"]", "workload.clients: it is 0"),
        ] {
            let error = read(&format!("{matrix}\nother = [\"a\"]")).expect_err(matrix).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
