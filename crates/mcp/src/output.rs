//! Outputs as the content of an answer: values as JSON, small files in it, images and sound as such, what is large by its address.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::{
    Argument, Array, DataRef, DataType, Fault, FaultCode, FileHandle, Parameter, Payload,
    Value as Given,
};
use fishplate_formats::{json, schema};
use futures_util::StreamExt as _;
use rmcp::model::{ContentBlock, Resource};
use serde_json::{Map, Value, json};

use crate::job::{JobName, JobResource};

/// How many bytes of a file an answer holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of one that stands in the text of the answer.
    pub(crate) inline: u64,
    /// Of an image or a sound, and of what is read as a resource.
    pub(crate) read: u64,
}

impl Bounds {
    /// Of all outputs in one answer together.
    fn all(self) -> u64 {
        4 * self.read.max(self.inline)
    }
}

/// What an answer tells of outputs.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// By name.
    pub(crate) value: Map<String, Value>,
    /// Images, sound, and links to what is elsewhere.
    pub(crate) blocks: Vec<ContentBlock>,
}

/// The names of outputs that are here and that an answer does not hold.
pub(crate) fn too_large(known: &[Parameter], outputs: &[Argument], bounds: Bounds) -> Vec<String> {
    let (mut names, mut left) = (Vec::new(), bounds.all());
    for output in outputs {
        let parameter = known.iter().find(|parameter| parameter.name == output.name);
        let (Some(parameter), Some(payload)) = (parameter, output.value.payload()) else {
            continue;
        };
        if matches!(payload, Payload::Reference(_)) {
            continue;
        }
        match payload.len().filter(|len| *len <= bound(parameter, bounds).min(left)) {
            Some(len) => left -= len,
            None if !names.contains(&output.name) => names.push(output.name.clone()),
            None => {}
        }
    }
    names
}

/// How much of an output stands in an answer.
fn bound(parameter: &Parameter, bounds: Bounds) -> u64 {
    if shown(parameter).is_some() { bounds.read } else { bounds.inline }
}

/// A block of content of bytes in base64 and their media type.
type Block = fn(String, &str) -> ContentBlock;

/// How a file is shown that is no text: images and sound.
fn shown(parameter: &Parameter) -> Option<Block> {
    let images = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    match schema::media_type(parameter) {
        _ if parameter.data_type != DataType::Raw => None,
        image if images.contains(&image) => Some(|data, of| ContentBlock::image(data, of)),
        sound if sound.starts_with("audio/") => Some(|data, of| ContentBlock::audio(data, of)),
        _ => None,
    }
}

/// What is told of outputs, in the order of their operation; `job` keeps them, if there is one.
///
/// # Errors
/// `MessageTooLarge`, if an output is too large for an answer and nobody keeps it; what keeps its bytes from being read.
pub(crate) async fn content(
    known: &[Parameter],
    outputs: &[Argument],
    job: Option<&JobName>,
    bounds: Bounds,
) -> Result<Content, Fault> {
    let mut content = Content::default();
    for parameter in known {
        let own = outputs.iter().filter(|output| output.name == parameter.name);
        let mut values = Vec::new();
        for (at, output) in own.enumerate() {
            let uri = job.map(|job| {
                JobResource::Output { job: job.clone(), output: output.name.clone(), at }
                    .to_string()
            });
            let about = About { parameter, label: output.label.as_deref(), uri, bounds };
            values.push(about.told(&output.value, &mut content.blocks).await?);
        }
        if parameter.repeated {
            content.value.insert(parameter.name.clone(), Value::Array(values));
        } else if let Some(value) = values.pop() {
            content.value.insert(parameter.name.clone(), value);
        }
    }
    Ok(content)
}

/// One output, and where it can be read.
struct About<'o> {
    parameter: &'o Parameter,
    label: Option<&'o str>,
    uri: Option<String>,
    bounds: Bounds,
}

