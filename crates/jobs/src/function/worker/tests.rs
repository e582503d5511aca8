use bytes::Bytes;
use fishplate_contract::DataRef;

use super::super::plan::{WorkerProgram, plan};
use super::*;
use crate::executor::{ArrayBytes, OutputContent, ProgramExit};
use crate::function::PackedArray;
use crate::workspace;
use fishplate_programs::plan::{Fetched, InputContent, Plan};
use fishplate_programs::program::{InputPlacement, PlacedInput};

fn services() -> Vec<Functions> {
    vec![
        Functions::new("test", "urn:test")
            .function("twice", ["x", "data"], ["y", "data"], |x: i32, data: Payload| {
                let y = x.checked_mul(2);
                let fault = || Fault::new(FaultCode::ValueOutOfRange, "too large").parameter("x");
                Ok((y.ok_or_else(fault)?, data))
            })
            .function("echo", ["m"], ["m"], |m: PackedArray<f32, 2>| Ok(m))
            .function("join", ["a", "b"], ["text"], |a: String, b: String| Ok(a + &b))
            .with(FunctionEntry::with_context("write", [], ["data"], |context: &Context| {
                context.progress(0.5);
                let mut file = context.create().map_err(|error| storage_fault(&error))?;
                file.write_all(b"written").map_err(|error| storage_fault(&error))?;
                Ok(file.finish())
            })),
    ]
}

fn prepared(operation: &str, arguments: &[Argument]) -> (tempfile::TempDir, Plan) {
    prepared_with(operation, arguments, &[])
}

