//! Results of equal jobs, on every store: found by what was fetched and by nothing else, given to whom the rule allows it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::references::{MESH, fetch, with_stager};
use super::*;
use crate::stager::fake::FakeStager;
use fishplate_programs::plan::FetchedForm;

const OTHER: &str = "http://c.example/grant/other";

/// A call of somebody that takes results of an equal one, with an input from there.
fn call(owner: &str, from: &str, digest: &str) -> JobRequest {
    let inputs = vec![fetch("mesh", from, FetchedForm::File)];
    let plan = Plan { inputs, reuse: Some(digest.to_owned()), ..plan() };
    JobRequest { owner: Principal::named(owner), plan, ..work(None, 0) }
}

/// Has a job run and leave an output.
async fn runs(fixture: &Fixture, engine: &Engine, call: JobRequest) -> JobId {
    let job = new_id().unwrap();
    let content = OutputContent::File { path: "deep/y".to_owned(), len: 3 };
    let output = Output { name: "y".to_owned(), label: None, media_type: String::new(), content };
    let collected = Some(Collected { outputs: vec![output], disk: 3, ..Collected::default() });
    let Observation::Ended(exit) = FakeExecutor::ended(0) else { panic!() };
    let exit = ProgramExit { collected, cpu_seconds: 7.0, ..*exit };
    fixture.executor.script(job, vec![Observation::Ended(Box::new(exit))]);
    let accepted = engine.submit_as(job, call, || ()).await.unwrap();
    assert_eq!(engine.wait(accepted).await.unwrap().state(), JobState::Done);
    let work = engine.shared.directory(job).join("work/deep");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("y"), "out").unwrap();
    job
}

/// The end of a call, and whether it ran.
async fn end(
    fixture: &Fixture,
    engine: &Engine,
    call: JobRequest,
) -> (JobId, Arc<Completion>, bool) {
    let accepted = engine.submit(call).await.unwrap();
    let job = accepted.job;
    let end = engine.wait(accepted).await.unwrap();
    assert_eq!(end.state(), JobState::Done, "{end:?}");
    (job, end, fixture.executor.starts().iter().any(|(started, _)| *started == job))
}

fn friends(engine: &Engine) {
    engine.set_reuse_rule(Some(Arc::new(|caller, service, operation, owner| {
        assert_eq!((service, operation), ("s", "call"));
        ["ada", "eve"].contains(&caller.as_str()) && owner.as_str() == "ada"
    })));
}

fn with_other(fixture: &Fixture) -> (Engine, Arc<FakeStager>) {
    let (engine, stager) = with_stager(fixture);
    stager.put(OTHER, b"a mesh");
    (engine, stager)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_have_them_has_the_same_files_and_nothing_runs() {
    for fixture in Fixture::each(3) {
        let (engine, _stager) = with_other(&fixture);
        let (engine, run) = run(engine);
        friends(&engine);
        let first = runs(&fixture, &engine, call("ada", MESH, "a")).await;
        // The same bytes at another address are the same input.
        for (owner, from) in [("eve", MESH), ("eve", OTHER), ("ada", OTHER)] {
            let (job, end, ran) = end(&fixture, &engine, call(owner, from, "a")).await;
            assert!(!ran, "{owner} {from}");
            let file = |job| engine.shared.directory(job).join("work/deep/y");
            let inode = |job| fs::metadata(file(job)).unwrap().ino();
            assert_eq!(inode(job), inode(first), "it is not copied");
            let usage = end.ending.as_ref().unwrap().usage();
            assert_eq!((usage.cpu_seconds, end.outputs().len()), (0.0, 1));
            assert!(usage.disk >= 3, "{usage:?}");
            let owner = Principal::named(owner);
            let outputs = engine.outcome(&owner, job, &end, &[]).await.unwrap();
            assert_eq!(outputs[0].value.payload().unwrap().len(), Some(3));
        }
        // They are their own: the first may go.
        let (job, ..) = end(&fixture, &engine, call("eve", MESH, "a")).await;
        engine.remove(&Principal::named("ada"), "s", first).await.unwrap();
        let file = engine.shared.directory(job).join("work/deep/y");
        assert_eq!(fs::read(file).unwrap(), b"out");
        let (_, _, ran) = end(&fixture, &engine, call("eve", MESH, "a")).await;
        assert!(ran, "what was taken over is given to nobody else");
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_and_what_is_not_equal_runs() {
    for fixture in Fixture::each(3) {
        let (engine, stager) = with_other(&fixture);
        let (engine, run) = run(engine);
        runs(&fixture, &engine, call("ada", MESH, "a")).await;
        let ran = async |call| end(&fixture, &engine, call).await.2;
        assert!(ran(call("tim", MESH, "a")).await, "nobody has said that he may");
        friends(&engine);
        assert!(ran(call("bob", MESH, "a")).await, "he may not");
        assert!(!ran(call("eve", MESH, "a")).await);
        assert!(ran(call("eve", MESH, "b")).await, "another call");
        stager.put(OTHER, b"a Mesh");
        assert!(ran(call("eve", OTHER, "a")).await, "another input");
        let plain = call("eve", MESH, "a");
        let plain = JobRequest { plan: Plan { reuse: None, ..plain.plan }, ..plain };
        assert!(ran(plain).await, "she does not want them");
        let other = call("eve", MESH, "a");
        let arguments = vec!["--more".to_owned()];
        let other = JobRequest { plan: Plan { arguments, ..other.plan }, ..other };
        assert!(ran(other).await, "another command line");
        engine.set_reuse_rule(None);
        assert!(ran(call("eve", MESH, "a")).await, "she may no longer");
        // An output that is gone is run for again.
        friends(&engine);
        let newest = runs(&fixture, &engine, call("ada", OTHER, "c")).await;
        fs::remove_file(engine.shared.directory(newest).join("work/deep/y")).unwrap();
        let (job, _, ran) = end(&fixture, &engine, call("eve", OTHER, "c")).await;
        assert!(ran && !engine.shared.directory(job).join("taken").exists());
        run.abort();
    }
}
