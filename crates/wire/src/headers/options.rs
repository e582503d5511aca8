//! Our options, which travel as SOAP headers of [`crate::name::OPTIONS`]: `key`, `arrays`, `session`
//! and `outputs` with a call; `job`, `existing` and, if the call chose any, `outputs` with its answer.

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{
    CallOptions, Fault, FaultCode, OutputChoice, OutputForm, SessionId, SubmittedJob,
};

use super::outputs;
use super::table::{HeaderKind, HeaderReply};
use crate::envelope::{ArrayForm, HeaderBlock, XmlElement};
use crate::name::{OPTIONS, QName, XSD};
use crate::write::{ReplyForm, RequestForm};
use crate::wsdl::{DataView, Markup, annotate};

/// Headers of ours that a server understands.
const UNDERSTOOD: [&str; 4] = [KEY, ARRAYS, SESSION, OUTPUTS];

const KEY: &str = "key";
/// Tells the job that an answer is about.
const JOB: &str = "job";
/// Tells that it was there before, under the same key.
const EXISTING: &str = "existing";
/// Tells how arrays are to stand in the answer.
const ARRAYS: &str = "arrays";
/// Names the session that the job runs in, as a WS-Context does.
pub(super) const SESSION: &str = "session";
/// Tells how outputs are wanted, and in an answer how they came.
pub(super) const OUTPUTS: &str = "outputs";

pub(crate) struct Options;

impl HeaderKind for Options {
    fn namespaces(&self) -> &'static [&'static str] {
        &[OPTIONS]
    }

    fn understands(&self, block: &XmlElement) -> bool {
        UNDERSTOOD.contains(&block.name.local.as_str())
    }

    fn read(&self, headers: &[HeaderBlock], options: &mut CallOptions) -> Result<(), Fault> {
        if let Some(told) = text(headers, ARRAYS)?
            && ArrayForm::from_name(told).is_none()
        {
            let told = shortened(told);
            return Err(invalid(ARRAYS, format!("is {told:?}; it is elements or binary")));
        }
        options.key = text(headers, KEY)?.map(str::to_owned);
        options.session = text(headers, SESSION)?.map(session_id).transpose()?;
        if let Some(element) = the(headers, OUTPUTS)? {
            options.outputs = outputs::read(element)?;
        }
        Ok(())
    }

    fn request(&self, form: &RequestForm) -> Vec<HeaderBlock> {
        let CallOptions { key, session, outputs, .. } = &form.options;
        let mut headers = Vec::new();
        headers.extend(key.iter().map(|key| block(KEY, key.clone())));
        headers.extend(form.arrays.map(|arrays| block(ARRAYS, arrays.name().to_owned())));
        headers.extend(session.map(|session| block(SESSION, session.to_string())));
        headers.extend((!outputs.is_empty()).then(|| outputs::write(outputs)));
        headers
    }

    /// How the outputs came is told to whom it concerns: who chose, or has the richer view.
    fn answer(&self, form: &ReplyForm, answer: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        let HeaderReply::Results { outputs, job, .. } = *answer else { return Vec::new() };
        let chosen = || form.headers.iter().any(|header| header.element.name.is(OPTIONS, OUTPUTS));
        let tells = form.data == DataView::Xdescr || chosen();
        if job.is_none() && !tells {
            return Vec::new();
        }
        let existing = job.filter(|job| job.existing).map(|_| block(EXISTING, "true".to_owned()));
        let job = job.map(|job| block(JOB, job.id.to_string()));
        let chosen = tells.then(|| outputs::write_answer(outputs)).flatten();
        job.into_iter().chain(existing).chain(chosen).collect()
    }

    fn published(&self) -> &'static [&'static str] {
        &[KEY, SESSION, OUTPUTS]
    }

    fn write_schema(&self, to: &mut Markup) {
        let attributes =
            [("targetNamespace", OPTIONS), ("elementFormDefault", "qualified"), ("xmlns:xs", XSD)];
        to.open("xs:schema", &attributes);
        for (name, text) in [
            (KEY, "Idempotency key: the same key never runs twice."),
            (SESSION, "ID of the session that the job runs in: 32 hexadecimal digits."),
            (ARRAYS, "How arrays stand in the answer: elements or binary."),
            (JOB, "In an answer: ID of the job."),
            (EXISTING, "In an answer: true if the job was there before, under the same key."),
        ] {
            to.open("xs:element", &[("name", name), ("type", "xs:string")]);
            annotate(to, text, &[], &[]);
            to.close();
        }
        to.open("xs:element", &[("name", OUTPUTS)]);
        to.open("xs:complexType", &[]);
        annotate(to, "How outputs are wanted; in an answer, how they came.", &[], &[]);
        to.open("xs:sequence", &[]);
        let many = [("name", "output"), ("minOccurs", "0"), ("maxOccurs", "unbounded")];
        to.open("xs:element", &many);
        to.open("xs:complexType", &[]);
        let name =
            format!("Name of the output; {} for all that are files or arrays.", OutputChoice::ALL);
        let forms = OutputForm::ALL.map(OutputForm::name).join(", ");
        for (attribute, of, text) in [
            ("name", "xs:string", name.as_str()),
            ("as", "xs:string", &format!("One of {forms} (a reference if it is large).")),
            ("to", "xs:anyURI", "Where the server delivers it; that is the reference then."),
        ] {
            to.open("xs:attribute", &[("name", attribute), ("type", of)]);
            annotate(to, text, &[], &[]);
            to.close();
        }
        to.close();
        to.close();
        to.close();
        to.close();
        to.close();
        to.close();
    }
}

