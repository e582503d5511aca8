//! Charts over time as inline SVG: shapes with classes, so that the page's style gives them colours for light and dark.

use std::fmt::Write as _;

use super::html::escaped;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 6.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 20.0;
/// How many places of a chart tell their values when a pointer is over them.
const PLACES: usize = 60;
/// How many rows the table of a chart has.
const ROWS: usize = 30;

/// A line of a chart.
#[derive(Debug)]
pub(super) struct Line {
    /// What it is called.
    pub(super) name: String,
    /// Its class: colour and dashes.
    pub(super) class: String,
    /// Seconds and values, in the order of time; none where nothing was seen.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// What lies between two lines.
#[derive(Debug)]
pub(super) struct Band {
    pub(super) class: String,
    /// Seconds, lower and upper value.
    pub(super) points: Vec<(f64, Option<(f64, f64)>)>,
}

/// Something that happened: at a moment, or for a span.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// `fault`, `stress`, `failure`, `restart`, `agent`.
    pub(super) class: &'static str,
    /// A letter, for those who don't see colours.
    pub(super) letter: char,
    pub(super) words: String,
    pub(super) from: f64,
    pub(super) to: Option<f64>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scale {
    /// By steps of 1, 2 or 5.
    Linear,
    /// By powers of two: bytes.
    Binary,
    /// By seconds, minutes, hours.
    Time,
    /// Logarithmic.
    Decades,
}

/// A chart over the seconds of a cell.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    /// How a value is written.
    pub(super) unit: fn(f64) -> String,
    pub(super) scale: Scale,
    pub(super) lines: Vec<Line>,
    pub(super) bands: Vec<Band>,
    pub(super) marks: &'a [Mark],
    /// The last second.
    pub(super) until: f64,
    /// What the places 0, 1 and so on are called, if it is not over seconds.
    pub(super) labels: Vec<String>,
    /// The greatest value; none: as the lines have it.
    pub(super) top: Option<f64>,
    /// What the generator itself did meanwhile, or another note.
    pub(super) note: String,
}

/// From values to places.
struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    fn part(&self, value: f64) -> f64 {
        let is_log = self.scale == Scale::Decades;
        let on = |of: f64| if is_log { of.max(self.low).log10() } else { of };
        ((on(value) - on(self.low)) / (on(self.high) - on(self.low))).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.part(value) * (HEIGHT - BOTTOM - TOP)
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.part(value) * (WIDTH - LEFT - RIGHT)
    }

    /// The distance of round values, of which there are about so many; decades have a factor.
    fn step(&self, about: f64) -> f64 {
        let rough = (self.high - self.low) / about;
        let decade = 10_f64.powf(rough.log10().floor());
        let next = |steps: &[f64]| steps.iter().copied().find(|step| *step >= rough * 0.999);
        let round = next(&[1.0, 2.0, 5.0, 10.0].map(|step| step * decade));
        let clock = [60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0, 21_600.0, 86_400.0];
        match self.scale {
            Scale::Decades => 10.0,
            Scale::Binary => 2_f64.powf(rough.log2().ceil()),
            Scale::Time if rough > 20.0 => next(&clock).or(round).unwrap_or(rough),
            Scale::Linear | Scale::Time => round.unwrap_or(rough),
        }
    }

    /// Round values on it.
    fn ticks(&self, about: f64) -> Vec<f64> {
        let (step, is_log) = (self.step(about), self.scale == Scale::Decades);
        let first = if is_log {
            10_f64.powf(self.low.log10().ceil())
        } else {
            (self.low / step).ceil() * step
        };
        let next = |tick: &f64| Some(if is_log { tick * step } else { tick + step });
        std::iter::successors(Some(first), next)
            .take_while(|tick| *tick <= self.high * 1.0001)
            .collect()
    }
}

