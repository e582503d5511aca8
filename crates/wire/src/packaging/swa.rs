//! SOAP with Attachments (W3C Note 2000-12-11; WS-I Attachments Profile 1.0).
//!
//! A value's element refers to its part twice: by `href`, which a `Call` of Axis 1.4 looks for (Note,
//! section 3), and by the URL as its text, the profile's `swaRef` (section 4.4), which JAXB looks
//! for. Both pass over the other, but stubs of Axis 1.4, which take a `swaRef` for a URI, do not: who
//! calls the address in the WSDL of this binding gets the text alone.

use fishplate_contract::Payload;

use super::related::Attachments;
use super::{Packaging, PackagingWriter, action_parameter, writer};
use crate::envelope::SoapVersion;
use crate::pack::{PackedMessage, SegmentBuilder};

/// Writes the root first, then attachments in document order. A message without attachments is
/// written plain, as the profile wants it (R2945).
#[derive(Default)]
pub(super) struct SwaWriter {
    attachments: Attachments,
    /// Whether the text alone refers to a part.
    swa_ref: bool,
}

impl SwaWriter {
    /// A writer whose texts alone refer to parts.
    pub(super) fn of_swa_ref() -> Self {
        Self { swa_ref: true, ..Self::default() }
    }
}

impl PackagingWriter for SwaWriter {
    fn attributes(&mut self, payload: &Payload, root: &mut SegmentBuilder) {
        let url = self.attachments.add(payload);
        if !self.swa_ref {
            root.push(&format!(" href=\"{url}\""));
        }
    }

    fn value(&mut self, _payload: &Payload, root: &mut SegmentBuilder) {
        root.push(&self.attachments.last());
    }

    fn finish(
        self: Box<Self>,
        root: SegmentBuilder,
        version: SoapVersion,
        action: Option<&str>,
    ) -> PackedMessage {
        if self.attachments.is_empty() {
            return writer(Packaging::Plain).finish(root, version, action);
        }
        let kind = version.media_type();
        let action = action_parameter(version, action);
        let root_type = format!("{kind}; charset=utf-8");
        self.attachments.message(root, &root_type, &format!("type=\"{kind}\"{action}"))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::envelope::{Body, Child, Envelope, ValueContent};
    use crate::name::QName;
    use crate::outgoing::Segment;
    use crate::pack::pack_reply;
    use crate::unpack::MessageHead;
    use crate::write::ReplyForm;

    fn answer(query: Option<&str>) -> String {
        let head = MessageHead {
            content_type: "multipart/related; type=text/xml",
            query,
            ..MessageHead::default()
        };
        let form = ReplyForm::of_head(&head);
        let copy = Child {
            name: QName::new("urn:t", "copy"),
            label: None,
            content: ValueContent::Data(Bytes::from_static(b"five!").into()),
        };
        let body =
            Body::Wrapper { name: QName::new("urn:t", "callResponse"), children: vec![copy] };
        let envelope = Envelope { version: form.version, headers: Vec::new(), body };
        let packed = pack_reply(&envelope, &form);
        let text = |segment: &Segment| match segment {
            Segment::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?} in a small answer"),
        };
        packed.segments.iter().map(text).collect()
    }

    #[test]
    fn the_address_of_its_wsdl_gets_references_by_text_alone() {
        for (query, href) in
            [(None, true), (Some("binding=dime"), true), (Some("binding=swa"), false)]
        {
            let answer = answer(query);
            assert_eq!(answer.contains(" href=\"cid:1."), href, "{answer}");
            assert!(answer.contains(">cid:1."), "{answer}");
            assert!(answer.contains("five!"), "{answer}");
        }
    }
}
