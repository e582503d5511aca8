//! One mistake a case, with its place and the exact words.

use super::*;

/// Everything said about a text: `line:column "what it points at" message | label | hint`.
fn said(text: &str) -> Vec<String> {
    let checked = checked(text);
    checked
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let (line, column) = checked.source.position(diagnostic.span.start);
            let at = &text[diagnostic.span.clone()];
            let mut said = format!("{line}:{column} {at:?} {}", diagnostic.message);
            if !diagnostic.label.is_empty() {
                said += &format!(" | {}", diagnostic.label);
            }
            if let Some(hint) = &diagnostic.hint {
                said += &format!(" | {hint}");
            }
            said
        })
        .collect()
}

/// One mistake in a file whose command line is `p [in val n:int] [in file m:raw] ...`.
fn mistake(rest: &str) -> String {
    let command = "command = 'p [in val n:int] -s[in val s:string] [in val b:bool] [in file m:raw] \
                   x[in val u:int]y[in val v:int] > [out file r:raw]'\n";
    let said = said(&format!("{command}{rest}"));
    assert_eq!(said.len(), 1, "{rest}: {said:#?}");
    said[0].clone()
}

#[test]
fn mistakes_about_inputs() {
    for (rest, expected) in [
        (
            "[input.q]\nhelp = 'x'",
            "2:8 \"q\" the command line has no input slot `q` | a file that the command line does \
             not mention needs `type` and `filename`",
        ),
        ("[input.nn]\n", "2:8 \"nn\" the command line has no input slot `nn` | `n` is one"),
        (
            "[input.r]\nhelp = 'x'",
            "2:8 \"r\" the command line has no input slot `r` | `r` is an output slot: write \
             [output.r]",
        ),
        ("[input.n]\nhelpp = 'x'", "3:1 \"helpp\" [input.n] has no key `helpp` | `help` is one"),
        ("[input.n]\nhelp = 1", "3:8 \"1\" `help` is a string, not an integer | an integer"),
        (
            "[input.n]\ntype = 'int'",
            "3:8 \"'int'\" the slot `[in val n:int]` tells the type already | leave `type` out here",
        ),
        (
            "[input.n]\ndefault = 'one'",
            "3:11 \"'one'\" `default`: parameter n is of type int: \"one\" is not a whole number \
             from -2147483648 to 2147483647 | no caller could send this",
        ),
        (
            "[input.n]\nmax = 3\ndefault = 4",
            "4:11 \"4\" `default`: parameter n: 4 is above the largest value allowed, 3 | no \
             caller could send this",
        ),
        ("[input.n]\nmin = 3\nmax = 2", "4:7 \"2\" `max` is below `min`, 3 | no value fits"),
        (
            "[input.n]\nmin = 'low'",
            "3:7 \"'low'\" `min`: parameter n is of type int: \"low\" is not a whole number from \
             -2147483648 to 2147483647",
        ),
        ("[input.s]\nmin = 1", "3:7 \"1\" `min` is for numbers, not `string`"),
        (
            "[input.n]\nchoices = [1, 2.5]",
            "3:15 \"2.5\" a choice: parameter n is of type int: \"2.5\" is not a whole number from \
             -2147483648 to 2147483647",
        ),
        ("[input.n]\nchoices = []", "3:1 \"choices\" `choices` is a list of at least one value"),
        (
            "[input.s]\nchoices = ['a', '-b']",
            "3:17 \"'-b'\" a choice: parameter s may not begin with '-': \"-b\" could pass for an \
             option of the program; the service's owner can allow it (allow_leading_dash)",
        ),
        (
            "[input.n]\nallow_leading_dash = true",
            "3:22 \"true\" `allow_leading_dash` is for `string`, not `int`",
        ),
        ("[input.n]\ntrim = true", "3:8 \"true\" `trim` is for `string`, not `int`"),
        (
            "[input.n]\noptional = false\ndefault = 1",
            "3:12 \"false\" an input with a `default` may be left out | leave out `optional`, or \
             the `default`",
        ),
        (
            "[input.u]\noptional = true",
            "3:12 \"true\" the slot's word has other slots and cannot be left out | give it a \
             `default`, or a word of its own",
        ),
        (
            "[input.n]\nshare = 'copy'",
            "3:9 \"'copy'\" `share` is for inputs in files | a value on the command line is the \
             program's own",
        ),
        ("[input.m]\nshare = 'move'", "3:9 \"'move'\" `share` is not \"move\" | one of link, copy"),
        (
            "[input.u]\nprefix = '-u'",
            "3:10 \"'-u'\" the slot's word has other slots, so it has no `prefix`",
        ),
        (
            "[input.n]\nflag = '-n'",
            "3:8 \"'-n'\" `flag` is for a `bool` that is passed by `val` | write `[in val n:bool]`",
        ),
        (
            "[input.b]\nflag = ''",
            "3:8 \"''\" a `flag` is the word that stands for true, such as `--verbose`",
        ),
        (
            "[input.b]\nflag = '-b'\nprefix = '-x'",
            "4:10 \"'-x'\" a `prefix` is a word in front of the slot's word",
        ),
        (
            "[input.n]\nfilename = 'n.txt'",
            "3:12 \"'n.txt'\" `n` is a value on the command line, not a file | write `[in file \
             n:int]`",
        ),
        (
            "[input.m]\nfilename = '../m'",
            "3:12 \"'../m'\" \"../m\" is no file of the workspace | a file's name goes straight \
             down from the workspace: no `..`, `.` or `//`",
        ),
        (
            "[input.m]\nfilename = '-m'",
            "3:12 \"'-m'\" \"-m\" is no file of the workspace | a file's name that begins with \
             `-` could pass for an option of the program",
        ),
        (
            "[input.m]\ndefault = 'x'",
            "3:11 \"'x'\" a file of type `raw` has no default | `optional = true` lets it be left \
             out; `stage` puts a file of yours in",
        ),
        (
            "[input.e]\nfilename = 'e'",
            "2:8 \"e\" [input.e] has no `type` | a file that the command line does not mention \
             needs `type` and `filename`",
        ),
        (
            "[input.e]\ntype = 'raww'\nfilename = 'e'",
            "3:8 \"'raww'\" `raww` is no type of a parameter | one of int, long, float, double, \
             bool, string, raw, xml, dir, or an array such as double[] | `raw` is one",
        ),
        (
            "[input.m]\nfilename = 'r'",
            "1:114 \"[out file r:raw]\" the input `m` and the output `r` are the same file | `r` in \
             the workspace | give one of them another name, with `filename` or `path`",
        ),
        (
            "[input.m]\nfilename = 'r/m'",
            "1:65 \"[in file m:raw]\" the output `r` is a file, and the input `m` is in a \
             directory of that name | `r/m`",
        ),
        (
            "[input.'a b']\ntype = 'raw'\nfilename = 'e'",
            "2:8 \"'a b'\" `a b` is no name for a parameter | a name begins with a letter or `_` \
             and goes on with letters, digits, `_`, `-` and `.`; `out` and `ref` are reserved",
        ),
    ] {
        assert_eq!(mistake(rest), expected, "{rest}");
    }
}

