//! What a server counts, in the OpenMetrics text format that Prometheus reads.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use fishplate_contract::FaultCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::host::{Host, ServiceEntry};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    service: String,
    verb: String,
    /// `ok`, or the code of the fault.
    outcome: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerbLabels {
    service: String,
    verb: String,
}

/// Counters of one verb and outcome, found once.
#[derive(Debug)]
pub struct Counters {
    done: Counter<u64, AtomicU64>,
    durations: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    /// Of the answer.
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RelayLabels {
    /// Its URL.
    relay: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SiteLabels {
    site: String,
}

type Durations = Family<VerbLabels, Histogram, fn() -> Histogram>;

/// The counters of a server.
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter<u64, AtomicU64>>,
    durations: Durations,
    refused: Family<RefusalLabels, Counter<u64, AtomicU64>>,
    connections: Gauge<i64, AtomicI64>,
    relays: Family<RelayLabels, Gauge<i64, AtomicI64>>,
    sites: Family<SiteLabels, Gauge<i64, AtomicI64>>,
    passages: Gauge<i64, AtomicI64>,
    queued: Gauge<i64, AtomicI64>,
    running: Gauge<i64, AtomicI64>,
    disk: Gauge<i64, AtomicI64>,
    lost: Gauge<i64, AtomicI64>,
    pool: Gauge<i64, AtomicI64>,
    dropped: Gauge<i64, AtomicI64>,
}

/// What is counted of data by reference.
#[derive(Clone, Debug, Default)]
pub struct DataFigures {
    /// Bytes sent to those who had an address.
    served: Counter<u64, AtomicU64>,
    /// Bytes taken in from those who uploaded.
    received: Counter<u64, AtomicU64>,
    /// Bytes that references stood for.
    resolved: Counter<u64, AtomicU64>,
    /// Bytes of outputs that were delivered.
    delivered: Counter<u64, AtomicU64>,
    running: Gauge<i64, AtomicI64>,
}

/// A transfer that runs as long as this lives.
#[derive(Debug)]
pub(crate) struct RunningTransfer(Gauge<i64, AtomicI64>);

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl DataFigures {
    /// A transfer begins.
    pub(crate) fn transfer(&self) -> RunningTransfer {
        self.running.inc();
        RunningTransfer(self.running.clone())
    }

    /// So many bytes are sent.
    pub(crate) fn served(&self, bytes: u64) {
        self.served.inc_by(bytes);
    }

    /// So many bytes came.
    pub(crate) fn received(&self, bytes: u64) {
        self.received.inc_by(bytes);
    }

    /// A reference stood for so many bytes.
    pub(crate) fn resolved(&self, bytes: u64) {
        self.resolved.inc_by(bytes);
    }

    /// So many bytes were delivered.
    pub(crate) fn delivered(&self, bytes: u64) {
        self.delivered.inc_by(bytes);
    }

    fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("data_served", "Data sent to those who had its address", &self.served),
            ("data_received", "Data taken in from those who uploaded it", &self.received),
            ("data_resolved", "Data that references stood for, fetched or here", &self.resolved),
            ("data_delivered", "Outputs delivered to where callers wanted them", &self.delivered),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, counter.clone());
        }
        let help = "References being resolved and outputs being delivered";
        registry.register("transfers_running", help, self.running.clone());
    }
}

