//! Numbers in the lexical forms of XML Schema part 2, section 3.2, quickly: an array has millions.

/// An `xs:int`.
pub fn int(text: &[u8]) -> Option<i32> {
    match few_digits(text) {
        Some(number) => i32::try_from(number).ok(),
        None => whole(text),
    }
}

/// An `xs:long`.
pub fn long(text: &[u8]) -> Option<i64> {
    few_digits(text).or_else(|| whole(text))
}

/// A number of so few digits that it needs no look at overflow; `None` if it has more or is none.
fn few_digits(text: &[u8]) -> Option<i64> {
    const MOST: usize = 18;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > MOST {
        return None;
    }
    let mut number = 0_i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(if negative { -number } else { number })
}

fn whole<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An `xs:float`: the number nearest to the text.
pub fn float(text: &[u8]) -> Option<f32> {
    real(text, [f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
}

/// An `xs:double`: the number nearest to the text.
pub fn double(text: &[u8]) -> Option<f64> {
    real(text, [f64::INFINITY, f64::NEG_INFINITY, f64::NAN])
}

fn real<N: fast_float2::FastFloat>(text: &[u8], [inf, minus_inf, nan]: [N; 3]) -> Option<N> {
    // The library also takes `inf`, `infinity` and `nan` in any letter case, which XSD does not.
    match text.last()? {
        b'0'..=b'9' | b'.' => fast_float2::parse(text).ok(),
        _ => match text {
            b"INF" | b"+INF" => Some(inf),
            b"-INF" => Some(minus_inf),
            b"NaN" => Some(nan),
            _ => None,
        },
    }
}

/// Prints an `xs:int`.
pub fn print_int(number: i32, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Prints an `xs:long`.
pub fn print_long(number: i64, to: &mut Vec<u8>) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Prints an `xs:float`: the shortest text that reads back to the same number.
pub fn print_float(number: f32, to: &mut Vec<u8>) {
    match number.is_finite() {
        true => to.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
        false => print_special(number.is_nan(), number > 0.0, to),
    }
}

/// Prints an `xs:double`: the shortest text that reads back to the same number.
pub fn print_double(number: f64, to: &mut Vec<u8>) {
    match number.is_finite() {
        true => to.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
        false => print_special(number.is_nan(), number > 0.0, to),
    }
}

fn print_special(nan: bool, positive: bool, to: &mut Vec<u8>) {
    to.extend_from_slice(match (nan, positive) {
        (true, _) => b"NaN",
        (_, true) => b"INF",
        (_, false) => b"-INF",
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_are_read_in_the_forms_of_xsd_only() {
        for good in ["1", "1.5", ".5", "5.", "-2e-3", "1E10", "+4", "007"] {
            assert_eq!(double(good.as_bytes()), good.parse().ok(), "{good}");
            assert_eq!(float(good.as_bytes()), good.parse().ok(), "{good}");
        }
        for bad in
            ["", "inf", "nan", "infinity", "Inf", "+NaN", "1,5", "0x1", "e", ".", "1 2", "-", "1e"]
        {
            assert_eq!(double(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(double(b"INF"), Some(f64::INFINITY));
        assert_eq!(float(b"-INF"), Some(f32::NEG_INFINITY));
        assert!(float(b"NaN").is_some_and(f32::is_nan));
    }

    #[test]
    fn whole_numbers_keep_to_their_range() {
        assert_eq!(int(b"-2147483648"), Some(i32::MIN));
        assert_eq!(int(b"+7"), Some(7));
        assert_eq!(int(b"2147483648"), None);
        assert_eq!(long(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(long(b"1.0"), None);
        assert_eq!(long(b""), None);
        for text in ["-", "+", "--1", "1-", "1 ", "x", "\u{661}", "0x1"] {
            assert_eq!((int(text.as_bytes()), long(text.as_bytes())), (None, None), "{text}");
        }
        for text in
            ["-0", "+007", "-999999999999999999", "1000000000000000000", "-1000000000000000000"]
        {
            assert_eq!(long(text.as_bytes()), text.parse().ok(), "{text}");
            assert_eq!(int(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }
}