#[test]
fn mistakes_about_arrays() {
    let command = "command = 'p [in file m:float[n,m]] [out file g:double[,]] [in val k:int]'\n";
    for (rest, expected) in [
        (
            "[input.m]\nformat = 'nyp'",
            "3:10 \"'nyp'\" `format` is not \"nyp\" | one of text, raw, npy | `npy` is one",
        ),
        (
            "[input.k]\nformat = 'raw'",
            "3:10 \"'raw'\" `format` is for arrays, not `int` | the type of an array has brackets, \
             such as `double[]` or `float[n,m]`",
        ),
        (
            "[input.m]\nbyte_order = 'big'",
            "3:1 \"byte_order\" `byte_order` is for files of the format `raw` | write format = \
             \"raw\", or leave `byte_order` out",
        ),
        (
            "[output.g]\nformat = 'npy'\ndelimiter = ','",
            "4:13 \"','\" `delimiter` is for files of the format `text` | write format = \"text\", \
             or leave `delimiter` out",
        ),
        (
            "[output.g]\ndelimiter = 'ab'",
            "3:13 \"'ab'\" `delimiter` is one character, such as \",\"",
        ),
        (
            "[output.g]\ndelimiter = '-'",
            "3:13 \"'-'\" '-' cannot separate numbers | it may stand in a number",
        ),
        (
            "[input.m]\nformat = 'raw'\norder = 'F'",
            "4:9 \"'F'\" `order` is not \"F\" | one of c, fortran",
        ),
        (
            "[input.m]\ndefault = '1'",
            "3:11 \"'1'\" a file of type `float[n,m]` has no default | `optional = true` lets it be \
             left out; `stage` puts a file of yours in",
        ),
        ("[input.m]\nmin = 0", "3:7 \"0\" `min` is for numbers, not `float[n,m]`"),
        (
            "[output.g]\nformat = 'raw'",
            "1:37 \"[out file g:double[,]]\" a `raw` file does not tell the shape of `g`, \
             double[][] | 2 axes of unknown length | one may be unknown: give the others lengths \
             (`[3]`), or the names of `int` inputs (`[n]`) or of axes of input arrays; or use \
             format = \"npy\"",
        ),
        (
            "[output.h]\ntype = 'int[a,b,c]'\npath = 'h'",
            "2:9 \"h\" a `text` file does not tell the shape of `h`, int[a,b,c] | 2 axes of \
             unknown length | one may be unknown: give the others lengths (`[3]`), or the names of \
             `int` inputs (`[n]`) or of axes of input arrays; or use format = \"npy\"",
        ),
        (
            "[output.h]\ntype = 'int[1x]'\npath = 'h'",
            "3:8 \"'int[1x]'\" `1x` is no dimension of an array | a dimension is a length such as \
             3, a name such as n, or nothing",
        ),
    ] {
        let said = said(&format!("{command}{rest}"));
        assert_eq!(said, [expected], "{rest}");
    }
    for rest in [
        "[output.h]\ntype = 'int[n,m,k]'\npath = 'h'\nformat = 'raw'\norder = 'fortran'",
        "[output.h]\ntype = 'int[k,2,]'\nglob = '*.h'\nformat = 'raw'\nbyte_order = 'little'",
        "[output.g]\nformat = 'npy'\n[input.m]\ndelimiter = \"\\t\"",
        "[output.h]\ntype = 'int[a,b]'\npath = 'h'\n[output.i]\ntype = 'int[b,a]'\npath = 'i'\n\
         format = 'raw'",
    ] {
        assert_eq!(said(&format!("{command}{rest}")), [""; 0], "{rest}");
    }
}

