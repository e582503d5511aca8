//! What has to be so in an experiment beyond its syntax.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use fishplate_client::Settings;
use fishplate_formats::units;
use nix::sys::signal::Signal;

use super::cells::is_port;
use super::sweep::is_path;
use super::words::{TextPiece, UnknownWord, is_name, pieces};
use super::{Arrivals, Expect, Experiment, Flaw, Operation, Resource, Workload};
use crate::record::Cell;

/// Words that are filled beside those of the matrix, and the ports.
const WORDS: [&str; 3] = ["port", "directory", "here"];

/// What was found.
#[derive(Default)]
struct Flaws(Vec<Flaw>);

impl Flaws {
    /// `wrong` is so at `field`, unless `fine`.
    fn unless(&mut self, fine: bool, field: &str, wrong: &str, right: &str) {
        if !fine {
            let [field, wrong, right] = [field, wrong, right].map(str::to_owned);
            self.0.push(Flaw { line: None, field, wrong, right });
        }
    }
}

impl Experiment {
    /// All that is wrong, without lines.
    pub(super) fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = Flaws::default();
        flaws.unless(
            !self.name.is_empty(),
            "name",
            "it is empty",
            "say what reports shall be called",
        );
        flaws.unless(self.repetitions > 0, "repetitions", "it is 0", "1 or more");
        self.matrix_flaws(&mut flaws);
        self.sweep_flaws(&mut flaws);
        self.system_flaws(&mut flaws);
        self.workload.flaws(&mut flaws);
        let some = !self.operations.is_empty();
        flaws.unless(some, "operation", "there is none", "at least one [[operation]] with a name");
        for (at, operation) in self.operations.iter().enumerate() {
            let field = format!("operation.{at}");
            let earlier = &self.operations[..at];
            let alone = earlier.iter().all(|other| other.name != operation.name);
            let right = "each has a name of its own";
            flaws.unless(alone, &format!("{field}.name"), "an operation has it already", right);
            operation.flaws(&field, &self.here, &mut flaws);
        }
        self.disturbance_flaws(&mut flaws);
        self.watchdog_flaws(&mut flaws);
        if let Some(audit) = &self.audit {
            let one = audit.ledger.is_empty() != audit.count.is_empty();
            let wrong = "it has to have one of ledger and count";
            flaws.unless(one, "audit", wrong, "ledger = [\"PROGRAM\", ...]");
        }
        for (name, right) in self.limits.zeros() {
            flaws.unless(false, &format!("limits.{name}"), "it is 0", right);
        }
        self.word_flaws(&mut flaws);
        flaws.0
    }

    fn matrix_flaws(&self, flaws: &mut Flaws) {
        for (name, values) in &self.matrix {
            let field = format!("matrix.{name}");
            let right = "small letters, digits, _ and -, the first a letter; or the path of a key";
            flaws.unless(is_name(name), &field, "this can't be the name of a word", right);
            let wrong = "this word has a meaning already";
            flaws.unless(!WORDS.contains(&name.as_str()), &field, wrong, "another name");
            let right = "one value or more; leave the name out for none";
            flaws.unless(
                !values.is_empty(),
                &field,
                "it has no values, so there is no cell",
                right,
            );
            let once = |(at, value): (usize, &String)| !values[..at].contains(value);
            let twice = values.iter().enumerate().all(once);
            flaws.unless(twice, &field, "a value stands there twice", "each once");
        }
        for (at, row) in self.exclude.iter().enumerate() {
            let field = format!("exclude.{at}");
            flaws.unless(!row.is_empty(), &field, "it would leave out all cells", "name values");
            for (name, value) in row {
                let known = self.matrix.get(name).is_some_and(|values| values.contains(value));
                let right = "a name of [matrix] and one of its values";
                let wrong = "the matrix has no such value";
                flaws.unless(known, &format!("{field}.{name}"), wrong, right);
            }
        }
        let some = flaws.0.iter().any(|flaw| flaw.field.starts_with("matrix"))
            || self.repetitions == 0
            || !self.cells().is_empty();
        flaws.unless(some, "exclude", "no cell is left", "leave out fewer");
    }

    /// Each value of a key that the matrix sets has to be one.
    fn sweep_flaws(&self, flaws: &mut Flaws) {
        for (name, values) in self.matrix.iter().filter(|(name, _)| is_path(name)) {
            for value in values {
                let values = BTreeMap::from([(name.clone(), value.clone())]);
                let field = format!("matrix.\"{name}\"");
                match self.of_cell(&Cell { values, repetition: 1 }) {
                    Err(error) => {
                        flaws.unless(false, &field, &error.to_string(), "a value of that key");
                    }
                    // All else is looked at once, with the value that the file has.
                    Ok(swept) => swept.workload.flaws(flaws),
                }
            }
        }
    }

    fn system_flaws(&self, flaws: &mut Flaws) {
        let system = &self.system;
        let known = ["http://", "https://", "{"].iter().any(|begin| system.url.starts_with(begin));
        let right = "http://127.0.0.1:{port}/PATH, or https";
        flaws.unless(known, "system.url", "it is no address", right);
        if !system.process.is_empty() {
            let watched = system.process.contains_key("server");
            let right = "one of the processes is called server: it is the one that is watched";
            flaws.unless(watched, "system.process", "none is called server", right);
        }
        for (name, process) in &system.process {
            let field = format!("system.process.{name}");
            let right = "start = [\"PROGRAM\", \"ARGUMENT\", ...]";
            let start = !process.start.is_empty();
            flaws.unless(start, &format!("{field}.start"), "it is empty", right);
            let signal = Signal::from_str(&format!("SIG{}", process.stop)).is_ok();
            let right = "a signal's name without SIG: TERM, INT, QUIT";
            flaws.unless(signal, &format!("{field}.stop"), "there is no such signal", right);
        }
        if let Some(probe) = &system.probe {
            let both = probe.operation.is_some() && probe.path.is_some();
            let right = "an operation, or a path that is to be answered by 200";
            flaws.unless(!both, "system.probe", "it has both operation and path", right);
            let known = |name: &String| self.operations.iter().any(|it| it.name == *name);
            let known = probe.operation.as_ref().is_none_or(known);
            let wrong = "there is no such operation";
            flaws.unless(known, "system.probe.operation", wrong, "the name of an [[operation]]");
            let path = probe.path.as_ref().is_none_or(|path| path.starts_with('/'));
            flaws.unless(path, "system.probe.path", "it is no path", "one that begins with /");
            let some = probe.every > Duration::ZERO;
            flaws.unless(some, "system.probe.every", "it is 0", "a time such as 1s");
        }
    }

    fn disturbance_flaws(&self, flaws: &mut Flaws) {
        let ends = self.workload.duration.is_some();
        for (at, stress) in self.stress.iter().enumerate() {
            let field = format!("stress.{at}");
            let some = stress.length > Duration::ZERO;
            flaws.unless(some, &format!("{field}.length"), "it is 0", "a time such as 20s");
            let is_size = |text: &str| units::size(text).is_ok();
            let right = "a size with its unit, such as 1GiB";
            match &stress.resource {
                Resource::Memory { size, .. } => {
                    flaws.unless(is_size(size), &format!("{field}.size"), "it is no size", right);
                }
                Resource::DiskFull { free, .. } => {
                    let fine = free.is_empty() || is_size(free);
                    flaws.unless(fine, &format!("{field}.free"), "it is no size", right);
                }
                Resource::Network { loss, .. } => {
                    let part = (0.0..=1.0).contains(loss);
                    flaws.unless(part, &format!("{field}.loss"), "it is no part", "0 to 1");
                }
                _ => {}
            }
        }
        for (at, fault) in self.faults.iter().enumerate() {
            let field = format!("fault.{at}");
            let known = self.system.process.contains_key(&fault.process);
            let right = "the name of a [system.process]";
            let wrong = "the system has no such process";
            flaws.unless(known, &format!("{field}.process"), wrong, right);
            let every = fault.every.unwrap_or(Duration::MAX);
            let right = "a time longer than jitter";
            let later = fault.jitter < every && every > Duration::ZERO;
            flaws.unless(later, &format!("{field}.every"), "it is not longer than jitter", right);
            let bounded = fault.every.is_none() || ends || self.workload.requests.is_some();
            flaws.unless(bounded, &format!("{field}.every"), "nothing ends it", "say duration");
        }
    }

    fn watchdog_flaws(&self, flaws: &mut Flaws) {
        let watchdog = &self.watchdog;
        for (field, part) in [
            ("zombie_below", watchdog.zombie_below),
            ("degraded_below", watchdog.degraded_below),
            ("error_above", watchdog.error_above),
            ("refused_above", watchdog.refused_above),
        ] {
            let fine = (0.0..=1.0).contains(&part);
            flaws.unless(fine, &format!("watchdog.{field}"), "it is no part", "0 to 1");
        }
        let ordered = watchdog.zombie_below <= watchdog.degraded_below;
        let wrong = "it is above degraded_below";
        flaws.unless(ordered, "watchdog.zombie_below", wrong, "below it, as 0.01 and 0.2");
        let some = |time| time > Duration::ZERO;
        let right = "a time such as 5s";
        flaws.unless(some(watchdog.hang_after), "watchdog.hang_after", "it is 0", right);
        flaws.unless(some(watchdog.window), "watchdog.window", "it is 0", right);
        flaws.unless(some(watchdog.baseline), "watchdog.baseline", "it is 0", right);
        let cores = watchdog.busy_above >= 0.0;
        flaws.unless(cores, "watchdog.busy_above", "it is no number of cores", "such as 0.1");
        if let Some(rejuvenate) = &watchdog.rejuvenate {
            let field = "watchdog.rejuvenate";
            let size = rejuvenate.memory_above.as_deref().is_none_or(|it| units::size(it).is_ok());
            let right = "a size with its unit, such as 1GiB";
            flaws.unless(size, &format!("{field}.memory_above"), "it is no size", right);
            let below = rejuvenate.throughput_below.is_none_or(|part| (0.0..=1.0).contains(&part));
            flaws.unless(below, &format!("{field}.throughput_below"), "it is no part", "0 to 1");
        }
    }

    fn word_flaws(&self, flaws: &mut Flaws) {
        let known = || WORDS.into_iter().chain(self.matrix.keys().map(String::as_str));
        for (field, text) in self.texts() {
            for piece in pieces(text.as_bytes()) {
                if let TextPiece::Word(word) = piece
                    && !is_port(word)
                    && !known().any(|known| known == word)
                {
                    let known: Vec<&str> = known().collect();
                    let UnknownWord { closest, .. } = UnknownWord::new(word, known.iter().copied());
                    let right = match closest {
                        Some(closest) => format!("did you mean {{{closest}}}?"),
                        None => format!("{{{}}}", known.join("}, {")),
                    };
                    let wrong = format!("{{{word}}} is filled by nothing");
                    flaws.unless(false, &field, &wrong, &right);
                }
            }
        }
    }

    /// The texts in which words are filled when a cell begins, with their places in the file. (In templates, too:
    /// those are read when their files are.)
    pub(super) fn texts(&self) -> Vec<(String, &str)> {
        let system = &self.system;
        let mut texts = vec![("system.name".to_owned(), &*system.name)];
        texts.push(("system.url".to_owned(), &system.url));
        all(&mut texts, "system.configure", &system.configure);
        for (name, process) in &system.process {
            all(&mut texts, &format!("system.process.{name}.start"), &process.start);
            for (variable, value) in &process.environment {
                texts.push((format!("system.process.{name}.environment.{variable}"), value));
            }
        }
        if let Some(path) = system.probe.as_ref().and_then(|probe| probe.path.as_deref()) {
            texts.push(("system.probe.path".to_owned(), path));
        }
        for (at, operation) in self.operations.iter().enumerate() {
            if let Some(url) = &operation.url {
                texts.push((format!("operation.{at}.url"), url));
            }
            let field = format!("operation.{at}.expect.checker");
            all(&mut texts, &field, &operation.expect.checker);
        }
        if let Some(audit) = &self.audit {
            all(&mut texts, "audit.ledger", &audit.ledger);
            all(&mut texts, "audit.count", &audit.count);
        }
        for (at, stress) in self.stress.iter().enumerate() {
            match &stress.resource {
                Resource::Connections { address: Some(address), .. } => {
                    texts.push((format!("stress.{at}.address"), address));
                }
                Resource::DiskFull { directory, .. } | Resource::DiskSlow { directory, .. } => {
                    path(&mut texts, &format!("stress.{at}.directory"), Some(directory));
                }
                Resource::Network { namespace, interface, .. } => {
                    let namespace = namespace.as_deref().map(|it| ("namespace", it));
                    let named = namespace.into_iter().chain([("interface", &**interface)]);
                    texts.extend(named.map(|(key, it)| (format!("stress.{at}.{key}"), it)));
                }
                Resource::Clock { file, .. } => {
                    path(&mut texts, &format!("stress.{at}.file"), Some(file));
                }
                _ => {}
            }
        }
        path(&mut texts, "workload.ca", self.workload.ca.as_ref());
        path(&mut texts, "workload.token_file", self.workload.token_file.as_ref());
        texts
    }
}