/// A time on an axis with such steps.
fn time(at: f64, step: f64) -> String {
    let (unit, name) = match step {
        86_400.0.. => (86_400.0, "d"),
        3600.0.. => (3600.0, "h"),
        60.0.. => (60.0, "min"),
        _ => (1.0, "s"),
    };
    format!("{} {name}", crate::words::number(at / unit))
}

impl Chart<'_> {
    /// The greatest value of its lines and bands.
    pub(super) fn highest(&self) -> f64 {
        let lines = self.lines.iter().flat_map(|line| line.points.iter().filter_map(|at| at.1));
        let bands = self.bands.iter().flat_map(|band| &band.points);
        lines.chain(bands.filter_map(|at| Some(at.1?.1))).fold(0.0, f64::max)
    }

    fn axes(&self) -> (Axis, Axis) {
        let highest = self.top.unwrap_or_else(|| self.highest());
        let values = self.lines.iter().flat_map(|line| line.points.iter().filter_map(|at| at.1));
        let least = values.filter(|value| *value > 0.0).fold(highest.max(1.0), f64::min);
        let (low, high) = if self.scale == Scale::Decades {
            let down = |of: f64| 10_f64.powf(of.log10().floor());
            (down(least), down(highest.max(least)) * 10.0)
        } else {
            (0.0, if highest > 0.0 { highest * 1.05 } else { 1.0 })
        };
        let x = Axis { low: 0.0, high: self.until.max(1.0), scale: Scale::Time };
        (x, Axis { low, high, scale: self.scale })
    }

    /// A place of the axis across, in words.
    fn across(&self, at: f64) -> String {
        if self.labels.is_empty() {
            return super::clock(at);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one of a few")]
        self.labels.get(at.round() as usize).cloned().unwrap_or_default()
    }

    /// Places of the axis across that have words.
    fn places_across(&self, x: &Axis) -> Vec<f64> {
        if self.labels.is_empty() {
            return x.ticks(5.0);
        }
        (0..self.labels.len()).map(|at| at as f64).collect()
    }

    /// The drawing alone.
    pub(super) fn svg(&self) -> String {
        let (x, y) = self.axes();
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escaped(&self.described())
        );
        for tick in y.ticks(4.0) {
            let (at, label) = (y.y(tick), (self.unit)(tick));
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 4.0,
                at + 3.0,
                escaped(&label)
            );
        }
        for tick in self.places_across(&x) {
            let label = match self.labels.is_empty() {
                true => time(tick, x.step(5.0)),
                false => escaped(&self.across(tick)),
            };
            let at = x.x(tick);
            let anchor = if at > WIDTH - 30.0 { "end" } else { "middle" };
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
                HEIGHT - 6.0
            );
        }
        for mark in self.marks {
            drawn(&mut svg, mark, &x);
        }
        for band in &self.bands {
            let _ =
                write!(svg, "<path class=\"band {}\" d=\"{}\"/>", band.class, band.path(&x, &y));
        }
        for line in &self.lines {
            let _ =
                write!(svg, "<path class=\"line {}\" d=\"{}\"/>", line.class, line.path(&x, &y));
        }
        self.places(&mut svg, &x);
        svg.push_str("</svg>");
        svg
    }

    /// In words, for those who can't see it: first, last, least and greatest value of each line.
    fn described(&self) -> String {
        let mut text = self.title.clone();
        for line in &self.lines {
            let values: Vec<f64> = line.points.iter().filter_map(|at| at.1).collect();
            let (Some(first), Some(last)) = (values.first(), values.last()) else { continue };
            let of = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
            let (least, most) = (of(f64::min).unwrap_or(*first), of(f64::max).unwrap_or(*first));
            let [first, last, least, most] = [*first, *last, least, most].map(self.unit);
            let _ =
                write!(text, "; {}: from {first} to {last}, between {least} and {most}", line.name);
        }
        text
    }

    /// Columns that tell their values.
    fn places(&self, svg: &mut String, x: &Axis) {
        let at: Vec<f64> = self.seconds();
        let Some(first) = at.first() else { return };
        let each = at.len().div_ceil(PLACES).max(1);
        for (number, second) in at.iter().enumerate().step_by(each) {
            let next = at.get(number + each).copied().unwrap_or(self.until.max(*first));
            let (left, right) = (x.x(*second), x.x(next));
            let mut words = self.across(*second);
            for (name, value) in self.values_at(*second) {
                let _ = write!(words, "\n{name}: {value}");
            }
            let _ = write!(
                svg,
                "<rect class=\"at\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{}</title></rect>",
                (right - left).max(1.0),
                HEIGHT - BOTTOM - TOP,
                escaped(&words)
            );
        }
    }

    /// All seconds of its lines.
    fn seconds(&self) -> Vec<f64> {
        let points = self.lines.iter().flat_map(|line| line.points.iter().map(|at| at.0));
        let mut at: Vec<f64> = points.collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        at
    }

    fn values_at(&self, second: f64) -> Vec<(&str, String)> {
        let value = |line: &Line| {
            let at = line.points.binary_search_by(|point| point.0.total_cmp(&second)).ok()?;
            line.points[at].1.map(self.unit)
        };
        self.lines.iter().filter_map(|line| Some((&*line.name, value(line)?))).collect()
    }

    /// With its title, a legend, the note and a table of the same.
    pub(super) fn figure(&self) -> String {
        let mut html = format!("<figure><figcaption>{}</figcaption>", escaped(&self.title));
        html.push_str("<ul class=\"legend\">");
        for line in &self.lines {
            let _ = write!(
                html,
                "<li><svg viewBox=\"0 0 20 8\" aria-hidden=\"true\"><path class=\"line {}\" \
                 d=\"M0 4H20\"/></svg> {}</li>",
                line.class,
                escaped(&line.name)
            );
        }
        html.push_str("</ul>");
        html.push_str(&self.svg());
        let _ = write!(html, "<p class=\"note\">{}</p>", escaped(&self.note));
        html.push_str(&self.table());
        html.push_str("</figure>\n");
        html
    }

    fn table(&self) -> String {
        let at = self.seconds();
        let each = at.len().div_ceil(ROWS).max(1);
        let mut html =
            String::from("<details><summary>as a table</summary><div class=\"scroll\"><table>");
        let names: String = self
            .lines
            .iter()
            .map(|line| format!("<th scope=\"col\">{}", escaped(&line.name)))
            .collect();
        let _ = write!(html, "<thead><tr><th scope=\"col\">at{names}</thead><tbody>");
        for second in at.iter().step_by(each) {
            let _ = write!(html, "<tr><th scope=\"row\">{}", escaped(&self.across(*second)));
            let values = self.values_at(*second);
            for line in &self.lines {
                let value = values.iter().find(|(name, _)| *name == line.name);
                let _ = write!(html, "<td>{}", value.map_or(String::new(), |(_, of)| escaped(of)));
            }
        }
        html.push_str("</tbody></table></div></details>");
        html
    }
}

