//! Quoted-printable (RFC 2045 section 6.7) in a stream, as far as it is read.

/// Decodes a stream.
#[derive(Debug, Default)]
pub(crate) struct QuotedDecoder {
    state: State,
    /// Blanks that are content only if something follows them in their line.
    blanks: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    /// After `=`, and blanks that were added behind it.
    Quote,
    /// After its first digit.
    Digit(u8),
    /// After `=` and CR.
    LineEnd,
}

/// What is not quoted-printable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'=' stands neither before two hexadecimal digits nor at the end of a line")]
pub(crate) struct NotQuotedPrintable;

/// A line has no more characters (rule 5), so that more blanks are content whatever follows.
const LINE: usize = 76;

impl QuotedDecoder {
    /// Appends the bytes that this text stands for.
    pub(crate) fn decode(
        &mut self,
        text: &[u8],
        bytes: &mut Vec<u8>,
    ) -> Result<(), NotQuotedPrintable> {
        for &byte in text {
            let digit = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            self.state = match (&self.state, byte, digit) {
                (State::Text, b'=', _) => {
                    bytes.append(&mut self.blanks);
                    State::Quote
                }
                (State::Text, b' ' | b'\t', _) => {
                    if self.blanks.len() == LINE {
                        bytes.append(&mut self.blanks);
                    }
                    self.blanks.push(byte);
                    State::Text
                }
                (State::Text, _, _) => {
                    // Blanks before a line end were added on the way (rule 3).
                    if matches!(byte, b'\r' | b'\n') {
                        self.blanks.clear();
                    }
                    bytes.append(&mut self.blanks);
                    bytes.push(byte);
                    State::Text
                }
                (State::Quote, b' ' | b'\t', _) => State::Quote,
                (State::Quote, b'\r', _) => State::LineEnd,
                (State::Quote | State::LineEnd, b'\n', _) => State::Text,
                (State::Quote, _, Some(digit)) => State::Digit(digit),
                (State::Digit(first), _, Some(digit)) => {
                    bytes.push(first * 16 + digit);
                    State::Text
                }
                _ => return Err(NotQuotedPrintable),
            };
        }
        Ok(())
    }

    /// The text has ended. The line end that a last `=` takes back belongs to the boundary behind it.
    pub(crate) fn finish(&self) -> Result<(), NotQuotedPrintable> {
        match self.state {
            State::Text | State::Quote => Ok(()),
            State::Digit(_) | State::LineEnd => Err(NotQuotedPrintable),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &[u8], size: usize) -> Option<Vec<u8>> {
        let (mut decoder, mut bytes) = (QuotedDecoder::default(), Vec::new());
        for piece in text.chunks(size) {
            decoder.decode(piece, &mut bytes).ok()?;
        }
        decoder.finish().ok()?;
        Some(bytes)
    }

    #[test]
    fn texts_are_decoded_by_the_rules() {
        for (text, bytes) in [
            ("a=3Db=e4=C3=A4", &b"a=b\xe4\xc3\xa4"[..]),
            ("so=\r\nft=\nbreaks= \t\r\n=", b"softbreaks"),
            ("a \t\r\nb  ", b"a\r\nb"),
            ("a =20\n b", b"a  \n b"),
            ("", b""),
        ] {
            assert_eq!(decoded(text.as_bytes(), usize::MAX).as_deref(), Some(bytes), "{text:?}");
        }
        let blanks = " ".repeat(200) + "x";
        assert_eq!(decoded(blanks.as_bytes(), 7).as_deref(), Some(blanks.as_bytes()));
        for bad in ["=x", "=4", "=4 ", "=\r", "=\rx", "==", "a=zz"] {
            assert_eq!(decoded(bad.as_bytes(), usize::MAX), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_however_they_are_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            size in 1usize..20,
        ) {
            let quoted = bytes.iter().map(|byte| format!("={byte:02X}"));
            let lines: Vec<String> = quoted.collect();
            let text: Vec<u8> = lines.chunks(24).map(|line| line.concat() + "=\r\n").collect::<String>().into();
            prop_assert_eq!(decoded(&text, size), Some(bytes));
        }

        #[test]
        fn any_text_means_the_same_however_it_is_cut(text in "[ =\r\nA4\\tx]{0,60}", size in 1usize..7) {
            prop_assert_eq!(decoded(text.as_bytes(), size), decoded(text.as_bytes(), usize::MAX));
        }
    }
}
