//! Who sent a request, as far as it is known.

use std::net::{IpAddr, Ipv4Addr};

use fishplate_contract::{Fault, FaultCode, Principal};
use fishplate_wire::{SecurityHeader, Unpacker};
use hyper::header::HeaderMap;

use crate::authentication::authenticator::{Peer, RequestHead};
use crate::dispatch::authorise::{Access, Action};
use crate::host::Host;

/// The sender of a request. HTTP's header may leave open who it is, if that of its message can tell.
#[derive(Debug)]
pub struct Sender {
    principal: Option<Principal>,
    peer: Peer,
    client: IpAddr,
    /// The header of the message has been looked at.
    is_asked: bool,
}

/// Somebody of whom nothing more is to be found out.
impl From<Principal> for Sender {
    fn from(principal: Principal) -> Self {
        let client = Ipv4Addr::LOCALHOST.into();
        let peer = Peer::at(client);
        Self { principal: Some(principal), peer, client, is_asked: false }
    }
}

impl Sender {
    /// Who sent a request with this head, as far as that tells.
    pub(super) fn new(principal: Option<Principal>, head: RequestHead<'_>) -> Self {
        // What its certificate tells, the head has told.
        let peer = Peer { certificate: None, ..*head.peer };
        Self { principal, peer, client: head.client, is_asked: false }
    }

    /// Who it is.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// Who it is, once the message's header has been read.
    ///
    /// # Errors
    /// `Unauthenticated`.
    pub(crate) fn known(&self) -> Result<Principal, Fault> {
        let unknown = || Fault::new(FaultCode::Unauthenticated, "it is not known who sent this");
        self.principal.clone().ok_or_else(unknown)
    }

    /// Looks into the header of a message as soon as it is there. Who is known already has to be the one it names. Of
    /// somebody who is not, no more is read than it takes.
    ///
    /// # Errors
    /// `Unauthenticated`, `Forbidden`, `MustUnderstand`, `QueueFull`, or `Internal` if it can't be known.
    pub(crate) async fn read_header(
        &mut self,
        host: &Host,
        service: &str,
        unpacker: &mut Unpacker,
    ) -> Result<(), Fault> {
        if self.is_asked || !host.authenticators.read_envelopes() {
            return Ok(());
        }
        let most = host.settings.login_size;
        let security = if unpacker.has_headers() {
            unpacker.take_security()
        } else if self.principal.is_none() && unpacker.received() > most {
            let message = format!("the first {most} bytes of the message do not say who calls");
            Err(Fault::new(FaultCode::Unauthenticated, message).limit("login_size", most))
        } else {
            return Ok(());
        };
        self.is_asked = true;
        let security =
            security.inspect_err(|fault| host.audit.refusal(None, Some(self.client), fault))?;
        if self.principal.is_some() && security.is_none() {
            return Ok(());
        }
        // On the heap: as a rule the header of HTTP has told, and nobody carries the room of this.
        Box::pin(self.identify(host, service, security.as_ref())).await
    }

    /// The fault of a message that could not be read: who is not known is told that, and nothing else.
    pub(crate) async fn unreadable(
        &mut self,
        host: &Host,
        service: &str,
        unpacker: Option<&mut Unpacker>,
        fault: Fault,
    ) -> Fault {
        let was_asked = self.is_asked;
        if let Some(unpacker) = unpacker
            && let Err(fault) = self.read_header(host, service, unpacker).await
        {
            return fault;
        }
        if was_asked || self.principal.is_some() {
            return fault;
        }
        Box::pin(self.identify(host, service, None)).await.err().unwrap_or(fault)
    }

    async fn identify(
        &mut self,
        host: &Host,
        service: &str,
        security: Option<&SecurityHeader>,
    ) -> Result<(), Fault> {
        let headers = &HeaderMap::new();
        let head = RequestHead { headers, peer: &self.peer, client: self.client, security };
        let told = host.identify(head, service, self.principal.is_some()).await?;
        match (&self.principal, told) {
            (_, None) => Ok(()),
            (Some(known), Some(told)) if *known == told => Ok(()),
            (Some(_), Some(_)) => {
                let message = "HTTP and the message's header name two users; name one";
                Err(Fault::new(FaultCode::Unauthenticated, message))
            }
            (None, Some(told)) => {
                let (principal, action) = (&told, Action::Describe);
                host.authorise(&Access { principal, service, operation: "", action })?;
                self.principal = Some(told);
                Ok(())
            }
        }
    }
}
