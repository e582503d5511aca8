mod arrays;

use std::fs;
use std::os::unix::fs::symlink;

use fishplate_formats::array_file::Format;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::executor::{Collected, OutputContent, ProgramExit, conformance};
use fishplate_programs::plan::{
    Fetched, InputContent, InputFile, OutputRule, OutputSource, ProgressRule, StagedFile,
};

fn plan() -> Plan {
    conformance::plan("/bin/true", &[])
}

/// A job's directory with a workspace in it.
fn place() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    prepare(&plan(), directory.path()).unwrap();
    directory
}

fn success() -> ProgramExit {
    ProgramExit { exit_code: Some(0), ..ProgramExit::default() }
}

fn rule(data_type: &str, source: OutputSource) -> OutputRule {
    let (name, data_type) = ("y".to_owned(), data_type.to_owned());
    OutputRule {
        name,
        data_type,
        source,
        required: true,
        non_empty: false,
        format: None,
        media_type: String::new(),
    }
}

fn path(path: &str) -> OutputSource {
    OutputSource::Path(path.to_owned())
}

fn collect_one(directory: &TempDir, rule: OutputRule) -> Collected {
    let plan = Plan { outputs: vec![rule], ..plan() };
    collect(&plan, directory.path(), &success())
}

fn problem(directory: &TempDir, rule: OutputRule) -> String {
    let collected = collect_one(directory, rule);
    assert!(collected.outputs.is_empty(), "{collected:?}");
    collected.problem.unwrap().1
}

#[test]
fn what_filled_the_disk_goes_and_the_heads_of_the_log_stay() {
    let directory = place();
    let root = work(directory.path());
    let plan = Plan { stdout: Some("logs/out".to_owned()), ..plan() };
    for made in ["logs/more", "closed/below"] {
        fs::create_dir_all(root.join(made)).unwrap();
    }
    for file in ["big", "logs/out", "logs/other", "closed/below/x"] {
        fs::write(root.join(file), vec![b'x'; 100_000]).unwrap();
    }
    symlink("/etc/passwd", root.join("link")).unwrap();
    fs::write(directory.path().join("stderr"), "short").unwrap();
    fs::create_dir(directory.path().join("packed")).unwrap();
    fs::write(directory.path().join("run"), "{}\n").unwrap();
    strip(&plan, directory.path()).unwrap();
    let mut left = Vec::new();
    size::walk(directory.path(), &mut |path, metadata| {
        left.push((path.to_str().unwrap().to_owned(), metadata.len()));
    });
    left.sort();
    let expected = [("run", 3), ("stderr", 5), ("work/logs/out", 65536)];
    assert_eq!(left, expected.map(|(path, len)| (path.to_owned(), len)));
    assert!(!directory.path().join("packed").exists());
    strip(&plan, directory.path()).unwrap();
}

#[test]
fn a_workspace_can_be_prepared_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan();
    for text in ["long text", "short"] {
        let content = InputContent::Text(text.to_owned());
        plan.inputs = vec![InputFile { path: "deep/in".to_owned(), content }];
        prepare(&plan, directory.path()).unwrap();
        let written = fs::read_to_string(work(directory.path()).join("deep/in")).unwrap();
        assert_eq!(written, text);
    }
    let content = InputContent::InPlace;
    plan.inputs = vec![InputFile { path: "deep/in".to_owned(), content: content.clone() }];
    prepare(&plan, directory.path()).unwrap();
    plan.inputs = vec![InputFile { path: "elsewhere".to_owned(), content }];
    let error = prepare(&plan, directory.path()).unwrap_err();
    assert!(error.to_string().contains("elsewhere"), "{error}");
}

#[test]
fn nothing_is_written_through_a_link() {
    let directory = place();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "mine").unwrap();
    symlink(outside.path(), work(directory.path()).join("way")).unwrap();
    symlink(outside.path().join("file"), work(directory.path()).join("link")).unwrap();
    for to in ["way/new", "link", "way"] {
        let content = InputContent::Text("theirs".to_owned());
        let inputs = vec![InputFile { path: to.to_owned(), content }];
        prepare(&Plan { inputs, ..plan() }, directory.path()).unwrap_err();
        let staged = vec![StagedFile { from: "/etc/passwd".into(), to: to.to_owned() }];
        prepare(&Plan { staged, ..plan() }, directory.path()).unwrap_err();
    }
    assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_staged_directory_that_holds_itself_is_refused() {
    let directory = place();
    let library = tempfile::tempdir().unwrap();
    symlink(library.path(), library.path().join("again")).unwrap();
    let staged = vec![StagedFile { from: library.path().to_path_buf(), to: "lib".to_owned() }];
    prepare(&Plan { staged, ..plan() }, directory.path()).unwrap_err();
}

