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

/// The texts of all elements of a name.
fn values(body: &[u8], name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(body).into_owned();
    let tag = format!("{name}>");
    let after = text.split(&tag).skip(1).step_by(2);
    after.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn arrays_are_made_of_numbers_that_change_with_the_request() {
    let made = make(TRANSPOSE, "xml", &[]).await.expect("it is made");
    let numbers = |request: u64| -> Vec<f64> {
        let body = String::from_utf8(body(&made, request)).expect("it is text");
        let texts = body.split('<').filter_map(|piece| piece.split_once('>'));
        texts.filter_map(|(_, text)| text.parse().ok()).collect()
    };
    // Three rows of three, and the lengths of both axes.
    let (one, two) = (numbers(1), numbers(2));
    assert_eq!(one.iter().filter(|number| number.fract() != 0.0).count(), 9, "{one:?}");
    let same = one.iter().zip(&two).filter(|(one, two)| one == two).count();
    assert_eq!(one.len() - same, 9, "{one:?} {two:?}");
    assert_eq!(one, numbers(1), "the same from the same seed");
    for packaging in ["mtom", "dime"] {
        make(TRANSPOSE, packaging, &[]).await.expect(packaging);
    }
}

/// Records in records: a booking with its time, its guest, and the guest's address.
const BOOKING: &str = r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:booking"
    xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:booking">
  <types><x:schema targetNamespace="urn:booking" elementFormDefault="qualified">
    <x:complexType name="Address"><x:sequence>
      <x:element name="street" type="x:string"/><x:element name="number" type="x:int"/>
      <x:element name="floor" type="x:int" minOccurs="0"/></x:sequence></x:complexType>
    <x:complexType name="Guest"><x:sequence>
      <x:element name="name" type="x:string"/><x:element name="address" type="t:Address"/></x:sequence></x:complexType>
    <x:element name="call"><x:complexType><x:sequence>
      <x:element name="arrival" type="x:dateTime"/><x:element name="guest" type="t:Guest"/></x:sequence></x:complexType></x:element>
    <x:element name="callResponse"><x:complexType><x:sequence>
      <x:element name="booked" type="x:boolean"/></x:sequence></x:complexType></x:element>
  </x:schema></types>
  <message name="in"><part name="parameters" element="t:call"/></message>
  <message name="out"><part name="parameters" element="t:callResponse"/></message>
  <portType name="p"><operation name="call"><input message="t:in"/><output message="t:out"/></operation></portType>
  <binding name="b" type="t:p"><s:binding style="document" transport="http://schemas.xmlsoap.org/soap/http"/>
    <operation name="call"><s:operation soapAction=""/><input><s:body use="literal"/></input>
      <output><s:body use="literal"/></output></operation></binding>
  <service name="s"><port name="p" binding="t:b"><s:address location="http://127.0.0.1:1/service"/></port></service>
</definitions>"#;

#[tokio::test]
async fn records_are_filled_as_deep_as_they_are_and_dates_change() {
    let made = make(BOOKING, "xml", &[]).await.expect("it is made");
    let (one, two) = (body(&made, 1), body(&made, 2));
    for name in ["arrival", "name", "street", "number"] {
        let [one, two] = [&one, &two].map(|body| values(body, name));
        assert_eq!((one.len(), two.len()), (1, 1), "{name}");
        assert_ne!(one, two, "{name}");
    }
    assert_eq!(one, body(&made, 1), "the same from the same seed");
    values(&one, "number")[0].parse::<i32>().expect("a whole number");
    let arrival = values(&one, "arrival")[0].clone();
    let digits = |from: usize, to: usize| arrival[from..to].parse::<u32>().expect(&arrival);
    assert!((1970..2100).contains(&digits(0, 4)) && (1..13).contains(&digits(5, 7)), "{arrival}");
    assert!(arrival.len() == 20 && digits(17, 19) < 60 && arrival.ends_with('Z'), "{arrival}");
    let text = String::from_utf8(one).expect("it is text");
    assert!(!text.contains("quake-mark") && !text.contains("floor"), "{text}");
    let within = ["guest>", "address>", "street>"].map(|name| text.find(name).expect(name));
    assert!(within.is_sorted(), "{text}");
}

#[tokio::test]
async fn what_can_t_be_made_is_told() {
    for (packaging, words, told) in [
        ("xml", &["x={requests}"][..], "did you mean {request}"),
        ("xml", &["z=1"], "z"),
        ("xml", &["x"], "NAME=VALUE"),
        ("dime", &["x={request}"], "choose the packaging mtom"),
    ] {
        let error = make(ARITHMETIC, packaging, words).await.err().expect(told);
        let said = crate::agent::in_words(&error);
        assert!(said.contains(told), "{said}");
        let parts: Vec<&str> = said.split(": ").collect();
        assert!(parts.windows(2).all(|of| of[0] != of[1]), "told twice: {said}");
    }
    let error = make(ARITHMETIC, "xml", &["x=1", "x=2"]).await.err().expect("it stands twice");
    assert!(matches!(error, WsdlRequestError::Client(_)), "{error}");
}
