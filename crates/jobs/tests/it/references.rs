//! The whole way: data at addresses into a workspace, a real program, and its outputs to addresses
//! that the next job takes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, CallOptions, DataRef, JobReport, JobState, OutputChoice, OutputForm, Payload,
    PlacementMethod, Principal, SessionId, SystemClock, Value,
};
use fishplate_contract::{Fault, FaultCode, FileHandle as _};
use fishplate_data::pool::PoolSettings;
use fishplate_data::session::SessionSettings;
use fishplate_data::{
    GrantRequest, PlacementPurpose, Pool, Progress, RegistrationMode, Sessions, place,
};
use fishplate_formats::archive;
use fishplate_jobs::engine::{Engine, JobRequest, RunMode, Settings};
use fishplate_jobs::executor::BoxFuture;
use fishplate_jobs::stager::{DeliverOrder, FetchOrder, RegisterOrder, RegisteredOutput, Stager};
use fishplate_jobs::store::sqlite::SqliteStore;
use fishplate_programs::plan::{
    FetchedForm, InputContent, InputFile, OutputRule, OutputSource, ReferencedInput,
};

use crate::bed::Bed;

const MESH: usize = 2 << 20;

/// Brings what a pool and its sessions have, and nothing from elsewhere.
struct Near {
    pool: Pool,
    sessions: Sessions,
}

const ORIGIN: &str = "http://here.example";

impl Near {
    fn bring(&self, order: &FetchOrder, progress: &Progress) -> Result<PlacementMethod, Fault> {
        let url = &order.from.url;
        let session = url.strip_prefix("session:").zip(order.session);
        let held: Arc<dyn fishplate_contract::FileHandle> = match session {
            Some((name, id)) => Arc::new(self.sessions.get(&order.owner, &id, name)?),
            None => match self.pool.redeem(url)? {
                Some(granted) => Arc::new(granted.lease),
                None => return Err(Fault::new(FaultCode::NoSuchData, "there is none")),
            },
        };
        progress.set(held.len());
        let private = order.private || held.len() < order.link_size;
        let wish = if private { PlacementPurpose::Private } else { PlacementPurpose::Shared };
        place(held.path(), &order.target, wish)
            .map_err(|error| Fault::new(FaultCode::Internal, error.to_string()))
    }

    fn give(&self, order: &RegisterOrder) -> Result<RegisteredOutput, Fault> {
        let (file, owner) = (&order.file, &order.owner);
        let (url, len) = match &order.session {
            Some(session) => {
                self.sessions.put(
                    owner,
                    session,
                    &file.name,
                    &file.path,
                    RegistrationMode::Link,
                )?;
                (format!("{ORIGIN}/session/{session}/{}", file.name), file.len)
            }
            None => {
                let lease = self.pool.register(owner, &file.path, RegistrationMode::Link)?;
                let origin = ORIGIN.to_owned();
                let request = GrantRequest { origin, ..GrantRequest::default() };
                (self.pool.grant(&lease, owner, request)?.url, lease.len())
            }
        };
        let reference = DataRef { len: Some(len), ..DataRef::new(url) };
        Ok(RegisteredOutput { reference, expires: None })
    }
}

impl Stager for Near {
    fn fetch<'a>(
        &'a self,
        order: &'a FetchOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<PlacementMethod, Fault>> {
        Box::pin(async move { self.bring(order, progress) })
    }

    fn discard<'a>(&'a self, _: &'a DataRef, _: &'a Principal) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn accepts(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }

    fn deliver<'a>(
        &'a self,
        _: &'a DeliverOrder,
        _: &'a Progress,
    ) -> BoxFuture<'a, Result<DataRef, Fault>> {
        Box::pin(async { Err(Fault::new(FaultCode::TransferFailed, "nobody is there")) })
    }

    fn register<'a>(
        &'a self,
        order: &'a RegisterOrder,
    ) -> BoxFuture<'a, Result<RegisteredOutput, Fault>> {
        Box::pin(async move { self.give(order) })
    }
}

