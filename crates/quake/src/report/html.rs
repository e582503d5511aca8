//! One page: no script, nothing fetched, light and dark, as narrow as a phone.

use std::fmt::Write as _;

use super::chart::{Chart, Mark};
use super::{CellReport, RunReport, charts, clock, sweep};
use crate::figures::Figures;
use crate::record::{Event, Happening, Outcome, Outcomes, Quantiles};
use crate::verdict::{amount, slope};
use crate::words;

const STYLE: &str = include_str!("style.css");
/// Cells of a run that are open when the page is; others unfold.
const OPEN: usize = 3;

/// Text as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            _ => html.push(character),
        }
    }
    html
}

/// The page of a run.
pub(super) fn page(run: &RunReport) -> String {
    let title = escaped(&run.results.experiment);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>QUAKE: {title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>QUAKE: {title}</h1>\n"
    );
    verdicts(&mut html, run);
    html.push_str("</header>\n<main>\n");
    overview(&mut html, run);
    for (at, cell) in run.cells.iter().enumerate() {
        self::cell(&mut html, run, at, cell);
    }
    environment(&mut html, run);
    repeat(&mut html, run);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn class_of(is_bad: bool, word: &str) -> &'static str {
    match word {
        _ if is_bad => "bad",
        "flat" | "no failure" => "good",
        _ => "unsure",
    }
}

fn verdicts(html: &mut String, run: &RunReport) {
    html.push_str("<ul class=\"verdicts\">\n");
    for system in &run.results.systems {
        let class = class_of(system.kind.is_bad(), &system.kind.word());
        let _ = writeln!(html, "<li class=\"{class}\">{}", escaped(&system.line));
    }
    html.push_str("</ul>\n");
    if !run.results.contrast.is_empty() {
        let contrast: Vec<String> =
            run.results.contrast.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let _ = writeln!(
            html,
            "<p>All of those that failed or age, and no other, have <strong>{}</strong>.</p>",
            escaped(&contrast.join(" and "))
        );
    }
}

/// The cells beside each other: a table, and the same small charts with the same axes.
fn overview(html: &mut String, run: &RunReport) {
    html.push_str(
        "<section><h2>All cells</h2>\n<div class=\"scroll overview\"><table>\n<thead><tr>",
    );
    for column in [
        "cell",
        "verdict",
        "right",
        "goodput",
        "median",
        "99 %",
        "available",
        "memory",
        "a request",
        "lag",
        "generator",
    ] {
        let _ = write!(html, "<th scope=\"col\">{column}");
    }
    html.push_str("\n<tbody>");
    for (at, cell) in run.cells.iter().enumerate() {
        let (figures, verdict) = (&cell.figures, &cell.verdict);
        let latency = figures.latency.unwrap_or_default();
        let memory = figures.ageing.iter().find(|of| of.resource == "memory");
        let per = memory.and_then(|of| of.ageing.per_request);
        let word = verdict.kind.word();
        let columns = [
            words::count(figures.outcomes.right),
            format!("{}/s", words::number(figures.goodput)),
            words::micros(latency.p50),
            words::micros(latency.p99),
            figures.availability_clients.map_or(String::new(), words::percent),
            words::bytes(figures.memory_peak as f64),
            per.map_or(String::new(), |per| {
                format!("{} to {}", words::bytes(per.lower), words::bytes(per.upper))
            }),
            words::micros(figures.generator.lag_max),
            format!("{} of one", words::share(figures.generator.processor)),
        ];
        let _ = write!(
            html,
            "<tr><th scope=\"row\"><a href=\"#cell{at}\">{}</a><td class=\"{}\">{word}",
            escaped(&cell.title()),
            class_of(verdict.kind.is_bad(), &word)
        );
        for column in columns {
            let _ = write!(html, "<td>{}", escaped(&column));
        }
    }
    html.push_str("</table></div>\n<p class=\"note\">Memory: the most of all processes, and growth a request within \
                   95 %. Available: requests with a right answer in time, of all. Lag: the longest that a request began after its time. Generator: its processor time.</p>\n");
    if run.cells.len() > 1 {
        small(html, run, "Goodput", charts::goodput);
        small(html, run, "Memory", charts::memory);
    }
    for (name, charts) in sweep::all(run) {
        let _ = writeln!(html, "<h3>By {}</h3>\n<div class=\"charts\">", escaped(&name));
        charts.iter().for_each(|chart| html.push_str(&chart.figure()));
        html.push_str("</div>\n");
    }
    html.push_str("</section>\n");
}

