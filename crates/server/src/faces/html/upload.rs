//! Where data goes.

use std::fmt::Write as _;

use fishplate_contract::Principal;
use fishplate_contract::interface::DATA;
use fishplate_contract::lexical::escaped;

use crate::dispatch::authorise::{Access, Action, is_within};
use crate::host::Host;

/// Whether somebody may put data here.
pub(super) fn is_allowed(host: &Host, caller: &Principal) -> bool {
    let action = Action::Upload;
    let access = Access { principal: caller, service: DATA, operation: "", action };
    is_within(caller, DATA).is_ok() && host.authoriser.authorise(&access).is_ok()
}

/// How it is put here.
pub(super) fn how(body: &mut String, host: &Host) {
    if host.data.uploads.is_some() {
        let _ = writeln!(
            body,
            "<p>Put a file there; the answer is a reference to it, for calls of services here and \
             elsewhere:</p>\n<pre>curl -T FILE {}/data/</pre>",
            escaped(&host.settings.public_url)
        );
    }
}
