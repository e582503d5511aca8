use proptest::prelude::*;

use super::*;

/// The only problem of a command line, as `word:start..end message | label | hint`.
fn problem(words: &[&str]) -> String {
    let parsed = parse(words);
    assert_eq!(parsed.problems.len(), 1, "{:#?}", parsed.problems);
    described(&parsed.problems[0])
}

fn described(problem: &Problem) -> String {
    let CommandPosition { word, span } = &problem.at;
    let mut text = format!("{word}:{}..{} {}", span.start, span.end, problem.message);
    if !problem.label.is_empty() {
        text += &format!(" | {}", problem.label);
    }
    if let Some(hint) = &problem.hint {
        text += &format!(" | {hint}");
    }
    text
}

fn slot(direction: Direction, passing: ArgumentPassing, name: &str, data_type: DataType) -> Slot {
    Slot { direction, passing, name: name.to_owned(), data_type, trim: false }
}

#[test]
fn the_papers_one_liner_is_a_template() {
    let words = ["./add.sh", "[in val x:int]", "[in val y:int]", ">", "[out file result:int]"];
    let parsed = parse(&words);
    assert_eq!(parsed.problems, []);
    let value = |name| {
        let slot = slot(Direction::In, ArgumentPassing::Val, name, DataType::Int);
        CommandItem::Word(Word { parts: vec![WordPart::Slot(slot)] })
    };
    let result = slot(Direction::Out, ArgumentPassing::File, "result", DataType::Int);
    assert_eq!(
        parsed.template.items,
        [
            CommandItem::Word(Word::literal("./add.sh")),
            value("x"),
            value("y"),
            CommandItem::Redirect(StandardStream::Output, StreamTarget::Slot(result)),
        ]
    );
    assert_eq!(parsed.template.program(), "./add.sh");
    assert_eq!(parsed.places[2].at, CommandPosition { word: 4, span: 0..21 });
}

#[test]
fn slots_stand_in_parts_of_words() {
    let parsed = parse(&["tetgen", "-pYq[in val quality:float]/[in val angle:double]A"]);
    assert_eq!(parsed.problems, []);
    let CommandItem::Word(word) = &parsed.template.items[1] else { panic!("a word") };
    assert_eq!(
        word.parts,
        [
            WordPart::Text("-pYq".to_owned()),
            WordPart::Slot(slot(Direction::In, ArgumentPassing::Val, "quality", DataType::Float)),
            WordPart::Text("/".to_owned()),
            WordPart::Slot(slot(Direction::In, ArgumentPassing::Val, "angle", DataType::Double)),
            WordPart::Text("A".to_owned()),
        ]
    );
}

#[test]
fn the_brackets_of_an_array_belong_to_its_slot() {
    let line = "p [in file m:float[ n, 3 ]] -o[out file v:double[][]][out file w:int[in]] '[0-9]'";
    let words: Vec<String> = words::split(line).unwrap().into_iter().map(|w| w.text).collect();
    assert_eq!(words.len(), 4);
    let parsed = parse(&words);
    assert_eq!(parsed.problems, []);
    let types: Vec<String> =
        parsed.template.slots().map(|slot| slot.data_type.name().into_owned()).collect();
    assert_eq!(types, ["float[n,3]", "double[][]", "int[in]"]);
    // Another slot begins before the first has ended.
    let parsed = parse(&["p", "[in file m:float[n][in val x:int]"]);
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(parsed.problems[0].at.span, 0..19);
    assert_eq!(parsed.template.slots().count(), 1);
}

