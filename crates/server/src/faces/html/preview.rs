//! What a job gave, as people would rather look at it: numbers, texts and tables as they are, arrays as a picture, pictures,
//! meshes that turn, the members of archives; all of it to download. Nothing larger than `preview_size` is read for it.
//!
//! Reading order: `kind` (what a file is), `text`, `array` and `picture` (how it is shown), `item` (the address of one).

mod array;
mod item;
mod kind;
mod picture;
mod text;

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use fishplate_contract::interface::OGC;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{Argument, Array, Fault, Parameter, Payload, Principal, Value};
use fishplate_formats::archive;
use fishplate_formats::array_file::sample::ArrayLayout;
use fishplate_formats::units;
use fishplate_jobs::engine::OwnJob;
use percent_encoding::utf8_percent_encode;

pub(crate) use item::item;
use kind::FileKind;

use super::page::beside;
use crate::data::{IN_A_SEGMENT, blocking};
use crate::dispatch::outputs::outputs;
use crate::host::{Host, ServiceEntry};
use crate::memory::MemoryReservation;

/// Bytes of a file by which it is known what it is, and of a text that are shown.
const HEAD: u64 = 64 << 10;

/// Members of an archive that are listed.
const MEMBERS: usize = 200;

/// Values of one output that are shown; of more, the first.
const VALUES: usize = 100;

/// Values as large as `preview_size` that one page looks at.
const VALUES_READ: u64 = 4;

/// Bytes of a page above which it shows no more values; all can be had at their addresses.
const PAGE_SIZE: usize = 4 << 20;

/// The results of a job of the caller, or one output of them, as a part of a page.
///
/// # Errors
/// Those of the verb `results`.
pub(crate) async fn results(
    host: &Host,
    entry: &Arc<ServiceEntry>,
    caller: &Principal,
    job: &OwnJob,
    only: Option<&str>,
) -> Result<String, Fault> {
    let mut memory = MemoryReservation::default();
    let mut outputs = outputs(host, entry, caller, job, &mut memory).await?;
    outputs.retain(|output| only.is_none_or(|only| output.name == only));
    let operation = entry.service().operation(&job.operation);
    let known = operation.map(|it| it.signature.outputs.clone()).unwrap_or_default();
    let preview = Preview {
        base: format!("{}/{OGC}/jobs/{}/results", host.public_path(), job.id),
        script: beside(host, "mesh.js"),
        size: host.settings.preview_size,
        fetch: host.settings.preview_fetch,
        left: Cell::new(host.settings.preview_size.saturating_mul(VALUES_READ)),
    };
    let made = blocking(move || Ok::<_, Fault>(preview.fragment(&known, &outputs))).await;
    drop(memory);
    made
}

/// How outputs are shown.
struct Preview {
    /// Where results are, below the server's host.
    base: String,
    /// Where the script is that draws meshes.
    script: String,
    /// `preview_size`.
    size: u64,
    /// `preview_fetch`.
    fetch: u64,
    /// Bytes that may be looked at for the rest of the page.
    left: Cell<u64>,
}

/// One value of an output, that is no scalar.
struct ShownFile<'o> {
    parameter: &'o Parameter,
    payload: &'o Payload,
    /// The array that it is, if its parameter says so.
    array: Option<&'o Array>,
    /// The file's name.
    name: String,
    /// Where it is to be had.
    href: String,
}

impl Preview {
    fn fragment(&self, known: &[Parameter], outputs: &[Argument]) -> String {
        let mut body = String::new();
        self.scalars(&mut body, known, outputs);
        let mut has_mesh = false;
        for parameter in known {
            let values = outputs.iter().filter(|output| output.name == parameter.name);
            let files = values.enumerate().filter(|(_, it)| !matches!(it.value, Value::Text(_)));
            for (place, output) in files {
                if place == VALUES {
                    let _ = writeln!(body, "<p>Only the first {VALUES} of these are shown.</p>");
                    break;
                }
                has_mesh |= self.output(&mut body, parameter, output, place);
            }
        }
        if body.is_empty() {
            body.push_str("<p>It gave nothing.</p>\n");
        }
        if has_mesh {
            let _ = writeln!(body, "<script src=\"{}\" defer></script>", self.script);
        }
        body
    }

