//! Fishplate's client of the benchmark: `matrix-client xml|base64|mtom|swa|dime`, driven as
//! `fishplate_benches::driver` says. What a user of the library would write.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use fishplate_benches::driver::{Client, Operation, drive};
use fishplate_benches::matrix;
use fishplate_client::{ArrayForm, Options, Packaging, Service, Settings};
use fishplate_contract::{
    Argument, Array, CallOptions, Caller, ElementType, FileHandle, Payload, Value, VerbDefinition,
};
use fishplate_wire::{
    BodyStep, ExpectedTable, MessageHead, OutgoingBody, PackedMessage, QName, ReplyForm, SpoolSink,
    Unpacker, WireLimits, bind_reply, pack, write_reply,
};
use tokio::runtime::Runtime;

/// As in the program `fishplate`, whose client this is.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Answers are wanted in memory, as every other client of the benchmark has them.
const IN_MEMORY: usize = 1 << 30;

fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let (packaging, arrays) = match name.as_str() {
        "xml" => (Packaging::Plain, ArrayForm::Elements),
        "base64" => (Packaging::Plain, ArrayForm::Binary),
        other => {
            let packaging = Packaging::from_name(other);
            (packaging.context("matrix-client xml|base64|mtom|swa|dime")?, ArrayForm::Binary)
        }
    };
    let limits =
        WireLimits { inline_size: IN_MEMORY, inline_total: IN_MEMORY, ..WireLimits::default() };
    let settings = Settings {
        packaging: Some(packaging),
        arrays: Some(arrays),
        limits,
        ..Settings::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    drive(&mut Matrices { runtime, settings, service: None, argument: None, kept: None })
}

struct Matrices {
    runtime: Runtime,
    settings: Settings,
    /// With the address that it was asked for under.
    service: Option<(String, Service, Box<dyn Caller>)>,
    argument: Option<(usize, Value)>,
    /// An answer as it came.
    kept: Option<Kept>,
}

struct Kept {
    content_type: String,
    body: Vec<Bytes>,
}

impl Client for Matrices {
    /// A matrix as every other client of the benchmark ends with it: numbers, side by side.
    type Answer = Numbers;

    fn prepare(
        &mut self,
        url: &str,
        operation: Operation,
        n: usize,
        numbers: &[f32],
    ) -> anyhow::Result<()> {
        if self.service.as_ref().is_none_or(|(of, ..)| of != url) {
            // The address that was asked for, which may be that of a relay that counts bytes.
            let settings = Settings { address: Some(url.to_owned()), ..self.settings.clone() };
            let connecting = Service::connect_with(url, settings);
            let service = self.runtime.block_on(connecting)?;
            let caller = Box::new(service.with(Options::default()));
            self.service = Some((url.to_owned(), service, caller));
        }
        if self.argument.as_ref().is_none_or(|(of, _)| *of != n) {
            self.argument = Some((n, Value::Array(array(n, matrix::bytes(numbers).into()))));
        }
        self.kept = match operation {
            Operation::Parse => Some(self.answer(n, numbers)?),
            Operation::Echo | Operation::GetMatrix => None,
        };
        Ok(())
    }

    fn call(
        &mut self,
        operation: Operation,
        n: usize,
        _numbers: &[f32],
    ) -> anyhow::Result<Numbers> {
        if let Some(kept) = &self.kept {
            return numbers_of(self.parsed(kept)?, n);
        }
        let (.., caller) = self.service.as_ref().context("not prepared")?;
        let (name, argument) = match operation {
            Operation::GetMatrix => ("getMatrix", Argument::text("n", n.to_string())),
            _ => {
                let (_, matrix) = self.argument.as_ref().context("not prepared")?;
                ("echo", Argument::new("matrix", matrix.clone()))
            }
        };
        let calling = caller.call(name, vec![argument], CallOptions::default());
        numbers_of(payload(self.runtime.block_on(calling)?.outputs)?, n)
    }

    fn equal(&self, answer: &Numbers, numbers: &[f32]) -> bool {
        answer
            .as_slice()
            .iter()
            .map(|number| number.to_bits())
            .eq(numbers.iter().map(|number| number.to_bits()))
    }
}

