//! All that an agent needs to make a load, on whatever host: nothing of it is in a file any more.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fishplate_client::{Credential, Credentials, Service, Settings};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    Arrivals, Expect, Experiment, Limits, Operation, ThinkTime, UnknownWord, Workload, fill,
};
use crate::request::wsdl::{WsdlRequestError, WsdlRequests};
use crate::request::{Template, TemplateError};

/// The first number of a request of the warm-up. Those of the load are below, so a whole number of 32 bits has room for
/// all.
pub const WARM_UP: u64 = 1_000_000_000;
/// The first number of a probe's request.
pub const PROBE: u64 = 2_000_000_000;

/// A load: what is sent, when, and what is right.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LoadPlan {
    /// What every random choice is made from.
    pub seed: u64,
    /// Clients, arrivals, end, deadline.
    pub workload: Workload,
    /// What answers, cookies and checkers are bounded by.
    pub limits: Limits,
    /// The requests.
    pub operations: Vec<PlannedOperation>,
    /// The number of the first request.
    pub first: u64,
    /// The value of `Authorization`.
    pub(super) authorization: Option<String>,
    /// Certificates that are trusted, as PEM; without them the system's.
    pub(crate) ca: Option<String>,
}

/// A kind of request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PlannedOperation {
    /// Its name in reports.
    pub name: String,
    /// How often it is drawn beside the others.
    pub weight: f64,
    /// Where its requests go.
    pub url: String,
    /// The body; none: a GET.
    pub body: Option<Template>,
    /// `Content-Type` and `SOAPAction`, as they stand in headers.
    pub(super) content_type: String,
    pub(super) action: Option<String>,
    pub(super) accept: String,
    /// What a right answer is.
    pub(super) expect: PlannedExpect,
    pub(super) read_rate: Option<u64>,
    pub(super) send_part: Option<f64>,
}

/// What a right answer is, with its words parsed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct PlannedExpect {
    pub(crate) status: Option<u16>,
    pub(crate) contains: Option<Template>,
    pub(crate) elements: Vec<(String, Template)>,
    pub(crate) sha256: Option<String>,
    pub(crate) checker: Vec<String>,
}

/// Why no load can be made of an experiment.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A word in braces.
    #[error("{field}")]
    Word {
        /// Where it stands.
        field: String,
        /// What is wrong.
        source: UnknownWord,
    },
    /// A file of the experiment.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Words of a template.
    #[error("operation {operation}")]
    Template {
        /// Its name.
        operation: String,
        /// What is wrong.
        source: TemplateError,
    },
    /// An expectation that is drawn anew for each answer.
    #[error(
        "operation {operation}: what is expected can hold {{request}} and {{client}} and words of the matrix, \
         nothing that is drawn"
    )]
    RandomExpectation {
        /// Its name.
        operation: String,
    },
    /// The request of an operation that a WSDL describes.
    #[error("operation {operation}")]
    Wsdl {
        /// Its name.
        operation: String,
        /// What is wrong.
        source: WsdlRequestError,
    },
    /// The login.
    #[error("workload.{field}: it can't stand in a header: write {right}")]
    Login {
        /// `user` or `token_file`.
        field: &'static str,
        /// What would be right.
        right: &'static str,
    },
}

impl PlanError {
    /// Whether it may go well a little later, because the server does not answer yet.
    pub fn is_transient(&self) -> bool {
        use fishplate_client::Error;
        matches!(
            self,
            Self::Wsdl {
                source: WsdlRequestError::Client(
                    Error::Unreachable { .. }
                        | Error::ConnectionLost { .. }
                        | Error::TimedOut { .. }
                        | Error::Http { .. }
                ),
                ..
            }
        )
    }
}