impl About<'_> {
    async fn told(&self, value: &Given, blocks: &mut Vec<ContentBlock>) -> Result<Value, Fault> {
        match value {
            Given::Text(text) if text.len() as u64 <= self.bounds.inline || self.uri.is_none() => {
                Ok(json::scalar(text, Some(&self.parameter.data_type)))
            }
            Given::Text(text) => Ok(self.elsewhere(Some(text.len() as u64), None, blocks)),
            Given::Data(Payload::Reference(of)) => Ok(self.elsewhere(of.len, Some(of), blocks)),
            Given::Data(payload) => self.file(payload, blocks).await,
            Given::Array(Array { data: Payload::Reference(of), .. }) => {
                Ok(self.elsewhere(of.len, Some(of), blocks))
            }
            Given::Array(array) => {
                let bytes = self.bytes(&array.data).await?;
                Ok(json::array_as_json(array.element, &array.shape, &bytes))
            }
            Given::Record(_) => Ok(Value::Null),
        }
    }

    async fn bytes(&self, payload: &Payload) -> Result<Bytes, Fault> {
        // Without a job, what is not told now is never told.
        let most =
            if self.uri.is_none() { self.bounds.read } else { bound(self.parameter, self.bounds) };
        bytes(payload, most).await?.ok_or_else(|| {
            let what = format!(
                "output {} has more than the {most} bytes that an answer to a tool's call holds",
                self.parameter.name
            );
            Fault::new(FaultCode::MessageTooLarge, what)
                .limit("mcp_read_size", format!("{most} bytes"))
                .parameter(&*self.parameter.name)
        })
    }

    async fn file(
        &self,
        payload: &Payload,
        blocks: &mut Vec<ContentBlock>,
    ) -> Result<Value, Fault> {
        let bytes = self.bytes(payload).await?;
        let media_type = schema::media_type(self.parameter);
        let mut told = Map::new();
        if let Some(block) = shown(self.parameter) {
            blocks.push(block(base64(&bytes), media_type));
            told.extend(self.uri.iter().map(|uri| ("uri".to_owned(), json!(uri))));
        } else {
            let (form, text) = match text(&bytes) {
                Some(text) => ("text", text.to_owned()),
                None => ("base64", base64(&bytes)),
            };
            told.insert(form.to_owned(), json!(text));
        }
        self.more(&mut told, Some(bytes.len() as u64));
        Ok(Value::Object(told))
    }

    /// Where it is, instead of itself.
    fn elsewhere(
        &self,
        size: Option<u64>,
        of: Option<&DataRef>,
        blocks: &mut Vec<ContentBlock>,
    ) -> Value {
        let mut told = Map::new();
        if let Some(of) = of {
            told.insert("href".to_owned(), json!(of.url));
        }
        if let Some(uri) = &self.uri {
            told.insert("uri".to_owned(), json!(uri));
            let name = self.label.unwrap_or(&self.parameter.name);
            let mut link = Resource::new(&**uri, name).with_mime_type(self.media_type());
            link.size = size;
            link.description =
                Some(schema::about(self.parameter)).filter(|about| !about.is_empty());
            blocks.push(ContentBlock::resource_link(link));
        }
        self.more(&mut told, size);
        Value::Object(told)
    }

    fn media_type(&self) -> &str {
        let data_type = &self.parameter.data_type;
        let is_file = data_type.is_binary() || data_type.as_array().is_some();
        if is_file { schema::media_type(self.parameter) } else { "text/plain" }
    }

    fn more(&self, told: &mut Map<String, Value>, size: Option<u64>) {
        told.insert("mediaType".to_owned(), json!(self.media_type()));
        told.extend(size.map(|size| ("size".to_owned(), json!(size))));
        told.extend(self.label.map(|label| ("name".to_owned(), json!(label))));
    }
}

/// The bytes as text, if a person could read them.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// The bytes of a payload that is here; `None` if there are more.
///
/// # Errors
/// `TransferFailed`, if they can't be read.
pub(crate) async fn bytes(payload: &Payload, most: u64) -> Result<Option<Bytes>, Fault> {
    if payload.len().is_some_and(|len| len > most) {
        return Ok(None);
    }
    match payload {
        Payload::Inline(bytes) => Ok(Some(bytes.clone())),
        Payload::Pieces(pieces) => Ok(Some(pieces.concat().into())),
        Payload::Spooled(held) => of_file(Arc::clone(held), most).await.map(Some),
        Payload::Reference(_) => Ok(None),
        Payload::Stream(stream) => {
            let (mut chunks, mut whole) = (stream.take()?, Vec::new());
            while let Some(chunk) = chunks.next().await {
                whole.extend_from_slice(&chunk?);
                if whole.len() as u64 > most {
                    return Ok(None);
                }
            }
            Ok(Some(whole.into()))
        }
    }
}