fn path<'t>(texts: &mut Vec<(String, &'t str)>, field: &str, path: Option<&'t PathBuf>) {
    texts.extend(path.and_then(|path| Some((field.to_owned(), path.to_str()?))));
}

fn all<'t>(texts: &mut Vec<(String, &'t str)>, field: &str, words: &'t [String]) {
    texts.extend(words.iter().map(|word| (field.to_owned(), word.as_str())));
}

impl Workload {
    fn flaws(&self, flaws: &mut Flaws) {
        flaws.unless(self.clients > 0, "workload.clients", "it is 0", "1 or more");
        let ends = self.requests.is_some() || self.duration.is_some();
        let right = "requests = 1000, or duration = \"1m\"; the first that is reached ends it";
        flaws.unless(ends, "workload", "nothing ends it", right);
        flaws.unless(self.requests != Some(0), "workload.requests", "it is 0", "1 or more");
        let fine = self.requests.is_none_or(|requests| requests < crate::load::WARM_UP);
        flaws.unless(fine, "workload.requests", "it is too many", "below 1000000000");
        let some = |time: Duration| time > Duration::ZERO;
        let fine = self.duration.is_none_or(some);
        flaws.unless(fine, "workload.duration", "it is 0", "a time such as 1m");
        flaws.unless(some(self.deadline), "workload.deadline", "it is 0", "a time such as 10s");
        let open = !matches!(self.arrivals, Arrivals::Closed);
        let right = "leave it out: an open loop's requests wait for no answer";
        let thinks = some(self.think.mean);
        flaws.unless(!(open && thinks), "workload.think", "the loop is open", right);
        let named = self.user.as_ref().is_none_or(|user| user.contains(':'));
        flaws.unless(named, "workload.user", "it has no password", "NAME:PASSWORD");
        let both = self.user.is_some() && self.token_file.is_some();
        let right = "one of user and token_file";
        flaws.unless(!both, "workload.token_file", "there is a user too", right);
        self.arrivals.flaws(self.duration, flaws);
    }
}

