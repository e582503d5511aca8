//! The picture of a cell while it runs: drawn over itself on a terminal, else plain lines. On standard error.

use std::time::Duration;

use console::Term;
use fishplate_formats::units::rounded_time;
use fishplate_quake::live::Live;
use fishplate_quake::management::Observer;
use fishplate_quake::record::{
    Cell, CellDirectory, CellOutcome, Event, MergedSecond, SystemSecond,
};

use crate::output::text;

/// Without a terminal, a line of figures every so many seconds.
const EVERY: u32 = 10;

/// Shows a run on standard error. Whether anybody reads it is no concern of the run's.
#[derive(Debug)]
pub(super) struct Picture {
    live: Option<Live>,
    /// Lines that are drawn over next time.
    drawn: usize,
    terminal: Term,
}

impl Picture {
    pub(super) fn new() -> Self {
        Self { live: None, drawn: 0, terminal: Term::buffered_stderr() }
    }

    fn draw(&mut self) {
        let Some(live) = &self.live else { return };
        let (rows, columns) = self.terminal.size();
        let mut lines = live.picture(columns.into());
        lines.truncate(usize::from(rows).saturating_sub(1));
        let _ = self.terminal.clear_last_lines(self.drawn);
        for line in &lines {
            let _ = self.terminal.write_line(&text::harmless(line));
        }
        let _ = self.terminal.flush();
        self.drawn = lines.len();
    }

    /// A line that stays.
    fn note(&mut self, line: &str) {
        let _ = self.terminal.write_line(&text::harmless(line));
        let _ = self.terminal.flush();
        self.drawn = 0;
    }
}

impl Observer for Picture {
    fn complete(&mut self, cells: usize) {
        self.note(&format!(
            "nothing is run: all cells ({cells}) are complete there; for a new run name another directory (--report)"
        ));
    }

    fn waits(&mut self, what: &str, at_most: Duration) {
        let millis = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        self.note(&format!("waiting for {what}, at most {}", rounded_time(millis)));
    }

    fn begins(&mut self, cell: &Cell, number: usize, of: usize) {
        let values: Vec<String> =
            cell.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let values = if values.is_empty() { "the one cell".to_owned() } else { values.join(",") };
        let title = format!("{values}, run {} ({number} of {of})", cell.repetition);
        if !self.terminal.is_term() {
            self.note(&title);
        }
        (self.live, self.drawn) = (Some(Live::new(&title)), 0);
    }

    fn second(&mut self, load: &MergedSecond, system: &SystemSecond) {
        let Some(live) = &mut self.live else { return };
        live.observe(load, Some(system));
        if self.terminal.is_term() {
            self.draw();
        } else if load.second.is_multiple_of(EVERY) {
            let line = live.line();
            self.note(&line);
        }
    }

    fn event(&mut self, event: &Event) {
        let Some(live) = &mut self.live else { return };
        let line = live.event(event);
        if self.terminal.is_term() {
            self.draw();
        } else {
            self.note(&line);
        }
    }

    fn ended(&mut self, cell: &CellDirectory, outcome: Result<&CellOutcome, &str>) {
        let how = match outcome {
            Ok(outcome) => format!("ended: {}", outcome.ended),
            Err(why) => format!("{} was not run: {why}", cell.name()),
        };
        self.note(&how);
        self.live = None;
    }
}