struct Site {
    pool: Pool,
    bed: Bed,
    engine: Engine,
    sessions: Sessions,
    run: tokio::task::JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Site {
    fn new() -> Self {
        let bed = Bed::new();
        let data = bed.directory.path().to_owned();
        let pool = PoolSettings::new(data.join("pool"));
        let pool = Pool::open(pool, Arc::new(SystemClock)).unwrap();
        let sessions = SessionSettings::new(data.join("sessions"));
        let sessions = Sessions::new(sessions, Arc::new(SystemClock)).unwrap();
        let stager = Near { pool: pool.clone(), sessions: sessions.clone() };
        let store = SqliteStore::open(&data.join("jobs.sqlite")).unwrap();
        let executor = Arc::new(bed.executor.clone());
        let settings = Settings { disk_reserve: 0, ..Settings::new(data) };
        let engine = Engine::new(settings, Arc::new(store), executor, Arc::new(SystemClock));
        let engine = engine.unwrap().fetched_by(Arc::new(stager));
        let run = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run(RunMode::Dropped).await }
        });
        Self { pool, bed, engine, sessions, run }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bed.directory.path().join(name)
    }

    /// The address of a file that the pool takes in.
    fn url(&self, name: &str) -> String {
        let owner = Principal::named("ann");
        let lease = self.pool.register(&owner, &self.file(name), RegistrationMode::Copy).unwrap();
        let request = GrantRequest { origin: ORIGIN.to_owned(), ..GrantRequest::default() };
        self.pool.grant(&lease, &owner, request).unwrap().url
    }

    /// Runs a script with these inputs and outputs to its end.
    async fn run(
        &self,
        script: &str,
        inputs: &[(&str, &str, FetchedForm)],
        outputs: &[(&str, &str)],
        options: &CallOptions,
    ) -> (JobReport, Result<Vec<Argument>, Fault>) {
        let order = self.bed.order(script, |plan| {
            for (name, url, arrival) in inputs {
                let fetch = ReferencedInput::new(name, &DataRef::new(*url), false, arrival.clone());
                let content = InputContent::Fetch(fetch);
                plan.inputs.push(InputFile { path: (*name).to_owned(), content });
            }
            plan.outputs = outputs
                .iter()
                .map(|(name, data_type)| OutputRule {
                    name: (*name).to_owned(),
                    data_type: (*data_type).to_owned(),
                    source: OutputSource::Path((*name).to_owned()),
                    required: true,
                    non_empty: false,
                    format: None,
                    media_type: String::new(),
                })
                .collect();
            plan.choose(options).unwrap();
        });
        let owner = Principal::anonymous();
        let work = JobRequest {
            service: "s".to_owned(),
            operation: "call".to_owned(),
            owner: owner.clone(),
            key: None,
            fingerprint: 0,
            plan: (*order.plan).clone(),
            bytes_in: 0,
            placements: Vec::new(),
            max_running: 4,
            domain: None,
        };
        let accepted = self.engine.submit(work).await.unwrap();
        let job = accepted.job;
        let ended = tokio::time::timeout(Duration::from_secs(60), self.engine.wait(accepted));
        ended.await.unwrap().unwrap();
        let report = self.engine.status(&owner, "s", job).await.unwrap();
        let completion = self.engine.completion(&owner, "s", "call", job).await.unwrap();
        (report, self.engine.outcome(&owner, job, &completion, &[]).await)
    }
}

fn reference(argument: &Argument) -> &DataRef {
    match &argument.value {
        Value::Data(Payload::Reference(reference)) => reference,
        other => panic!("{other:?}"),
    }
}