fn drawn(svg: &mut String, mark: &Mark, x: &Axis) {
    let words = escaped(&mark.words);
    let (from, class) = (x.x(mark.from), mark.class);
    let (top, bottom) = (TOP, HEIGHT - BOTTOM);
    let _ = write!(svg, "<g class=\"mark {class}\"><title>{words}</title>");
    if let Some(to) = mark.to {
        let width = (x.x(to) - from).max(1.5);
        let height = bottom - top;
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }
    // What comes one after the other does not stand one upon the other.
    let anchor = match class {
        "fault" => "end",
        "restart" => "start",
        _ => "middle",
    };
    let _ = write!(
        svg,
        "<path d=\"M{from:.1} {top}V{bottom}\"/><text x=\"{from:.1}\" y=\"{:.1}\" \
         text-anchor=\"{anchor}\">{}</text></g>",
        top - 4.0,
        mark.letter
    );
}

impl Line {
    fn path(&self, x: &Axis, y: &Axis) -> String {
        let (mut path, mut pen) = (String::new(), 'M');
        for (second, value) in &self.points {
            match value {
                Some(value) => {
                    let _ = write!(path, "{pen}{:.1} {:.1}", x.x(*second), y.y(*value));
                    pen = 'L';
                }
                None => pen = 'M',
            }
        }
        // A line of one point is a dot.
        if self.points.iter().filter(|at| at.1.is_some()).count() == 1 { path + "h1" } else { path }
    }
}

