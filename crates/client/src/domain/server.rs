//! The service `domain` of a server.

use fishplate_contract::{Argument, JobId};

use crate::error::Error;
use crate::report::Fields;
use crate::service::Service;
use crate::session::{built_in, records};
use crate::settings::{Options, Settings};

const NAME: &str = "domain";
const NAMESPACE: &str = "urn:fishplate:domains:1";

/// The part of a server that is about domains.
#[derive(Clone)]
pub struct DomainServer {
    service: Service,
}

/// A rank that was started on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its rank.
    pub rank: u32,
    /// Its service.
    pub service: String,
    /// Its job.
    pub job: JobId,
    /// Where it is reached, once it has joined.
    pub address: Option<String>,
    /// Where ranks of other servers reach it through its own, once it has joined.
    pub gateway: Option<String>,
    /// It has left in order.
    pub left: bool,
}

/// What a rank that was started on a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// The rank.
    pub rank: u32,
    /// It has left in order, or its process has ended.
    pub ended: bool,
    /// What it told last: a line, as the service describes it.
    pub status: Option<String>,
}

fn rank(fields: &Fields<'_>, name: &str) -> Result<u32, String> {
    let rank = fields.number(name)?;
    u32::try_from(rank).map_err(|_| format!("{name} is {rank}"))
}

impl DomainServer {
    /// That of the server that is meant by a URL, its own or of one of its services; `None` if it has none, because none of its
    /// services is of ranks.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn find(url: &str, settings: Settings) -> Result<Option<Self>, Error> {
        let service = built_in(url, NAME, NAMESPACE, settings).await?;
        Ok(service.map(|service| Self { service }))
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.service.address()
    }

    /// Holds places for ranks of a service.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn reserve(&self, domain: &str, service: &str, ranks: u32) -> Result<(), Error> {
        let more = [("service", service.to_owned()), ("ranks", ranks.to_string())];
        self.ask("reserve", domain, &more).await.map(drop)
    }

    /// The ranks that were started there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn members(&self, domain: &str) -> Result<Vec<Member>, Error> {
        let outputs = self.ask("members", domain, &[]).await?;
        let member = |fields: Fields<'_>| {
            Ok(Member {
                rank: rank(&fields, "rank")?,
                service: fields.text("service")?.to_owned(),
                job: fields.job("job")?,
                address: fields.find("address").map(str::to_owned),
                gateway: fields.find("gateway").map(str::to_owned),
                left: fields.flag("left")?,
            })
        };
        let told: Result<_, String> = records(&outputs, "member").map(member).collect();
        told.map_err(|reason| Error::BadAnswer { url: self.url(), reason })
    }

    /// What the ranks that were started there exchanged, and what they wait for.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self, domain: &str) -> Result<Vec<RankState>, Error> {
        let outputs = self.ask("state", domain, &[]).await?;
        let state = |fields: Fields<'_>| {
            Ok(RankState {
                rank: rank(&fields, "rank")?,
                ended: fields.flag("ended")?,
                status: fields.find("status").map(str::to_owned),
            })
        };
        let told: Result<_, String> = records(&outputs, "rank").map(state).collect();
        told.map_err(|reason| Error::BadAnswer { url: self.url(), reason })
    }

    /// Tells the ranks that were started there where all are.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(&self, domain: &str, addresses: &[String]) -> Result<(), Error> {
        self.ask("connect", domain, &[("addresses", addresses.join(" "))]).await.map(drop)
    }

    /// Gives back what is held there, and kills what runs; how many ranks that were.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn end(&self, domain: &str) -> Result<u64, Error> {
        let outputs = self.ask("end", domain, &[]).await?;
        let killed = Fields(&outputs).number("killed");
        killed.map_err(|reason| Error::BadAnswer { url: self.url(), reason })
    }

    async fn ask(
        &self,
        operation: &str,
        domain: &str,
        more: &[(&str, String)],
    ) -> Result<Vec<Argument>, Error> {
        let more = more.iter().map(|(name, text)| Argument::text(*name, text));
        let arguments = [Argument::text("domain", domain)].into_iter().chain(more).collect();
        let reply = self.service.call(operation, arguments, &Options::default()).await?;
        Ok(reply.outputs)
    }
}
