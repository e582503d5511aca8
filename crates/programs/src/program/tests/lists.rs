//! Inputs that stand several times, groups of inputs, and outputs that are named after inputs.

use super::*;

/// A service with this input, whose command line has this word; other tables may follow the input's keys.
fn with(word: &str, keys: &str) -> Fixture {
    fixture(&format!("command = ['./p', '{word}']\n[input.x]\n{keys}\n"))
}

#[test]
fn values_of_a_list_stand_as_its_table_says() {
    for (word, keys, expected) in [
        ("[in val x:int]", "repeated = true", vec!["1", "2"]),
        ("-x=[in val x:int]", "repeated = true", vec!["-x=1", "-x=2"]),
        ("[in val x:int]", "repeated = true\nprefix = '-x'", vec!["-x", "1", "2"]),
        (
            "[in val x:int]",
            "repeated = true\nprefix = '-x'\nrepeat_prefix = true",
            vec!["-x", "1", "-x", "2"],
        ),
        ("[in val x:int]", "repeated = true\nprefix = '-x'\nseparator = ','", vec!["-x", "1,2"]),
        ("x=[in val x:int]!", "repeated = true\nseparator = ':'", vec!["x=1:2!"]),
        ("[in val x:int]", "repeated = true\nprefix = ['-b', 'x']", vec!["-b", "x", "1", "2"]),
    ] {
        let service = with(word, keys);
        assert_eq!(service.words(&[("x", " 1"), ("x", "2")]), expected, "{word} {keys}");
    }
}

#[test]
fn an_optional_list_is_left_out_with_its_prefix_and_others_need_a_value() {
    let service = with("[in val x:int]", "repeated = true\nprefix = '-x'\noptional = true");
    assert_eq!(service.words(&[]), Vec::<String>::new());
    let service = with("[in val x:int]", "repeated = true");
    assert!(service.fault(&[]).starts_with("MissingParameter \"x\""), "{}", service.fault(&[]));
}

#[test]
fn how_many_values_a_list_has_is_checked() {
    let service = with("[in val x:int]", "repeated = true\nmin_count = 2\nmax_count = 3");
    for (count, told) in [(1, "1 times"), (4, "4 times")] {
        let fault = service.fault(&texts(&vec![("x", "1"); count]));
        assert!(fault.starts_with("InvalidValue \"x\""), "{fault}");
        assert!(fault.contains(told) && fault.contains("2 to 3 values"), "{fault}");
    }
    assert_eq!(service.words(&[("x", "1"), ("x", "2")]), ["1", "2"]);
    assert!(service.fault(&texts(&[("x", "1"), ("x", "b")])).starts_with("InvalidValue"));
}

#[test]
fn no_value_of_a_list_becomes_two_or_an_option() {
    let service = with("[in val x:string]", "repeated = true\nseparator = ','");
    let fault = service.fault(&texts(&[("x", "a,b"), ("x", "c")]));
    assert!(fault.starts_with("InvalidValue \"x\"") && fault.contains("\",\""), "{fault}");
    assert!(service.fault(&texts(&[("x", "a"), ("x", "-b")])).starts_with("InvalidValue"));
    assert_eq!(service.words(&[("x", "a b"), ("x", "c")]), ["a b,c"]);
}

#[test]
fn files_of_a_list_have_a_directory_of_their_own() {
    let service = with("-I[in file x:raw]", "repeated = true\nfilename = 'scan.nii.gz'");
    let plan = service.plan(&[data("x", b"1"), data("x", b"2")]).unwrap();
    assert_eq!(plan.arguments, ["-Ix/1-scan.nii.gz", "-Ix/2-scan.nii.gz"]);
    let paths: Vec<&str> = plan.inputs.iter().map(|input| input.path.as_str()).collect();
    assert_eq!(paths, ["x/1-scan.nii.gz", "x/2-scan.nii.gz"]);
}

#[test]
fn a_flag_may_be_several_words() {
    let service = with("[in val x:bool]", "flag = ['-o', 'fast']\ndefault = false");
    assert_eq!(service.words(&[("x", "true")]), ["-o", "fast"]);
    assert_eq!(service.words(&[]), Vec::<String>::new());
}

#[test]
fn a_default_file_stands_in_for_what_is_left_out() {
    let service = with("[in file x:raw]", "default_file = 'atlas.nii'");
    let plan = service.plan(&[]).unwrap();
    let from = service.directory.path().join("atlas.nii");
    assert_eq!(plan.arguments, ["x"]);
    assert_eq!(plan.staged, [crate::plan::StagedFile { from, to: "x".to_owned() }]);
    let plan = service.plan(&[data("x", b"1")]).unwrap();
    assert_eq!((plan.staged.len(), plan.inputs.len()), (0, 1));
}

