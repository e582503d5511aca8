//! Nothing is done for a caller whom the authoriser refuses, whatever the verb, the service and the address.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fishplate_contract::{
    Argument, CallOptions, DataRef, Fault, FaultCode, JobState, OutputChoice, OutputForm, Payload,
    Principal, SystemClock, Timestamp, Value, Verb,
};
use fishplate_jobs::engine::{self, Engine};
use fishplate_jobs::executor::fake::FakeExecutor;
use fishplate_jobs::function::builtin;
use fishplate_jobs::store::memory::MemoryStore;
use fishplate_jobs::store::{Store, Transaction, UsageRecord};
use fishplate_programs::descriptor::{self, SourceText};
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::{Credential, DomainId};
use http_body_util::{BodyExt as _, Full};
use hyper::Request as HttpRequest;

use super::authorise::{Access, Action, AllowAll, Authoriser};
use super::perform::perform;
use super::request::{Reply, Request};
use crate::assembly;
use crate::cgi::{self, CgiVariables};
use crate::domains::{NewRank, Presence};
use crate::host::{Host, PublicAddress};
use crate::http::respond;
use crate::memory::MemoryReservation;
use crate::settings::Limits;

/// Who, of which service and operation, wanted what.
type CheckedAccess = (Principal, String, String, Action);

/// Refuses all but some actions, and notes what was wanted.
#[derive(Debug, Default)]
struct Refusing {
    asked: Arc<Mutex<Vec<CheckedAccess>>>,
    but: Vec<Action>,
}

const REFUSAL: &str = "nobody may";

impl Authoriser for Refusing {
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault> {
        let Access { principal, service, operation, action } = *access;
        let asked = (principal.clone(), service.to_owned(), operation.to_owned(), action);
        self.asked.lock().unwrap().push(asked);
        if self.but.contains(&action) {
            return Ok(());
        }
        Err(Fault::new(FaultCode::Forbidden, REFUSAL))
    }
}

/// A host with a provider of every kind.
fn host(data: &std::path::Path, authoriser: Refusing) -> Host {
    host_on(Arc::new(MemoryStore::default()), data, authoriser)
}

fn host_on(store: Arc<dyn Store>, data: &std::path::Path, authoriser: Refusing) -> Host {
    host_at(PublicAddress::Below, store, data, authoriser)
}

fn host_at(
    place: PublicAddress,
    store: Arc<dyn Store>,
    data: &std::path::Path,
    authoriser: Refusing,
) -> Host {
    let limits = Limits::new(data.to_owned(), "http://localhost");
    let engine = Engine::new(
        engine::Settings::new(data.to_owned()),
        store,
        Arc::new(FakeExecutor::new(1)),
        Arc::new(SystemClock),
    );
    let text = "name = 'program'\ncommand = '/bin/true [in val n:int]'\n[ranks]\nmax = 2\n";
    let text = text.to_owned();
    let checked = descriptor::check_text(&SourceText { name: "program".to_owned(), text }, data);
    let host = assembly::host(
        limits.clone(),
        place,
        engine.unwrap(),
        assembly::data(&limits).unwrap(),
        vec![checked.description.unwrap()],
        vec![builtin::named("matrix").unwrap()],
    );
    Arc::into_inner(host.unwrap()).unwrap().authorised_by(Arc::new(authoriser))
}