fn by_reference() -> CallOptions {
    let all = OutputChoice::ALL.to_owned();
    let all = OutputChoice { name: all, form: OutputForm::Reference, to: None };
    CallOptions { outputs: vec![all], ..CallOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_goes_from_job_to_job_and_never_through_the_caller() {
    let site = Site::new();
    fs::write(site.file("mesh"), vec![b'm'; MESH]).unwrap();
    let case = site.bed.directory.path().join("case");
    fs::create_dir_all(case.join("0")).unwrap();
    fs::write(case.join("0/U"), "velocity").unwrap();
    let packed = fs::File::create(site.file("case.tar")).unwrap();
    archive::pack(&fs::File::open(&case).unwrap(), &packed, &mut || true).unwrap();
    let (mesh, case) = (site.url("mesh"), site.url("case.tar"));
    let inputs = [
        ("mesh", mesh.as_str(), FetchedForm::File),
        ("case", case.as_str(), FetchedForm::Directory),
    ];
    let script = "(echo x > mesh) 2>/dev/null; echo 1 > case/0/p; mkdir out; cp -r case/0 out/1; \
                  head -c 1048576 mesh > half";
    let outputs = [("out", "dir"), ("half", "raw")];
    let (report, results) = site.run(script, &inputs, &outputs, &by_reference()).await;
    let results = results.unwrap();
    let placed: Vec<_> = report.transfers.iter().map(|it| it.placed.unwrap()).collect();
    assert!(matches!(placed[0], PlacementMethod::Link | PlacementMethod::Reflink), "{placed:?}");
    assert_eq!(placed[1], PlacementMethod::Copy, "it was unpacked");
    assert_eq!(report.transfers[0].peer, ORIGIN);
    let pooled = site.pool.redeem(&mesh).unwrap().unwrap();
    assert_eq!(fs::read(pooled.lease.path()).unwrap(), vec![b'm'; MESH]);
    let [out, half] = [0, 1].map(|at| reference(&results[at]));
    assert_eq!(half.len, Some(1 << 20));
    // The next job takes both; nothing was moved but names.
    let inputs = [
        ("case", out.url.as_str(), FetchedForm::Directory),
        ("half", half.url.as_str(), FetchedForm::File),
    ];
    let script = "cat case/1/U case/1/p; wc -c < half | tr -d ' '";
    let (report, results) = site
        .run(&format!("{{ {script}; }} > said"), &inputs, &[("said", "string")], &by_reference())
        .await;
    assert_eq!(report.state, JobState::Done, "{report:?}");
    let Value::Text(said) = &results.unwrap()[0].value else { panic!() };
    assert_eq!(said, "velocity1\n1048576\n");
    assert!(matches!(
        report.transfers[1].placed,
        Some(PlacementMethod::Link | PlacementMethod::Reflink)
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_a_session_share_its_files() {
    let site = Site::new();
    let session: SessionId = site.sessions.open(&Principal::anonymous(), None).unwrap().id;
    let options = CallOptions { session: Some(session), ..CallOptions::default() };
    let (report, results) = site.run("echo a mesh > mesh", &[], &[("mesh", "raw")], &options).await;
    assert_eq!(report.state, JobState::Done, "{report:?}");
    let url = format!("http://here.example/session/{session}/mesh");
    assert_eq!(reference(&results.unwrap()[0]).url, url);
    let input = [("mesh", "session:mesh", FetchedForm::File)];
    let script = "cat mesh > said; echo changed >> mesh";
    let (report, results) = site.run(script, &input, &[("said", "string")], &options).await;
    assert_eq!(report.state, JobState::Done, "{report:?}");
    let Value::Text(said) = &results.unwrap()[0].value else { panic!() };
    assert_eq!(said, "a mesh\n");
    let missing = [("mesh", "session:grid", FetchedForm::File)];
    let (report, results) = site.run("true", &missing, &[], &options).await;
    let fault = results.unwrap_err();
    assert_eq!(fault.code, FaultCode::NoSuchData, "{fault}");
    assert_eq!((fault.parameter.as_deref(), fault.job), (Some("mesh"), Some(report.id)));
}
