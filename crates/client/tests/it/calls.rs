//! Calls that go well.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use bytes::Bytes;
use fishplate_client::{
    Meter, Options, Packaging, Service, Settings, SoapVersion, file_input, save,
};
use fishplate_contract::{Argument, Payload, Value};

use crate::server::{JOB, Reaction, Server, data, echo};

async fn echoing() -> Server {
    Server::start(|_, seen| Reaction::Outputs(echo(seen))).await
}

fn x(text: &str) -> Argument {
    Argument::text("x", text)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_call_gives_the_outputs_and_the_job_behind_them_over_one_connection() {
    let server = echoing().await;
    let service = Service::connect(&server.url()).await.unwrap();
    for x_value in ["1", "2", "3"] {
        let reply = service.call("call", vec![x(x_value)], &Options::default()).await.unwrap();
        assert_eq!(reply.job.unwrap().id.to_string(), JOB);
        assert!(matches!(&reply.outputs[0].value, Value::Text(text) if text == x_value));
    }
    assert_eq!(server.connections.load(SeqCst), 1);
    let seen = server.seen.lock().unwrap();
    assert!(seen.iter().all(|seen| seen.key.is_none() && seen.packaging == Packaging::Plain));
    assert!(seen[0].soap_action.as_deref().unwrap().contains("call"));
}

#[tokio::test]
async fn services_whose_settings_are_clones_use_each_others_connections() {
    let server = echoing().await;
    let settings = Settings::default();
    for expected in [1, 1, 2] {
        // Made anew, settings share nothing.
        let settings = if expected == 1 { settings.clone() } else { Settings::default() };
        let service = Service::connect_with(&server.url(), settings).await.unwrap();
        service.call("call", vec![x("1")], &Options::default()).await.unwrap();
        assert_eq!(server.connections.load(SeqCst), expected);
    }
}

#[tokio::test]
async fn the_url_may_have_wsdl_or_not_and_may_lead_elsewhere() {
    let server = echoing().await;
    for url in
        [server.url(), format!("{}?wsdl", server.url()), server.url().replace("echo", "moved")]
    {
        let service = Service::connect(&url).await.unwrap();
        assert_eq!(service.description().name, "echo");
        assert_eq!(service.address(), server.url());
        assert_eq!(service.operations().collect::<Vec<_>>(), ["call"]);
    }
}

#[tokio::test]
async fn both_versions_and_both_packagings_bring_the_bytes_back() {
    let server = echoing().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    for soap in [SoapVersion::V11, SoapVersion::V12] {
        for &packaging in Packaging::ALL {
            let settings = Settings { soap, packaging: Some(packaging), ..Settings::default() };
            let service = Service::connect_with(&server.url(), settings).await.unwrap();
            let dir = tempfile::tempdir().unwrap();
            let (from, to) = (dir.path().join("from"), dir.path().join("to"));
            std::fs::write(&from, &bytes).unwrap();
            let arguments =
                vec![Argument::new("data", Value::Data(file_input(&from).await.unwrap())), x("1")];
            let meter = Arc::new(Meter::default());
            let options = Options {
                spool_dir: Some(dir.path().to_owned()),
                meter: Some(Arc::clone(&meter)),
                ..Options::default()
            };
            let reply = service.call("call", arguments, &options).await.unwrap();
            let Value::Data(payload) = &reply.outputs[1].value else { panic!("{reply:?}") };
            assert!(matches!(payload, Payload::Spooled(_)), "{packaging:?}");
            save(payload, &to).await.unwrap();
            drop(reply);
            assert_eq!(std::fs::read(&to).unwrap(), bytes, "{soap:?} {packaging:?}");
            assert_eq!(names(dir.path()), ["from", "to"]);
            assert_eq!(meter.sent(), meter.to_send());
            assert!(meter.received() > 200_000 && meter.received() == meter.to_receive());
            let seen = server.seen.lock().unwrap().pop().unwrap();
            assert_eq!(seen.packaging, packaging);
            assert_eq!(seen.accept, packaging.accept());
        }
    }
}

#[tokio::test]
async fn a_large_file_goes_out_as_mtom_and_a_small_one_plain() {
    let server = echoing().await;
    let service = Service::connect(&server.url()).await.unwrap();
    for (size, packaging) in [(16 << 10, Packaging::Plain), ((16 << 10) + 1, Packaging::Mtom)] {
        let arguments = vec![x("1"), Argument::new("data", data(vec![b'a'; size]))];
        service.call("call", arguments, &Options::default()).await.unwrap();
        let seen = server.seen.lock().unwrap().pop().unwrap();
        assert_eq!(seen.packaging, packaging, "{size}");
        assert!(seen.accept.contains("multipart/related"), "an answer may be MTOM either way");
    }
}

#[tokio::test]
async fn outputs_that_nobody_saves_leave_nothing() {
    let server = echoing().await;
    let service = Service::connect(&server.url()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = Options { spool_dir: Some(dir.path().to_owned()), ..Options::default() };
    let arguments = vec![x("1"), Argument::new("data", data(vec![b'a'; 300_000]))];
    let reply = service.call("call", arguments, &options).await.unwrap();
    assert_eq!(names(dir.path()).len(), 1);
    drop(reply);
    assert!(names(dir.path()).is_empty());
}

#[tokio::test]
async fn a_text_for_a_file_input_is_its_bytes() {
    let server = echoing().await;
    let service = Service::connect(&server.url()).await.unwrap();
    let arguments = vec![x("1"), Argument::text("data", "a text & more")];
    let reply = service.call("call", arguments, &Options::default()).await.unwrap();
    let Value::Data(Payload::Inline(bytes)) = &reply.outputs[1].value else { panic!("{reply:?}") };
    assert_eq!(bytes, &Bytes::from_static(b"a text & more"));
}
