//! Media types and their parameters (RFC 9110 section 8.3, RFC 2045 section 5.1), as stacks send
//! them: a value may hold any character though it is not quoted (node-soap, `boundary=uuid:1+id=2`).

/// A media type with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    /// `type/subtype` in lower case.
    pub essence: String,
    parameters: Vec<(String, String)>,
}

impl MediaType {
    /// Reads the value of a `Content-Type` field. What cannot be read is passed over.
    pub fn parse(field: &str) -> Self {
        let (essence, mut rest) = field.split_once(';').unwrap_or((field, ""));
        let mut parameters = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ';']);
            if rest.is_empty() {
                break;
            }
            let end = rest.find(['=', ';']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let Some(after) = after.strip_prefix('=') else {
                rest = after;
                continue;
            };
            let (value, after) = parameter_value(after.trim_start());
            parameters.push((name.trim().to_ascii_lowercase(), value));
            rest = after;
        }
        Self { essence: essence.trim().to_ascii_lowercase(), parameters }
    }

    /// All parameters: names in lower case, and values.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a parameter, by its name in lower case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(has, _)| has == name).map(|(_, value)| value.as_str())
    }
}

/// A value, quoted or not, and what follows it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return (text[..end].trim_end().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// The scheme of URLs that refer to parts (RFC 2392).
pub(crate) const CID: &str = "cid:";

/// The text between angle brackets, or the text itself: `<a@b>` is `a@b` (RFC 2392).
pub(crate) fn unbracketed(id: &str) -> &str {
    let id = id.trim();
    id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id)
}

/// A `cid:` URL's percent-encoded octets resolved (RFC 2392, RFC 3986 section 2.1).
pub(crate) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octet = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let octet = octet.and_then(|digits| std::str::from_utf8(digits).ok());
        let octet = octet.filter(|digits| !digits.starts_with('+'));
        match octet.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(octet) => {
                decoded.push(octet);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_stacks_send_them() {
        let media = MediaType::parse(
            "Multipart/Related; boundary=uuid:8f/2+id=1;Type=\"application/xop+xml\" ;\r\n\t\
             start=\"<a;b@c>\"; start-info=\"say \\\"x\\\"\"; flag; empty=",
        );
        assert_eq!(media.essence, "multipart/related");
        assert_eq!(media.parameter("boundary"), Some("uuid:8f/2+id=1"));
        assert_eq!(media.parameter("type"), Some("application/xop+xml"));
        assert_eq!(media.parameter("start"), Some("<a;b@c>"));
        assert_eq!(media.parameter("start-info"), Some("say \"x\""));
        assert_eq!(media.parameter("flag"), None);
        assert_eq!(media.parameter("empty"), Some(""));
        assert_eq!(MediaType::parse("text/xml").parameter("charset"), None);
        assert_eq!(MediaType::parse("a/b; c=\"unclosed").parameter("c"), Some("unclosed"));
    }

    #[test]
    fn content_ids_and_cid_urls_are_unwrapped() {
        assert_eq!(unbracketed(" <a@b> "), "a@b");
        assert_eq!(unbracketed("a@b"), "a@b");
        assert_eq!(percent_decoded("a%40b%3a%2B"), "a@b:+");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%+1%zz"), "%+1%zz");
    }
}