impl Metrics {
    /// Those of a server; of data by reference, these.
    pub fn new(data: &DataFigures) -> Self {
        let mut registry = Registry::with_prefix("fishplate");
        let calls = Family::default();
        registry.register("calls", "Calls answered", calls.clone());
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_5, 4.0, 12));
        let durations = Durations::new_with_constructor(buckets);
        registry.register_with_unit(
            "call_duration",
            "Time from a call's header to its answer",
            Unit::Seconds,
            durations.clone(),
        );
        let refused = Family::default();
        let help = "Requests answered unread: who sent them is not known, or may not; another host; too many connections";
        registry.register("requests_refused", help, refused.clone());
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        let relays = Family::default();
        let help = "Connections to a relay that wait for requests; 0: nobody reaches this server through it";
        registry.register("relay_connections", help, relays.clone());
        let sites = Family::default();
        let help =
            "Connections of a site of which this server is the relay, that wait or are in use";
        registry.register("site_connections", help, sites.clone());
        let passages = Gauge::default();
        let help = "Connections and requests that are being passed on to ranks";
        registry.register("passages", help, passages.clone());
        let queued = Gauge::default();
        registry.register("jobs_queued", "Jobs that wait for their turn", queued.clone());
        let running = Gauge::default();
        registry.register("jobs_running", "Jobs whose program runs", running.clone());
        let disk = Gauge::default();
        registry.register_with_unit(
            "jobs_disk",
            "What ended jobs occupy, and directories of jobs that lost their record",
            Unit::Bytes,
            disk.clone(),
        );
        let lost = Gauge::default();
        let help = "Directories of jobs that lost their record and are set aside";
        registry.register("jobs_lost", help, lost.clone());
        let dropped = Gauge::default();
        let help = "Calls of functions and transfers that are in no usage record, because the store could not be written";
        registry.register("usage_dropped", help, dropped.clone());
        data.register(&mut registry);
        let pool = Gauge::default();
        registry.register_with_unit("pool_size", "Data in the pool", Unit::Bytes, pool.clone());
        Self {
            pool,
            registry,
            calls,
            durations,
            refused,
            connections,
            relays,
            sites,
            passages,
            queued,
            running,
            disk,
            lost,
            dropped,
        }
    }
}

impl Metrics {
    /// A call was answered: of this verb, by its place in the interface, if that became known; with this
    /// fault, if it was one.
    pub fn called(
        &self,
        entry: &ServiceEntry,
        verb: Option<usize>,
        fault: Option<FaultCode>,
        elapsed: Duration,
    ) {
        let outcome = fault.map_or("ok", FaultCode::name);
        let name = verb.map_or("", |verb| entry.interface.verbs[verb].name.as_str());
        let find = || self.counters(&entry.service().name, name, outcome);
        let found;
        let Counters { done, durations } = match verb {
            Some(verb) if fault.is_none() => entry.counters[verb].get_or_init(find),
            _ => {
                found = find();
                &found
            }
        };
        done.inc();
        durations.observe(elapsed.as_secs_f64());
    }

    fn counters(&self, service: &str, verb: &str, outcome: &str) -> Counters {
        let (service, verb) = (service.to_owned(), verb.to_owned());
        let labels = VerbLabels { service: service.clone(), verb: verb.clone() };
        let durations = self.durations.get_or_create(&labels).clone();
        let labels = CallLabels { service, verb, outcome: outcome.to_owned() };
        Counters { done: self.calls.get_or_create(&labels).clone(), durations }
    }

    /// A request was answered unread, with this status.
    pub fn refused(&self, status: u16) {
        self.refused.get_or_create(&RefusalLabels { status }).inc();
    }

    /// A connection was accepted.
    pub fn connected(&self) {
        self.connections.inc();
    }

    /// Connections to a relay that wait for requests.
    pub(crate) fn relay(&self, relay: &str) -> Gauge<i64, AtomicI64> {
        self.relays.get_or_create(&RelayLabels { relay: relay.to_owned() }).clone()
    }

    /// Connections of a site.
    pub(crate) fn site(&self, site: &str, connections: usize) {
        let count = i64::try_from(connections).unwrap_or(i64::MAX);
        self.sites.get_or_create(&SiteLabels { site: site.to_owned() }).set(count);
    }

    /// A site is not known any more.
    pub(crate) fn forget_site(&self, site: &str) {
        self.sites.remove(&SiteLabels { site: site.to_owned() });
    }

    /// A connection has ended.
    pub fn disconnected(&self) {
        self.connections.dec();
    }
}

impl Host {
    /// The text that Prometheus reads.
    pub async fn metrics(&self) -> String {
        let backlog = self.engine.backlog().await;
        let gauge = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let free = self.domains.passages().available_permits();
        let passages = self.settings.gateway_connections.saturating_sub(free);
        self.metrics.passages.set(gauge(passages as u64));
        self.metrics.queued.set(gauge(backlog.queued));
        self.metrics.running.set(gauge(backlog.running));
        self.metrics.disk.set(gauge(self.engine.disk_used()));
        self.metrics.lost.set(gauge(self.engine.lost_jobs()));
        self.metrics.dropped.set(gauge(self.engine.usage_dropped()));
        if let Ok(bytes) = self.data.pool.total() {
            self.metrics.pool.set(gauge(bytes));
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.metrics.registry);
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
