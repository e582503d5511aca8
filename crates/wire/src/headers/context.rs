//! WS-Context 1.0 (OASIS WS-CAF, 2 April 2007): a context whose identifier is
//! `urn:fishplate:session:ID` names a session. Contexts of other kinds are none of our business.

use fishplate_contract::lexical::trimmed;
use fishplate_contract::{CallOptions, Fault, FaultCode};

use super::options::{SESSION, invalid, session_id};
use super::table::{HeaderKind, HeaderReply};
use crate::envelope::{HeaderBlock, XmlElement};
use crate::name::{SESSION_URN, WSCTX};
use crate::write::ReplyForm;

/// The text of its element `context-identifier`.
const IDENTIFIER: &str = "context-identifier";

pub(crate) struct WsContext;

impl HeaderKind for WsContext {
    fn namespaces(&self) -> &'static [&'static str] {
        &[WSCTX]
    }

    fn understands(&self, block: &XmlElement) -> bool {
        session_of(block).is_some()
    }

    /// Our own header may name the same session beside it.
    fn read(&self, headers: &[HeaderBlock], options: &mut CallOptions) -> Result<(), Fault> {
        let Some(other) = session(headers)?.map(session_id).transpose()? else { return Ok(()) };
        match options.session.replace(other) {
            Some(own) if own != other => {
                Err(invalid(SESSION, format!("names {own}, but the header context names {other}")))
            }
            _ => Ok(()),
        }
    }

    /// The context of the call again. What its attributes said (to whom it was addressed, that it had to
    /// be understood) is not for the caller.
    fn answer(&self, form: &ReplyForm, _: &HeaderReply<'_>) -> Vec<HeaderBlock> {
        let context = form.headers.iter().find(|header| self.understands(&header.element));
        let bare = |header: &HeaderBlock| {
            let element = XmlElement { attributes: Vec::new(), ..header.element.clone() };
            HeaderBlock::optional(element)
        };
        context.map(bare).into_iter().collect()
    }
}

/// The session that a context among these headers names.
///
/// # Errors
/// `InvalidValue` if two contexts name different ones.
fn session(headers: &[HeaderBlock]) -> Result<Option<&str>, Fault> {
    let mut named = headers.iter().filter_map(|header| session_of(&header.element));
    let first = named.next();
    if named.any(|other| Some(other) != first) {
        let message = "two headers context name two sessions; a call runs in one";
        return Err(Fault::new(FaultCode::InvalidValue, message).parameter("context"));
    }
    Ok(first)
}

fn session_of(element: &XmlElement) -> Option<&str> {
    if !element.name.is(WSCTX, "context") {
        return None;
    }
    let identifier = element.children.iter().find(|child| child.name.is(WSCTX, IDENTIFIER))?;
    let identifier = trimmed(&identifier.text);
    let scheme = identifier.get(..SESSION_URN.len())?;
    // A URN's first two parts know no case (RFC 8141, section 3.1).
    scheme.eq_ignore_ascii_case(SESSION_URN).then(|| &identifier[SESSION_URN.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::QName;

    fn context(identifier: &str) -> HeaderBlock {
        let child = |local: &str, text: &str| XmlElement::with_text(QName::new(WSCTX, local), text);
        let element = XmlElement {
            name: QName::new(WSCTX, "context"),
            attributes: vec![(QName::new("", "expiresAt"), "2026-11-21T00:00:00Z".to_owned())],
            children: vec![child(IDENTIFIER, identifier), child("type", "urn:x")],
            ..XmlElement::default()
        };
        HeaderBlock { must_understand: true, role: Some("urn:r".to_owned()), element }
    }

    #[test]
    fn only_our_contexts_name_sessions() {
        for (identifier, named) in [
            ("urn:fishplate:session:a1", Some("a1")),
            (" URN:Fishplate:SESSION:a1\n", Some("a1")),
            ("urn:fishplate:session:", Some("")),
            ("urn:fishplate:sessio", None),
            ("http://e.example/é", None),
            ("", None),
        ] {
            assert_eq!(session(&[context(identifier)]), Ok(named), "{identifier}");
            assert_eq!(WsContext.understands(&context(identifier).element), named.is_some());
        }
        let mut older = context("urn:fishplate:session:a1");
        older.element.name.namespace = "urn:other".to_owned();
        assert_eq!(session(&[older]), Ok(None));
    }

    #[test]
    fn two_contexts_name_one_session() {
        let (one, other) = (context("urn:fishplate:session:a"), context("urn:fishplate:session:b"));
        assert_eq!(session(&[one.clone(), context("urn:x"), one.clone()]), Ok(Some("a")));
        let fault = session(&[one, other]).unwrap_err();
        assert_eq!(fault.code, FaultCode::InvalidValue);
        assert_eq!(fault.parameter.as_deref(), Some("context"));
    }

    #[test]
    fn an_answer_repeats_the_context_but_not_its_attributes() {
        let answer = |headers: &[HeaderBlock]| {
            let form = ReplyForm::of_head(&crate::MessageHead::default());
            let form = ReplyForm { headers: headers.to_vec(), ..form };
            WsContext.answer(&form, &HeaderReply::Fault(&Fault::new(FaultCode::Internal, "")))
        };
        let sent = [context("urn:x"), context("urn:fishplate:session:a")];
        let back = &answer(&sent)[0];
        assert_eq!((back.must_understand, &back.role), (false, &None));
        assert!(back.element.attributes.is_empty());
        assert_eq!(back.element.children, sent[1].element.children);
        assert_eq!(answer(&sent[..1]), []);
    }
}