async fn of_file(held: Arc<dyn FileHandle>, most: u64) -> Result<Bytes, Fault> {
    let read = move || {
        let mut bytes = Vec::new();
        File::open(held.path())?.take(most).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(Bytes::from(bytes))
    };
    let failed = |what: String| {
        Fault::new(FaultCode::TransferFailed, format!("cannot read an output: {what}"))
    };
    let done =
        tokio::task::spawn_blocking(read).await.map_err(|error| failed(error.to_string()))?;
    done.map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use fishplate_contract::{ByteStream, ElementType};

    use super::*;

    const BOUNDS: Bounds = Bounds { inline: 8, read: 20 };
    const URI: &str = "fishplate://results/heat/000102030405060708090a0b0c0d0e0f/x";

    fn job() -> JobName {
        JobName::parse("heat/000102030405060708090a0b0c0d0e0f").unwrap()
    }

    fn parameter(data_type: &str, media_type: &str) -> Parameter {
        let mut parameter = Parameter::new("x", DataType::from_name(data_type).unwrap());
        parameter.media_type = media_type.to_owned();
        parameter
    }

    fn data(bytes: &'static [u8]) -> Given {
        Given::Data(Payload::Inline(Bytes::from_static(bytes)))
    }

    async fn told(parameter: &Parameter, value: Given) -> (Value, Vec<Value>) {
        let outputs = [Argument::new("x", value)];
        let known = std::slice::from_ref(parameter);
        let mut content = content(known, &outputs, Some(&job()), BOUNDS).await.unwrap();
        let blocks = content.blocks.iter().map(|block| serde_json::to_value(block).unwrap());
        (content.value.remove("x").unwrap(), blocks.collect())
    }

    #[tokio::test]
    async fn small_outputs_stand_in_the_answer_with_their_media_type() {
        for (data_type, media_type, value, expected) in [
            ("int", "", Given::Text("3".to_owned()), json!(3)),
            ("double", "", Given::Text("NaN".to_owned()), json!("NaN")),
            (
                "raw",
                "text/csv",
                data(b"a,b"),
                json!({ "text": "a,b", "mediaType": "text/csv", "size": 3 }),
            ),
            (
                "raw",
                "",
                data(b"\x00\xff"),
                json!({ "base64": "AP8=", "mediaType": "application/octet-stream", "size": 2 }),
            ),
            (
                "int[]",
                "",
                Given::Array(Array {
                    element: ElementType::Int,
                    shape: vec![2],
                    data: Bytes::from_static(&[1, 0, 0, 0, 2, 0, 0, 0]).into(),
                }),
                json!([1, 2]),
            ),
        ] {
            let (value, blocks) = told(&parameter(data_type, media_type), value).await;
            assert_eq!((value, blocks), (expected, Vec::new()), "{data_type}");
        }
    }

    #[tokio::test]
    async fn what_is_large_or_elsewhere_is_a_link() {
        let of = DataRef { len: Some(99), ..DataRef::new("http://h/data/x") };
        let (value, blocks) =
            told(&parameter("raw", ""), Given::Data(Payload::Reference(of))).await;
        let media_type = "application/octet-stream";
        assert_eq!(
            value,
            json!({ "href": "http://h/data/x", "uri": URI, "mediaType": media_type, "size": 99 })
        );
        let link = json!({ "type": "resource_link", "uri": URI, "name": "x", "mimeType": media_type, "size": 99 });
        assert_eq!(blocks, [link]);
        let (value, _) = told(&parameter("string", ""), Given::Text("a".repeat(9))).await;
        assert_eq!(value, json!({ "uri": URI, "mediaType": "text/plain", "size": 9 }));
        let large = [Argument::new("x", data(b"123456789"))];
        assert_eq!(too_large(&[parameter("raw", "")], &large, BOUNDS), ["x"]);
        assert!(too_large(&[parameter("raw", "image/png")], &large, BOUNDS).is_empty());
        assert!(
            too_large(&[parameter("raw", "")], &[Argument::new("x", data(b"1"))], BOUNDS)
                .is_empty()
        );
    }

    #[tokio::test]
    async fn images_and_sound_are_shown() {
        for (kind, media_type) in [("image", "image/png"), ("audio", "audio/wav")] {
            let (value, blocks) = told(&parameter("raw", media_type), data(b"123456789")).await;
            assert_eq!(value, json!({ "uri": URI, "mediaType": media_type, "size": 9 }));
            assert_eq!(
                blocks,
                [json!({ "type": kind, "data": "MTIzNDU2Nzg5", "mimeType": media_type })]
            );
        }
    }

    #[tokio::test]
    async fn a_stream_is_read_as_far_as_it_may_be() {
        let stream = |count: usize| {
            let chunk = Ok::<_, Fault>(Bytes::from_static(b"0123456789"));
            Payload::Stream(ByteStream::new(futures_util::stream::iter(vec![chunk; count])))
        };
        assert_eq!(bytes(&stream(2), 20).await.unwrap().unwrap().len(), 20);
        assert_eq!(bytes(&stream(3), 20).await.unwrap(), None);
        let outputs = [Argument::new("x", Given::Data(stream(3)))];
        let fault = content(&[parameter("raw", "")], &outputs, None, BOUNDS).await.unwrap_err();
        assert_eq!(fault.code, FaultCode::MessageTooLarge);
    }
}