#[test]
fn mistakes_about_outputs() {
    for (rest, expected) in [
        (
            "[output.q]\nhelp = 'x'",
            "2:9 \"q\" the command line has no output slot `q` | an output that the program names \
             itself needs `type` and `path` or `glob`",
        ),
        (
            "[output.n]\nhelp = 'x'",
            "2:9 \"n\" the command line has no output slot `n` | `n` is an input slot: write \
             [input.n]",
        ),
        (
            "[output.r]\npath = 'x'",
            "3:8 \"'x'\" `path` is for outputs without a slot | `r` is a slot; `filename` names \
             its file",
        ),
        (
            "[output.q]\npath = 'x'",
            "2:9 \"q\" [output.q] has no `type` | type = \"raw\" fits every file",
        ),
        (
            "[output.q]\ntype = 'raw'",
            "2:9 \"q\" [output.q] has no `path` and no `glob` | path = \"job.frd\" collects one \
             file, glob = \"*.frd\" all that match",
        ),
        (
            "[output.q]\ntype = 'raw'\npath = 'x'\nglob = '*'",
            "5:8 \"'*'\" an output has a `path` or a `glob`, not both",
        ),
        (
            "[output.q]\ntype = 'dir'\npath = 'case'\nnon_empty = true",
            "5:13 \"true\" `non_empty` is for files, not `dir` | collect a file of the directory as \
             an output of its own: `path = \"case/log\"`",
        ),
        (
            "[output.r]\nnon_empty = '1B'",
            "3:13 \"'1B'\" `non_empty` is `true` or `false`, not a string | a string",
        ),
        (
            "[output.q]\ntype = 'dir'\nglob = 'case*'",
            "4:8 \"'case*'\" a `glob` collects files, and a directory is one | path = \"case\" \
             collects the directory with all that is in it",
        ),
        (
            "[output.q]\ntype = 'raw'\nglob = '[a'",
            "4:8 \"'[a'\" the glob cannot be read: unclosed character class; missing ']' | `*` \
             and `?` match within a name, `**` across directories, `[a-z]` and `{a,b}` one of \
             several",
        ),
        (
            "[output.q]\ntype = 'raw'\nglob = '/tmp/*'",
            "4:8 \"'/tmp/*'\" \"/tmp/*\" is no file of the workspace | a file of the workspace \
             has a relative name, such as `job.inp` or `0/U`",
        ),
        (
            "[output.q]\ntype = 'raw'\npath = 'm'",
            "2:9 \"q\" the input `m` and the output `q` are the same file | `m` in the workspace | \
             give one of them another name, with `filename` or `path`",
        ),
    ] {
        assert_eq!(mistake(rest), expected, "{rest}");
    }
    assert_eq!(
        said("command = 'p [in file mesh:raw] [out file mesh:raw]'"),
        [
            "1:33 \"[out file mesh:raw]\" the input `mesh` and the output `mesh` are the same file | \
          `mesh` in the workspace | if the program changes the file, write `[in out file \
          mesh:TYPE]` once; if it reads one and writes another, set `filename` in [output.mesh]"
        ]
    );
    assert_eq!(
        said("command = 'p [in file mesh:raw] [out file mesh:raw]'\n[output.mesh]\nfilename='b'"),
        [""; 0]
    );
    assert_eq!(
        said("command = 'p [in out file m:raw]'\n[output.m]\nfilename = 'x'"),
        ["3:12 \"'x'\" `m` is one file, and its input names it | `filename` stands in [input.m]"]
    );
}

