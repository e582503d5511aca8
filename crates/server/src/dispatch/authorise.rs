//! Whether whoever asks may: the one check that everything that is done for a caller passes.

use std::fmt::{self, Debug};

use fishplate_contract::interface::{DATA, DOMAINS, MCP, OGC, SITES, SOLE_OPERATION};
use fishplate_contract::{Fault, FaultCode, Principal, Verb, lexical};

use crate::providers::{domain, session};

/// What can be done with a service, or at an address of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A verb of a service.
    Verb(Verb),
    /// Read the description of a service: its page, its WSDL, its line in the list of services.
    Describe,
    /// Have the server fetch an argument of a call from elsewhere.
    Fetch,
    /// Have the server deliver an output to another place.
    Deliver,
    /// Put data into the pool.
    Upload,
    /// Take back what was granted of the pool.
    Revoke,
    /// Read what is at an address: data, a session's file, counters.
    Read,
    /// Reach a rank, or a site, through the server's port.
    Pass,
    /// Be reached through the server's port as the site that is the operation.
    Register,
    /// Have results of an equal call of others who may do so too, and give them one's own.
    Reuse,
}

impl Action {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let others = [
            Self::Describe,
            Self::Fetch,
            Self::Deliver,
            Self::Upload,
            Self::Revoke,
            Self::Read,
            Self::Pass,
            Self::Register,
            Self::Reuse,
        ];
        Verb::ALL.into_iter().map(Self::Verb).chain(others)
    }

    /// Its name in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verb(verb) => verb.name(),
            Self::Describe => "describe",
            Self::Fetch => "fetch",
            Self::Deliver => "deliver",
            Self::Upload => "upload",
            Self::Revoke => "revoke",
            Self::Read => "read",
            Self::Pass => "pass",
            Self::Register => "register",
            Self::Reuse => "reuse",
        }
    }

    /// The action of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|action| action.name() == name)
    }
}

/// Who wants to do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// Who wants it.
    pub principal: &'a Principal,
    /// Of which service; [`DATA`], [`METRICS`](fishplate_contract::interface::METRICS), `domains` and `sites` stand for addresses of the server.
    pub service: &'a str,
    /// Of which operation, or site; empty for what is about jobs whatever their operation, and at addresses.
    pub operation: &'a str,
    /// What is to be done.
    pub action: Action,
}

impl Access<'_> {
    /// Whether the address is the permission: grants, and files of sessions; or what is shown there, as a domain's credential, or at a site. Only what refuses them
    /// by name does.
    pub fn is_by_address(&self) -> bool {
        matches!(
            (self.action, self.service),
            (Action::Read, DATA | session::NAME) | (Action::Pass, DOMAINS | SITES)
        )
    }

    /// The fault of whom this is refused. It says what would be needed, and nothing of what there is.
    pub fn forbidden(&self) -> Fault {
        // Any right to a service brings its description.
        let needed = match self.action {
            Action::Describe => self.told("a right to use"),
            action => self.told(&format!("{} of", action.name())),
        };
        let message =
            format!("this needs {needed}, which the operator of this server has not allowed");
        Fault::new(FaultCode::Forbidden, message)
    }

    fn told(&self, what: &str) -> String {
        let Self { principal, service, operation, .. } = *self;
        let operation = match operation {
            "" | SOLE_OPERATION => String::new(),
            operation => format!(" (operation {operation})"),
        };
        let who = match principal.as_str() {
            "" => "callers without a name".to_owned(),
            name => lexical::shortened(name).to_string(),
        };
        format!("{what} {}{operation} for {who}", lexical::shortened(service))
    }
}

/// `call of heat (operation solve) for ada`.
impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(&format!("{} of", self.action.name())))
    }
}

/// Whether a service is one that the credential of whoever asks is good for. The service `domain` is every credential's, and so
/// are addresses of OGC API - Processes that name no service, and tools of assistants: they ask for each service that is
/// concerned.
///
/// # Errors
/// `Forbidden`.
pub fn is_within(principal: &Principal, service: &str) -> Result<(), Fault> {
    if [domain::NAME, OGC, MCP].contains(&service) || principal.is_for(service) {
        return Ok(());
    }
    let message = format!(
        "this token is good for {} only (`fishplate token create --service`)",
        principal.services().join(", ")
    );
    Err(Fault::new(FaultCode::Forbidden, message))
}

/// Decides who may do what.
pub trait Authoriser: Debug + Send + Sync {
    /// Nothing is done for whom this refuses.
    ///
    /// # Errors
    /// The fault that the caller gets.
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault>;
}

/// Everybody who can reach the server may do everything, but take the name of a site, at which others would take them for it, and have
/// others' results.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Authoriser for AllowAll {
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault> {
        match access.action {
            Action::Register | Action::Reuse => Err(access.forbidden()),
            _ => Ok(()),
        }
    }
}
