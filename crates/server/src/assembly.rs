//! The only place that joins the rooms: a data directory, its store, its executor, its engine, and
//! the services in front of them.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fishplate_contract::SystemClock;
use fishplate_contract::interface::RESERVED_NAMES;
use fishplate_data::session::SessionError;
use fishplate_data::settings::{SettingsError, TransportSettings};
use fishplate_data::transfer::{Addresses, Files, Http, Transports};
use fishplate_data::{Policy, PolicySettings, Pool, PoolError, PoolSettings, Resolver, Sessions};
use fishplate_jobs::engine::{Engine, ReuseRule};
use fishplate_jobs::executor::Executor;
use fishplate_jobs::executor::local::{CgroupUse, LocalExecutor, LocalSettings};
use fishplate_jobs::function::Functions;
use fishplate_jobs::function::plan::WorkerProgram;
use fishplate_jobs::store::quota::{OwnerLimits, OwnerQuotas};
use fishplate_jobs::store::sqlite::SqliteStore;
use fishplate_jobs::store::{Store, StoreError};
use fishplate_programs::descriptor::Description;
use fishplate_programs::program::Program;
use fishplate_programs::program::environment::{self, EnvironmentError, Inheritance};

use crate::audit::AuditLog;
use crate::authentication::chain::{AuthenticatorError, Authenticators};
use crate::data::{Data, PoolQuota};
use crate::dispatch::authorise::{Access, Action};
use crate::dispatch::provider::Provider;
use crate::faces::data::Uploads;
use crate::faces::metrics::DataFigures;
use crate::host::{Host, PublicAddress};
use crate::policy::file::{PolicyError, PolicyFile};
use crate::policy::quotas::PolicyQuotas;
use crate::providers::domain;
use crate::providers::functions::FunctionProvider;
use crate::providers::session;
use crate::settings::{DataSettings, Limits};
use crate::spool::SpoolDirectory;
use crate::stager::DataStager;
use crate::worker::WORKER;