#[test]
fn brackets_that_do_not_begin_a_slot_are_text_and_doubled_ones_always_are() {
    for (written, text) in [
        ("[0-9]*x", "[0-9]*x"),
        ("[[:alpha:]]", "[[:alpha:]]"),
        ("[in]", "[in]"),
        ("[into the blue]", "[into the blue]"),
        ("a[1", "a[1"),
        ("[[in val x:int]", "[in val x:int]"),
        ("[[[[out file x:raw]", "[[out file x:raw]"),
        ("[[inp val x:int]", "[inp val x:int]"),
    ] {
        let parsed = parse(&["p", written]);
        assert_eq!(parsed.problems, [], "{written}");
        assert_eq!(parsed.template.items[1], CommandItem::Word(Word::literal(text)), "{written}");
    }
    let parsed = parse(&["p", "[[[in val x:int]"]);
    let CommandItem::Word(word) = &parsed.template.items[1] else { panic!("a word") };
    assert_eq!(word.parts[0], WordPart::Text("[".to_owned()));
    assert!(matches!(word.parts[1], WordPart::Slot(_)));
}

#[test]
fn every_mistake_in_a_slot_says_what_would_be_right() {
    let types =
        "int, long, float, double, bool, string, raw, xml, dir, or an array such as double[]";
    for (word, expected) in [
        (
            "[inp val x:int]",
            "1:1..4 `inp` is no direction of a slot | `in`, `out` or `in out` | `in` is one"
                .to_owned(),
        ),
        (
            "[xyz file x:raw]",
            "1:1..4 `xyz` is no direction of a slot | `in`, `out` or `in out` | double the \
             bracket (`[[`) if this is meant as text"
                .to_owned(),
        ),
        ("[out in file x:raw]", "1:1..7 the direction `out in` is written `in out`".to_owned()),
        (
            "[in vall x:int]",
            "1:4..8 `vall` is no way to pass a value | `val` or `file` | `val` is one".to_owned(),
        ),
        (
            "[in x:int]",
            "1:4..4 `val` or `file` is missing after `in` | `val` puts the value on the command \
             line, `file` the name of a file that holds it"
                .to_owned(),
        ),
        (
            "-q[in val x:itn]",
            format!("1:12..15 `itn` is no type of a slot | one of {types} | `int` is one"),
        ),
        (
            "[in val x:int trim]",
            "1:14..18 `trim` is for a `string` that goes to the program | leave `trim` out".to_owned(),
        ),
        (
            "[out file x:string trim ]",
            "1:19..23 `trim` is for a `string` that goes to the program | leave `trim` out".to_owned(),
        ),
        (
            "[in val x:integer]",
            format!("1:10..17 `integer` is no type of a slot | one of {types} | `int` is one"),
        ),
        (
            "[in val x:]",
            format!("1:10..10 the type is missing after `:` | a type is one of {types}"),
        ),
        (
            "[in val x]",
            format!("1:9..9 `x` has no type | write `[in val x:TYPE]` with one of {types}"),
        ),
        ("[in val :int]", "1:8..8 the slot has no name | write `[in val NAME:TYPE]`".to_owned()),
        (
            "[in val 2x:int]",
            "1:8..10 `2x` is no name for a parameter | a name begins with a letter or `_` and \
             goes on with letters, digits, `_`, `-` and `.`"
                .to_owned(),
        ),
        (
            "[in val my x:int]",
            "1:8..12 a slot's name is one word | a name begins with a letter or `_` and goes on \
             with letters, digits, `_`, `-` and `.`"
                .to_owned(),
        ),
        (
            "[in val out:int]",
            "1:8..11 the name `out` is reserved | callers write `out:NAME` and `ref:NAME` on the \
             command line; take another name"
                .to_owned(),
        ),
        (
            "[out val y:int]",
            "1:5..8 an `out` slot is passed by `file`, not by `val` | a program cannot write to \
             its command line | write `[out file y:int]`"
                .to_owned(),
        ),
        (
            "[in v:double[]]",
            "1:4..4 `val` or `file` is missing after `in` | arrays travel in files: write `[in file \
             v:double[]]`"
                .to_owned(),
        ),
        (
            "[in val v:double[n,m]]",
            "1:4..7 `double[n,m]` is passed by `file`, not by `val` | an array's numbers cannot \
             stand on a command line | arrays travel in files: write `[in file v:double[n,m]]`"
                .to_owned(),
        ),
        (
            "[in file v:real[]]",
            format!("1:11..17 `real[]` is no type of a slot | one of {types} | `double[]` is one"),
        ),
        (
            "[in file v:doubel[n]]",
            format!(
                "1:11..20 `doubel[n]` is no type of a slot | one of {types} | `double[n]` is one"
            ),
        ),
        (
            "[in file v:string[]]",
            "1:11..17 an array consists of numbers, not of `string` | its elements are one of int, \
             long, float, double; `raw` is a file of anything"
                .to_owned(),
        ),
        (
            "[in file v:float[n-1,2m]]",
            "1:21..23 `2m` is no dimension of an array | a dimension is a length such as 3, a \
             name such as n, or nothing"
                .to_owned(),
        ),
        (
            "[in file v:float[]x]",
            "1:18..19 `x` is no dimension of an array | an array's type is written `float[][]`, \
             `double[n,m]` or `int[3]`"
                .to_owned(),
        ),
        (
            "[in file v:int[][][][][][][][][]]",
            "1:14..32 an array has at most 8 dimensions, not 9".to_owned(),
        ),
        (
            "[in file v:float[n]",
            "1:0..19 the slot has no end | no `]` follows | close it with `]`".to_owned(),
        ),
        (
            "[in file v:float[n",
            "1:0..18 the slot has no end | no `]` follows | close the brackets of the type and \
             then the slot's: `[in file m:float[n,m]]`"
                .to_owned(),
        ),
        (
            "[in val mesh:raw]",
            "1:4..7 `raw` is passed by `file`, not by `val` | a file's bytes cannot stand on a \
             command line | write `[in file mesh:raw]`"
                .to_owned(),
        ),
        (
            "[in val x:int",
            "1:0..13 the slot has no end | no `]` follows | close it with `]`".to_owned(),
        ),
        (
            "[in",
            "1:0..3 the slot has no end | no `]` follows | quote the slot so that it stays one \
             word: '[in val x:int]'"
                .to_owned(),
        ),
    ] {
        assert_eq!(problem(&["p", word]), expected, "{word}");
    }
}

