//! `multipart/form-data` (RFC 7578) in a stream: what a browser sends of a form, and `curl -F`.
//!
//! Its parts are read by the reader of all multipart messages, under the same limits: `parts`, `part_headers`,
//! `header_length`, and `message_size` of the whole.

use bytes::Bytes;
use fishplate_contract::{Fault, FaultCode};

use crate::limits::{WireLimits, exceeded};
use crate::media::MediaType;
use crate::packaging::multipart::{MultipartEvent, MultipartReader, PartHeader};

/// What is found, in the order of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum FormEvent {
    /// A field begins.
    Begin(FormField),
    /// Bytes of it.
    Data(Bytes),
    /// It has ended.
    End,
}

/// What is told of a field before its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: String,
    /// The file's name, without directories, if it is one; empty, with no bytes, if none was chosen.
    pub file: Option<String>,
    /// The media type that the sender tells; empty if it tells none.
    pub media_type: String,
}

/// Reads a form.
pub struct FormReader {
    multipart: MultipartReader,
    most: Option<u64>,
    read: u64,
}

impl FormReader {
    /// A form of this `Content-Type`.
    ///
    /// # Errors
    /// `MalformedMessage`, if it tells no boundary.
    pub fn new(media: &MediaType, limits: &WireLimits) -> Result<Self, Fault> {
        let boundary = media.parameter("boundary").unwrap_or_default();
        let multipart = MultipartReader::new(boundary, limits)?;
        Ok(Self { multipart, most: limits.message_size, read: 0 })
    }

    /// Takes a chunk, and tells what is found in it.
    ///
    /// # Errors
    /// What is wrong with it, or what `found` says.
    pub fn feed(
        &mut self,
        chunk: Bytes,
        found: &mut dyn FnMut(FormEvent) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.read += chunk.len() as u64;
        if let Some(most) = self.most.filter(|most| self.read > *most) {
            return Err(exceeded("message_size", most, "bytes"));
        }
        self.multipart.feed(chunk, &mut |event| {
            found(match event {
                MultipartEvent::Head(head) => FormEvent::Begin(field(head)?),
                MultipartEvent::Data(data) => FormEvent::Data(data),
                MultipartEvent::End => FormEvent::End,
            })
        })
    }

    /// All chunks were there.
    ///
    /// # Errors
    /// `MalformedMessage`, if the form has not ended. One without fields has but its last boundary.
    pub fn finish(&self) -> Result<(), Fault> {
        self.multipart.finish()
    }
}

fn field(head: PartHeader) -> Result<FormField, Fault> {
    let disposition = head.disposition.filter(|told| told.essence == "form-data");
    let Some(name) = disposition.as_ref().and_then(|told| told.parameter("name")) else {
        let what = "a part of the form has no Content-Disposition: form-data; name=\"...\"";
        return Err(Fault::new(FaultCode::MalformedMessage, what));
    };
    let file = disposition.as_ref().and_then(|told| told.parameter("filename"));
    Ok(FormField {
        name: unescaped(name),
        // Some send the whole path (RFC 7578, section 4.2).
        file: file.map(|file| unescaped(file.rsplit(['/', '\\']).next().unwrap_or_default())),
        media_type: head.media.map(|media| media.essence).unwrap_or_default(),
    })
}

/// Browsers escape these three characters and no other (HTML, "multipart/form-data encoding algorithm").
fn unescaped(text: &str) -> String {
    text.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fields = Vec<(FormField, Vec<u8>)>;

    fn read(form: &[u8], size: usize, limits: &WireLimits) -> Result<Fields, Fault> {
        let media = MediaType::parse("multipart/form-data; boundary=\"--B\"");
        let (mut reader, mut fields) = (FormReader::new(&media, limits)?, Fields::new());
        let mut open = false;
        for chunk in form.chunks(size) {
            reader.feed(Bytes::copy_from_slice(chunk), &mut |event| {
                match event {
                    FormEvent::Begin(field) => {
                        assert!(!std::mem::replace(&mut open, true));
                        fields.push((field, Vec::new()));
                    }
                    FormEvent::Data(data) => fields.last_mut().unwrap().1.extend_from_slice(&data),
                    FormEvent::End => assert!(std::mem::replace(&mut open, false)),
                }
                Ok(())
            })?;
        }
        reader.finish().map(|()| fields)
    }

    /// As Chromium sends it.
    const FORM: &str = "----B\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n4\r\n\
        ----B\r\nContent-Disposition: form-data; name=\"mesh\"; filename=\"a %22b%22;c=.inp\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n\x00\r\n--\r\n----X\r\n\
        ----B\r\nContent-Disposition: form-data; name=\"none\"; filename=\"\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n\r\n----B--\r\n";

    fn field(name: &str, file: Option<&str>) -> FormField {
        let media_type = if file.is_some() { "application/octet-stream" } else { "" }.to_owned();
        FormField { name: name.to_owned(), file: file.map(str::to_owned), media_type }
    }

    #[test]
    fn fields_and_files_are_told_apart_however_they_are_cut() {
        let expected = vec![
            (field("n", None), b"4".to_vec()),
            (field("mesh", Some("a \"b\";c=.inp")), b"\x00\r\n--\r\n----X".to_vec()),
            (field("none", Some("")), Vec::new()),
        ];
        for size in 1..FORM.len() {
            let read = read(FORM.as_bytes(), size, &WireLimits::default());
            assert_eq!(read.unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn a_files_name_has_no_directories() {
        for (told, name) in [("/etc/passwd", "passwd"), ("C:\\\\a\\\\b.txt", "b.txt"), ("..", "..")]
        {
            let form = format!(
                "----B\r\nContent-Disposition: form-data; name=a; filename=\"{told}\"\r\n\r\n\r\n----B--"
            );
            let read = read(form.as_bytes(), 7, &WireLimits::default()).unwrap();
            assert_eq!(read[0].0.file.as_deref(), Some(name), "{told}");
        }
    }

    #[test]
    fn a_form_without_names_or_end_or_with_too_much_is_refused() {
        let code = |form: &str, limits: &WireLimits| {
            let fault = read(form.as_bytes(), 64, limits).unwrap_err();
            (fault.code, fault.limit.map(|limit| limit.name))
        };
        let limits = WireLimits::default();
        let cut = &FORM[..FORM.len() - 6];
        for form in ["", cut, "----B\r\nContent-Type: text/plain\r\n\r\nx\r\n----B--"] {
            assert_eq!(code(form, &limits), (FaultCode::MalformedMessage, None), "{form}");
        }
        let named = |name: &str| Some(name.to_owned());
        let few = WireLimits { parts: 2, ..limits.clone() };
        assert_eq!(code(FORM, &few), (FaultCode::MessageTooLarge, named("parts")));
        let small = WireLimits { message_size: Some(100), ..limits };
        assert_eq!(code(FORM, &small), (FaultCode::MessageTooLarge, named("message_size")));
    }

    proptest! {
        #[test]
        fn any_bytes_mean_the_same_however_they_are_cut(
            pieces in proptest::collection::vec(prop_oneof![
                Just(b"----B\r\n".to_vec()),
                Just(b"\r\n----B--".to_vec()),
                Just(b"Content-Disposition: form-data; name=\"a\"\r\n\r\n".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..20),
            ], 0..8),
            size in 1usize..30,
        ) {
            let form = pieces.concat();
            let limits = WireLimits::default();
            let (cut, whole) = (read(&form, size, &limits), read(&form, usize::MAX, &limits));
            prop_assert_eq!(cut, whole);
        }
    }
}
