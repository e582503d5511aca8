//! What says who calls, and to whom it is said: to the scheme, host and port that it is for, and to nobody else,
//! wherever an address or a redirect leads.
//!
//! Reading order:
//!
//! - [`credential`]: a token, or a user and a password
//! - [`origin`]: scheme, host and port
//! - [`known`]: all that a user of this machine has, and which of it goes where
//! - [`logins`]: the file that `fishplate login` writes
//! - [`login`](mod@login): whether a server takes one

pub mod credential;
pub mod known;
pub mod login;
pub mod logins;
pub mod origin;

pub use credential::Credential;
pub use known::Credentials;
pub use login::{LoginAnswer, login};
pub use logins::Logins;
pub use origin::Origin;
