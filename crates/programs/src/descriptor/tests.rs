use std::path::Path;
use std::time::Duration;

use fishplate_contract::DataType;
use proptest::prelude::*;

use super::*;
use crate::plan::{OutputSource, ProgressRule, StagedFile};

mod mistakes;

/// Checks a text, as `SERVICE/service.toml`.
fn checked(text: &str) -> CheckedService {
    let source = SourceText { name: "service.toml".to_owned(), text: text.to_owned() };
    check_text(&source, Path::new("/owner"))
}

fn description(text: &str) -> Description {
    let checked = checked(text);
    assert_eq!(checked.diagnostics, [], "{text}");
    checked.description.unwrap()
}

/// The example of the reference.
const CCX: &str = r#"
name = "ccx"
title = "CalculiX CrunchiX"
namespace = "urn:example:ccx"
documentation = "Static linear elasticity."
command = ["ccx", "-i", "[in file deck:raw]", "2>", "[out file errors:string]"]
stage = ["materials.dat", { from = "lib/mesh.tab", to = "mesh.tab" }]
environment = { OMP_NUM_THREADS = "2" }
pass_environment = ["FOAM_*", "LM_LICENSE_FILE"]
modules = ["gcc/12.2", "openmpi"]
container = { image = "ccx.sif", runtime = "apptainer" }
max_running = 2

[input.deck]
help = "Input deck"
filename = "job.inp"
media_type = "text/plain"

[output.fields]
type = "raw"
path = "job.frd"
optional = false

[output.pictures]
type = "raw"
glob = "pictures/*.png"

[exit]
success = [0, 3]
meaning = { 1 = "bad input deck", 201 = "did not converge" }

[failure]
log = ['^\s*\*ERROR', '^Error']

[progress]
pattern = 'increment (\d+) of (\d+)'
stream = "stderr"

[limits]
wall_time = "2h"
memory = "4GiB"
cores = 1
output_size = "10GiB"
log_size = "1MiB"
value_size = "2MiB"
kill_grace = "500ms"
"#;

#[test]
fn limits_of_ranks_are_in_their_environment() {
    let text = "name = 'a'\ncommand = 'a'\n[ranks]\nmax = 4\nlimits = { parallel_streams = 8, peer_timeout = '2s' }\n";
    let description = description(text);
    assert_eq!(description.ranks, Some(4));
    let set = description.environment[fishplate_contract::limits::RANK_LIMITS].as_str();
    assert_eq!(set, "parallel_streams=8,peer_timeout=2000");
}

#[test]
fn everything_a_file_can_say_is_read() {
    let description = description(CCX);
    let service = &description.service;
    assert_eq!(
        [&service.name, &service.title, &service.namespace, &service.documentation],
        ["ccx", "CalculiX CrunchiX", "urn:example:ccx", "Static linear elasticity."]
    );
    let operation = service.operation("call").unwrap();
    let deck = operation.signature.input("deck").unwrap();
    assert_eq!([&deck.help, &deck.media_type], ["Input deck", "text/plain"]);
    assert_eq!(deck.data_type, DataType::Raw);
    let outputs: Vec<(&str, bool)> =
        operation.signature.outputs.iter().map(|o| (o.name.as_str(), o.repeated)).collect();
    assert_eq!(outputs, [("errors", false), ("fields", false), ("pictures", true)]);
    let invocation = &description.invocations[0];
    assert_eq!(invocation.inputs[0].filename.as_deref(), Some("job.inp"));
    assert_eq!(invocation.outputs[1].source, OutputSource::Path("job.frd".to_owned()));
    assert_eq!(invocation.outputs[2].source, OutputSource::Glob("pictures/*.png".to_owned()));
    assert_eq!(invocation.success.exit_codes, [0, 3]);
    assert_eq!(invocation.success.meanings[&201], "did not converge");
    assert_eq!(invocation.success.failure_patterns, [r"^\s*\*ERROR", "^Error"]);
    let pattern = r"increment (\d+) of (\d+)".to_owned();
    assert_eq!(invocation.progress, Some(ProgressRule { pattern, stream: "stderr".to_owned() }));
    let staged = |from: &str, to: &str| StagedFile { from: from.into(), to: to.to_owned() };
    assert_eq!(
        description.staged,
        [
            staged("/owner/materials.dat", "materials.dat"),
            staged("/owner/lib/mesh.tab", "mesh.tab")
        ]
    );
    assert_eq!(description.environment["OMP_NUM_THREADS"], "2");
    assert_eq!(description.pass_environment, ["FOAM_*", "LM_LICENSE_FILE"]);
    assert_eq!(description.modules, ["gcc/12.2", "openmpi"]);
    let container = description.container.as_ref().unwrap();
    assert_eq!([&container.image, &container.runtime], ["/owner/ccx.sif", "apptainer"]);
    assert_eq!(description.max_running, Some(2));
    let limits = &description.limits;
    assert_eq!(limits.wall_time, Some(7200.0));
    assert_eq!([limits.memory, limits.output_size], [Some(4 << 30), Some(10 << 30)]);
    assert_eq!([limits.log_size, limits.value_size], [1 << 20, 2 << 20]);
    assert_eq!((limits.cores, limits.kill_grace), (Some(1), 0.5));
}

