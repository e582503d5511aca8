//! The services of one server, joined with their jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fishplate_contract::{Fault, Interface, Principal, Service, Verb, VerbDefinition};
use fishplate_jobs::engine::Engine;
use fishplate_jobs::function::context::Scratch;
use fishplate_jobs::function::plan::WorkerProgram;
use fishplate_wire::wsdl::{self, View};
use fishplate_wire::{ExpectedTable, WireLimits};

use crate::audit::{AuditLog, CALLER};
use crate::authentication::authenticator::{Refusal, RequestHead};
use crate::authentication::chain::Authenticators;
use crate::data::Data;
use crate::dispatch::authorise::{Access, Action, AllowAll, Authoriser, is_within};
use crate::dispatch::provider::{Provider, no_operation};
use crate::domains::{DomainBounds, Domains};
use crate::faces::html::JobWatches;
use crate::faces::metrics::{Counters, Metrics};
use crate::http::origin::RequestFilter;
use crate::memory::MessageMemory;
use crate::providers::functions::FunctionSlots;
use crate::settings::Settings;
use crate::sites::Sites;
use crate::spool::SpoolDirectory;

/// How long ranks that were started may take until they have joined their domain, at least.
const JOIN_TIME: Duration = Duration::from_secs(300);

/// What a server serves, and with what.
#[derive(Debug)]
pub struct Host {
    /// The settings of the faces.
    pub settings: Settings,
    /// Its jobs.
    pub engine: Engine,
    /// Data by reference.
    pub data: Arc<Data>,
    /// Domains that have ranks here.
    pub domains: Arc<Domains>,
    /// Sites of which this server is the relay.
    pub sites: Arc<Sites>,
    /// Where payloads go on their way in.
    pub spool: Arc<SpoolDirectory>,
    /// Where functions put large outputs.
    pub scratch: Arc<Scratch>,
    /// Bounds the functions that run at once.
    pub gate: Arc<FunctionSlots>,
    /// Bounds those that wait for a sender or a reader meanwhile.
    pub streams: Arc<FunctionSlots>,
    /// Starts jobs of functions.
    pub worker: WorkerProgram,
    /// Memory for messages that take more than a little.
    pub memory: Arc<MessageMemory>,
    /// Know who calls.
    pub authenticators: Arc<Authenticators>,
    /// Decides who may do what.
    pub authoriser: Arc<dyn Authoriser>,
    /// Who logged in, and what was refused.
    pub audit: Arc<AuditLog>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Browsers that look at jobs.
    pub watches: Arc<JobWatches>,
    /// Where its services are.
    place: PublicAddress,
    /// The path of its public URL; each request asks for it.
    public_path: String,
    /// Which requests are for us, once the listener has said where it is.
    pub(crate) filter: OnceLock<RequestFilter>,
    services: BTreeMap<String, Arc<ServiceEntry>>,
}

/// A service and all that is derived from it once.
#[derive(Debug)]
pub struct ServiceEntry {
    /// What runs its operations.
    pub provider: Box<dyn Provider>,
    /// Its verbs.
    pub interface: Interface,
    /// What its messages should hold.
    pub expected: Arc<ExpectedTable>,
    /// Where it is.
    pub url: String,
    /// What is counted of each verb's successful calls.
    pub(crate) counters: Vec<OnceLock<Counters>>,
    /// Limits on its messages, if they are not much longer than what may stay in memory.
    limits: WireLimits,
}

/// Where services are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicAddress {
    /// Each at its name below the public URL.
    Below,
    /// The only one at the public URL: a CGI script.
    At,
}

