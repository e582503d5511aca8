//! A service and its verbs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::lexical::closest;
use fishplate_contract::{
    Argument, Array, JobFilter, JobId, JobPage, JobReport, JobState, KillResult, LogPage,
    LogStream, Parameter, Payload, SubmittedJob, Value, Verb,
};
use fishplate_wire::wsdl::{self, DescribedOperation, Description};
use fishplate_wire::{
    ArrayForm, ExpectedTable, Packaging, PackedMessage, QName, RequestForm, SoapReply, SoapVersion,
    pack, write_request,
};
use http::Uri;

use crate::credentials::Origin;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::location;
use crate::report::Fields;
use crate::retry::retrying;
use crate::settings::{MTOM_THRESHOLD, Options, Retry, Settings};
use crate::transport::Transport;

/// A service, known by its WSDL. A clone shares its connections.
#[derive(Clone)]
pub struct Service {
    inner: Arc<ServiceInner>,
}

struct ServiceInner {
    settings: Settings,
    transport: Transport,
    description: Description,
    wsdl: String,
    wsdl_url: String,
    address: Uri,
    /// What answers should hold, by the names of their wrappers: made once.
    expected: HashMap<QName, Arc<ExpectedTable>>,
}

/// First and longest wait between two questions whether a job has ended.
const FIRST_POLL: Duration = Duration::from_millis(50);
const LONGEST_POLL: Duration = Duration::from_secs(5);

/// A random idempotency key: 32 hexadecimal digits.
pub fn new_key() -> String {
    let mut bits = [0; 16];
    // The system's generator is there, or nothing secure could run on this machine.
    getrandom::fill(&mut bits).expect("the system gives random numbers");
    JobId::from_bytes(bits).to_string()
}

