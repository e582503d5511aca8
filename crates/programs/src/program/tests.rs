use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{Array, DataRef, DataType, ElementType, FileHandle, Payload, Value};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::descriptor::{SourceText, check_text};
use crate::plan::{
    FetchedForm, InputContent, InputFile, JobLimits, Needs, OutputRule, OutputSource,
};

/// A service in a directory of its own, with an executable `p` beside it.
struct Fixture {
    program: Program,
    directory: TempDir,
}

fn fixture(text: &str) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = load(text, &directory);
    Fixture { program, directory }
}

fn load(text: &str, directory: &TempDir) -> Program {
    let source = SourceText { name: "test.toml".to_owned(), text: text.to_owned() };
    let checked = check_text(&source, directory.path());
    assert!(!checked.has_errors(), "{:#?}", checked.diagnostics);
    let environments = directory.path().join("environments");
    Program::load(checked.description.unwrap(), &environments, &BTreeSet::new()).unwrap()
}

impl Fixture {
    fn plan(&self, arguments: &[Argument]) -> Result<Plan, Fault> {
        self.program.plan("call", arguments.to_vec()).map(|(plan, _)| plan)
    }

    fn words(&self, arguments: &[(&str, &str)]) -> Vec<String> {
        self.plan(&texts(arguments)).unwrap().arguments
    }

    fn fault(&self, arguments: &[Argument]) -> String {
        let fault = self.plan(arguments).unwrap_err();
        format!("{} {:?} {}", fault.code.name(), fault.parameter.unwrap_or_default(), fault.message)
    }
}

fn texts(arguments: &[(&str, &str)]) -> Vec<Argument> {
    arguments.iter().map(|(name, text)| Argument::text(*name, *text)).collect()
}

fn data(name: &str, bytes: &'static [u8]) -> Argument {
    Argument::new(name, Value::Data(Payload::Inline(Bytes::from_static(bytes))))
}

#[test]
fn a_plan_needs_what_its_limits_allow() {
    let mut plan = fixture("command = './p'").plan(&[]).unwrap();
    plan.limits = JobLimits::default();
    assert_eq!(plan.needs(), Needs { cores: None, memory: None, wall_time: None });
    plan.limits.cores = Some(2);
    plan.limits.memory = Some(1 << 30);
    plan.limits.wall_time = Some(1.5);
    let wall_time = Some(Duration::from_millis(1500));
    assert_eq!(plan.needs(), Needs { cores: Some(2), memory: Some(1 << 30), wall_time });
    plan.limits.wall_time = Some(f64::INFINITY);
    assert_eq!(plan.needs().wall_time, None);
}

#[test]
fn the_papers_call_becomes_its_command_line() {
    let service = fixture("command = './p [in val x:int] [in val y:int] > [out file result:int]'");
    let plan = service.plan(&texts(&[("y", " 2\n"), ("x", "+1")])).unwrap();
    assert_eq!(plan.program, service.directory.path().join("p"));
    assert_eq!(plan.arguments, ["+1", "2"]);
    assert_eq!(plan.stdout.as_deref(), Some("result"));
    assert_eq!((plan.stdin, plan.stderr, plan.inputs), (None, None, Vec::new()));
    let rule = OutputRule {
        name: "result".to_owned(),
        data_type: "int".to_owned(),
        source: OutputSource::Path("result".to_owned()),
        required: true,
        non_empty: false,
        format: None,
        media_type: String::new(),
    };
    assert_eq!(plan.outputs, [rule]);
    assert!(plan.base_environment.unwrap().starts_with(service.directory.path()));
}

#[test]
fn outputs_that_have_to_hold_something_are_in_the_plan() {
    let service = fixture(
        "command = './p > [out file printed:raw]'\n[output.printed]\nnon_empty = true\n\
         [output.mesh]\ntype = 'raw'\npath = 'a.vtu'\nnon_empty = true\n\
         [output.notes]\ntype = 'raw'\npath = 'b.txt'\n",
    );
    let plan = service.plan(&texts(&[])).unwrap();
    let told = |rule: &OutputRule| (rule.name.clone(), rule.non_empty);
    let expected = [("printed", true), ("mesh", true), ("notes", false)];
    let expected = expected.map(|(name, non_empty)| (name.to_owned(), non_empty));
    assert_eq!(plan.outputs.iter().map(told).collect::<Vec<_>>(), expected);
}

