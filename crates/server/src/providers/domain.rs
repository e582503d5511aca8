//! The service `domain` of every server that has a service with ranks: what a workflow manager (paper 001, section 3) asks of a
//! server beside `init` of the services themselves. It holds places, tells where ranks are, and ends them.

use std::fmt::Display;
use std::time::Duration;

use fishplate_contract::{
    Argument, Call, Clock as _, DataType, Fault, FaultCode, Interface, Operation, Outcome,
    Parameter, Principal, Service, SystemClock, Value, Verb,
};
use fishplate_jobs::engine::Reservation;
use fishplate_jobs::store::quota::Quota;
use fishplate_ranks::DomainId;
use fishplate_ranks::launch::rendezvous::Address;
use futures_util::future::join_all;

use crate::dispatch::authorise::{Access, Action};
use crate::dispatch::init::domain;
use crate::dispatch::provider::{Provider, ProviderFuture, calls_only, no_operation};
use crate::dispatch::report::date_time;
use crate::dispatch::scalars::Scalars;
use crate::dispatch::usage::CallUsage;
use crate::faces::gateway;
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;

/// Its name: no other service of a server that has ranks may have it.
pub const NAME: &str = "domain";

/// The service.
#[derive(Debug)]
pub struct DomainProvider(Service);

impl Default for DomainProvider {
    fn default() -> Self {
        Self(service())
    }
}

impl Provider for DomainProvider {
    fn service(&self) -> &Service {
        &self.0
    }

    fn interface(&self) -> Interface {
        calls_only(&self.0)
    }

    fn is_built_in(&self) -> bool {
        true
    }

    fn about_jobs(&self) -> Option<&str> {
        None
    }

    fn answers(&self, _: &Call) -> bool {
        true
    }

    fn answer<'a>(
        &'a self,
        host: &'a Host,
        call: Call,
        _: &'a CallUsage,
        _: &'a mut MemoryReservation,
    ) -> ProviderFuture<'a, Vec<Argument>> {
        Box::pin(async move {
            let operation = self.0.operation(&call.operation);
            let operation = operation.ok_or_else(|| no_operation(&call.operation))?;
            let given = Scalars::accept(&operation.signature, call.arguments)?;
            let asked = Asked { host, owner: &call.principal, domain: domain(&given)? };
            match operation.name.as_str() {
                "reserve" => asked.reserve(&given).await,
                "members" => asked.members(),
                "connect" => asked.connect(&given),
                _ => asked.end().await,
            }
        })
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

/// What is asked for, by whom.
struct Asked<'a> {
    host: &'a Host,
    owner: &'a Principal,
    domain: DomainId,
}

impl Asked<'_> {
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

    /// The service of that name, if the caller may start ranks of it.
    fn service(&self, name: &str) -> Result<&ServiceEntry, Fault> {
        let access =
            |action| Access { principal: self.owner, service: name, operation: "", action };
        let Some(entry) = self.host.service(name) else {
            // Who may not know what is there, is told the same of all.
            self.host.authorise(&access(Action::Describe))?;
            let what = format!("there is no service {name:?} here");
            return Err(Fault::new(FaultCode::UnknownService, what).parameter("service"));
        };
        self.host.authorise(&access(Action::Verb(Verb::Init)))?;
        Ok(entry)
    }

    fn members(&self) -> Outcome {
        let members = self.host.domains.members(self.domain, self.owner)?;
        let fields = members.into_iter().map(|(rank, member)| {
            let mut fields =
                vec![text("rank", rank), text("service", member.service), text("job", member.job)];
            if let Some(address) = member.address {
                let url = gateway::url(&self.host.settings.public_url, self.domain, rank);
                fields.push(text("address", address));
                fields.extend(Address::through_gateway(&url).ok().map(|it| text("gateway", it)));
            }
            fields.push(text("left", member.left));
            Argument::new("member", Value::Record(fields))
        });
        Ok(fields.collect())
    }

    fn connect(&self, given: &Scalars) -> Outcome {
        let addresses = given.text("addresses").unwrap_or_default().split_whitespace();
        let addresses: Result<Vec<_>, _> = addresses.map(str::parse).collect();
        let addresses = addresses.map_err(|_| {
            let what = "addresses are words as `members` gives them";
            Fault::new(FaultCode::InvalidValue, what).parameter("addresses")
        })?;
        self.host.domains.connect(self.domain, self.owner, addresses)?;
        Ok(vec![text("connected", true)])
    }

    async fn end(&self) -> Outcome {
        let Self { host, owner, domain } = *self;
        let places = host.engine.end_domain(&domain.to_string(), owner);
        // One that is not known any more has nothing to be ended.
        let members = host.domains.members(domain, owner).unwrap_or_default();
        for member in members.values() {
            let action = Action::Verb(Verb::Kill);
            host.authorise(&Access {
                principal: owner,
                service: &member.service,
                operation: "",
                action,
            })?;
        }
        let kills = members.values().map(async |member| {
            if !host.engine.running(owner, &member.service, member.job).await? {
                return Ok(false);
            }
            host.engine.kill(owner, &member.service, member.job).await.map(|_| true)
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
        Ok(vec![text("places", places), text("killed", killed)])
    }
}

fn text(name: &str, value: impl Display) -> Argument {
    Argument::text(name, value.to_string())
}