impl Host {
    /// Joins services with jobs. Each service is at its name below the public URL; the only one of
    /// a script is at the public URL itself.
    pub fn new(
        settings: Settings,
        place: PublicAddress,
        engine: Engine,
        data: Arc<Data>,
        spool: Arc<SpoolDirectory>,
        worker: WorkerProgram,
        providers: Vec<Box<dyn Provider>>,
    ) -> Self {
        let memory = Arc::new(MessageMemory::new(settings.message_memory));
        let services = entries(&settings, place, providers);
        let slots = |running| Arc::new(FunctionSlots::new(running, settings.functions_queued));
        Self {
            metrics: Arc::new(Metrics::new(&data.figures)),
            audit: Arc::new(match place {
                PublicAddress::Below => AuditLog::open(&engine.settings().data, &settings),
                PublicAddress::At => AuditLog::of_script(&engine.settings().data, &settings),
            }),
            domains: Domains::new(
                engine.settings().data.join("domains"),
                // Its ranks have time to take their places, and to join.
                engine.settings().retention.max(engine.settings().reservation_lease + JOIN_TIME),
                DomainBounds {
                    ranks: settings.domain_ranks,
                    routes: settings.domain_routes,
                    passages: settings.gateway_connections,
                },
            ),
            sites: Arc::default(),
            watches: Arc::new(JobWatches::new(settings.job_viewers)),
            engine,
            data,
            scratch: spool.scratch(),
            gate: slots(settings.functions_running),
            streams: slots(settings.streams_running),
            worker,
            public_path: path_of(&settings.public_url).to_owned(),
            settings,
            spool,
            memory,
            authenticators: Arc::default(),
            authoriser: Arc::new(AllowAll),
            place,
            filter: OnceLock::new(),
            services,
        }
    }

    /// One in its place with other settings and services: the same jobs, data and counts, and the same bounds on
    /// what goes on at once. Who calls and who may do what is to be said anew.
    #[must_use]
    pub fn successor(&self, settings: Settings, providers: Vec<Box<dyn Provider>>) -> Self {
        Self {
            services: entries(&settings, self.place, providers),
            public_path: path_of(&settings.public_url).to_owned(),
            settings,
            engine: self.engine.clone(),
            data: Arc::clone(&self.data),
            domains: Arc::clone(&self.domains),
            sites: Arc::clone(&self.sites),
            spool: Arc::clone(&self.spool),
            scratch: Arc::clone(&self.scratch),
            gate: Arc::clone(&self.gate),
            streams: Arc::clone(&self.streams),
            worker: self.worker.clone(),
            memory: Arc::clone(&self.memory),
            authenticators: Arc::default(),
            authoriser: Arc::new(AllowAll),
            audit: Arc::clone(&self.audit),
            metrics: Arc::clone(&self.metrics),
            watches: Arc::clone(&self.watches),
            place: self.place,
            filter: OnceLock::new(),
        }
    }

    /// One in which these know who calls.
    #[must_use]
    pub fn authenticated_by(mut self, authenticators: Arc<Authenticators>) -> Self {
        self.authenticators = authenticators;
        self
    }

    /// One in which this decides who may do what.
    #[must_use]
    pub fn authorised_by(mut self, authoriser: Arc<dyn Authoriser>) -> Self {
        self.authoriser = authoriser;
        self
    }

    /// Where its services are.
    pub fn place(&self) -> PublicAddress {
        self.place
    }

    /// Who sent a request to a service, or another first segment of a path; `None`, where it `may_be_unknown`, if nothing
    /// in it tells.
    ///
    /// # Errors
    /// `Unauthenticated`, `Forbidden`, `QueueFull`, or `Internal` if it can't be known.
    pub async fn identify(
        &self,
        request: RequestHead<'_>,
        service: &str,
        may_be_unknown: bool,
    ) -> Result<Option<Principal>, Fault> {
        match self.authenticators.identify(request, service, may_be_unknown).await {
            Ok(None) => Ok(None),
            Ok(Some(identity)) => {
                if !identity.credential.is_empty() {
                    let user = identity.principal.as_str();
                    self.audit.login(user, identity.credential, request.client);
                }
                Ok(Some(identity.principal))
            }
            Err(Refusal { fault, user }) => {
                self.audit.refusal(user.as_deref(), Some(request.client), &fault);
                Err(fault)
            }
        }
    }