impl LoadPlan {
    /// The load of an experiment in a cell: `values` fills its words (`port`, `directory`, `here`, those of the
    /// matrix). If an operation has no template, the server is asked for its WSDL.
    ///
    /// # Errors
    /// What of the experiment can't be had; [`PlanError::is_transient`] tells whether to try again.
    pub async fn prepare(
        experiment: &Experiment,
        values: &BTreeMap<String, String>,
    ) -> Result<Self, PlanError> {
        let workload = &experiment.workload;
        let path = |field, path: &Option<PathBuf>| {
            path.as_ref().map(|path| located(experiment, values, field, path)).transpose()
        };
        let ca_file = path("workload.ca", &workload.ca)?;
        let token_file = path("workload.token_file", &workload.token_file)?;
        let credential = credential(workload.user.as_deref(), token_file.as_deref())?;
        let authorization = match &credential {
            None => None,
            Some(credential) => {
                let header = credential.header().and_then(|it| Some(it.to_str().ok()?.to_owned()));
                Some(header.ok_or(PlanError::Login {
                    field: if workload.user.is_some() { "user" } else { "token_file" },
                    right: "NAME:PASSWORD, or a token in the first line of a file, in ASCII",
                })?)
            }
        };
        let ca = ca_file.as_deref().map(read).transpose()?;
        let preparation = Preparation { experiment, values, credential, ca_file };
        let mut operations = Vec::new();
        for operation in &experiment.operations {
            operations.push(preparation.operation(operation).await?);
        }
        let (workload, limits) = (workload.clone(), experiment.limits.clone());
        Ok(Self {
            seed: experiment.seed,
            workload,
            limits,
            operations,
            first: 0,
            authorization,
            ca,
        })
    }

    /// The load before the clock starts; `None`: there is none. It is run as the other one is, and what it tells is
    /// not counted.
    pub fn warm_up(&self) -> Option<Self> {
        let requests = self.workload.warm_up;
        (requests > 0).then(|| Self {
            first: WARM_UP,
            workload: Workload {
                arrivals: Arrivals::Closed,
                think: ThinkTime::default(),
                requests: Some(requests),
                duration: None,
                ..self.workload.clone()
            },
            ..self.clone()
        })
    }

    /// A plan of one GET, to be answered by 200; `ca` are certificates that are trusted, as PEM.
    pub(super) fn get(url: &str, path: &str, ca: Option<String>) -> Self {
        let host = url.split_inclusive('/').take(3).collect::<String>();
        let operation = PlannedOperation {
            name: format!("GET {path}"),
            weight: 1.0,
            url: format!("{}{path}", host.trim_end_matches('/')),
            body: None,
            content_type: String::new(),
            action: None,
            accept: "*/*".to_owned(),
            expect: PlannedExpect::default(),
            read_rate: None,
            send_part: None,
        };
        let (workload, limits, operations) = (Workload::of(1), Limits::default(), vec![operation]);
        Self { seed: 0, workload, limits, operations, first: PROBE, authorization: None, ca }
    }
}

/// What operations are prepared from.
struct Preparation<'e> {
    experiment: &'e Experiment,
    values: &'e BTreeMap<String, String>,
    credential: Option<Credential>,
    ca_file: Option<PathBuf>,
}