    /// The values that are text, in one table.
    fn scalars(&self, body: &mut String, known: &[Parameter], outputs: &[Argument]) {
        let mut rows = String::new();
        for parameter in known {
            let values = outputs.iter().filter(|output| output.name == parameter.name);
            for (place, output) in values.enumerate() {
                let Value::Text(text) = &output.value else { continue };
                if rows.len() > PAGE_SIZE {
                    break;
                }
                let unit = match parameter.unit.as_str() {
                    "" => String::new(),
                    unit => format!(" <small>{}</small>", escaped(unit)),
                };
                let _ = writeln!(
                    rows,
                    "<tr><th scope=\"row\"><code>{}</code></th><td>{}{unit}</td><td>{}</td></tr>",
                    escaped(&parameter.name),
                    self.scalar(parameter, text, place),
                    escaped(&parameter.help),
                );
            }
        }
        if !rows.is_empty() {
            let _ = writeln!(body, "<table class=\"values\">\n{rows}</table>");
        }
    }

    fn scalar(&self, parameter: &Parameter, text: &str, place: usize) -> String {
        let name = utf8_percent_encode(&parameter.name, IN_A_SEGMENT);
        match text::beginning(text.as_bytes()) {
            Some(short) if short.len() == text.len() && !text.contains('\n') => escaped(short),
            Some(short) => {
                let rest = match short.len() == text.len() {
                    true => String::new(),
                    false => format!(
                        "<a href=\"{}/{name}?item={place}\">All of it</a>",
                        escaped(&self.base)
                    ),
                };
                format!("{}{rest}", text::block(&parameter.name, short))
            }
            None => format!("<a href=\"{}/{name}?item={place}\">{name}</a>", escaped(&self.base)),
        }
    }

    /// A file or an array, with its heading; whether it is a mesh that is drawn.
    fn output(
        &self,
        body: &mut String,
        parameter: &Parameter,
        output: &Argument,
        place: usize,
    ) -> bool {
        let label = output.label.as_deref().unwrap_or_default();
        let about = match (label, parameter.help.as_str()) {
            ("", help) => escaped(help),
            (label, _) => format!("<code>{}</code>", escaped(label)),
        };
        let _ = writeln!(
            body,
            "<section class=\"result\">\n<h3><code>{}</code></h3>",
            escaped(&parameter.name)
        );
        if !about.is_empty() {
            let _ = writeln!(body, "<p>{about}</p>");
        }
        let mut is_mesh = false;
        match (&output.value, output.value.payload()) {
            (_, Some(Payload::Reference(reference))) => elsewhere(body, &reference.url),
            (value, Some(payload)) => {
                let array = match value {
                    Value::Array(array) => Some(array),
                    _ => None,
                };
                let name = item::file_name(parameter, output);
                let in_path = utf8_percent_encode(&parameter.name, IN_A_SEGMENT);
                let href = format!("{}/{in_path}?item={place}", self.base);
                let file = ShownFile { parameter, payload, array, name, href };
                is_mesh = self.file(body, &file);
            }
            (_, None) => {}
        }
        body.push_str("</section>\n");
        is_mesh
    }

    fn file(&self, body: &mut String, file: &ShownFile<'_>) -> bool {
        let len = file.payload.len().unwrap_or(0);
        let shown = self.shown(body, file, len);
        let is_mesh = shown.unwrap_or_else(|error| {
            let _ = writeln!(body, "<p>It can't be shown: {}.</p>", escaped(&error.to_string()));
            false
        });
        let _ = writeln!(
            body,
            "<p class=\"download\"><a href=\"{}\" download>{}</a> <small>{}</small></p>",
            escaped(&file.href),
            escaped(&file.name),
            units::rounded(len),
        );
        is_mesh
    }

    /// Whether so much of a value may be looked at; it is told if not.
    fn may_read(&self, body: &mut String, len: u64) -> bool {
        let left = self.left.get().checked_sub(len.min(self.size));
        if let Some(left) = left {
            self.left.set(left);
        } else {
            body.push_str("<p>It is not shown: this page shows enough already.</p>\n");
        }
        left.is_some()
    }

