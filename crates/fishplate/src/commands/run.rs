//! `fishplate run -n N PROGRAM`: the ranks of a domain on this machine, as `mpiexec` starts them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args as _, Parser};
use fishplate_client::arguments::without_files;
use fishplate_client::{Credentials, Settings};
use fishplate_contract::{Limit, LimitSetting};
use fishplate_formats::units;
use fishplate_launch::{Cause, Launch, Program, Report, library};
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::transport::tls::CA_FILE;
use fishplate_ranks::{Credential, DomainId, settings};

use super::domain::HowArgs;
use super::domain::file::{DomainPart, ServiceChoice};
use super::domain::running::{self, DomainRun};
use crate::output::failure::UsageError;
use crate::output::{Output, json, text};

/// Start a program as several ranks that pass messages to each other, as mpiexec does
///
/// Programs for MPI find the library of the MPI standard's ABI that comes with fishplate; others
/// run as well. With --hosts the ranks run on servers: then services and their arguments stand in
/// the place of programs. Rank 0 has the standard input. The command ends with the first exit code that is
/// not 0, or 128 and the signal's number if a rank was killed, and ends the other ranks then; 124
/// after --timeout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate run -n 4 ./moldyn
  fishplate run -n 4 python script.py
  fishplate run -n 4 --label --timeout 10m ./solver input.dat
  fishplate run -n 4 --transport soap --endpoints ranks.json ./solver
  fishplate run -n 1 ./master : -n 3 --wdir /scratch ./worker
  fishplate run --hosts http://here.com/moldyn:2,http://there.com/moldyn:2 mm=8")]
pub(crate) struct Args {
    /// Begin each line of output with its rank: [2]
    #[arg(short, long, aliases = ["tag-output", "prepend-rank"])]
    label: bool,
    /// End what has not ended by then
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL, when ranks are ended
    #[arg(long, value_name = "TIME", value_parser = units::duration,
          default_value = "5s")]
    kill_grace: Duration,
    /// Let the others go on when a rank fails
    #[arg(long)]
    keep_going: bool,
    /// What carries messages; ranks that share no memory have tcp between them
    #[arg(long, value_name = "NAME", default_value = TransportKind::default().name(),
          value_parser = PossibleValuesParser::new(TransportKind::ALL.map(TransportKind::name)))]
    transport: String,
    /// A limit of the ranks; `fishplate help limits` lists them
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    limits: Vec<(&'static str, u64)>,
    /// Run on servers: URLs of services whose service file has [ranks], and how many ranks each has. Arguments follow as for
    /// `fishplate call`
    #[arg(long, value_name = "URL[:RANKS],...", value_delimiter = ',', value_parser = host)]
    hosts: Vec<Host>,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    first: Section,
}

/// A service, and how many ranks it shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    url: String,
    ranks: Option<u32>,
}

/// Ranks that run the same command.
#[derive(Debug, clap::Args)]
struct Section {
    /// How many ranks [default: 1, or as --hosts says]
    #[arg(short = 'n', long = "np", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Their working directory
    #[arg(long, value_name = "DIR", aliases = ["wd"])]
    wdir: Option<PathBuf>,
    /// A variable of their environment, besides this command's
    #[arg(short = 'x', long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(OsString, OsString)>,
    /// The program and its arguments; a `:` begins other ranks, with options and a program of their own
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    words: Vec<OsString>,
}

/// What stands behind a `:`.
#[derive(Debug, Parser)]
#[command(name = "fishplate run", no_binary_name = true)]
struct FurtherSection {
    #[command(flatten)]
    section: Section,
}

/// Runs the command.
pub(crate) fn run(args: Args, output: Output) -> Result<ExitCode> {
    if !args.hosts.is_empty() {
        let run = on_hosts(args)?;
        require_soap_transport(run.how.endpoints.as_deref(), run.transport)?;
        return Ok(running::run(run, output)?.code.into());
    }
    let mut how = args.how;
    let endpoints = how.endpoints.take();
    if how != HowArgs::default() {
        let what = "--wait, --results and --direct are about servers: they need --hosts";
        return Err(UsageError(what.to_owned()).into());
    }
    let launch = Launch {
        programs: programs(args.first, &args.limits)?,
        label: args.label,
        keep_going: args.keep_going,
        timeout: args.timeout,
        kill_grace: args.kill_grace,
        library: mpi_library()?,
        to_stderr: output.json,
        transport: TransportKind::from_name(&args.transport).unwrap_or_default(),
        endpoints,
    };
    require_soap_transport(launch.endpoints.as_deref(), launch.transport)?;
    let report = fishplate_launch::run(&launch)?;
    if output.json {
        output.value(&json::launch(&report))?;
    } else if let Some(told) = text::launch(&report) {
        output.note(&told);
    }
    if launch.library.is_none() && lacks_library(&report) {
        let places = library::PLACES.join(", ");
        output.note(&format!(
            "hint: {} is not installed with this fishplate (beside it: {places}), so programs for MPI can't start",
            library::SONAME
        ));
    }
    Ok(report.exit_code().into())
}