impl Service {
    /// The service at a URL, with or without `?wsdl`.
    ///
    /// # Errors
    /// See [`Error`]: the URL, the transport, the description.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, Settings::default()).await
    }

    /// The same with settings of one's own.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub async fn connect_with(url: &str, settings: Settings) -> Result<Self, Error> {
        let url = location::of_wsdl(url)?;
        let transport = Transport::new(&settings, &url);
        let fetching = transport.get(url.clone());
        let (wsdl, url) = limited(settings.timeout, &url, fetching).await?;
        Self::described(wsdl, &url, settings, transport)
    }

    /// The service at a URL by a description that was fetched before, from where it stood then. Nothing is asked before
    /// the first call.
    ///
    /// # Errors
    /// Those of [`Self::connect`] that are about the URLs and the description.
    pub fn open(
        url: &str,
        wsdl: String,
        wsdl_url: &str,
        settings: Settings,
    ) -> Result<Self, Error> {
        let transport = Transport::new(&settings, &location::of_wsdl(url)?);
        Self::described(wsdl, &location::parse(wsdl_url)?, settings, transport)
    }

    fn described(
        wsdl: String,
        url: &Uri,
        settings: Settings,
        transport: Transport,
    ) -> Result<Self, Error> {
        let description =
            wsdl::read(&wsdl).map_err(|source| Error::NotWsdl { url: url.to_string(), source })?;
        let address = address(&description, &settings, url)?;
        let wsdl_url = url.to_string();
        Ok(Self {
            inner: Arc::new(ServiceInner {
                expected: expected(&description),
                settings,
                transport,
                description,
                wsdl,
                wsdl_url,
                address,
            }),
        })
    }

    /// Calls go to where its description was found, for services whose description stands at their
    /// address: the description may name one that can't be reached from here.
    pub(crate) fn called_where_described(mut self) -> Result<Self, Error> {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            let url = inner.wsdl_url.split(['?', '#']).next().unwrap_or_default();
            inner.address = location::parse(url)?;
        }
        Ok(self)
    }

    /// What the service offers.
    pub fn description(&self) -> &Description {
        &self.inner.description
    }

    /// The description as it was fetched.
    pub fn wsdl(&self) -> &str {
        &self.inner.wsdl
    }

    /// Where the description stands.
    pub fn wsdl_url(&self) -> &str {
        &self.inner.wsdl_url
    }

    /// How it is reached.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Where calls go.
    pub fn address(&self) -> String {
        self.inner.address.to_string()
    }

    /// Names of the operations that can be called, in the description's order.
    pub fn operations(&self) -> impl Iterator<Item = &str> {
        let all = self.inner.description.operations.iter();
        all.filter(|described| described.definition.verb == Verb::Call)
            .map(|described| described.definition.operation.as_str())
    }

    /// Whether its program can be a rank of a communication domain.
    pub fn has_ranks(&self) -> bool {
        let mut all = self.inner.description.operations.iter();
        all.any(|described| described.definition.verb == Verb::Init)
    }

    /// An operation as it is called.
    ///
    /// # Errors
    /// [`Error::UnknownOperation`].
    pub fn operation(&self, name: &str) -> Result<&DescribedOperation, Error> {
        self.verb_of(name, Verb::Call)
    }

    /// Runs an operation and waits for its results.
    ///
    /// With a key in the options the program runs once, though the connection may break.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(
        &self,
        operation: &str,
        arguments: Vec<Argument>,
        options: &Options,
    ) -> Result<SoapReply, Error> {
        let described = self.verb_of(operation, Verb::Call)?;
        self.ask(described, arguments, options, options.call.key.is_some()).await
    }

    /// Starts an operation as a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn spawn(
        &self,
        operation: &str,
        arguments: Vec<Argument>,
        options: &Options,
    ) -> Result<JobId, Error> {
        self.submit(operation, arguments, options).await.map(|job| job.id)
    }

    /// Starts an operation as a job, and tells whether it was there before, under the same key. If the connection broke and
    /// the call was sent again, nobody can tell: it counts as begun by this call.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn submit(
        &self,
        operation: &str,
        arguments: Vec<Argument>,
        options: &Options,
    ) -> Result<SubmittedJob, Error> {
        let described = self.verb_of(operation, Verb::Spawn)?;
        let meter = options.meter.clone().unwrap_or_default();
        let options = Options { meter: Some(Arc::clone(&meter)), ..options.clone() };
        let reply = self.ask(described, arguments, &options, options.call.key.is_some()).await?;
        let id = Fields(&reply.outputs).job("job").map_err(|reason| self.bad_answer(reason))?;
        let existing = meter.tries() == 1 && reply.job.is_some_and(|job| job.existing);
        Ok(SubmittedJob { id, existing })
    }

    /// Starts an operation as a rank of a communication domain; `arguments` say which.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn init(&self, operation: &str, arguments: Vec<Argument>) -> Result<JobId, Error> {
        let described = self.verb_of(operation, Verb::Init)?;
        let reply = self.ask(described, arguments, &Options::default(), false).await?;
        Fields(&reply.outputs).job("job").map_err(|reason| self.bad_answer(reason))
    }

    /// The results of a job of this operation that has ended.
    ///
    /// # Errors
    /// See [`Error`]; a fault `NotFinished` if it has not.
    pub async fn results(
        &self,
        operation: &str,
        job: JobId,
        options: &Options,
    ) -> Result<SoapReply, Error> {
        let described = self.verb_of(operation, Verb::Results)?;
        self.ask(described, vec![about(job)], options, true).await
    }

    /// Whether a job has not ended yet.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn running(&self, job: JobId) -> Result<bool, Error> {
        self.verb(Verb::Running, vec![about(job)], |fields| fields.flag("running")).await
    }

    /// Ends a job and all of its processes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn kill(&self, job: JobId) -> Result<KillResult, Error> {
        let read = |fields: Fields<'_>| {
            Ok(KillResult { state: fields.state()?, message: fields.text("message")?.to_owned() })
        };
        self.verb(Verb::Kill, vec![about(job)], read).await
    }

    /// All there is to tell of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self, job: JobId) -> Result<JobReport, Error> {
        let service = &self.inner.description.name;
        self.verb(Verb::Status, vec![about(job)], |fields| fields.report(service)).await
    }

    /// What a job's program wrote, from a byte on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn log(&self, job: JobId, stream: LogStream, offset: u64) -> Result<LogPage, Error> {
        let arguments = vec![
            about(job),
            Argument::text("stream", stream.name()),
            Argument::text("offset", offset.to_string()),
        ];
        let read = |fields: Fields<'_>| {
            Ok(LogPage {
                text: fields.text("text")?.to_owned(),
                next: fields.number("next")?,
                end: fields.flag("end")?,
            })
        };
        self.verb(Verb::Log, arguments, read).await
    }

    /// The caller's jobs on this service, newest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn jobs(&self, filter: &JobFilter) -> Result<JobPage, Error> {
        let service = &self.inner.description.name;
        self.verb(Verb::Jobs, filter.arguments(), |fields| fields.page(service)).await
    }

    /// Forgets an ended job and frees its space.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn remove(&self, job: JobId) -> Result<(), Error> {
        self.verb(Verb::Remove, vec![about(job)], |fields| fields.flag("removed")).await.map(drop)
    }

    /// Waits until a job has ended, with questions that become rarer (from 0.05 s to 5 s), and
    /// tells every answer.
    ///
    /// # Errors
    /// See [`Error`]. How the job ended is no error here.
    pub async fn wait(
        &self,
        job: JobId,
        progress: impl FnMut(&JobReport),
    ) -> Result<JobReport, Error> {
        self.wait_until(job, progress, JobState::is_final).await
    }

    /// Waits until the data that a job refers to is at the server, likewise: until then what the
    /// caller [offers](crate::data::Offer) has to be there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn wait_fetched(
        &self,
        job: JobId,
        progress: impl FnMut(&JobReport),
    ) -> Result<JobReport, Error> {
        self.wait_until(job, progress, |state| state != JobState::Fetching).await
    }

    async fn wait_until(
        &self,
        job: JobId,
        mut progress: impl FnMut(&JobReport),
        enough: impl Fn(JobState) -> bool,
    ) -> Result<JobReport, Error> {
        let mut pauses = Backoff::new();
        loop {
            let report = self.status(job).await?;
            progress(&report);
            if enough(report.state) {
                return Ok(report);
            }
            pauses.pause().await;
        }
    }

    /// A verb on jobs: changes nothing, or the same thing however often it is sent.
    async fn verb<T>(
        &self,
        verb: Verb,
        arguments: Vec<Argument>,
        read: impl FnOnce(Fields<'_>) -> Result<T, String>,
    ) -> Result<T, Error> {
        let described = self.verb_of("", verb)?;
        let reply = self.ask(described, arguments, &Options::default(), true).await?;
        read(Fields(&reply.outputs)).map_err(|reason| self.bad_answer(reason))
    }

    /// The message that [`Self::call`] sends, for who sends it by other means (a load generator). Arrays and files
    /// travel as the settings say.
    ///
    /// # Errors
    /// Those of [`Self::call`] that are about the operation and its arguments.
    pub fn request(
        &self,
        operation: &str,
        arguments: Vec<Argument>,
        options: &Options,
    ) -> Result<PackedMessage, Error> {
        let described = self.verb_of(operation, Verb::Call)?;
        self.packed(described, &arranged(described, arguments)?, options)
    }

    async fn ask(
        &self,
        described: &DescribedOperation,
        arguments: Vec<Argument>,
        options: &Options,
        safe: bool,
    ) -> Result<SoapReply, Error> {
        let inner = &*self.inner;
        let arguments = arranged(described, arguments)?;
        let packed = self.packed(described, &arguments, options)?;
        let meter = options.meter.clone().unwrap_or_default();
        let outputs = streamed(&described.definition.signature.outputs, &options.streams);
        let expected = match options.streams.is_empty() {
            true => Arc::clone(&inner.expected[&described.response]),
            false => Arc::new(ExpectedTable::response(described.response.clone(), &outputs)),
        };
        let allowed = options.timeout.or(inner.settings.timeout);
        let exchange = Exchange {
            transport: &inner.transport,
            url: &inner.address,
            message: &packed,
            accept: self.accept(),
            expected: &expected,
            outputs: &outputs,
            limits: &inner.settings.limits,
            spool_dir: options.spool_dir.as_deref(),
            meter: &meter,
            stored_whole: options.stored_whole,
            stall: allowed,
        };
        // A server that is not ours does not know our keys: there nothing is safe twice.
        // What comes by itself can't be sent twice.
        let safe =
            safe && inner.description.ours && !arguments.iter().any(|it| it.value.is_stream());
        let retry = if safe { inner.settings.retry } else { Retry::NEVER };
        // On the heap, where it stays: what surrounds it is moved about.
        let asking = Box::pin(retrying(retry, &meter, || exchange.run()));
        limited(allowed, &inner.address, asking).await
    }

    fn packed(
        &self,
        described: &DescribedOperation,
        arguments: &[Argument],
        options: &Options,
    ) -> Result<PackedMessage, Error> {
        let form = RequestForm {
            wrapper: described.request.clone(),
            qualified: described.qualified,
            version: self.inner.settings.soap,
            options: options.call.clone(),
            arrays: self.arrays(described),
            items: described.items.clone(),
        };
        let envelope = write_request(&form, arguments)?;
        Ok(pack(&envelope, self.packaging(arguments), Some(&described.action)))
    }

    /// How arrays travel, where there are any. Elements are what every server reads; ours reads
    /// bytes too, which are smaller and faster, and is the only one to do so.
    fn arrays(&self, described: &DescribedOperation) -> Option<ArrayForm> {
        let signature = &described.definition.signature;
        let mut parameters = signature.inputs.iter().chain(&signature.outputs);
        parameters.find(|parameter| parameter.data_type.as_array().is_some())?;
        let wanted = self.inner.settings.arrays.unwrap_or(ArrayForm::Binary);
        self.inner.description.ours.then_some(wanted)
    }

    fn packaging(&self, arguments: &[Argument]) -> Packaging {
        let is_large = |argument: &Argument| match &argument.value {
            value if value.is_stream() => true,
            Value::Data(Payload::Reference(_)) => false,
            Value::Data(payload) | Value::Array(Array { data: payload, .. }) => {
                payload.len().is_some_and(|len| len > MTOM_THRESHOLD)
            }
            _ => false,
        };
        let fitting = if self.inner.description.ours && arguments.iter().any(is_large) {
            Packaging::Mtom
        } else {
            Packaging::Plain
        };
        self.inner.settings.packaging.unwrap_or(fitting)
    }

    fn accept(&self) -> &'static str {
        let ours = self.inner.description.ours;
        let fitting = if ours { Packaging::Mtom } else { Packaging::Plain };
        self.inner.settings.packaging.unwrap_or(fitting).accept()
    }

    fn verb_of(&self, operation: &str, verb: Verb) -> Result<&DescribedOperation, Error> {
        let description = &self.inner.description;
        let found = description.operations.iter().find(|described| {
            described.definition.verb == verb && described.definition.operation == operation
        });
        found.ok_or_else(|| {
            let name = if operation.is_empty() {
                format!("{verb:?}").to_lowercase()
            } else {
                operation.to_owned()
            };
            let known: Vec<String> = if operation.is_empty() {
                description.operations.iter().map(|known| known.definition.name.clone()).collect()
            } else {
                self.operations().map(str::to_owned).collect()
            };
            Error::UnknownOperation {
                service: description.name.clone(),
                closest: closest(&name, known.iter().map(String::as_str)).map(str::to_owned),
                name,
                known,
            }
        })
    }

    fn bad_answer(&self, reason: String) -> Error {
        Error::BadAnswer { url: self.address(), reason }
    }
}

