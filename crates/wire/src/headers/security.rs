//! WS-Security (OASIS SOAP Message Security 1.1.1): who sends a message, by a UsernameToken (UsernameToken Profile
//! 1.1.1), and how long it holds, by a Timestamp. A block of it is understood by who checks both and nobody else, so
//! it is [taken](take) out of the message; one that is left is not understood.

use std::fmt;

use base64_simd::forgiving_decode_to_vec;
use fishplate_contract::lexical::{shortened, trimmed};
use fishplate_contract::{Fault, FaultCode};

use super::table::{HeaderKind, is_for_us};
use crate::envelope::{HeaderBlock, SoapVersion, XmlElement};
use crate::name::{QName, WSSE, WSU};

/// The block.
const SECURITY: &str = "Security";

/// What types of passwords begin with (UsernameToken Profile 1.1.1, section 3.1).
const PROFILE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#";

/// What a header `Security` says, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeader {
    /// Who sends the message.
    pub token: Option<UsernameToken>,
    /// `Created` of the Timestamp, as sent.
    pub created: Option<String>,
    /// `Expires` of the Timestamp, as sent.
    pub expires: Option<String>,
}

/// A UsernameToken, unchecked.
#[derive(Clone, PartialEq, Eq)]
pub struct UsernameToken {
    /// The user.
    pub username: String,
    /// What shows that it is.
    pub password: TokenPassword,
    /// A number that is used once.
    pub nonce: Option<Vec<u8>>,
    /// When it was made, as sent: the digest is of this text.
    pub created: Option<String>,
}

/// The password of a UsernameToken.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenPassword {
    /// `PasswordText`: as it is.
    Text(String),
    /// `PasswordDigest`: SHA-1 of nonce, `created` and the password.
    Digest(Vec<u8>),
}

/// Without the password and what could be tried as one.
impl fmt::Debug for UsernameToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsernameToken").finish_non_exhaustive()
    }
}

pub(crate) struct WsSecurity;

impl HeaderKind for WsSecurity {
    fn namespaces(&self) -> &'static [&'static str] {
        &[WSSE]
    }

    /// What has been checked is gone.
    fn understands(&self, _: &XmlElement) -> bool {
        false
    }

    /// SOAP Message Security, section 12.
    fn fault_codes(&self, headers: &[HeaderBlock], code: FaultCode) -> Vec<QName> {
        let failed = code == FaultCode::Unauthenticated
            && headers.iter().any(|header| header.element.name.is(WSSE, SECURITY));
        failed.then(|| QName::new(WSSE, "FailedAuthentication")).into_iter().collect()
    }
}

/// Takes what the block that is for us says out of it. An empty one stays, so that a fault can be about it.
///
/// # Errors
/// `Unauthenticated` if it is no block as its specification has it, `MustUnderstand` if it holds what is not understood.
pub(crate) fn take(
    version: SoapVersion,
    headers: &mut [HeaderBlock],
) -> Result<Option<SecurityHeader>, Fault> {
    let mut ours = headers.iter_mut().filter(|header| {
        header.element.name.is(WSSE, SECURITY) && is_for_us(version, header.role.as_deref())
    });
    let Some(block) = ours.next() else { return Ok(None) };
    let children = std::mem::take(&mut block.element.children);
    if ours.next().is_some() {
        return Err(wrong("stands twice; send it once"));
    }
    let mut header = SecurityHeader::default();
    let mut timestamp = None;
    for child in &children {
        let twice = if child.name.is(WSSE, "UsernameToken") {
            header.token.replace(username_token(child)?).is_some()
        } else if child.name.is(WSU, "Timestamp") {
            timestamp.replace(child).is_some()
        } else {
            return Err(not_understood(child));
        };
        if twice {
            return Err(wrong(format_args!("holds two {}; send one", child.name.local)));
        }
    }
    header.created = timestamp.and_then(|it| text(it, WSU, "Created"));
    header.expires = timestamp.and_then(|it| text(it, WSU, "Expires"));
    block.must_understand = false;
    Ok(Some(header))
}

fn username_token(element: &XmlElement) -> Result<UsernameToken, Fault> {
    const KNOWN: [(&str, &str); 4] =
        [(WSSE, "Username"), (WSSE, "Password"), (WSSE, "Nonce"), (WSU, "Created")];
    let is_known = |child: &&XmlElement| {
        KNOWN.iter().any(|(namespace, local)| child.name.is(namespace, local))
    };
    if let Some(other) = element.children.iter().find(|child| !is_known(child)) {
        return Err(not_understood(other));
    }
    let username = text(element, WSSE, "Username").unwrap_or_default();
    if username.is_empty() {
        return Err(wrong("has a UsernameToken without a Username"));
    }
    let password = element.children.iter().find(|child| child.name.is(WSSE, "Password"));
    let password = password.ok_or_else(|| wrong("has a UsernameToken without a Password"))?;
    let stated = password.attribute("", "Type").map_or("", trimmed);
    let password = match stated.strip_prefix(PROFILE) {
        Some("PasswordText") => TokenPassword::Text(password.text.clone()),
        Some("PasswordDigest") => TokenPassword::Digest(base64(&password.text, "PasswordDigest")?),
        None if stated.is_empty() => TokenPassword::Text(password.text.clone()),
        _ => {
            let stated = shortened(stated);
            return Err(wrong(format_args!(
                "has a Password of the Type {stated:?}; it is {PROFILE}PasswordText or PasswordDigest"
            )));
        }
    };
    let nonce = text(element, WSSE, "Nonce").map(|nonce| base64(&nonce, "Nonce")).transpose()?;
    Ok(UsernameToken { username, password, nonce, created: text(element, WSU, "Created") })
}