/// Two optional inputs and a flag, in a group.
fn grouped(rule: &str) -> Fixture {
    fixture(&format!(
        "command = './p [in val a:int] [in val b:int] [in val c:bool]'\n\
         [input.a]\noptional = true\n[input.b]\noptional = true\n\
         [input.c]\nflag = '-c'\ndefault = false\n\
         [group.way]\ninputs = ['a', 'b', 'c']\n{rule}\n"
    ))
}

#[test]
fn a_group_says_which_inputs_go_together() {
    let (a, b, on, off) = (("a", "1"), ("b", "2"), ("c", "true"), ("c", "false"));
    let told = |rule: &str, given: &[(&str, &str)]| {
        let service = grouped(rule);
        match service.plan(&texts(given)) {
            Ok(_) => String::new(),
            Err(fault) => format!("{} {}", fault.code.name(), fault.parameter.unwrap()),
        }
    };
    for (rule, given, expected) in [
        ("exclusive = true", vec![], ""),
        ("exclusive = true", vec![a, off], ""),
        ("exclusive = true", vec![a, b], "InvalidValue b"),
        ("exclusive = true", vec![b, on], "InvalidValue c"),
        ("required = true", vec![off], "MissingParameter a"),
        ("required = true", vec![a, b], ""),
        ("exclusive = true\nrequired = true", vec![], "MissingParameter a"),
        ("exclusive = true\nrequired = true", vec![on], ""),
        ("together = true", vec![a, on], "MissingParameter b"),
        ("together = true", vec![a, b, on], ""),
        ("together = true", vec![off], ""),
    ] {
        assert_eq!(told(rule, &given), expected, "{rule} {given:?}");
    }
    let service = grouped("exclusive = true");
    let operation = service.program.service().operation("call").unwrap();
    assert_eq!(operation.documentation, "At most one of a, b, c is given.");
}

/// An output that is named after the input `x`.
fn named(output: &str) -> Fixture {
    fixture(&format!(
        "command = './p [in val x:string]'\n[input.x]\noptional = true\n\
         [output.y]\ntype = 'raw'\noptional = true\n{output}\n"
    ))
}

#[test]
fn an_output_is_found_under_its_inputs_value() {
    let sources = |output: &str, x: &str| {
        let plan = named(output).plan(&texts(&[("x", x)])).unwrap();
        plan.outputs.into_iter().map(|rule| rule.source).collect::<Vec<_>>()
    };
    let path = |path: &str| vec![OutputSource::Path(path.to_owned())];
    assert_eq!(sources("path = '{x}_mask.nii'", "a/b"), path("a/b_mask.nii"));
    let glob = vec![OutputSource::Glob("a[*]{1,2}*".to_owned())];
    assert_eq!(sources("glob = '{x}{1,2}*'", "a*"), glob);
    let absent = named("path = '{x}'").plan(&[]).unwrap();
    assert_eq!(absent.outputs, []);
}

#[test]
fn an_outputs_name_leads_out_of_no_workspace() {
    let service = named("path = '{x}.nii'");
    for value in ["/etc/passwd", "../../x", "a/../../b", "a//b"] {
        let fault = service.fault(&texts(&[("x", value)]));
        assert!(fault.starts_with("InvalidValue \"x\""), "{value}: {fault}");
        assert!(fault.contains("no file of the workspace"), "{value}: {fault}");
    }
}

proptest! {
    #[test]
    fn whatever_is_sent_a_name_stays_below_the_workspace(value in "[a./*{}\\[-]{0,10}|\\PC{0,8}") {
        let service = named("path = 'out/{x}'");
        if let Ok(plan) = service.plan(&texts(&[("x", &value)])) {
            let OutputSource::Path(path) = &plan.outputs[0].source else { panic!() };
            prop_assert_eq!(crate::template::reject_file_name(path), None);
        }
    }

    #[test]
    fn each_value_of_a_list_is_one_word(values in prop::collection::vec("[a-z ,']{1,6}", 1..5)) {
        let service = with("[in val x:string]", "repeated = true\nprefix = '-x'");
        let given: Vec<(&str, &str)> = values.iter().map(|value| ("x", value.as_str())).collect();
        let words = service.words(&given);
        prop_assert_eq!(&words[1..], &values[..]);
    }
}
