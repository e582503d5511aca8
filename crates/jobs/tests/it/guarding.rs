//! Inputs that are linked into the workspace: the program can read them, and nobody who holds them
//! too ever sees them change.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use fishplate_contract::PlacementMethod;
use fishplate_jobs::executor::{Executor as _, ProgramExit, StartOrder};
use fishplate_programs::plan::{Fetched, InputContent, InputFile};

use crate::bed::Bed;

/// A file as a pool has it.
fn pooled(bed: &Bed) -> PathBuf {
    let path = bed.directory.path().join("pooled");
    fs::write(&path, "whole").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    path
}

/// Runs a script whose input `sub/mesh` was fetched and linked.
async fn run(bed: &Bed, script: &str, stdin: bool) -> (StartOrder, ProgramExit) {
    let order = bed.order(script, |plan| {
        let fetched = Fetched {
            parameter: "mesh".to_owned(),
            peer: "http://a.example".to_owned(),
            bytes: 5,
            cached: false,
            placed: PlacementMethod::Link.name().to_owned(),
            at: "fetched/1/0".to_owned(),
        };
        let content = InputContent::Fetched(fetched);
        plan.inputs = vec![InputFile { path: "sub/mesh".to_owned(), content }];
        plan.stdin = stdin.then(|| "sub/mesh".to_owned());
    });
    let place = order.directory.join("fetched/1");
    fs::create_dir_all(&place).unwrap();
    fs::hard_link(pooled(bed), place.join("0")).unwrap();
    let ending = bed.run(&order).await;
    (order, ending)
}

fn stdout(order: &StartOrder) -> String {
    fs::read_to_string(order.directory.join("stdout")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linked_input_is_read_and_never_written() {
    let bed = Bed::new();
    assert!(bed.executor.guards_inputs(), "this test needs mount namespaces");
    let script = "cat sub/mesh; exec 2>/dev/null; \
        (echo x > sub/mesh) && echo wrote; (echo x >> sub/mesh) && echo appended; \
        chmod u+w sub/mesh && echo chmod; (echo x > sub/mesh) && echo wrote; \
        truncate -s 1 sub/mesh && echo cut; rm -f sub/mesh && echo removed; \
        mv sub/mesh sub/away && echo moved; ln sub/mesh link && echo linked; \
        echo y > sub/beside; cat sub/mesh sub/beside";
    let (order, ending) = run(&bed, script, false).await;
    assert_eq!(ending.exit_code, Some(0), "{ending:?}");
    assert_eq!(stdout(&order), "wholewholey\n");
    let pooled = bed.directory.path().join("pooled");
    assert_eq!(fs::read_to_string(&pooled).unwrap(), "whole");
    let metadata = fs::metadata(&pooled).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o444);
    assert_eq!(metadata.nlink(), 2, "the workspace has it under a name of its own");
    fishplate_jobs::workspace::remove(&order.directory).unwrap();
    assert_eq!(fs::metadata(&pooled).unwrap().nlink(), 1);
    // Nothing of it is seen outside.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(bed.directory.path().to_str().unwrap()), "{mounts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_input_is_no_way_around() {
    let bed = Bed::new();
    let script = "cat; (echo x 1<> /proc/self/fd/0 >&0) 2>/dev/null && echo wrote; true";
    let (order, ending) = run(&bed, script, true).await;
    assert_eq!(ending.exit_code, Some(0), "{ending:?}");
    assert_eq!(stdout(&order), "whole");
    assert_eq!(fs::read_to_string(bed.directory.path().join("pooled")).unwrap(), "whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_job_is_ended_like_any_other() {
    let bed = Bed::new();
    let order = bed.order("sleep 1000 & sleep 1000", |plan| {
        let fetched = Fetched {
            parameter: "mesh".to_owned(),
            peer: String::new(),
            bytes: 5,
            cached: false,
            placed: PlacementMethod::Link.name().to_owned(),
            at: "fetched/1/0".to_owned(),
        };
        let content = InputContent::Fetched(fetched);
        plan.inputs = vec![InputFile { path: "mesh".to_owned(), content }];
    });
    let place = order.directory.join("fetched/1");
    fs::create_dir_all(&place).unwrap();
    fs::hard_link(pooled(&bed), place.join("0")).unwrap();
    let handle = bed.start(&order).await;
    bed.executor.cancel(&handle).await;
    let ending = fishplate_jobs::executor::conformance::ended(&bed.executor, &handle).await;
    assert!(ending.cancelled);
    assert_eq!(Bed::carriers(&order), crate::bed::NOBODY);
}