/// SOAP clients reach ranks that speak SOAP.
pub(crate) fn require_soap_transport(
    endpoints: Option<&Path>,
    transport: TransportKind,
) -> Result<(), UsageError> {
    if endpoints.is_some() && transport != TransportKind::Soap {
        let reason =
            "--endpoints: ranks have addresses for SOAP clients with --transport soap only";
        return Err(UsageError(reason.to_owned()));
    }
    Ok(())
}

/// A domain on servers, as `--hosts` and the options beside it say.
fn on_hosts(args: Args) -> Result<DomainRun> {
    let Section { ranks, wdir, environment, words } = args.first;
    let here = [
        ("--wdir", wdir.is_some()),
        ("-x", !environment.is_empty()),
        ("--limit", !args.limits.is_empty()),
        ("a `:`", words.iter().any(|word| word == ":")),
    ];
    if let Some((option, _)) = here.into_iter().find(|(_, is_there)| *is_there) {
        let what = format!(
            "{option} is about programs of this machine: with --hosts, service files say where and how theirs run"
        );
        return Err(UsageError(what).into());
    }
    let words = words.into_iter().map(|word| {
        word.into_string().map_err(|word| UsageError(format!("{} is not UTF-8", word.display())))
    });
    let (inputs, outputs) = without_files(&words.collect::<Result<Vec<_>, _>>()?)?;
    if let Some(output) = outputs.first() {
        let what =
            format!("{}: with --hosts, --results DIR gets the outputs of all ranks", output.name);
        return Err(UsageError(what).into());
    }
    let hosts = placed(&args.hosts, ranks)?;
    let parts = hosts.into_iter().map(|(url, ranks)| DomainPart {
        service: ServiceChoice::Url(url),
        operation: None,
        ranks,
        inputs: inputs.clone(),
    });
    let credentials = Credentials::of_user();
    let ca_file = std::env::var_os(CA_FILE).map(PathBuf::from);
    Ok(DomainRun {
        id: DomainId::random()?,
        credential: Credential::random()?,
        transport: TransportKind::from_name(&args.transport).unwrap_or_default(),
        parts: parts.collect(),
        settings: Settings { credentials, ca_file, ..Settings::default() },
        label: args.label,
        keep_going: args.keep_going,
        time: args.timeout,
        shown: None,
        how: args.how,
    })
}

/// Which host has how many ranks: what it is told, then what is left in even shares.
fn placed(hosts: &[Host], ranks: Option<u32>) -> Result<Vec<(String, u32)>, UsageError> {
    let told: u32 = hosts.iter().filter_map(|host| host.ranks).sum();
    let others = u32::try_from(hosts.iter().filter(|host| host.ranks.is_none()).count());
    let others = others.unwrap_or(u32::MAX);
    let mut rest = ranks.unwrap_or(told.saturating_add(others));
    if others == 0 && rest > told {
        return Err(UsageError(format!("-n {rest}: --hosts has places for {told} ranks")));
    }
    let mut shares = rest.saturating_sub(told);
    let mut left = others;
    let placed = hosts.iter().filter_map(|host| {
        let wanted = host.ranks.unwrap_or_else(|| {
            let share = shares.div_ceil(left.max(1));
            shares -= share;
            left -= 1;
            share
        });
        let ranks = wanted.min(rest);
        rest -= ranks;
        (ranks > 0).then(|| (host.url.clone(), ranks))
    });
    Ok(placed.collect())
}

/// `URL` or `URL:RANKS`.
fn host(text: &str) -> Result<Host, String> {
    let has_path = |url: &str| url.split_once("://").map_or(url, |(_, rest)| rest).contains('/');
    // Without a path, what stands behind the colon is a port.
    let (url, ranks) = match text.rsplit_once(':') {
        Some((url, ranks)) if has_path(url) => (url, Some(ranks)),
        _ => (text, None),
    };
    if !has_path(url) {
        return Err(
            "the URL of a service is needed, such as http://somewhere.com/moldyn:2".to_owned()
        );
    }
    let ranks = ranks.map(|ranks| ranks.parse::<u32>().ok().filter(|ranks| *ranks > 0));
    match ranks {
        Some(None) => Err("behind the service's URL stands how many ranks, 1 or more".to_owned()),
        ranks => Ok(Host { url: url.to_owned(), ranks: ranks.flatten() }),
    }
}