impl Matrices {
    fn exposed(&self) -> anyhow::Result<&VerbDefinition> {
        let (_, service, _) = self.service.as_ref().context("not prepared")?;
        Ok(&service.operation("getMatrix")?.definition)
    }

    /// The answer that the server would give, made here: the same code writes it.
    fn answer(&self, n: usize, numbers: &[f32]) -> anyhow::Result<Kept> {
        let asked = MessageHead {
            content_type: "text/xml",
            accept: self.settings.packaging.map(Packaging::accept),
            ..MessageHead::default()
        };
        let form = ReplyForm { arrays: self.settings.arrays, ..ReplyForm::of_head(&asked) };
        let matrix = Value::Array(array(n, matrix::bytes(numbers).into()));
        let outputs = [Argument::new("matrix", matrix)];
        let envelope = write_reply(&form, NAMESPACE, self.exposed()?, &outputs, None);
        let PackedMessage { content_type, segments, .. } = pack(&envelope, form.packaging, None);
        let mut outgoing = OutgoingBody::new(segments, CHUNK);
        let mut body = Vec::new();
        while let Some(BodyStep::Send(bytes)) = outgoing.step() {
            body.push(bytes);
        }
        Ok(Kept { content_type: content_type.into_owned(), body })
    }

    fn parsed(&self, kept: &Kept) -> anyhow::Result<Payload> {
        let outputs = &self.exposed()?.signature.outputs;
        let expected = ExpectedTable::response(QName::new(NAMESPACE, "getMatrixResponse"), outputs);
        let head = MessageHead { content_type: &kept.content_type, ..MessageHead::default() };
        let mut unpacker =
            Unpacker::new(&head, Box::new(expected), &self.settings.limits)?.contiguous();
        for chunk in &kept.body {
            let mut chunk = chunk.clone();
            while !chunk.is_empty() {
                unpacker.feed(chunk.split_to(chunk.len().min(CHUNK)), &mut NoSpool)?;
            }
        }
        payload(bind_reply(unpacker.finish(&mut NoSpool)?, outputs)?.outputs)
    }
}

const NAMESPACE: &str = "urn:fishplate:matrix";

/// About what a connection gives at once.
const CHUNK: usize = 256 << 10;

/// All that is parsed here is wanted in memory.
struct NoSpool;

impl SpoolSink for NoSpool {
    fn create(&mut self) -> Arc<dyn FileHandle> {
        unreachable!("{IN_MEMORY} bytes stay in memory")
    }

    fn write(&mut self, _to: &Arc<dyn FileHandle>, _data: Bytes) {}
}

fn array(n: usize, bytes: Bytes) -> Array {
    Array { element: ElementType::Float, shape: vec![n as u64; 2], data: Payload::Inline(bytes) }
}

fn payload(outputs: Vec<Argument>) -> anyhow::Result<Payload> {
    match outputs.into_iter().next().map(|output| output.value) {
        Some(Value::Array(array)) => Ok(array.data),
        other => anyhow::bail!("no matrix came back: {other:?}"),
    }
}

/// Numbers side by side: where they came, if they stand there as numbers must.
enum Numbers {
    Received(Bytes),
    Copied(Vec<f32>),
}

impl Numbers {
    fn as_slice(&self) -> &[f32] {
        match self {
            Self::Received(bytes) => bytemuck::cast_slice(bytes),
            Self::Copied(numbers) => numbers,
        }
    }
}

fn numbers_of(payload: Payload, n: usize) -> anyhow::Result<Numbers> {
    let Payload::Inline(bytes) = payload else { anyhow::bail!("no matrix in memory: {payload:?}") };
    anyhow::ensure!(bytes.len() == n * n * size_of::<f32>(), "{} bytes", bytes.len());
    let aligned = bytemuck::try_cast_slice::<u8, f32>(&bytes).is_ok();
    Ok(if aligned && cfg!(target_endian = "little") {
        Numbers::Received(bytes)
    } else {
        Numbers::Copied(matrix::from_bytes(&bytes))
    })
}
