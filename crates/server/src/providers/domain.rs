//! The service `domain` of every server that has a service with ranks: what a workflow manager (paper 001, section 3) asks of a
//! server beside `init` of the services themselves. It holds places, tells where ranks are, and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use fishplate_contract::{
    Argument, Call, Clock as _, DataType, Fault, FaultCode, JobId, Operation, Outcome, Parameter,
    Principal, Service, SystemClock, Value, Verb,
};
use fishplate_jobs::engine::Reservation;
use fishplate_jobs::store::quota::Quota;
use fishplate_ranks::launch::environment::DOMAIN;
use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::status::KnownRank;
use fishplate_ranks::{DomainId, Rank};
use futures_util::future::join_all;

use super::built_in::BuiltIn;
use crate::dispatch::authorise::{Access, Action};
use crate::dispatch::init::domain;
use crate::dispatch::report::date_time;
use crate::dispatch::scalars::Scalars;
use crate::domains::{DomainView, Member, check_addresses};
use crate::faces::gateway;
use crate::host::{Host, ServiceEntry};

/// Its name: no other service of a server that has ranks may have it.
pub const NAME: &str = "domain";

/// The service.
pub fn provider() -> BuiltIn {
    BuiltIn {
        service: service(),
        answer: |host, operation, call| Box::pin(answer(host, operation, call)),
    }
}

async fn answer(host: &Host, operation: &Operation, call: Call) -> Result<Vec<Argument>, Fault> {
    let given = Scalars::accept(&operation.signature, call.arguments)?;
    let asked = DomainRequest { host, owner: &call.principal, domain: domain(&given)? };
    match operation.name.as_str() {
        "reserve" => asked.reserve(&given).await,
        "members" => asked.members(),
        "state" => asked.state().await,
        "connect" => asked.connect(&given),
        _ => {
            let (places, killed) = asked.end().await?;
            Ok(vec![text("places", places), text("killed", killed)])
        }
    }
}

fn service() -> Service {
    let domain = || {
        Parameter::new("domain", DataType::String)
            .help("ID of a communication domain: 32 hexadecimal digits, drawn at random by whoever starts it.")
    };
    let member = vec![
        Parameter::new("rank", DataType::Int).help("The rank."),
        Parameter::new("service", DataType::String).help("The service whose program it runs."),
        Parameter::new("job", DataType::String).help("Its job."),
        Parameter::new("address", DataType::String)
            .optional()
            .help("Where it is reached, once it has joined: addresses in the order in which they are tried."),
        Parameter::new("gateway", DataType::String)
            .optional()
            .help("Where ranks of other servers reach it through this one, once it has joined."),
        Parameter::new("left", DataType::Bool).help("Whether it has left in order."),
    ];
    Service {
        name: NAME.to_owned(),
        namespace: "urn:fishplate:domains:1".to_owned(),
        title: "Communication domains".to_owned(),
        documentation:
            "A communication domain is a set of jobs, its ranks, that pass messages while they run. \
             Reserve places on every server, start each rank with `init` of its service, collect the \
             addresses with `members`, and tell all of them to all with `connect`."
                .to_owned(),
        operations: vec![
            Operation::new(
                "reserve",
                "Holds places for ranks of a service; they are given back unless ranks take them in time.",
                vec![
                    domain(),
                    Parameter::new("service", DataType::String).help("Name of the service."),
                    Parameter { min: Some("1".to_owned()), ..Parameter::new("ranks", DataType::Int) }
                        .help("How many places."),
                ],
                vec![Parameter::new("expires", DataType::DateTime).help("When they are given back.")],
            ),
            Operation::new(
                "members",
                "The ranks of a domain that were started here.",
                vec![domain()],
                vec![Parameter::new("member", DataType::Record(member)).repeated().help("A rank.")],
            ),
            Operation::new(
                "state",
                "What the ranks of a domain that were started here exchanged, and what they wait for.",
                vec![domain()],
                vec![
                    Parameter::new("rank", DataType::Record(rank_state())).repeated().help("A rank."),
                ],
            ),
            Operation::new(
                "connect",
                "Tells the ranks that were started here where all are; they wait for it in MPI_Init.",
                vec![
                    domain(),
                    Parameter::new("addresses", DataType::String)
                        .help("The addresses of all ranks in their order, as `members` gives them, separated by spaces: of ranks of this server `address`, of others `gateway`, or `address` too if they have ports of their own."),
                ],
                vec![Parameter::new("connected", DataType::Bool).help("True.")],
            ),
            Operation::new(
                "end",
                "Gives back the places that are held for a domain, kills its ranks that run here, and forgets it.",
                vec![domain()],
                vec![
                    Parameter::new("places", DataType::Int).help("How many places were given back."),
                    Parameter::new("killed", DataType::Int).help("How many ranks were killed."),
                ],
            ),
        ],
    }
}

