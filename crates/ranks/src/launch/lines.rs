//! Lines that come in pieces.

/// What came of a connection and is no whole line yet.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// So many of them have no end of a line.
    searched: usize,
}

impl Lines {
    /// More has come.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next whole line, without its end.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let found = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(at) = found else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + at;
        self.searched = 0;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// How many bytes wait for the rest of their line.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_of_any_length() {
        let text = b"\none\n\ntwo and more\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut taken) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.extend(piece);
                taken.extend(std::iter::from_fn(|| lines.take()));
                assert_eq!(lines.searched, lines.waiting());
            }
            assert_eq!(taken, [&b""[..], b"one", b"", b"two and more"]);
            assert_eq!(lines.waiting(), 4);
        }
    }
}