#[test]
fn mistakes_about_the_command() {
    for (text, expected) in [
        (
            "name = 'x'",
            "1:1 \"\" the service file has no `command` | write the program's command line: \
             command = [\"./add.sh\", \"[in val x:int]\"]",
        ),
        (
            "command = 1",
            "1:11 \"1\" `command` is a list of words or one string, not an integer | an integer",
        ),
        (
            "command = ['p', 1]",
            "1:17 \"1\" a word of `command` is a string, not an integer | an integer",
        ),
        (
            "command = []",
            "1:11 \"[]\" the command line has no program | write the program first, such as \
             `./add.sh` or `gzip`",
        ),
        ("command = \"p 'x\"", "1:14 \"'x\" the quote has no end | opened here"),
        (
            "command = ['p', \"\\u00e9[in val x:itn]\"]",
            "1:34 \"itn\" `itn` is no type of a slot | one of int, long, float, double, bool, \
             string, raw, xml, dir, or an array such as double[] | `int` is one",
        ),
        (
            "command = \"\"\"\np \\\n  '[in val x:int' \"\"\"",
            "3:4 \"[in val x:int\" the slot has no end | no `]` follows | close it with `]`",
        ),
        (
            "command = 'p > log 2> log'",
            "1:23 \"log\" standard output and standard error are the same file | `log` in the \
             workspace | redirect each stream to a file of its own",
        ),
        (
            "command = 'p'\n[operation.x]\ncommand = 'q'",
            "1:1 \"command\" `command` stands at the top beside [operation.NAME] | with several \
             operations each has a `command` of its own",
        ),
        (
            "[operation.x]\nhelp = 'q'\ncommand = 'q'",
            "2:1 \"help\" [operation.x] has no key `help` | it knows documentation, command, \
             input, output, group, exit, failure, progress",
        ),
        (
            "[operation.x]\ncommand = 'q'\n[operation.x_spawn]\ncommand = 'q'",
            "2:11 \"'q'\" two verbs of the service are called `x_spawn` | an operation X is \
             called X, X_spawn and X_results; rename one",
        ),
        (
            "[operation.status]\ncommand = 'q'",
            "2:11 \"'q'\" two verbs of the service are called `status` | an operation X is \
             called X, X_spawn and X_results; rename one",
        ),
    ] {
        assert_eq!(said(text), [expected], "{text}");
    }
}