impl Band {
    fn path(&self, x: &Axis, y: &Axis) -> String {
        let mut path = String::new();
        let pieces = self.points.split(|at| at.1.is_none());
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            let place = |second: f64, value: f64| format!("{:.1} {:.1}", x.x(second), y.y(value));
            let upper = piece.iter().filter_map(|at| Some(place(at.0, at.1?.1)));
            let lower = piece.iter().rev().filter_map(|at| Some(place(at.0, at.1?.0)));
            let _ = write!(path, "M{}Z", upper.chain(lower).collect::<Vec<_>>().join("L"));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: f64, high: f64, scale: Scale) -> Axis {
        Axis { low, high, scale }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(axis(0.0, 2400.0, Scale::Linear).ticks(4.0), [0.0, 1000.0, 2000.0]);
        assert_eq!(axis(0.0, 61.0, Scale::Time).ticks(5.0), [0.0, 20.0, 40.0, 60.0]);
        let mebibytes = axis(0.0, 400e6, Scale::Binary).ticks(4.0);
        assert_eq!(mebibytes, [0, 128 << 20, 256 << 20].map(f64::from));
        let minutes = axis(0.0, 300.0, Scale::Time);
        let told: Vec<String> =
            minutes.ticks(5.0).iter().map(|at| time(*at, minutes.step(5.0))).collect();
        assert_eq!(told, ["0 min", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        let decades = axis(100.0, 1e5, Scale::Decades).ticks(4.0);
        assert_eq!(decades, [100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn values_have_their_places_and_gaps_stay_open() {
        let (x, y) = (axis(0.0, 10.0, Scale::Linear), axis(0.0, 100.0, Scale::Linear));
        let points = vec![(0.0, Some(0.0)), (5.0, Some(100.0)), (6.0, None), (10.0, Some(50.0))];
        let line = Line { name: "right".to_owned(), class: "c1".to_owned(), points };
        assert_eq!(line.path(&x, &y), "M46.0 170.0L220.0 16.0M394.0 93.0");
        let log = axis(100.0, 10_000.0, Scale::Decades);
        assert!((log.part(1000.0) - 0.5).abs() < 1e-9);
        assert_eq!(log.part(0.0), 0.0, "nothing is below the least");
    }

    #[test]
    fn a_chart_tells_its_values_and_marks_without_being_seen() {
        let points = vec![(0.0, Some(10.0)), (1.0, Some(30.0)), (2.0, Some(20.0))];
        let marks = [Mark {
            class: "fault",
            letter: 'K',
            words: "kill of <server>".to_owned(),
            from: 1.0,
            to: None,
        }];
        let chart = Chart {
            title: "Goodput".to_owned(),
            unit: |value| format!("{value}/s"),
            scale: Scale::Linear,
            lines: vec![Line { name: "right".to_owned(), class: "c1".to_owned(), points }],
            bands: Vec::new(),
            marks: &marks,
            until: 2.0,
            labels: Vec::new(),
            top: None,
            note: "lag 1 ms".to_owned(),
        };
        let html = chart.figure();
        for part in [
            "right: from 10/s to 20/s, between 10/s and 30/s",
            "kill of &lt;server&gt;",
            "<tr><th scope=\"row\">1 s<td>30/s",
            "lag 1 ms",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