fn rank_state() -> Vec<Parameter> {
    vec![
        Parameter::new("rank", DataType::Int).help("The rank."),
        Parameter::new("ended", DataType::Bool)
            .help("It has left in order, or its process has ended."),
        Parameter::new("status", DataType::String).optional().help(
            "What it told last, in one line: `CLIENTS TRAFFIC ROUTES [MILLISECONDS ALL MOVING RANKS CALL]`. CLIENTS: 1 if a \
             SOAP client's message may end its wait, else 0. TRAFFIC: `-`, or for each rank with which it exchanged anything \
             `PEER:MESSAGES:BYTES:SENT:RECEIVED`, separated by commas: messages to that one and their bytes, frames to it \
             and frames of it that have come. ROUTES: `-`, or for each rank that it knows a way to or tried \
             `PEER;ADDRESS`, each address that it passed over as `;ADDRESS=REASON` behind, separated by commas; at the end `+N` \
             if so many more are not kept (limit `domain_routes`). The rest if it has waited for long: for how long; 1 if it needs all of RANKS, \
             0 if one is enough; 1 if what it waits for is under way, else 0; whose doing it needs, separated by commas; \
             what it waits in, such as `recv from 3 tag 7`.",
        ),
    ]
}

/// What is asked for, by whom.
pub(crate) struct DomainRequest<'a> {
    /// The server that is asked.
    pub(crate) host: &'a Host,
    /// By whom.
    pub(crate) owner: &'a Principal,
    /// Of which domain.
    pub(crate) domain: DomainId,
}

