//! Results of an equal job of before, in place of a run: for callers who asked for that, once all that the results depend on is here.
//!
//! Two jobs are equal if their service, as its server has it, and all of their inputs are: the server's own digest tells, of bytes that it has, so nobody
//! can give a key to results that are not of these inputs. Whose results a caller may have is not the engine's to say ([`ReuseRule`]); their own
//! they always may. The job then ends without having run, with outputs of its own: other names of the same files, so neither job needs the other one
//! afterwards, and nothing is copied.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use fishplate_contract::{Argument, Payload, Principal, TransferState, Value};
use ring::digest::{Context, SHA256};

use super::fetching::FetchedJob;
use super::{Engine, EngineInner};
use crate::completion::{Completion, TransferResult};
use crate::executor::{ArrayBytes, Collected, OutputContent, ProgramExit};
use crate::store::{FetchClaim, JobRecord};
use crate::workspace;
use fishplate_programs::output_choices::OutputChoices;
use fishplate_programs::plan::{InputContent, Plan};

/// How many equal jobs are looked at: the newest.
const MOST: usize = 16;

/// What is read at once.
const PIECE: usize = 256 << 10;

/// Whether a caller may have what a job of somebody else gave: caller, service, operation, and whose job it is.
pub type ReuseRule = dyn Fn(&Principal, &str, &str, &Principal) -> bool + Send + Sync;

/// Whether a job has to run.
pub(super) enum Equal {
    /// It need not: this is its end.
    Ended(Box<Completion>),
    /// It has to; the digest by which others find it, if it is to be found.
    Absent(Option<String>),
}

impl Engine {
    /// From now on this is asked whether somebody may have results of somebody else's jobs; without it nobody may.
    pub fn set_reuse_rule(&self, rule: Option<Arc<ReuseRule>>) {
        *self.shared.reuse_rule.write().unwrap_or_else(PoisonError::into_inner) = rule;
    }
}

/// A digest of a service, as it describes itself in `texts`, and of what a call holds, but for what it refers to: 64 hexadecimal digits. Reads
/// spooled payloads: not for a task of the runtime.
///
/// # Errors
/// If a payload cannot be read.
pub fn content_digest(texts: &[&str], arguments: &[Argument]) -> io::Result<String> {
    let mut digest = Digest::new();
    texts.iter().for_each(|text| digest.field(text.as_bytes()));
    for Argument { name, label, value } in arguments {
        digest.field(name.as_bytes());
        digest.field(label.as_deref().unwrap_or_default().as_bytes());
        match value {
            Value::Text(text) => {
                digest.field(b"text");
                digest.field(text.as_bytes());
            }
            Value::Data(payload) => digest.payload(payload)?,
            Value::Array(array) => {
                digest.field(array.element.name().as_bytes());
                array.shape.iter().for_each(|length| digest.field(&length.to_le_bytes()));
                digest.payload(&array.data)?;
            }
            Value::Record(_) => digest.field(b"record"),
        }
    }
    Ok(digest.finish())
}

/// SHA-256 over fields, each with its length before it.
struct Digest(Context);

impl Digest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn payload(&mut self, payload: &Payload) -> io::Result<()> {
        match payload {
            // By what it is, once it is here.
            Payload::Reference(_) => self.field(b"reference"),
            Payload::Spooled(held) => {
                self.field(b"data");
                self.file(File::open(held.path())?)?;
            }
            in_memory => {
                let pieces = in_memory.pieces().ok_or(ErrorKind::Unsupported)?;
                self.field(b"data");
                self.0.update(&in_memory.len().unwrap_or_default().to_le_bytes());
                pieces.iter().for_each(|piece| self.0.update(piece));
            }
        }
        Ok(())
    }

    fn file(&mut self, mut file: File) -> io::Result<()> {
        self.0.update(&file.metadata()?.len().to_le_bytes());
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                read => self.0.update(&piece[..read]),
            }
        }
    }

    /// A file, or all that is in a directory, by name.
    fn tree(&mut self, path: &Path) -> io::Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        if kind.is_symlink() {
            self.field(b"link");
            self.field(fs::read_link(path)?.as_os_str().as_encoded_bytes());
        } else if kind.is_dir() {
            let mut names: Vec<_> = fs::read_dir(path)?
                .map(|entry| Ok(entry?.file_name()))
                .collect::<io::Result<_>>()?;
            names.sort();
            self.field(b"directory");
            self.0.update(&(names.len() as u64).to_le_bytes());
            for name in names {
                self.field(name.as_encoded_bytes());
                self.tree(&path.join(name))?;
            }
        } else {
            self.field(b"file");
            self.file(File::open(path)?)?;
        }
        Ok(())
    }

    /// What a file of the service's owner is, as far as that costs nothing: an exchanged program is another one.
    fn version(&mut self, path: &Path) {
        let told =
            fs::metadata(path).map(|of| [of.size().cast_signed(), of.mtime(), of.mtime_nsec()]);
        told.unwrap_or_default().iter().for_each(|number| self.field(&number.to_le_bytes()));
    }

    fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A digest of all that the results of a job depend on, whose inputs are in its directory; `None` if its caller wants no results of another job.
