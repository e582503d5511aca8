//! The whole file: a service and its operations.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fishplate_contract::interface::{RESERVED_NAMES, SOLE_OPERATION, rank_parameters};
use fishplate_contract::limits::RANK_LIMITS;
use fishplate_contract::{Interface, Limit, LimitSetting, Service, Verb};
use fishplate_formats::units;

use super::description::{Container, Description};
use super::diagnostic::DiagnosticReport;
use super::operation::{self, KEYS, ReadOperation};
use super::table::{Table, as_lexical, as_table, as_text, wrong_type};
use super::text::SpannedText;
use super::verify::SourceSpans;
use super::workspace::{self, FileRole, WorkspaceFile};

use super::parameter;
use crate::plan::{JobLimits, StagedFile};
use crate::template::is_name;

/// Reads the top table. The description is of use only if nothing was reported as an error.
pub(super) fn read(
    mut table: Table<'_>,
    default_name: &str,
    directory: &Path,
    report: &mut DiagnosticReport<'_>,
) -> (Description, SourceSpans) {
    let name = table.string("name", report);
    let title = table.string("title", report);
    let namespace = table.string("namespace", report);
    let documentation = table.string("documentation", report);
    let name = name.unwrap_or_else(|| SpannedText { value: default_name.to_owned(), span: 0..0 });
    let operations = operations(&mut table, report);
    let (staged, staged_files) = staged(&mut table, directory, report);
    let environment = environment(&mut table, report);
    let pass_environment = pass_environment(&mut table, report);
    let modules = modules(&mut table, report);
    let (container, image) = match container(&mut table, directory, report) {
        Some((container, image)) => (Some(container), image),
        None => (None, 0..0),
    };
    let max_running = table.count("max_running", report).map(|(count, _)| count);
    let (limits, cores) = limits(&mut table, report);
    let ranks = ranks(&mut table, report);
    table.finish(report);
    let identity = Identity { name, title, namespace, documentation };
    let mut made = assemble(identity, operations, staged_files, directory, report);
    made.0.staged = staged;
    made.0.environment = environment;
    made.0.pass_environment = pass_environment;
    made.0.modules = modules;
    made.0.container = container;
    made.0.max_running = max_running;
    made.0.limits = limits;
    for input in made.0.invocations.iter_mut().flat_map(|invocation| &mut invocation.inputs) {
        let file = input.default_file.take();
        input.default_file = file.map(|file| absolute(directory, &file.to_string_lossy()));
    }
    if let Some(Ranks { max, limits, span }) = ranks {
        check_ranks(&made.0, &span, report);
        made.0.ranks = Some(max);
        if !limits.is_empty() {
            made.0.environment.insert(RANK_LIMITS.to_owned(), limits.join(","));
        }
    }
    made.1.image = image;
    made.1.cores = cores;
    made
}

/// Who a service is.
pub(super) struct Identity {
    pub(super) name: SpannedText,
    pub(super) title: Option<SpannedText>,
    pub(super) namespace: Option<SpannedText>,
    pub(super) documentation: Option<SpannedText>,
}

/// A description of these operations and nothing more, checked as a whole.
pub(super) fn assemble(
    identity: Identity,
    operations: Vec<ReadOperation>,
    staged: Vec<WorkspaceFile>,
    directory: &Path,
    report: &mut DiagnosticReport<'_>,
) -> (Description, SourceSpans) {
    let Identity { name, title, namespace, documentation } = identity;
    check_name(&name, report);
    if let Some(namespace) = &namespace {
        check_namespace(namespace, report);
    }
    for operation in &operations {
        let files: Vec<WorkspaceFile> = staged.iter().chain(&operation.files).cloned().collect();
        workspace::check(&files, report);
    }
    let places = SourceSpans {
        name: name.span.clone(),
        commands: operations.iter().map(|operation| operation.command.clone()).collect(),
        files: operations
            .iter()
            .flat_map(|operation| &operation.files)
            .map(|file| file.path.clone())
            .collect(),
        staged: staged.into_iter().map(|file| file.span).collect(),
        image: 0..0,
        cores: 0..0,
    };
    let (operations, invocations) =
        operations.into_iter().map(|read| (read.operation, read.invocation)).unzip();
    let service = Service {
        namespace: namespace.map_or_else(|| format!("urn:fishplate:{}", name.value), |n| n.value),
        title: title.map_or_else(|| name.value.clone(), |title| title.value),
        documentation: documentation.map(|text| text.value.trim().to_owned()).unwrap_or_default(),
        name: name.value,
        operations,
    };
    check_verbs(&service, &places, report);
    let description = Description {
        service,
        directory: directory.to_owned(),
        invocations,
        staged: Vec::new(),
        environment: BTreeMap::new(),
        pass_environment: Vec::new(),
        modules: Vec::new(),
        container: None,
        max_running: None,
        ranks: None,
        limits: JobLimits::default(),
    };
    (description, places)
}