#[test]
fn files_hold_the_bytes_or_the_text_and_nothing_more() {
    let service = fixture(
        "command = './p --mesh=[in file mesh:raw] [in file n:int] [in out file state:raw] < [in \
         val text:string] 2> [out file errors:string]'\n\
         [input.mesh]\nfilename = '0/U'\n\
         [input.extra]\ntype = 'string'\nfilename = 'extra.txt'\ndefault = 'none'\n",
    );
    let arguments = [
        data("mesh", b"\xff\x00"),
        Argument::text("n", " 7 "),
        data("state", b"text"),
        Argument::text("text", "a b"),
    ];
    let plan = service.plan(&arguments).unwrap();
    assert_eq!(plan.arguments, ["--mesh=0/U", "n", "state"]);
    assert_eq!([plan.stdin.as_deref(), plan.stderr.as_deref()], [Some("text"), Some("errors")]);
    let file = |path: &str, content| InputFile { path: path.to_owned(), content };
    let text = |text: &str| InputContent::Text(text.to_owned());
    assert_eq!(
        plan.inputs,
        [
            file("0/U", InputContent::Bytes(vec![0xff, 0])),
            file("n", text("7")),
            file("state", text("text")),
            file("text", text("a b")),
            file("extra.txt", text("none")),
        ]
    );
    let outputs: Vec<&str> = plan.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(outputs, ["state", "errors"]);
}

#[derive(Debug)]
struct Spooled(PathBuf);

impl FileHandle for Spooled {
    fn path(&self) -> &Path {
        &self.0
    }

    fn len(&self) -> u64 {
        1 << 30
    }

    fn keep(&self) {}
}

#[test]
fn a_spooled_input_is_placed_not_read() {
    let service = fixture("command = './p [in file mesh:raw]'");
    let held = Arc::new(Spooled(PathBuf::from("/spool/1")));
    let argument = Argument::new("mesh", Value::Data(Payload::Spooled(held)));
    let (plan, placements) = service.program.plan("call", vec![argument]).unwrap();
    assert_eq!(plan.inputs[0].content, InputContent::InPlace);
    assert_eq!(placements[0].path, "mesh");
    let PlacedInput::Bytes(Payload::Spooled(held)) = &placements[0].content else { panic!() };
    assert_eq!(held.path(), Path::new("/spool/1"));
}

#[test]
fn a_plan_stays_small_whatever_is_sent() {
    let service = fixture(
        "command = './p [in file a:string] [in file b:string] [in file c:raw] [in file d:int[n]]'",
    );
    let large = "x".repeat(40 << 10);
    let data = Payload::Inline(Bytes::from(vec![0; 8000]));
    let numbers = Array { element: ElementType::Int, shape: vec![2000], data };
    let arguments = vec![
        Argument::text("a", format!(" {large} ")),
        Argument::text("b", &large),
        Argument::new("c", Value::Data(Payload::Inline(Bytes::from(large.clone())))),
        Argument::new("d", Value::Array(numbers)),
    ];
    let (plan, placements) = service.program.plan("call", arguments).unwrap();
    assert_eq!(plan.inputs[0].content, InputContent::Text(format!(" {large} ")));
    let placed: Vec<&str> = placements.iter().map(|placement| placement.path.as_str()).collect();
    assert_eq!(placed, ["b", "c", "d"]);
    assert!(plan.inputs[1..].iter().all(|input| input.content == InputContent::InPlace));
    let PlacedInput::Bytes(text) = &placements[0].content else { panic!("{placements:?}") };
    assert_eq!(text.pieces().unwrap().concat(), large.as_bytes());
    assert!(serde_json::to_string(&plan).unwrap().len() < 64 << 10);
}

#[test]
fn a_long_text_is_moved_and_never_copied() {
    let service = fixture("command = './p [in file a:string]'");
    let text = "x".repeat(1 << 20);
    let address = text.as_ptr();
    let argument = Argument::new("a", Value::Text(text));
    let (_, placements) = service.program.plan("call", vec![argument]).unwrap();
    let PlacedInput::Bytes(Payload::Inline(bytes)) = &placements[0].content else { panic!() };
    assert_eq!(bytes.as_ptr(), address);
}