#[test]
fn a_name_stands_once_a_direction() {
    assert_eq!(
        problem(&["p", "[in val x:int]", "[in val x:int]"]),
        "2:0..14 the slot `x` stands twice | a second `x` | each slot is a parameter of its own: \
         give it a name of its own"
    );
    assert_eq!(parse(&["p", "[in out file m:raw]", "[out file m:raw]"]).problems.len(), 1);
    assert_eq!(parse(&["p", "[in val x:int]", ">", "[out file x:int]"]).problems, []);
}

#[test]
fn a_program_comes_first_and_is_no_slot() {
    let none: [&str; 0] = [];
    assert_eq!(
        problem(&none),
        "0:0..0 the command line has no program | write the program first, such as `./add.sh` or \
         `gzip`"
    );
    assert_eq!(
        problem(&["[in val program:string]"]),
        "0:0..23 the program cannot be a slot | a caller would choose what runs; give each \
         program a service of its own"
    );
    assert_eq!(problem(&[">", "p"]), "0:0..1 the program comes first, redirections after it");
}

#[test]
fn redirections_take_a_slot_or_a_plain_file_name() {
    let good = ["p", "<", "[in val text:string]", ">", "0/log.txt", "2>", "[out file e:string]"];
    assert_eq!(parse(&good).problems, []);
    for (words, expected) in [
        (
            vec!["p", ">"],
            "1:0..1 `>` needs a file after it | a slot such as `[out file NAME:TYPE]`, or the \
             name of a file in the workspace",
        ),
        (
            vec!["p", "<", ">", "x"],
            "1:0..1 `<` needs a file after it | a slot such as `[in file NAME:TYPE]`, or the name \
             of a file in the workspace",
        ),
        (
            vec!["p", ">", "/tmp/x"],
            "2:0..6 `>` cannot go to `/tmp/x` | a file of the workspace has a relative name, such \
             as `job.inp` or `0/U`",
        ),
        (
            vec!["p", ">", "../x"],
            "2:0..4 `>` cannot go to `../x` | a file's name goes straight down from the \
             workspace: no `..`, `.` or `//`",
        ),
        (
            vec!["p", ">", "[in file x:raw]"],
            "2:0..15 `>` takes an `out` slot | this is an `in` slot",
        ),
        (
            vec!["p", ">", "[in out file x:raw]"],
            "2:0..19 `>` takes an `out` slot | this is an `in out` slot",
        ),
        (
            vec!["p", "<", "[in file x:dir]"],
            "2:0..15 standard input is no directory | a program finds a directory by its name: \
             put the slot among its words",
        ),
        (
            vec!["p", ">", "x[in val n:int]"],
            "2:0..15 the word after `>` is one slot or one file name",
        ),
        (vec!["p", ">", "a", ">", "b"], "3:0..1 standard output is redirected twice"),
        (
            vec!["p", ">[out file y:int]"],
            "1:0..17 `>` stands in a word of its own | write '>' '[out file y:int]'",
        ),
    ] {
        assert_eq!(problem(&words), expected, "{words:?}");
    }
}

