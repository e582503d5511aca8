//! Whether an answer is right.
//!
//! Answers are looked through as bytes, not parsed as XML: an envelope is found in a part of MIME or in a DIME record
//! as well, and a client that judges tens of thousands a second stays one. What is looked for are tags of a local name,
//! whatever their prefix; comments and CDATA sections that hold such tags are not told from them.

mod checker;

use std::borrow::Cow;

use memchr::{memchr, memmem};
use ring::digest::Digest;

pub use checker::CheckerError;
pub(crate) use checker::{Checker, Question};

use crate::load::PlannedExpect;
use crate::record::Outcome;
use crate::request::{RequestId, Template};

/// Fault codes with which servers refuse deliberately: our own (`contract::fault`), and those of others.
const BUSY: [&str; 10] = [
    "QueueFull",
    "Unavailable",
    "QuotaExceeded",
    "StorageFull",
    "Busy",
    "ServerBusy",
    "ServerTooBusy",
    "TooBusy",
    "TooManyRequests",
    "Overloaded",
];
/// The most of a text of the server's that is repeated.
const TOLD: usize = 200;

/// An answer that is whole.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) digest: Option<Digest>,
}

/// What is judged, and in words why, if it is not right.
pub(crate) type Judgement = Result<(), (Outcome, String)>;

/// What a right answer is.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    status: u16,
    /// A fault may be right.
    fault: bool,
    contains: Option<Expectation>,
    elements: Vec<(String, Expectation)>,
    sha256: Option<Vec<u8>>,
}

/// A text, made once if it is always the same.
#[derive(Clone, Debug)]
enum Expectation {
    Always(Vec<u8>),
    Numbered(Template),
}

impl Expectation {
    fn new(template: &Template) -> Self {
        match template.is_constant() {
            true => Self::Always(template.text(RequestId { request: 0, client: 0 })),
            false => Self::Numbered(template.clone()),
        }
    }

    fn text(&self, id: RequestId) -> Cow<'_, [u8]> {
        match self {
            Self::Always(text) => Cow::Borrowed(text),
            Self::Numbered(template) => Cow::Owned(template.text(id)),
        }
    }
}

impl Expected {
    pub(crate) fn new(planned: &PlannedExpect) -> Self {
        let digits = |digest: &String| {
            let pairs = digest.as_bytes().chunks(2);
            let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            pairs.filter_map(byte).collect()
        };
        Self {
            status: planned.status.unwrap_or(200),
            fault: planned.status.is_some_and(|status| status >= 400),
            contains: planned.contains.as_ref().map(Expectation::new),
            elements: planned
                .elements
                .iter()
                .map(|(name, text)| (name.clone(), Expectation::new(text)))
                .collect(),
            sha256: planned.sha256.as_ref().map(digits),
        }
    }

    /// Whether a whole body is needed to judge it.
    pub(crate) fn needs_body(&self) -> bool {
        self.contains.is_some() || !self.elements.is_empty()
    }

    /// Whether a digest is needed to judge it.
    pub(crate) fn needs_digest(&self) -> bool {
        self.sha256.is_some()
    }

    /// Judges an answer, all but the time it took.
    pub(crate) fn judge(&self, answer: Answer<'_>, id: RequestId) -> Judgement {
        let fault = fault(answer.body);
        if answer.status != self.status || (fault.is_some() && !self.fault) {
            return Err(explicit(answer.status, fault.as_deref()));
        }
        let wrong = |why: String| Err((Outcome::Wrong, why));
        if let Some(contains) = &self.contains {
            let text = contains.text(id);
            if memmem::find(answer.body, &text).is_none() {
                return wrong(format!("the answer has no {}", shown(&text)));
            }
        }
        for (name, expected) in &self.elements {
            let expected = expected.text(id);
            match element(answer.body, name) {
                None => return wrong(format!("the answer has no element {name}")),
                Some(text) if *text != *expected => {
                    let (text, expected) = (shown(&text), shown(&expected));
                    return wrong(format!("the element {name} is {text}, not {expected}"));
                }
                Some(_) => {}
            }
        }
        if let Some(right) = &self.sha256
            && answer.digest.is_none_or(|digest| digest.as_ref() != right)
        {
            return wrong("the answer has another SHA-256".to_owned());
        }
        Ok(())
    }
}

/// What an explicit error is: a refusal, or an error.
fn explicit(status: u16, fault: Option<&[u8]>) -> (Outcome, String) {
    let busy = matches!(status, 429 | 503) || fault.is_some_and(says_busy);
    let outcome = if busy { Outcome::Refused } else { Outcome::Error };
    let words = match fault {
        Some(fault) => format!("status {status}: {}", words(fault)),
        None => format!("status {status}"),
    };
    (outcome, words)
}