#[test]
fn an_argument_that_the_system_does_not_take_is_refused() {
    let most = command_line::longest_argument();
    for (command, around) in [
        ("./p [in val s:string]", 0),
        ("./p -s[in val s:string]", 2),
        ("./p [in val s:string]abc", 3),
    ] {
        let service = fixture(&format!("command = '{command}'"));
        let with = |len: usize| service.plan(&texts(&[("s", &"x".repeat(len))]));
        assert_eq!(with(most - around).unwrap().arguments[0].len(), most, "{command}");
        let fault = with(most - around + 1).unwrap_err();
        assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("s")));
        let limit = fault.limit.unwrap();
        assert_eq!(limit.name, "argument_size");
        assert_eq!(limit.value, format!("{most} bytes"));
    }
}

#[test]
fn arguments_that_the_system_does_not_take_together_are_refused() {
    let most = usize::try_from(command_line::most_arguments()).unwrap();
    let one = command_line::longest_argument();
    let count = most / one + 1;
    let names: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let slots: Vec<String> = names.iter().map(|name| format!("[in val {name}:string]")).collect();
    let service = fixture(&format!("command = './p {}'", slots.join(" ")));
    let with = |lens: &[usize]| {
        let texts =
            names.iter().zip(lens).map(|(name, len)| Argument::text(name, "x".repeat(*len)));
        service.plan(&texts.collect::<Vec<_>>())
    };
    let mut lens = vec![one - 1; count];
    lens[1] = one;
    let fault = with(&lens).unwrap_err();
    assert_eq!((fault.code, fault.parameter.as_deref()), (FaultCode::InvalidValue, Some("s1")));
    let limit = fault.limit.unwrap();
    assert_eq!((limit.name, limit.value), ("arguments_size".to_owned(), format!("{most} bytes")));
    lens.fill(0);
    assert!(with(&lens).is_ok());
    // What is accepted can be started.
    let (mut low, mut high) = (0, one);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        lens.fill(middle);
        if with(&lens).is_ok() { low = middle } else { high = middle }
    }
    lens.fill(low);
    let plan = with(&lens).unwrap();
    let environment = std::fs::read(plan.base_environment.unwrap()).unwrap();
    let environment: environment::Variables = serde_json::from_slice(&environment).unwrap();
    let mut command = std::process::Command::new(plan.program);
    command.args(plan.arguments).env_clear().envs(environment);
    assert!(command.status().unwrap().success());
}

#[test]
fn an_optional_input_takes_its_word_and_its_prefix_with_it() {
    let service = fixture(
        "command = './p [in val n:int] -q[in val q:double] [in file m:raw] [in val v:bool] [in \
         val d:string] < [in file i:raw]'\n\
         [input.n]\noptional = true\nprefix = '-n'\n\
         [input.q]\noptional = true\n\
         [input.m]\noptional = true\nprefix = '--mesh'\n\
         [input.v]\nflag = '--verbose'\ndefault = false\n\
         [input.d]\ndefault = 'x y'\n\
         [input.i]\noptional = true\n",
    );
    assert_eq!(service.words(&[]), ["x y"]);
    assert_eq!(service.plan(&[]).unwrap().stdin, None);
    assert_eq!(service.words(&[("n", "1"), ("v", "1")]), ["-n", "1", "--verbose", "x y"]);
    assert_eq!(service.words(&[("q", "0.5"), ("v", "false")]), ["-q0.5", "x y"]);
    let plan = service.plan(&[data("m", b"1"), data("i", b"2")]).unwrap();
    assert_eq!(plan.arguments, ["--mesh", "m", "x y"]);
    assert_eq!(plan.stdin.as_deref(), Some("i"));
}

