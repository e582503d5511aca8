//! A request to run a process as a form of HTML sends it: `multipart/form-data`, read as it comes, or
//! `application/x-www-form-urlencoded`.
//!
//! A field has the name of a parameter. Its text is a value; a file or an array may also be a file, or be at an address, which is
//! the field `NAME:url` ([`FIELD_URL`]). No parameter has a colon in its name. What a form can't help sending means nothing: a text
//! without characters, a file that was not chosen.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, ArrayType, DataRef, DataType, Dimension, Fault, FaultCode, FileHandle,
    Parameter, Payload, Value, lexical,
};
use fishplate_formats::array_file::{self, Format, FoundArray, LocatedBytes};
use fishplate_wire::media::MediaType;
use fishplate_wire::{FormEvent, FormField, FormReader, SpoolSink};
use hyper::body::Body;
use url::form_urlencoded;

use super::given::{GivenInputs, GivenValue};
use super::input::{InputReader, invalid};
use crate::data::blocking;
use crate::host::Host;
use crate::http::body::{Incoming, ReadError};
use crate::memory::{MemoryReservation, SMALL};
use crate::spool::{SpoolDirectory, Spooler, spool_fault};

/// What follows a parameter's name in the field that has its address.
pub(crate) const FIELD_URL: &str = ":url";

/// What follows it in the field that tells that there was a box: one that is not ticked sends nothing.
pub(crate) const FIELD_BOX: &str = ":box";

/// A field that was read.
#[derive(Debug)]
struct Field {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Text(Vec<u8>),
    File(FormFile),
}

/// A file of a form.
#[derive(Debug)]
struct FormFile {
    name: String,
    payload: Payload,
}

/// Takes fields as they come.
struct Collector<'s> {
    fields: Vec<Field>,
    sink: &'s mut Spooler,
    /// Bytes of texts so far, and the most.
    texts: u64,
    most_texts: u64,
    /// Bytes of files that stay in memory: of one, and of all.
    inline_size: usize,
    inline_left: usize,
    /// The file at hand, once it is in the spool.
    spooled: Option<Arc<dyn FileHandle>>,
    inline: Vec<u8>,
}

impl Collector<'_> {
    fn take(&mut self, event: FormEvent) -> Result<(), Fault> {
        match event {
            FormEvent::Begin(FormField { name, file, .. }) => {
                let content = match file {
                    Some(name) => {
                        Content::File(FormFile { name, payload: Payload::Inline(Bytes::new()) })
                    }
                    None => Content::Text(Vec::new()),
                };
                self.fields.push(Field { name, content });
            }
            FormEvent::Data(bytes) => return self.data(bytes),
            FormEvent::End => self.end(),
        }
        Ok(())
    }

    fn data(&mut self, bytes: Bytes) -> Result<(), Fault> {
        let Some(field) = self.fields.last_mut() else { return Ok(()) };
        if let Content::Text(text) = &mut field.content {
            self.texts += bytes.len() as u64;
            if self.texts > self.most_texts {
                return Err(texts_too_large(self.most_texts));
            }
            text.extend_from_slice(&bytes);
            return Ok(());
        }
        let room = self.inline_size.min(self.inline_left);
        if self.spooled.is_none() && self.inline.len() + bytes.len() <= room {
            self.inline.extend_from_slice(&bytes);
            return Ok(());
        }
        if self.spooled.is_none() {
            let held = self.sink.create();
            self.sink.write(&held, std::mem::take(&mut self.inline).into());
            self.spooled = Some(held);
        }
        if let Some(held) = &self.spooled {
            self.sink.write(held, bytes);
        }
        Ok(())
    }

    fn end(&mut self) {
        let (spooled, inline) = (self.spooled.take(), std::mem::take(&mut self.inline));
        self.inline_left -= inline.len().min(self.inline_left);
        if let Some(Field { content: Content::File(file), .. }) = self.fields.last_mut() {
            file.payload = spooled.map_or_else(|| Payload::Inline(inline.into()), Payload::Spooled);
        }
    }

    /// What is in memory.
    fn held(&self, most_inline: usize) -> u64 {
        let inline = most_inline - self.inline_left + self.inline.len();
        self.texts + inline as u64 + self.sink.pending()
    }
}

