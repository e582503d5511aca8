use fishplate_contract::{Array, ElementType, Payload, Value};
use tempfile::TempDir;

use super::super::Matrix;
use super::super::array::PackedArray;
use super::super::context::Scratch;
use super::*;

fn context() -> (TempDir, Context) {
    let directory = tempfile::tempdir().unwrap();
    let context = Context::new(&Scratch::new(directory.path(), 0));
    (directory, context)
}

fn arithmetic() -> Functions {
    Functions::new("arithmetic", "urn:example:arithmetic")
        .title("Arithmetic")
        .function("add", ["x", "y"], ["sum"], |x: i32, y: i32| {
            x.checked_add(y).ok_or_else(|| Fault::new(FaultCode::InvalidValue, "too large"))
        })
        .with(
            FunctionEntry::new(
                "divide",
                ["x", "by"],
                ["quotient", "rest"],
                |x: i64, by: Option<i64>| {
                    let by = by.unwrap_or(10);
                    Ok((x / by, Some(x % by).filter(|rest| *rest != 0)))
                },
            )
            .quick()
            .input("x", |x| x.help("What is divided.")),
        )
        .with(FunctionEntry::with_context(
            "size",
            ["data"],
            ["size"],
            |context: &Context, data: Payload| {
                assert!(!context.is_cancelled(), "told so by the test");
                Ok(data.len().and_then(|len| i64::try_from(len).ok()))
            },
        ))
}

fn call(operation: &str, arguments: Vec<Argument>) -> Result<Vec<(String, String)>, Fault> {
    let (_directory, context) = context();
    let functions = arithmetic();
    let entry = functions.entry(operation)?;
    let outputs = entry.run(entry.accept(arguments)?, &context)?;
    let pair = |output: Argument| match output.value {
        Value::Text(text) => (output.name, text),
        other => panic!("{other:?}"),
    };
    Ok(outputs.into_iter().map(pair).collect())
}