type Draw = for<'a> fn(&Figures, &crate::figures::CellSeries, &'a [Mark]) -> Chart<'a>;

/// A small chart of each cell, with the same axes for all.
fn small(html: &mut String, run: &RunReport, title: &str, draw: Draw) {
    let marks: Vec<Vec<Mark>> =
        run.cells.iter().map(|cell| charts::marks(&cell.figures, &cell.series)).collect();
    let cells = run.cells.iter().zip(&marks);
    let drawn = cells.map(|(cell, marks)| draw(&cell.figures, &cell.series, marks));
    let mut drawn: Vec<Chart<'_>> = drawn.collect();
    let top = drawn.iter().map(Chart::highest).fold(0.0, f64::max);
    let until = drawn.iter().map(|chart| chart.until).fold(0.0, f64::max);
    let _ = writeln!(html, "<h3>{title}, the same axes for all</h3>\n<div class=\"small\">");
    for (at, chart) in drawn.iter_mut().enumerate() {
        (chart.top, chart.until) = (Some(top), until);
        let cell = &run.cells[at];
        chart.title = format!("{title} of {}", cell.title());
        let _ = writeln!(
            html,
            "<figure><figcaption><a href=\"#cell{at}\">{}</a></figcaption>{}</figure>",
            escaped(&cell.title()),
            chart.svg()
        );
    }
    html.push_str("</div>\n");
}

fn cell(html: &mut String, run: &RunReport, at: usize, cell: &CellReport) {
    let open = if run.cells.len() <= OPEN || cell.verdict.kind.is_bad() { " open" } else { "" };
    let word = cell.verdict.kind.word();
    let _ = writeln!(
        html,
        "<section><details{open}><summary><h2>{} <span class=\"{}\">{word}</span></h2></summary>\n\
         <p class=\"sentence\" id=\"cell{at}\">{}</p>",
        escaped(&cell.title()),
        class_of(cell.verdict.kind.is_bad(), &word),
        escaped(&cell.verdict.sentence)
    );
    let marks = charts::marks(&cell.figures, &cell.series);
    legend(html, &marks);
    html.push_str("<div class=\"charts\">\n");
    for chart in charts::all(&cell.figures, &cell.series, &marks) {
        html.push_str(&chart.figure());
    }
    html.push_str("</div>\n");
    figures(html, &cell.figures);
    ageing(html, &cell.figures);
    stresses(html, &cell.figures);
    failures(html, &cell.figures);
    events(html, &cell.series.events);
    html.push_str("</details></section>\n");
}

/// What the marks in the charts mean.
fn legend(html: &mut String, marks: &[Mark]) {
    let kinds = [
        ("failure", '✕', "failure"),
        ("fault", 'F', "fault injected"),
        ("stress", 'S', "stress"),
        ("restart", '↻', "started again"),
        ("restart", 'R', "rejuvenated"),
        ("agent", 'A', "agent lost"),
    ];
    let there = |(class, letter, _): &&(&str, char, &str)| {
        marks.iter().any(|mark| mark.class == *class && mark.letter == *letter)
    };
    let there: Vec<_> = kinds.iter().filter(there).collect();
    if there.is_empty() {
        return;
    }
    html.push_str("<p class=\"marks\">In all charts: ");
    for (class, letter, words) in there {
        let _ = write!(html, "<span class=\"mark {class}\">{letter} {words}</span> ");
    }
    html.push_str("</p>\n");
}