#[test]
fn every_wrong_call_is_a_fault_that_says_what_would_be_right() {
    let service = fixture(
        "command = './p [in val n:int] [in val s:string] [in file m:raw]'\n\
         [input.n]\nmax = 10\nhelp = 'How many'\n[input.s]\noptional = true\n\
         [input.m]\noptional = true\n",
    );
    let n = || Argument::text("n", "1");
    let reference = Payload::Reference(DataRef::new("http://x/y"));
    for (arguments, expected) in [
        (vec![], "MissingParameter \"n\" parameter n is missing; it is of type int (How many)"),
        (
            vec![n(), Argument::text("z", "1")],
            "UnexpectedParameter \"z\" operation call has no parameter \"z\"; it takes n, s, m",
        ),
        (vec![n(), n()], "UnexpectedParameter \"n\" parameter n stands twice; send it once"),
        (
            vec![Argument::text("n", "one")],
            "InvalidValue \"n\" parameter n is of type int: \"one\" is not a whole number from \
             -2147483648 to 2147483647",
        ),
        (
            vec![Argument::text("n", "11")],
            "ValueOutOfRange \"n\" parameter n: 11 is above the largest value allowed, 10",
        ),
        (
            vec![n(), Argument::text("s", "-rf")],
            "InvalidValue \"s\" parameter s may not begin with '-': \"-rf\" could pass for an \
             option of the program; the service's owner can allow it (allow_leading_dash)",
        ),
        (vec![data("n", b"1")], "InvalidValue \"n\" parameter n is of type int: send it as text"),
        (
            vec![n(), Argument::text("m", "1")],
            "InvalidValue \"m\" parameter m is of type raw: send a file's bytes",
        ),
        (
            vec![Argument::new("n", Value::Data(reference))],
            "InvalidValue \"n\" parameter n is of type int: send its value, not a reference",
        ),
        (
            vec![Argument::new("n", Value::Record(Vec::new()))],
            "InvalidValue \"n\" parameter n is of type int: send one value without fields",
        ),
    ] {
        assert_eq!(service.fault(&arguments), expected);
    }
    let fault = service.program.plan("run", Vec::new()).unwrap_err();
    assert_eq!(fault.code, FaultCode::UnknownOperation);
    assert_eq!(fault.message, "service test has no operation \"run\"; it has call");
}

#[test]
fn a_reference_becomes_an_order_to_fetch() {
    let service = fixture(
        "command = './p [in file m:raw] [in out file c:raw] [in file a:int[]] [in file w:raw]'\n\
         [input.m]\nfilename = 'mesh.inp'\n[input.a]\nformat = 'npy'\n[input.w]\nshare = 'copy'\n",
    );
    let reference = DataRef {
        len: Some(3),
        digest: Some(fishplate_contract::Digest::Sha256([7; 32])),
        ..DataRef::new("http://x.example/m")
    };
    let given =
        |name: &str| Argument::new(name, Value::Data(Payload::Reference(reference.clone())));
    let plan = service.plan(&["m", "c", "a", "w"].map(given)).unwrap();
    assert_eq!(plan.arguments, ["mesh.inp", "c", "a", "w"]);
    let plan: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    let fetches: Vec<_> = plan.fetches().collect();
    assert!(fetches.iter().all(|fetch| fetch.reference() == reference));
    let told: Vec<_> = fetches.iter().map(|it| (it.parameter.as_str(), it.private)).collect();
    assert_eq!(told, [("m", false), ("c", true), ("a", false), ("w", true)]);
    assert_eq!(fetches[0].arrival, FetchedForm::File);
    let array = FetchedForm::Array { data_type: "int[]".into(), format: Format::Npy, shape: None };
    assert_eq!(fetches[2].arrival, array);
}

#[test]
fn an_empty_value_cannot_bare_an_option_behind_it() {
    let service = fixture("command = './p [in val name:string]-suffix'");
    assert_eq!(service.words(&[("name", "x")]), ["x-suffix"]);
    assert_eq!(
        service.fault(&texts(&[("name", " ")])),
        "InvalidValue \"name\" parameter name may not be empty: what follows it begins with '-' \
         and could pass for an option of the program"
    );
}

#[test]
fn a_program_may_be_installed_later() {
    let directory = tempfile::tempdir().unwrap();
    let program = load("command = './late'", &directory);
    let path = directory.path().join("late");
    let expected = format!("the program {} does not exist", path.display());
    assert_eq!(program.missing()[0].1.to_string(), expected);
    let fault = program.plan("call", Vec::new()).unwrap_err();
    // Its path is nobody's business but the operator's.
    let told = "the program late does not exist".to_owned();
    assert_eq!((fault.code, fault.message), (FaultCode::ProgramMissing, told));
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let fault = program.plan("call", Vec::new()).unwrap_err();
    assert_eq!(fault.message, "the program late may not be executed");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(program.plan("call", Vec::new()).unwrap().0.program, path);
    assert_eq!(program.missing(), []);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(program.plan("call", Vec::new()).unwrap_err().code, FaultCode::ProgramMissing);
}

#[test]
fn a_program_without_a_slash_is_found_on_path_only() {
    let service = fixture("command = 'p'");
    let fault = service.plan(&[]).unwrap_err();
    assert_eq!(fault.message, "the program p is not on PATH");
    let service = fixture("command = 'sh'");
    assert!(service.plan(&[]).unwrap().program.is_absolute());
}