fn named(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[test]
fn a_closures_types_are_the_operations() {
    let functions = arithmetic();
    let signature = &functions.service().operation("divide").unwrap().signature;
    let typed = |parameters: &[Parameter]| {
        let typed = |p: &Parameter| format!("{} {} {}", p.name, p.data_type.name(), p.optional);
        parameters.iter().map(typed).collect::<Vec<_>>()
    };
    assert_eq!(typed(&signature.inputs), ["x long false", "by long true"]);
    assert_eq!(typed(&signature.outputs), ["quotient long false", "rest long true"]);
    assert_eq!(signature.inputs[0].help, "What is divided.");
    assert!(functions.entry("divide").unwrap().is_quick(&[]));
    assert!(!functions.entry("add").unwrap().is_quick(&[]));
}

#[test]
fn a_call_gives_the_outputs_in_their_order() {
    let sum = call("add", vec![Argument::text("y", " 2 "), Argument::text("x", "40")]);
    assert_eq!(sum.unwrap(), [named("sum", "42")]);
    let quotient = call("divide", vec![Argument::text("x", "42")]);
    assert_eq!(quotient.unwrap(), [named("quotient", "4"), named("rest", "2")]);
    let even = call("divide", vec![Argument::text("by", "7"), Argument::text("x", "42")]);
    assert_eq!(even.unwrap(), [named("quotient", "6")]);
}

#[test]
fn wrong_arguments_have_the_faults_of_programs() {
    let x = || Argument::text("x", "1");
    let y = || Argument::text("y", "1");
    let cases = [
        ("add", vec![x()], FaultCode::MissingParameter, "y"),
        ("add", vec![x(), y(), x()], FaultCode::UnexpectedParameter, "x"),
        ("add", vec![x(), y(), Argument::text("z", "1")], FaultCode::UnexpectedParameter, "z"),
        ("add", vec![x(), Argument::text("y", "1.5")], FaultCode::InvalidValue, "y"),
        ("size", vec![Argument::text("data", "x")], FaultCode::InvalidValue, "data"),
    ];
    for (operation, arguments, code, parameter) in cases {
        let fault = call(operation, arguments).unwrap_err();
        assert_eq!((fault.code, fault.parameter.as_deref()), (code, Some(parameter)), "{fault}");
    }
    assert_eq!(call("subtract", Vec::new()).unwrap_err().code, FaultCode::UnknownOperation);
    let too_large = vec![x(), Argument::text("y", "2147483647")];
    assert_eq!(call("add", too_large).unwrap_err().message, "too large");
}

#[test]
fn a_function_that_panics_is_a_fault_of_our_own() {
    let by_zero = vec![Argument::text("x", "1"), Argument::text("by", "0")];
    let fault = call("divide", by_zero).unwrap_err();
    assert_eq!(fault.code, FaultCode::Internal);
    assert!(fault.message.contains("divide"), "{fault}");
}

#[test]
#[should_panic(expected = "add has 2 parameters or outputs, but names for 1")]
fn names_that_are_not_as_many_as_parameters_are_a_mistake() {
    let _ =
        Functions::new("s", "urn:s").function("add", ["x"], ["sum"], |x: i32, y: i32| Ok(x + y));
}

#[test]
fn an_output_of_countless_rows_without_numbers_is_a_fault() {
    let rows = |rows: i64| {
        let functions = Functions::new("f", "urn:f").function("f", ["n"], ["grid"], |n: i64| {
            let shape = [u64::try_from(n).unwrap_or(0), 0];
            let none = Payload::Inline(bytes::Bytes::new());
            Ok(PackedArray::<f64, 2>::new(shape, none))
        });
        let (_directory, context) = context();
        let entry = functions.entry("f").unwrap();
        let arguments = entry.accept(vec![Argument::text("n", rows.to_string())]).unwrap();
        entry.run(arguments, &context)
    };
    assert_eq!(rows(10_000).unwrap().len(), 1);
    let fault = rows(10_001).unwrap_err();
    assert_eq!(fault.code, FaultCode::OutputInvalid);
    assert_eq!(fault.parameter.as_deref(), Some("grid"));
    assert!(fault.message.starts_with("output grid has the shape 10001 x 0: "), "{fault}");
}

#[test]
fn what_does_not_fit_in_memory_is_refused_before_it_is_read() {
    let functions = Functions::new("sums", "urn:example:sums").function(
        "sum",
        ["x", "y"],
        ["sum"],
        |x: Vec<f64>, y: Option<Matrix<f64>>| {
            let y = y.map(Matrix::into_data).unwrap_or_default();
            Ok(x.iter().chain(&y).sum::<f64>())
        },
    );
    let entry = functions.entry("sum").unwrap();
    let (_directory, context) = context();
    let context = context.with_most_in_memory(32);
    let spooled = |shape: &[u64], len: usize| {
        let mut file = context.create().unwrap();
        std::io::Write::write_all(&mut file, &vec![0; len]).unwrap();
        let array =
            Array { element: ElementType::Double, shape: shape.to_vec(), data: file.finish() };
        Value::Array(array)
    };
    let sum = |x: usize, y: u64| {
        let x = Argument::new("x", spooled(&[x as u64], x * 8));
        let y = Argument::new("y", spooled(&[1, y], usize::try_from(y).unwrap() * 8));
        entry.run(entry.accept(vec![x, y]).unwrap(), &context)
    };
    assert!(sum(2, 2).is_ok());
    // They count together.
    for (x, y, parameter) in [(5, 0, "x"), (2, 3, "y")] {
        let fault = sum(x, y).unwrap_err();
        assert_eq!(fault.code, FaultCode::MessageTooLarge);
        assert_eq!(fault.parameter.as_deref(), Some(parameter));
        assert_eq!(fault.limit.unwrap().name, "function_memory");
    }
}

#[test]
fn a_value_that_cannot_be_read_is_a_fault_of_its_parameter() {
    let functions = Functions::new("sums", "urn:example:sums").function(
        "sum",
        ["x", "y"],
        ["sum"],
        |x: i32, y: Vec<i32>| Ok(x + y.iter().sum::<i32>()),
    );
    let entry = functions.entry("sum").unwrap();
    let (_directory, context) = context();
    let x = || Argument::text("x", "1");
    let short = Array {
        element: ElementType::Int,
        shape: vec![2],
        data: Payload::Inline(vec![0; 4].into()),
    };
    for (arguments, parameter) in [
        (vec![x(), Argument::text("y", "2")], "y"),
        (vec![x(), Argument::new("y", Value::Array(short))], "y"),
        (vec![Argument::text("x", "one")], "x"),
    ] {
        let fault = entry.run(arguments, &context).unwrap_err();
        assert_eq!(fault.parameter.as_deref(), Some(parameter), "{fault}");
    }
}