/// The library of the MPI ABI that is installed with this binary.
pub(crate) fn mpi_library() -> Result<Option<PathBuf>> {
    let binary = std::env::current_exe()?;
    Ok(binary.parent().and_then(library::find))
}

/// Whether a rank ended as the system's loader does for want of a library.
fn lacks_library(report: &Report) -> bool {
    matches!(report.cause, Some(Cause::Exit { code: 127 | 1, .. }))
        && report.ranks.iter().all(|rank| !rank.joined)
}

/// The sections that a `:` separates.
fn programs(first: Section, limits: &[(&str, u64)]) -> Result<Vec<Program>> {
    let words = first.words.clone();
    let mut parts = words.split(|word| word == ":");
    let mut sections = vec![Section { words: parts.next().unwrap_or_default().to_vec(), ..first }];
    for part in parts {
        let parsed = FurtherSection::try_parse_from(part)
            .map_err(|error| UsageError(format!("behind a `:`: {}", first_line(&error))))?;
        sections.push(parsed.section);
    }
    let limits: Vec<String> =
        limits.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut programs = sections.into_iter().map(program).collect::<Result<Vec<_>>>()?;
    if !limits.is_empty() {
        for program in &mut programs {
            program.environment.push((settings::VARIABLE.into(), limits.join(",").into()));
        }
    }
    Ok(programs)
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

fn program(section: Section) -> Result<Program> {
    let mut words = section.words.into_iter();
    let Some(program) = words.next() else {
        let what =
            "a program is missing: `fishplate run -n 4 PROGRAM`, and one on each side of a `:`";
        return Err(UsageError(what.to_owned()).into());
    };
    if program.as_encoded_bytes().starts_with(b"-") {
        let reason = format!(
            "run has no option {}: `fishplate help run` lists them; a program with such a name is ./{0}",
            program.display()
        );
        return Err(UsageError(reason).into());
    }
    Ok(Program {
        ranks: section.ranks.unwrap_or(1),
        program,
        arguments: words.collect(),
        directory: section.wdir,
        environment: section.environment,
    })
}

fn limit(text: &str) -> Result<(&'static str, u64), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is needed")?;
    let all = || Limit::all().filter(|limit| limit.setting == LimitSetting::Launch);
    let limit = all().find(|limit| limit.name == name).ok_or_else(|| {
        let names: Vec<&str> = all().map(|limit| limit.name).collect();
        format!("ranks have no limit {name}, but {}", names.join(", "))
    })?;
    Ok((limit.name, units::read_value_of(limit, value)?))
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE is needed; the variables of this command's environment are the ranks' anyway".to_owned()),
    }
}

