//! Our options, which travel as SOAP headers of [`crate::name::OPTIONS`]: `key` and `arrays` with a
//! call, `job` with its answer.

use fishplate_contract::lexical::trimmed;
use fishplate_contract::{CallOptions, Fault, FaultCode, JobId};

use crate::envelope::{ArrayForm, Element, HeaderBlock};
use crate::name::{OPTIONS, QName};

/// Headers of ours that a server understands.
pub(crate) const UNDERSTOOD: [&str; 2] = ["key", ARRAYS];

/// Tells how arrays are to stand in the answer.
const ARRAYS: &str = "arrays";

/// The options among these headers.
///
/// # Errors
/// `InvalidValue` if one is empty, stands twice or has a value that is none.
pub(crate) fn read(headers: &[HeaderBlock]) -> Result<CallOptions, Fault> {
    let mut options = CallOptions::default();
    for header in headers.iter().filter(|header| header.element.name.is(OPTIONS, "key")) {
        let key = trimmed(&header.element.text);
        if key.is_empty() || options.key.is_some() {
            let message = "the header key holds one key that is not empty, and stands once";
            return Err(Fault::new(FaultCode::InvalidValue, message));
        }
        options.key = Some(key.to_owned());
    }
    let told = headers.iter().filter(|header| header.element.name.is(OPTIONS, ARRAYS)).count();
    if told > usize::from(arrays(headers).is_some()) {
        let message = "the header arrays is elements or binary, and stands once";
        return Err(Fault::new(FaultCode::InvalidValue, message));
    }
    Ok(options)
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
    let key = options.key.iter().map(|key| block("key", key.clone()));
    key.chain(arrays.map(|arrays| block(ARRAYS, arrays.name().to_owned()))).collect()
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
mod tests {
    use super::*;

    #[test]
    fn a_key_travels_in_a_header() {
        let options = CallOptions { key: Some("a b".to_owned()), ..CallOptions::default() };
        assert_eq!(read(&write(&options, None)).unwrap(), options);
        assert_eq!(read(&[]).unwrap(), CallOptions::default());
        for wrong in [vec![block("key", " ".into())], vec![block("key", "a".into()); 2]] {
            assert_eq!(read(&wrong).unwrap_err().code, FaultCode::InvalidValue);
        }
    }

    #[test]
    fn the_form_of_arrays_travels_in_a_header() {
        for form in ArrayForm::ALL {
            let headers = write(&CallOptions::default(), Some(form));
            assert_eq!(arrays(&headers), Some(form));
            assert!(read(&headers).is_ok());
        }
        let told = |text: &str| block(ARRAYS, text.to_owned());
        assert_eq!(arrays(&[]), None);
        for wrong in [vec![told("text")], vec![told("binary"), told("binary")]] {
            assert_eq!(read(&wrong).unwrap_err().code, FaultCode::InvalidValue);
        }
    }

    #[test]
    fn an_answer_tells_its_job() {
        let job = JobId::from_bytes([7; 16]);
        assert_eq!(read_job(&[write_job(job)]), Some(job));
        assert_eq!(read_job(&[block("job", "7".into())]), None);
    }
}
