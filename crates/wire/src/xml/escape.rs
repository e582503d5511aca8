//! Which characters XML can hold, and how text is written.

/// White space of XML (section 2.3).
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether XML 1.0 can hold this character at all (section 2.2), escaped or not.
pub(crate) fn is_xml_char(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => true,
        c if c < ' ' => false,
        c => !matches!(c, '\u{FFFE}' | '\u{FFFF}'),
    }
}

/// The first character that XML cannot hold.
pub(crate) fn unfit(text: &str) -> Option<char> {
    text.chars().find(|c| !is_xml_char(*c))
}

/// Bytes that text cannot hold as they are. 0xEF may begin U+FFFE or U+FFFF.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    special[b'\t' as usize] = false;
    special[b'\n' as usize] = false;
    special[b'&' as usize] = true;
    special[b'<' as usize] = true;
    special[b'>' as usize] = true;
    special[0xEF] = true;
    special
};

/// Appends text as element content. A carriage return becomes a reference, else readers would
/// take it for a line end; a character that XML cannot hold becomes U+FFFD.
pub(crate) fn push_text(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len());
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !SPECIAL[usize::from(*byte)] {
            continue;
        }
        let (escaped, len): (&[u8], usize) = match byte {
            b'&' => (b"&amp;", 1),
            b'<' => (b"&lt;", 1),
            b'>' => (b"&gt;", 1),
            b'\r' => (b"&#13;", 1),
            0xEF if matches!(bytes.get(at + 1..at + 3), Some([0xBF, 0xBE | 0xBF])) => {
                ("\u{FFFD}".as_bytes(), 3)
            }
            0xEF => continue,
            _ => ("\u{FFFD}".as_bytes(), 1),
        };
        out.extend_from_slice(&bytes[from..at]);
        out.extend_from_slice(escaped);
        from = at + len;
    }
    out.extend_from_slice(&bytes[from..]);
}

/// Appends text as the value of an attribute in double quotes.
pub(crate) fn push_attribute(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\t', '\n']) {
        push_text(&rest[..at], out);
        out.extend_from_slice(match rest.as_bytes()[at] {
            b'"' => b"&quot;",
            b'\t' => b"&#9;",
            _ => b"&#10;",
        });
        rest = &rest[at + 1..];
    }
    push_text(rest, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        let mut out = Vec::new();
        push_text(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_escaped_so_that_it_reads_back() {
        assert_eq!(text("a<b & c>d\r\n\t"), "a&lt;b &amp; c&gt;d&#13;\n\t");
        assert_eq!(text("plain \u{EFFF} \u{FEFF} ü"), "plain \u{EFFF} \u{FEFF} ü");
    }

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(text("a\0b\u{1b}[0m\u{FFFE}\u{FFFF}z"), "a�b�[0m��z");
        assert_eq!(unfit("fine\r\n\t"), None);
        assert_eq!(unfit("a\u{8}"), Some('\u{8}'));
    }

    #[test]
    fn attributes_keep_their_white_space() {
        let mut out = Vec::new();
        push_attribute("say \"x\"\n\t\r<&", &mut out);
        assert_eq!(out, b"say &quot;x&quot;&#10;&#9;&#13;&lt;&amp;");
    }
}
