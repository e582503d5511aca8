//! Outputs by reference: adopted once, delivered before the job is done, put into a session.

use fishplate_contract::{
    Argument, CallOptions, DataRef, OutputChoice, OutputForm, Payload, SessionId, TransferState,
    Value,
};

use super::*;
use crate::executor::{ArrayBytes, Collected, Observation, Output, OutputContent, ProgramExit};
use crate::stager::fake::FakeStager;
use fishplate_programs::plan::{OutputRule, OutputSource};

const MAIL: &str = "mailto:ann@example.org";

/// An engine, and a job that wrote `mesh` (a file of four bytes), `frames` (two files by a glob),
/// `grid` (an array of two numbers) and `n` (a scalar).
struct Bed {
    engine: Engine,
    stager: Arc<FakeStager>,
    run: tokio::task::JoinHandle<()>,
    accepted: Option<AcceptedJob>,
    job: JobId,
    _fixture: Fixture,
}

fn rule(name: &str, data_type: &str, source: OutputSource) -> OutputRule {
    OutputRule {
        name: name.to_owned(),
        data_type: data_type.to_owned(),
        source,
        required: true,
        non_empty: false,
        format: None,
        media_type: String::new(),
    }
}

fn outputs() -> Vec<Output> {
    let output = |name: &str, label: Option<&str>, content| Output {
        name: name.to_owned(),
        label: label.map(str::to_owned),
        media_type: "model/x".to_owned(),
        content,
    };
    let file = |path: &str| OutputContent::File { path: path.to_owned(), len: 4 };
    let grid = OutputContent::Array {
        element: "int".to_owned(),
        shape: vec![2],
        bytes: ArrayBytes::Inline(vec![1, 0, 0, 0, 2, 0, 0, 0]),
    };
    vec![
        output("mesh", None, file("mesh.frd")),
        output("frames", Some("f/1.vtk"), file("f/1.vtk")),
        output("frames", Some("f/2.vtk"), file("f/2.vtk")),
        output("grid", None, grid),
        output("n", None, OutputContent::Text("7".to_owned())),
    ]
}

fn choice(name: &str, form: OutputForm, to: Option<&str>) -> OutputChoice {
    OutputChoice { name: name.to_owned(), form, to: to.map(str::to_owned) }
}

fn options(outputs: &[OutputChoice]) -> CallOptions {
    CallOptions { outputs: outputs.to_vec(), ..CallOptions::default() }
}

impl Bed {
    async fn new(fixture: Fixture, options: &CallOptions, hold: &[&str], fail: &[&str]) -> Self {
        let stager = Arc::new(FakeStager::default());
        hold.iter().for_each(|url| stager.hold(url));
        for url in fail {
            // What is no address is an output that has no room in the pool or the session.
            let fault = match url.contains(':') {
                true => Fault::new(FaultCode::TransferFailed, "nobody there"),
                false => Fault::new(FaultCode::QuotaExceeded, "full"),
            };
            stager.fail(url, fault);
        }
        let moves: Arc<dyn Stager> = Arc::<FakeStager>::clone(&stager);
        let engine = fixture.engine().fetched_by(moves);
        let path = |path: &str| OutputSource::Path(path.to_owned());
        let rules = vec![
            rule("mesh", "raw", path("mesh.frd")),
            rule("frames", "raw", OutputSource::Glob("f/*.vtk".to_owned())),
            rule("grid", "int[]", path("grid")),
            rule("n", "int", path("n")),
        ];
        let mut plan = Plan { outputs: rules, ..plan() };
        plan.choose(options).unwrap();
        let accepted = engine.submit(JobRequest { plan, ..work(None, 0) }).await.unwrap();
        let job = accepted.job;
        let work = engine.shared.directory(job).join("work/f");
        std::fs::create_dir_all(&work).unwrap();
        for file in ["../mesh.frd", "1.vtk", "2.vtk"] {
            std::fs::write(work.join(file), b"four").unwrap();
        }
        let ending = ProgramExit {
            exit_code: Some(0),
            collected: Some(Collected { outputs: outputs(), ..Collected::default() }),
            ..ProgramExit::default()
        };
        let ended = Observation::Ended(Box::new(ending));
        fixture.executor.script(job, vec![FakeExecutor::running(), ended]);
        let (engine, run) = run(engine);
        Self { engine, stager, run, accepted: Some(accepted), job, _fixture: fixture }
    }