impl DomainRequest<'_> {
    async fn reserve(&self, given: &Scalars) -> Outcome {
        let Self { host, owner, domain } = *self;
        let name = given.text("service").unwrap_or_default();
        let places = given.text("ranks").and_then(|text| text.trim().parse().ok());
        let entry = self.service(name)?;
        let ranks = entry.provider.ranks().ok_or_else(|| {
            let what = format!(
                "the program of service {name} is no rank: its service file has no [ranks]"
            );
            Fault::new(FaultCode::NotSupported, what).parameter("service")
        })?;
        // Ranks do not queue: who has used up the processor time gets no places.
        host.engine.check_quotas(owner, &[(Quota::CpuTime, 0)]).await?;
        host.domains.check(domain, owner, &host.engine).await?;
        let most = entry.provider.max_running().map_or(ranks, |most| most.min(ranks));
        let reservation = Reservation {
            domain: domain.to_string(),
            service: name.to_owned(),
            owner: owner.clone(),
            places: places.unwrap_or_default(),
            most_of_service: most,
        };
        let lease: Duration = host.engine.reserve(reservation).await?;
        // Not before: who is refused leaves nothing behind.
        host.domains.open(domain, owner).inspect_err(|_| {
            host.engine.end_domain(&domain.to_string(), owner);
        })?;
        Ok(vec![text("expires", date_time(SystemClock.now().after(lease)))])
    }

    /// Whether the caller may do this with a service.
    fn authorise(&self, service: &str, action: Action) -> Result<(), Fault> {
        let principal = self.owner;
        self.host.authorise(&Access { principal, service, operation: "", action })
    }

    /// The ranks that were started here, with whose services the caller may do this.
    ///
    /// # Errors
    /// `InvalidValue` if the domain is not here, or another's; `Forbidden`.
    pub(crate) fn ranks(&self, action: Action) -> Result<BTreeMap<Rank, Member>, Fault> {
        let members = self.host.domains.members(self.domain, self.owner)?;
        self.authorise_all(&members, action)?;
        Ok(members)
    }

    /// What is known of the domain, for who may know of the services of its ranks here. It is not kept for that.
    ///
    /// # Errors
    /// Those of [`Self::ranks`].
    pub(crate) fn look(&self) -> Result<DomainView, Fault> {
        let view = self.host.domains.look(self.domain, self.owner)?;
        self.authorise_all(&view.members, Action::Describe)?;
        Ok(view)
    }

    fn authorise_all(&self, members: &BTreeMap<Rank, Member>, action: Action) -> Result<(), Fault> {
        let services: BTreeSet<&str> = members.values().map(|of| of.service.as_str()).collect();
        services.into_iter().try_for_each(|service| self.authorise(service, action))
    }

    /// What ranks do now. Of one that has not joined, its job tells whether it ever will.
    ///
    /// # Errors
    /// If the record of a job can't be read.
    pub(crate) async fn known(
        &self,
        members: &BTreeMap<Rank, Member>,
    ) -> Result<BTreeMap<Rank, KnownRank>, Fault> {
        let known = members.iter().map(async |(rank, member)| {
            let mut known = member.known();
            if member.address.is_none() {
                let job = self.host.engine.owner(member.job).await?;
                // One that is not there may be about to be.
                known.ended |= job.is_some_and(|(_, is_running)| !is_running);
            }
            Ok((*rank, known))
        });
        join_all(known).await.into_iter().collect()
    }

    /// The service of that name, if the caller may start ranks of it.
    fn service(&self, name: &str) -> Result<&ServiceEntry, Fault> {
        let Some(entry) = self.host.service(name) else {
            // Who may not know what is there, is told the same of all.
            self.authorise(name, Action::Describe)?;
            let what = format!("there is no service {name:?} here");
            return Err(Fault::new(FaultCode::UnknownService, what).parameter("service"));
        };
        self.authorise(name, Action::Verb(Verb::Init))?;
        Ok(entry)
    }

    fn members(&self) -> Outcome {
        let fields = self.ranks(Action::Describe)?.into_iter().map(|(rank, member)| {
            let mut fields =
                vec![text("rank", rank), text("service", member.service), text("job", member.job)];
            if let Some(address) = member.address {
                let gateway = gateway::address(&self.host.settings, self.domain, rank);
                fields.push(text("address", address));
                fields.extend(gateway.map(|it| text("gateway", it)));
            }
            fields.push(text("left", member.left));
            Argument::new("member", Value::Record(fields))
        });
        Ok(fields.collect())
    }

    async fn state(&self) -> Outcome {
        let known = self.known(&self.ranks(Action::Describe)?).await?;
        // One record a rank: readers of SOAP messages take only so many.
        let told = known.into_iter().map(|(rank, KnownRank { status, ended })| {
            let mut fields = vec![text("rank", rank), text("ended", ended)];
            fields.extend(status.map(|status| text("status", status)));
            Argument::new("rank", Value::Record(fields))
        });
        Ok(told.collect())
    }

    fn connect(&self, given: &Scalars) -> Outcome {
        let addresses = given.text("addresses").unwrap_or_default().split_whitespace();
        let addresses: Result<Vec<Address>, _> = addresses.map(str::parse).collect();
        let addresses = addresses.map_err(|_| {
            let what = "addresses are words as `members` gives them";
            Fault::new(FaultCode::InvalidValue, what).parameter("addresses")
        })?;
        let members = self.ranks(Action::Verb(Verb::Init))?;
        let gateway = |rank| gateway::address(&self.host.settings, self.domain, rank);
        check_addresses(&members, &addresses, gateway)?;
        self.host.domains.connect(self.domain, self.owner, addresses)?;
        Ok(vec![text("connected", true)])
    }

    /// Gives back the places, kills the ranks, forgets the domain; how many places and ranks that were.
    ///
    /// # Errors
    /// `Forbidden`, or if a rank can't be killed.
    pub(crate) async fn end(&self) -> Result<(u64, u32), Fault> {
        let Self { host, owner, domain } = *self;
        let id = domain.to_string();
        let reserved = host.engine.reserved_services(&id, owner);
        reserved.iter().try_for_each(|name| self.authorise(name, Action::Verb(Verb::Init)))?;
        match self.ranks(Action::Verb(Verb::Kill)) {
            Err(fault) if fault.code == FaultCode::Forbidden => return Err(fault),
            // The server may have been started anew, and know nothing of the domain.
            _ => {}
        }
        let domain_ranks = || host.engine.with_variable(owner, DOMAIN, &id);
        let may_kill = |ranks: &[(String, JobId)]| {
            let mut services = ranks.iter().map(|(service, _)| service);
            services.try_for_each(|service| self.authorise(service, Action::Verb(Verb::Kill)))
        };
        // Who may not end it gives nothing back.
        may_kill(&domain_ranks().await?)?;
        let places = host.engine.end_domain(&id, owner);
        // Others may have taken places meanwhile; none can now.
        let ranks = domain_ranks().await?;
        may_kill(&ranks)?;
        let kills = ranks.iter().map(async |(service, job)| {
            if !host.engine.running(owner, service, *job).await? {
                return Ok(false);
            }
            host.engine.kill(owner, service, *job).await.map(|_| true)
        });
        let ended: Vec<Result<bool, Fault>> = join_all(kills).await;
        let mut killed = 0;
        for ended in ended {
            match ended {
                Ok(was_running) => killed += u32::from(was_running),
                // Removed meanwhile.
                Err(fault) if fault.code == FaultCode::NoSuchJob => {}
                Err(fault) => return Err(fault),
            }
        }
        host.domains.remove(domain, owner);
        host.domains.forget(domain, owner, &host.engine).await?;
        Ok((places, killed))
    }
}

fn text(name: &str, value: impl Display) -> Argument {
    Argument::text(name, value.to_string())
}