/// Rows of a name and a value.
fn pairs(html: &mut String, title: &str, rows: &[(String, String)]) {
    let _ = writeln!(html, "<h3>{title}</h3>\n<div class=\"scroll\"><table class=\"pairs\">");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(html, "<tr><th scope=\"row\">{}<td>{}", escaped(name), escaped(value));
    }
    html.push_str("</table></div>\n");
}

fn figures(html: &mut String, of: &Figures) {
    let quantiles = |of: Option<Quantiles>| {
        of.map_or("nothing was answered".to_owned(), |of| {
            let [p50, p90, p99, p999, max] =
                [of.p50, of.p90, of.p99, of.p999, of.max].map(words::micros);
            format!("median {p50}, 90 % {p90}, 99 % {p99}, 99.9 % {p999}, longest {max}")
        })
    };
    let outcomes = |of: &Outcomes| {
        let kinds = Outcome::ALL.into_iter().filter(|kind| of.count(*kind) > 0);
        let told = kinds.map(|kind| format!("{} {}", words::count(of.count(kind)), kind.word()));
        told.collect::<Vec<_>>().join(", ")
    };
    let row = |name: &str, value: String| (name.to_owned(), value);
    let (first, last) = of.goodput_first_last;
    let (memory_first, memory_last) = of.generator.memory_first_last;
    let mut rows = vec![
        row("Ended", of.ended.clone().unwrap_or_else(|| "not complete".to_owned())),
        row("Lasted", words::seconds(of.seconds)),
        row("Requests", format!("{} begun: {}", words::count(of.begun), outcomes(&of.outcomes))),
        row(
            "Goodput",
            format!(
                "{} a second; median {}, first tenth {}, last tenth {}, baseline {}",
                words::number(of.goodput),
                words::number(of.goodput_median),
                words::number(first),
                words::number(last),
                words::number(of.baseline)
            ),
        ),
        row("Latency of answers", quantiles(of.latency)),
        row("Latency, corrected", quantiles(of.latency_corrected)),
        row("Service time", quantiles(of.service)),
        row("Without an answer", without_answer(of)),
        row("Refused after", of.refusal.map_or(String::new(), |of| quantiles(Some(of)))),
        row("Available to clients", of.availability_clients.map_or(String::new(), words::percent)),
        row("Seconds served", of.seconds_served.map_or(String::new(), words::percent)),
        row("Available to the probe", of.availability_probe.map_or(String::new(), words::percent)),
        row("Processor a request, system", words::micros_of(of.processor_per_request)),
        row(
            "Generator",
            format!(
                "{}; {} agents, memory from {} to {}",
                charts::generator(of).trim_start_matches("Generator: "),
                of.generator.agents,
                words::bytes(memory_first as f64),
                words::bytes(memory_last as f64)
            ),
        ),
        row("Watching", format!("{} of a processor", words::share(of.watching))),
    ];
    if of.rejuvenations > 0 {
        let cost = words::number(of.rejuvenation_cost);
        rows.push(row(
            "Rejuvenated",
            format!("{} times, at the cost of {cost} right answers", of.rejuvenations),
        ));
    }
    for (at, which) in &of.faults_failed {
        rows.push(row("Not injected", format!("after {}, {which}", words::seconds(*at))));
    }
    if let Some(audit) = &of.audit {
        let [answered, lost, doubled, invented] =
            [audit.answered, audit.lost, audit.doubled, audit.invented].map(words::count);
        let mut told = format!(
            "of {answered} right answers {lost} lost, {doubled} doubled; {invented} invented"
        );
        if !audit.examples.is_empty() {
            let _ = write!(told, ": {}; all in requests.csv", audit.examples.join(", "));
        }
        rows.push(row("Audit", told));
    }
    if !of.wrong_requests.is_empty() {
        let first: Vec<String> = of.wrong_requests.iter().map(u64::to_string).collect();
        rows.push(row("Wrong", format!("requests {}; all in requests.csv", first.join(", "))));
    }
    for (name, of) in of.operations.iter().filter(|_| of.operations.len() > 1) {
        rows.push(row(&format!("Operation {name}"), outcomes(of)));
    }
    if of.dropped_sessions > 0 {
        let told =
            format!("{} were opened that no client used again", words::count(of.dropped_sessions));
        rows.push(row("Sessions", told));
    }
    for said in &of.said {
        rows.push(row("It said", said.clone()));
    }
    pairs(html, "Figures", &rows);
}