fn texts_too_large(most: u64) -> Fault {
    let what = format!("the texts of a form have at most {most} bytes; send large ones as files");
    Fault::new(FaultCode::MessageTooLarge, what).limit("json_size", format!("{most} bytes"))
}

/// Whether a request is a form.
pub(super) fn is_form(media: &MediaType) -> bool {
    ["multipart/form-data", "application/x-www-form-urlencoded"].contains(&&*media.essence)
}

/// Reads a form: the arguments, of which it is not known yet whether they are right. `given` is filled with what it holds, as far as
/// that was read.
///
/// # Errors
/// What is wrong with it, with the parameter if it is about one.
pub(super) async fn read<B>(
    host: &Host,
    known: &[Parameter],
    media: &MediaType,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
    given: &mut GivenInputs,
) -> Result<Vec<Argument>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let fields = if media.essence == "multipart/form-data" {
        parts(host, media, body, memory).await?
    } else {
        pairs(host, body, memory).await?
    };
    let mut form = Form { host, texts: Vec::new(), files: Vec::new() };
    for Field { name, content } in fields {
        match content {
            Content::Text(bytes) => form.texts.push((name, text(bytes)?)),
            Content::File(file) => form.files.push((name, file)),
        }
    }
    form.tell(known, given);
    form.arguments(known).await
}

/// Fields as parts. Files go to the spool as they come.
async fn parts<B>(
    host: &Host,
    media: &MediaType,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<Vec<Field>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let wire = &host.settings.wire;
    let mut reader = FormReader::new(media, wire)?;
    let mut sink = host.spool.sink();
    let mut fields = Collector {
        fields: Vec::new(),
        sink: &mut sink,
        texts: 0,
        most_texts: host.settings.json_size,
        inline_size: wire.inline_size,
        inline_left: wire.inline_total,
        spooled: None,
        inline: Vec::new(),
    };
    while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
        reader.feed(chunk, &mut |event| fields.take(event))?;
        fields.sink.pace().await.map_err(|error| spool_fault(&error))?;
        let held = fields.held(wire.inline_total);
        if held > SMALL {
            host.memory.wait_to_read(memory, held, host.settings.body_stall).await?;
        }
    }
    reader.finish()?;
    let fields = fields.fields;
    sink.finish().await.map_err(|error| spool_fault(&error))?;
    Ok(fields)
}

/// Fields as pairs between ampersands.
async fn pairs<B>(
    host: &Host,
    body: &mut Incoming<B>,
    memory: &mut MemoryReservation,
) -> Result<Vec<Field>, Fault>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let (most, parts) = (host.settings.json_size, host.settings.wire.parts);
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await.map_err(ReadError::into_fault)? {
        let held = (whole.len() + chunk.len()) as u64;
        if held > most {
            return Err(texts_too_large(most));
        }
        if held > SMALL {
            // The text, and what it says.
            host.memory.wait_to_read(memory, held * 2, host.settings.body_stall).await?;
        }
        whole.extend_from_slice(&chunk);
    }
    if whole.trim_ascii_start().starts_with(b"{") {
        let what = "this is JSON, sent as a form; send it as Content-Type: application/json";
        return Err(Fault::new(FaultCode::UnsupportedMediaType, what));
    }
    if whole.split(|byte| *byte == b'&').count() > parts {
        let what = format!("a form has at most {parts} fields");
        return Err(Fault::new(FaultCode::MessageTooLarge, what).limit("parts", parts));
    }
    let field = |(name, text): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| Field {
        name: name.into_owned(),
        content: Content::Text(text.into_owned().into_bytes()),
    };
    Ok(form_urlencoded::parse(&whole).map(field).collect())
}

