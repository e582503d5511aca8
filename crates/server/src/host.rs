//! The services of one server, joined with their jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use fishplate_contract::{Interface, Service};
use fishplate_jobs::engine::Engine;
use fishplate_jobs::function::Functions;
use fishplate_jobs::function::context::Scratch;
use fishplate_jobs::function::plan::WorkerProgram;
use fishplate_jobs::program::Program;
use fishplate_wire::wsdl::{self, View};
use fishplate_wire::{Expected, WireLimits};

use crate::data::Data;
use crate::faces::metrics::{Counters, Metrics};
use crate::functions::Gate;
use crate::memory::MessageMemory;
use crate::sessions;
use crate::settings::Settings;
use crate::spool::SpoolDirectory;

/// What a server serves, and with what.
#[derive(Debug)]
pub struct Host {
    /// The settings of the faces.
    pub settings: Settings,
    /// Its jobs.
    pub engine: Engine,
    /// Data by reference.
    pub data: Arc<Data>,
    /// Where payloads go on their way in.
    pub spool: Arc<SpoolDirectory>,
    /// Where functions put large outputs.
    pub scratch: Arc<Scratch>,
    /// Bounds the functions that run at once.
    pub gate: Gate,
    /// Starts jobs of functions.
    pub worker: WorkerProgram,
    /// Memory for messages that take more than a little.
    pub memory: MessageMemory,
    /// What it counts.
    pub metrics: Metrics,
    services: BTreeMap<String, Arc<Hosted>>,
}

/// A service and all that is derived from it once.
#[derive(Debug)]
pub struct Hosted {
    /// What runs its operations.
    pub handler: Handler,
    /// Its verbs.
    pub interface: Interface,
    /// What its messages should hold.
    pub expected: Arc<Expected>,
    /// Where it is.
    pub url: String,
    /// What is counted of each verb's successful calls.
    pub(crate) counters: Vec<OnceLock<Counters>>,
    /// Limits on its messages, if they are not much longer than what may stay in memory.
    limits: WireLimits,
}

/// What runs the operations of a service.
#[derive(Debug)]
pub enum Handler {
    /// A program, whose every call is a job.
    Program(Box<Program>),
    /// Functions of this process.
    Functions(Functions),
    /// The built-in service `session`, which has no jobs.
    Sessions(Box<Service>),
}

impl Handler {
    /// How many of its jobs run at once; `None`: as many as the server allows.
    pub fn max_running(&self) -> Option<u32> {
        match self {
            Self::Program(program) => program.max_running(),
            Self::Functions(functions) => functions.most_running(),
            Self::Sessions(_) => None,
        }
    }

    /// What it offers.
    pub fn service(&self) -> &Service {
        match self {
            Self::Program(program) => program.service(),
            Self::Functions(functions) => functions.service(),
            Self::Sessions(service) => service,
        }
    }

    /// Its verbs.
    fn interface(&self) -> Interface {
        match self {
            Self::Program(_) | Self::Functions(_) => Interface::of(self.service()),
            Self::Sessions(service) => sessions::interface(service),
        }
    }
}

/// Where services are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
        place: Place,
        engine: Engine,
        data: Arc<Data>,
        spool: Arc<SpoolDirectory>,
        worker: WorkerProgram,
        handlers: Vec<Handler>,
    ) -> Self {
        let hosted = handlers.into_iter().map(|handler| {
            let service = handler.service();
            let interface = handler.interface();
            let hosted = Hosted {
                expected: Arc::new(Expected::requests(&service.namespace, &interface)),
                url: match (place, &handler) {
                    (Place::Below, _) | (_, Handler::Sessions(_)) => {
                        format!("{}/{}", settings.public_url, service.name)
                    }
                    (Place::At, _) => settings.public_url.clone(),
                },
                counters: interface.exposed.iter().map(|_| OnceLock::new()).collect(),
                limits: limits_of(&handler, &settings),
                interface,
                handler,
            };
            (hosted.service().name.clone(), Arc::new(hosted))
        });
        let services = hosted.collect();
        let memory = MessageMemory::new(settings.message_memory);
        Self {
            metrics: Metrics::new(&data.figures),
            engine,
            data,
            scratch: spool.scratch(),
            gate: Gate::new(&settings),
            worker,
            settings,
            spool,
            memory,
            services,
        }
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<&Arc<Hosted>> {
        self.services.get(name)
    }

    /// All services, by name.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Hosted>> {
        self.services.values()
    }

    /// The path of our public URL, without a slash at its end: a proxy in front of us may or may
    /// not have taken it off.
    pub fn public_path(&self) -> &str {
        let after_scheme = self.settings.public_url.split_once("://").map_or("", |(_, rest)| rest);
        after_scheme.find('/').map_or("", |slash| &after_scheme[slash..])
    }
}

/// Limits on a service's messages: what goes to a function may stay in memory, because it is read
/// there; what goes to a program is a file in the end.
fn limits_of(handler: &Handler, settings: &Settings) -> WireLimits {
    let mut limits = settings.wire.clone();
    if let Handler::Functions(_) = handler {
        limits.inline_size = limits.inline_size.max(settings.function_memory);
        limits.inline_total = limits.inline_total.max(settings.function_memory);
    }
    limits
}

impl Hosted {
    /// Whether it is the server's own, and not one that somebody serves with it.
    pub fn is_built_in(&self) -> bool {
        matches!(self.handler, Handler::Sessions(_))
    }

    /// What the service offers.
    pub fn service(&self) -> &Service {
        self.handler.service()
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

    /// Its WSDL.
    pub fn wsdl(&self, view: View) -> String {
        wsdl::write(self.service(), &self.interface, view, &self.url)
    }
}