    /// Whether this may be done.
    ///
    /// # Errors
    /// The fault that the caller gets.
    pub fn authorise(&self, access: &Access<'_>) -> Result<(), Fault> {
        let allowed = is_within(access.principal, access.service)
            .and_then(|()| self.authoriser.authorise(access));
        allowed.inspect_err(|fault| {
            let address = CALLER.try_with(|address| *address).ok();
            self.audit.refusal(Some(access.principal.as_str()), address, fault);
        })
    }

    /// Writes what was used and is not written yet, before the process ends.
    pub async fn write_usage(&self) {
        self.data.account(&self.engine);
        self.engine.write_usage().await;
    }

    /// The services of which somebody may know, by name.
    pub fn services_for(&self, principal: &Principal) -> impl Iterator<Item = &Arc<ServiceEntry>> {
        self.services().filter(move |entry| {
            let service = &entry.service().name;
            let access = Access { principal, service, operation: "", action: Action::Describe };
            self.authoriser.authorise(&access).is_ok()
        })
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<&Arc<ServiceEntry>> {
        self.services.get(name)
    }

    /// All services, by name.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceEntry>> {
        self.services.values()
    }

    /// The path of our public URL, without a slash at its end: a proxy in front of us may or may
    /// not have taken it off.
    pub fn public_path(&self) -> &str {
        &self.public_path
    }
}

/// The path of a URL, without a slash at its end.
fn path_of(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    after_scheme.find('/').map_or("", |slash| &after_scheme[slash..])
}

/// The services, by name.
fn entries(
    settings: &Settings,
    place: PublicAddress,
    providers: Vec<Box<dyn Provider>>,
) -> BTreeMap<String, Arc<ServiceEntry>> {
    let entry = |provider: Box<dyn Provider>| {
        let service = provider.service();
        let interface = provider.interface();
        let entry = ServiceEntry {
            expected: Arc::new(ExpectedTable::requests(&service.namespace, &interface)),
            url: if place == PublicAddress::Below || provider.is_built_in() {
                format!("{}/{}", settings.public_url, service.name)
            } else {
                settings.public_url.clone()
            },
            counters: interface.verbs.iter().map(|_| OnceLock::new()).collect(),
            limits: {
                let (memory, wire) = (provider.memory(settings), settings.wire.clone());
                WireLimits {
                    inline_size: wire.inline_size.max(memory),
                    inline_total: wire.inline_total.max(memory),
                    ..wire
                }
            },
            interface,
            provider,
        };
        (entry.service().name.clone(), Arc::new(entry))
    };
    providers.into_iter().map(entry).collect()
}

impl ServiceEntry {
    /// Whether it is the server's own, and not one that somebody serves with it.
    pub fn is_built_in(&self) -> bool {
        self.provider.is_built_in()
    }

    /// What the service offers.
    pub fn service(&self) -> &Service {
        self.provider.service()
    }

    /// Limits on a message that tells this length. One that is much longer than what may stay in
    /// memory is spooled from its first byte. (Numbers as text are several times as long as numbers.)
    pub(crate) fn limits<'h>(
        &'h self,
        settings: &'h Settings,
        told: Option<u64>,
    ) -> &'h WireLimits {
        const LONGER: u64 = 8;
        let most = (self.limits.inline_total as u64).saturating_mul(LONGER);
        if told.is_some_and(|told| told > most) { &settings.wire } else { &self.limits }
    }

    /// A verb of an operation; without the name of one if it is about jobs.
    ///
    /// # Errors
    /// `UnknownOperation`.
    pub fn definition(&self, verb: Verb, operation: &str) -> Result<&VerbDefinition, Fault> {
        let mut all = self.interface.verbs.iter();
        let found = all.find(|known| known.verb == verb && known.operation == operation);
        found.ok_or_else(|| no_operation(operation))
    }

    /// Its WSDL in the plain view, the same as long as the service is.
    pub fn plain_wsdl(&self) -> String {
        self.wsdl(View::default())
    }

    /// Its WSDL.
    pub fn wsdl(&self, view: View) -> String {
        wsdl::write(self.service(), &self.interface, view, &self.url)
    }
}
