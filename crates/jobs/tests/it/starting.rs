//! Starts that do not happen say why, and can be tried again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fishplate_jobs::executor::{Executor as _, StartError, StartOrder, StartTrace};
use fishplate_programs::plan::{InputContent, InputFile, StagedFile};

use crate::bed::{Bed, is_root};
use crate::skipped::skipped;

async fn refusal(bed: &Bed, order: &StartOrder) -> StartError {
    let error = bed.executor.start(order).await.unwrap_err();
    assert_eq!(bed.executor.locate(order).await, StartTrace::Never, "a refusal is for certain");
    error
}

fn says(error: &StartError, part: &str) {
    assert!(error.to_string().contains(part), "{part:?} is not in {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_named_and_may_be_there_next_time() {
    let bed = Bed::new();
    let program = bed.directory.path().join("program");
    let mut order = bed.order("", |plan| {
        plan.program = program.clone();
        plan.arguments.clear();
    });
    let error = refusal(&bed, &order).await;
    assert!(matches!(error, StartError::ProgramMissing(_)), "{error:?}");
    says(&error, "program program does not exist");
    assert!(!error.to_string().contains('/'), "callers are told no path: {error}");

    fs::write(&program, "exit 3\n").unwrap();
    order.fence += 1;
    let error = refusal(&bed, &order).await;
    assert!(matches!(error, StartError::ProgramMissing(_)), "{error:?}");
    says(&error, "chmod +x");

    fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    order.fence += 1;
    assert_eq!(bed.run(&order).await.exit_code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_claim_can_not_start_what_a_newer_one_could_not() {
    let bed = Bed::new();
    let mut order = bed.order("", |plan| plan.program = "/no/such/program".into());
    order.fence = 7;
    refusal(&bed, &order).await;
    let program = bed.order("echo ran > ran", |_| {}).plan;
    let stale = StartOrder { fence: 6, plan: program, ..order };
    assert!(matches!(bed.executor.start(&stale).await, Err(StartError::NotStarted(_))));
    assert!(!stale.directory.join("work/ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_and_staged_files_are_there_and_nothing_is_outside() {
    let bed = Bed::new();
    let library = bed.directory.path().join("library");
    fs::create_dir_all(library.join("deep")).unwrap();
    fs::write(library.join("deep/table"), "12").unwrap();
    fs::write(bed.directory.path().join("tool"), "#!/bin/sh\necho tool\n").unwrap();
    let executable = fs::Permissions::from_mode(0o555);
    fs::set_permissions(bed.directory.path().join("tool"), executable).unwrap();
    let input = |path: &str, content| InputFile { path: path.to_owned(), content };
    let (order, ending) = bed
        .run_script("cat a.txt; cat sub/b.bin; cat lib/deep/table; ./tool; cat", |plan| {
            plan.inputs = vec![
                input("a.txt", InputContent::Text("one ".to_owned())),
                input("sub/b.bin", InputContent::Bytes(b"two ".to_vec())),
                input("stdin", InputContent::Text("three".to_owned())),
            ];
            plan.stdin = Some("stdin".to_owned());
            plan.staged = vec![
                StagedFile { from: library.clone(), to: "lib".to_owned() },
                StagedFile { from: bed.directory.path().join("tool"), to: "tool".to_owned() },
            ];
        })
        .await;
    assert_eq!(ending.exit_code, Some(0));
    let said = fs::read_to_string(order.directory.join("stdout")).unwrap();
    assert_eq!(said, "one two 12tool\nthree");

    for path in ["../escaped", "/tmp/escaped", "sub/../../escaped", ""] {
        let order = bed.order("exit 0", |plan| {
            plan.inputs = vec![input(path, InputContent::Text("x".to_owned()))];
        });
        says(&refusal(&bed, &order).await, "does not name a file of the workspace");
    }
    assert!(!bed.jobs().join("escaped").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_gets_the_services_environment_and_no_other() {
    let bed = Bed::new();
    let base = bed.directory.path().join("environment.json");
    fs::write(&base, r#"{"PATH":"/usr/bin:/bin","BASE":"b","OVER":"old"}"#).unwrap();
    let (order, _) = bed
        .run_script("env", |plan| {
            plan.base_environment = Some(base.clone());
            plan.environment = [("OVER".to_owned(), "new".to_owned())].into();
        })
        .await;
    let said = fs::read_to_string(order.directory.join("stdout")).unwrap();
    let mut names: Vec<&str> = said.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["BASE", "FISHPLATE_JOB", "OVER", "PATH"]);
    assert!(said.contains("OVER=new\n") && said.contains(&format!("FISHPLATE_JOB={}", order.job)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_has_three_descriptors_and_default_signals() {
    let bed = Bed::new();
    let said = async |program: &str, arguments: &[&str]| {
        let order = bed.order("", |plan| {
            plan.program = program.into();
            plan.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        });
        bed.run(&order).await;
        fs::read_to_string(order.directory.join("stdout")).unwrap()
    };
    // The fourth is the directory that it lists.
    assert_eq!(said("/bin/ls", &["/proc/self/fd"]).await, "0\n1\n2\n3\n");
    let signals = said("/bin/grep", &["-E", "Sig(Blk|Ign)", "/proc/self/status"]).await;
    for line in signals.lines() {
        let mask = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        // 32 and 33 are the C library's own.
        assert_eq!(mask & !(3 << 31), 0, "{signals}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_a_refusal_or_a_named_limit() {
    if !is_root() {
        skipped("root", "mounting a small file system needs root");
        return;
    }
    let small = Small::mount();
    let bed = Bed::new();
    let at = |script: &str, reserve: u64| {
        let mut order = bed.order(script, |plan| plan.limits.disk_reserve = reserve);
        order.directory = small.0.path().join(order.job.to_string());
        order
    };
    // Nearly full before the start.
    let order = at("exit 0", 256 << 20);
    let error = refusal(&bed, &order).await;
    assert!(matches!(error, StartError::StorageFull(_)), "{error:?}");
    says(&error, "disk_reserve");
    // Running towards the reserve.
    let order = at("while :; do echo 0123456789 >> f; done", 512 << 10);
    let ending = bed.run(&order).await;
    assert_eq!(ending.limit, Some(("disk_reserve".to_owned(), "512 KiB".to_owned())));
    fishplate_jobs::workspace::remove(&order.directory).unwrap();
    // Filled to the last byte by the program itself: its end is known all the same.
    let order = at("head -c 2M /dev/zero > f || exit 9", 0);
    let ending = bed.run(&order).await;
    assert_eq!(ending.exit_code, Some(9));
    let other = bed.another_executor();
    let handle = match other.locate(&order).await {
        StartTrace::Started(handle) => handle,
        other => panic!("{other:?}"),
    };
    let seen = other.observe(&[handle]).await.remove(0);
    assert!(
        matches!(&seen, fishplate_jobs::executor::Observation::Ended(it) if it.exit_code == Some(9)),
        "{seen:?}"
    );
    // Nothing left at all.
    let order = at("exit 0", 0);
    let error = refusal(&bed, &order).await;
    assert!(matches!(error, StartError::StorageFull(_)), "{error:?}");
}

/// A file system of 1 MiB.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Self {
        let directory = tempfile::tempdir().unwrap();
        run_tool("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs"], directory.path());
        Self(directory)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run_tool("umount", &["-l"], self.0.path());
    }
}

fn run_tool(program: &str, arguments: &[&str], path: &Path) {
    let status = std::process::Command::new(program).args(arguments).arg(path).status().unwrap();
    assert!(status.success(), "{program} {}", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_longer_than_the_system_takes_are_told_by_the_limit() {
    let bed = Bed::new();
    let order = bed.order("exit 0", |plan| {
        plan.environment.insert("GREW".to_owned(), "x".repeat(1 << 20));
    });
    let error = refusal(&bed, &order).await;
    let StartError::TooLong { limit, .. } = &error else { panic!("{error:?}") };
    assert_eq!(limit.name, "arguments_size");
    let bytes: u64 = limit.value.strip_suffix(" bytes").unwrap().parse().unwrap();
    assert!(bytes >= 128 << 10);
    says(&error, "longer than the system takes");
}
