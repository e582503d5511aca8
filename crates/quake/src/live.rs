//! The picture of a cell while it runs: goodput, latency, memory and what happened. It draws nothing: whoever has a
//! terminal prints its lines.

use std::collections::VecDeque;

use crate::record::{Event, Happening, MergedSecond, Quantiles, SystemSecond};
use crate::report::html::told;
use crate::words;

/// Seconds that are kept for the picture: the width of a wide terminal.
const SECONDS: usize = 240;
/// Events that are shown.
const EVENTS: usize = 5;
/// Columns beside a sparkline: its name, and its last value.
const BESIDE: usize = 12 + 2 + 26;
/// From lowest to highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The picture of a cell.
#[derive(Debug)]
pub struct Live {
    title: String,
    second: u32,
    right: u64,
    goodput: VecDeque<f64>,
    bad: VecDeque<f64>,
    latency: VecDeque<f64>,
    memory: VecDeque<f64>,
    lag: u64,
    generator: f64,
    events: VecDeque<String>,
}

fn keep(to: &mut VecDeque<f64>, value: f64) {
    to.push_back(value);
    if to.len() > SECONDS {
        to.pop_front();
    }
}

impl Live {
    /// Of a cell with this title: its name, and which of how many.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            second: 0,
            right: 0,
            goodput: VecDeque::new(),
            bad: VecDeque::new(),
            latency: VecDeque::new(),
            memory: VecDeque::new(),
            lag: 0,
            generator: 0.0,
            events: VecDeque::new(),
        }
    }

    /// What agents saw of a second, and what was seen of the system, if that is known.
    pub fn observe(&mut self, load: &MergedSecond, system: Option<&SystemSecond>) {
        self.second = load.second;
        self.right += load.outcomes.right;
        keep(&mut self.goodput, load.outcomes.right as f64);
        keep(&mut self.bad, (load.outcomes.total() - load.outcomes.right) as f64);
        let p99 = Quantiles::of(&load.latency).map_or(f64::NAN, |of| of.p99 as f64);
        keep(&mut self.latency, p99);
        let memory = system.map(|of| of.processes.values().map(|of| of.all.memory).sum::<u64>());
        keep(&mut self.memory, memory.map_or(f64::NAN, |of| of as f64));
        self.lag = load.lag;
        self.generator = load.processor as f64 / 1e6;
    }

    /// Something that happened: its line, for where no picture is drawn.
    pub fn event(&mut self, event: &Event) -> String {
        let line = format!("{:>8}  {}", words::seconds(event.at), told(&event.what));
        if !matches!(event.what, Happening::Started { .. }) {
            self.events.push_back(line.clone());
        }
        if self.events.len() > EVENTS {
            self.events.pop_front();
        }
        line
    }

    /// The picture, no wider than so many columns; always as many lines while nothing happens.
    pub fn picture(&self, columns: usize) -> Vec<String> {
        let width = columns.saturating_sub(BESIDE).clamp(1, SECONDS);
        let row = |name: &str, values: &VecDeque<f64>, unit: fn(f64) -> String| {
            let last = values.back().copied().filter(|of| !of.is_nan());
            let last = last.map_or("-".to_owned(), unit);
            format!("{name:<12}  {:<width$}  {last}", sparkline(values, width))
        };
        let a_second = |of: f64| format!("{}/s", words::number(of));
        let mut lines = vec![
            format!("{}, {}", self.title, words::seconds(f64::from(self.second))),
            row("goodput", &self.goodput, a_second),
            row("not right", &self.bad, a_second),
            row("latency 99 %", &self.latency, words::micros_of),
            row("memory", &self.memory, words::bytes),
            format!(
                "{} right answers; generator: lag {}, {} of a processor",
                words::count(self.right),
                words::micros(self.lag),
                words::number(self.generator)
            ),
        ];
        lines.extend(self.events.iter().cloned());
        for line in &mut lines {
            if let Some((end, _)) = line.char_indices().nth(columns) {
                line.truncate(end);
            }
        }
        lines
    }

    /// The same in one line, for where no picture is drawn: once every so many seconds.
    pub fn line(&self) -> String {
        let last = |of: &VecDeque<f64>| of.back().copied().filter(|of| !of.is_nan());
        let told = |of: Option<f64>, unit: fn(f64) -> String| of.map_or("-".to_owned(), unit);
        format!(
            "{:>8}  {}/s right, {}/s not, 99 % in {}, memory {}, lag {}",
            words::seconds(f64::from(self.second)),
            told(last(&self.goodput), words::number),
            told(last(&self.bad), words::number),
            told(last(&self.latency), words::micros_of),
            told(last(&self.memory), words::bytes),
            words::micros(self.lag)
        )
    }
}

