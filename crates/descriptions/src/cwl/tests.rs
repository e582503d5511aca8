use proptest::prelude::*;

use serde_json::Value;

use super::*;
use crate::report::Imported;
use crate::tests::{is_named, members, objects, remove, unheard};

fn import_of(rest: &str) -> Imported {
    import(&format!("cwlVersion: v1.2\nclass: CommandLineTool\n{rest}"), "t").unwrap()
}

/// The words and the table of the input `x`, in one line.
fn said(imported: &Imported) -> String {
    let text = imported.service_file.as_ref().unwrap();
    let words = text.lines().filter(|line| line.starts_with("    "));
    let words: Vec<&str> = words.map(|line| line.trim().trim_end_matches(',')).collect();
    let table = text.split_once("[input.x]\n").map_or("", |(_, table)| table);
    let table = table.split("\n\n").next().unwrap_or_default();
    [&words[1..].join(" ")]
        .into_iter()
        .map(String::as_str)
        .chain(table.lines())
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn every_binding_is_said() {
    for (input, expected) in [
        ("{type: int, inputBinding: {}}", "\"[in val x:int]\""),
        (
            "{type: string?, inputBinding: {prefix: -x}}",
            "\"[in val x:string]\"; optional = true; prefix = \"-x\"",
        ),
        ("{type: File, inputBinding: {prefix: x=, separate: false}}", "\"x=[in file x:raw]\""),
        (
            "{type: boolean, inputBinding: {prefix: -v}}",
            "\"[in val x:bool]\"; flag = \"-v\"; default = false",
        ),
        (
            "{type: 'int[]', inputBinding: {prefix: -I, itemSeparator: ','}}",
            "\"[in val x:int]\"; repeated = true; optional = true; separator = \",\"; prefix = \"-I\"",
        ),
        (
            "{type: {type: array, items: File, inputBinding: {prefix: -F}}, inputBinding: {}}",
            "\"[in file x:raw]\"; repeated = true; optional = true; prefix = \"-F\"; repeat_prefix = true",
        ),
        (
            "{type: {type: enum, symbols: [a, b]}, default: b, inputBinding: {}}",
            "\"[in val x:string]\"; choices = [\"a\", \"b\"]; default = \"b\"",
        ),
        (
            "{type: File, default: {class: File, location: a.py}, inputBinding: {}}",
            "\"[in file x:raw]\"; default_file = \"a.py\"",
        ),
        ("{type: Directory, inputBinding: {valueFrom: $(self.path)}}", "\"[in file x:dir]\""),
        ("{type: long, inputBinding: {valueFrom: 'a$(self)b'}}", "\"a[in val x:long]b\""),
        ("{type: string}", ""),
    ] {
        let imported = import_of(&format!("baseCommand: p\noutputs: []\ninputs:\n  x: {input}\n"));
        assert!(imported.is_whole(), "{input}: {:?}", imported.gaps);
        assert_eq!(said(&imported).trim_end_matches("; "), expected, "{input}");
    }
}

#[test]
fn words_stand_by_their_positions() {
    let imported = import_of(
        "baseCommand: [p, q]\narguments: [{position: 1, valueFrom: last, prefix: -l}, first]\n\
         outputs: []\ninputs:\n  \
         b: {type: int, inputBinding: {position: 1}}\n  \
         a: {type: int, inputBinding: {position: 1}}\n  \
         c: {type: int, inputBinding: {position: -1}}\n",
    );
    let expected =
        "\"q\" \"[in val c:int]\" \"first\" \"-l\" \"last\" \"[in val a:int]\" \"[in val b:int]\"";
    assert_eq!(said(&imported), expected);
}

#[test]
fn streams_and_globs_are_collected() {
    let imported = import_of(
        "baseCommand: p\nstdin: $(inputs.f.path)\nstdout: out.txt\n\
         inputs: {f: File, n: {type: string, inputBinding: {}}}\noutputs:\n  \
         o: stdout\n  e: stderr\n  \
         one: {type: File, outputBinding: {glob: $(inputs.n).txt}}\n  \
         many: {type: 'File[]', outputBinding: {glob: ['*.a', '*.b']}}\n",
    );
    let text = imported.service_file.unwrap();
    for expected in [
        "\"<\",\n    \"[in file f:raw]\"",
        "\">\",\n    \"[out file o:raw]\"",
        "\"2>\",\n    \"[out file e:raw]\"",
        "[output.o]\nfilename = \"out.txt\"",
        "path = \"{n}.txt\"",
        "glob = \"{*.a,*.b}\"",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn what_cannot_be_said_is_named() {
    for (rest, field, has_file) in [
        ("inputs: {x: {type: Any, inputBinding: {}}}\noutputs: []", "inputs.x.type", false),
        ("inputs: {x: {type: [int, string, 'null']}}\noutputs: []", "inputs.x.type", true),
        (
            "inputs: {x: {type: File, secondaryFiles: [.b]}}\noutputs: []",
            "inputs.x.secondaryFiles",
            true,
        ),
        ("inputs: []\noutputs: []\narguments: ['${return 1;}']", "arguments[0]", false),
        (
            "inputs: []\noutputs: {o: {type: int, outputBinding: {glob: a, outputEval: $(1)}}}",
            "outputs.o",
            true,
        ),
        (
            "inputs: []\noutputs: []\nrequirements: {InitialWorkDirRequirement: {listing: []}}",
            "requirements.InitialWorkDirRequirement",
            true,
        ),
        ("inputs: []\noutputs: []\nstdin: $(inputs.q.path)", "stdin", false),
    ] {
        let imported = import_of(&format!("baseCommand: p\n{rest}\n"));
        let lost: Vec<&str> =
            imported.gaps.iter().filter(|gap| gap.lost).map(|gap| gap.field.as_str()).collect();
        assert_eq!(lost, [field], "{rest}: {:?}", imported.gaps);
        assert_eq!(imported.service_file.is_some(), has_file, "{rest}");
    }
}

#[test]
fn what_is_no_tool_is_told() {
    for (text, expected) in [
        ("a: [", "it is no YAML"),
        ("[]", "it is no CWL CommandLineTool: it is no mapping"),
        ("class: Workflow", "it is no CWL CommandLineTool: it is of class Workflow"),
        ("class: CommandLineTool\ncwlVersion: v9", "it is no CWL CommandLineTool: v9 is none of"),
    ] {
        let told = import(text, "t").unwrap_err().to_string();
        assert!(told.starts_with(expected), "{text}: {told}");
    }
}

/// A tool with every member that means something here, at the place where it does.
const WHOLE: &str = r#"{
  "class": "CommandLineTool",
  "id": "t", "label": "T", "doc": "about", "intent": ["x"], "s:author": "a", "baseCommand": ["p", "q"],
  "arguments": [{"position": 8, "prefix": "-a", "separate": false, "valueFrom": "v", "shellQuote": false}, {"prefix": "-lone"}],
  "successCodes": [0, 2], "temporaryFailCodes": [3], "permanentFailCodes": [4],
  "stdin": "$(inputs.f.path)", "stdout": "out.txt", "stderr": "err.txt",
  "requirements": {
    "EnvVarRequirement": {"envDef": {"V": {"envValue": "1", "more": 1}}}, "ToolTimeLimit": {"timelimit": 5, "more": 1},
    "InlineJavascriptRequirement": {}, "ResourceRequirement": {"coresMin": 2}
  },
  "hints": {"DockerRequirement": {"dockerPull": "i"}},
  "inputs": {
    "f": {"type": "File", "format": "edam:1", "secondaryFiles": [".b"], "streamable": true, "loadContents": true, "doc": "d", "label": "l"},
    "x": {"type": "string", "default": "y", "inputBinding": {"position": 7, "prefix": "x=", "separate": false, "loadContents": true}},
    "many": {"type": {"type": "array", "name": "n", "items": "int", "inputBinding": {"prefix": "-m", "position": 9, "separate": false}},
             "inputBinding": {"position": 3}},
    "list": {"type": {"type": "array", "items": {"type": "enum", "symbols": ["a", "b"], "label": "l", "inputBinding": {"prefix": "-i"}}},
             "inputBinding": {"itemSeparator": ",", "position": 4}},
    "one": {"type": ["null", {"type": "enum", "symbols": ["a"], "doc": "d", "inputBinding": {"prefix": "-o"}}],
            "inputBinding": {"valueFrom": "a$(self)", "itemSeparator": ",", "shellQuote": true, "position": 5}},
    "z": {"type": "File", "default": {"location": "a.py", "secondaryFiles": ["b"], "basename": "c"}, "inputBinding": {}}
  },
  "outputs": {
    "o": {"type": "stdout", "format": "edam:1", "secondaryFiles": [".b"], "streamable": true, "doc": "d", "label": "l",
          "outputBinding": {"outputEval": "$(1)"}},
    "e": {"type": "File", "outputBinding": {"glob": "err.txt", "outputEval": "$(self)"}, "streamable": true},
    "g": {"type": "File[]", "outputBinding": {"glob": "*.c", "loadContents": true, "loadListing": "no_listing"}, "format": "edam:2"},
    "s": {"type": "string", "outputBinding": {"glob": "s.txt", "outputEval": "$(self[0].contents)"}}
  }
}"#;

fn whole() -> Value {
    serde_json::from_str(WHOLE).unwrap()
}

#[test]
fn no_key_is_left_out_without_a_word() {
    assert!(import(WHOLE, "").unwrap().service_file.is_some());
    assert_eq!(unheard(&whole(), |text| import(text, "")), Vec::<String>::new());
}

proptest! {
    #[test]
    fn a_key_that_is_not_known_is_named_wherever_it_stands(
        at in any::<prop::sample::Index>(), key in "[a-z]{9}", removed in any::<prop::sample::Index>(),
    ) {
        let mut tool = whole();
        let members: Vec<String> = members(&tool).collect();
        let removed: &String = removed.get(&members);
        remove(&mut tool, removed);
        // Names of inputs, outputs, requirements and variables are no keys.
        let free = ["/inputs", "/outputs", "/requirements", "/hints", "/requirements/EnvVarRequirement/envDef"];
        let objects: Vec<String> = objects(&tool).filter(|at| !free.contains(&at.as_str())).collect();
        let object: &String = at.get(&objects);
        tool.pointer_mut(object).unwrap()[&key] = 1.into();
        let Ok(imported) = import(&tool.to_string(), "") else { return Ok(()) };
        let at = format!("{object}/{key}");
        prop_assert!(is_named(&imported.gaps, &at, &tool), "{}: {:?}", at, imported.gaps);
    }

    #[test]
    fn any_tool_gives_a_file_without_mistakes_or_a_gap(
        of in prop::sample::select(vec!["int", "File", "boolean", "string?", "int[]", "File[]", "Directory", "Any"]),
        binding in prop::sample::select(vec![
            "{}", "{prefix: -x}", "{prefix: x=, separate: false}", "{itemSeparator: ','}",
            "{valueFrom: $(self)}", "{valueFrom: a}", "{position: 3, valueFrom: $(inputs.x)}",
        ]),
        argument in "[$(){}a-z.]{0,12}|\\$\\(inputs\\.x(\\.path|\\.nameroot)?\\)",
        glob in "[*a.?{},/\\[]{0,6}|\\$\\(inputs\\.x\\)",
    ) {
        let quoted = |text: &str| Value::from(text).to_string();
        let imported = import_of(&format!(
            "baseCommand: p\narguments: [{}]\ninputs: {{x: {{type: '{of}', inputBinding: {binding}}}}}\n\
             outputs: {{o: {{type: File, outputBinding: {{glob: {}}}}}}}\n",
            quoted(&argument), quoted(&glob),
        ));
        prop_assert!(imported.service_file.is_some() || imported.gaps.iter().any(|gap| gap.lost));
    }
}