/// A text as it was typed: browsers write all line ends as CR LF (HTML, "multipart/form-data encoding algorithm").
fn text(bytes: Vec<u8>) -> Result<String, Fault> {
    let text = String::from_utf8(bytes).map_err(|_| {
        let what = "a text of the form is not UTF-8; send what is no text as a file";
        Fault::new(FaultCode::InvalidValue, what)
    })?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
}

/// The fields of a form: texts, and files.
struct Form<'h> {
    host: &'h Host,
    texts: Vec<(String, String)>,
    files: Vec<(String, FormFile)>,
}

/// What was given for one parameter.
struct FieldValues<'f> {
    /// Texts that are not empty.
    texts: Vec<&'f str>,
    urls: Vec<&'f str>,
    files: Vec<&'f FormFile>,
    /// There was a box to be ticked.
    box_shown: bool,
    /// There was a field for a text.
    text_shown: bool,
}

impl Form<'_> {
    fn values(&self, name: &str) -> FieldValues<'_> {
        let named = |suffix: &str| {
            let is_it = move |field: &str| field.strip_prefix(name) == Some(suffix);
            self.texts
                .iter()
                .filter(|(field, _)| is_it(field))
                .map(|(_, text)| text.as_str())
                .collect::<Vec<_>>()
        };
        let filled = |texts: Vec<_>| texts.into_iter().filter(|text: &&str| !text.is_empty());
        let files = self.files.iter().filter(|(field, _)| field == name).map(|(_, file)| file);
        let texts = named("");
        FieldValues {
            text_shown: !texts.is_empty(),
            texts: filled(texts).collect(),
            urls: filled(named(FIELD_URL)).collect(),
            // None was chosen.
            files: files.filter(|it| !(it.name.is_empty() && it.payload.is_empty())).collect(),
            box_shown: !named(FIELD_BOX).is_empty(),
        }
    }

    /// Notes what is there, to fill a form with it again.
    fn tell(&self, known: &[Parameter], given: &mut GivenInputs) {
        for parameter in known {
            let name = parameter.name.as_str();
            let FieldValues { texts, urls, files, box_shown, .. } = self.values(name);
            if box_shown && texts.is_empty() {
                given.push(name, GivenValue::Text("false".to_owned()));
            }
            texts.into_iter().for_each(|it| given.push(name, GivenValue::Text(it.to_owned())));
            urls.into_iter().for_each(|it| given.push(name, GivenValue::Url(it.to_owned())));
            files.into_iter().for_each(|it| given.push(name, GivenValue::File(it.name.clone())));
        }
    }

    /// The arguments, of the parameters in their order; and what is no parameter, of which it is told elsewhere.
    async fn arguments(&self, known: &[Parameter]) -> Result<Vec<Argument>, Fault> {
        let mut arguments = Vec::new();
        for parameter in known {
            let values = self.values(&parameter.name);
            let count = values.texts.len() + values.urls.len() + values.files.len();
            if count > 1 && !parameter.repeated {
                let what =
                    "it was given more than once: as a text, a file or an address; give it once";
                return Err(invalid(parameter, what));
            }
            match &parameter.data_type {
                DataType::Raw | DataType::Xml | DataType::Dir => {
                    files(parameter, &values, &mut arguments);
                }
                DataType::Array(of) => self.arrays(parameter, of, &values, &mut arguments).await?,
                _ => scalars(parameter, &values, self.host.settings.wire.children, &mut arguments)?,
            }
        }
        let names =
            self.texts.iter().map(|(name, _)| name).chain(self.files.iter().map(|(name, _)| name));
        let is_of = |field: &str, name: &str| {
            field.strip_prefix(name).is_some_and(|rest| ["", FIELD_URL, FIELD_BOX].contains(&rest))
        };
        let unknown = names.filter(|field| known.iter().all(|it| !is_of(field, &it.name)));
        arguments.extend(unknown.map(|name| Argument::text(name, "")));
        Ok(arguments)
    }

    async fn arrays(
        &self,
        parameter: &Parameter,
        of: &ArrayType,
        values: &FieldValues<'_>,
        to: &mut Vec<Argument>,
    ) -> Result<(), Fault> {
        let name = parameter.name.as_str();
        for text in &values.texts {
            let array = self.written(parameter, of, text).await?;
            to.push(Argument::new(name, Value::Array(array)));
        }
        for file in &values.files {
            let format = (Format::of_name(Path::new(&file.name)), &*file.name);
            let array = self.read(parameter, of, format, file.payload.clone()).await?;
            to.push(Argument {
                label: label(parameter, file),
                ..Argument::new(name, Value::Array(array))
            });
        }
        addresses(parameter, values, to);
        Ok(())
    }

    /// An array as somebody wrote it: lists of JSON, or numbers, a row a line.
    async fn written(
        &self,
        parameter: &Parameter,
        of: &ArrayType,
        text: &str,
    ) -> Result<Array, Fault> {
        if !text.trim_start().starts_with('[') {
            let delimiter = if text.contains(',') { ',' } else { ' ' };
            let payload = Payload::Inline(Bytes::copy_from_slice(text.as_bytes()));
            return self
                .read(parameter, of, (Format::Text { delimiter }, "the text"), payload)
                .await;
        }
        let mut sink = self.host.spool.sink();
        let wire = &self.host.settings.wire;
        let mut reader =
            InputReader { sink: &mut sink, inline_size: wire.inline_size, members: wire.children };
        let array = reader.array(parameter, of, text)?;
        sink.finish().await.map_err(|error| spool_fault(&error))?;
        Ok(array)
    }

    /// An array in a file of some format, beside the runtime.
    async fn read(
        &self,
        parameter: &Parameter,
        of: &ArrayType,
        (format, name): (Format, &str),
        payload: Payload,
    ) -> Result<Array, Fault> {
        let (spool, element) = (Arc::clone(&self.host.spool), of.clone());
        let (named, name) = (parameter.clone(), lexical::shortened(name).to_string());
        let array = blocking(move || {
            let read = read_file(&spool, &format, &element, payload, &name);
            read.map_err(|error| match error {
                FileError::Wrong(what) => invalid(&named, what),
                FileError::Spool(error) => spool_fault(&error),
            })
        })
        .await?;
        if of.fits(&array.shape) {
            return Ok(array);
        }
        let shape = Array::shape_text(&array.shape);
        Err(invalid(parameter, format!("it is of type {of}: this is {shape}")))
    }
}

