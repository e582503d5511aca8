//! The matrix, combination by combination.

use std::collections::BTreeMap;

use super::Experiment;
use crate::record::Cell;

impl Experiment {
    /// Every cell of every repetition: all cells once, then all again, so that what changes on the machine in the
    /// meantime meets each of them alike. The matrix's last name changes fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let combinations = self.combinations();
        let cells = (1..=self.repetitions).flat_map(|repetition| {
            combinations.iter().map(move |values| Cell { values: values.clone(), repetition })
        });
        cells.collect()
    }

    fn combinations(&self) -> Vec<BTreeMap<String, String>> {
        let mut all = vec![BTreeMap::new()];
        for (name, values) in &self.matrix {
            let longer = all.iter().flat_map(|shorter| {
                values.iter().map(move |value| {
                    let mut longer = shorter.clone();
                    longer.insert(name.clone(), value.clone());
                    longer
                })
            });
            all = longer.collect();
        }
        let left_out = |cell: &BTreeMap<String, String>| {
            let has = |row: &BTreeMap<String, String>| {
                row.iter().all(|(name, value)| cell.get(name) == Some(value))
            };
            self.exclude.iter().any(has)
        };
        all.retain(|cell| !left_out(cell));
        all
    }

    /// The words for ports (`port`, `port:NAME`) that stand in it: so many free ones a cell needs.
    pub fn ports(&self) -> Vec<String> {
        let mut ports: Vec<String> = Vec::new();
        for (_, text) in self.texts() {
            for piece in super::words::pieces(text.as_bytes()) {
                if let super::words::TextPiece::Word(word) = piece
                    && is_port(word)
                    && !ports.iter().any(|port| port == word)
                {
                    ports.push(word.to_owned());
                }
            }
        }
        ports
    }
}

pub(super) fn is_port(word: &str) -> bool {
    word == "port" || word.starts_with("port:")
}

impl Cell {
    /// The name of its directory, the same for all of its repetitions: its values, each with its name. Whatever may
    /// not stand in a name of a file is written as `%` and two hexadecimal digits.
    pub fn name(&self) -> String {
        if self.values.is_empty() {
            return "cell".to_owned();
        }
        let values: Vec<String> =
            self.values.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        values.join(",")
    }
}

fn escaped(value: &str) -> String {
    let mut name = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"._+-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn experiment(matrix: &str) -> Experiment {
        let text = format!(
            "name = \"x\"\n{matrix}\n[system]\nname = \"s\"\nurl = \"http://127.0.0.1:{{port}}/{{port:other}}\"\n\
             [workload]\nclients = 1\nrequests = 1\n[[operation]]\nname = \"add\"\n"
        );
        Experiment::read_text(&text, Path::new("/x.toml")).expect("it is an experiment")
    }

    #[test]
    fn each_combination_is_a_cell_in_each_repetition() {
        let read = experiment(
            "repetitions = 2\nmatrix = { heap = [\"64m\", \"1g\"], scope = [\"a/b\", \"c\"] }\n\
             exclude = [{ heap = \"1g\", scope = \"c\" }]",
        );
        let names: Vec<String> = read.cells().iter().map(Cell::name).collect();
        let once = ["heap=64m,scope=a%2fb", "heap=64m,scope=c", "heap=1g,scope=a%2fb"];
        assert_eq!(names, [once, once].concat());
        assert_eq!(read.cells()[3].repetition, 2);
    }

    #[test]
    fn without_a_matrix_there_is_one_cell() {
        let read = experiment("");
        assert_eq!(read.cells().iter().map(Cell::name).collect::<Vec<_>>(), ["cell"]);
        assert_eq!(read.ports(), ["port", "port:other"]);
    }
}
