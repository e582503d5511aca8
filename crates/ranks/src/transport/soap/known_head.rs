//! A head that comes with every message of a rank.

use fishplate_wire::media::MediaType;

use crate::transport::soap::http::{Body, RequestHead};
use crate::transport::soap::incoming::BUFFER;
use crate::transport::soap::layout::{Layout, read_number};
use crate::transport::soap::reception::Reception;

/// The head of a rank's requests, as it was accepted: those after it are the same but for their length.
pub(super) struct KnownHead {
    before: Vec<u8>,
    behind: Vec<u8>,
    pub(super) head: RequestHead,
    pub(super) layout: Layout,
}

impl KnownHead {
    /// What a head tells that may be a rank's: its length, which it says once, and the boundary that makes the layout, which
    /// has to fit into what is read ahead. No rank waits to be told to go on.
    pub(super) fn new(text: &[u8], head: &RequestHead, reception: &Reception) -> Option<Self> {
        let Body::Length(_) = head.body else { return None };
        if head.expects_continue {
            return None;
        }
        let media = MediaType::parse(&head.content_type);
        let boundary =
            media.parameter("boundary").filter(|_| media.essence == "multipart/related")?;
        const NAME: &[u8] = b"\ncontent-length:";
        let is_name = |part: &[u8]| part.eq_ignore_ascii_case(NAME);
        let at = text.windows(NAME.len()).position(is_name)? + NAME.len();
        if text[at..].windows(NAME.len()).any(is_name) {
            return None;
        }
        let digits = at + text[at..].iter().take_while(|byte| **byte == b' ').count();
        let end = digits + text[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let layout = Layout::new(reception.domain, reception.rank, boundary);
        (layout.length() <= BUFFER).then(|| Self {
            before: text[..digits].to_vec(),
            behind: text[end..].to_vec(),
            head: head.clone(),
            layout,
        })
    }

    /// The length of a body whose head is this one, and that of the head.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<(u64, usize)> {
        let rest = bytes.strip_prefix(self.before.as_slice())?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = read_number(&rest[..digits])?;
        let is_same = digits > 0 && rest[digits..].starts_with(&self.behind);
        is_same.then_some((length, self.before.len() + digits + self.behind.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Credential;
    use crate::header::DomainId;
    use crate::settings::Settings;
    use crate::transport::soap::http::read_request;
    use crate::transport::soap::layout::content_type;

    fn is_known(boundary: &str, fields: &str) -> bool {
        let text = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {}\r\nContent-Length: 7\r\n{fields}\r\n",
            content_type(boundary)
        );
        let (head, _) = read_request(text.as_bytes()).unwrap().unwrap();
        let (domain, credential) = (DomainId::from_bytes([0; 16]), Credential::from_bytes([0; 32]));
        let reception = Reception::new(domain, 0, credential, &Settings::default());
        KnownHead::new(text.as_bytes(), &head, &reception).is_some()
    }

    #[test]
    fn only_a_head_as_ranks_write_it_is_known() {
        assert!(is_known("b", ""));
        assert!(!is_known("b", "content-length: 7\r\n"));
        assert!(!is_known("b", "Expect: 100-continue\r\n"));
        assert!(!is_known(&"b".repeat(BUFFER / 2), ""));
    }
}
