//! A plan made ready: names resolved, requests that are always the same rendered, expectations parsed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::connection::Target;
use super::plan::{LoadPlan, PlannedOperation};
use super::response::Keep;
use super::run::LoadError;
use super::tls;
use crate::check::{Checker, Expected};
use crate::random::Random;
use crate::request::outgoing::Outgoing;
use crate::request::{RequestId, Template};

/// How we call ourselves.
const USER_AGENT: &str = concat!("fishplate-quake/", env!("CARGO_PKG_VERSION"));

/// A load made ready.
pub(super) struct Prepared {
    pub(super) operations: Vec<PreparedOperation>,
    pub(super) targets: Vec<Target>,
    pub(super) deadline: Duration,
    /// A request without an answer is given up after this.
    pub(super) gives_up_after: Duration,
    pub(super) keep_alive: bool,
    /// Whether clients keep cookies, how many, and of how many bytes.
    pub(super) cookies: Option<(usize, usize)>,
    pub(super) seed: u64,
}

/// A kind of request made ready.
pub(super) struct PreparedOperation {
    pub(super) name: String,
    /// The weights of this one and of all before it.
    up_to: f64,
    pub(super) target: usize,
    /// The head, up to what changes: cookies and the body's length.
    head: Vec<u8>,
    body: Option<Template>,
    /// All of it, if it is always the same.
    whole: Option<Outgoing>,
    pub(super) expected: Expected,
    pub(super) checker: Option<Checker>,
    pub(super) keep: Keep,
    pub(super) read_rate: Option<u64>,
    pub(super) send_part: Option<f64>,
}

impl Prepared {
    pub(super) async fn new(plan: &LoadPlan) -> Result<Self, LoadError> {
        let limits = &plan.limits;
        let cookie_size = usize::try_from(limits.cookie_size).unwrap_or(usize::MAX);
        let mut prepared = Self {
            operations: Vec::new(),
            targets: Vec::new(),
            deadline: plan.workload.deadline,
            gives_up_after: plan.workload.deadline.saturating_mul(limits.deadlines),
            keep_alive: plan.workload.keep_alive,
            cookies: plan.workload.cookies.then_some((limits.cookies, cookie_size)),
            seed: plan.seed,
        };
        let (mut names, mut tls) = (Vec::new(), None);
        let mut up_to = 0.0;
        for planned in &plan.operations {
            let url = Url::parse(&planned.url)?;
            let target = match names.iter().position(|name| *name == url.origin()) {
                Some(known) => known,
                None => {
                    prepared.targets.push(url.resolve(plan, &mut tls).await?);
                    names.push(url.origin());
                    names.len() - 1
                }
            };
            up_to += planned.weight;
            let operation = PreparedOperation::new(plan, planned, &url, target, up_to)?;
            prepared.operations.push(operation);
        }
        Ok(prepared)
    }

    /// The operation of a request.
    pub(super) fn draw(&self, random: &mut Random) -> usize {
        let [first @ .., last] = &self.operations[..] else { return 0 };
        if first.is_empty() {
            return 0;
        }
        let drawn = random.part() * last.up_to;
        first.iter().position(|operation| drawn < operation.up_to).unwrap_or(first.len())
    }
}

impl PreparedOperation {
    fn new(
        plan: &LoadPlan,
        planned: &PlannedOperation,
        url: &Url,
        target: usize,
        up_to: f64,
    ) -> Result<Self, LoadError> {
        let expected = Expected::new(&planned.expect);
        let checker = Checker::start(&planned.expect.checker, plan.limits.checker)?;
        let most = usize::try_from(plan.limits.answer_size).unwrap_or(usize::MAX);
        let keep = Keep {
            body: (expected.needs_body() || checker.is_some()).then_some(most),
            digest: expected.needs_digest(),
            cookies: plan.workload.cookies,
        };
        let mut operation = Self {
            name: planned.name.clone(),
            up_to,
            target,
            head: head(plan, planned, url),
            body: planned.body.clone(),
            whole: None,
            expected,
            checker,
            keep,
            read_rate: planned.read_rate,
            send_part: planned.send_part,
        };
        let constant = operation.body.as_ref().is_none_or(Template::is_constant);
        if constant && !plan.workload.cookies {
            let mut whole = Outgoing::default();
            let id = RequestId { request: 0, client: 0 };
            let mut random = Random::new(0, crate::random::Stream::Request(0));
            operation.fill(id, &mut random, &[], &mut Outgoing::default(), &mut whole);
            operation.whole = Some(whole);
        }
        Ok(operation)
    }

    /// A request: the one that is always the same, or one written into `whole` (by way of `body`).
    pub(super) fn render<'o>(
        &'o self,
        id: RequestId,
        random: &mut Random,
        cookies: &[String],
        body: &mut Outgoing,
        whole: &'o mut Outgoing,
    ) -> &'o Outgoing {
        match &self.whole {
            Some(whole) => whole,
            None => {
                self.fill(id, random, cookies, body, whole);
                whole
            }
        }
    }

    fn fill(
        &self,
        id: RequestId,
        random: &mut Random,
        cookies: &[String],
        body: &mut Outgoing,
        whole: &mut Outgoing,
    ) {
        whole.clear();
        body.clear();
        let head = whole.own();
        head.extend_from_slice(&self.head);
        if !cookies.is_empty() {
            head.extend_from_slice(b"Cookie: ");
            head.extend_from_slice(cookies.join("; ").as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        if let Some(template) = &self.body {
            template.fill(id, random, body);
            head.extend_from_slice(b"Content-Length: ");
            head.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        whole.append(body);
    }
}

/// The head of a request, without its end.
fn head(plan: &LoadPlan, planned: &PlannedOperation, url: &Url) -> Vec<u8> {
    let method = if planned.body.is_some() { "POST" } else { "GET" };
    let mut head = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nAccept: {}\r\n",
        url.path, url.authority, planned.accept
    );
    let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
    if planned.body.is_some() {
        add("Content-Type", &planned.content_type);
    }
    if let Some(action) = &planned.action {
        add("SOAPAction", action);
    }
    if let Some(authorization) = &plan.authorization {
        add("Authorization", authorization);
    }
    if !plan.workload.keep_alive {
        add("Connection", "close");
    }
    head.into_bytes()
}

/// An address, as far as a request needs it.
struct Url {
    secure: bool,
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl Url {
    fn parse(url: &str) -> Result<Self, LoadError> {
        let wrong = || LoadError::Url { url: url.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self {
            secure,
            host,
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    fn origin(&self) -> (bool, String, u16) {
        (self.secure, self.host.clone(), self.port)
    }

    async fn resolve(
        &self,
        plan: &LoadPlan,
        tls: &mut Option<Arc<ClientConfig>>,
    ) -> Result<Target, LoadError> {
        let host = || self.host.clone();
        let unknown = |source| LoadError::Host { host: host(), source };
        let found = tokio::net::lookup_host((host(), self.port)).await.map_err(unknown)?;
        let addresses: Vec<SocketAddr> = found.collect();
        let tls = match self.secure {
            false => None,
            true => {
                let config = match tls {
                    Some(config) => Arc::clone(config),
                    None => Arc::clone(tls.insert(tls::configuration(plan.ca.as_deref())?)),
                };
                let wrong = |_| LoadError::Url { url: host() };
                Some((config, ServerName::try_from(host()).map_err(wrong)?))
            }
        };
        Ok(Target { addresses, tls })
    }
}