#[test]
fn what_is_left_out_has_the_defaults_of_the_reference() {
    let description = description("command = './add.sh [in val x:int] > [out file r:int]'");
    let service = &description.service;
    assert_eq!(
        [&service.name, &service.title, &service.namespace],
        ["service", "service", "urn:fishplate:service"]
    );
    let limits = &description.limits;
    assert_eq!(*limits, crate::plan::JobLimits::default());
    assert_eq!([limits.log_size, limits.value_size], [64 << 20, 16 << 20]);
    assert_eq!(Duration::from_secs_f64(limits.kill_grace), Duration::from_secs(5));
    assert_eq!(description.invocations[0].success.exit_codes, [0]);
}

#[test]
fn an_in_out_slot_is_an_input_and_an_output_in_one_file() {
    let description = description(
        "command = 'p [in out file mesh:raw]'\n[input.mesh]\nfilename = '0/U'\nhelp = 'The mesh'\n",
    );
    let invocation = &description.invocations[0];
    assert_eq!(invocation.inputs[0].filename.as_deref(), Some("0/U"));
    assert_eq!(invocation.outputs[0].source, OutputSource::Path("0/U".to_owned()));
    assert_eq!(invocation.outputs[0].parameter.help, "The mesh");
}

#[test]
fn numbers_and_booleans_may_stand_for_their_texts() {
    let description = description(
        "command = 'p [in val n:int] [in val t:double] [in val b:bool]'\n\
         [input.n]\nmin = 1\nmax = 1_000\ndefault = 0x10\nchoices = [1, 2, 16]\n\
         [input.t]\nmin = 0\nmax = inf\ndefault = 1.5e3\nunit = 'K'\n\
         [input.b]\ndefault = true\n",
    );
    let parameters = &description.service.operations[0].signature.inputs;
    assert_eq!(parameters[0].max.as_deref(), Some("1000"));
    assert_eq!(parameters[0].default.as_deref(), Some("16"));
    assert_eq!(parameters[0].choices, ["1", "2", "16"]);
    assert_eq!(parameters[1].max.as_deref(), Some("INF"));
    assert_eq!(parameters[1].default.as_deref(), Some("1.5e3"));
    assert_eq!(parameters[2].default.as_deref(), Some("true"));
    assert!(parameters.iter().all(|parameter| parameter.optional));
}

#[test]
fn operations_stand_in_the_order_of_the_file() {
    let description = description(
        "[operation.write]\ncommand = 'w [in file x:raw]'\ndocumentation = 'Writes.'\n\
         [operation.append]\ncommand = 'a [in file x:raw]'\n\
         [operation.append.input.x]\nhelp = 'What'\n",
    );
    let names: Vec<&str> =
        description.service.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["write", "append"]);
    assert_eq!(description.service.operations[0].documentation, "Writes.");
    assert_eq!(description.service.operations[1].signature.inputs[0].help, "What");
    assert_eq!(description.invocations[1].template.program(), "a");
}

#[test]
fn the_papers_one_liner_is_a_service() {
    let words = ["./add.sh", "[in val x:int]", "[in val y:int]", ">", "[out file result:int]"];
    let words = words.map(str::to_owned);
    let directory = tempfile::tempdir().unwrap();
    let checked = check_command_line(
        "arithmetic-test",
        Some("urn:test"),
        Some("Arithmetic Server"),
        &words,
        directory.path(),
    );
    assert_eq!(
        checked.source.text,
        "-n arithmetic-test -U urn:test -N 'Arithmetic Server' -- ./add.sh '[in val x:int]' \
         '[in val y:int]' '>' '[out file result:int]'"
    );
    let path = directory.path().join("add.sh");
    let lines: Vec<String> =
        checked.diagnostics.iter().map(|diagnostic| diagnostic.line(&checked.source)).collect();
    assert_eq!(
        lines,
        [format!(
            "command line:1:58: warning: the program {} does not exist (the service can be \
             offered, but its jobs fail until the program is there)",
            path.display()
        )]
    );
    let service = checked.description.unwrap().service;
    assert_eq!(
        [&service.name, &service.namespace, &service.title],
        ["arithmetic-test", "urn:test", "Arithmetic Server"]
    );
    let signature = &service.operations[0].signature;
    let inputs: Vec<&str> = signature.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(inputs, ["x", "y"]);
    assert_eq!(signature.outputs[0].data_type, DataType::Int);
}

