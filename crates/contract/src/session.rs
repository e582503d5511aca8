//! Sessions (paper 000, section 4.4): a space on a server in which programs share files.

use crate::id::hex_id;

hex_id! {
    /// A session's name: 128 random bits as 32 lower-case hexadecimal digits. Unguessable, though
    /// its owner is checked all the same.
    SessionId, NotASessionId, "session"
}
