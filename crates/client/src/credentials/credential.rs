//! A token, or a user and a password.

use std::fmt;
use std::path::Path;

use http::HeaderValue;

use crate::error::Error;

/// The longest token that is read from a file, in bytes.
const LONGEST: usize = 64 << 10;

/// What says who calls. Its text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token (HTTP Bearer, RFC 6750).
    Token(String),
    /// A user and a password (HTTP Basic, RFC 7617).
    Password {
        /// Name of the user.
        user: String,
        /// The password.
        password: String,
    },
}

impl Credential {
    /// The token in the first line of a file.
    ///
    /// # Errors
    /// [`Error::Credentials`].
    pub fn token_file(path: &Path) -> Result<Self, Error> {
        let unusable = |reason: String| Error::Credentials { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.is_empty() || token.len() > LONGEST {
            return Err(unusable("its first line is no token".to_owned()));
        }
        Ok(Self::Token(token.to_owned()))
    }

    /// The value of `Authorization`; `None` if it holds what no header can.
    pub fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Self::Token(token) => format!("Bearer {token}"),
            Self::Password { user, .. } if user.contains(':') => return None,
            Self::Password { user, password } => {
                let told = format!("{user}:{password}");
                format!("Basic {}", base64_simd::STANDARD.encode_to_string(told))
            }
        };
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token"),
            Self::Password { user, .. } => f.debug_struct("Password").field("user", user).finish(),
        }
    }
}