/// What no latency of answers has in it.
fn without_answer(of: &Figures) -> String {
    let none = [Outcome::Unanswered, Outcome::Broken, Outcome::Unreachable];
    let counts = none.map(|kind| (of.outcomes.count(kind), kind.word()));
    let held_back = (of.generator.held_back, "held back".to_owned());
    let some = counts.into_iter().chain([held_back]).filter(|(count, _)| *count > 0);
    let told: Vec<String> =
        some.map(|(count, word)| format!("{} {word}", words::count(count))).collect();
    told.join(", ")
}

fn table(html: &mut String, title: &str, columns: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(html, "<h3>{title}</h3>\n<div class=\"scroll\"><table>\n<thead><tr>");
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{column}");
    }
    html.push_str("\n<tbody>");
    for row in rows {
        html.push_str("<tr>");
        for value in row {
            let _ = write!(html, "<td>{}", escaped(value));
        }
    }
    html.push_str("</table></div>\n");
}

fn ageing(html: &mut String, figures: &Figures) {
    use crate::statistics::ageing::Judgement;
    let rows: Vec<Vec<String>> = figures
        .ageing
        .iter()
        .map(|of| {
            let ageing = &of.ageing;
            let judgement = match &ageing.judgement {
                Judgement::Rising => "rises".to_owned(),
                Judgement::Flat => "flat".to_owned(),
                Judgement::Undecided(why) => format!("undecided: {why}"),
            };
            let hour = ageing.per_hour.map_or(String::new(), |per| {
                let [slope, lower, upper] =
                    [per.slope, per.lower, per.upper].map(|per| amount(per, &of.resource));
                format!("{slope} ({lower} to {upper})")
            });
            vec![
                format!("{} of {}", of.resource, of.process),
                judgement,
                amount(ageing.level, &of.resource),
                ageing.per_request.map_or(String::new(), |per| slope(per, &of.resource)),
                hour,
                format!("{} to {}", clock(ageing.since), clock(ageing.until)),
                format!("{} ({} lives)", ageing.batches, of.lives),
                words::number(ageing.z),
            ]
        })
        .collect();
    let columns = ["", "", "floor", "growth a request", "an hour, 95 %", "judged", "batches", "z"];
    table(html, "Is something used up?", &columns, &rows);
    if !rows.is_empty() {
        html.push_str(
            "<p class=\"note\">The floor of batches that are long enough not to depend on each other; Mann and Kendall's \
             test with ties and correlation (Hamed and Rao 1998), Sen's slope with 95 % bounds. z: standard deviations \
             from no trend; above 1.96 it rises.</p>\n",
        );
    }
}

fn stresses(html: &mut String, figures: &Figures) {
    let rows: Vec<Vec<String>> = figures
        .stresses
        .iter()
        .map(|of| {
            let to = of.to.map_or("the end".to_owned(), clock);
            vec![of.name.clone(), clock(of.from), to, of.short.clone().unwrap_or_default()]
        })
        .collect();
    table(html, "Stress", &["of", "from", "to", "short"], &rows);
}

fn failures(html: &mut String, figures: &Figures) {
    let time = |of: Option<f64>| of.map_or("never".to_owned(), words::seconds);
    let rows: Vec<Vec<String>> = figures
        .failures
        .iter()
        .map(|of| {
            vec![
                of.class.name().to_owned(),
                clock(of.since),
                words::count(of.after_requests),
                of.provoked_by.clone().unwrap_or_else(|| "nothing of ours".to_owned()),
                words::seconds(of.to_detect),
                match of.to_answer {
                    None if of.still_answers => "they went on".to_owned(),
                    to_answer => time(to_answer),
                },
                time(of.to_recover),
                of.cause.clone(),
            ]
        })
        .collect();
    let columns = [
        "class",
        "since",
        "after requests",
        "provoked by",
        "detected in",
        "right answers again in",
        "recovered in",
        "cause",
    ];
    table(html, "Failures", &columns, &rows);
    if figures.failures.iter().any(|of| of.released.is_some()) {
        html.push_str("<p class=\"note\">Recovery from a failure under stress counts from the end of the stress.</p>\n");
    }
}