#[test]
fn words_meant_for_a_shell_are_warned_of() {
    for (word, expected) in [
        (
            "|",
            "the program gets `|` as a word | means nothing here | no shell runs; put the whole \
             pipeline into a script and make that the program",
        ),
        (
            ">>",
            "the program gets `>>` as a word | means nothing here | no shell runs; `>` and `2>` \
             write new files, since each job has a workspace of its own",
        ),
        (
            "2>&1",
            "the program gets `2>&1` as a word | means nothing here | no shell runs; redirect \
             each stream to a file of its own with `>` and `2>` (what is not redirected is kept \
             in the job's log)",
        ),
        (
            ">log",
            "the program gets `>log` as a word | to redirect, put a space between `>` and the \
             file's name",
        ),
        (
            "*.dat",
            "the program gets `*.dat` as it stands | no shell runs, so no file names are put in \
             its place; name each file, or make a script the program",
        ),
        (
            "--home=$HOME/x",
            "`$HOME` is not replaced | no shell runs; write the path or value itself",
        ),
        (
            "[val x:int]",
            "`[val x:int]` is text, not a slot | a slot begins with its direction: `[in val \
             x:int]`",
        ),
    ] {
        let parsed = parse(&["p", word]);
        assert!(!parsed.has_errors(), "{word}");
        let whole = format!("1:0..{} {expected}", word.len());
        assert_eq!(problem(&["p", word]), whole, "{word}");
    }
    for word in ["s/.*/x/", "$1", "a;b", "-x*", "price: 5$", "<title>", "x->y", "[a:b]"] {
        assert_eq!(parse(&["p", word]).problems, [], "{word}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let parsed = parse(&["p", "[in val x:itn]", "[out val y:int]", "|", ">", "/z"]);
    let words: Vec<usize> = parsed.problems.iter().map(|problem| problem.at.word).collect();
    assert_eq!(words, [1, 2, 3, 5]);
    assert_eq!(parsed.into_result().unwrap_err().len(), 3);
}

#[test]
fn a_line_needs_no_quotes_around_slots() {
    let line = "./add.sh [in val x:int] -q[in val y:int] > '[out file r:int]' \"a b\"";
    let words: Vec<String> = words::split(line).unwrap().into_iter().map(|w| w.text).collect();
    assert_eq!(
        words,
        ["./add.sh", "[in val x:int]", "-q[in val y:int]", ">", "[out file r:int]", "a b"]
    );
    assert_eq!(words::split("a 'b").unwrap_err().span, 2..4);
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z_][a-zA-Z0-9_.-]{0,6}".prop_filter("reserved", |n| n != "out" && n != "ref")
}

fn any_slot() -> impl Strategy<Value = Slot> {
    let arrays = ["int[]", "float[][]", "double[n,m]", "long[n,]", "float[in,3]"];
    let types = [&DataType::NAMES[..], &arrays].concat();
    (0..4, name(), prop::sample::select(types), any::<bool>()).prop_map(
        |(kind, name, type_name, trim)| {
            let data_type = DataType::from_name(type_name).unwrap();
            let in_file = data_type.is_binary() || data_type.as_array().is_some();
            let (direction, passing) = match kind {
                0 if !in_file => (Direction::In, ArgumentPassing::Val),
                0 | 1 => (Direction::In, ArgumentPassing::File),
                2 => (Direction::Out, ArgumentPassing::File),
                _ => (Direction::InOut, ArgumentPassing::File),
            };
            let trim = trim && data_type == DataType::String && direction.takes();
            Slot { direction, passing, name, data_type, trim }
        },
    )
}

fn any_word() -> impl Strategy<Value = Word> {
    let text =
        prop_oneof!["[a-z \\[\\]:]{1,8}", "\\[{1,3}(in|out|val)( val)?( x:int\\])?", ".{1,6}"];
    let part = prop_oneof![text.prop_map(WordPart::Text), any_slot().prop_map(WordPart::Slot)];
    prop::collection::vec(part, 0..5).prop_map(|parts| {
        let mut word = Word::default();
        for part in parts {
            match (word.parts.last_mut(), part) {
                (Some(WordPart::Text(text)), WordPart::Text(more)) => text.push_str(&more),
                (_, part) => word.parts.push(part),
            }
        }
        word
    })
}

fn any_template() -> impl Strategy<Value = Template> {
    let target = prop_oneof![
        "[a-z]{1,4}(/[a-z.]{1,3}x)?".prop_map(StreamTarget::File),
        any_slot().prop_map(StreamTarget::Slot)
    ];
    let stream = prop::sample::select(vec![
        StandardStream::Input,
        StandardStream::Output,
        StandardStream::Error,
    ]);
    let item = prop_oneof![
        4 => any_word().prop_map(CommandItem::Word),
        1 => (stream, target).prop_map(|(stream, target)| CommandItem::Redirect(stream, target)),
    ];
    prop::collection::vec(item, 0..6).prop_map(|mut items| {
        items.insert(0, CommandItem::Word(Word::literal("program")));
        Template { items }
    })
}

proptest! {
    #[test]
    fn what_is_rendered_parses_to_the_same(template in any_template()) {
        let words = template.to_words();
        let redirections = template
            .items
            .iter()
            .filter(|item| matches!(item, CommandItem::Redirect(..)))
            .count();
        // The text of a word may happen to be a redirection's; such a word cannot be written.
        prop_assume!(words.iter().filter(|w| StandardStream::from_operator(w).is_some()).count() == redirections);
        let parsed = parse(&words);
        prop_assert_eq!(parsed.template, template, "{:?}", words);
    }

    #[test]
    fn parsing_never_panics_and_points_into_the_words(
        words in prop::collection::vec("[\\[\\]a-z :<>2in]{0,24}|\\PC{0,12}", 0..6),
    ) {
        for problem in parse(&words).problems {
            let CommandPosition { word, span } = problem.at;
            let text = words.get(word).map_or("", String::as_str);
            prop_assert!(text.get(span.clone()).is_some(), "{:?} {:?}", text, span);
        }
    }

    #[test]
    fn splitting_agrees_with_shell_words(line in "([a-z '\"\\\\#\t\n$`]|\\PC){0,24}") {
        let ours = words::split(&line);
        let theirs = shell_words::split(&line);
        prop_assert_eq!(ours.is_err(), theirs.is_err());
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            for word in &ours {
                prop_assert_eq!(word.offsets.len(), word.text.len() + 1);
                prop_assert!(word.offsets.is_sorted());
            }
            let ours: Vec<String> = ours.into_iter().map(|word| word.text).collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
