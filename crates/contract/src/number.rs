//! Numbers in the lexical forms of XML Schema part 2, section 3.2, quickly: an array has millions.
//!
//! Reals are read as other languages print them too: `inf`, `Infinity` and `nan` in any letter case and
//! with any sign; Fortran's `1.0D+00` and `1.0-100`. They are written as XML Schema has them.

use std::borrow::Cow;

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
    real(text).map(|number: f32| if number.is_nan() { f32::NAN } else { number })
}

/// An `xs:double`: the number nearest to the text.
pub fn double(text: &[u8]) -> Option<f64> {
    real(text).map(|number: f64| if number.is_nan() { f64::NAN } else { number })
}

/// The library takes `inf`, `infinity` and `nan` in any letter case.
fn real<N: fast_float2::FastFloat>(text: &[u8]) -> Option<N> {
    match fast_float2::parse(text) {
        Ok(number) => Some(number),
        Err(_) => fast_float2::parse(with_exponent(text)?).ok(),
    }
}

/// `1.0D+00` and `1.0-100`, in which Fortran leaves out the letter, with an `e`.
fn with_exponent(text: &[u8]) -> Option<Vec<u8>> {
    const LONGEST: usize = 512;
    if text.len() > LONGEST {
        return None;
    }
    let mut changed = text.to_vec();
    if let Some(at) = text.iter().position(|byte| matches!(byte, b'd' | b'D' | b'q' | b'Q')) {
        changed[at] = b'e';
        return (at > 0).then_some(changed);
    }
    let at = text.iter().skip(1).position(|byte| matches!(byte, b'+' | b'-'))? + 1;
    // A real number of Fortran's has a point; `2026-11` is none.
    let (before, letter) = (&text[..at], text[at - 1]);
    (before.contains(&b'.') && matches!(letter, b'0'..=b'9' | b'.')).then(|| {
        changed.insert(at, b'e');
        changed
    })
}

/// A real number's text as XML Schema has it: the same text if it is, so that its digits stay. `None`
/// if it is no number.
pub fn real_text(text: &str) -> Option<Cow<'_, str>> {
    let number = double(text.as_bytes())?;
    if text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Some(match fast_float2::parse::<f64, _>(text) {
            Ok(_) => Cow::Borrowed(text),
            Err(_) => String::from_utf8(with_exponent(text.as_bytes())?).ok()?.into(),
        });
    }
    Some(Cow::Borrowed(special(number.is_nan(), number > 0.0)))
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
        false => to.extend_from_slice(special(number.is_nan(), number > 0.0).as_bytes()),
    }
}

/// Prints an `xs:double`: the shortest text that reads back to the same number.
pub fn print_double(number: f64, to: &mut Vec<u8>) {
    match number.is_finite() {
        true => to.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes()),
        false => to.extend_from_slice(special(number.is_nan(), number > 0.0).as_bytes()),
    }
}

fn special(nan: bool, positive: bool) -> &'static str {
    match (nan, positive) {
        (true, _) => "NaN",
        (_, true) => "INF",
        (_, false) => "-INF",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_are_read_as_xsd_and_other_languages_write_them() {
        for good in ["1", "1.5", ".5", "5.", "-2e-3", "1E10", "+4", "007", "1e400"] {
            assert_eq!(double(good.as_bytes()), good.parse().ok(), "{good}");
            assert_eq!(float(good.as_bytes()), good.parse().ok(), "{good}");
            assert_eq!(real_text(good).as_deref(), Some(good));
        }
        for (fortran, text) in
            [("1.0D+00", "1.0e+00"), ("-.5d3", "-.5e3"), ("1.5-100", "1.5e-100"), ("2.Q1", "2.e1")]
        {
            assert_eq!(double(fortran.as_bytes()), text.parse().ok(), "{fortran}");
            assert_eq!(real_text(fortran).as_deref(), Some(text));
        }
        for bad in [
            "", "infinit", "in", "1,5", "0x1", "e", ".", "1 2", "-", "1e", "D", "1D", "-D+1",
            "--inf", "2026-11", "1-2", "1.0-", "\u{661}",
        ] {
            assert_eq!(double(bad.as_bytes()), None, "{bad}");
            assert_eq!(real_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn infinities_and_nan_are_read_in_every_spelling_and_written_in_one() {
        for name in ["INF", "inf", "Inf", "infinity", "Infinity", "INFINITY"] {
            for (sign, number) in
                [("", f64::INFINITY), ("+", f64::INFINITY), ("-", f64::NEG_INFINITY)]
            {
                let text = format!("{sign}{name}");
                assert_eq!(double(text.as_bytes()), Some(number), "{text}");
                let written = if number > 0.0 { "INF" } else { "-INF" };
                assert_eq!(real_text(&text).as_deref(), Some(written));
            }
        }
        for text in ["NaN", "nan", "NAN", "-nan", "+NaN"] {
            assert_eq!(
                double(text.as_bytes()).map(f64::to_bits),
                Some(f64::NAN.to_bits()),
                "{text}"
            );
            assert_eq!(
                float(text.as_bytes()).map(f32::to_bits),
                Some(f32::NAN.to_bits()),
                "{text}"
            );
            assert_eq!(real_text(text).as_deref(), Some("NaN"));
        }
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
