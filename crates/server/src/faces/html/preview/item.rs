//! One value of an output at an address of its own, `ogc/jobs/ID/results/OUTPUT?item=N`: for pictures and meshes of pages,
//! and to download. It is sent in ranges, and never as a page of ours.

use std::fs::File;
use std::sync::Arc;

use fishplate_contract::{
    Argument, Array, DataType, Fault, FaultCode, Parameter, Payload, Principal, Value,
};
use fishplate_formats::array_file::npy::{self, NpyHeader};
use fishplate_jobs::engine::OwnJob;
use fishplate_jobs::store::quota::Quota;
use fishplate_wire::{Encoding, PackedMessage, Segment};
use hyper::StatusCode;
use hyper::header;
use hyper::http::request::Parts;

use super::head;
use super::kind::FileKind;
use crate::data::blocking;
use crate::dispatch::outputs::outputs;
use crate::faces::data;
use crate::faces::data::send::{Representation, disposition};
use crate::host::{Host, ServiceEntry};
use crate::http::{HttpBody, HttpResponse, reply_with};
use crate::memory::MemoryReservation;

/// The answer with the value of that number, from 0, of an output.
///
/// # Errors
/// Those of the verb `results`; `InvalidValue`, if there is no such value.
pub(crate) async fn item(
    host: &Host,
    entry: &Arc<ServiceEntry>,
    caller: &Principal,
    job: &OwnJob,
    (parameter, place): (&Parameter, usize),
    asked: &Parts,
) -> Result<HttpResponse, Fault> {
    let mut memory = MemoryReservation::default();
    let mut outputs = outputs(host, entry, caller, job, &mut memory).await?;
    outputs.retain(|output| output.name == parameter.name);
    if place >= outputs.len() {
        let what = format!(
            "output {} of job {} has {} values; item counts them from 0",
            parameter.name,
            job.id,
            outputs.len()
        );
        return Err(Fault::new(FaultCode::InvalidValue, what).parameter("item").job(job.id));
    }
    let output = outputs.swap_remove(place);
    let name = file_name(parameter, &output);
    let payload = match output.value {
        Value::Array(array) => {
            host.engine.check_quotas(caller, &[(Quota::Traffic, 0)]).await?;
            let mut reply = array_file(host, caller, &array, &name);
            reply.body_mut().keep(memory);
            return Ok(reply);
        }
        Value::Data(payload) => payload,
        Value::Text(text) => Payload::Inline(text.into()),
        Value::Record(_) => Payload::Inline(String::new().into()),
    };
    let told = parameter.media_type.clone();
    // Results of a job never change.
    let tag = format!("\"{}-{}-{place}\"", job.id, position(entry, job, parameter));
    let opened = blocking(move || opened(payload, &told, name, tag)).await?;
    match opened {
        Opened::File(representation) => data::sent(host, caller, &representation, asked).await,
        Opened::Bytes(payload, media_type, name) => {
            host.engine.check_quotas(caller, &[(Quota::Traffic, 0)]).await?;
            let segments = vec![Segment::of(&payload, Encoding::Raw)];
            let mut reply = packed(host, caller, segments, &media_type, &name);
            reply.body_mut().keep(memory);
            Ok(reply)
        }
    }
}

enum Opened {
    File(Representation),
    Bytes(Payload, String, String),
}

fn opened(payload: Payload, told: &str, name: String, tag: String) -> Result<Opened, Fault> {
    let unreadable = |error: std::io::Error| {
        tracing::error!(%error, "an output can't be read");
        Fault::new(FaultCode::Internal, "the output can't be read; the server's log has more")
    };
    if let Payload::Reference(_) = payload {
        let what = "this output was delivered elsewhere; the job's results tell where";
        return Err(Fault::new(FaultCode::NotSupported, what));
    }
    let head = head(&payload).map_err(unreadable)?;
    let media_type = FileKind::of(told, &name, &head).media_type(told).to_owned();
    let Payload::Spooled(held) = &payload else {
        return Ok(Opened::Bytes(payload, media_type, name));
    };
    let file = File::open(held.path()).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    let (modified, expires, digest) = (None, None, None);
    Ok(Opened::File(Representation { file, len, tag, modified, expires, media_type, name, digest }))
}

/// The place of an output among those of its operation: what names it in an entity tag, which takes fewer signs than names do.
fn position(entry: &ServiceEntry, job: &OwnJob, parameter: &Parameter) -> usize {
    let operation = entry.service().operation(&job.operation);
    let all = operation.map(|it| it.signature.outputs.iter());
    all.and_then(|mut all| all.position(|it| it.name == parameter.name)).unwrap_or(0)
}

/// An array as a file of NumPy's.
fn array_file(host: &Host, caller: &Principal, array: &Array, name: &str) -> HttpResponse {
    let header = NpyHeader::print(array.element, &array.shape);
    let numbers = Segment::of(&array.data, Encoding::Raw);
    packed(host, caller, vec![Segment::Bytes(header.into()), numbers], npy::MEDIA_TYPE, name)
}

fn packed(
    host: &Host,
    caller: &Principal,
    segments: Vec<Segment>,
    media_type: &str,
    name: &str,
) -> HttpResponse {
    let len = segments.iter().map(Segment::len).sum();
    let packed = PackedMessage { segments, len, ..PackedMessage::nothing() };
    let media_type = if media_type.is_empty() { "application/octet-stream" } else { media_type };
    let fields = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_DISPOSITION, &*disposition(name)),
        (header::CACHE_CONTROL, "private"),
        // What a program wrote is no page of ours, whatever it says it is.
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ];
    let mut reply = reply_with(StatusCode::OK, &fields, HttpBody::packed(packed));
    reply.body_mut().count_as(host.data.transfer(caller, "read"));
    reply
}

/// The name under which somebody keeps an output: the file's own, where its program named it.
pub(super) fn file_name(parameter: &Parameter, output: &Argument) -> String {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(label) = &output.label {
        return last(label);
    }
    let extension = match &output.value {
        Value::Array(_) => "npy",
        Value::Text(_) => "txt",
        Value::Data(_) if parameter.data_type == DataType::Dir => "tar",
        Value::Data(Payload::Spooled(file)) => {
            let own = file.path().file_name().map(|name| name.to_string_lossy().into_owned());
            return own.unwrap_or_else(|| parameter.name.clone());
        }
        _ => return parameter.name.clone(),
    };
    format!("{}.{extension}", parameter.name)
}