impl Arrivals {
    fn flaws(&self, duration: Option<Duration>, flaws: &mut Flaws) {
        let mut positive = |field: &str, rate: f64| {
            let fine = rate.is_finite() && rate > 0.0;
            let field = format!("workload.arrivals.{field}");
            flaws.unless(fine, &field, "it is no rate", "requests a second, above 0");
        };
        match self {
            Self::Closed | Self::Burst { .. } => {}
            Self::Soak { rate } | Self::Poisson { rate } | Self::Normal { rate, .. } => {
                positive("rate", *rate);
            }
            Self::Spike { rate, peak, .. } => {
                positive("rate", *rate);
                positive("peak", *peak);
            }
            Self::Ramp { from, to } => {
                positive("from", *from);
                positive("to", *to);
            }
            Self::Step { rates } => {
                for rate in rates {
                    positive("rates", *rate);
                }
            }
        }
        match self {
            Self::Normal { deviation, .. } => {
                let fine = deviation.is_finite() && *deviation >= 0.0;
                let right = "a part of the mean time between two requests, as 0.3";
                flaws.unless(fine, "workload.arrivals.deviation", "it is none", right);
            }
            Self::Burst { size, every } => {
                let fine = *size > 0;
                flaws.unless(fine, "workload.arrivals.size", "it is 0", "1 or more");
                let fine = *every > Duration::ZERO;
                flaws.unless(fine, "workload.arrivals.every", "it is 0", "a time such as 10s");
            }
            Self::Spike { every, length, .. } => {
                let fine = length < every;
                let right = "shorter than every, from one spike to the next";
                flaws.unless(fine, "workload.arrivals.length", "spikes would overlap", right);
            }
            Self::Ramp { .. } | Self::Step { .. } => {
                let right = "duration: it says over what time rates change";
                flaws.unless(duration.is_some(), "workload", "it has no duration", right);
                let some = !matches!(self, Self::Step { rates } if rates.is_empty());
                flaws.unless(some, "workload.arrivals.rates", "there are none", "[10.0, 20.0]");
            }
            _ => {}
        }
    }
}

