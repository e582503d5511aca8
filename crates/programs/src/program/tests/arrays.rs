//! Arrays from a call to the program's files.

use fishplate_contract::{Array, ElementType};

use super::*;

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn array(name: &str, shape: &[u64], data: impl Into<Payload>) -> Argument {
    let array = Array { element: ElementType::Float, shape: shape.to_vec(), data: data.into() };
    Argument::new(name, Value::Array(array))
}

fn matrix() -> Argument {
    array("m", &[2, 2], Bytes::from(bytes(&[1.0, 2.5, -3.0, 0.1])))
}

#[test]
fn a_small_array_stands_in_the_plan_as_the_program_reads_it() {
    let npy = {
        let mut file =
            fishplate_formats::array_file::npy::NpyHeader::print(ElementType::Float, &[2, 2]);
        file.extend(bytes(&[1.0, 2.5, -3.0, 0.1]));
        file
    };
    let big: Vec<u8> =
        [1.0_f32, 2.5, -3.0, 0.1].iter().flat_map(|number| number.to_be_bytes()).collect();
    for (format, content) in [
        ("", InputContent::Text("1.0 2.5\n-3.0 0.1\n".to_owned())),
        ("delimiter = ','", InputContent::Text("1.0,2.5\n-3.0,0.1\n".to_owned())),
        ("format = 'raw'", InputContent::Bytes(bytes(&[1.0, 2.5, -3.0, 0.1]))),
        ("format = 'raw'\norder = 'fortran'", InputContent::Bytes(bytes(&[1.0, -3.0, 2.5, 0.1]))),
        ("format = 'raw'\nbyte_order = 'big'", InputContent::Bytes(big)),
        ("format = 'npy'", InputContent::Bytes(npy)),
    ] {
        let service = fixture(&format!(
            "command = './p < [in file m:float[][]]'\n[input.m]\nfilename = 'm.in'\n{format}"
        ));
        let plan = service.plan(&[matrix()]).unwrap();
        assert_eq!(plan.stdin.as_deref(), Some("m.in"));
        assert_eq!(plan.inputs, [InputFile { path: "m.in".to_owned(), content }], "{format}");
    }
}

#[test]
fn a_large_array_is_placed_and_not_kept_in_the_plan() {
    let pieces = || Payload::Pieces(vec![Bytes::from(vec![0; 50_000]); 4].into());
    let large = || array("m", &[50, 1000], pieces());
    for (format, is_moved) in [("", false), ("format = 'npy'", false), ("format = 'raw'", true)] {
        let service =
            fixture(&format!("command = './p [in file m:float[][]]'\n[input.m]\n{format}"));
        let (plan, placements) = service.program.plan("call", vec![large()]).unwrap();
        assert_eq!(plan.inputs[0].content, InputContent::InPlace);
        let as_it_is = matches!(placements[0].content, PlacedInput::Bytes(Payload::Pieces(_)));
        assert_eq!((placements[0].path.as_str(), as_it_is), ("m", is_moved), "{format}");
    }
    let service = fixture("command = './p [in file m:raw]'");
    let data = Argument::new("m", Value::Data(pieces()));
    let (plan, placements) = service.program.plan("call", vec![data]).unwrap();
    assert_eq!(plan.inputs[0].content, InputContent::InPlace);
    assert!(
        matches!(&placements[0].content, PlacedInput::Bytes(data) if data.len() == Some(200_000))
    );
}

#[test]
fn an_array_that_does_not_fit_is_a_fault_of_the_call() {
    let service = fixture(
        "command = './p [in file m:float[n,k]] [in file v:float[k,3]] [in val n:int]'\n\
         [input.v]\noptional = true",
    );
    let n = |text| Argument::text("n", text);
    let of = |shape: &[u64], len| array("m", shape, Bytes::from(vec![0; len]));
    let v = |shape: &[u64], len| array("v", shape, Bytes::from(vec![0; len]));
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("3")]),
        "InvalidValue \"m\" parameter m has the shape 2 x 2, but its axis 1, n, must be 3 long, \
         as parameter n says (float[n,k])"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("2"), v(&[5, 3], 60)]),
        "InvalidValue \"v\" parameter v has the shape 5 x 3, but its axis 1, k, must be 2 long, \
         as axis 2 of parameter m says (float[k,3])"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("2"), v(&[2, 4], 32)]),
        "InvalidValue \"v\" parameter v has the shape 2 x 4, and its axis 2 must be 3 long \
         (float[k,3])"
    );
    assert_eq!(
        service.fault(&[of(&[4], 16), n("4")]),
        "InvalidValue \"m\" parameter m has 1 dimension (4), and float[n,k] has 2"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 15), n("2")]),
        "InvalidValue \"m\" parameter m has 15 bytes, not those of 2 x 2 float"
    );
    assert_eq!(
        service.fault(&[of(&[2, 2], 16), n("-2")]),
        "InvalidValue \"n\" parameter n is the length of an axis (float[n,k]): -2 is none"
    );
    assert_eq!(
        service.fault(&[Argument::text("m", "1 2"), n("2")]),
        "InvalidValue \"m\" parameter m is of type float[n,k]: send an array of numbers"
    );
    let doubles = Array {
        element: ElementType::Double,
        shape: vec![1, 1],
        data: Payload::Inline(Bytes::from_static(&[0; 8])),
    };
    assert_eq!(
        service.fault(&[Argument::new("m", Value::Array(doubles)), n("1")]),
        "InvalidValue \"m\" parameter m is of type float[n,k], not an array of double"
    );
    let elsewhere = Payload::Reference(DataRef::new("http://x.example/m"));
    assert_eq!(
        service.fault(&[array("m", &[2, 2], elsewhere), n("3")]),
        "InvalidValue \"m\" parameter m has the shape 2 x 2, but its axis 1, n, must be 3 long, as \
         parameter n says (float[n,k])"
    );
}
