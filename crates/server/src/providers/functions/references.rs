//! References in calls of functions: what they stand for is brought here before the function runs,
//! and outputs are put where the caller wants them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use fishplate_contract::{
    Argument, Array, ArrayType, CallOptions, DataRef, Fault, FaultCode, FileHandle, Operation,
    Outcome, Payload, Principal, SessionId, Value,
};
use fishplate_data::transfer::Delivery;
use fishplate_data::{Lease, PoolError, Progress, RegistrationMode};
use fishplate_formats::array_file::{self, Format, LocatedBytes as Elements, ReadError, npy};
use fishplate_formats::dimension::Dimensions;
use fishplate_jobs::function::context::storage_fault;
use fishplate_programs::output_choices::{OutputChoices, StoredChoice};
use tokio::task::JoinSet;

use crate::data::{Data, blocking};
use crate::host::Host;
use crate::spool::SpoolDirectory;

/// Whether there is a reference among these.
pub(super) fn refers(arguments: &[Argument]) -> bool {
    arguments.iter().any(|argument| reference(&argument.value).is_some())
}

fn reference(value: &Value) -> Option<&DataRef> {
    match value {
        Value::Data(Payload::Reference(reference))
        | Value::Array(Array { data: Payload::Reference(reference), .. }) => Some(reference),
        _ => None,
    }
}

/// The same arguments with data in the place of references.
///
/// # Errors
/// Those of a transfer, which name the parameter; `InvalidValue` if what is there is no such array.
pub(super) async fn fetched(
    host: &Host,
    operation: &Operation,
    mut arguments: Vec<Argument>,
    owner: &Principal,
    session: Option<SessionId>,
) -> Result<Vec<Argument>, Fault> {
    let mut fetching = JoinSet::new();
    for (at, argument) in arguments.iter().enumerate() {
        let parameter = operation.signature.input(&argument.name);
        let is_file = |it: &&fishplate_contract::Parameter| {
            it.data_type.is_binary() || it.data_type.as_array().is_some()
        };
        // What has no such parameter is refused when the arguments are accepted.
        if let Some(from) = reference(&argument.value)
            && parameter.as_ref().is_some_and(is_file)
        {
            let (data, from, owner) = (Arc::clone(&host.data), from.clone(), owner.clone());
            fetching.spawn(async move {
                (at, data.found(&from, &owner, session, &Progress::default()).await)
            });
        }
    }
    let mut dimensions = Dimensions::default();
    while let Some(done) = fetching.join_next().await {
        let (at, found) = done.map_err(|_| ending())?;
        let name = arguments[at].name.clone();
        let held = found.map_err(|fault| fault.parameter(&*name))?.held();
        let wanted = operation.signature.input(&name).and_then(|it| it.data_type.as_array());
        let value = match wanted.cloned() {
            None => Value::Data(Payload::Spooled(held)),
            Some(wanted) => {
                let told = match &arguments[at].value {
                    Value::Array(array) => Some(array.shape.clone()),
                    _ => None,
                };
                let spool = Arc::clone(&host.spool);
                let array = blocking(move || array(&spool, held, &wanted, told)).await;
                Value::Array(array.map_err(|fault| fault.parameter(&*name))?)
            }
        };
        arguments[at].value = value;
    }
    for argument in &arguments {
        let parameter = operation.signature.input(&argument.name);
        if let (Value::Array(array), Some(wanted)) =
            (&argument.value, parameter.and_then(|it| it.data_type.as_array()))
        {
            let what = format!("parameter {}", argument.name);
            dimensions.bind(wanted, &array.shape, &what).map_err(|what| {
                Fault::new(FaultCode::InvalidValue, what).parameter(&argument.name)
            })?;
        }
    }
    Ok(arguments)
}

/// The array in a file: a `.npy` file, or its elements, little-endian in C order.
fn array(
    spool: &Arc<SpoolDirectory>,
    held: Arc<dyn FileHandle>,
    wanted: &ArrayType,
    told: Option<Vec<u64>>,
) -> Result<Array, Fault> {
    let file = File::open(held.path()).map_err(|error| storage_fault(&error))?;
    let mut start = [0; npy::MAGIC.len()];
    let is_npy = file.read_exact_at(&mut start, 0).is_ok() && start == npy::MAGIC;
    let format = if is_npy { Format::Npy } else { Format::PLAIN };
    let axes = match told {
        Some(shape) => shape.into_iter().map(Some).collect(),
        None => Dimensions::default().axes(wanted),
    };
    let mut spilled = None;
    let mut create = || {
        let (held, file) = spool.file()?;
        spilled = Some(held);
        Ok(file)
    };
    let found = array_file::read(&file, &format, wanted.element, &axes, &mut create);
    let found = found.map_err(|error| match error {
        ReadError::Io(error) => storage_fault(&error),
        error => Fault::new(FaultCode::InvalidValue, error.about("what is referred to")),
    })?;
    let data = match (found.bytes, spilled) {
        (Elements::Memory(bytes), _) => Payload::Inline(bytes.into()),
        (Elements::Same, _) => Payload::Spooled(held),
        (Elements::New(file), Some(spilled)) => {
            let len = file.metadata().map_err(|error| storage_fault(&error))?.len();
            Payload::Spooled(spilled.of_length(len))
        }
        (Elements::New(_), None) => return Err(ending()),
    };
    Ok(Array { element: wanted.element, shape: found.shape, data })
}

