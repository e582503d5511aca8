//! Every face in front of the same services: what is done on one is seen on the others, and a fault has on
//! each the status of the table.

use fishplate_contract::FaultCode;
use fishplate_server::status::{Protocol, status};

use crate::bed::{Answer, Server, Setup, until};

const SERVICE: &str = "name = 'copy'\ncommand = './copy [in val n:int] > [out file text:raw]'\ndocumentation = 'Copies.'";

/// SOAP 1.1 and 1.2: the namespace of the envelope and the type of a message.
const VERSIONS: [(Protocol, &str, &str); 2] = [
    (Protocol::Soap11, "http://schemas.xmlsoap.org/soap/envelope/", "text/xml"),
    (Protocol::Soap12, "http://www.w3.org/2003/05/soap-envelope", "application/soap+xml"),
];

fn copying() -> Server {
    Setup::new().with("copy", SERVICE, "echo $1; exit $1").serve()
}

fn envelope(soap: &str, header: &str, body: &str) -> String {
    format!(
        "<e:Envelope xmlns:e='{soap}' xmlns:q='urn:fishplate:copy'><e:Header>{header}</e:Header>\
         <e:Body>{body}</e:Body></e:Envelope>"
    )
}

fn post(server: &Server, path: &str, content_type: &str, body: &str) -> Answer {
    let fields = format!("Content-Type: {content_type}\r\n");
    server.exchange("POST", path, &fields, body.as_bytes())
}

#[test]
fn a_fault_has_the_status_of_its_table_in_either_version_of_soap() {
    let server = copying();
    for (protocol, soap, content_type) in VERSIONS {
        let call = |header: &str, body: &str| envelope(soap, header, body);
        let body = |body: &str| call("", body);
        let nowhere = "<q:call><n>0</n></q:call>";
        let header = "<x:Security xmlns:x='urn:x' e:mustUnderstand='1'/>";
        for (path, content_type, message, code) in [
            ("/nowhere", content_type, body(nowhere), FaultCode::UnknownService),
            ("/copy", content_type, body("<q:fly/>"), FaultCode::UnknownOperation),
            ("/copy", content_type, body("<q:call/>"), FaultCode::MissingParameter),
            ("/copy", content_type, body("<q:call><n>x</n></q:call>"), FaultCode::InvalidValue),
            ("/copy", content_type, body("<q:call><m/></q:call>"), FaultCode::UnexpectedParameter),
            (
                "/copy",
                content_type,
                body("<q:status><job>1</job></q:status>"),
                FaultCode::NoSuchJob,
            ),
            ("/copy", content_type, body("<q:call><n>3</n></q:call>"), FaultCode::ProgramFailed),
            ("/copy", content_type, call(header, nowhere), FaultCode::MustUnderstand),
            ("/copy", content_type, body("<q:call>"), FaultCode::MalformedMessage),
            ("/copy", content_type, envelope("urn:soap", "", nowhere), FaultCode::VersionMismatch),
            ("/copy", "application/json", "{}".to_owned(), FaultCode::UnsupportedMediaType),
        ] {
            let answer = post(&server, path, content_type, &message);
            let told = (answer.status, answer.element("code"));
            assert_eq!(
                told,
                (status(protocol, code), Some(code.name())),
                "{protocol:?}: {answer:?}"
            );
        }
    }
}

#[test]
fn a_fault_has_the_status_of_its_table_over_plain_http() {
    let server = copying();
    let digest = "Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n";
    let token = "A".repeat(43);
    for (method, path, fields, code) in [
        ("GET", format!("/data/{token}/a"), "", FaultCode::NoSuchData),
        ("DELETE", format!("/data/{token}/a"), "", FaultCode::NoSuchData),
        ("GET", format!("/session/{token}/a"), "", FaultCode::NoSuchData),
        ("POST", "/data/a".to_owned(), digest, FaultCode::DataMismatch),
        ("POST", "/data/a".to_owned(), "Content-Encoding: br\r\n", FaultCode::UnsupportedMediaType),
    ] {
        let asked = format!("{fields}Accept: application/problem+json\r\n");
        let answer = server.exchange(method, &path, &asked, b"bytes");
        assert_eq!(answer.status, status(Protocol::Http, code), "{method} {path}: {answer:?}");
        assert_eq!(answer.field("content-type"), Some("application/problem+json"), "{answer:?}");
        assert!(answer.text().contains(&format!("\"code\":\"{}\"", code.name())), "{answer:?}");
    }
    let page = server.get("/nowhere");
    assert_eq!(page.status, status(Protocol::Http, FaultCode::UnknownService), "{page:?}");
}

#[test]
fn a_job_of_one_face_is_seen_on_the_others() {
    let server = copying();
    let [(_, older, older_type), (_, newer, newer_type)] = VERSIONS;
    let choice = "<o:outputs xmlns:o='urn:fishplate:options:1'><o:output name='text' as='reference'/>\
                  </o:outputs>";
    let spawn = envelope(older, choice, "<q:spawn><n>0</n></q:spawn>");
    let spawned = post(&server, "/copy", older_type, &spawn);
    let job = format!("<job>{}</job>", spawned.element("job").unwrap());
    let status = envelope(newer, "", &format!("<q:status>{job}</q:status>"));
    until("the job has ended", || {
        post(&server, "/copy", newer_type, &status).element("state") == Some("done")
    });
    let results = envelope(newer, "", &format!("<q:results>{job}</q:results>"));
    let results = post(&server, "/copy", newer_type, &results);
    let (_, url) = results.text().split_once(&format!("http://{}/data/", server.address)).unwrap();
    let path = format!("/data/{}", &url[..url.find(['<', '"']).unwrap()]);
    let data = server.get(&path);
    assert_eq!((data.status, data.text()), (200, "0\n"), "{data:?}");
    assert!(server.get("/").text().contains("copy"));
    let page = server.get("/copy");
    assert!(page.text().contains("Copies."), "{}", page.text());
    let metrics = server.get("/metrics");
    for line in [
        "fishplate_calls_total{service=\"copy\",verb=\"spawn\",outcome=\"ok\"} 1\n",
        "fishplate_calls_total{service=\"copy\",verb=\"results\",outcome=\"ok\"} 1\n",
    ] {
        assert!(metrics.text().contains(line), "{line}{}", metrics.text());
    }
}
