//! What each request of the protocol does.

use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::limits::DEFAULTS;
use fishplate_contract::{
    Fault, FaultCode, JobReport, JobState, LogStream, OutputChoice, OutputForm, Verb, lexical,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CreateTaskResult,
    DetailedTask, GetTaskParams, GetTaskResult, Implementation, ListResourceTemplatesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig, Task,
    TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};

use crate::call::{self, OperationJob, Waited, answer, fault_of, protocol_error};
use crate::catalogue::{self, JOB_CANCEL, JOB_LOG, JOB_STATUS, JOB_TOOLS};
use crate::directory::Directory;
use crate::job::{self, JobName, JobResource, TEMPLATES};
use crate::output::{self, Bounds};
use crate::services::{OperationName, ServiceTools, Services};
use crate::{argument, tool};

/// Tools of one page of their list.
const PAGE: usize = 200;

/// How long a call waits for its job before it is a task, if its client knows tasks.
const TASK_AFTER: Duration = Duration::from_secs(2);

/// How often a client should ask how a task stands.
const POLL_EVERY: Duration = Duration::from_secs(1);

const INSTRUCTIONS: &str = "Each tool runs a program at a server as a job. If an answer has no outputs, its job goes on: ask \
    job_status and job_results for it by its name. A file is given as its text, as {\"base64\": ...} or by address, \
    {\"href\": URL}; an output that is told by `href` can be given to another tool as it is.";

/// Bounds of what is waited for and told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a call waits for its job before it answers without results (limit `mcp_wait`).
    pub wait: Duration,
    /// Bytes of a file that stand in the text of an answer (limit `mcp_inline_size`).
    pub inline_size: u64,
    /// Bytes of an image or a sound in an answer, and of what is read as a resource (limit `mcp_read_size`).
    pub read_size: u64,
    /// How long jobs are kept when they have ended; only their own server knows.
    pub retention: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wait: DEFAULTS.mcp_wait,
            inline_size: DEFAULTS.mcp_inline_size,
            read_size: DEFAULTS.mcp_read_size,
            retention: None,
        }
    }
}

/// The services of one caller as tools.
#[derive(Clone)]
pub struct Handler {
    services: Arc<dyn Services>,
    directory: Option<Arc<Directory>>,
    settings: Settings,
}

impl Handler {
    /// Tools of these services. Files of this machine may be given if they are in the directory.
    pub fn new(
        services: Arc<dyn Services>,
        directory: Option<Directory>,
        settings: Settings,
    ) -> Self {
        Self { services, directory: directory.map(Arc::new), settings }
    }

    fn bounds(&self) -> Bounds {
        Bounds { inline: self.settings.inline_size, read: self.settings.read_size }
    }

    fn service(&self, name: &str) -> Result<ServiceTools, Fault> {
        self.services.service(name).ok_or_else(|| {
            let what = format!("there is no service {:?} here", lexical::shortened(name));
            Fault::new(FaultCode::UnknownService, what)
        })
    }

    /// The tool of that name: its service and operation.
    fn find(&self, name: &str) -> Option<(OperationName, ServiceTools)> {
        let mut named = catalogue::named(self.services.operations()).into_iter();
        let (_, of) = named.find(|(known, _)| known == name)?;
        let service = self.services.service(&of.service)?;
        Some((of, service))
    }

    fn tools(&self, from: usize) -> ListToolsResult {
        let named = catalogue::named(self.services.operations());
        let mut result = ListToolsResult::default();
        if from == 0 {
            result.tools = tool::of_jobs();
        }
        let paths = self.directory.is_some();
        for (name, of) in named.iter().skip(from).take(PAGE) {
            let Some(service) = self.services.service(&of.service) else { continue };
            let Some(call) = service.verb(Verb::Call, &of.operation) else { continue };
            result.tools.push(tool::of(name, &service, call, paths));
        }
        let next = from.saturating_add(PAGE);
        result.next_cursor = (next < named.len()).then(|| next.to_string());
        result
    }

