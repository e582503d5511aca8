//! The numbers of an n by n matrix: the same in every client and server of the benchmark.

/// 24 random bits a number, in \[0, 1), so that it prints with eight or nine digits.
#[must_use]
pub fn numbers(n: usize) -> Vec<f32> {
    let mut state = n as u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // At most 24 bits, which a float holds exactly.
        (state >> 40) as f32 / 16_777_216.0
    };
    (0..n * n).map(|_| next()).collect()
}

/// The numbers as attachments carry them: little-endian, row by row.
#[must_use]
pub fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Numbers from bytes that came in pieces, cut anywhere.
#[must_use]
pub fn from_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, count: usize) -> Vec<f32> {
    let mut numbers = Vec::with_capacity(count);
    let (mut begun, mut begun_length) = ([0; 4], 0);
    for mut piece in pieces {
        if begun_length > 0 {
            let taken = piece.len().min(4 - begun_length);
            begun[begun_length..begun_length + taken].copy_from_slice(&piece[..taken]);
            begun_length += taken;
            piece = &piece[taken..];
            if begun_length < 4 {
                continue;
            }
            numbers.push(f32::from_le_bytes(begun));
        }
        let (whole, rest) = piece.as_chunks::<4>();
        numbers.extend(whole.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        begun[..rest.len()].copy_from_slice(rest);
        begun_length = rest.len();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let (numbers, bytes) = (numbers(5), bytes(&numbers(5)));
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(from_pieces(pieces, 25), numbers, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn numbers_are_those_of_the_other_languages() {
        // As gSOAP's server sent them for n = 3.
        let sent = ["0.113210201", "0.32482475", "0.734431505", "0.34615773"];
        assert_eq!(numbers(3)[..4], sent.map(|text| text.parse::<f32>().expect("a number")));
        assert_eq!(bytes(&numbers(3)).len(), 36);
    }
}