/// The output of that name of an operation.
///
/// # Errors
/// [`Error::UnknownParameter`] with the closest name.
pub fn output_of<'d>(
    described: &'d DescribedOperation,
    name: &str,
) -> Result<&'d Parameter, Error> {
    find(described, "output", &described.definition.signature.outputs, name)
}

/// The input of that name of an operation.
///
/// # Errors
/// [`Error::UnknownParameter`] with the closest name.
pub fn input_of<'d>(described: &'d DescribedOperation, name: &str) -> Result<&'d Parameter, Error> {
    find(described, "input", &described.definition.signature.inputs, name)
}

fn find<'d>(
    described: &DescribedOperation,
    direction: &'static str,
    parameters: &'d [Parameter],
    name: &str,
) -> Result<&'d Parameter, Error> {
    let found = parameters.iter().find(|parameter| parameter.name == name);
    found.ok_or_else(|| Error::UnknownParameter {
        operation: described.definition.name.clone(),
        direction,
        name: name.to_owned(),
        closest: closest(name, parameters.iter().map(|parameter| parameter.name.as_str()))
            .map(str::to_owned),
        known: parameters.iter().map(|parameter| parameter.name.clone()).collect(),
    })
}

/// The arguments in the order of the operation, which strict servers insist on; each known, none
/// missing, none twice. Their values are the server's to judge.
fn arranged(
    described: &DescribedOperation,
    arguments: Vec<Argument>,
) -> Result<Vec<Argument>, Error> {
    for argument in &arguments {
        input_of(described, &argument.name)?;
    }
    let operation = || described.definition.name.clone();
    let mut left = arguments;
    let mut arranged = Vec::with_capacity(left.len());
    for parameter in &described.definition.signature.inputs {
        let (mine, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|argument| argument.name == parameter.name);
        left = others;
        if mine.is_empty() && parameter.is_required() {
            let name = parameter.name.clone();
            return Err(Error::MissingParameter { operation: operation(), name });
        }
        if mine.len() > 1 && !parameter.repeated {
            let name = parameter.name.clone();
            return Err(Error::RepeatedParameter { operation: operation(), name });
        }
        arranged.extend(mine.into_iter().map(|argument| argument.in_form_of(parameter)));
    }
    Ok(arranged)
}