/// The ID that this text is of a session.
///
/// # Errors
/// `NoSuchSession`.
pub(super) fn session_id(told: &str) -> Result<SessionId, Fault> {
    told.parse().map_err(|error| {
        let message = format!("there is no session {:?}: {error}", shortened(told));
        Fault::new(FaultCode::NoSuchSession, message).parameter(SESSION)
    })
}

/// Our header of that name.
fn the<'h>(headers: &'h [HeaderBlock], name: &str) -> Result<Option<&'h XmlElement>, Fault> {
    let mut ours = headers.iter().filter(|header| header.element.name.is(OPTIONS, name));
    let header = ours.next();
    if ours.next().is_some() {
        return Err(invalid(name, "stands twice; send it once"));
    }
    Ok(header.map(|header| &header.element))
}

/// The text of our header of that name.
fn text<'h>(headers: &'h [HeaderBlock], name: &str) -> Result<Option<&'h str>, Fault> {
    let Some(element) = the(headers, name)? else { return Ok(None) };
    let text = trimmed(&element.text);
    if text.is_empty() {
        return Err(invalid(name, "is empty; give its value, or leave it out"));
    }
    Ok(Some(text))
}

/// What is wrong with the header of that name.
pub(super) fn invalid(name: &str, what: impl std::fmt::Display) -> Fault {
    Fault::new(FaultCode::InvalidValue, format!("the header {name} {what}")).parameter(name)
}

/// How arrays are to stand in the answer.
pub(crate) fn arrays(headers: &[HeaderBlock]) -> Option<ArrayForm> {
    let header = headers.iter().find(|header| header.element.name.is(OPTIONS, ARRAYS))?;
    ArrayForm::from_name(trimmed(&header.element.text))
}

/// Whether a call has an idempotency key.
pub(crate) fn has_key(headers: &[HeaderBlock]) -> bool {
    headers.iter().any(|header| header.element.name.is(OPTIONS, KEY))
}

/// The job that an answer is about.
pub(crate) fn read_job(headers: &[HeaderBlock]) -> Option<SubmittedJob> {
    let told = |name| {
        let header = headers.iter().find(|header| header.element.name.is(OPTIONS, name))?;
        Some(trimmed(&header.element.text))
    };
    Some(SubmittedJob { id: told(JOB)?.parse().ok()?, existing: told(EXISTING) == Some("true") })
}

/// A server that is not ours may pass our headers over.
fn block(local: &str, text: String) -> HeaderBlock {
    HeaderBlock::optional(XmlElement::with_text(QName::new(OPTIONS, local), text))
}

#[cfg(test)]
mod tests;