#[test]
fn a_container_stands_around_the_command_line() {
    let service = fixture(
        "command = 'ccx -i [in file deck:raw]'\n\
         container = { image = 'ccx.sif', runtime = './p' }\n",
    );
    let plan = service.plan(&[data("deck", b"*NODE")]).unwrap();
    assert_eq!(plan.program, service.directory.path().join("p"));
    let image = service.directory.path().join("ccx.sif").to_str().unwrap().to_owned();
    let bind = ".:/workspace";
    assert_eq!(
        plan.arguments,
        ["exec", "--bind", bind, "--pwd", "/workspace", &image, "ccx", "-i", "deck"]
    );
}

#[test]
fn progress_of_a_redirected_stream_is_read_from_its_file() {
    let service =
        fixture("command = './p > [out file log:string]'\n[progress]\npattern = '(\\d+)%'\n");
    assert_eq!(service.plan(&[]).unwrap().progress.unwrap().stream, "log");
}

#[test]
fn what_the_owner_said_is_in_every_plan() {
    let service = fixture(
        "command = './p'\nstage = ['p']\nenvironment = { A = '1' }\nmax_running = 3\n\
         [exit]\nsuccess = [0, 2]\n[limits]\nwall_time = '1m'\n",
    );
    let plan = service.plan(&[]).unwrap();
    assert_eq!(plan.staged[0].to, "p");
    assert_eq!(plan.environment["A"], "1");
    assert_eq!(plan.success.exit_codes, [0, 2]);
    assert_eq!(plan.limits.wall_time, Some(60.0));
    assert_eq!(service.program.max_running(), Some(3));
}

/// Runs a plan as an executor does, and gives the workspace.
fn run(plan: &Plan) -> TempDir {
    let workspace = tempfile::tempdir().unwrap();
    let at = |path: &str| workspace.path().join(path);
    for input in &plan.inputs {
        let bytes = match &input.content {
            InputContent::Text(text) => text.as_bytes(),
            InputContent::Bytes(bytes) => bytes,
            InputContent::InPlace | InputContent::Fetch(_) | InputContent::Fetched(_) => {
                panic!("nothing is spooled here")
            }
        };
        std::fs::write(at(&input.path), bytes).unwrap();
    }
    let environment = std::fs::read(plan.base_environment.as_ref().unwrap()).unwrap();
    let environment: environment::Variables = serde_json::from_slice(&environment).unwrap();
    let mut command = std::process::Command::new(&plan.program);
    command.args(&plan.arguments).current_dir(workspace.path());
    command.env_clear().envs(environment).envs(&plan.environment);
    if let Some(path) = &plan.stdin {
        command.stdin(std::fs::File::open(at(path)).unwrap());
    }
    if let Some(path) = &plan.stdout {
        command.stdout(std::fs::File::create(at(path)).unwrap());
    }
    assert!(command.status().unwrap().success());
    workspace
}