/// Why a server cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {}", path.display())]
    Data {
        /// Path of the directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory belongs to somebody else.
    #[error(
        "the data directory {} belongs to another user (uid {owner}); use one of your own (--data)",
        path.display()
    )]
    Owner {
        /// Path of the directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// The job store cannot be opened.
    #[error("cannot open the job store {}", path.display())]
    Store {
        /// Its file.
        path: PathBuf,
        /// What the store said.
        source: StoreError,
    },
    /// The pool cannot be opened.
    #[error("cannot open the pool {}", path.display())]
    Pool {
        /// Its directory.
        path: PathBuf,
        /// What the pool said.
        source: PoolError,
    },
    /// The settings of transfers are not usable.
    #[error("the settings of transfers (--transfers) are not usable")]
    Transfers(#[source] SettingsError),
    /// Sessions cannot be kept.
    #[error("cannot keep sessions (--no-sessions leaves them out)")]
    Sessions(#[source] SessionError),
    /// Users or tokens can't be read.
    #[error(transparent)]
    Login(#[from] AuthenticatorError),
    /// The policy can't be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A service has a name that the server needs.
    #[error(
        "no service may be called {0}: the server itself is at that address; rename it{hint}",
        hint = if *.0 == session::NAME { ", or leave sessions out (--no-sessions)" } else { "" }
    )]
    Taken(&'static str),
    /// Two services have one name.
    #[error("two services are called {0}; rename one")]
    Twice(String),
    /// A service cannot be loaded.
    #[error("cannot load service {name}")]
    Service {
        /// Name of the service.
        name: String,
        /// What is wrong with its environment.
        source: EnvironmentError,
    },
}

/// Data by reference: the pool of a data directory, or one that servers of this machine share.
///
/// # Errors
/// If the directory cannot be made, is somebody else's, or the pool cannot be opened.
pub fn data(limits: &Limits) -> Result<Arc<Data>, AssemblyError> {
    let directory = &limits.jobs.data;
    own_directory(directory)?;
    let settings = &limits.data;
    let pool = settings.pool.clone().unwrap_or_else(|| directory.join("pool"));
    let clock = Arc::new(SystemClock);
    let owner_disk = Arc::<PoolQuota>::default();
    let pool_settings = PoolSettings {
        owner_quota: Arc::clone(&owner_disk) as _,
        ..settings.pool_settings(pool.clone(), limits.jobs.disk_reserve)
    };
    let opened = Pool::open(pool_settings, clock);
    let pool = opened.map_err(|source| AssemblyError::Pool { path: pool, source })?;
    let failed = |source| AssemblyError::Data { path: directory.clone(), source };
    let uploads =
        settings.uploads.then(|| Uploads::open(directory, settings.uploads_open)).transpose();
    let sessions = settings.sessions.then(|| {
        let settings =
            settings.session_settings(directory.join("sessions"), limits.jobs.disk_reserve);
        Sessions::new(settings, Arc::new(SystemClock))
    });
    let sessions = sessions.transpose().map_err(AssemblyError::Sessions)?;
    let told = match &settings.transfers {
        Some(file) => TransportSettings::read(file).map_err(AssemblyError::Transfers)?,
        None => TransportSettings::default(),
    };
    let transports = transports(settings, &told)?;
    let resolver = Resolver::new(pool.clone(), transports, settings.transfer.clone());
    Ok(Arc::new(Data {
        pool,
        resolver,
        sessions,
        uploads: uploads.map_err(failed)?,
        working: Mutex::default(),
        transfers: Mutex::default(),
        owner_disk,
        figures: DataFigures::default(),
        origin: limits.faces.public_url.clone(),
        digest_wait: settings.digest_wait,
        secrets: told.secret_variables(),
    }))
}

/// The ways in which data comes and goes, within the policy.
fn transports(
    settings: &DataSettings,
    told: &TransportSettings,
) -> Result<Transports, AssemblyError> {
    let failed = AssemblyError::Transfers;
    let networks = [settings.networks.clone(), told.networks().map_err(failed)?].concat();
    let policy = PolicySettings { allow_private: settings.allow_private, networks };
    let policy: Arc<dyn Addresses> = Arc::new(Policy::new(policy));
    let mut transports = Transports::new().with(Http::new(&settings.transfer, Arc::clone(&policy)));
    if !settings.file_roots.is_empty() {
        transports = transports.with(Files::new(settings.file_roots.clone()));
    }
    told.add_to(transports, &settings.transfer, policy).map_err(failed)
}

/// How much of the job store is read before it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCheck {
    /// All of it: by a server, which works with it for long.
    All,
    /// What is needed: by a script that answers one call.
    Some,
}

/// Where an engine keeps its records, and what runs its programs.
pub struct Backends {
    /// The records of jobs.
    pub store: Arc<dyn Store>,
    /// Where plans run.
    pub executor: Arc<dyn Executor>,
}

impl Backends {
    /// Those of one machine: SQLite in the data directory, and supervisors beside the server.
    ///
    /// # Errors
    /// If the directory cannot be made, is somebody else's, or its store cannot be opened or is
    /// damaged.
    pub fn local(
        limits: &Limits,
        cgroup: CgroupUse,
        check: StoreCheck,
    ) -> Result<Self, AssemblyError> {
        let data = &limits.jobs.data;
        own_directory(data)?;
        let path = data.join(SqliteStore::FILE);
        let unusable = |source| AssemblyError::Store { path: path.clone(), source };
        let store = SqliteStore::open(&path).map_err(unusable)?;
        if check == StoreCheck::All {
            store.check().map_err(unusable)?;
        }
        let settings = LocalSettings { cgroup, ..LocalSettings::new(data) };
        let executor = LocalExecutor::new(settings)
            .map_err(|source| AssemblyError::Data { path: data.clone(), source })?;
        Ok(Self { store: Arc::new(store), executor: Arc::new(executor) })
    }
}

/// The engine of a data directory, on these.
///
/// # Errors
/// If the directory cannot be made, or is somebody else's.
pub fn engine(
    limits: &Limits,
    backends: Backends,
    references: &Arc<Data>,
) -> Result<Engine, AssemblyError> {
    let data = &limits.jobs.data;
    own_directory(data)?;
    let Backends { store, executor } = backends;
    let engine = Engine::new(limits.jobs.clone(), store, executor, Arc::new(SystemClock))
        .map_err(|source| AssemblyError::Data { path: data.clone(), source })?;
    references.owner_disk.told_by(&engine);
    Ok(engine.fetched_by(Arc::new(DataStager::new(Arc::clone(references)))))
}

/// A host of these services, at their names below the public URL or, for a script's only one, at
/// the public URL itself.
///
/// # Errors
/// If a service cannot be loaded or the spool cannot be made.
pub fn host(
    limits: Limits,
    place: PublicAddress,
    engine: Engine,
    data: Arc<Data>,
    descriptions: Vec<Description>,
    functions: Vec<Functions>,
) -> Result<Arc<Host>, AssemblyError> {
    let directory = &limits.jobs.data;
    let providers = providers(&limits, &data, descriptions, functions)?;
    let worker = worker(directory, &data.secrets)?;
    let spool = SpoolDirectory::open(directory, limits.jobs.disk_reserve)
        .map_err(|source| AssemblyError::Data { path: directory.join("spool"), source })?;
    let host = Host::new(limits.faces, place, engine, data, spool, worker, providers);
    guarded(host, directory, None, limits.jobs.owner_limits())
}

/// A host of these services in the place of one that is in use: with its jobs and data, and other settings of the
/// faces. Users, tokens and whatever else says who may do what are read again.
///
/// # Errors
/// If a service cannot be loaded, or what says who may do what cannot be used.
pub fn successor(
    running: &Host,
    limits: Limits,
    descriptions: Vec<Description>,
    functions: Vec<Functions>,
) -> Result<Arc<Host>, AssemblyError> {
    let providers = providers(&limits, &running.data, descriptions, functions)?;
    let host = running.successor(limits.faces, providers);
    guarded(host, &limits.jobs.data, Some(running), limits.jobs.owner_limits())
}

/// The host with all that knows who calls, and who may do what: read when a server starts, and again at each reload.
fn guarded(
    host: Host,
    directory: &Path,
    running: Option<&Host>,
    defaults: OwnerLimits,
) -> Result<Arc<Host>, AssemblyError> {
    // Those in use know whose password was right, and who failed too often.
    let kept = running.filter(|running| running.settings.has_logins_of(&host.settings));
    let authenticators = match kept {
        Some(running) => Arc::clone(&running.authenticators),
        None => Arc::new(Authenticators::open(&host.settings, directory)?),
    };
    let host = host.authenticated_by(authenticators);
    Ok(Arc::new(match host.settings.policy.clone() {
        Some(path) => {
            let file = PolicyFile::open(&path, Arc::clone(&host.audit))?;
            // A script is started for each request.
            if host.place() == PublicAddress::Below {
                file.announce();
            }
            let known = |name: &str| {
                host.service(name).is_some()
                    || [session::NAME, domain::NAME].contains(&name)
                    || RESERVED_NAMES.contains(&name)
            };
            for service in file.policy().services().into_iter().filter(|name| !known(name)) {
                tracing::warn!(service, "the policy has rules for a service that is not here");
            }
            let file = Arc::new(file);
            limit_owners(&host.engine, Some(Arc::clone(&file)), defaults);
            host.authorised_by(file)
        }
        None => {
            limit_owners(&host.engine, None, defaults);
            host
        }
    }))
}

/// What owners may have, in an engine without a host: as the policy of these limits says.
///
/// # Errors
/// If the policy can't be used.
pub fn limit_owners_by(engine: &Engine, limits: &Limits) -> Result<(), AssemblyError> {
    let Some(path) = &limits.faces.policy else { return Ok(()) };
    let audit = Arc::new(AuditLog::open(&limits.jobs.data, &limits.faces));
    let file = Arc::new(PolicyFile::open(path, audit)?);
    limit_owners(engine, Some(file), limits.jobs.owner_limits());
    Ok(())
}

fn limit_owners(engine: &Engine, policy: Option<Arc<PolicyFile>>, defaults: OwnerLimits) {
    engine.set_reuse_rule(policy.clone().map(reuse_rule));
    match policy {
        Some(file) => {
            engine.set_quotas(move || Arc::new(PolicyQuotas::new(file.policy(), defaults)));
        }
        None => {
            let defaults: Arc<dyn OwnerQuotas> = Arc::new(defaults);
            engine.set_quotas(move || Arc::clone(&defaults));
        }
    }
}

/// Whether somebody may have results of somebody else's jobs, as the policy says when it is asked.
fn reuse_rule(file: Arc<PolicyFile>) -> Arc<ReuseRule> {
    Arc::new(move |principal, service, operation, owner| {
        let action = Action::Reuse;
        file.policy().may_reuse(&Access { principal, service, operation, action }, owner)
    })
}

fn providers(
    limits: &Limits,
    data: &Data,
    descriptions: Vec<Description>,
    functions: Vec<Functions>,
) -> Result<Vec<Box<dyn Provider>>, AssemblyError> {
    let environments = limits.jobs.data.join("environments");
    let mut providers: Vec<Box<dyn Provider>> = Vec::new();
    for mut description in descriptions {
        let name = description.service.name.clone();
        description.limits.disk_reserve = limits.jobs.disk_reserve;
        let program = Program::load(description, &environments, &data.secrets)
            .map_err(|source| AssemblyError::Service { name, source })?;
        for (operation, missing) in program.missing() {
            let service = &program.service().name;
            tracing::warn!(service, operation, "{missing}; calls fault until it is installed");
        }
        providers.push(Box::new(program));
    }
    for functions in functions {
        providers.push(Box::new(FunctionProvider::new(functions)));
    }
    let sessions = data.sessions.is_some();
    let ranks = providers.iter().any(|provider| provider.ranks().is_some());
    // Tokens of any service are good for `domain`: no other service is called so, whether it is offered or not.
    let own = [sessions.then_some(session::NAME), Some(domain::NAME)];
    for taken in own.into_iter().flatten().chain(RESERVED_NAMES) {
        if providers.iter().any(|provider| provider.service().name == taken) {
            return Err(AssemblyError::Taken(taken));
        }
    }
    if sessions {
        providers.push(Box::new(session::provider()));
    }
    if ranks {
        providers.push(Box::new(domain::provider()));
    }
    let mut names = BTreeSet::new();
    for provider in &providers {
        let name = &provider.service().name;
        if !names.insert(name.clone()) {
            return Err(AssemblyError::Twice(name.clone()));
        }
    }
    Ok(providers)
}

/// How jobs of functions are started: by this binary, in this process's environment, because they are
/// its own code.
fn worker(data: &Path, secrets: &BTreeSet<String>) -> Result<WorkerProgram, AssemblyError> {
    let program = std::env::current_exe()
        .map_err(|source| AssemblyError::Data { path: data.to_owned(), source })?;
    let whole = Inheritance { pass: vec!["*".to_owned()], secrets: secrets.clone() };
    let environment = whole
        .own()
        .and_then(|variables| environment::keep(&variables, &data.join("environments")))
        .map_err(|source| AssemblyError::Service { name: WORKER.to_owned(), source })?;
    Ok(WorkerProgram { program, arguments: vec![WORKER.to_owned()], environment })
}

/// Makes a directory that only its owner can look into, or makes sure that it is ours.
///
/// # Errors
/// If it can't be made, or is somebody else's.
pub fn own_directory(path: &Path) -> Result<(), AssemblyError> {
    let failed = |source| AssemblyError::Data { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let owner = fs::metadata(path).map_err(failed)?.uid();
    if owner != nix::unistd::geteuid().as_raw() {
        return Err(AssemblyError::Owner { path: path.to_owned(), owner });
    }
    // What callers sent is nobody else's to read, whoever made the directory.
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)
}