/// Why an array's file gave none.
enum FileError {
    Wrong(String),
    Spool(std::io::Error),
}

/// Reads an array's file, which may take its time.
fn read_file(
    spool: &Arc<SpoolDirectory>,
    format: &Format,
    of: &ArrayType,
    payload: Payload,
    name: &str,
) -> Result<Array, FileError> {
    let (held, file) = match payload {
        Payload::Spooled(held) => {
            let file = std::fs::File::open(held.path()).map_err(FileError::Spool)?;
            (Some(held), file)
        }
        payload => (None, in_file(spool, &payload).map_err(FileError::Spool)?),
    };
    let mut made = None;
    let read = array_file::read(&file, format, of.element, &axes(of), &mut || {
        let (new, file) = spool.file()?;
        made = Some(new);
        Ok(file)
    });
    let FoundArray { shape, bytes } = read.map_err(|error| FileError::Wrong(error.about(name)))?;
    let data = match bytes {
        LocatedBytes::Memory(bytes) => Payload::Inline(bytes.into()),
        LocatedBytes::Same => match held {
            Some(held) => Payload::Spooled(held),
            None => Payload::Inline(whole(&file).map_err(FileError::Spool)?.into()),
        },
        LocatedBytes::New(file) => {
            let len = file.metadata().map_err(FileError::Spool)?.len();
            match made {
                Some(made) => Payload::Spooled(made.of_length(len)),
                None => Payload::Inline(whole(&file).map_err(FileError::Spool)?.into()),
            }
        }
    };
    Ok(Array { element: of.element, shape, data })
}