#[test]
fn staged_files_are_not_copied_into_the_reserve_and_leave_nothing_of_an_earlier_try() {
    let directory = place();
    let library = tempfile::tempdir().unwrap();
    fs::create_dir(library.path().join("below")).unwrap();
    let files = ["one", "below/two"];
    for file in files {
        fs::write(library.path().join(file), "small").unwrap();
    }
    let staged = vec![StagedFile { from: library.path().to_path_buf(), to: "lib".to_owned() }];
    let mut plan = Plan { staged, ..plan() };
    prepare(&plan, directory.path()).unwrap();
    let copies = work(directory.path()).join("lib");
    assert_eq!(fs::read(copies.join("below/two")).unwrap(), b"small");
    for file in files {
        let file = File::create(library.path().join(file)).unwrap();
        file.set_len(512 << 20).unwrap();
    }
    // Each alone has room.
    let free = fishplate_formats::disk::FreeSpace::at(directory.path()).unwrap();
    plan.limits.disk_reserve = free.room().saturating_sub(768 << 20);
    let error = prepare(&plan, directory.path()).unwrap_err();
    assert!(error.is_storage_full());
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("they take 1073741824") && why.contains("disk_reserve"), "{why}");
    assert!(!copies.exists());
}

#[test]
fn numbers_are_trimmed_and_checked_and_strings_are_kept() {
    let directory = place();
    let file = work(directory.path()).join("y");
    let cases = [
        ("int", " 42\n", Ok("42")),
        ("double", "\t1.5e3 ", Ok("1.5e3")),
        ("double", "inf", Ok("INF")),
        ("float", "-nan", Ok("NaN")),
        ("double", " 1.0D+00\n", Ok("1.0e+00")),
        ("float", "+INF", Ok("INF")),
        ("bool", "true\n", Ok("true")),
        ("string", " as it is \n", Ok(" as it is \n")),
        ("int", "4.2", Err("whole number")),
        ("int", "", Err("whole number")),
        ("double", "1,5", Err("a number such as")),
        ("string", "a\0b", Err("control characters")),
    ];
    for (data_type, written, expected) in cases {
        fs::write(&file, written).unwrap();
        let rule = rule(data_type, path("y"));
        match expected {
            Ok(text) => {
                let collected = collect_one(&directory, rule);
                let content = OutputContent::Text(text.to_owned());
                assert_eq!(collected.problem, None, "{data_type} {written:?}");
                assert_eq!(collected.outputs[0].content, content);
            }
            Err(part) => {
                let problem = problem(&directory, rule);
                assert!(problem.contains(part), "{problem}");
            }
        }
    }
    fs::write(&file, [b'a', 0xff]).unwrap();
    assert!(problem(&directory, rule("string", path("y"))).contains("UTF-8"));
}

#[test]
fn an_output_that_has_to_hold_something_and_does_not_is_told() {
    let directory = place();
    let root = work(directory.path());
    fs::write(root.join("a.vtu"), "full").unwrap();
    fs::write(root.join("b.vtu"), "").unwrap();
    let non_empty = |data_type: &str, source| OutputRule {
        non_empty: true,
        required: false,
        ..rule(data_type, source)
    };
    let empty = "the program wrote nothing into b.vtu";
    for data_type in ["raw", "xml", "string", "double[]"] {
        assert_eq!(problem(&directory, non_empty(data_type, path("b.vtu"))), empty);
    }
    let glob = || OutputSource::Glob("*.vtu".to_owned());
    let collected = collect_one(&directory, non_empty("raw", glob()));
    assert_eq!(collected.problem.unwrap().1, empty);
    assert_eq!(collect_one(&directory, rule("raw", glob())).problem, None);
    for fine in ["a.vtu", "absent"] {
        assert_eq!(collect_one(&directory, non_empty("raw", path(fine))).problem, None);
    }
}

