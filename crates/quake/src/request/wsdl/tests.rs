//! Requests from the descriptions of our own examples.

use std::io::Write;

use fishplate_client::Settings;

use super::*;

const ARITHMETIC: &str = include_str!("../../../../../specs/arithmetic-test.wsdl");
const GZIP: &str = include_str!("../../../../../specs/gzip.wsdl");
const TRANSPOSE: &str = include_str!("../../../../../specs/transpose.wsdl");

struct Made {
    template: Template,
    content_type: String,
    action: Option<String>,
}

async fn make(wsdl: &str, packaging: &str, words: &[&str]) -> Result<Made, WsdlRequestError> {
    let url = "http://127.0.0.1:1/service";
    let settings = Settings::default().packaged(packaging).expect("a packaging");
    let service = Service::open(url, wsdl.to_owned(), url, settings).expect("a description");
    let values = [("heap".to_owned(), "64".to_owned())].into();
    let requests = WsdlRequests { values: &values, here: Path::new("/nowhere"), seed: 1 };
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let made = requests.make(&service, "call", &words).await?;
    Ok(Made { template: made.body, content_type: made.content_type, action: made.action })
}

fn body(made: &Made, request: u64) -> Vec<u8> {
    let mut outgoing = Outgoing::default();
    let mut random = Random::new(1, Stream::Request(request));
    made.template.fill(RequestId { request, client: 3 }, &mut random, &mut outgoing);
    outgoing.own().clone()
}

/// What stands in the first element of a name.
fn value(body: &[u8], name: &str) -> String {
    let text = String::from_utf8_lossy(body);
    let begin = text.find(&format!(":{name}>")).expect("the element is there");
    let rest = &text[begin + name.len() + 2..];
    rest[..rest.find('<').expect("and ends")].to_owned()
}

#[tokio::test]
async fn arguments_are_written_and_filled_for_each_request() {
    let words = ["x={request}{heap}", "y={random:5..9}"];
    let made = make(ARITHMETIC, "xml", &words).await.expect("it is made");
    assert_eq!(made.content_type, "text/xml; charset=utf-8");
    assert_eq!(made.action.as_deref(), Some("\"urn:test#call\""));
    let (one, two) = (body(&made, 12), body(&made, 13));
    assert_eq!((value(&one, "x"), value(&two, "x")), ("1264".to_owned(), "1364".to_owned()));
    assert!((5..=9).contains(&value(&one, "y").parse::<i32>().expect("a number")));
}

#[tokio::test]
async fn what_is_not_named_is_random_and_of_its_type() {
    let made = make(ARITHMETIC, "xml", &["x=1"]).await.expect("it is made");
    let drawn: Vec<i32> = (0..20)
        .map(|request| {
            value(&body(&made, request), "y").parse().expect("a whole number of 32 bits")
        })
        .collect();
    assert!(drawn.windows(2).any(|two| two[0] != two[1]));
    let again: Vec<i32> = (0..20)
        .map(|request| {
            value(&body(&made, request), "y").parse().expect("a whole number of 32 bits")
        })
        .collect();
    assert_eq!(drawn, again, "the same from the same seed");
}

#[tokio::test]
async fn text_is_escaped_and_braces_can_be_kept() {
    let made = make(ARITHMETIC, "xml", &["x={choice:<|<}{{flag}", "y={{request}"]).await;
    let made = made.expect("it is made");
    assert_eq!(value(&body(&made, 1), "x"), "&lt;{flag}");
    assert_eq!(value(&body(&made, 1), "y"), "{request}");
}

#[tokio::test]
async fn files_are_random_bytes_of_their_length_in_every_packaging() {
    for packaging in ["xml", "base64", "mtom", "swa"] {
        let made = make(GZIP, packaging, &[]).await.expect("it is made");
        let (one, two) = (body(&made, 1), body(&made, 2));
        assert_ne!(one, two, "{packaging}");
        assert_eq!(one.len(), two.len(), "{packaging}");
        assert!(one.len() > FILE_LENGTH, "{packaging}");
    }
    let made = make(GZIP, "dime", &[]).await.expect("it is made");
    assert_eq!(body(&made, 1), body(&made, 2), "lengths are told ahead");
}

#[tokio::test]
async fn a_file_is_sent_to_the_letter() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"{request} and {no word}").expect("written");
    let word = format!("plain:{}", file.path().display());
    let made = make(GZIP, "mtom", &[&word]).await.expect("it is made");
    assert!(made.template.is_constant());
    let body = body(&made, 1);
    assert!(memmem::find(&body, b"{request} and {no word}").is_some());
}

#[tokio::test]
async fn arrays_are_made_of_numbers() {
    let made = make(TRANSPOSE, "xml", &[]).await.expect("it is made");
    let body = body(&made, 1);
    assert_eq!(memmem::find_iter(&body, b">1.5<").count(), 9);
}

#[tokio::test]
async fn what_can_t_be_made_is_told() {
    for (packaging, words, told) in [
        ("xml", &["x={requests}"][..], "did you mean {request}"),
        ("xml", &["z=1"], "z"),
        ("xml", &["x"], "NAME=VALUE"),
        ("dime", &["x={request}"], "choose the packaging mtom"),
    ] {
        let error = make(ARITHMETIC, packaging, words).await.err().expect(told).to_string();
        assert!(error.contains(told), "{error}");
    }
    let error = make(ARITHMETIC, "xml", &["x=1", "x=2"]).await.err().expect("it stands twice");
    assert!(matches!(error, WsdlRequestError::Client(_)), "{error}");
}