/// Outputs as the caller wants them: by value, at an address of this server, or delivered.
///
/// # Errors
/// What the pool, the session or the other end says; it names the output.
pub(super) async fn sent(
    host: &Host,
    operation: &Operation,
    outputs: Vec<Argument>,
    options: &CallOptions,
    owner: &Principal,
) -> Outcome {
    let choice = |choice: &fishplate_contract::OutputChoice| StoredChoice {
        name: choice.name.clone(),
        form: choice.form.name().to_owned(),
        to: choice.to.clone(),
    };
    let answer = OutputChoices {
        session: options.session.map(|session| session.to_string()),
        choices: options.outputs.iter().map(choice).collect(),
        ..OutputChoices::default()
    };
    let reference_size = host.engine.settings().reference_size;
    let mut sent = Vec::with_capacity(outputs.len());
    for mut output in outputs {
        // What goes elsewhere, or perhaps, is made whole first.
        if answer.is_chosen(&output.name) {
            output = host.spool.collected(vec![output]).await?.remove(0);
        }
        let len = match &output.value {
            Value::Data(payload) | Value::Array(Array { data: payload, .. }) => payload.len(),
            Value::Text(_) | Value::Record(_) => None,
        };
        let to = answer.destination(&output.name).filter(|_| len.is_some()).map(str::to_owned);
        let by_reference =
            len.is_some_and(|len| answer.by_reference(&output.name, len, reference_size));
        if to.is_some() || by_reference {
            let told = operation.signature.output(&output.name);
            let media_type = told.map_or("", |told| told.media_type.as_str()).to_owned();
            let named = |fault: Fault| fault.parameter(&*output.name);
            let file = file(host, &output, media_type).await.map_err(named)?;
            let at = match to {
                Some(to) => file.deliver(host, &to, owner).await,
                None => file.publish(&host.data, owner, options.session).await,
            };
            let at = at.map_err(named)?;
            if by_reference {
                output.value = Value::Data(Payload::Reference(at));
            }
        }
        sent.push(output);
    }
    Ok(sent)
}

/// An output as bytes with a name: an array becomes a `.npy` file, which tells its shape.
struct OutputFile {
    payload: Payload,
    name: String,
    media_type: String,
}

async fn file(host: &Host, output: &Argument, media_type: String) -> Result<OutputFile, Fault> {
    let name = output.name.clone();
    match output.value.clone() {
        Value::Data(payload) => Ok(OutputFile { payload, name, media_type }),
        Value::Array(array) => {
            let spool = Arc::clone(&host.spool);
            let payload = blocking(move || as_npy(&spool, &array)).await?;
            let media_type = match media_type {
                told if told.is_empty() => npy::MEDIA_TYPE.to_owned(),
                told => told,
            };
            Ok(OutputFile { payload, name: format!("{name}.npy"), media_type })
        }
        Value::Text(_) | Value::Record(_) => Err(ending()),
    }
}

fn as_npy(spool: &Arc<SpoolDirectory>, array: &Array) -> Result<Payload, Fault> {
    let failed = |error| storage_fault(&error);
    if array.data.len().is_some_and(|len| len <= array_file::SMALL as u64) {
        let bytes = array_file::to_bytes(array, &Format::Npy).map_err(failed)?;
        return Ok(Payload::Inline(bytes.into()));
    }
    let (held, file) = spool.file().map_err(failed)?;
    array_file::write(array, &Format::Npy, &file).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    Ok(Payload::Spooled(held.of_length(len)))
}

impl OutputFile {
    /// Brings it somewhere.
    async fn deliver(self, host: &Host, to: &str, owner: &Principal) -> Result<DataRef, Fault> {
        let Self { payload, name, media_type } = self;
        let subject = format!("{name} from {}", host.data.origin);
        let progress = Progress::default();
        let unpacked = Delivery {
            payload,
            name,
            media_type,
            digest: None,
            subject,
            posts: None,
            progress: progress.clone(),
        };
        host.data.deliver(&unpacked, to, owner, &progress).await
    }

    /// Gives it an address here.
    async fn publish(
        self,
        data: &Arc<Data>,
        owner: &Principal,
        session: Option<SessionId>,
    ) -> Result<DataRef, Fault> {
        let (data, owner) = (Arc::clone(data), owner.clone());
        blocking(move || {
            let lease = self.pooled(&data, &owner)?;
            let digest = lease.digest();
            let Some(session) = session else {
                let grant = data.grant(&lease, &owner, &self.name, &self.media_type)?;
                return Ok(DataRef { url: grant.url, len: Some(lease.len()), digest });
            };
            let Some(sessions) = &data.sessions else { return Err(ending()) };
            sessions.put_held(&owner, &session, &self.name, &lease)?;
            let url = data.session_file_url(sessions, &session, &self.name)?;
            Ok(DataRef { url, len: Some(lease.len()), digest })
        })
        .await
    }

    fn pooled(&self, data: &Data, owner: &Principal) -> Result<Lease, PoolError> {
        match &self.payload {
            Payload::Spooled(held) if held.is_shared() => {
                // By what is open: what the pool has in memory has no name of its own.
                let file = File::open(held.path()).map_err(|source| PoolError::Io {
                    what: "opening",
                    path: held.path().to_owned(),
                    source,
                })?;
                data.pool.register_open(owner, &file)
            }
            // The file is another name of it when the function's own goes.
            Payload::Spooled(held) => {
                data.pool.register(owner, held.path(), RegistrationMode::Link)
            }
            in_memory => {
                let pieces = in_memory.pieces().unwrap_or_default();
                data.pool.store(owner, pieces, None, false)
            }
        }
    }
}

fn ending() -> Fault {
    Fault::new(FaultCode::Internal, "the data could not be moved; try again")
}