fn events(html: &mut String, events: &[Event]) {
    let rows: Vec<Vec<String>> =
        events.iter().map(|event| vec![clock(event.at), told(&event.what)]).collect();
    html.push_str("<details><summary>All events</summary>");
    table(html, "Events", &["at", "what"], &rows);
    html.push_str("</details>\n");
}

/// An event in words.
pub(crate) fn told(what: &Happening) -> String {
    match what {
        Happening::Started { process, pid } => format!("{process} was started (process {pid})"),
        Happening::Ready => "it answers".to_owned(),
        Happening::Ended { process, code, signal, out_of_memory } => {
            let how = match (code, signal) {
                _ if *out_of_memory => "for want of memory, by the kernel".to_owned(),
                (_, Some(signal)) => format!("by signal {signal}"),
                (Some(code), None) => format!("with code {code}"),
                (None, None) => "nobody knows how".to_owned(),
            };
            format!("{process} ended, {how}")
        }
        Happening::Fault { action, process } => {
            format!("fault: {} of {process}", format!("{action:?}").to_lowercase())
        }
        Happening::FaultFailed { action, process, why } => {
            let action = format!("{action:?}").to_lowercase();
            format!("no fault: {action} of {process} could not be injected: {why}")
        }
        Happening::Stress { resource, on, short } => {
            let what = if *on { "began" } else { "ended" };
            let short = short.as_ref().map_or(String::new(), |short| format!(": {short}"));
            format!("stress of {resource} {what}{short}")
        }
        Happening::Failure(of) => format!("{}: {}", of.class.name().to_owned(), of.cause),
        Happening::Answered => "first right answer".to_owned(),
        Happening::Recovered => "recovered".to_owned(),
        Happening::Rejuvenated { because } => format!("rejuvenated: {because}"),
        Happening::AgentLost { agent } => format!("agent {agent} was lost"),
    }
}

fn environment(html: &mut String, run: &RunReport) {
    let mut rows: Vec<(String, String)> = Vec::new();
    for cell in &run.cells {
        for (name, value) in &cell.figures.environment {
            if !rows.iter().any(|(other, same)| other == name && same == value) {
                rows.push((name.clone(), value.clone()));
            }
        }
        for (agent, (offset, within)) in cell.figures.clocks.iter().enumerate() {
            let of =
                if run.cells.len() > 1 { format!(", {}", cell.title()) } else { String::new() };
            let row = (format!("Clock of agent {agent}{of}"), {
                let micros = |of: f64| format!("{} ms", words::number(1000.0 * of));
                format!("{} off, within {}", micros(*offset), micros(*within))
            });
            rows.push(row);
        }
    }
    html.push_str("<section>");
    pairs(html, "Environment", &rows);
    html.push_str("</section>\n");
}

fn repeat(html: &mut String, run: &RunReport) {
    let _ = writeln!(
        html,
        "<section><h3>To repeat it</h3>\n<pre>fishplate quake run experiment.toml --report DIR\n\
         fishplate quake report DIR\n\
         fishplate quake compare DIR ANOTHER --fail-if 'goodput &lt; 0.9'</pre>\n\
         <p>Seed {}, fishplate {}. The experiment, in <code>experiment.toml</code> beside this page:</p>\n<pre>{}</pre>\n\
         <p class=\"note\">Every point of every chart is in <code>series.csv</code>, every figure in <code>results.csv</code> and \
         <code>results.json</code>.</p></section>",
        run.results.seed,
        env!("CARGO_PKG_VERSION"),
        escaped(&run.experiment)
    );
}