/// The outputs, the files of these names as streams.
fn streamed<'o>(outputs: &'o [Parameter], names: &[String]) -> Cow<'o, [Parameter]> {
    let mut outputs = Cow::Borrowed(outputs);
    if !names.is_empty() {
        let outputs = outputs.to_mut().iter_mut();
        outputs.for_each(|output| {
            output.streamed = output.is_file() && names.contains(&output.name);
        });
    }
    outputs
}

/// Sleeps between questions that become rarer, from 0.05 s to 5 s.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Self(FIRST_POLL)
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(LONGEST_POLL);
    }
}

fn about(job: JobId) -> Argument {
    Argument::text("job", job.to_string())
}

/// Where calls go: the address of the wanted SOAP version, or the one that was asked for. A server of
/// ours is called where its description was `found`: it need not know by which name users reach it,
/// and what logs them in is for that name.
fn address(description: &Description, settings: &Settings, found: &Uri) -> Result<Uri, Error> {
    let address = match &settings.address {
        Some(address) => Some(address.as_str()),
        None => description.address(settings.soap),
    };
    let address = address.ok_or_else(|| Error::NoAddress {
        service: description.name.clone(),
        version: match settings.soap {
            SoapVersion::V11 => "1.1",
            SoapVersion::V12 => "1.2",
        },
    })?;
    let address = location::parse(address)?;
    let is_its_own = description.ours && settings.address.is_none() && same_name(&address, found);
    if is_its_own && !leads_out_of_tls(&address, found) {
        let (scheme, authority) = (found.scheme_str(), found.authority());
        return location::parse(&format!(
            "{}://{}{}",
            scheme.unwrap_or("http"),
            authority.map_or("", http::uri::Authority::as_str),
            found.path()
        ));
    }
    Ok(address)
}