/// A small payload as a file, which goes when it is closed.
fn in_file(spool: &Arc<SpoolDirectory>, payload: &Payload) -> std::io::Result<std::fs::File> {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let (_held, mut file) = spool.file()?;
    for piece in payload.pieces().unwrap_or_default() {
        file.write_all(piece)?;
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn whole(file: &std::fs::File) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Lengths of axes, as far as the type tells them.
fn axes(of: &ArrayType) -> Vec<Option<u64>> {
    let length = |dimension: &Dimension| match dimension {
        Dimension::Fixed(length) => Some(*length),
        Dimension::Any | Dimension::Named(_) => None,
    };
    of.dimensions.iter().map(length).collect()
}

/// Of several files, each has a name.
fn label(parameter: &Parameter, file: &FormFile) -> Option<String> {
    (parameter.repeated && !file.name.is_empty()).then(|| file.name.clone())
}

fn addresses(parameter: &Parameter, values: &FieldValues<'_>, to: &mut Vec<Argument>) {
    for url in &values.urls {
        let reference = Payload::Reference(DataRef::new(url.trim()));
        to.push(Argument::new(&*parameter.name, Value::Data(reference)));
    }
}

fn files(parameter: &Parameter, values: &FieldValues<'_>, to: &mut Vec<Argument>) {
    let name = parameter.name.as_str();
    for text in &values.texts {
        let text = Payload::Inline(Bytes::copy_from_slice(text.as_bytes()));
        to.push(Argument::new(name, Value::Data(text)));
    }
    for file in &values.files {
        let data = Value::Data(file.payload.clone());
        to.push(Argument { label: label(parameter, file), ..Argument::new(name, data) });
    }
    addresses(parameter, values, to);
}

/// Values in their lexical form: whether they are right, dispatch says. Of one parameter there are at most so many, as in
/// other messages.
fn scalars(
    parameter: &Parameter,
    values: &FieldValues<'_>,
    most: usize,
    to: &mut Vec<Argument>,
) -> Result<(), Fault> {
    if !values.files.is_empty() || !values.urls.is_empty() {
        let name = parameter.data_type.name();
        return Err(invalid(parameter, format!("it is of type {name}, and goes as a text only")));
    }
    let name = parameter.name.as_str();
    if parameter.repeated {
        let lines = values.texts.iter().flat_map(|text| text.lines()).filter(|it| !it.is_empty());
        for (count, line) in lines.enumerate() {
            if count == most {
                return Err(too_many(name, most));
            }
            to.push(Argument::text(name, line));
        }
        return Ok(());
    }
    match values.texts.first() {
        Some(text) => to.push(Argument::text(name, *text)),
        None if values.box_shown => to.push(Argument::text(name, "false")),
        // The empty string is a string, unless it can be left out.
        None if values.text_shown && is_free_text(parameter) => to.push(Argument::text(name, "")),
        None => {}
    }
    Ok(())
}

fn too_many(name: &str, most: usize) -> Fault {
    let what = format!("input {name} has more than {most} values (limit children)");
    Fault::new(FaultCode::MessageTooLarge, what).limit("children", most).parameter(name)
}

/// Whether an empty text means the empty string.
pub(crate) fn is_free_text(parameter: &Parameter) -> bool {
    let may_lack = parameter.optional && parameter.default.is_none();
    parameter.data_type == DataType::String && parameter.choices.is_empty() && !may_lack
}