    async fn run(
        &self,
        of: OperationName,
        service: ServiceTools,
        given: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let Some(call) = service.verb(Verb::Call, &of.operation) else {
            return Err(Fault::new(
                FaultCode::UnknownOperation,
                "the operation is not here any more",
            ));
        };
        let arguments = argument::read(&call.signature.inputs, given, self.directory.as_deref())?;
        if service.verb(Verb::Spawn, &of.operation).is_none() {
            let known = &call.signature.outputs;
            let done = call::at_once(&service, &of.operation, known, arguments, self.bounds());
            return tokio::select! {
                done = done => Ok(done?.into()),
                () = context.ct.cancelled() => Err(cancelled()),
            };
        }
        let job = OperationJob::begin(service, (of.service, of.operation), arguments).await?;
        let knows_tasks = context.client_capabilities().is_some_and(|it| it.supports_tasks());
        let patience =
            if knows_tasks { TASK_AFTER.min(self.settings.wait) } else { self.settings.wait };
        match job.wait(patience, context).await? {
            Waited::Ended(report) => Ok(job.results(&report, self.bounds()).await.into()),
            Waited::GoesOn(report) if knows_tasks => {
                Ok(CreateTaskResult::new(self.task(&job.job, &report)).into())
            }
            Waited::GoesOn(report) => Ok(job.goes_on(&report).into()),
            Waited::Cancelled => {
                let _ = job.cancel().await;
                Err(cancelled())
            }
        }
    }

    async fn job(&self, given: &Map<String, Value>) -> Result<(OperationJob, JobReport), Fault> {
        let name = given.get("job").and_then(Value::as_str).ok_or_else(|| {
            Fault::new(FaultCode::MissingParameter, "tell which job: {\"job\": \"SERVICE/ID\"}")
                .parameter("job")
        })?;
        self.job_named(name).await
    }

    async fn job_named(&self, name: &str) -> Result<(OperationJob, JobReport), Fault> {
        let job = JobName::parse(name)
            .map_err(|what| Fault::new(FaultCode::NoSuchJob, what).parameter("job"))?;
        OperationJob::find(self.service(&job.service)?, job).await
    }