#[test]
fn a_mistake_in_a_one_liner_points_into_it() {
    let words = ["sort", "-k[in val key:itn]"].map(str::to_owned);
    let checked = check_command_line("x y", None, None, &words, Path::new("/"));
    assert!(checked.description.is_none());
    let lines: Vec<String> = checked
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(|diagnostic| {
            format!("{} {:?}", diagnostic.message, &checked.source.text[diagnostic.span.clone()])
        })
        .collect();
    assert_eq!(
        lines,
        ["\"x y\" is no name for a service \"x y\"", "`itn` is no type of a slot \"itn\"",]
    );
}

#[test]
fn the_reference_tells_the_truth() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/service-file.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for block in blocks {
        let whole = if block.contains("command = ") { "" } else { "command = './program'\n" };
        assert_eq!(checked(&format!("{whole}{block}")).diagnostics, [], "{block}");
    }
}

fn write(directory: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_directory_stands_for_its_service_files_by_name() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "many/b.toml", "command = 'cat'");
    write(directory.path(), "many/a.toml", "command = 'cat'");
    write(directory.path(), "many/notes.txt", "no service");
    let single = write(directory.path(), "c.toml", "name = 'b'\ncommand = 'cat'");
    let services = read(&[directory.path().join("many"), single], false).unwrap();
    let names: Vec<Option<&str>> = services
        .iter()
        .map(|checked| Some(checked.description.as_ref()?.service.name.as_str()))
        .collect();
    assert_eq!(names, [Some("a"), Some("b"), None]);
    let twice = services[2].diagnostics.last().unwrap();
    assert_eq!(twice.message, "the service `b` is there already");
    assert_eq!(twice.span, 7..10);
}

#[test]
fn what_cannot_be_read_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("no.toml");
    let error = read(std::slice::from_ref(&missing), false).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read {}", missing.display()));
    let error = read(&[directory.path().to_owned()], false).unwrap_err();
    let expected = format!("{} has no service files (*.toml)", directory.path().display());
    assert_eq!(error.to_string(), expected);
    write(directory.path(), CONFIGURATION, "");
    assert_eq!(read(&[directory.path().to_owned()], true).unwrap().len(), 0);
}

#[test]
fn what_is_missing_beside_the_file_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "table.dat", "");
    write(directory.path(), "staged.dat", "");
    let path = write(
        directory.path(),
        "s.toml",
        "command = ['./run.sh', 'table.dat', 'staged.dat', '<', 'nothing']\n\
         stage = ['staged.dat', 'gone.dat']\n\
         container = { image = 'gone.sif', runtime = '/no/such/runtime' }\n\
         limits.cores = 4000000000\n",
    );
    let checked = check_file(&path).unwrap();
    let said: Vec<String> = checked
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let (line, column) = checked.source.position(diagnostic.span.start);
            format!("{line}:{column} {} {}", diagnostic.severity.name(), diagnostic.message)
        })
        .collect();
    let present = std::thread::available_parallelism().unwrap();
    assert_eq!(
        said,
        [
            "1:13 warning the program /no/such/runtime does not exist".to_owned(),
            "1:25 warning the program will not find `table.dat`".to_owned(),
            "1:57 warning nothing puts `nothing` into the workspace".to_owned(),
            "2:24 error the staged file is not there".to_owned(),
            "3:23 warning the container's image is not there".to_owned(),
            format!("4:16 warning 4000000000 cores are more than the {present} of this machine"),
        ]
    );
}

#[test]
fn a_program_from_path_is_noted() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "s.toml", "command = 'sh'");
    let checked = check_file(&path).unwrap();
    let [note] = checked.diagnostics.as_slice() else { panic!("{:?}", checked.diagnostics) };
    assert_eq!(note.severity, Severity::Note);
    assert!(note.message.starts_with("`sh` is /"), "{}", note.message);
    assert!(!checked.has_errors());
}

proptest! {
    #[test]
    fn checking_never_panics_and_points_into_the_text(
        lines in prop::collection::vec(
            prop_oneof![
                prop::sample::select(CCX.lines().collect::<Vec<_>>()).prop_map(str::to_owned),
                "[a-z]{1,6} = (1|'x'|\"\\\\u00e9\"|\\[\\]|true|\\{\\})",
                "\\[(input|output|limits|operation)\\.[a-z]{1,4}\\]",
                "\\PC{0,20}",
            ],
            0..12,
        ),
    ) {
        let text = lines.join("\n");
        let checked = checked(&text);
        for diagnostic in &checked.diagnostics {
            prop_assert!(text.get(diagnostic.span.clone()).is_some(), "{:?}", diagnostic);
        }
        prop_assert_eq!(checked.description.is_none(), checked.has_errors());
    }
}