    async fn end(&mut self) -> Arc<Completion> {
        self.engine.wait(self.accepted.take().unwrap()).await.unwrap()
    }

    async fn results(&self, again: &[OutputChoice]) -> Result<Vec<Argument>, Fault> {
        let owner = Principal::anonymous();
        let completion = self.engine.completion(&owner, "s", "call", self.job).await?;
        self.engine.outcome(&owner, self.job, &completion, again).await
    }

    /// What each output came as: `value`, or the URL.
    async fn shown(&self, again: &[OutputChoice]) -> Vec<String> {
        self.results(again).await.unwrap().iter().map(shown).collect()
    }

    async fn status(&self) -> fishplate_contract::JobReport {
        self.engine.status(&Principal::anonymous(), "s", self.job).await.unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn shown(argument: &Argument) -> String {
    match &argument.value {
        Value::Data(Payload::Reference(DataRef { url, .. })) => url.clone(),
        _ => "value".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_go_as_they_were_chosen_and_have_one_address_each() {
    for fixture in Fixture::each(3) {
        let reference = [
            choice("*", OutputForm::Auto, None),
            choice("mesh", OutputForm::Reference, None),
            choice("frames", OutputForm::Reference, None),
        ];
        let mut bed = Bed::new(fixture, &options(&reference), &[], &[]).await;
        assert_eq!(bed.end().await.state(), JobState::Done);
        assert_eq!(bed.stager.adoptions().len(), 0, "not before somebody asks");
        let first = bed.shown(&[]).await;
        let at = "http://here.example/data";
        let mesh = format!("{at}/1/mesh.frd");
        let frames = [format!("{at}/2/1.vtk"), format!("{at}/3/2.vtk")];
        let expected = [mesh.clone(), frames[0].clone(), frames[1].clone()];
        assert_eq!(first[..3], expected);
        assert_eq!(first[3..], ["value", "value"], "small ones go by value if it is `auto`");
        assert_eq!(bed.shown(&[]).await, first, "the same addresses as before");
        let orders = bed.stager.adoptions();
        assert_eq!(orders.len(), 6);
        assert!(orders[..3].iter().all(|order| order.earlier.is_none()));
        assert_eq!(orders[3].earlier.as_ref().unwrap().url, mesh);
        assert_eq!(orders[0].file.len, 4);
        assert_eq!(std::fs::read(&orders[0].file.path).unwrap(), b"four");
        assert_eq!(orders[0].file.media_type, "model/x");
        // Chosen again: all by value, or the array by reference too, as a file that tells its shape.
        let values = [choice("*", OutputForm::Value, None)];
        assert_eq!(bed.shown(&values).await, ["value"; 5]);
        let grid = [choice("grid", OutputForm::Reference, None)];
        assert!(bed.shown(&grid).await[3].ends_with("/grid.npy"));
        let order = bed.stager.adoptions().pop().unwrap();
        let npy = std::fs::read(&order.file.path).unwrap();
        assert!(
            npy.starts_with(fishplate_formats::array_file::npy::MAGIC)
                && npy.ends_with(&[2, 0, 0, 0])
        );
        let wrong = bed.results(&[choice("n", OutputForm::Reference, None)]).await.unwrap_err();
        assert_eq!(wrong.code, FaultCode::InvalidValue);
        let late = bed.results(&[choice("mesh", OutputForm::Value, Some(MAIL))]).await.unwrap_err();
        assert_eq!(late.code, FaultCode::NotSupported);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_delivered_before_the_job_is_done() {
    for fixture in Fixture::each(3) {
        let to = [
            choice("mesh", OutputForm::Value, Some(MAIL)),
            choice("frames", OutputForm::Value, Some("s3://b/f/")),
        ];
        let mut bed = Bed::new(fixture, &options(&to), &[MAIL], &[]).await;
        until("a delivery", async || bed.stager.deliveries().len() == 3).await;
        until("the others", async || {
            let done = |it: &&fishplate_contract::Transfer| it.state == TransferState::Done;
            bed.status().await.transfers.iter().filter(done).count() == 2
        })
        .await;
        let report = bed.status().await;
        assert_eq!(
            (report.state, report.message.as_str()),
            (JobState::Running, "sends its outputs")
        );
        let mail = &report.transfers[0];
        assert_eq!((mail.parameter.as_str(), mail.peer.as_str()), ("mesh", "mailto:"));
        assert_eq!((mail.state, mail.total), (TransferState::Running, Some(4)));
        bed.stager.let_go(MAIL);
        assert_eq!(bed.end().await.state(), JobState::Done);
        let expected = [MAIL, "s3://b/f/1.vtk", "s3://b/f/2.vtk", "value", "value"];
        assert_eq!(bed.shown(&[]).await, expected);
        assert!(bed.status().await.transfers.iter().all(|it| it.state == TransferState::Done));
        let order = bed.stager.deliveries().into_iter().find(|it| it.to == MAIL).unwrap();
        assert_eq!((order.subject.as_str(), order.file.name.as_str()), ("s: mesh", "mesh.frd"));
        assert_eq!(bed.shown(&[choice("*", OutputForm::Value, None)]).await, ["value"; 5]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_fails_fails_the_job_and_outputs_can_be_had_otherwise() {
    for fixture in Fixture::each(3) {
        let to = [choice("mesh", OutputForm::Value, Some(MAIL))];
        let mut bed = Bed::new(fixture, &options(&to), &[], &[MAIL]).await;
        let fault = bed.end().await.fault(bed.job).unwrap();
        assert_eq!(fault.code, FaultCode::TransferFailed);
        assert_eq!(fault.parameter.as_deref(), Some("mesh"));
        assert_eq!(bed.status().await.state, JobState::Failed);
        assert_eq!(bed.status().await.transfers[0].state, TransferState::Failed);
        assert_eq!(bed.results(&[]).await.unwrap_err().code, FaultCode::TransferFailed);
        let value = [choice("mesh", OutputForm::Value, None)];
        assert_eq!(bed.shown(&value).await, ["value"; 5]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_stops_a_delivery() {
    for fixture in Fixture::each(3) {
        let to = [choice("mesh", OutputForm::Value, Some(MAIL))];
        let mut bed = Bed::new(fixture, &options(&to), &[MAIL], &[]).await;
        until("a delivery", async || bed.stager.deliveries().len() == 1).await;
        let killed = bed.engine.kill(&Principal::anonymous(), "s", bed.job).await.unwrap();
        assert_eq!(killed.0, JobState::Killed);
        assert_eq!(bed.end().await.fault(bed.job).unwrap().code, FaultCode::JobKilled);
        until("its stop", async || bed.stager.stopped() == [MAIL]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_session_outputs_stay_there_under_their_names() {
    for fixture in Fixture::each(3) {
        let session = SessionId::from_bytes([5; 16]);
        let chosen = CallOptions {
            session: Some(session),
            ..options(&[choice("grid", OutputForm::Value, None)])
        };
        let mut bed = Bed::new(fixture, &chosen, &[], &[]).await;
        assert_eq!(bed.end().await.state(), JobState::Done);
        let orders = bed.stager.adoptions();
        assert!(orders.iter().all(|order| order.session == Some(session)));
        let mut names: Vec<String> = orders.iter().map(|it| it.file.name.clone()).collect();
        names.sort();
        assert_eq!(names, ["frames-f_1.vtk", "frames-f_2.vtk", "mesh"]);
        let shown = bed.shown(&[]).await;
        assert!(shown[0].contains("/session/") && shown[0].ends_with("/mesh"), "{shown:?}");
        assert_eq!(shown[3..], ["value", "value"]);
        assert_eq!(bed.stager.adoptions().len(), 3, "they are there already");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_session_fails_the_job() {
    for fixture in Fixture::each(3) {
        let session = Some(SessionId::from_bytes([5; 16]));
        let chosen = CallOptions { session, ..CallOptions::default() };
        let mut bed = Bed::new(fixture, &chosen, &[], &["mesh"]).await;
        let end = bed.end().await;
        let fault = end.fault(bed.job).unwrap();
        assert_eq!(
            (fault.code, fault.parameter.as_deref()),
            (FaultCode::QuotaExceeded, Some("mesh"))
        );
        assert!(end.unsent);
        let insisted = [choice("mesh", OutputForm::Reference, None)];
        assert_eq!(bed.results(&insisted).await.unwrap_err().code, FaultCode::QuotaExceeded);
        for (name, form) in
            [("mesh", OutputForm::Value), ("mesh", OutputForm::Auto), ("n", OutputForm::Value)]
        {
            let shown = bed.shown(&[choice(name, form, None)]).await;
            assert_eq!(shown[0], "value", "{name} {form:?}");
            assert!(shown[3].contains("/session/"), "{shown:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_may_choose_goes_by_value_where_there_is_no_room() {
    for mut fixture in Fixture::each(4) {
        let session = Some(SessionId::from_bytes([5; 16]));
        let auto = options(&[choice("mesh", OutputForm::Auto, None)]);
        fixture.reference_size = 0;
        let in_session = CallOptions { session, ..auto };
        let mut bed = Bed::new(fixture, &in_session, &[], &["mesh"]).await;
        assert_eq!(bed.end().await.state(), JobState::Done);
        let shown = bed.shown(&[]).await;
        assert_eq!(shown[0], "value");
        assert!(shown[1].contains("/session/"), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_keeps_nobody_from_the_outputs_by_value() {
    for fixture in Fixture::each(3) {
        let reference = options(&[choice("mesh", OutputForm::Reference, None)]);
        let mut bed = Bed::new(fixture, &reference, &[], &["mesh.frd"]).await;
        assert_eq!(bed.end().await.state(), JobState::Done);
        assert_eq!(bed.results(&[]).await.unwrap_err().code, FaultCode::QuotaExceeded);
        assert_eq!(bed.shown(&[choice("mesh", OutputForm::Value, None)]).await, ["value"; 5]);
        assert_eq!(bed.shown(&[choice("grid", OutputForm::Value, None)]).await, ["value"; 5]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_while_it_sends_is_replaced_and_sends_nothing_twice() {
    for fixture in Fixture::each(3) {
        let to = [
            choice("mesh", OutputForm::Value, Some(MAIL)),
            choice("frames", OutputForm::Value, Some("s3://b/f/")),
        ];
        let bed = Bed::new(fixture, &options(&to), &[MAIL], &[]).await;
        let done = |it: &&fishplate_contract::Transfer| it.state == TransferState::Done;
        until("two of three", async || {
            bed.status().await.transfers.iter().filter(done).count() == 2
        })
        .await;
        bed.run.abort();
        let again = Arc::new(FakeStager::default());
        let moves: Arc<dyn Stager> = Arc::<FakeStager>::clone(&again);
        let (second, run) = run(bed._fixture.engine().fetched_by(moves));
        until("the end", async || state(&second, bed.job).is_final()).await;
        assert_eq!(state(&second, bed.job), JobState::Done);
        let sent: Vec<String> = again.deliveries().into_iter().map(|order| order.to).collect();
        assert_eq!(sent, [MAIL]);
        run.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_can_never_be_is_refused_before_anything_runs() {
    for fixture in Fixture::each(3) {
        let stager = Arc::new(FakeStager::default());
        let forbidden = Fault::new(FaultCode::AddressForbidden, "no scheme of this server");
        stager.refuse("gopher://a.example/x", forbidden.clone());
        stager.refuse("gopher://a.example/all/output", forbidden);
        let moves: Arc<dyn Stager> = Arc::<FakeStager>::clone(&stager);
        let engine = fixture.engine().fetched_by(moves);
        let path = OutputSource::Path("mesh.frd".to_owned());
        for (name, to) in [("mesh", "gopher://a.example/x"), ("*", "gopher://a.example/all/")] {
            let mut plan = Plan { outputs: vec![rule("mesh", "raw", path.clone())], ..plan() };
            plan.choose(&options(&[choice(name, OutputForm::Auto, Some(to))])).unwrap();
            let fault = engine.submit(JobRequest { plan: plan.clone(), ..work(None, 0) }).await;
            let fault = fault.unwrap_err();
            assert_eq!(fault.code, FaultCode::AddressForbidden);
            assert_eq!(fault.parameter.as_deref(), Some(name));
            let alone = fixture.engine().submit(JobRequest { plan, ..work(None, 0) }).await;
            assert_eq!(alone.unwrap_err().code, FaultCode::NotSupported, "nobody moves anything");
        }
        let jobs = std::fs::read_dir(engine.settings().data.join("jobs")).unwrap();
        assert_eq!(jobs.count(), 0);
    }
}