    /// One of the tools about jobs.
    async fn about_job(
        &self,
        name: &str,
        given: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Fault> {
        let (job, report) = self.job(given).await?;
        match name {
            JOB_STATUS => Ok(call::structured(job::told(&job.job, &report), Vec::new())),
            JOB_CANCEL => Ok(call::structured(job.cancel().await?, Vec::new())),
            JOB_LOG => {
                let stream = stream(given)?;
                let offset =
                    given.get("offset").map_or(Some(0), Value::as_u64).ok_or_else(|| {
                        Fault::new(FaultCode::InvalidValue, "offset is a number of bytes from 0")
                            .parameter("offset")
                    })?;
                let log =
                    job.service.caller.log(job.job.id, stream, offset).await.map_err(fault_of)?;
                let told = json!({ "text": log.text, "next": log.next, "end": log.end });
                Ok(call::structured(told, Vec::new()))
            }
            // The rest are results.
            _ if report.state.is_final() => Ok(job.results(&report, self.bounds()).await),
            _ => match job.wait(self.settings.wait, context).await? {
                Waited::Ended(report) => Ok(job.results(&report, self.bounds()).await),
                Waited::GoesOn(report) => Ok(job.goes_on(&report)),
                // Only who waits goes: the job was not begun by this request.
                Waited::Cancelled => Err(cancelled()),
            },
        }
    }

    fn task(&self, name: &JobName, report: &JobReport) -> Task {
        let (begun, updated) =
            (report.submitted, report.ended.or(report.started).unwrap_or(report.submitted));
        let status = match report.state {
            JobState::Fetching | JobState::Queued | JobState::Running => TaskStatus::Working,
            JobState::Killed => TaskStatus::Cancelled,
            JobState::Done | JobState::Failed | JobState::Unknown => TaskStatus::Completed,
        };
        let mut task =
            Task::new(name.to_string(), status, job::moment(begun), job::moment(updated));
        task.status_message = Some(told_of(report));
        // It counts from the task's beginning, and is at least so long; none at all would mean for ever.
        task.ttl_ms = self.settings.retention.map(|kept| {
            let lasted = u64::try_from(updated.0.saturating_sub(begun.0)).unwrap_or(0);
            millis(kept).saturating_add(lasted)
        });
        task.poll_interval_ms = Some(millis(POLL_EVERY));
        task
    }

    async fn read(&self, uri: &str) -> Result<ResourceContents, Fault> {
        let resource =
            JobResource::parse(uri).map_err(|what| Fault::new(FaultCode::NoSuchData, what))?;
        match resource {
            JobResource::Log { job, stream } => {
                let (job, _) = OperationJob::find(self.service(&job.service)?, job).await?;
                let text = self.whole_log(&job, stream).await?;
                Ok(ResourceContents::text(text, uri))
            }
            JobResource::Output { job, output, at } => {
                let (job, _) = OperationJob::find(self.service(&job.service)?, job).await?;
                self.output(&job, uri, &output, at).await
            }
        }
    }

    /// The beginning of a log, as much as a resource may be.
    async fn whole_log(&self, job: &OperationJob, stream: LogStream) -> Result<String, Fault> {
        let (mut text, mut offset) = (String::new(), 0);
        while (text.len() as u64) < self.settings.read_size {
            let page =
                job.service.caller.log(job.job.id, stream, offset).await.map_err(fault_of)?;
            text.push_str(&page.text);
            if page.end || page.next == offset {
                break;
            }
            offset = page.next;
        }
        Ok(text)
    }

    async fn output(
        &self,
        job: &OperationJob,
        uri: &str,
        output: &str,
        at: usize,
    ) -> Result<ResourceContents, Fault> {
        let known = job.known()?.iter().find(|parameter| parameter.name == output);
        let nothing = || {
            let what = format!("job {} gave no output {:?}", job.job, lexical::shortened(output));
            Fault::new(FaultCode::NoSuchData, what)
        };
        let parameter = known.ok_or_else(nothing)?;
        // A reference tells how large it is before a byte of it moves.
        let one = |form| vec![OutputChoice { name: output.to_owned(), form, to: None }];
        let outputs = job.chosen(one(OutputForm::Auto)).await?;
        let value =
            outputs.into_iter().filter(|it| it.name == output).nth(at).ok_or_else(nothing)?.value;
        let media_type = fishplate_formats::schema::media_type(parameter);
        let value = match value.payload() {
            Some(fishplate_contract::Payload::Reference(of)) => {
                if of.len.is_none_or(|len| len > self.settings.read_size) {
                    return Err(self.too_large(output, Some(&of.url)));
                }
                let outputs = job.chosen(one(OutputForm::Value)).await?;
                outputs
                    .into_iter()
                    .filter(|it| it.name == output)
                    .nth(at)
                    .ok_or_else(nothing)?
                    .value
            }
            _ => value,
        };
        let bytes = match &value {
            fishplate_contract::Value::Text(text) => {
                return Ok(ResourceContents::text(&**text, uri));
            }
            fishplate_contract::Value::Data(payload) => {
                output::bytes(payload, self.settings.read_size).await?
            }
            fishplate_contract::Value::Array(array) => {
                let bytes = output::bytes(&array.data, self.settings.read_size).await?;
                let lists = |bytes: bytes::Bytes| {
                    fishplate_formats::json::array_as_text(array.element, &array.shape, &bytes)
                };
                bytes.map(|bytes| bytes::Bytes::from(lists(bytes)))
            }
            fishplate_contract::Value::Record(_) => return Err(nothing()),
        };
        let bytes = bytes.ok_or_else(|| self.too_large(output, None))?;
        let contents = match output::text(&bytes) {
            Some(text) => ResourceContents::text(text, uri),
            None => ResourceContents::blob(output::base64(&bytes), uri),
        };
        Ok(contents.with_mime_type(media_type))
    }

    fn too_large(&self, output: &str, url: Option<&str>) -> Fault {
        let most = self.settings.read_size;
        let place = url.map_or_else(String::new, |url| format!("; it is at {url}"));
        let what = format!(
            "output {output} has more than the {most} bytes that are read as a resource{place}"
        );
        Fault::new(FaultCode::MessageTooLarge, what).limit("mcp_read_size", format!("{most} bytes"))
    }
}

fn cancelled() -> Fault {
    Fault::new(FaultCode::JobKilled, "the request was cancelled")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn told_of(report: &JobReport) -> String {
    let progress =
        report.progress.map_or_else(String::new, |share| format!(" ({:.0} %)", share * 100.0));
    let message =
        if report.message.is_empty() { String::new() } else { format!(": {}", report.message) };
    format!("{}{progress}{message}", report.state.name())
}

fn stream(given: &Map<String, Value>) -> Result<LogStream, Fault> {
    match given.get("stream").map(|told| told.as_str().unwrap_or("")) {
        None | Some("stdout") => Ok(LogStream::Stdout),
        Some("stderr") => Ok(LogStream::Stderr),
        Some(_) => {
            Err(Fault::new(FaultCode::InvalidValue, "stream is stdout or stderr")
                .parameter("stream"))
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_tasks().build();
        let own =
            Implementation::new("fishplate", env!("CARGO_PKG_VERSION")).with_title("Fishplate");
        ServerConfig::new(capabilities).with_server_info(own).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let from = match request.and_then(|it| it.cursor) {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| {
                let shown = lexical::shortened(&cursor).to_string();
                ErrorData::invalid_params(format!("{shown:?} is no cursor of this list"), None)
            })?,
        };
        Ok(self.tools(from))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let name = &*request.name;
        if JOB_TOOLS.contains(&name) {
            return Ok(answer(self.about_job(name, &given, &context).await).into());
        }
        let Some((of, service)) = self.find(name) else {
            let shown = lexical::shortened(name).to_string();
            return Err(ErrorData::invalid_params(format!("there is no tool {shown:?}"), None));
        };
        Ok(self
            .run(of, service, given, &context)
            .await
            .unwrap_or_else(|fault| answer(Err(fault)).into()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template =
            |(uri, name, about)| ResourceTemplate::new(uri, name).with_description(about);
        Ok(ListResourceTemplatesResult::with_all_items(TEMPLATES.map(template).into()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self.read(&request.uri).await {
            Ok(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            Err(fault)
                if matches!(
                    fault.code,
                    FaultCode::NoSuchData | FaultCode::NoSuchJob | FaultCode::UnknownService
                ) =>
            {
                Err(ErrorData::resource_not_found(
                    fault.message,
                    Some(json!({ "uri": request.uri })),
                ))
            }
            Err(fault) => Err(protocol_error(&fault)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let found = self.job_named(&request.task_id).await;
        let (job, report) = found.map_err(|fault| protocol_error(&fault))?;
        let payload = match self.task(&job.job, &report).status {
            TaskStatus::Cancelled => TaskPayload::Cancelled,
            TaskStatus::Completed => {
                let done = job.results(&report, self.bounds()).await;
                match serde_json::to_value(done) {
                    Ok(Value::Object(result)) => TaskPayload::Completed { result },
                    _ => return Err(ErrorData::internal_error("the answer is no object", None)),
                }
            }
            _ => TaskPayload::Working,
        };
        Ok(GetTaskResult::new(DetailedTask::new(self.task(&job.job, &report), payload)))
    }

    /// No task asks for anything: answers to what was not asked are left alone (SEP-2663).
    async fn update_task(
        &self,
        _: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let found = self.job_named(&request.task_id).await;
        let (job, _) = found.map_err(|fault| protocol_error(&fault))?;
        job.cancel().await.map(drop).map_err(|fault| protocol_error(&fault))
    }
}