/// The content of the fault in the body of an envelope, if there is one.
fn fault(answer: &[u8]) -> Option<Cow<'_, [u8]>> {
    // Most answers have none, and no such word either.
    memmem::find(answer, b"Fault")?;
    let body = start_tag(answer, "Body")?;
    let inside = &answer[body.end..];
    let first = &inside[memchr(b'<', inside)?..];
    let tag = start_tag(first, "Fault").filter(|tag| tag.begin == 0)?;
    Some(Cow::Borrowed(&first[tag.end..]))
}

/// Whether one of a fault's texts is a code that says that the server is busy: `soap:Server.Busy`, `QueueFull`.
fn says_busy(fault: &[u8]) -> bool {
    texts(fault).any(|text| {
        let text = String::from_utf8_lossy(text);
        let code = text.trim().rsplit([':', '.']).next().unwrap_or_default();
        BUSY.contains(&code)
    })
}

/// A fault's texts, one after another.
fn words(fault: &[u8]) -> String {
    let end = memmem::find(fault, b"Fault>").unwrap_or(fault.len());
    let mut all = String::new();
    for text in texts(&fault[..end]) {
        let text = String::from_utf8_lossy(text);
        if all.len() < TOLD && !text.trim().is_empty() {
            all.push_str(if all.is_empty() { "" } else { ": " });
            all.push_str(text.trim());
        }
    }
    shown(all.as_bytes())
}

/// What stands between tags.
fn texts(xml: &[u8]) -> impl Iterator<Item = &[u8]> {
    xml.split(|byte| *byte == b'>').filter_map(|piece| Some(&piece[..memchr(b'<', piece)?]))
}

/// A text of a server's in a message: short, without control characters.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * TOLD)]);
    let short: String = text.chars().filter(|c| !c.is_control()).take(TOLD).collect();
    if short.is_empty() { "nothing".to_owned() } else { short }
}

/// Where a start tag is: `<` at `begin`, what follows `>` at `end`.
struct Tag {
    begin: usize,
    end: usize,
    /// `<name/>`.
    empty: bool,
}

/// The first start tag of a local name.
fn start_tag(xml: &[u8], local: &str) -> Option<Tag> {
    for at in memmem::find_iter(xml, local) {
        let after = at + local.len();
        let ends = xml
            .get(after)
            .is_some_and(|byte| matches!(byte, b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n'));
        if !ends {
            continue;
        }
        let begin = match xml[..at].last() {
            Some(b'<') => at - 1,
            Some(b':') => {
                let prefix = xml[..at - 1].iter().rev().take_while(|byte| is_name_byte(**byte));
                let begin = at - 1 - prefix.count();
                if begin == 0 || xml[begin - 1] != b'<' {
                    continue;
                }
                begin - 1
            }
            _ => continue,
        };
        let close = after + memchr(b'>', &xml[after..])?;
        return Some(Tag { begin, end: close + 1, empty: xml[close - 1] == b'/' });
    }
    None
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || byte >= 0x80
}

/// The text of the first element of a local name, up to the next tag.
fn element<'a>(xml: &'a [u8], local: &str) -> Option<Cow<'a, [u8]>> {
    let tag = start_tag(xml, local)?;
    if tag.empty {
        return Some(Cow::Borrowed(b""));
    }
    let rest = &xml[tag.end..];
    if let Some(data) = rest.strip_prefix(b"<![CDATA[") {
        return Some(Cow::Borrowed(&data[..memmem::find(data, b"]]>")?]));
    }
    let text = &rest[..memchr(b'<', rest)?];
    Some(if memchr(b'&', text).is_some() {
        Cow::Owned(unescaped(text))
    } else {
        Cow::Borrowed(text)
    })
}

/// A text with its references replaced: XML's five, and characters by number.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'&', rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let end = rest.iter().take(12).position(|byte| *byte == b';');
        let character = end.and_then(|end| referred(&rest[1..end]));
        match (character, end) {
            (Some(character), Some(end)) => {
                plain.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[end + 1..];
            }
            _ => {
                plain.push(b'&');
                rest = &rest[1..];
            }
        }
    }
    plain.extend_from_slice(rest);
    plain
}

