//! Nothing is done for a caller whom the authoriser refuses, whatever the verb and the service.

use std::sync::{Arc, Mutex};

use fishplate_contract::{Argument, CallOptions, Fault, FaultCode, Principal, SystemClock, Verb};
use fishplate_jobs::descriptor::{self, SourceText};
use fishplate_jobs::engine::{self, Engine};
use fishplate_jobs::executor::fake::FakeExecutor;
use fishplate_jobs::function::builtin;
use fishplate_jobs::store::memory::MemoryStore;

use super::authorise::{Access, Authoriser};
use super::perform::perform;
use super::request::Request;
use crate::assembly;
use crate::host::{Host, PublicAddress};
use crate::memory::MemoryReservation;
use crate::settings::Limits;

/// Who, of which service and operation, wanted what.
type Asked = (Principal, String, String, Verb);

/// Refuses everybody and notes what they wanted.
#[derive(Debug, Default)]
struct Nobody(Arc<Mutex<Vec<Asked>>>);

const REFUSAL: &str = "nobody may";

impl Authoriser for Nobody {
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault> {
        let Access { principal, service, operation, verb } = *access;
        let asked = (principal.clone(), service.to_owned(), operation.to_owned(), verb);
        self.0.lock().unwrap().push(asked);
        Err(Fault::new(FaultCode::NotSupported, REFUSAL))
    }
}

/// A host with a provider of every kind.
fn host(data: &std::path::Path, authoriser: Nobody) -> Host {
    let limits = Limits::new(data.to_owned(), "http://localhost");
    let engine = Engine::new(
        engine::Settings::new(data.to_owned()),
        Arc::new(MemoryStore::default()),
        Arc::new(FakeExecutor::new(1)),
        Arc::new(SystemClock),
    );
    let text = "name = 'program'\ncommand = '/bin/true [in val n:int]'\n".to_owned();
    let checked = descriptor::check_text(&SourceText { name: "program".to_owned(), text }, data);
    let host = assembly::host(
        limits.clone(),
        PublicAddress::Below,
        engine.unwrap(),
        assembly::data(&limits).unwrap(),
        vec![checked.description.unwrap()],
        vec![builtin::named("matrix").unwrap()],
    );
    Arc::into_inner(host.unwrap()).unwrap().authorised_by(Box::new(authoriser))
}

#[tokio::test]
async fn every_verb_of_every_service_passes_the_authoriser_first() {
    let data = tempfile::tempdir().unwrap();
    let authoriser = Nobody::default();
    let noted = Arc::clone(&authoriser.0);
    let host = host(data.path(), authoriser);
    let names: Vec<&str> = host.services().map(|entry| entry.service().name.as_str()).collect();
    assert_eq!(names, ["matrix", "program", "session"]);
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
            assert_eq!(asked, (ada.clone(), service, operation, definition.verb), "{name:?}");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
    assert_eq!(std::fs::read_dir(data.path().join("jobs")).map_or(0, Iterator::count), 0);
}
