//! How a root part and its attachments travel together.

/// A packaging that we speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packaging {
    /// The envelope alone; binary values are base64.
    #[default]
    Plain,
    /// MTOM: XOP in `multipart/related` (W3C Recommendation 2005-01-25).
    Mtom,
}
