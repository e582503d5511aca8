//! Numbers as they stand in arrays, read from the front of a text and printed behind one.
//!
//! What XML Schema part 2, section 3.2 allows is taken; and, since stacks of dynamic languages print
//! them so, `inf`, `infinity` and `nan` in any letter case.

use fishplate_contract::ElementType;

/// A number that arrays consist of.
pub(crate) trait Number: Copy {
    /// Bytes of one.
    const SIZE: usize;

    /// Most characters that one is printed with.
    const WIDTH: usize;

    /// Reads the number that the text begins with; gives its length too. What follows may belong to
    /// it (`1.5.2`): whoever calls looks at that.
    fn begin(text: &[u8]) -> Option<(Self, usize)>;

    /// Appends its bytes, little-endian.
    fn push(self, to: &mut Vec<u8>);

    /// The number of these bytes, little-endian; there are as many as it has.
    fn of(bytes: &[u8]) -> Self;

    /// The shortest text that reads back to the same number.
    fn text(self, buffer: &mut Buffer) -> &[u8];
}

/// Room for the text of one number.
pub(crate) struct Buffer {
    whole: itoa::Buffer,
    real: zmij::Buffer,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        Self { whole: itoa::Buffer::new(), real: zmij::Buffer::new() }
    }
}

macro_rules! number {
    ($type:ty, $width:literal, $begin:path, $text:path) => {
        impl Number for $type {
            const SIZE: usize = size_of::<Self>();
            const WIDTH: usize = $width;

            #[inline]
            fn begin(text: &[u8]) -> Option<(Self, usize)> {
                $begin(text)
            }

            #[inline]
            fn push(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn of(bytes: &[u8]) -> Self {
                bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
            }

            #[inline]
            fn text(self, buffer: &mut Buffer) -> &[u8] {
                $text(self, buffer)
            }
        }
    };
}

number!(i32, 11, begin_whole, whole_text);
number!(i64, 20, begin_whole, whole_text);
number!(f32, 16, begin_real, real_text);
number!(f64, 24, begin_real, real_text);

/// Most characters that one of them is printed with.
pub(crate) fn width(element: ElementType) -> usize {
    match element {
        ElementType::Int => i32::WIDTH,
        ElementType::Long => i64::WIDTH,
        ElementType::Float => f32::WIDTH,
        ElementType::Double => f64::WIDTH,
    }
}

/// Digits of which no `i64` has too many.
const SAFE_DIGITS: usize = 18;

#[inline]
fn begin_whole<N: TryFrom<i64>>(text: &[u8]) -> Option<(N, usize)> {
    let (sign, negative) = match text.first()? {
        b'-' => (1, true),
        b'+' => (1, false),
        _ => (0, false),
    };
    let mut number: i64 = 0;
    let mut at = sign;
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10) {
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        at += 1;
    }
    let digits = at - sign;
    if digits == 0 {
        return None;
    }
    if digits > SAFE_DIGITS {
        number = std::str::from_utf8(&text[..at]).ok()?.parse().ok()?;
    } else if negative {
        number = -number;
    }
    Some((N::try_from(number).ok()?, at))
}

fn whole_text(number: impl itoa::Integer, buffer: &mut Buffer) -> &[u8] {
    buffer.whole.format(number).as_bytes()
}

/// What tells a real number that is not finite.
trait Real: fast_float2::FastFloat + zmij::Float {
    const CANONICAL: Self;

    /// Whether it is finite, and whether it is a number.
    fn is(&self) -> (bool, bool);

    fn is_positive(&self) -> bool;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const CANONICAL: Self = Self::NAN;

            #[inline]
            fn is(&self) -> (bool, bool) {
                (Self::is_finite(*self), !Self::is_nan(*self))
            }

            fn is_positive(&self) -> bool {
                Self::is_sign_positive(*self)
            }
        }
    };
}

real!(f32);
real!(f64);

#[inline]
fn begin_real<N: Real>(text: &[u8]) -> Option<(N, usize)> {
    let (number, len) = fast_float2::parse_partial::<N, _>(text).ok()?;
    // C prints `-nan`; there is one NaN here.
    Some((if number.is().1 { number } else { N::CANONICAL }, len))
}

#[inline]
fn real_text<N: Real>(number: N, buffer: &mut Buffer) -> &[u8] {
    match number.is() {
        (true, _) => buffer.real.format_finite(number).as_bytes(),
        (_, false) => b"NaN",
        _ if number.is_positive() => b"INF",
        _ => b"-INF",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(text: &str) -> Option<f32> {
        let mut bytes = Vec::new();
        ElementType::Float.parse(text.as_bytes(), &mut bytes).then(|| f32::of(&bytes))
    }

    #[test]
    fn reals_are_read_as_xsd_and_other_languages_write_them() {
        for good in ["1", "1.5", ".5", "5.", "-2e-3", "1E10", "+4", "007", " 1\n", "3.4e39"] {
            assert_eq!(float(good), good.trim().parse().ok(), "{good}");
        }
        for inf in ["INF", "+INF", "inf", "Infinity", "INFINITY", "+infinity"] {
            assert_eq!(float(inf), Some(f32::INFINITY), "{inf}");
            assert_eq!(
                float(&format!("-{}", inf.trim_start_matches('+'))),
                Some(f32::NEG_INFINITY)
            );
        }
        for nan in ["NaN", "nan", "NAN", "-nan"] {
            assert_eq!(float(nan).map(f32::to_bits), Some(f32::NAN.to_bits()), "{nan}");
        }
        for bad in ["", " ", ".", "1,5", "0x1", "e", "1e", "1 2", "-", "in", "infin", "1.5f", "１"]
        {
            assert_eq!(float(bad), None, "{bad}");
        }
    }

    #[test]
    fn whole_numbers_keep_to_their_range() {
        let mut to = Vec::new();
        for good in ["0", "-2147483648", "2147483647", "+7", "-007", "0000000000000000000000012"] {
            to.clear();
            assert!(ElementType::Int.parse(good.as_bytes(), &mut to), "{good}");
            assert_eq!(Ok(i32::of(&to)), good.parse(), "{good}");
        }
        for good in ["9223372036854775807", "-9223372036854775808", "999999999999999999"] {
            to.clear();
            assert!(ElementType::Long.parse(good.as_bytes(), &mut to), "{good}");
            assert_eq!(Ok(i64::of(&to)), good.parse(), "{good}");
        }
        for bad in
            ["2147483648", "-2147483649", "", "-", "1.0", "1e3", "--1", "99999999999999999999"]
        {
            assert!(!ElementType::Int.parse(bad.as_bytes(), &mut to), "{bad}");
        }
        assert!(!ElementType::Long.parse(b"9223372036854775808", &mut to));
    }

    #[test]
    fn nothing_is_printed_wider_than_it_says() {
        for (element, bits) in [
            (ElementType::Float, u64::from((-1.175_494_4e-38f32).to_bits())),
            (ElementType::Float, u64::from((-16_777_217_000.0f32).to_bits())),
            (ElementType::Double, (-2.225_073_858_507_201_4e-308f64).to_bits()),
            (ElementType::Double, (-1.234_567_890_123_456_7e-5f64).to_bits()),
            (ElementType::Int, u64::from(i32::MIN.cast_unsigned())),
            (ElementType::Long, i64::MIN.cast_unsigned()),
        ] {
            let mut text = Vec::new();
            element.print(&bits.to_le_bytes()[..element.size()], &mut text);
            assert!(text.len() <= width(element), "{}", String::from_utf8_lossy(&text));
        }
    }
}
