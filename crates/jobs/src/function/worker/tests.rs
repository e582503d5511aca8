use bytes::Bytes;

use super::super::plan::{WorkerProgram, plan};
use super::*;
use crate::plan::Plan;
use crate::workspace;

fn services() -> Vec<Functions> {
    vec![
        Functions::new("test", "urn:test")
            .function("twice", ["x", "data"], ["y", "data"], |x: i32, data: Payload| {
                let y = x.checked_mul(2);
                let fault = || Fault::new(FaultCode::ValueOutOfRange, "too large").parameter("x");
                Ok((y.ok_or_else(fault)?, data))
            })
            .with(Entry::with_context("write", [], ["data"], |context: &Context| {
                context.progress(0.5);
                let mut file = context.create().map_err(|error| storage_fault(&error))?;
                file.write_all(b"written").map_err(|error| storage_fault(&error))?;
                Ok(file.finish())
            })),
    ]
}

fn prepared(operation: &str, arguments: &[Argument]) -> (tempfile::TempDir, Plan) {
    let directory = tempfile::tempdir().unwrap();
    let worker = WorkerProgram {
        program: "/bin/fishplate".into(),
        arguments: vec!["function".to_owned()],
        environment: "/nowhere".into(),
    };
    let (plan, placements) = plan(&services()[0], operation, arguments, &worker).unwrap();
    assert!(placements.is_empty());
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
    assert_eq!(run(&services(), "test", "twice", &work).unwrap(), Ended::Well);
    assert_eq!(fs::read_to_string(work.join("out/y")).unwrap(), "42");
    assert_eq!(fs::read(work.join("out/data")).unwrap(), b"\x00\xff");
    let (directory, plan) = prepared("write", &[]);
    let work = directory.path().join("work");
    assert_eq!(run(&services(), "test", "write", &work).unwrap(), Ended::Well);
    assert_eq!(fs::read(work.join("out/data")).unwrap(), b"written");
    assert_eq!(workspace::progress(&plan, directory.path()), Some(0.5));
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
        assert_eq!(run(&services(), service, "twice", &work).unwrap(), Ended::WithFault);
        let told = fs::read(work.join("fault.json")).unwrap();
        let told: ToldFault = serde_json::from_slice(&told).unwrap();
        assert_eq!(told.code, code.name());
    }
}
