//! Our options, which travel as SOAP headers of [`crate::name::OPTIONS`]: `key`, `arrays`, `session`
//! and `outputs` with a call; `job` and, if the call chose any, `outputs` with its answer.

mod outputs;

use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{CallOptions, Fault, FaultCode, JobId, OutputChoice, SessionId};

use crate::context;
use crate::envelope::{ArrayForm, Element, HeaderBlock};
use crate::name::{OPTIONS, QName};
use crate::wsdl::DataView;

pub(crate) use outputs::check as check_outputs;
pub(crate) use outputs::{chosen, of_answer, write_answer};

/// Headers of ours that a server understands.
pub(crate) const UNDERSTOOD: [&str; 4] = [KEY, ARRAYS, SESSION, OUTPUTS];

const KEY: &str = "key";
/// Tells how arrays are to stand in the answer.
const ARRAYS: &str = "arrays";
/// Names the session that the job runs in, as a WS-Context does.
const SESSION: &str = "session";
/// Tells how outputs are wanted, and in an answer how they came.
const OUTPUTS: &str = "outputs";

/// The options among these headers, sent to the address of this view.
///
/// # Errors
/// `InvalidValue` if one is empty, stands twice or has a value that is none; `NoSuchSession` if it
/// is no session's ID.
pub(crate) fn read(headers: &[HeaderBlock], data: DataView) -> Result<CallOptions, Fault> {
    let key = text(headers, KEY)?.map(str::to_owned);
    if let Some(told) = text(headers, ARRAYS)?
        && ArrayForm::from_name(told).is_none()
    {
        let told = shortened(told);
        return Err(invalid(ARRAYS, format!("is {told:?}; it is elements or binary")));
    }
    let session = session(headers)?;
    let mut outputs = match the(headers, OUTPUTS)? {
        Some(element) => outputs::read(element)?,
        None => Vec::new(),
    };
    // Who has the view knows references; in a session what is not chosen stays there anyway.
    let all = outputs.iter().any(|choice| choice.name == OutputChoice::ALL);
    if data == DataView::Xdescr && session.is_none() && !all {
        outputs.push(outputs::auto());
    }
    Ok(CallOptions { key, session, outputs })
}

/// The session that our header or a context names.
fn session(headers: &[HeaderBlock]) -> Result<Option<SessionId>, Fault> {
    let own = text(headers, SESSION)?.map(session_id).transpose()?;
    let by_context = context::session(headers)?.map(session_id).transpose()?;
    match (own, by_context) {
        (Some(own), Some(other)) if own != other => {
            Err(invalid(SESSION, format!("names {own}, but the header context names {other}")))
        }
        _ => Ok(own.or(by_context)),
    }
}

fn session_id(told: &str) -> Result<SessionId, Fault> {
    told.parse().map_err(|error| {
        let message = format!("there is no session {:?}: {error}", shortened(told));
        Fault::new(FaultCode::NoSuchSession, message).parameter(SESSION)
    })
}

/// Our header of that name.
fn the<'h>(headers: &'h [HeaderBlock], name: &str) -> Result<Option<&'h Element>, Fault> {
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
fn invalid(name: &str, what: impl std::fmt::Display) -> Fault {
    Fault::new(FaultCode::InvalidValue, format!("the header {name} {what}")).parameter(name)
}

/// How arrays are to stand in the answer.
pub(crate) fn arrays(headers: &[HeaderBlock]) -> Option<ArrayForm> {
    let header = headers.iter().find(|header| header.element.name.is(OPTIONS, ARRAYS))?;
    ArrayForm::from_name(trimmed(&header.element.text))
}

/// The job that an answer is about.
pub(crate) fn read_job(headers: &[HeaderBlock]) -> Option<JobId> {
    let header = headers.iter().find(|header| header.element.name.is(OPTIONS, "job"))?;
    trimmed(&header.element.text).parse().ok()
}

/// The headers of a call with these options.
pub(crate) fn write(options: &CallOptions, arrays: Option<ArrayForm>) -> Vec<HeaderBlock> {
    let CallOptions { key, session, outputs } = options;
    let mut headers = Vec::new();
    headers.extend(key.iter().map(|key| block(KEY, key.clone())));
    headers.extend(arrays.map(|arrays| block(ARRAYS, arrays.name().to_owned())));
    headers.extend(session.map(|session| block(SESSION, session.to_string())));
    headers.extend((!outputs.is_empty()).then(|| outputs::write(outputs)));
    headers
}

/// The header that tells the job.
pub(crate) fn write_job(job: JobId) -> HeaderBlock {
    block("job", job.to_string())
}

/// A server that is not ours may pass our headers over.
fn block(local: &str, text: String) -> HeaderBlock {
    let element = Element::with_text(QName::new(OPTIONS, local), text);
    HeaderBlock { must_understand: false, role: None, element }
}

#[cfg(test)]
mod tests;