/// The last values as bars from 0 on; a gap where nothing is known.
fn sparkline(values: &VecDeque<f64>, width: usize) -> String {
    let shown = || values.iter().skip(values.len().saturating_sub(width)).copied();
    let most = shown().filter(|of| !of.is_nan()).fold(0.0, f64::max);
    let bar = |of: f64| {
        if of.is_nan() {
            return ' ';
        }
        let part = if most > 0.0 { of / most } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
        let at = (part * 7.0).round() as usize;
        BARS[at.min(7)]
    };
    shown().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcomes, ProcessSample, Resources};

    fn live(rights: &[u64]) -> Live {
        let mut live = Live::new("heap=64m, 1 of 3");
        for (second, right) in rights.iter().enumerate() {
            let mut load = MergedSecond::new(u32::try_from(second).expect("few"));
            load.outcomes = Outcomes { right: *right, error: 1, ..Outcomes::default() };
            load.latency.record_n(1500, *right).expect("it grows");
            let sample = ProcessSample {
                pid: 1,
                all: Resources { memory: 64 << 20, ..Resources::default() },
                ..ProcessSample::default()
            };
            let processes = [("server".to_owned(), sample)].into();
            let system = SystemSecond { processes, ..SystemSecond::default() };
            live.observe(&load, (second > 0).then_some(&system));
        }
        live
    }

    #[test]
    fn the_last_seconds_are_bars_from_0_on() {
        let picture = live(&[0, 100, 200, 700]).picture(80);
        assert_eq!(picture[0], "heap=64m, 1 of 3, 3 s");
        assert!(picture[1].starts_with("goodput       ▁▂▃█"), "{}", picture[1]);
        assert!(picture[1].ends_with("700/s"), "{}", picture[1]);
        assert!(picture[3].starts_with("latency 99 %   ███"), "the first has none: {}", picture[3]);
        assert!(picture[3].ends_with("1.5 ms"), "{}", picture[3]);
        assert!(picture[4].starts_with("memory         ███") && picture[4].ends_with("64 MiB"));
        assert_eq!(picture[5], "1,000 right answers; generator: lag 0 µs, 0 of a processor");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_events_are_the_last() {
        let mut live = live(&[700; 300]);
        for at in 0..9 {
            let what = Happening::Rejuvenated { because: "throughput fell ".repeat(9) };
            let line = live.event(&Event { at: f64::from(at), what });
            assert!(line.contains("rejuvenated: throughput"), "{line}");
        }
        for columns in [20, 60, 200] {
            let picture = live.picture(columns);
            assert_eq!(picture.len(), 6 + EVENTS);
            assert!(picture.iter().all(|line| line.chars().count() <= columns), "{picture:#?}");
        }
        assert!(live.picture(80)[10].starts_with("     8 s"), "{:#?}", live.picture(80));
    }

    #[test]
    fn why_a_stress_ended_is_shown() {
        let mut live = live(&[700]);
        let short = Some("it ended before its time: signal 9".to_owned());
        let what = Happening::Stress { resource: "memory".to_owned(), on: false, short };
        live.event(&Event { at: 7.0, what });
        let told = "     7 s  stress of memory ended: it ended before its time: signal 9";
        assert_eq!(live.picture(80).last().map(String::as_str), Some(told));
    }

    #[test]
    fn a_line_tells_what_the_picture_shows() {
        let line = live(&[100, 700]).line();
        assert_eq!(line, "     1 s  700/s right, 1/s not, 99 % in 1.5 ms, memory 64 MiB, lag 0 µs");
    }
}
