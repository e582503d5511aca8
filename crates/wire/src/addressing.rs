//! WS-Addressing 1.0 and the submission of August 2004.

/// The addressing headers of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Namespace of the version used; empty if the message has no addressing headers.
    pub namespace: &'static str,
    /// `MessageID`.
    pub message_id: Option<String>,
    /// `RelatesTo` (the first).
    pub relates_to: Option<String>,
    /// `To`.
    pub to: Option<String>,
    /// `Action`.
    pub action: Option<String>,
}