fn content(plan: &Plan, directory: &Path) -> io::Result<Option<String>> {
    let Some(call) = &plan.reuse else { return Ok(None) };
    let mut digest = Digest::new();
    digest.field(call.as_bytes());
    let mut told = plan.clone();
    // How outputs are wanted changes none of them, nor do names that a start of the server gives.
    (told.answer, told.reuse, told.base_environment) = (OutputChoices::default(), None, None);
    let mut fetched = Vec::new();
    for input in &mut told.inputs {
        if let InputContent::Fetched(of) = &input.content {
            fetched.push(directory.join(&of.at));
            input.content = InputContent::InPlace;
        }
    }
    digest.field(&serde_json::to_vec(&told)?);
    digest.version(&plan.program);
    plan.staged.iter().for_each(|file| digest.version(&file.from));
    fetched.iter().try_for_each(|path| digest.tree(path))?;
    Ok(Some(digest.finish()))
}

impl EngineInner {
    /// Looks for an equal job that has ended well and whose results the owner may have, and takes them.
    pub(super) async fn equal(&self, claim: &FetchClaim, arrived: &FetchedJob) -> Equal {
        if arrived.plan.reuse.is_none() {
            return Equal::Absent(None);
        }
        let (plan, directory) = (arrived.plan.clone(), claim.directory.clone());
        let prepared = tokio::task::spawn_blocking(move || {
            // What an engine took that was killed then.
            workspace::give_back_outputs(&directory)?;
            content(&plan, &directory)
        });
        let content = match prepared.await {
            Ok(Ok(content)) => content,
            Ok(Err(error)) => {
                tracing::warn!(job = %claim.id, %error, "whether an equal job has ended can't be told");
                return Equal::Absent(None);
            }
            Err(_) => None,
        };
        let Some(of) = &content else { return Equal::Absent(None) };
        for record in self.equal_records(claim, of).await {
            let id = record.id;
            match self.take_over(claim, arrived, record).await {
                Ok(end) => {
                    tracing::info!(job = %claim.id, equal = %id, "an equal job's results are taken over");
                    return Equal::Ended(Box::new(end));
                }
                Err(error) => {
                    tracing::debug!(job = %claim.id, equal = %id, %error, "its results can't be taken over");
                }
            }
        }
        Equal::Absent(content)
    }

    /// Equal jobs whose results the owner of this one may have.
    async fn equal_records(&self, claim: &FetchClaim, content: &str) -> Vec<JobRecord> {
        let Ok(Some(own)) = self.find(claim.id).await else { return Vec::new() };
        let (service, of) = (own.service.clone(), content.to_owned());
        let found = self.store.read(move |t| t.equal(&service, &of, MOST)).await;
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(job = %claim.id, %error, "equal jobs can't be looked for");
            Vec::new()
        });
        let rule = self.reuse_rule.read().unwrap_or_else(PoisonError::into_inner).clone();
        let may = |record: &JobRecord| {
            record.owner == own.owner
                || rule.as_ref().is_some_and(|rule| {
                    rule(&own.owner, &own.service, &own.operation, &record.owner)
                })
        };
        found.into_iter().filter(may).collect()
    }

    /// Gives the outputs of an equal job second names in this one's directory; the end that this one has then.
    async fn take_over(
        &self,
        claim: &FetchClaim,
        arrived: &FetchedJob,
        equal: JobRecord,
    ) -> io::Result<Completion> {
        let gone = |what: &str| io::Error::new(ErrorKind::NotFound, what);
        let end = equal.completion.filter(|end| end.fault.is_none() && end.sent.is_empty());
        let end = end.ok_or_else(|| gone("its outputs went elsewhere"))?;
        let exit = end.ending.and_then(|exit| Some((exit.exit_code, exit.collected?)));
        let (exit_code, found) = exit.ok_or_else(|| gone("its outputs were not seen"))?;
        let paths: Vec<String> =
            found.outputs.iter().filter_map(|output| path(&output.content)).collect();
        let (from, to) = (equal.directory, claim.directory.clone());
        let taken = tokio::task::spawn_blocking(move || {
            workspace::take_outputs(&from, &to, &paths).inspect_err(|_| {
                let _ = workspace::give_back_outputs(&to);
            })?;
            Ok::<_, io::Error>(workspace::disk_use(&to))
        });
        let disk = taken.await.unwrap_or_else(|_| Err(gone("the server is ending")))?;
        let now = self.clock.now().0;
        let Collected { outputs, .. } = found;
        let collected = Some(Collected { outputs, disk, ..Collected::default() });
        let (started, ended) = (now, now);
        let ending = ProgramExit { started, ended, exit_code, collected, ..ProgramExit::default() };
        Ok(Completion {
            ended: now,
            noted: None,
            ending: Some(ending),
            answer: arrived.plan.answer.clone(),
            sent: Vec::new(),
            transfers: transfers(&arrived.plan),
            ..end
        })
    }
}

/// The file of an output, in the job's directory, if it has one.
fn path(content: &OutputContent) -> Option<String> {
    match content {
        OutputContent::TextFile { path, .. } | OutputContent::File { path, .. } => {
            Some(format!("work/{path}"))
        }
        OutputContent::Archive { path, .. }
        | OutputContent::Array { bytes: ArrayBytes::File { path, .. }, .. } => Some(path.clone()),
        OutputContent::Text(_) | OutputContent::Array { .. } => None,
    }
}

/// What was fetched to compare it.
fn transfers(plan: &Plan) -> Vec<TransferResult> {
    let fetched = plan.inputs.iter().filter_map(|input| match &input.content {
        InputContent::Fetched(fetched) => Some(fetched),
        _ => None,
    });
    let told = fetched.map(|of| TransferResult {
        parameter: of.parameter.clone(),
        peer: of.peer.clone(),
        state: TransferState::Done.name().to_owned(),
        bytes: of.bytes,
        total: Some(of.bytes),
        placed: Some(of.placed.clone()),
        cached: of.cached,
        out: false,
    });
    told.collect()
}