    fn shown(&self, body: &mut String, file: &ShownFile<'_>, len: u64) -> io::Result<bool> {
        if body.len() > PAGE_SIZE || !self.may_read(body, len) {
            return Ok(false);
        }
        if let Some(array) = file.array {
            let layout = ArrayLayout::plain(array.element, &array.shape);
            array::figure(body, file, &layout, self.size)?;
            return Ok(false);
        }
        let head = head(file.payload)?;
        let whole = head.len() as u64 >= len;
        match FileKind::of(&file.parameter.media_type, &file.name, &head) {
            FileKind::Image(_) if len <= self.fetch => {
                let _ = writeln!(
                    body,
                    "<figure><img class=\"picture\" src=\"{}\" alt=\"{} of {}\" loading=\"lazy\"></figure>",
                    escaped(&file.href),
                    escaped(&file.name),
                    escaped(&file.parameter.name),
                );
            }
            FileKind::Mesh(format) if len <= self.fetch => {
                mesh(body, file, format);
                return Ok(true);
            }
            FileKind::Image(_) | FileKind::Mesh(_) => {
                let most = units::exact(self.fetch);
                let _ = writeln!(
                    body,
                    "<p>It is larger than {most} (preview_fetch), and not shown.</p>"
                );
            }
            FileKind::Npy(header) => {
                array::figure(body, file, &ArrayLayout::from(header), self.size)?;
            }
            FileKind::Table(delimiter) => text::table(body, &head, whole, delimiter),
            FileKind::Text => {
                if let Some(beginning) = text::beginning(&head) {
                    body.push_str(&text::block(&file.parameter.name, beginning));
                    if !whole {
                        let shown = units::exact(HEAD);
                        let _ = writeln!(body, "<p>These are its first {shown}.</p>");
                    }
                }
            }
            FileKind::Archive => members(body, file.payload, self.size)?,
            FileKind::Other => {}
        }
        Ok(false)
    }
}

/// What was delivered somewhere. Only an address that a browser knows becomes a link.
fn elsewhere(body: &mut String, url: &str) {
    let shown = escaped(url);
    let is_web = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    let _ = match is_web {
        true => writeln!(body, "<p>It was brought to <a href=\"{shown}\">{shown}</a>.</p>"),
        false => writeln!(body, "<p>It was brought to <code>{shown}</code>.</p>"),
    };
}

/// Where a script draws the surface of a mesh.
fn mesh(body: &mut String, file: &ShownFile<'_>, format: &str) {
    let _ = writeln!(
        body,
        "<figure class=\"mesh\" data-mesh=\"{}\" data-format=\"{format}\">\n\
         <canvas tabindex=\"0\" role=\"img\" aria-label=\"The surface of {}. Arrow keys turn it, plus and minus bring it nearer.\">\
         </canvas>\n<figcaption>A script draws its surface.</figcaption>\n</figure>",
        escaped(&file.href),
        escaped(&file.name),
    );
}

/// What is in an archive.
fn members(body: &mut String, payload: &Payload, budget: u64) -> io::Result<()> {
    let Ok(listing) = archive::list(reader(payload)?, MEMBERS, budget) else { return Ok(()) };
    body.push_str("<ul class=\"members\">\n");
    for member in &listing.members {
        let size = member
            .size
            .map_or_else(String::new, |size| format!(" <small>{}</small>", units::rounded(size)));
        let _ = writeln!(body, "<li><code>{}</code>{size}</li>", escaped(&member.path));
    }
    body.push_str("</ul>\n");
    if !listing.complete {
        body.push_str("<p>There are more.</p>\n");
    }
    Ok(())
}

/// The bytes of a payload that is here.
fn reader(payload: &Payload) -> io::Result<Box<dyn Read>> {
    if let Some(pieces) = payload.pieces() {
        return Ok(Box::new(Cursor::new(pieces.concat())));
    }
    match payload {
        Payload::Spooled(file) => Ok(Box::new(File::open(file.path())?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The first bytes of it.
fn head(payload: &Payload) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader(payload)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}
