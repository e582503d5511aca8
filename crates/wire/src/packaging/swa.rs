//! SOAP with Attachments (W3C Note 2000-12-11; WS-I Attachments Profile 1.0).
//!
//! A value's element refers to its part twice: by `href`, which Axis 1.4 and gSOAP look for (Note,
//! section 3), and by the URL as its text, the profile's `swaRef` (section 4.4), which JAXB looks
//! for. Each passes over the other.

use fishplate_contract::Payload;

use super::related::Attachments;
use super::{Packaging, Writer, action_parameter, writer};
use crate::envelope::SoapVersion;
use crate::pack::{Composer, Packed};

/// Writes the root first, then attachments in document order. A message without attachments is
/// written plain, as the profile wants it (R2945).
#[derive(Default)]
pub(super) struct SwaWriter {
    attachments: Attachments,
}

impl Writer for SwaWriter {
    fn attributes(&mut self, payload: &Payload, root: &mut Composer) {
        let url = self.attachments.add(payload);
        root.push(&format!(" href=\"{url}\""));
    }

    fn value(&mut self, _payload: &Payload, root: &mut Composer) {
        root.push(&self.attachments.last());
    }

    fn finish(
        self: Box<Self>,
        root: Composer,
        version: SoapVersion,
        action: Option<&str>,
    ) -> Packed {
        if self.attachments.is_empty() {
            return writer(Packaging::Plain).finish(root, version, action);
        }
        let kind = version.media_type();
        let action = action_parameter(version, action);
        let root_type = format!("{kind}; charset=utf-8");
        self.attachments.message(root, &root_type, &format!("type=\"{kind}\"{action}"))
    }
}