fn operations(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Vec<ReadOperation> {
    let named = table.named("operation", report);
    if named.is_empty() {
        if let Some(span) = table.key_span("operation") {
            report
                .error(span, "`operation` has no operations")
                .hint("write [operation.NAME] with a `command`, or `command` at the top");
        }
        return operation::read(SOLE_OPERATION, table, report).into_iter().collect();
    }
    for key in KEYS {
        table.get(key);
        if let Some(span) = table.key_span(key) {
            report
                .error(span, format!("`{key}` stands at the top beside [operation.NAME]"))
                .hint(format!("with several operations each has a `{key}` of its own"));
        }
    }
    let mut operations = Vec::new();
    for (name, value) in named {
        let title = format!("[operation.{}]", name.value);
        let Some(mut table) = as_table(value, name.span.clone(), title) else {
            wrong_type(report, &format!("`{}`", name.value), "a table", value);
            continue;
        };
        if !is_name(&name.value) {
            report
                .error(name.span.clone(), format!("`{}` is no name for an operation", name.value))
                .hint(NAME_HINT);
        }
        let documentation = table.string("documentation", report);
        let read = operation::read(&name.value, &mut table, report);
        table.finish(report);
        if let Some(mut read) = read {
            let said = documentation.map(|text| text.value.trim().to_owned());
            let demanded = std::mem::take(&mut read.operation.documentation);
            let all: Vec<String> =
                said.into_iter().chain([demanded]).filter(|text| !text.is_empty()).collect();
            read.operation.documentation = all.join("\n");
            operations.push(read);
        }
    }
    operations
}

const NAME_HINT: &str = "a name begins with a letter or `_` and goes on with letters, digits, `_`, \
                         `-` and `.` (it becomes part of XML and of a URL)";

fn check_name(name: &SpannedText, report: &mut DiagnosticReport<'_>) {
    if !is_name(&name.value) {
        report
            .error(name.span.clone(), format!("{:?} is no name for a service", name.value))
            .hint(NAME_HINT);
    } else if RESERVED_NAMES.contains(&name.value.as_str()) {
        report
            .error(name.span.clone(), format!("the name `{}` is the server's own", name.value))
            .hint("give the service another `name`");
    }
}

fn check_namespace(namespace: &SpannedText, report: &mut DiagnosticReport<'_>) {
    let uri = &namespace.value;
    let absolute = uri.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !rest.is_empty()
    });
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "<>\"{}|\\^`".contains(c);
    if !absolute || uri.contains(forbidden) {
        report
            .error(namespace.span.clone(), format!("{uri:?} is no absolute URI"))
            .hint("write one such as urn:example:ccx or https://example.org/ccx");
    }
}

/// Verbs of different operations must not have the same name, nor one that another's response
/// has in the WSDL.
fn check_verbs(service: &Service, places: &SourceSpans, report: &mut DiagnosticReport<'_>) {
    let names: Vec<String> =
        Interface::of(service).verbs.into_iter().map(|definition| definition.name).collect();
    for (index, name) in names.iter().enumerate() {
        let twice = names[..index].contains(name);
        let response = name.strip_suffix("Response").is_some_and(|n| names.iter().any(|o| o == n));
        if twice || response {
            let span = places.commands.first().map_or(0..0, |command| command.span.clone());
            report
                .error(span, format!("two verbs of the service are called `{name}`"))
                .hint("an operation X is called X, X_spawn and X_results; rename one");
        }
    }
}

/// What `[ranks]` says.
struct Ranks {
    /// How many ranks the program may be at once.
    max: u32,
    /// Their limits, as [`RANK_LIMITS`] has them.
    limits: Vec<String>,
    span: Range<usize>,
}