#[tokio::test]
async fn every_verb_of_every_service_passes_the_authoriser_first() {
    let data = tempfile::tempdir().unwrap();
    let authoriser = Refusing::default();
    let noted = Arc::clone(&authoriser.asked);
    let host = host(data.path(), authoriser);
    let names: Vec<&str> = host.services().map(|entry| entry.service().name.as_str()).collect();
    assert_eq!(names, ["domain", "matrix", "program", "session"]);
    let ada = Principal::named("ada");
    let mut count = 0;
    for service in host.services() {
        for definition in &service.interface.verbs {
            let request = Request {
                service,
                definition,
                // What is wrong with them is nobody's business who may not ask.
                arguments: vec![Argument::text("job", "none"), Argument::text("none", "none")],
                options: CallOptions { key: Some(String::new()), ..CallOptions::default() },
                principal: ada.clone(),
            };
            let answer = perform(&host, request, &mut MemoryReservation::default()).await;
            let name = (&service.service().name, &definition.name);
            assert_eq!(answer.map(|_| ()).unwrap_err().message, REFUSAL, "{name:?}");
            let asked = noted.lock().unwrap().pop().unwrap();
            let (service, operation) =
                (service.service().name.clone(), definition.operation.clone());
            let action = Action::Verb(definition.verb);
            assert_eq!(asked, (ada.clone(), service, operation, action), "{name:?}");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
    assert_eq!(std::fs::read_dir(data.path().join("jobs")).map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn what_a_call_fetches_and_delivers_passes_the_authoriser_too() {
    let reference = |url: &str| Value::Data(Payload::Reference(DataRef::new(url)));
    let elsewhere = Argument::new("n", reference("http://elsewhere.example/n"));
    let to = OutputChoice {
        name: OutputChoice::ALL.to_owned(),
        form: OutputForm::Reference,
        to: Some("mailto:ada@example.org".to_owned()),
    };
    for (argument, outputs, wanted) in [
        (elsewhere, vec![], Some(Action::Fetch)),
        (Argument::text("n", "1"), vec![to], Some(Action::Deliver)),
        (Argument::new("n", reference("session:n")), vec![], None),
        (Argument::new("n", reference("http://localhost/data/token/n")), vec![], None),
        (Argument::new("n", reference("http://localhost.example/n")), vec![], Some(Action::Fetch)),
    ] {
        let data = tempfile::tempdir().unwrap();
        let authoriser = Refusing { but: vec![Action::Verb(Verb::Spawn)], ..Refusing::default() };
        let noted = Arc::clone(&authoriser.asked);
        let host = host(data.path(), authoriser);
        let service = host.service("program").unwrap();
        let mut verbs = service.interface.verbs.iter();
        let request = Request {
            service,
            definition: verbs.find(|definition| definition.verb == Verb::Spawn).unwrap(),
            arguments: vec![argument],
            options: CallOptions { outputs, ..CallOptions::default() },
            principal: Principal::named("ada"),
        };
        let answer = perform(&host, request, &mut MemoryReservation::default()).await;
        let refused = answer.err().is_some_and(|fault| fault.message == REFUSAL);
        let asked = noted.lock().unwrap().iter().skip(1).map(|it| it.3).next();
        assert_eq!((refused, asked), (wanted.is_some(), wanted));
    }
}

fn only_rank() -> NewRank {
    NewRank {
        domain: DomainId::from_bytes([1; 16]),
        rank: 0,
        ranks: 1,
        credential: Credential::from_bytes([2; 32]),
        transport: TransportKind::Tcp,
        addresses: Vec::new(),
    }
}

async fn ask_domain(
    host: &Host,
    domain: DomainId,
    operation: &str,
    principal: &Principal,
) -> Result<Reply, Fault> {
    let service = host.service("domain").unwrap();
    let definition = service.interface.verbs.iter().find(|it| it.name == operation).unwrap();
    let domain = domain.to_string();
    let given = [("domain", &*domain), ("service", "program"), ("ranks", "1"), ("addresses", "a")];
    let takes = |name| definition.signature.inputs.iter().any(|input| input.name == name);
    let given = given.into_iter().filter(|(name, _)| takes(*name));
    let request = Request {
        service,
        definition,
        arguments: given.map(|(name, text)| Argument::text(name, text)).collect(),
        options: CallOptions::default(),
        principal: principal.clone(),
    };
    perform(host, request, &mut MemoryReservation::default()).await
}

#[tokio::test]
async fn a_credential_for_one_service_is_good_for_domains_of_that_service_only() {
    let data = tempfile::tempdir().unwrap();
    let host = host(data.path(), Refusing { but: Action::all().collect(), ..Refusing::default() });
    let ada = Principal::named("ada");
    let (heat, program) = (
        ada.clone().limited_to(&["heat".to_owned()]),
        ada.clone().limited_to(&["program".to_owned()]),
    );
    let rank = only_rank();
    host.domains.open(rank.domain, &ada).unwrap();
    let job = fishplate_contract::JobId::from_bytes([3; 16]);
    host.domains.enter(&rank, &ada, ("program", job)).await.unwrap();
    for operation in ["reserve", "members", "state", "connect", "end"] {
        let of_heat = ask_domain(&host, rank.domain, operation, &heat).await.map(drop).unwrap_err();
        assert_eq!(of_heat.code, FaultCode::Forbidden, "{operation}: {of_heat}");
        assert!(of_heat.message.contains("good for heat only"), "{of_heat}");
        let of_program = ask_domain(&host, rank.domain, operation, &program).await;
        let is_let_in = of_program.map_or_else(|it| it.code != FaultCode::Forbidden, |_| true);
        assert!(is_let_in, "{operation}");
    }
    assert!(host.domains.members(rank.domain, &ada).is_err(), "it was ended");
}

#[tokio::test]
async fn a_domain_whose_ranks_go_on_from_before_stays_its_owners_until_it_is_ended() {
    let data = tempfile::tempdir().unwrap();
    let host = host(data.path(), Refusing { but: Action::all().collect(), ..Refusing::default() });
    let (ada, bob) = (Principal::named("ada"), Principal::named("bob"));
    let service = host.service("program").unwrap();
    let mut verbs = service.interface.verbs.iter();
    let request = Request {
        service,
        definition: verbs.find(|definition| definition.verb == Verb::Spawn).unwrap(),
        arguments: vec![Argument::text("n", "1")],
        options: CallOptions::default(),
        principal: ada.clone(),
    };
    let spawned = perform(&host, request, &mut MemoryReservation::default()).await.unwrap();
    let Reply::Spawned(job) = spawned else { panic!("it was spawned") };
    let job = job.id;
    let unknown = fishplate_contract::JobId::from_bytes([3; 16]);
    // What a server before has left; the first job of the second domain is not known any more.
    let (here, gone) = (only_rank().domain, DomainId::from_bytes([9; 16]));
    let path =
        |domain: DomainId, rank| data.path().join(format!("domains/locations/{domain}/{rank}"));
    for (domain, rank, job) in [(here, 0, job), (here, 1, unknown), (gone, 0, unknown)] {
        let path = path(domain, rank);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!("127.0.0.1:4000 {job} {}\n", only_rank().credential.reveal());
        std::fs::write(path, text).unwrap();
    }
    let find = async |rank| {
        let found = host.domains.locate(here, rank).unwrap();
        found.find(&host.engine).await.unwrap()
    };
    let at = Presence::At("127.0.0.1:4000".parse().unwrap());
    assert_eq!((find(0).await, find(1).await), (at, Presence::Absent));
    let refused = ask_domain(&host, here, "reserve", &bob).await.map(drop).unwrap_err();
    assert!(refused.message.contains("no domain"), "{refused}");
    let left = [path(here, 0), path(here, 1), path(gone, 0)].map(|path| path.exists());
    assert_eq!(left, [true, false, false], "those that have ended are forgotten");
    ask_domain(&host, here, "end", &bob).await.unwrap();
    host.domains.check(here, &ada, &host.engine).await.unwrap();
    host.domains.open(here, &ada).unwrap();
    host.domains
        .enter(&NewRank { rank: 1, ..only_rank() }, &ada, ("program", unknown))
        .await
        .unwrap();
    assert_eq!((find(0).await, find(1).await), (at, Presence::Absent));
    ask_domain(&host, here, "end", &ada).await.unwrap();
    assert!(host.domains.locate(here, 0).is_none());
    assert!(!path(here, 0).exists());
}

#[tokio::test]
async fn what_is_asked_about_a_domain_passes_the_authoriser_of_the_service_too() {
    let data = tempfile::tempdir().unwrap();
    let authoriser = Refusing { but: vec![Action::Verb(Verb::Call)], ..Refusing::default() };
    let noted = Arc::clone(&authoriser.asked);
    let host = host(data.path(), authoriser);
    let (ada, bob) = (Principal::named("ada"), Principal::named("bob"));
    let rank = only_rank();
    let ask = async |operation: &str, principal: &Principal| {
        ask_domain(&host, rank.domain, operation, principal).await
    };
    let last = || noted.lock().unwrap().pop().map(|it| (it.0, it.1, it.3));
    assert_eq!(ask("reserve", &ada).await.unwrap_err().message, REFUSAL);
    let program = "program".to_owned();
    assert_eq!(last(), Some((ada.clone(), program.clone(), Action::Verb(Verb::Init))));
    host.domains.open(rank.domain, &ada).unwrap();
    let job = fishplate_contract::JobId::from_bytes([3; 16]);
    host.domains.enter(&rank, &ada, ("program", job)).await.unwrap();
    assert_eq!(ask("end", &ada).await.unwrap_err().message, REFUSAL);
    assert_eq!(last(), Some((ada.clone(), program, Action::Verb(Verb::Kill))));
    // Of somebody else's nothing is told, and nothing ends.
    assert!(ask("members", &bob).await.unwrap_err().message.contains("no domain"));
    assert!(ask("connect", &bob).await.is_err());
    ask("end", &bob).await.unwrap();
    assert_eq!(host.domains.members(rank.domain, &ada).unwrap().len(), 1);
}

/// A method, a path, and what that is to the authoriser.
type Address = (&'static str, &'static str, Option<(&'static str, Action)>);

/// Every address, with each method that means something there.
const ADDRESSES: [Address; 55] = [
    // They have no rule of their own: what the caller may know of, and what the caller may have.
    ("GET", "/", None),
    ("GET", "/quota", None),
    ("GET", "/mcp", None),
    ("GET", "/ogc", None),
    ("GET", "/ogc/conformance", None),
    ("GET", "/ogc/openapi.json", None),
    ("GET", "/ogc/processes", None),
    ("GET", "/ogc/jobs", None),
    ("GET", "/ogc/jobs/00000000000000000000000000000000", None),
    ("DELETE", "/ogc/jobs/00000000000000000000000000000000", None),
    ("GET", "/ogc/jobs/00000000000000000000000000000000/results/n", None),
    ("GET", "/ogc/jobs/00000000000000000000000000000000/events", None),
    ("POST", "/ogc/jobs/00000000000000000000000000000000/kill", None),
    ("POST", "/ogc/jobs/00000000000000000000000000000000/remove", None),
    ("GET", "/ogc/processes/program", Some(("program", Action::Describe))),
    ("GET", "/ogc/processes/matrix:echo", Some(("matrix", Action::Describe))),
    ("POST", "/ogc/processes/program/execution", Some(("program", Action::Describe))),
    ("POST", "/ogc/processes/nothing/execution", Some(("nothing", Action::Describe))),
    ("GET", "/ogc/processes/session:open", Some(("session", Action::Describe))),
    ("GET", "/metrics", Some(("metrics", Action::Read))),
    ("POST", "/metrics", Some(("metrics", Action::Read))),
    ("GET", "/program", Some(("program", Action::Describe))),
    ("HEAD", "/program", Some(("program", Action::Describe))),
    ("GET", "/program?wsdl", Some(("program", Action::Describe))),
    ("GET", "/program/", Some(("program", Action::Describe))),
    ("POST", "/program", Some(("program", Action::Describe))),
    ("DELETE", "/program", Some(("program", Action::Describe))),
    ("GET", "/matrix", Some(("matrix", Action::Describe))),
    ("POST", "/matrix", Some(("matrix", Action::Describe))),
    ("GET", "/session", Some(("session", Action::Describe))),
    ("POST", "/session", Some(("session", Action::Describe))),
    ("GET", "/domain", Some(("domain", Action::Describe))),
    ("POST", "/domain", Some(("domain", Action::Describe))),
    ("GET", "/nothing", Some(("nothing", Action::Describe))),
    ("POST", "/nothing", Some(("nothing", Action::Describe))),
    ("PUT", "/nothing", Some(("nothing", Action::Describe))),
    ("PUT", "/data/file", Some(("data", Action::Upload))),
    ("POST", "/data/", Some(("data", Action::Upload))),
    ("GET", "/data/", Some(("data", Action::Upload))),
    ("OPTIONS", "/data/", Some(("data", Action::Upload))),
    ("PATCH", "/data/uploads/00", Some(("data", Action::Upload))),
    ("HEAD", "/data/uploads/00", Some(("data", Action::Upload))),
    ("GET", "/data/token/file", Some(("data", Action::Read))),
    ("DELETE", "/data/token/file", Some(("data", Action::Revoke))),
    ("GET", "/session/token/file", Some(("session", Action::Read))),
    ("PUT", "/session/token/file", Some(("session", Action::Describe))),
    ("GET", "/domains/00000000000000000000000000000000/0?wsdl", Some(("domains", Action::Pass))),
    ("POST", "/domains/00000000000000000000000000000000/0", Some(("domains", Action::Pass))),
    ("GET", "/sites/berlin", Some(("sites", Action::Pass))),
    ("POST", "/sites/berlin/program", Some(("sites", Action::Pass))),
    ("GET", "/sites", Some(("sites", Action::Describe))),
    (
        "GET",
        "/domains/00000000000000000000000000000000",
        Some(("domain", Action::Verb(Verb::Call))),
    ),
    (
        "POST",
        "/domains/00000000000000000000000000000000",
        Some(("domain", Action::Verb(Verb::Call))),
    ),
    ("GET", "/domains/live.js", Some(("domains/live.js", Action::Describe))),
    ("POST", "/domains/nothing", Some(("domains/nothing", Action::Describe))),
];

#[tokio::test]
async fn every_address_passes_the_authoriser_first_and_tells_nothing_of_what_is_there() {
    let data = tempfile::tempdir().unwrap();
    let authoriser = Refusing::default();
    let noted = Arc::clone(&authoriser.asked);
    let host = Arc::new(host(data.path(), authoriser));
    let ada = Principal::named("ada");
    for (method, path, access) in ADDRESSES {
        let request = HttpRequest::builder().method(method).uri(path);
        let request = request.header("accept", "application/json").header("host", "localhost");
        let request = request.body(Full::new(Bytes::new()));
        let reply = respond(&host, request.unwrap(), ada.clone()).await;
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body);
        let asked = std::mem::take(&mut *noted.lock().unwrap());
        let Some((service, action)) = access else {
            if path.starts_with("/ogc") {
                // Of what the caller may know nothing of, nothing is told; and there is no job.
                let is_job = path.contains("/jobs/");
                assert_eq!(status, if is_job { 404 } else { 200 }, "{method} {path}: {text}");
                let names = ["processes/program", "\"program\"", "matrix"];
                assert!(!names.iter().any(|name| text.contains(name)), "{method} {path}: {text}");
                let list = asked
                    .iter()
                    .all(|it| matches!(it.3, Action::Describe | Action::Verb(Verb::Jobs)));
                assert!(list, "{method} {path}: {asked:?}");
                continue;
            }
            if path == "/mcp" {
                assert_eq!((status, asked.len()), (405, 0), "{text}");
                continue;
            }
            let own = text.starts_with("{\"days\":30,") && text.contains("\"user\":\"ada\"");
            let (told, count) = match path {
                "/quota" => (own, 0),
                _ => (text == "{\"services\":[]}", host.services().count()),
            };
            assert_eq!((status, told, asked.len()), (200, true, count), "{text}");
            continue;
        };
        let told = (ada.clone(), service.to_owned(), String::new(), action);
        assert_eq!(asked, [told], "{method} {path}");
        assert_eq!(status, 403, "{method} {path}: {text}");
        for service in host.services() {
            assert!(!text.contains(&service.service().namespace), "{method} {path}: {text}");
        }
        // A script's requests come the same way.
        let variables = [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_METHOD", method),
            ("SERVER_NAME", "localhost"),
            ("SCRIPT_NAME", ""),
            ("PATH_INFO", path.split('?').next().unwrap()),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let mut output = Vec::new();
        let variables = CgiVariables::new(variables);
        cgi::answer(&host, "program", &variables, std::io::empty(), &mut output).await.unwrap();
        assert!(output.starts_with(b"Status: 403 "), "{method} {path}");
        noted.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn what_is_asked_in_json_passes_the_authoriser_as_on_every_face() {
    let data = tempfile::tempdir().unwrap();
    // One job, by who may call and spawn and nothing else.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let but = vec![Action::Describe, Action::Verb(Verb::Spawn)];
    let authoriser = Refusing { but, ..Refusing::default() };
    let noted = Arc::clone(&authoriser.asked);
    let host = Arc::new(host_on(store, data.path(), authoriser));
    let ask = async |method: &str, path: &str, prefer: &str, body: &'static str| {
        let request = HttpRequest::builder().method(method).uri(path).header("prefer", prefer);
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
        let reply = respond(&host, request, Principal::named("ada")).await;
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
    };
    let run = "/ogc/processes/program/execution";
    let inputs = r#"{"inputs": {"n": 1}}"#;
    let told = r#"{"inputs": {"n": 1}, "subscriber": {"successUri": "http://elsewhere.example/"}}"#;
    let (status, told_of) = ask("POST", run, "respond-async", inputs).await;
    assert_eq!(status, 201, "{told_of}");
    let job = format!("/ogc/jobs/{}", told_of["jobID"].as_str().unwrap());
    let last = || {
        let mut asked = noted.lock().unwrap();
        let last = asked.last().map(|it| (it.1.clone(), it.2.clone(), it.3));
        asked.clear();
        last
    };
    for (method, path, body, operation, action) in [
        ("POST", run, inputs, "call", Action::Verb(Verb::Call)),
        ("POST", run, told, "call", Action::Deliver),
        ("GET", &*job, "", "", Action::Verb(Verb::Status)),
        ("DELETE", &*job, "", "", Action::Verb(Verb::Kill)),
        ("GET", &*format!("{job}/log"), "", "", Action::Verb(Verb::Log)),
        ("GET", &*format!("{job}/results"), "", "call", Action::Verb(Verb::Results)),
    ] {
        last();
        let (status, problem) = ask(method, path, "", body).await;
        assert_eq!((status, &problem["detail"]), (403, &REFUSAL.into()), "{method} {path}");
        assert_eq!(last(), Some(("program".to_owned(), operation.to_owned(), action)), "{path}");
    }
    let (status, jobs) = ask("GET", "/ogc/jobs", "", "").await;
    assert_eq!(
        (status, &jobs["jobs"]),
        (200, &serde_json::json!([])),
        "who may not list them sees none"
    );
}

#[tokio::test]
async fn nobody_is_a_site_unless_that_was_said() {
    let data = tempfile::tempdir().unwrap();
    let authoriser = Refusing::default();
    let noted = Arc::clone(&authoriser.asked);
    let host = Arc::new(host(data.path(), authoriser));
    let request = || {
        let request =
            HttpRequest::builder().uri("/sites/berlin").header("upgrade", "fishplate-site");
        request.header("connection", "upgrade").body(Full::<Bytes>::default()).unwrap()
    };
    let ada = Principal::named("ada");
    let reply = respond(&host, request(), ada.clone()).await;
    assert_eq!(reply.status().as_u16(), 403);
    let told = (ada.clone(), "sites".to_owned(), "berlin".to_owned(), Action::Register);
    assert_eq!(*noted.lock().unwrap(), [told]);
    // Nor where there is no policy.
    let host = Arc::into_inner(host).unwrap().authorised_by(Arc::new(AllowAll));
    let reply = respond(&Arc::new(host), request(), ada).await;
    assert_eq!(reply.status().as_u16(), 403);
}

#[tokio::test]
async fn refusals_of_scripts_are_one_line_with_their_address() {
    let data = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let store = Arc::new(MemoryStore::default());
        let host = host_at(PublicAddress::At, store, data.path(), Refusing::default());
        let variables = [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("REQUEST_METHOD", "GET"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("SERVER_NAME", "localhost"),
            ("SCRIPT_NAME", ""),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let (variables, mut output) = (CgiVariables::new(variables), Vec::new());
        let host = Arc::new(host);
        cgi::answer(&host, "program", &variables, std::io::empty(), &mut output).await.unwrap();
        assert!(output.starts_with(b"Status: 403 "));
    }
    let log = std::fs::read_to_string(data.path().join("audit.log")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("\"address\":\"192.0.2.7\""), "{log}");
}

#[tokio::test]
async fn what_was_used_is_written_when_the_web_server_hangs_up() {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryStore::default());
    let host = Arc::new(host_on(Arc::clone(&store) as _, data.path(), Refusing::default()));
    let (ada, what) = (Principal::named("ada"), ("data", "upload"));
    let took = Duration::ZERO;
    let used = UsageRecord::without_job(ada, what, JobState::Done, took, Timestamp(1));
    host.engine.account(used.clone());
    let variables = [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REQUEST_METHOD", "GET"),
        ("SERVER_NAME", "localhost"),
        ("SCRIPT_NAME", ""),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let (variables, mut full) = (CgiVariables::new(variables), &mut [][..]);
    cgi::answer(&host, "program", &variables, std::io::empty(), &mut full).await.unwrap_err();
    let mut found = Vec::new();
    let read = &mut |t: &mut dyn Transaction| {
        found = t.usage(Timestamp(0), Timestamp(2))?;
        Ok(())
    };
    store.read(read).unwrap();
    assert_eq!(found, [used]);
}
