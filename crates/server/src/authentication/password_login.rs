//! A user who logs in with a password, however it came.

use std::net::IpAddr;

use fishplate_contract::{Fault, FaultCode};

use super::authenticator::{Identity, Refusal};
use super::password::{PasswordCheck, Verdict};
use super::users::{LONGEST, User, UserFile};
use crate::settings::Settings;

/// The users of a file, and how often their passwords were wrong.
#[derive(Debug)]
pub(super) struct PasswordLogin {
    users: UserFile,
    check: PasswordCheck,
}

impl PasswordLogin {
    pub(super) fn new(users: UserFile, settings: &Settings) -> Self {
        Self { users, check: PasswordCheck::new(settings) }
    }

    /// Who this is, if the password is theirs.
    ///
    /// # Errors
    /// `Unauthenticated`, also if there were too many wrong ones; `QueueFull`; `Internal` if it can't be known.
    pub(super) async fn identity(
        &self,
        client: IpAddr,
        user: &str,
        password: &str,
    ) -> Result<Identity, Refusal> {
        if user.len().max(password.len()) > LONGEST {
            return Err(wrong().into());
        }
        let users = self.users.all().map_err(|_| unusable())?;
        let hash = users.get(user).map(User::hash);
        let refusal = |fault| match hash {
            Some(_) => Refusal::of(user, fault),
            None => Refusal::from(fault),
        };
        match self.check.look(client, user, hash, password).await {
            Verdict::Right => Ok(Identity::named(user, "password")),
            Verdict::Wrong => Err(refusal(wrong())),
            Verdict::TooMany(limit) => {
                let message = "there were too many wrong passwords; this one was not looked at";
                Err(refusal(limit.of(unauthenticated(message))))
            }
            Verdict::Busy(limit) => {
                let message = "too many passwords are being looked at; this one was not: try again";
                Err(refusal(limit.of(Fault::new(FaultCode::QueueFull, message))))
            }
        }
    }
}

fn wrong() -> Fault {
    unauthenticated("there is no such user, or the password is another one")
}

pub(super) fn unauthenticated(message: impl Into<String>) -> Fault {
    Fault::new(FaultCode::Unauthenticated, message)
}

/// Nobody gets in; why, is the operator's affair, and in the log.
pub(super) fn unusable() -> Fault {
    Fault::new(FaultCode::Internal, "this server can't look up who may log in; its log says why")
}
