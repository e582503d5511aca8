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

/// Numbers from such bytes.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_other_languages() {
        // As gSOAP's server sent them for n = 3.
        let sent = ["0.113210201", "0.32482475", "0.734431505", "0.34615773"];
        assert_eq!(numbers(3)[..4], sent.map(|text| text.parse::<f32>().expect("a number")));
        assert_eq!(bytes(&numbers(3)).len(), 36);
        assert_eq!(from_bytes(&bytes(&numbers(3))), numbers(3));
    }
}
