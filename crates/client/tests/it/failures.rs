//! Calls that go wrong: whose fault it is, what is tried again, and what is left behind.

use std::io;
use std::time::Duration;

use fishplate_client::{Error, Options, Retry, Service, Settings, new_key};
use fishplate_contract::{Argument, CallOptions, Fault, FaultCode, Payload, Value};
use fishplate_data::stream::Reader;

use crate::server::{JOB, Reaction, RecordedRequest, Server, data, echo};

fn quick() -> Settings {
    let retry = Retry {
        attempts: 4,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(10),
    };
    Settings { retry, ..Settings::default() }
}

fn arguments() -> Vec<Argument> {
    vec![Argument::text("x", "1")]
}

fn large() -> Vec<Argument> {
    vec![Argument::text("result", "1"), Argument::new("data", data(vec![7; 400_000]))]
}

fn keyed() -> Options {
    CallOptions { key: Some(new_key()), ..CallOptions::default() }.into()
}

/// The error of a call to a server that always reacts like this.
async fn error_of(
    reaction: fn(usize, &RecordedRequest) -> Reaction,
    options: &Options,
) -> (Error, usize) {
    let server = Server::start(reaction).await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let error = service.call("call", arguments(), options).await.unwrap_err();
    (error, server.count())
}

#[tokio::test]
async fn a_fault_comes_back_with_all_its_parts_in_both_versions() {
    let mut sent = Fault::new(FaultCode::ProgramFailed, "exit code 3: bad deck <&>")
        .parameter("deck")
        .limit("wall_time", "2 s")
        .job(JOB.parse().unwrap())
        .retry_after(Duration::from_secs(7));
    sent.exit_code = Some(3);
    sent.signal = Some("SIGXCPU".to_owned());
    sent.stderr = Some("line 1\nline 2".to_owned());
    let answer = sent.clone();
    let server = Server::start(move |_, _| Reaction::Fault(answer.clone())).await;
    for soap in [fishplate_client::SoapVersion::V11, fishplate_client::SoapVersion::V12] {
        let settings = Settings { soap, ..quick() };
        let service = Service::connect_with(&server.url(), settings).await.unwrap();
        match service.call("call", arguments(), &keyed()).await.unwrap_err() {
            Error::Fault(fault) => assert_eq!(fault, sent),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.count(), 2, "a fault is an answer: nothing is tried again");
}

#[tokio::test]
async fn a_lost_connection_is_tried_again_with_the_same_key_and_only_with_one() {
    let server = Server::start(|at, seen| match at {
        0 | 1 => Reaction::Cut,
        _ => Reaction::Outputs(echo(seen)),
    })
    .await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let options = keyed();
    service.call("call", arguments(), &options).await.unwrap();
    {
        let seen = server.seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|seen| seen.key == options.call.key), "{seen:?}");
    }
    let (error, tries) = error_of(|_, _| Reaction::Cut, &Options::default()).await;
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
    assert_eq!(tries, 1);
    let (error, tries) = error_of(|_, _| Reaction::Cut, &keyed()).await;
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
    assert_eq!(tries, 4);
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_is_fetched_again_and_no_half_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(move |at, _| match at {
        0 => Reaction::CutAfter(250_000, large()),
        _ => Reaction::Outputs(large()),
    })
    .await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let options = Options { spool_dir: Some(dir.path().to_owned()), ..keyed() };
    let reply = service.call("call", arguments(), &options).await.unwrap();
    let Value::Data(payload) = &reply.outputs[1].value else { panic!("{reply:?}") };
    assert_eq!(payload.len(), Some(400_000));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "that of the second try");
    drop(reply);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_gateway_that_gave_up_is_asked_again_and_other_pages_are_clear_errors() {
    let server = Server::start(|at, seen| match at {
        0 => Reaction::Http(504, "text/html", "<h1>Gateway Time-out</h1>"),
        _ => Reaction::Outputs(echo(seen)),
    })
    .await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    service.call("call", arguments(), &keyed()).await.unwrap();
    assert_eq!(server.count(), 2);

    let page = |_: usize, _: &RecordedRequest| {
        Reaction::Http(403, "text/html", "\n  <h1>Forbidden</h1>\nx")
    };
    let (error, tries) = error_of(page, &keyed()).await;
    assert_eq!(tries, 1);
    let message = error.to_string();
    assert!(message.ends_with("/echo answered 403: <h1>Forbidden</h1>"), "{message}");

    let xml = |_: usize, _: &RecordedRequest| Reaction::Http(500, "text/xml", "<oops/>");
    let (error, _) = error_of(xml, &keyed()).await;
    assert!(matches!(error, Error::Http { status: 500, .. }), "{error:?}");

    let no_envelope = |_: usize, _: &RecordedRequest| Reaction::Http(200, "text/xml", "<oops/>");
    let (error, _) = error_of(no_envelope, &keyed()).await;
    assert!(matches!(error, Error::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn no_answer_in_time_is_an_error_that_says_the_time() {
    let server = Server::start(|_, _| Reaction::Hang).await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let options = Options { timeout: Some(Duration::from_millis(50)), ..keyed() };
    let error = service.call("call", arguments(), &options).await.unwrap_err();
    assert_eq!(error.to_string(), format!("no answer from {} within 0.05 s", server.url()));
}

#[tokio::test]
async fn a_stored_answer_is_fetched_again_instead_of_streamed_if_that_is_wanted() {
    let server = Server::start(|at, _| match at {
        0 => Reaction::CutAfter(250_000, large()),
        1 => Reaction::Outputs(large()),
        _ => Reaction::HangAfter(250_000, large()),
    })
    .await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let streams = vec!["data".to_owned()];
    let options = Options { streams, stored_whole: true, ..keyed() };
    let reply = service.call("call", arguments(), &options).await.unwrap();
    let Value::Data(payload) = &reply.outputs[1].value else { panic!("{reply:?}") };
    assert_eq!((payload.len(), server.count()), (Some(400_000), 2));
    // Nobody has what is made while it is sent.
    let reply = service.call("call", arguments(), &options).await.unwrap();
    assert!(reply.outputs[1].value.is_stream());
}

#[tokio::test]
async fn a_stream_whose_server_says_nothing_more_ends_with_an_error_that_says_the_time() {
    let server = Server::start(|_, _| Reaction::HangAfter(250_000, large())).await;
    let service = Service::connect_with(&server.url(), quick()).await.unwrap();
    let timeout = Some(Duration::from_millis(200));
    let options = Options { streams: vec!["data".to_owned()], timeout, ..keyed() };
    let reply = service.call("call", arguments(), &options).await.unwrap();
    let Value::Data(Payload::Stream(stream)) = &reply.outputs[1].value else { panic!("{reply:?}") };
    let mut reader = Reader::of(stream).unwrap();
    let read = tokio::task::spawn_blocking(move || io::copy(&mut reader, &mut io::sink()));
    let read = tokio::time::timeout(Duration::from_secs(20), read).await;
    let error = read.expect("it ends").unwrap().unwrap_err().to_string();
    assert!(error.contains("within 0.2 s"), "{error}");
}

#[tokio::test]
async fn mistakes_in_names_are_found_before_anything_is_sent() {
    let server = Server::start(|_, seen| Reaction::Outputs(echo(seen))).await;
    let service = Service::connect(&server.url()).await.unwrap();
    let call = async |operation: &str, arguments: Vec<Argument>| {
        service.call(operation, arguments, &Options::default()).await.unwrap_err()
    };
    match call("cal", arguments()).await {
        Error::UnknownOperation { closest, known, .. } => {
            assert_eq!((closest.as_deref(), &known[..]), (Some("call"), &["call".to_owned()][..]));
        }
        other => panic!("{other:?}"),
    }
    match call("call", vec![Argument::text("x", "1"), Argument::text("dta", "")]).await {
        Error::UnknownParameter { direction: "input", closest, .. } => {
            assert_eq!(closest.as_deref(), Some("data"));
        }
        other => panic!("{other:?}"),
    }
    let missing = call("call", Vec::new()).await;
    assert_eq!(missing.to_string(), "operation call needs the input x");
    let twice = call("call", [arguments(), arguments()].concat()).await;
    assert!(matches!(twice, Error::RepeatedParameter { .. }), "{twice:?}");
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn what_is_no_service_says_what_it_is() {
    let server = Server::start(|_, _| Reaction::Hang).await;
    let connect = async |path: &str| {
        let url = server.url().replace("echo", path);
        Service::connect(&url).await.err().unwrap()
    };
    let page = connect("page").await;
    assert!(matches!(page, Error::NotWsdl { .. }), "{page:?}");
    let missing = connect("missing").await.to_string();
    assert!(missing.ends_with("/missing?wsdl answered 404: <h1>no such page</h1>"), "{missing}");
    let circle = connect("loop").await;
    assert!(matches!(circle, Error::BadUrl { .. }), "{circle:?}");
    // Nobody listens at a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = Service::connect(&format!("http://127.0.0.1:{port}/s")).await.err().unwrap();
    assert!(matches!(&nobody, Error::Unreachable { reason, .. } if reason.contains("refused")));
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_told_with_their_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = Settings { ca_file: Some(file.path().to_owned()), ..quick() };
    let error = Service::connect_with("https://127.0.0.1:1/s", settings).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot use the certificates of {}: there is no PEM certificate in it",
            file.path().display()
        )
    );
}