/// The words of `fishplate run` with the long options of `mpiexec` that have one dash (`-np`, `-wdir`) as we write them.
/// What stands behind a program is its own.
pub(crate) fn rewritten(words: Vec<OsString>) -> Vec<OsString> {
    let command = words.iter().skip(1).position(|word| !word.as_encoded_bytes().starts_with(b"-"));
    if command.is_none_or(|at| words[at + 1] != "run") {
        return words;
    }
    let grammar = Args::augment_args(clap::Command::new("run"));
    let takes_value = |word: &OsStr| {
        let word = word.to_str().unwrap_or_default();
        let mut options =
            grammar.get_arguments().filter(|option| option.get_action().takes_values());
        options.any(|option| {
            let mut longs = option.get_long_and_visible_aliases().unwrap_or_default();
            longs.extend(option.get_all_aliases().unwrap_or_default());
            longs.iter().any(|long| word.strip_prefix("--") == Some(long))
                || option.get_short().is_some_and(|short| word == format!("-{short}"))
        })
    };
    let mut rest = words.into_iter();
    let mut rewritten: Vec<OsString> =
        rest.by_ref().take(command.unwrap_or_default() + 2).collect();
    let (mut options, mut value) = (true, false);
    for word in rest {
        let dashed = word.as_encoded_bytes().starts_with(b"-");
        let word = match word.to_str() {
            Some("-np" | "-wdir" | "-env" | "-timeout") if options && !value => {
                OsString::from(format!("-{}", word.display()))
            }
            _ => word,
        };
        if word == ":" {
            (options, value) = (true, false);
        } else if options && !value {
            (options, value) = (dashed, takes_value(&word));
        } else {
            value = false;
        }
        rewritten.push(word);
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: &str) -> String {
        let words = rewritten(line.split(' ').map(OsString::from).collect());
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_single_dashes_of_mpiexec_are_understood_before_programs_only() {
        for (given, expected) in [
            ("fishplate run -np 2 a -np 3", "fishplate run --np 2 a -np 3"),
            ("fishplate run -n 2 -wdir -np a", "fishplate run -n 2 --wdir -np a"),
            ("fishplate --json run --label -np 2 a", "fishplate --json run --label --np 2 a"),
            ("fishplate run a -np 1 : -np 2 b", "fishplate run a -np 1 : --np 2 b"),
            ("fishplate run --wd d -np 2 a", "fishplate run --wd d --np 2 a"),
            ("fishplate call -np", "fishplate call -np"),
            ("fishplate run", "fishplate run"),
            ("fishplate", "fishplate"),
        ] {
            assert_eq!(line(given), expected);
        }
    }

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Vec<Program>> {
        let args = Line::try_parse_from(line.split(' '))?.args;
        programs(args.first, &args.limits)
    }

    #[test]
    fn a_colon_begins_other_ranks() {
        let programs = parsed("run -n 1 a -n 9 -- x : -n 3 --wdir /d -x A=b=c b : c").unwrap();
        let shown: Vec<_> = programs
            .iter()
            .map(|one| (one.ranks, one.program.to_str().unwrap(), one.arguments.len()))
            .collect();
        assert_eq!(shown, [(1, "a", 4), (3, "b", 0), (1, "c", 0)]);
        assert_eq!(programs[1].directory, Some("/d".into()));
        assert_eq!(programs[1].environment, [("A".into(), "b=c".into())]);
        let limited = parsed("run --limit eager_limit=1KiB --limit peer_timeout=2s a : b").unwrap();
        for program in limited {
            let expected = (settings::VARIABLE.into(), "eager_limit=1024,peer_timeout=2000".into());
            assert_eq!(program.environment, [expected]);
        }
    }

    fn shares(hosts: &str, ranks: Option<u32>) -> Result<Vec<(String, u32)>, UsageError> {
        let hosts: Vec<Host> = hosts.split(',').map(|text| host(text).unwrap()).collect();
        placed(&hosts, ranks)
    }

    #[test]
    fn ranks_go_to_hosts_as_told_and_else_in_even_shares() {
        let counts = |hosts: &str, ranks| -> Vec<u32> {
            shares(hosts, ranks).unwrap().into_iter().map(|(_, ranks)| ranks).collect()
        };
        assert_eq!(counts("http://a:80/s:2,b:80/s:3", None), [2, 3]);
        assert_eq!(counts("a/s:2,b/s:3", Some(4)), [2, 2]);
        assert_eq!(counts("a/s:2,b/s:3", Some(2)), [2]);
        assert_eq!(counts("a/s,b/s", None), [1, 1]);
        assert_eq!(counts("a/s,b/s", Some(5)), [3, 2]);
        assert_eq!(counts("a/s:1,b/s,c/s", Some(4)), [1, 2, 1]);
        assert_eq!(shares("http://a:80/s", None).unwrap()[0].0, "http://a:80/s");
        assert!(shares("a/s:2", Some(3)).unwrap_err().0.contains("places for 2 ranks"));
    }

    #[test]
    fn what_is_about_this_machine_does_not_go_with_hosts() {
        for line in
            ["run --hosts a/s --wdir /d", "run --hosts a/s -x A=b", "run --hosts a/s x=1 : y=2"]
        {
            let args = Line::try_parse_from(line.split(' ')).unwrap().args;
            let error = on_hosts(args).unwrap_err().to_string();
            assert!(error.contains("service files say where"), "{line}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("run -n 0 a", "0 is not in 1.."),
            ("run -n 2 --host h a", "run has no option --host"),
            ("run -n 2 a : -n x b", "behind a `:`: invalid value 'x'"),
            ("run -n 2 a :", "a program is missing"),
            ("run -n 2 : b", "a program is missing"),
            ("run", "a program is missing"),
            ("run --hosts http://h:8080 x=1", "the URL of a service is needed"),
            ("run --hosts http://h/s:0", "how many ranks, 1 or more"),
            ("run -n two a", "invalid value 'two'"),
            ("run -x A a", "NAME=VALUE is needed"),
            ("run --limit speed=1 a", "ranks have no limit speed, but eager_limit"),
            ("run --limit eager_limit=1 a", "eager_limit takes"),
            ("run --limit peer_timeout=0s a", "peer_timeout has to be above zero"),
            ("run -n -1 a", "invalid value '-1'"),
        ] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