fn base64(text: &str, what: &str) -> Result<Vec<u8>, Fault> {
    forgiving_decode_to_vec(text.as_bytes())
        .map_err(|_| wrong(format_args!("has a {what} that is no base64")))
}

fn text(element: &XmlElement, namespace: &str, local: &str) -> Option<String> {
    let child = element.children.iter().find(|child| child.name.is(namespace, local))?;
    Some(trimmed(&child.text).to_owned())
}

fn not_understood(element: &XmlElement) -> Fault {
    let message = format!(
        "the header Security holds {}, which is not understood here: it takes one UsernameToken and one Timestamp",
        element.name
    );
    Fault::new(FaultCode::MustUnderstand, message)
}

fn wrong(what: impl fmt::Display) -> Fault {
    Fault::new(FaultCode::Unauthenticated, format!("the header Security {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack::tests::call_with;

    const VERSIONS: [SoapVersion; 2] = [SoapVersion::V11, SoapVersion::V12];

    /// The header blocks of a message with this in its Security, which must be understood.
    fn headers(version: SoapVersion, attributes: &str, content: &str) -> Vec<HeaderBlock> {
        let block = format!(
            "<wsse:Security xmlns:wsse='{WSSE}' xmlns:wsu='{WSU}' xmlns:e='{}' e:mustUnderstand='1' \
             {attributes}>{content}</wsse:Security>",
            version.namespace()
        );
        call_with(version, &block).envelope.headers
    }

    fn taken(content: &str) -> Result<Option<SecurityHeader>, Fault> {
        take(SoapVersion::V11, &mut headers(SoapVersion::V11, "", content))
    }

    fn token(password: &str) -> String {
        format!(
            "<wsse:UsernameToken wsu:Id='u'><wsse:Username> ada </wsse:Username>{password}</wsse:UsernameToken>"
        )
    }

    #[test]
    fn a_token_is_read_and_leaves_nothing_in_the_message() {
        for version in VERSIONS {
            let digest = token(&format!(
                "<wsse:Password Type='{PROFILE}PasswordDigest'>AQI=</wsse:Password>\
                 <wsse:Nonce EncodingType='x#Base64Binary'>\nAwQ=</wsse:Nonce>\
                 <wsu:Created>2026-11-22T21:00:00Z</wsu:Created>"
            ));
            let stamp = "<wsu:Timestamp><wsu:Created>a</wsu:Created><wsu:Expires>b</wsu:Expires></wsu:Timestamp>";
            let mut blocks = headers(version, "", &format!("{stamp}{digest}"));
            let header = take(version, &mut blocks).unwrap().unwrap();
            let expected = UsernameToken {
                username: "ada".to_owned(),
                password: TokenPassword::Digest(vec![1, 2]),
                nonce: Some(vec![3, 4]),
                created: Some("2026-11-22T21:00:00Z".to_owned()),
            };
            assert!(header.token == Some(expected));
            assert_eq!(
                (header.created.as_deref(), header.expires.as_deref()),
                (Some("a"), Some("b"))
            );
            assert!(blocks[0].element.children.is_empty() && !blocks[0].must_understand);
            assert_eq!(
                WsSecurity.fault_codes(&blocks, FaultCode::Unauthenticated)[0].namespace,
                WSSE
            );
            assert!(WsSecurity.fault_codes(&blocks, FaultCode::Forbidden).is_empty());
        }
    }

    #[test]
    fn a_password_is_text_unless_it_says_otherwise_and_is_never_shown() {
        for attribute in ["", " Type=''", &format!(" Type='{PROFILE}PasswordText'")] {
            let password = format!("<wsse:Password{attribute}> se cret </wsse:Password>");
            let header = taken(&token(&password)).unwrap().unwrap();
            let shown = format!("{header:?}");
            assert!(header.token.unwrap().password == TokenPassword::Text(" se cret ".to_owned()));
            assert!(!shown.contains("cret") && !shown.contains("ada"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_token_says_why() {
        let two = token("<wsse:Password>x</wsse:Password>").repeat(2);
        for (content, told) in [
            (token(""), "without a Password"),
            ("<wsse:UsernameToken/>".to_owned(), "without a Username"),
            (token("<wsse:Password Type='urn:x'>x</wsse:Password>"), "\"urn:x\""),
            (token("<wsse:Password>x</wsse:Password><wsse:Nonce>?</wsse:Nonce>"), "no base64"),
            (two, "two UsernameToken"),
        ] {
            let fault = taken(&content).unwrap_err();
            assert_eq!(fault.code, FaultCode::Unauthenticated, "{content}");
            assert!(fault.message.contains(told), "{}", fault.message);
        }
    }

    #[test]
    fn what_is_not_understood_is_a_fault_and_stays_marked() {
        for content in ["<wsse:BinarySecurityToken/>", &token("<Salt xmlns='urn:x'/>"), "<x/>"] {
            let mut blocks = headers(SoapVersion::V12, "", content);
            let fault = take(SoapVersion::V12, &mut blocks).unwrap_err();
            assert_eq!(fault.code, FaultCode::MustUnderstand, "{content}");
            assert!(blocks[0].must_understand);
        }
    }

    #[test]
    fn a_block_for_somebody_else_is_not_ours_and_one_for_us_is_there_once() {
        let mut blocks = headers(SoapVersion::V11, "e:actor='urn:somebody'", "<x/>");
        assert_eq!(take(SoapVersion::V11, &mut blocks), Ok(None));
        assert_eq!(take(SoapVersion::V11, &mut []), Ok(None));
        let mut blocks = headers(SoapVersion::V11, "", "");
        blocks.extend(blocks.clone());
        let fault = take(SoapVersion::V11, &mut blocks).unwrap_err();
        assert!(fault.message.contains("twice"), "{}", fault.message);
    }
}
