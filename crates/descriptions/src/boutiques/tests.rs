use fishplate_contract::{DataType, Parameter, Signature};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::exported::Exported;
use crate::report::Imported;
use crate::tests::{is_named, objects, unheard};

fn import_of(line: &str, inputs: &Value, more: &Value) -> Imported {
    let mut descriptor =
        json!({ "name": "t", "description": "d", "command-line": line, "inputs": inputs });
    let more = more.as_object().cloned().unwrap_or_default();
    descriptor.as_object_mut().unwrap().extend(more);
    import(&descriptor.to_string()).unwrap()
}

/// An input `x` with these fields.
fn one(fields: &Value) -> Imported {
    let mut input = json!({ "id": "x", "name": "X", "value-key": "[X]", "type": "String" });
    input.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
    import_of("p [X] end", &json!([input]), &json!({}))
}

/// The word and the table of the input `x`.
fn said(imported: &Imported) -> String {
    let text = imported.service_file.as_ref().unwrap();
    let word = text.lines().find(|line| line.contains("[in ")).unwrap_or_default();
    let table = text.split_once("[input.x]\n").map_or("", |(_, table)| table);
    let keys = table.lines().filter(|line| !line.starts_with("help"));
    [word.trim().trim_end_matches(',')].into_iter().chain(keys).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_way_of_an_input_to_the_command_line_is_said() {
    for (fields, expected) in [
        (json!({}), "\"[in val x:string]\""),
        (json!({ "optional": true }), "\"[in val x:string]\"; optional = true"),
        (
            json!({ "type": "Flag", "command-line-flag": "-v", "optional": true }),
            "\"[in val x:bool]\"; flag = \"-v\"; default = false",
        ),
        (
            json!({ "type": "Number", "integer": true, "minimum": 1, "exclusive-minimum": true }),
            "\"[in val x:long]\"; min = 2",
        ),
        (
            json!({ "type": "Number", "command-line-flag": "--x", "maximum": 2.5 }),
            "\"[in val x:double]\"; prefix = \"--x\"; max = \"2.5\"",
        ),
        (
            json!({ "command-line-flag": "--x", "command-line-flag-separator": "=" }),
            "\"--x=[in val x:string]\"",
        ),
        (json!({ "command-line-flag": "-b x" }), "\"[in val x:string]\"; prefix = [\"-b\", \"x\"]"),
        (
            json!({ "type": "File", "list": true, "min-list-entries": 2, "max-list-entries": 3 }),
            "\"[in file x:raw]\"; repeated = true; min_count = 2; max_count = 3",
        ),
        (
            json!({ "list": true, "list-separator": ",", "command-line-flag": "-x" }),
            "\"[in val x:string]\"; repeated = true; separator = \",\"; prefix = \"-x\"",
        ),
        (
            json!({ "list": true, "list-separator": " -x ", "command-line-flag": "-x" }),
            "\"[in val x:string]\"; repeated = true; repeat_prefix = true; prefix = \"-x\"",
        ),
        (
            json!({ "value-choices": ["a", "b"], "default-value": "b" }),
            "\"[in val x:string]\"; choices = [\"a\", \"b\"]; default = \"b\"",
        ),
    ] {
        let imported = one(&fields);
        assert!(imported.is_whole(), "{fields}: {:?}", imported.gaps);
        assert_eq!(said(&imported), expected, "{fields}");
    }
}

#[test]
fn what_cannot_be_said_is_named() {
    for (fields, field, has_file) in [
        (json!({ "type": { "id": "sub" } }), "inputs.x.type", false),
        (json!({ "type": { "id": "sub" }, "optional": true }), "inputs.x.type", true),
        (
            json!({ "list": true, "command-line-flag": "-x", "command-line-flag-separator": "=" }),
            "inputs.x",
            false,
        ),
        (
            json!({ "uses-absolute-path": true, "type": "File" }),
            "inputs.x.uses-absolute-path",
            true,
        ),
        (json!({ "value-key": "[Y]", "optional": true }), "inputs.x", true),
        (json!({ "newest": 1 }), "inputs.x.newest", true),
    ] {
        let imported = one(&fields);
        let lost: Vec<&str> =
            imported.gaps.iter().filter(|gap| gap.lost).map(|gap| gap.field.as_str()).collect();
        assert_eq!(lost, [field], "{fields}");
        assert_eq!(imported.service_file.is_some(), has_file, "{fields}");
        assert!(!imported.is_whole());
        let named = imported.service_file.is_none_or(|text| text.contains(field));
        assert!(named, "{fields} is named in the file");
    }
}

#[test]
fn what_needs_a_shell_becomes_no_service() {
    for line in [
        "p [X] | q",
        "cd d && p [X]",
        "p [X]; q",
        "p `x` [X]",
        "p $(x) [X]",
        "p 'x [X]",
        "p [X]>y",
        "p a&&b",
        "p $D/x",
    ] {
        let inputs = json!([{ "id": "x", "name": "x", "value-key": "[X]", "type": "String" }]);
        let imported = import_of(line, &inputs, &json!({}));
        assert!(imported.service_file.is_none(), "{line}");
        assert_eq!(imported.gaps.iter().filter(|gap| gap.lost).count(), 1, "{line}");
    }
}

#[test]
fn of_keys_that_begin_alike_the_longest_is_meant() {
    let inputs = json!([
        { "id": "out", "name": "out", "value-key": "OUT", "type": "String" },
        { "id": "output", "name": "output", "value-key": "OUTPUT", "type": "String" },
    ]);
    let files = json!({ "output-files": [
        { "id": "a", "name": "a", "path-template": "OUTPUT.nii" },
    ]});
    let file = import_of("p OUT OUTPUT", &inputs, &files).service_file.unwrap();
    assert!(file.contains("{output}.nii"), "{file}");
}

#[test]
fn outputs_are_found_under_what_inputs_say() {
    let inputs = json!([
        { "id": "x", "name": "x", "value-key": "[X]", "type": "String", "optional": true },
        { "id": "f", "name": "f", "value-key": "[F]", "type": "File" },
    ]);
    let files = json!({ "output-files": [
        { "id": "a", "name": "a", "path-template": "[X]_mask.nii" },
        { "id": "b", "name": "b", "path-template": "./[F].log" },
        { "id": "c", "name": "c", "path-template": "out/*.csv", "optional": true },
        { "id": "d", "name": "d", "path-template": "dir/" },
        { "id": "e", "name": "e", "path-template": "/tmp/x" },
    ], "stdout-output": { "id": "log", "name": "log" } });
    let imported = import_of("p [X] [F]", &inputs, &files);
    let text = imported.service_file.unwrap();
    for expected in [
        "path = \"{x}_mask.nii\"\noptional = true",
        "path = \"f.log\"",
        "glob = \"out/*.csv\"\noptional = true",
        "type = \"dir\"\npath = \"dir\"",
        "\">\",\n    \"[out file log:raw]\"",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let lost: Vec<&str> =
        imported.gaps.iter().filter(|gap| gap.lost).map(|gap| gap.field.as_str()).collect();
    assert_eq!(lost, ["output-files.e.path-template"]);
}

#[test]
fn groups_environment_and_exit_codes_are_said() {
    let input = |id: &str| json!({ "id": id, "name": id, "value-key": format!("[{id}]"), "type": "String" });
    let more = json!({
        "groups": [{ "id": "g", "name": "g", "members": ["a", "b"], "mutually-exclusive": true,
            "one-is-required": true }],
        "environment-variables": [{ "name": "V", "value": "1" }],
        "error-codes": [{ "code": 3, "description": "no license" }],
    });
    let imported = import_of("p [a] [b]", &json!([input("a"), input("b")]), &more);
    assert!(imported.is_whole(), "{:?}", imported.gaps);
    let text = imported.service_file.unwrap();
    for expected in [
        "[group.g]\ninputs = [\"a\", \"b\"]\nexclusive = true\nrequired = true",
        "environment = { V = \"1\" }",
        "meaning = { 3 = \"no license\" }",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn what_is_no_descriptor_is_told() {
    for (text, expected) in [
        ("{", "it is no JSON"),
        ("[]", "it is no Boutiques descriptor: it is no JSON object"),
        ("{}", "it is no Boutiques descriptor: it has no `name`"),
    ] {
        assert!(import(text).unwrap_err().to_string().starts_with(expected), "{text}");
    }
}

#[test]
fn names_that_are_alike_have_keys_of_their_own() {
    let inputs =
        ["x", "X", "a-b", "a.b", "a_b_out"].map(|name| Parameter::new(name, DataType::Int));
    let outputs = ["a_b", "x"].map(|name| Parameter::new(name, DataType::Raw));
    let signature = Signature { inputs: inputs.into(), outputs: outputs.into() };
    let service = Exported {
        url: "http://h/s",
        operation: None,
        title: "s",
        documentation: "",
        signature: &signature,
    };
    let descriptor = export(&service);
    assert_eq!(
        descriptor["command-line"],
        "fishplate call http://h/s [x] [X] [a_b] [a_b_] [a_b_out] out:a_b=output.a_b out:x=output.x"
    );
    let ids = |side: &str| -> Vec<Value> {
        descriptor[side].as_array().unwrap().iter().map(|it| it["id"].clone()).collect()
    };
    assert_eq!(ids("inputs"), ["x", "X", "a_b", "a_b_", "a_b_out"]);
    assert_eq!(ids("output-files"), ["a_b_3", "x_out"]);
}

/// A descriptor with every member that means something here, at the place where it does.
fn whole() -> Value {
    json!({
        "name": "T", "id": "i", "description": "about", "command-line": "p [X] [F] [V] [N] [L] [C]", "author": "a",
        "container-image": { "image": "i" }, "custom": { "a": 1 }, "tests": [],
        "inputs": [
            { "id": "x", "name": "X", "description": "d", "type": "String", "value-key": "[X]",
              "command-line-flag": "-x", "command-line-flag-separator": "=", "media-types": ["text/plain"] },
            { "id": "f", "name": "F", "type": "File", "value-key": "[F]", "media-types": ["text/csv", "text/plain"],
              "mutable": true, "uses-absolute-path": true, "resolve-parent": true, "requires-inputs": ["x"] },
            { "id": "v", "name": "V", "type": "Flag", "value-key": "[V]", "command-line-flag": "-v",
              "default-value": true, "integer": true, "mutable": true },
            { "id": "n", "name": "N", "type": "Number", "value-key": "[N]", "integer": true, "minimum": 1, "maximum": 9,
              "exclusive-minimum": true, "exclusive-maximum": true, "disables-inputs": ["x"] },
            { "id": "l", "name": "L", "type": "String", "value-key": "[L]", "list": true, "list-separator": ",",
              "min-list-entries": 2, "max-list-entries": 3, "optional": true },
            { "id": "c", "name": "C", "type": "String", "value-key": "[C]", "value-choices": ["a", "b"], "default-value": "a" },
        ],
        "output-files": [
            { "id": "o", "name": "O", "description": "d", "path-template": "[F].txt", "optional": true,
              "path-template-stripped-extensions": [".csv"], "media-types": ["text/plain", "text/csv"] },
            { "id": "p", "path-template": "p", "list": true, "file-template": [] },
        ],
        "stdout-output": { "id": "log", "name": "n", "description": "d", "media-types": ["text/plain"] },
        "groups": [{ "id": "g", "name": "n", "description": "d", "members": ["x", "n"], "mutually-exclusive": true,
            "one-is-required": true }],
        "environment-variables": [{ "name": "V", "value": "1", "description": "d" }, { "name": "W" }],
        "error-codes": [{ "code": 3, "description": "no license" }],
    })
}

#[test]
fn no_key_is_left_out_without_a_word() {
    assert!(import(&whole().to_string()).unwrap().service_file.is_some());
    assert_eq!(unheard(&whole(), import), Vec::<String>::new());
}

proptest! {
    #[test]
    fn a_key_that_is_not_known_is_named_wherever_it_stands(at in any::<prop::sample::Index>(), key in "[a-z]{9}") {
        let mut descriptor = whole();
        let objects: Vec<String> = objects(&descriptor).collect();
        let object = at.get(&objects);
        descriptor.pointer_mut(object).unwrap()[&key] = 1.into();
        let imported = import(&descriptor.to_string()).unwrap();
        let at = format!("{object}/{key}");
        prop_assert!(is_named(&imported.gaps, &at, &descriptor), "{}: {:?}", at, imported.gaps);
    }

    #[test]
    fn any_descriptor_gives_a_file_without_mistakes_or_none(
        line in "p( \\[(X|Y)\\]| [a-z<>|'=-]{1,6}){0,4}",
        kind in prop::sample::select(vec!["String", "File", "Flag", "Number", "Other"]),
        flag in prop::option::of("-[a-z=]{1,3}|[a-z ]{0,4}|\\PC{0,4}"),
        separator in prop::option::of("[ =,:x]{0,2}"),
        [list, optional] in any::<[bool; 2]>(),
        template in "[\\[\\]XY{}*./a-]{0,8}",
    ) {
        let mut input = json!({ "id": "x", "name": "n", "value-key": "[X]", "type": kind,
            "list": list, "optional": optional });
        if let Some(flag) = flag {
            input["command-line-flag"] = json!(flag);
        }
        if let Some(separator) = separator {
            input["command-line-flag-separator"] = json!(separator);
            input["list-separator"] = json!(separator);
        }
        let y = json!({ "id": "out", "name": "n", "value-key": "[Y]", "type": "String" });
        let files = json!({ "output-files": [{ "id": "o", "name": "o", "path-template": template }] });
        let imported = import_of(&line, &json!([input, y]), &files);
        prop_assert!(imported.service_file.is_some() || imported.gaps.iter().any(|gap| gap.lost));
    }
}