/// An example of the repository; the directory holds its environment.
fn example(path: &str) -> (Program, TempDir) {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let checked = crate::descriptor::check_file(&examples.join(path)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let description = checked.description.expect("no mistakes");
    (Program::load(description, directory.path(), &BTreeSet::new()).unwrap(), directory)
}

#[test]
fn the_example_of_the_paper_adds() {
    let (program, _directory) = example("arithmetic/arithmetic.toml");
    let (plan, _) = program.plan("call", texts(&[("x", "1"), ("y", "2")])).unwrap();
    let workspace = run(&plan);
    assert_eq!(std::fs::read(workspace.path().join("result")).unwrap(), b"3\n");
}

#[test]
fn the_examples_of_files_sort_and_compress() {
    let (program, _directory) = example("files/sort.toml");
    let arguments = [
        data("text", b"b,2\na,10\n"),
        Argument::text("key", "2"),
        Argument::text("separator", ","),
        Argument::text("numeric", "true"),
        Argument::text("reverse", "true"),
    ];
    let workspace = run(&program.plan("call", arguments.to_vec()).unwrap().0);
    assert_eq!(std::fs::read(workspace.path().join("sorted")).unwrap(), b"a,10\nb,2\n");
    let (program, _directory) = example("files/gzip.toml");
    let workspace = run(&program.plan("call", vec![data("plain", &[b'x'; 10_000])]).unwrap().0);
    let packed = std::fs::read(workspace.path().join("packed")).unwrap();
    assert!(packed.starts_with(b"\x1f\x8b") && packed.len() < 1000, "{}", packed.len());
}

#[test]
fn the_example_of_progress_names_its_own_outputs() {
    let (program, _directory) = example("progress/countdown.toml");
    let arguments = texts(&[("steps", "3"), ("pause", "0")]);
    let (plan, _) = program.plan("call", arguments.to_vec()).unwrap();
    let workspace = run(&plan);
    assert_eq!(std::fs::read(workspace.path().join("summary.txt")).unwrap(), b"3\n");
    assert!(workspace.path().join("steps/0003.txt").exists());
    let progress = regex::Regex::new(&plan.progress.unwrap().pattern).unwrap();
    assert!(progress.is_match("step 3 of 3"));
}

fn any_text(data_type: &DataType) -> BoxedStrategy<String> {
    match data_type {
        DataType::Int => any::<i32>().prop_map(|n| n.to_string()).boxed(),
        DataType::Long => any::<i64>().prop_map(|n| n.to_string()).boxed(),
        DataType::Float => any::<f32>().prop_map(|n| format!("{n:e}")).boxed(),
        DataType::Double => any::<f64>().prop_map(|n| format!("{n:?}")).boxed(),
        DataType::Bool => {
            prop::sample::select(vec!["true", "false", "1", "0"]).prop_map(str::to_owned).boxed()
        }
        _ => prop_oneof![
            "\\PC{0,12}",
            "[-;|&$`'\"* \\t\\n>\\[\\]\\\\]{0,12}",
            Just("-rf".to_owned()),
            Just("[in val x:int]".to_owned()),
            Just("2>&1".to_owned()),
        ]
        .boxed(),
    }
}

fn any_value() -> impl Strategy<Value = (DataType, String)> {
    let types = ["int", "long", "float", "double", "bool", "string"];
    prop::sample::select(types.to_vec()).prop_flat_map(|name| {
        let data_type = DataType::from_name(name).unwrap();
        any_text(&data_type).prop_map(move |text| (data_type.clone(), text))
    })
}

proptest! {
    #[test]
    fn a_value_ends_as_exactly_one_word_and_never_as_an_option(
        (data_type, text) in any_value(),
        before in "(|-q|--name=|a b)",
        after in "(|x|-y)",
    ) {
        let type_name = data_type.name();
        let word = format!("{before}[in val v:{type_name}]{after}");
        let words = serde_json::to_string(&["./p", "first", &word, "last"]).unwrap();
        let service = fixture(&format!("command = {words}"));
        match service.plan(&texts(&[("v", &text)])) {
            Ok(plan) => {
                let text = fishplate_contract::lexical::normal(&data_type, &text);
                let filled = format!("{before}{text}{after}");
                prop_assert_eq!(&plan.arguments, &["first", &filled, "last"]);
                let number = !matches!(data_type, DataType::String);
                prop_assert!(before.starts_with('-') || number || !filled.starts_with('-'));
                prop_assert!(plan.inputs.is_empty() && plan.stdin.is_none());
            }
            Err(fault) => {
                prop_assert!(matches!(fault.code, FaultCode::InvalidValue), "{:?}", fault);
                prop_assert_eq!(fault.parameter.as_deref(), Some("v"));
            }
        }
    }
}

mod arrays;
mod lists;

#[test]
fn a_directory_is_unpacked_beside_the_other_inputs() {
    let service = fixture(
        "command = './p [in out file case:dir] [in file f:raw]'\n\
         [input.f]\nfilename = 'case/extra'\n\
         [output.log]\ntype = 'raw'\npath = 'case/log'\noptional = true\n",
    );
    let arguments = [data("case", b"an archive"), data("f", b"a file")];
    let (plan, placements) = service.program.plan("call", arguments.to_vec()).unwrap();
    assert_eq!(plan.arguments, ["case", "case/extra"]);
    assert_eq!(plan.inputs[0].content, InputContent::InPlace);
    let [InputPlacement { path, content: PlacedInput::Directory(_, parameter) }] =
        placements.as_slice()
    else {
        panic!("{placements:?}")
    };
    assert_eq!((path.as_str(), parameter.as_str()), ("case", "case"));
    let told: Vec<_> = plan.outputs.iter().map(|it| (it.name.as_str(), &*it.data_type)).collect();
    assert_eq!(told, [("case", "dir"), ("log", "raw")]);
}