fn ranks(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Option<Ranks> {
    let mut table = table.table("ranks", report)?;
    let max = table.count("max", report);
    let limits = table.table("limits", report);
    let limits = limits.map(|table| rank_limits(table, report)).unwrap_or_default();
    if table.key_span("max").is_none() {
        report
            .error(table.span.clone(), "[ranks] has no `max`")
            .hint("max = 8: so many ranks of this program may run at once");
    }
    let span = table.span.clone();
    table.finish(report);
    max.map(|(max, _)| Ranks { max, limits, span })
}

fn rank_limits(mut table: Table<'_>, report: &mut DiagnosticReport<'_>) -> Vec<String> {
    let mut set = Vec::new();
    for limit in Limit::all().filter(|limit| limit.setting == LimitSetting::Launch) {
        let Some(value) = table.get(limit.name) else { continue };
        let text = as_lexical(value).map(|text| text.value).unwrap_or_default();
        match units::read_value_of(limit, &text) {
            Ok(value) => set.push(format!("{}={value}", limit.name)),
            Err(problem) => drop(report.error(value.span(), problem)),
        }
    }
    table.finish(report);
    set
}

/// Whether `init` can take what the operations take, and start them.
fn check_ranks(description: &Description, span: &Range<usize>, report: &mut DiagnosticReport<'_>) {
    let service = &description.service;
    for operation in &service.operations {
        let taken = rank_parameters();
        let mut taken = taken.iter().map(|parameter| parameter.name.as_str());
        if let Some(name) = taken.find(|name| operation.signature.input(name).is_some()) {
            report
                .error(
                    span.clone(),
                    format!("an input is called `{name}`, as one that `init` has of its own"),
                )
                .hint("`init` starts a rank: give the input another name");
        }
        let init = Interface::of(service).with_init(service);
        let init =
            init.verbs.iter().find(|of| of.verb == Verb::Init && of.operation == operation.name);
        if let Some(init) = init.filter(|init| Interface::of(service).find(&init.name).is_some()) {
            report
                .error(span.clone(), format!("two verbs of the service are called `{}`", init.name))
                .hint("a rank of operation X is started by X_init; rename one");
        }
    }
    if description.container.is_some() {
        report
            .error(span.clone(), "a program in a container can't be a rank")
            .hint("the rendezvous of the ranks is outside of it: leave [ranks] or `container` out");
    }
}

fn staged(
    table: &mut Table<'_>,
    directory: &Path,
    report: &mut DiagnosticReport<'_>,
) -> (Vec<StagedFile>, Vec<WorkspaceFile>) {
    let (mut staged, mut files) = (Vec::new(), Vec::new());
    for item in table.list("stage", "a list of files", report) {
        let (from, to) = if let Some(text) = as_text(item) {
            (text, None)
        } else if let Some(mut pair) = as_table(item, item.span(), "an item of `stage`".to_owned())
        {
            let from = pair.string("from", report);
            let to = pair.string("to", report);
            let span = pair.span.clone();
            let has_from = pair.key_span("from").is_some();
            pair.finish(report);
            if !has_from {
                report.error(span, "an item of `stage` has no `from`");
            }
            let Some(from) = from else { continue };
            (from, to)
        } else {
            wrong_type(report, "an item of `stage`", "a file's name or { from, to }", item);
            continue;
        };
        let to = to.unwrap_or_else(|| SpannedText {
            value: place_of(&from.value),
            span: from.span.clone(),
        });
        let span = from.span.clone();
        let path = parameter::file_name(to, report);
        staged.push(StagedFile { from: absolute(directory, &from.value), to: path.clone() });
        files.push(WorkspaceFile { path, role: FileRole::Staged, directory: false, span });
    }
    (staged, files)
}

/// Where a staged file goes unless it is told: where it is beside the service file, or, if it is
/// not below it, at the top under its own name.
fn place_of(from: &str) -> String {
    let path = Path::new(from);
    let below = path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    let mut parts = path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    if below {
        parts.collect::<Vec<_>>().join("/")
    } else {
        parts.next_back().unwrap_or_default().to_owned()
    }
}

/// A path of the owner as an absolute one.
pub(super) fn absolute(directory: &Path, path: &str) -> PathBuf {
    directory.join(path).components().filter(|c| *c != Component::CurDir).collect()
}

fn environment(
    table: &mut Table<'_>,
    report: &mut DiagnosticReport<'_>,
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for (name, value) in table.named("environment", report) {
        if name.value.is_empty() || name.value.contains(['=', '\0']) {
            report.error(name.span, format!("{:?} is no name for a variable", name.value));
            continue;
        }
        if name.value.starts_with("FISHPLATE_") {
            report
                .error(name.span, format!("`{}` is set by Fishplate itself", name.value))
                .hint("take a name that does not begin with `FISHPLATE_`");
            continue;
        }
        match as_text(value) {
            Some(text) if text.value.contains('\0') => {
                report.error(text.span, "a variable's value has no NUL");
            }
            Some(text) => drop(environment.insert(name.value, text.value)),
            None => {
                wrong_type(report, &format!("the variable `{}`", name.value), "a string", value);
            }
        }
    }
    environment
}

fn pass_environment(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Vec<String> {
    let texts = table.strings("pass_environment", report);
    for text in &texts {
        let name = text.value.strip_suffix('*').unwrap_or(&text.value);
        if text.value.is_empty() || name.contains(['=', '*', '\0']) {
            report
                .error(text.span.clone(), format!("{:?} is no name of a variable", text.value))
                .hint("write a name, or how names begin and a `*`, such as FOAM_*");
        }
    }
    texts.into_iter().map(|text| text.value).collect()
}

fn modules(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> Vec<String> {
    let texts = table.strings("modules", report);
    for text in &texts {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/@:=~".contains(c);
        if text.value.is_empty() || text.value.starts_with('-') || !text.value.chars().all(plain) {
            report
                .error(text.span.clone(), format!("{:?} is no name of a module", text.value))
                .hint("write a name as `module load` takes it, such as gcc/12.2");
        }
    }
    texts.into_iter().map(|text| text.value).collect()
}

fn container(
    table: &mut Table<'_>,
    directory: &Path,
    report: &mut DiagnosticReport<'_>,
) -> Option<(Container, Range<usize>)> {
    let mut table = table.table("container", report)?;
    let image = table.string("image", report);
    let runtime = table.string("runtime", report);
    if table.key_span("image").is_none() {
        report
            .error(table.span.clone(), "the container has no `image`")
            .hint("container = { image = \"ccx.sif\" }");
    }
    table.finish(report);
    let image = image?;
    let path = if image.value.contains("://") {
        image.value
    } else {
        absolute(directory, &image.value).to_string_lossy().into_owned()
    };
    let runtime = runtime.map_or_else(|| "apptainer".to_owned(), |runtime| runtime.value);
    Some((Container { image: path, runtime }, image.span))
}

fn limits(table: &mut Table<'_>, report: &mut DiagnosticReport<'_>) -> (JobLimits, Range<usize>) {
    let mut limits = JobLimits::default();
    let Some(mut table) = table.table("limits", report) else { return (limits, 0..0) };
    if let Some((wall_time, span)) = duration(&mut table, "wall_time", report) {
        if wall_time.is_zero() {
            report.error(span, "`wall_time` is more than nothing");
        }
        limits.wall_time = Some(wall_time.as_secs_f64());
    }
    if let Some((memory, _)) = size(&mut table, "memory", report) {
        limits.memory = Some(memory);
    }
    let mut cores_span = 0..0;
    if let Some((cores, span)) = table.count("cores", report) {
        limits.cores = Some(cores);
        cores_span = span;
    }
    let output_size = size(&mut table, "output_size", report);
    limits.output_size = output_size.map(|(size, _)| size);
    if let Some((log_size, _)) = size(&mut table, "log_size", report) {
        limits.log_size = log_size;
    }
    if let Some((value_size, span)) = size(&mut table, "value_size", report) {
        limits.value_size = value_size;
        if limits.output_size.is_some_and(|output_size| output_size < value_size) {
            report
                .error(span, "`value_size` is more than `output_size`")
                .hint("a value is one of the files that `output_size` is for");
        }
    }
    if let Some((grace, span)) = duration(&mut table, "kill_grace", report) {
        limits.kill_grace = grace.as_secs_f64();
        if grace > MOST_GRACE {
            report
                .error(span, "`kill_grace` is at most 1h")
                .hint("it is the time between SIGTERM and SIGKILL");
        }
    }
    table.finish(report);
    (limits, cores_span)
}

/// Longer, and a kill would not look like one.
const MOST_GRACE: Duration = Duration::from_secs(3600);

fn duration(
    table: &mut Table<'_>,
    key: &'static str,
    report: &mut DiagnosticReport<'_>,
) -> Option<(Duration, Range<usize>)> {
    let text = quantity(table, key, "90s", report)?;
    match units::duration(&text.value) {
        Ok(duration) => Some((duration, text.span)),
        Err(error) => {
            report.error(text.span, format!("`{key}`: {error}"));
            None
        }
    }
}

fn size(
    table: &mut Table<'_>,
    key: &'static str,
    report: &mut DiagnosticReport<'_>,
) -> Option<(u64, Range<usize>)> {
    let text = quantity(table, key, "64MiB", report)?;
    match units::size(&text.value) {
        Ok(0) => {
            report.error(text.span, format!("`{key}` is more than nothing"));
            None
        }
        Ok(size) => Some((size, text.span)),
        Err(error) => {
            report.error(text.span, format!("`{key}`: {error}"));
            None
        }
    }
}

/// A string with a unit; a bare number is told that it lacks one.
fn quantity(
    table: &mut Table<'_>,
    key: &'static str,
    example: &str,
    report: &mut DiagnosticReport<'_>,
) -> Option<SpannedText> {
    let value = table.get(key)?;
    if value.get_ref().is_integer() || value.get_ref().is_float() {
        report
            .error(value.span(), format!("`{key}` has no unit"))
            .hint(format!("write it as a string with a unit, such as \"{example}\""));
        return None;
    }
    let text = as_text(value);
    if text.is_none() {
        wrong_type(report, &format!("`{key}`"), &format!("a string such as \"{example}\""), value);
    }
    text
}