impl Operation {
    fn flaws(&self, field: &str, here: &Path, flaws: &mut Flaws) {
        let field = |key: &str| format!("{field}.{key}");
        let fine = self.weight.is_finite() && self.weight > 0.0;
        flaws.unless(fine, &field("weight"), "it is no weight", "a number above 0");
        if let Some(template) = &self.template {
            let there = here.join(template).is_file();
            let wrong = format!("there is no file {}", here.join(template).display());
            let right = "a path from the experiment's folder";
            flaws.unless(there, &field("template"), &wrong, right);
            let wrong = "there is a template too, which is the whole request";
            let right = "leave it out, or the template";
            flaws.unless(self.arguments.is_empty(), &field("arguments"), wrong, right);
            flaws.unless(self.packaging.is_none(), &field("packaging"), wrong, right);
        }
        if let Some(packaging) = &self.packaging {
            let names = Settings::PACKAGINGS.map(|(name, ..)| name);
            let known = names.contains(&packaging.as_str());
            flaws.unless(
                known,
                &field("packaging"),
                "there is none of that name",
                &names.join(", "),
            );
        }
        let part = self.send_part.is_none_or(|part| (0.0..1.0).contains(&part));
        let right = "0 or more and below 1: the whole is sent without it";
        flaws.unless(part, &field("send_part"), "it is no part", right);
        let some = self.read_rate != Some(0);
        flaws.unless(some, &field("read_rate"), "it is 0", "bytes a second, 1 or more");
        self.expect.flaws(&field("expect"), flaws);
    }
}

impl Expect {
    fn flaws(&self, field: &str, flaws: &mut Flaws) {
        let status = self.status.is_none_or(|status| (200..600).contains(&status));
        flaws.unless(status, &format!("{field}.status"), "it is no status", "200 to 599");
        let digits = self.sha256.as_ref().is_none_or(|digest| {
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let right = "64 hexadecimal digits, as sha256sum prints them";
        flaws.unless(digits, &format!("{field}.sha256"), "it is no digest", right);
    }
}