#[test]
fn links_devices_and_ways_out_are_no_outputs() {
    let directory = place();
    let root = work(directory.path());
    symlink("/etc/passwd", root.join("link.txt")).unwrap();
    symlink("/etc", root.join("way")).unwrap();
    nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(root.join("directory")).unwrap();
    let cases = [
        (path("link.txt"), "symbolic link"),
        (OutputSource::Glob("*.txt".to_owned()), "no file that matches"),
        (path("way/passwd"), "did not write"),
        (path("../../../etc/passwd"), "does not name a file of the workspace"),
        (path("/etc/passwd"), "does not name a file of the workspace"),
        (path("fifo"), "not a regular file"),
        (path("directory"), "not a regular file"),
        (path("missing"), "did not write"),
        (OutputSource::Glob("*.frd".to_owned()), "no file that matches"),
        (OutputSource::Glob("[".to_owned()), "not valid"),
    ];
    for (source, part) in cases {
        let problem = problem(&directory, rule("raw", source.clone()));
        assert!(problem.contains(part), "{source:?}: {problem}");
    }
    open_output(directory.path(), "way/passwd").unwrap_err();
}

#[test]
fn an_output_that_need_not_be_there_is_left_out() {
    let directory = place();
    for source in [path("missing"), path("missing/deeper"), OutputSource::Glob("*.x".to_owned())] {
        let collected =
            collect_one(&directory, OutputRule { required: false, ..rule("int", source) });
        assert_eq!((collected.problem, collected.outputs.len()), (None, 0));
    }
}

#[test]
fn an_array_of_countless_rows_without_numbers_is_no_output() {
    let directory = place();
    let file = work(directory.path()).join("grid");
    let collect_rows = |rows: u64| {
        let mut plan = Plan { outputs: vec![rule("double[n,m]", path("grid"))], ..plan() };
        plan.dimensions.tell("n", rows, "the input n");
        collect(&plan, directory.path(), &success())
    };
    fs::write(&file, "").unwrap();
    let collected = collect_rows(10_000);
    assert_eq!((collected.outputs.len(), collected.problem), (1, None));
    let (_, told) = collect_rows(10_001).problem.unwrap();
    assert!(told.starts_with("output y (grid) has the shape 10001 x 0: "), "{told}");

    let shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 0), }";
    let header = format!("{shape:<117}\n");
    fs::write(&file, [b"\x93NUMPY\x01\0\x76\0", header.as_bytes()].concat()).unwrap();
    let npy = OutputRule { format: Some(Format::Npy), ..rule("double[n,m]", path("grid")) };
    let told = problem(&directory, npy);
    assert!(told.contains("has the shape 1000000000000000 x 0: "), "{told}");
}