/// Both end with the same name: the one is the other's page, and no copy in a file.
fn same_name(address: &Uri, found: &Uri) -> bool {
    let name = |uri: &Uri| uri.path().rsplit('/').next().map(str::to_owned);
    name(address) == name(found)
}

/// The description says https, and was found, on another machine, without.
fn leads_out_of_tls(address: &Uri, found: &Uri) -> bool {
    let is_secure = |uri: &Uri| Origin::of(uri).is_some_and(|origin| origin.is_secure());
    let here = Origin::of(found).is_some_and(|origin| origin.is_loopback());
    is_secure(address) && !is_secure(found) && !here
}

fn expected(description: &Description) -> HashMap<QName, Arc<ExpectedTable>> {
    let of = |described: &DescribedOperation| {
        let outputs = &described.definition.signature.outputs;
        let expected = ExpectedTable::response(described.response.clone(), outputs);
        (described.response.clone(), Arc::new(expected))
    };
    description.operations.iter().map(of).collect()
}

pub(crate) async fn limited<T, E: From<Error>>(
    allowed: Option<Duration>,
    url: &Uri,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match allowed {
        None => work.await,
        Some(after) => tokio::time::timeout(after, work)
            .await
            .unwrap_or_else(|_| Err(Error::TimedOut { url: url.to_string(), after }.into())),
    }
}
