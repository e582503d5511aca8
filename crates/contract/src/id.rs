//! Names that nobody can guess.

/// A name of 128 random bits, written as 32 lower-case hexadecimal digits.
macro_rules! hex_id {
    ($(#[doc = $doc:literal])+ $name:ident, $error:ident, $of:literal) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The ID of these bits, which the caller drew at random.
            pub fn from_bytes(bits: [u8; 16]) -> Self {
                Self(bits)
            }

            /// Its bits.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        #[doc = concat!("A text that is no ", $of, " ID.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $error;

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!("a ", $of, " ID is 32 lower-case hexadecimal digits"))
            }
        }

        impl std::error::Error for $error {}

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                $crate::id::from_hex(text).map(Self).ok_or($error)
            }
        }
    };
}

pub(crate) use hex_id;

/// The bytes that so many lower-case hexadecimal digits stand for.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bits = [0; N];
    for (bit, pair) in bits.iter_mut().zip(text.chunks_exact(2)) {
        *bit = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bits)
}