impl Preparation<'_> {
    async fn operation(&self, operation: &Operation) -> Result<PlannedOperation, PlanError> {
        let url = operation.url.as_ref().unwrap_or(&self.experiment.system.url);
        let mut planned = PlannedOperation {
            name: operation.name.clone(),
            weight: operation.weight,
            url: self.filled("url", url)?,
            body: None,
            content_type: operation.content_type.clone(),
            action: Some(format!("\"{}\"", operation.action)),
            accept: "*/*".to_owned(),
            expect: self.expect(operation)?,
            read_rate: operation.read_rate,
            send_part: operation.send_part,
        };
        match &operation.template {
            Some(path) => {
                let path = self.experiment.here.join(path);
                let text =
                    std::fs::read(&path).map_err(|source| PlanError::File { path, source })?;
                planned.body = Some(self.template(operation, &text)?);
            }
            None => self.describe(operation, &mut planned).await?,
        }
        Ok(planned)
    }

    fn filled(&self, field: &str, text: &str) -> Result<String, PlanError> {
        let field = field.to_owned();
        fill(text, self.values).map_err(|source| PlanError::Word { field, source })
    }

    fn template(&self, operation: &Operation, text: &[u8]) -> Result<Template, PlanError> {
        let name = operation.name.clone();
        Template::parse(text, self.values, &self.experiment.here)
            .map_err(|source| PlanError::Template { operation: name, source })
    }

    fn expect(&self, operation: &Operation) -> Result<PlannedExpect, PlanError> {
        let Expect { status, contains, element, sha256, checker } = &operation.expect;
        let text = |text: &String| {
            let template = self.template(operation, text.as_bytes())?;
            if !template.is_numbered() {
                return Err(PlanError::RandomExpectation { operation: operation.name.clone() });
            }
            Ok(template)
        };
        let elements = element.iter().map(|(name, value)| Ok((name.clone(), text(value)?)));
        Ok(PlannedExpect {
            status: *status,
            contains: contains.as_ref().map(text).transpose()?,
            elements: elements.collect::<Result<_, PlanError>>()?,
            sha256: sha256.as_ref().map(|digest| digest.to_lowercase()),
            checker: checker
                .iter()
                .map(|word| self.filled("expect.checker", word))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Has the WSDL say what is sent.
    async fn describe(
        &self,
        operation: &Operation,
        planned: &mut PlannedOperation,
    ) -> Result<(), PlanError> {
        let workload = &self.experiment.workload;
        let asked = planned.url.clone();
        if let Some((address, query)) = planned.url.split_once('?')
            && query.eq_ignore_ascii_case("wsdl")
        {
            planned.url = address.to_owned();
        }
        let settings = Settings {
            timeout: Some(workload.deadline),
            ca_file: self.ca_file.clone(),
            credentials: Credentials { given: self.credential.clone(), ..Credentials::default() },
            address: Some(planned.url.clone()),
            ..Settings::default()
        };
        let packaging = operation.packaging.as_deref().unwrap_or(Settings::PACKAGINGS[0].0);
        // The experiment was read: it is one.
        let settings = settings.clone().packaged(packaging).unwrap_or(settings);
        let failed = |source| PlanError::Wsdl { operation: operation.name.clone(), source };
        let accept = settings.packaging.map_or("*/*", fishplate_client::Packaging::accept);
        let service = Service::connect_with(&asked, settings)
            .await
            .map_err(|error| failed(WsdlRequestError::Client(error)))?;
        let (values, here, seed) =
            (self.values, self.experiment.here.as_path(), self.experiment.seed);
        let requests = WsdlRequests { values, here, seed };
        let made = requests.make(&service, &operation.name, &operation.arguments);
        let made = made.await.map_err(failed)?;
        planned.body = Some(made.body);
        planned.content_type = made.content_type;
        planned.action = made.action;
        accept.clone_into(&mut planned.accept);
        Ok(())
    }
}

/// A path of the experiment: its words filled, from the folder of its file on.
fn located(
    experiment: &Experiment,
    values: &BTreeMap<String, String>,
    field: &str,
    path: &Path,
) -> Result<PathBuf, PlanError> {
    let filled = fill(&path.to_string_lossy(), values)
        .map_err(|source| PlanError::Word { field: field.to_owned(), source })?;
    Ok(experiment.here.join(filled))
}

fn credential(
    user: Option<&str>,
    token_file: Option<&Path>,
) -> Result<Option<Credential>, PlanError> {
    if let Some((user, password)) = user.and_then(|user| user.split_once(':')) {
        let (user, password) = (user.to_owned(), password.to_owned());
        return Ok(Some(Credential::Password { user, password }));
    }
    let Some(path) = token_file else { return Ok(None) };
    let token = read(path)?;
    let token = token.lines().next().unwrap_or_default().trim().to_owned();
    Ok(Some(Credential::Token(token)))
}

fn read(path: &Path) -> Result<String, PlanError> {
    std::fs::read_to_string(path)
        .map_err(|source| PlanError::File { path: path.to_owned(), source })
}
