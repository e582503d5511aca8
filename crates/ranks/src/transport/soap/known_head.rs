//! A head that comes with every message of a rank.

use fishplate_wire::media::MediaType;

use crate::transport::soap::http::{Body, RequestHead};
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
    /// What a head tells that may be a rank's: its length, and the boundary that makes the layout.
    pub(super) fn new(text: &[u8], head: &RequestHead, reception: &Reception) -> Option<Self> {
        let Body::Length(_) = head.body else { return None };
        let media = MediaType::parse(&head.content_type);
        let boundary =
            media.parameter("boundary").filter(|_| media.essence == "multipart/related")?;
        const NAME: &[u8] = b"\ncontent-length:";
        let at = text.windows(NAME.len()).position(|part| part.eq_ignore_ascii_case(NAME))?;
        let at = at + NAME.len();
        let digits = at + text[at..].iter().take_while(|byte| **byte == b' ').count();
        let end = digits + text[digits..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        Some(Self {
            before: text[..digits].to_vec(),
            behind: text[end..].to_vec(),
            head: head.clone(),
            layout: Layout::new(reception.domain, reception.rank, boundary),
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
