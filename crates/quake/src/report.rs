//! What a run came to: one page, tables for programs, and a comparison with another run.
//!
//! - [`write()`]: `report.html`, `results.csv`, `series.csv`, `requests.csv`, `results.json` in the run's directory
//! - [`compare`]: two runs, cell by cell, for a build

mod chart;
mod charts;
pub mod compare;
mod csv;
pub(crate) mod html;
mod sweep;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::figures::{CellSeries, Figures};
use crate::record::{RecordError, RunDirectory};
use crate::verdict::{SystemVerdict, Verdict, contrast, systems};

/// The page.
pub const PAGE: &str = "report.html";
/// Every figure, as JSON.
pub const RESULTS: &str = "results.json";

/// What a run came to (`results.json`).
#[derive(Debug, Deserialize, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// What its random choices were made from.
    pub seed: u64,
    /// A line for each cell.
    pub systems: Vec<SystemVerdict>,
    /// What those that failed or age have in common, and no other has.
    pub contrast: Vec<(String, String)>,
    /// Each cell, each time.
    pub cells: Vec<CellResult>,
}

/// What a cell came to, once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CellResult {
    /// The verdict.
    pub verdict: Verdict,
    /// The figures.
    pub figures: Figures,
}

/// A cell, with all that is drawn.
#[derive(Debug)]
struct CellReport {
    figures: Figures,
    verdict: Verdict,
    series: CellSeries,
    repetitions: bool,
}

impl CellReport {
    /// Its name; with the repetition if there are several.
    fn title(&self) -> String {
        let name =
            if self.figures.cell.is_empty() { &self.figures.system } else { &self.figures.cell };
        if self.repetitions {
            format!("{name}, run {}", self.figures.repetition)
        } else {
            name.clone()
        }
    }
}

/// A run, with all that is drawn.
#[derive(Debug)]
struct RunReport {
    results: Results,
    cells: Vec<CellReport>,
    experiment: String,
}

/// A time of a cell: `90 s`, `12.5 min`; before the start with a minus.
fn clock(seconds: f64) -> String {
    crate::words::seconds(seconds)
}

impl RunReport {
    fn read(run: &RunDirectory) -> Result<Self, RecordError> {
        let experiment = run.experiment()?;
        let mut cells = Vec::new();
        for cell in run.cells()? {
            let (figures, series) = Figures::read(&cell, &experiment)?;
            let verdict = Verdict::of(&figures);
            cells.push(CellReport {
                figures,
                verdict,
                series,
                repetitions: experiment.repetitions > 1,
            });
        }
        let each = cells.iter().map(|cell| (cell.figures.clone(), cell.verdict.clone()));
        let each: Vec<(Figures, Verdict)> = each.collect();
        let systems = systems(&each);
        let results = Results {
            experiment: experiment.name,
            seed: experiment.seed,
            contrast: contrast(&systems),
            systems,
            cells: each
                .into_iter()
                .map(|(figures, verdict)| CellResult { verdict, figures })
                .collect(),
        };
        Ok(Self { results, cells, experiment: run.experiment_text()? })
    }
}

impl Results {
    /// Of a run's directory, from its records; or of a `results.json` that was kept.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        if path.is_dir() {
            return Ok(RunReport::read(&RunDirectory::open(path)?)?.results);
        }
        let at = |source| RecordError::File { path: path.to_owned(), source };
        let text = fs::read_to_string(path).map_err(at)?;
        serde_json::from_str(&text).map_err(|error| RecordError::Damaged {
            path: path.to_owned(),
            line: error.line(),
            why: error.to_string(),
        })
    }
}

/// Writes the report of a run into its directory, also of one that is not complete. What it came to, and where the page
/// is.
///
/// # Errors
/// If the records can't be read, or the report can't be written.
pub fn write(directory: &Path) -> Result<(Results, PathBuf), RecordError> {
    let run = RunReport::read(&RunDirectory::open(directory)?)?;
    let put = |name: &str, text: String| {
        let path = directory.join(name);
        match fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(RecordError::File { path, source }),
        }
    };
    let json = serde_json::to_string_pretty(&run.results).expect("figures are JSON");
    put(RESULTS, json + "\n")?;
    put("results.csv", csv::results(&run))?;
    put("series.csv", csv::series(&run))?;
    put("requests.csv", csv::requests(&run))?;
    let page = put(PAGE, html::page(&run))?;
    Ok((run.results, page))
}
