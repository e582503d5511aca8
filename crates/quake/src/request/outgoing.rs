//! The bytes of one request. A client's buffer is used again; what is large and the same in every request is shared.

use std::io::IoSlice;

use bytes::Bytes;

/// What is longer is shared rather than copied into each client's buffer.
const SHARED: usize = 16 << 10;

/// A request as it is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    /// All that is not shared, in order.
    own: Vec<u8>,
    /// What is shared, and how many bytes of `own` come before.
    shared: Vec<(usize, Bytes)>,
}

impl Outgoing {
    pub(crate) fn clear(&mut self) {
        self.own.clear();
        self.shared.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.own.len() + self.shared.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// The buffer, for what is small.
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    pub(crate) fn push(&mut self, bytes: &Bytes) {
        if bytes.len() > SHARED {
            self.shared.push((self.own.len(), bytes.clone()));
        } else {
            self.own.extend_from_slice(bytes);
        }
    }

    /// Adds all of another one.
    pub(crate) fn append(&mut self, other: &Self) {
        let before = self.own.len();
        self.own.extend_from_slice(&other.own);
        self.shared.extend(other.shared.iter().map(|(at, bytes)| (before + at, bytes.clone())));
    }

    /// Some of the bytes from `from` to `end`, at most so many slices as `to` has room for; how many there are.
    pub(crate) fn slices<'o>(&'o self, from: usize, end: usize, to: &mut [IoSlice<'o>]) -> usize {
        let mut filled = 0;
        let mut at = 0;
        let mut own = 0;
        let mut add = |piece: &'o [u8], at: &mut usize| {
            let (begin, stop) = (from.max(*at), end.min(*at + piece.len()));
            if begin < stop && filled < to.len() {
                to[filled] = IoSlice::new(&piece[begin - *at..stop - *at]);
                filled += 1;
            }
            *at += piece.len();
        };
        for (before, bytes) in &self.shared {
            add(&self.own[own..*before], &mut at);
            add(bytes, &mut at);
            own = *before;
        }
        add(&self.own[own..], &mut at);
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_give_every_byte_once_wherever_they_begin() {
        let large = Bytes::from(vec![b'l'; SHARED + 1]);
        let mut outgoing = Outgoing::default();
        outgoing.own().extend_from_slice(b"head");
        let mut body = Outgoing::default();
        body.push(&Bytes::from_static(b"small"));
        body.push(&large);
        body.push(&large);
        body.push(&Bytes::from_static(b"end"));
        outgoing.append(&body);
        let whole = [b"headsmall", &large[..], &large[..], b"end"].concat();
        assert_eq!(outgoing.len(), whole.len());
        assert_eq!(outgoing.own.len(), 12, "what is large is not copied");
        for from in [0, 3, 4, 9, 10, SHARED, SHARED + 10, 2 * SHARED + 11, whole.len() - 1] {
            for end in [from + 1, whole.len().min(from + SHARED), whole.len()] {
                let mut slices = [IoSlice::new(&[]); 8];
                let count = outgoing.slices(from, end, &mut slices);
                let joined: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                assert!(joined == whole[from..end], "{from}..{end}");
            }
        }
    }
}