fn referred(name: &[u8]) -> Option<char> {
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        _ => {
            let digits = std::str::from_utf8(name).ok()?.strip_prefix('#')?;
            let number = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(number.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text.as_bytes(), &[].into(), Path::new("/")).expect("a template")
    }

    fn judged(planned: &PlannedExpect, status: u16, body: &str) -> Judgement {
        let expected = Expected::new(planned);
        let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
        let digest = expected.needs_digest().then_some(digest);
        let answer = Answer { status, body: body.as_bytes(), digest };
        expected.judge(answer, RequestId { request: 12, client: 7 })
    }

    fn outcome(planned: &PlannedExpect, status: u16, body: &str) -> Outcome {
        judged(planned, status, body).map_or_else(|(outcome, _)| outcome, |()| Outcome::Right)
    }

    const RESULT: &str = "<s:Envelope xmlns:s=\"x\"><s:Body><addResponse><n:addReturn \n xsi:type=\"xsd:int\">3</n:addReturn>\
                          <e/><t>a &lt;&#98;&#x63;&amp;&x; Fault</t><d><![CDATA[<x>]]></d></addResponse></s:Body></s:Envelope>";

    fn fault_with(code: &str) -> String {
        format!(
            "<s:Envelope><s:Header/><s:Body>\n <s:Fault><faultcode>{code}</faultcode>\
             <faultstring>it is &lt;so&gt;</faultstring></s:Fault></s:Body></s:Envelope>"
        )
    }

    #[test]
    fn without_expectations_200_is_right_and_a_fault_is_not() {
        let any = PlannedExpect::default();
        assert_eq!(outcome(&any, 200, RESULT), Outcome::Right);
        assert_eq!(outcome(&any, 200, &fault_with("s:Server")), Outcome::Error);
        assert_eq!(outcome(&any, 500, &fault_with("s:Server.userException")), Outcome::Error);
        assert_eq!(outcome(&any, 404, "not here"), Outcome::Error);
        assert_eq!(outcome(&any, 302, ""), Outcome::Error);
        let (_, said) = judged(&any, 500, &fault_with("s:Server.x")).expect_err("a fault");
        assert_eq!(said, "status 500: s:Server.x: it is &lt;so&gt;");
    }

    #[test]
    fn a_refusal_is_told_from_an_error() {
        let any = PlannedExpect::default();
        for status in [429, 503] {
            assert_eq!(outcome(&any, status, ""), Outcome::Refused);
        }
        for code in ["s:Server.QueueFull", "a:ServerTooBusy", " Busy "] {
            assert_eq!(outcome(&any, 500, &fault_with(code)), Outcome::Refused, "{code}");
        }
        for code in ["s:Server", "NotBusyAtAll", "s:Busybody"] {
            assert_eq!(outcome(&any, 500, &fault_with(code)), Outcome::Error, "{code}");
        }
    }

    #[test]
    fn every_code_of_ours_that_is_no_fault_of_the_callers_and_passes_is_a_refusal() {
        for code in ["QueueFull", "Unavailable", "QuotaExceeded", "StorageFull"] {
            assert!(fishplate_contract::FaultCode::from_name(code).is_some(), "{code}");
        }
    }

    #[test]
    fn an_expected_fault_is_right() {
        let planned = PlannedExpect { status: Some(500), ..PlannedExpect::default() };
        assert_eq!(outcome(&planned, 500, &fault_with("s:Client")), Outcome::Right);
        assert_eq!(outcome(&planned, 200, RESULT), Outcome::Error);
        let planned = PlannedExpect { status: Some(202), ..PlannedExpect::default() };
        assert_eq!(outcome(&planned, 202, ""), Outcome::Right);
    }

    #[test]
    fn elements_are_found_by_their_local_names() {
        for (name, text) in [("addReturn", "3"), ("e", ""), ("t", "a <bc&&x; Fault"), ("d", "<x>")]
        {
            let found = element(RESULT.as_bytes(), name);
            assert_eq!(found.as_deref(), Some(text.as_bytes()), "{name}");
        }
        assert_eq!(element(RESULT.as_bytes(), "Return"), None);
        assert_eq!(element(b"<a x='y:b >'><b", "b"), None);
    }

    #[test]
    fn what_is_expected_is_asked_for() {
        let element = |text| PlannedExpect {
            elements: vec![("addReturn".to_owned(), template(text))],
            ..PlannedExpect::default()
        };
        assert_eq!(outcome(&element("3"), 200, RESULT), Outcome::Right);
        let (wrong, said) = judged(&element("4"), 200, RESULT).expect_err("it is another");
        assert_eq!((wrong, &*said), (Outcome::Wrong, "the element addReturn is 3, not 4"));
        assert_eq!(
            outcome(&element("{request}"), 200, "<addReturn>12</addReturn>"),
            Outcome::Right
        );
        assert_eq!(outcome(&element("3"), 200, ""), Outcome::Wrong);

        let contains =
            |text| PlannedExpect { contains: Some(template(text)), ..PlannedExpect::default() };
        assert_eq!(outcome(&contains("addReturn"), 200, RESULT), Outcome::Right);
        assert_eq!(outcome(&contains("{client}"), 200, RESULT), Outcome::Wrong);

        let digest = |digits: &str| PlannedExpect {
            sha256: Some(digits.to_owned()),
            ..PlannedExpect::default()
        };
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(outcome(&digest(right), 200, "abc"), Outcome::Right);
        assert_eq!(outcome(&digest(right), 200, "abd"), Outcome::Wrong);
        assert_eq!(outcome(&digest(right), 503, "abc"), Outcome::Refused);
    }
}