#[test]
fn mistakes_about_the_rest() {
    for (rest, expected) in [
        (
            "name = 'a b'",
            "2:8 \"'a b'\" \"a b\" is no name for a service | a name begins with a letter or `_` \
             and goes on with letters, digits, `_`, `-` and `.` (it becomes part of XML and of a \
             URL)",
        ),
        (
            "name = 'metrics'",
            "2:8 \"'metrics'\" the name `metrics` is the server's own | give the service another \
             `name`",
        ),
        (
            "namespace = 'ccx'",
            "2:13 \"'ccx'\" \"ccx\" is no absolute URI | write one such as urn:example:ccx or \
             https://example.org/ccx",
        ),
        ("titel = 'x'", "2:1 \"titel\" the service file has no key `titel` | `title` is one"),
        (
            "wall_time = '2h'",
            "2:1 \"wall_time\" the service file has no key `wall_time` | `wall_time` stands in \
             [limits]",
        ),
        (
            "[exit]\nstage = ['x']",
            "3:1 \"stage\" [exit] has no key `stage` | `stage` stands at the top, before the \
             first [table]",
        ),
        ("stage = 'x'", "2:9 \"'x'\" `stage` is a list of files, not a string | a string"),
        (
            "stage = ['x', { from = 'y', to = 'x' }]",
            "2:24 \"'y'\" a staged file and a staged file are the same file | `x` in the \
             workspace | give one of them another name, with `to` or `filename`",
        ),
        ("stage = [{ to = 'x' }]", "2:10 \"{ to = 'x' }\" an item of `stage` has no `from`"),
        (
            "environment = { A = 1 }",
            "2:21 \"1\" the variable `A` is a string, not an integer | an integer",
        ),
        (
            "environment = { FISHPLATE_JOB = 'x' }",
            "2:17 \"FISHPLATE_JOB\" `FISHPLATE_JOB` is set by Fishplate itself | take a name that \
             does not begin with `FISHPLATE_`",
        ),
        (
            "pass_environment = ['A=1']",
            "2:21 \"'A=1'\" \"A=1\" is no name of a variable | write a name, or how names begin \
             and a `*`, such as FOAM_*",
        ),
        (
            "modules = ['a; rm']",
            "2:12 \"'a; rm'\" \"a; rm\" is no name of a module | write a name as `module load` \
             takes it, such as gcc/12.2",
        ),
        (
            "container = {}",
            "2:1 \"container\" the container has no `image` | container = { image = \"ccx.sif\" }",
        ),
        (
            "[ranks]",
            "2:2 \"ranks\" [ranks] has no `max` | max = 8: so many ranks of this program may run at once",
        ),
        (
            "[ranks]\nmax = 1\nlimits = { parallel_stream = 2 }",
            "4:12 \"parallel_stream\" [ranks.limits] has no key `parallel_stream` | `parallel_streams` is one",
        ),
        (
            "[ranks]\nmax = 1\nlimits = { stream_bytes = 'much' }",
            "4:27 \"'much'\" stream_bytes takes a size such as 64MiB",
        ),
        (
            "container = { image = 'i' }\n[ranks]\nmax = 1",
            "3:2 \"ranks\" a program in a container can't be a rank | the rendezvous of the ranks is outside of \
             it: leave [ranks] or `container` out",
        ),
        ("max_running = 0", "2:15 \"0\" `max_running` is a whole number from 1 upwards"),
        ("[exit]\nsuccess = [256]", "3:12 \"256\" an exit code is a number from 0 to 255"),
        ("[exit]\nsuccess = []", "3:1 \"success\" `success` lists at least one exit code"),
        ("[exit]\nmeaning = { x = 'y' }", "3:13 \"x\" `x` is no exit code from 0 to 255"),
        (
            "[exit]\nmeaning = { 0 = 'y' }",
            "3:13 \"0\" exit code 0 means success, so nobody sees this",
        ),
        (
            "[failure]\nlog = ['(']",
            "3:8 \"'('\" the regular expression cannot be read: unclosed group",
        ),
        (
            "[failure]\nlog = ['(?=x)']",
            "3:8 \"'(?=x)'\" the regular expression cannot be read: look-around, including \
             look-ahead and look-behind, is not supported | look-around and back-references are \
             not supported",
        ),
        (
            "[progress]\npattern = 'a'",
            "3:11 \"'a'\" the pattern has 0 groups, not one or two | one group is per cent, two \
             are what is done and of how many; `(?:...)` is no group",
        ),
        ("[progress]\nstream = 'stdout'", "2:2 \"progress\" [progress] has no `pattern`"),
        (
            "[limits]\nwall_time = 90",
            "3:13 \"90\" `wall_time` has no unit | write it as a string with a unit, such as \
             \"90s\"",
        ),
        (
            "[limits]\nwall_time = 'soon'",
            "3:13 \"'soon'\" `wall_time`: \"soon\" is no duration: write one such as 90s, 2h, \
             1h30m or 7d",
        ),
        ("[limits]\nwall_time = '0s'", "3:13 \"'0s'\" `wall_time` is more than nothing"),
        (
            "[limits]\nmemory = '4'",
            "3:10 \"'4'\" `memory`: \"4\" is no size: write one such as 64MiB (64 * 1024 * 1024 \
             bytes) or 10GB",
        ),
        ("[limits]\nmemory = '0B'", "3:10 \"'0B'\" `memory` is more than nothing"),
        (
            "[limits]\noutput_size = '1MiB'\nvalue_size = '2MiB'",
            "4:14 \"'2MiB'\" `value_size` is more than `output_size` | a value is one of the \
             files that `output_size` is for",
        ),
        (
            "[limits]\nkill_grace = '1d'",
            "3:14 \"'1d'\" `kill_grace` is at most 1h | it is the time between SIGTERM and SIGKILL",
        ),
        ("[limits]\ncoers = 2", "3:1 \"coers\" [limits] has no key `coers` | `cores` is one"),
    ] {
        assert_eq!(said(&format!("command = 'p'\n{rest}")), [expected], "{rest}");
    }
}