/// The same once these files were fetched.
fn prepared_with(
    operation: &str,
    arguments: &[Argument],
    fetched: &[&[u8]],
) -> (tempfile::TempDir, Plan) {
    let directory = tempfile::tempdir().unwrap();
    let worker = WorkerProgram {
        program: "/bin/fishplate".into(),
        arguments: vec!["function".to_owned()],
        environment: "/nowhere".into(),
    };
    let (mut plan, placements) =
        plan(&services()[0], operation, arguments.to_vec(), &worker).unwrap();
    assert_eq!(plan.fetches().count(), fetched.len());
    fs::create_dir_all(directory.path().join("fetched/1")).unwrap();
    let mut fetched = fetched.iter().enumerate();
    for input in &mut plan.inputs {
        let InputContent::Fetch(fetch) = &input.content else { continue };
        let (at, bytes) = fetched.next().unwrap();
        fs::write(directory.path().join(format!("fetched/1/{at}")), bytes).unwrap();
        input.content = InputContent::Fetched(Fetched {
            parameter: fetch.parameter.clone(),
            peer: String::new(),
            bytes: bytes.len() as u64,
            cached: false,
            placed: "copy".to_owned(),
            at: format!("fetched/1/{at}"),
        });
    }
    for InputPlacement { path, content } in placements {
        let PlacedInput::Bytes(Payload::Inline(bytes)) = content else { panic!("{content:?}") };
        let path = directory.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(plan.arguments, ["function", "test", operation]);
    workspace::prepare(&plan, directory.path()).unwrap();
    (directory, plan)
}

#[test]
fn a_job_leaves_what_a_call_gives() {
    let data = Payload::Inline(Bytes::from_static(b"\x00\xff"));
    let arguments = [Argument::text("x", "21"), Argument::new("data", Value::Data(data))];
    let (directory, _plan) = prepared("twice", &arguments);
    let work = directory.path().join("work");
    assert_eq!(run(&services(), "test", "twice", &work).unwrap(), FunctionExit::Well);
    assert_eq!(fs::read_to_string(work.join("out/y")).unwrap(), "42");
    assert_eq!(fs::read(work.join("out/data")).unwrap(), b"\x00\xff");
    let (directory, plan) = prepared("write", &[]);
    let work = directory.path().join("work");
    assert_eq!(run(&services(), "test", "write", &work).unwrap(), FunctionExit::Well);
    assert_eq!(fs::read(work.join("out/data")).unwrap(), b"written");
    assert_eq!(workspace::progress(&plan, directory.path()), Some(0.5));
}

#[test]
fn long_texts_are_files_and_the_plan_stays_small() {
    for (a, b) in [(1, 2), (20_000, 1), (60_000, 60_000), (1 << 20, 1 << 20)] {
        let (a, b) = ("a".repeat(a), "\n".repeat(b));
        let arguments = [Argument::text("a", &*a), Argument::text("b", format!("{b}b"))];
        let (directory, plan) = prepared("join", &arguments);
        assert!(serde_json::to_string(&plan).unwrap().len() < 128 << 10);
        let work = directory.path().join("work");
        assert_eq!(run(&services(), "test", "join", &work).unwrap(), FunctionExit::Well);
        assert!(fs::read_to_string(work.join("out/text")).unwrap() == format!("{a}{b}b"));
    }
}

#[test]
fn an_array_is_left_with_its_shape() {
    let bytes: Vec<u8> =
        [1.5_f32, 2.0, -0.0, 4.0, 5.0, 6.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let data = Payload::Inline(Bytes::from(bytes.clone()));
    let array = Array { element: ElementType::Float, shape: vec![2, 3], data };
    let (directory, plan) = prepared("echo", &[Argument::new("m", Value::Array(array))]);
    let work = directory.path().join("work");
    assert_eq!(run(&services(), "test", "echo", &work).unwrap(), FunctionExit::Well);
    let ending = ProgramExit { exit_code: Some(0), ..ProgramExit::default() };
    let collected = workspace::collect(&plan, directory.path(), &ending);
    let (element, shape) = ("float".to_owned(), vec![2, 3]);
    let content = OutputContent::Array { element, shape, bytes: ArrayBytes::Inline(bytes) };
    assert_eq!((&collected.outputs[0].content, collected.problem), (&content, None));
}

#[test]
fn what_was_fetched_is_an_argument_like_others() {
    let refer = |name: &str| {
        let reference = DataRef::new("http://a.example/x");
        Argument::new(name, Value::Data(Payload::Reference(reference)))
    };
    let arguments = [Argument::text("x", "21"), refer("data")];
    let (directory, _plan) = prepared_with("twice", &arguments, &[b"fetched"]);
    let work = directory.path().join("work");
    assert_eq!(run(&services(), "test", "twice", &work).unwrap(), FunctionExit::Well);
    assert_eq!(fs::read(work.join("out/data")).unwrap(), b"fetched");
    // A small array, and one that is not kept in memory.
    for rows in [2_u64, 20_000] {
        let numbers = vec![0x40; usize::try_from(rows * 8).unwrap()];
        let header = array_file::npy::NpyHeader::print(ElementType::Float, &[rows, 2]);
        let npy = [header, numbers].concat();
        let (directory, plan) = prepared_with("echo", &[refer("m")], &[&npy]);
        let work = directory.path().join("work");
        assert_eq!(run(&services(), "test", "echo", &work).unwrap(), FunctionExit::Well);
        assert_eq!(fs::read(work.join("out/m")).unwrap(), npy);
        assert_eq!(plan.inputs[0].path, "in/m");
    }
}

#[test]
fn a_fault_is_left_as_the_function_told_it() {
    let data = Payload::Inline(Bytes::new());
    let arguments = [Argument::text("x", "2147483647"), Argument::new("data", Value::Data(data))];
    let (directory, _plan) = prepared("twice", &arguments);
    let work = directory.path().join("work");
    for (service, code) in
        [("test", FaultCode::ValueOutOfRange), ("gone", FaultCode::ProgramMissing)]
    {
        assert_eq!(run(&services(), service, "twice", &work).unwrap(), FunctionExit::WithFault);
        let told = fs::read(work.join("fault.json")).unwrap();
        let told: ProgramFault = serde_json::from_slice(&told).unwrap();
        assert_eq!(told.code, code.name());
    }
}