#[test]
fn a_glob_does_not_cross_directories_unless_it_says_so() {
    let directory = place();
    let root = work(directory.path());
    fs::create_dir(root.join("sub")).unwrap();
    for file in ["b.frd", "a.frd", "sub/c.frd"] {
        fs::write(root.join(file), file).unwrap();
    }
    let found = |glob: &str| {
        let collected = collect_one(&directory, rule("raw", OutputSource::Glob(glob.to_owned())));
        collected.outputs.into_iter().map(|it| it.label.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("*.frd"), ["a.frd", "b.frd"]);
    assert_eq!(found("**/*.frd"), ["a.frd", "b.frd", "sub/c.frd"]);
}

#[test]
fn value_size_holds_for_what_only_a_glob_finds() {
    let directory = place();
    fs::write(work(directory.path()).join("v"), "123456").unwrap();
    let mut plan = Plan { outputs: vec![rule("int", OutputSource::Glob("v".into()))], ..plan() };
    plan.limits.value_size = 6;
    assert_eq!(collect(&plan, directory.path(), &success()).problem, None);
    plan.limits.value_size = 5;
    let (_, problem) = collect(&plan, directory.path(), &success()).problem.unwrap();
    assert!(problem.contains("value_size"), "{problem}");
}

#[test]
fn a_job_that_failed_has_a_log_but_no_outputs() {
    let directory = place();
    fs::write(work(directory.path()).join("y"), "1").unwrap();
    fs::write(directory.path().join("stderr"), "it broke\n").unwrap();
    let plan = Plan { outputs: vec![rule("int", path("y"))], ..plan() };
    let failed = [
        ProgramExit { exit_code: Some(1), ..ProgramExit::default() },
        ProgramExit { cancelled: true, ..success() },
        ProgramExit { limit: Some(("memory".into(), "1".into())), ..success() },
        ProgramExit { signal: Some("SIGKILL".into()), ..ProgramExit::default() },
    ];
    for ending in failed {
        let collected = collect(&plan, directory.path(), &ending);
        assert!(collected.outputs.is_empty() && collected.problem.is_none());
        assert_eq!(collected.stderr_tail, "it broke\n");
    }
}

#[test]
fn a_failure_is_a_line_of_either_stream_wherever_that_goes() {
    let directory = place();
    let mut plan = plan();
    plan.success.failure_patterns = vec!["^Error".to_owned(), "diverged$".to_owned()];
    let line = |plan: &Plan| collect(plan, directory.path(), &success()).failure_line;
    fs::write(directory.path().join("stdout"), "no Error\nit diverged here\n").unwrap();
    assert_eq!(line(&plan), None);
    fs::write(directory.path().join("stderr"), "fine\nit diverged\r\nmore\n").unwrap();
    assert_eq!(line(&plan).as_deref(), Some("it diverged"));
    fs::write(directory.path().join("stdout"), "Error without end of line").unwrap();
    assert_eq!(line(&plan).as_deref(), Some("Error without end of line"));
    plan.stdout = Some("result".to_owned());
    fs::write(work(directory.path()).join("result"), "Error in a file\n").unwrap();
    assert_eq!(line(&plan).as_deref(), Some("Error in a file"));
    let endless = "x".repeat(1 << 20) + "\nError after a long line\n";
    fs::write(work(directory.path()).join("result"), endless).unwrap();
    assert_eq!(line(&plan).as_deref(), Some("Error after a long line"));
}

#[test]
fn the_tail_of_standard_error_is_whole_characters() {
    let directory = place();
    fs::write(directory.path().join("stderr"), "ä".repeat(5000) + "!").unwrap();
    let tail = collect(&plan(), directory.path(), &success()).stderr_tail;
    assert!(tail.len() <= 4096 && tail.ends_with("ä!") && !tail.contains('\u{fffd}'), "{tail}");
    fs::write(directory.path().join("stderr"), [0xff, b'a']).unwrap();
    let tail = collect(&plan(), directory.path(), &success()).stderr_tail;
    assert_eq!(tail, "\u{fffd}a");
}

#[test]
fn a_sparse_file_counts_for_what_it_occupies() {
    let directory = place();
    fs::write(work(directory.path()).join("small"), "123").unwrap();
    fs::write(directory.path().join("stdout"), "45").unwrap();
    let sparse = File::create(work(directory.path()).join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    assert_eq!(disk_use(directory.path()), 5);
}

#[test]
fn progress_is_the_last_match() {
    let directory = place();
    let mut plan = plan();
    assert_eq!(progress(&plan, directory.path()), None);
    let rule = |pattern: &str, stream: &str| {
        Some(ProgressRule { pattern: pattern.to_owned(), stream: stream.to_owned() })
    };
    plan.progress = rule(r"increment (\d+) of (\d+)", "stdout");
    assert_eq!(progress(&plan, directory.path()), None, "no log yet");
    let log = "increment 1 of 8\nincrement 2 of 8\nnoise\n";
    fs::write(directory.path().join("stdout"), log).unwrap();
    assert_eq!(progress(&plan, directory.path()), Some(0.25));
    plan.progress = rule(r"([\d.]+) ?%", "log.txt");
    fs::write(work(directory.path()).join("log.txt"), "10%\n12.5 %\n").unwrap();
    assert_eq!(progress(&plan, directory.path()), Some(0.125));
    fs::write(work(directory.path()).join("log.txt"), "130 %").unwrap();
    assert_eq!(progress(&plan, directory.path()), Some(1.0));
    plan.progress = rule(r"(\d+)/(\d+)", "log.txt");
    fs::write(work(directory.path()).join("log.txt"), "0/0").unwrap();
    assert_eq!(progress(&plan, directory.path()), None);
}

#[test]
fn a_log_is_read_from_an_offset_on() {
    let directory = place();
    let read = |offset, max| read_log(&plan(), directory.path(), OutputStream::Stderr, offset, max);
    assert_eq!(read(0, 10).unwrap(), (Vec::new(), 0));
    fs::write(directory.path().join("stderr"), "0123456789").unwrap();
    assert_eq!(read(0, 4).unwrap(), (b"0123".to_vec(), 4));
    assert_eq!(read(4, 100).unwrap(), (b"456789".to_vec(), 10));
    assert_eq!(read(10, 100).unwrap(), (Vec::new(), 10));
    for beyond in [99, 5_810_491_909_151_572, u64::MAX] {
        assert_eq!(read(beyond, 100).unwrap(), (Vec::new(), beyond));
    }
    fs::write(directory.path().join("stderr"), vec![b'x'; MOST_LOG_READ + 1]).unwrap();
    assert_eq!(read(0, usize::MAX).unwrap().1, MOST_LOG_READ as u64);
}

#[test]
fn a_directory_is_removed_whatever_the_program_left() {
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("job");
    remove(&job).unwrap();
    prepare(&plan(), &job).unwrap();
    let deep = work(&job).join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("file"), "x").unwrap();
    symlink("/etc", deep.join("link")).unwrap();
    fs::set_permissions(&deep, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    fs::write(job.join("stdout"), "x").unwrap();
    remove(&job).unwrap();
    assert!(!job.exists());
}

/// A data directory with a place for spares, and a job in it that has run.
fn place_with_spares() -> (TempDir, PathBuf) {
    let data = tempfile::tempdir().unwrap();
    make_directory_cache(data.path()).unwrap();
    let job = data.path().join("jobs/1");
    make_directories(&job).unwrap();
    let file = |name: &str| {
        File::options().create(true).append(true).mode(0o600).open(job.join(name)).unwrap()
    };
    for name in ["run", "stdout", "stderr"] {
        io::Write::write_all(&mut file(name), b"old").unwrap();
    }
    file(HANDED_OUT);
    fs::write(work(&job).join("output"), "old").unwrap();
    fs::create_dir(work(&job).join("deep")).unwrap();
    (data, job)
}

fn spares(data: &TempDir) -> usize {
    fs::read_dir(data.path().join("spare")).unwrap().count()
}

#[test]
fn a_removed_directory_is_handed_on_empty() {
    let (data, job) = place_with_spares();
    remove(&job).unwrap();
    assert!(!job.exists());
    assert_eq!(spares(&data), 1);
    // Others may be taken in turn, but it comes.
    for number in 2..200 {
        make_directories(&data.path().join(format!("jobs/{number}"))).unwrap();
    }
    assert_eq!(spares(&data), 0);
    let mut reused = 0;
    for entry in fs::read_dir(data.path().join("jobs")).unwrap().flatten() {
        assert_eq!(fs::read_dir(work(&entry.path())).unwrap().count(), 0);
        assert!(!entry.path().join(HANDED_OUT).exists());
        for log in ["run", "stdout", "stderr"] {
            if let Ok(text) = fs::read_to_string(entry.path().join(log)) {
                assert_eq!(text.trim_end(), "");
                reused += 1;
            }
        }
    }
    assert_eq!(reused, 3);
}

#[test]
fn a_directory_that_a_program_tampered_with_is_not_handed_on() {
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let tampering: [&dyn Fn(&Path); 6] = [
        &|job| fs::write(job.join("more"), "x").unwrap(),
        &|job| fs::hard_link(job.join("stdout"), job.join("../../elsewhere")).unwrap(),
        &|job| mode(&job.join("stderr"), 0o644),
        &|job| mode(&work(job), 0o755),
        &|job| {
            fs::remove_dir_all(work(job)).unwrap();
            fs::create_dir(job.join("../../dear")).unwrap();
            fs::write(job.join("../../dear/file"), "mine").unwrap();
            symlink("../../dear", work(job)).unwrap();
        },
        &|job| {
            fs::remove_file(job.join("run")).unwrap();
            symlink("/etc/passwd", job.join("run")).unwrap();
        },
    ];
    for tamper in tampering {
        let (data, job) = place_with_spares();
        tamper(&job);
        remove(&job).unwrap();
        assert!(!job.exists());
        assert_eq!(spares(&data), 0);
        if data.path().join("dear").exists() {
            assert_eq!(fs::read_to_string(data.path().join("dear/file")).unwrap(), "mine");
        }
    }
}

#[test]
fn spares_are_bounded() {
    let (data, _) = place_with_spares();
    for number in 0..200 {
        let job = data.path().join(format!("jobs/many{number}"));
        prepare(&plan(), &job).unwrap();
        remove(&job).unwrap();
        assert!(!job.exists());
    }
    assert!(spares(&data) <= 64, "{}", spares(&data));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a path is written, what is created is below the workspace.
    #[test]
    fn no_path_leads_out(parts in proptest::collection::vec("(\\.\\.|\\.|a|b|/|)", 0..6)) {
        let directory = place();
        let path = parts.join("/");
        let content = InputContent::Text("x".to_owned());
        let inputs = vec![InputFile { path, content }];
        let _ = prepare(&Plan { inputs, ..plan() }, directory.path());
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
        prop_assert_eq!(names.len(), 1);
    }
}

#[test]
fn an_output_directory_is_packed_and_a_broken_one_is_told() {
    let directory = place();
    let rule = || rule("dir", path("out/case"));
    assert_eq!(problem(&directory, rule()), "the program did not write out/case");
    let optional = OutputRule { required: false, ..rule() };
    assert_eq!(collect_one(&directory, optional).outputs, []);
    let case = work(directory.path()).join("out/case");
    fs::create_dir_all(case.join("0")).unwrap();
    fs::write(case.join("0/U"), "velocity").unwrap();
    let collected = collect_one(&directory, rule());
    let [output] = collected.outputs.as_slice() else { panic!("{collected:?}") };
    let OutputContent::Archive { path: packed, len } = &output.content else { panic!() };
    let archive = fs::read(directory.path().join(packed)).unwrap();
    assert_eq!(archive.len() as u64, *len);
    let to = directory.path().join("unpacked");
    fishplate_formats::archive::unpack(&archive[..], false, &to, &Default::default()).unwrap();
    assert_eq!(fs::read(to.join("0/U")).unwrap(), b"velocity");
    assert!(collected.disk >= 8 + len, "what was packed counts");
    // Packed again, as after a kill.
    assert_eq!(collect_one(&directory, rule()).outputs, collected.outputs);
    symlink("/etc", case.join("away")).unwrap();
    let said = problem(&directory, rule());
    assert_eq!(said, "out/case: \"away\" is a link that leads out of the directory, or might");
    fs::remove_dir_all(&case).unwrap();
    fs::write(&case, "a file").unwrap();
    assert_eq!(problem(&directory, rule()), "out/case is no directory");
    fs::remove_file(&case).unwrap();
    symlink("/etc", &case).unwrap();
    assert_eq!(problem(&directory, rule()), "out/case is no directory");
}

#[test]
fn fetched_inputs_are_moved_into_the_workspace_once() {
    let directory = place();
    let fetched = directory.path().join("fetched/2");
    fs::create_dir_all(fetched.join("1")).unwrap();
    fs::write(fetched.join("0"), "mesh").unwrap();
    fs::write(fetched.join("1/file"), "in a directory").unwrap();
    let input = |path: &str, at: &str| {
        let content = InputContent::Fetched(Fetched {
            parameter: path.to_owned(),
            peer: String::new(),
            bytes: 4,
            cached: false,
            placed: "copy".to_owned(),
            at: format!("fetched/2/{at}"),
        });
        InputFile { path: path.to_owned(), content }
    };
    let plan = Plan { inputs: vec![input("sub/mesh", "0"), input("case", "1")], ..plan() };
    for _ in 0..2 {
        prepare(&plan, directory.path()).unwrap();
        let read = |name: &str| fs::read_to_string(work(directory.path()).join(name)).unwrap();
        assert_eq!((read("sub/mesh"), read("case/file")), ("mesh".into(), "in a directory".into()));
    }
    // A directory in which other inputs are already, one under the name of one of its files.
    fs::create_dir_all(fetched.join("3/sub")).unwrap();
    for file in ["3/file", "3/sub/mesh", "3/sub/grid"] {
        fs::write(fetched.join(file), "theirs").unwrap();
    }
    let content = InputContent::Text("own".to_owned());
    let own = InputFile { path: "full/sub/mesh".to_owned(), content };
    let merged = Plan { inputs: vec![own, input("full", "3")], ..plan.clone() };
    for _ in 0..2 {
        prepare(&merged, directory.path()).unwrap();
        let read = |name: &str| fs::read_to_string(work(directory.path()).join(name)).unwrap();
        let all = ["full/file", "full/sub/mesh", "full/sub/grid"].map(read);
        assert_eq!(all, ["theirs", "own", "theirs"]);
    }
    let plan = Plan { inputs: vec![input("other", "7")], ..plan };
    assert!(prepare(&plan, directory.path()).is_err());
}

#[test]
fn an_input_becomes_the_programs_own() {
    let directory = place();
    let pooled = directory.path().join("pooled");
    fs::write(&pooled, "whole").unwrap();
    fs::create_dir(work(directory.path()).join("sub")).unwrap();
    let input = work(directory.path()).join("sub/mesh");
    fs::hard_link(&pooled, &input).unwrap();
    for _ in 0..2 {
        make_private_input(directory.path(), "sub/mesh").unwrap();
        fs::write(&input, "whole").unwrap();
    }
    fs::write(&input, "changed").unwrap();
    assert_eq!(fs::read_to_string(&pooled).unwrap(), "whole");
}