#[test]
fn a_syntax_error_stands_alone() {
    assert_eq!(
        said("command = 'p\nnmae = 'x'\ncommand = 1\n"),
        ["1:13 \"\" invalid literal string, expected `'`", "3:1 \"command\" duplicate key",]
    );
    assert_eq!(
        said("command = ['p'\nfoo = 1\n[x\n"),
        [
            "2:1 \"\" missing comma between array elements, expected `,`",
            "3:1 \"\" missing comma between array elements, expected `,`",
        ]
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_at_once_in_their_order() {
    let text = "name = 'a b'\ncommand = 'p [in val x:itn] [out val y:int]'\nfoo = 1\n\
                [input.z]\nhelp = 1\n[limits]\nmemory = 4\nwall_time = 'x'\n";
    let lines: Vec<String> =
        said(text).iter().map(|said| said.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["1:8", "2:24", "2:34", "3:1", "4:8", "7:10", "8:13"]);
}

#[test]
fn mistakes_about_lists_and_groups() {
    let optional = "[input.n]\noptional = true\n[input.s]\noptional = true\n";
    for (rest, expected) in [
        ("[input.n]\nseparator = ','".to_owned(), "write `repeated = true` beside it"),
        (
            "[input.n]\nrepeated = true\nrepeat_prefix = true".to_owned(),
            "there is no `prefix` to repeat",
        ),
        ("[input.u]\nrepeated = true".to_owned(), "the slot's word has other slots"),
        ("[input.n]\nrepeated = true\ndefault = 1".to_owned(), "which is one value"),
        ("[input.n]\nrepeated = true\nmax_count = 1".to_owned(), "`max_count` is 2 or more"),
        (
            "[input.n]\nrepeated = true\nmin_count = 3\nmax_count = 2".to_owned(),
            "`max_count` is below `min_count`, 3",
        ),
        ("[input.n]\ndefault_file = 'x'".to_owned(), "`default_file` is for one input `file`"),
        (format!("{optional}[group.g]\ninputs = ['n', 's']"), "demands nothing"),
        (
            format!("{optional}[group.g]\ninputs = ['n', 'ss']\nrequired = true"),
            "there is no input `ss`",
        ),
        (
            "[group.g]\ninputs = ['n', 'b']\nrequired = true\n[input.b]\noptional = true"
                .to_owned(),
            "the input `n` is never left out",
        ),
        ("[output.o]\ntype = 'raw'\npath = '{q}.txt'".to_owned(), "there is no input `q`"),
        (
            "[output.o]\ntype = 'raw'\npath = '{m}.txt'".to_owned(),
            "has no value that could stand in a file's name",
        ),
        (
            "[input.n]\noptional = true\n[output.o]\ntype = 'raw'\npath = '{n}.txt'".to_owned(),
            "`n` may be left out, and the output is required",
        ),
    ] {
        let said = mistake(&rest);
        assert!(said.contains(expected), "{rest}: {said}");
    }
}
