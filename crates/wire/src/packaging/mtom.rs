//! MTOM (W3C Recommendation 2005-01-25): XOP in `multipart/related`.

use fishplate_contract::Payload;

use super::related::Attachments;
use super::{Packaging, PackagingWriter, action_parameter, writer};
use crate::envelope::SoapVersion;
use crate::name::XOP;
use crate::pack::{PackedMessage, SegmentBuilder};

/// Writes the root first, then attachments in document order (section 3.2). A message without
/// attachments is written plain: everybody reads that.
#[derive(Default)]
pub(super) struct MtomWriter {
    attachments: Attachments,
}

impl PackagingWriter for MtomWriter {
    fn value(&mut self, payload: &Payload, root: &mut SegmentBuilder) {
        let url = self.attachments.add(payload);
        root.push(&format!("<xop:Include xmlns:xop=\"{XOP}\" href=\"{url}\"/>"));
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
        let info = version.media_type();
        let root_type = format!("application/xop+xml; charset=utf-8; type=\"{info}\"");
        let action = action_parameter(version, action);
        let told = format!("type=\"application/xop+xml\"; start-info=\"{info}\"{action}");
        self.attachments.message(root, &root_type, &told)
    }
}
