//! Digests of data (RFC 9530).

use std::fmt;

use base64_simd::STANDARD;

use crate::id::from_hex;

/// A digest of a payload's bytes, of an algorithm that RFC 9530 recommends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Digest {
    /// SHA-256: what Fishplate itself computes, and what names data in a pool.
    Sha256([u8; 32]),
    /// SHA-512: verified if somebody tells it.
    Sha512([u8; 64]),
}

impl Digest {
    /// Its key in the fields `Repr-Digest` and `Content-Digest`.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha-256",
            Self::Sha512(_) => "sha-512",
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha256(bytes) => bytes,
            Self::Sha512(bytes) => bytes,
        }
    }

    /// Its bytes as lower-case hexadecimal digits, as `sha256sum` prints them.
    pub fn hex(&self) -> String {
        self.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The SHA-256 that 64 lower-case hexadecimal digits stand for.
    pub fn from_sha256_hex(text: &str) -> Option<Self> {
        from_hex(text).map(Self::Sha256)
    }

    /// The strongest digest of a field of RFC 9530, such as `sha-256=:base64:`; what is of another
    /// algorithm, or is no member of a dictionary, is passed over.
    pub fn from_field(field: &str) -> Option<Self> {
        field.split(',').filter_map(Self::from_member).max()
    }

    fn from_member(member: &str) -> Option<Self> {
        let (algorithm, value) = member.trim().split_once('=')?;
        let value = value.strip_prefix(':')?;
        let (value, parameters) = value.split_once(':')?;
        if !(parameters.is_empty() || parameters.starts_with(';')) {
            return None;
        }
        let bytes = STANDARD.decode_to_vec(value).ok()?;
        match algorithm {
            "sha-256" => bytes.try_into().ok().map(Self::Sha256),
            "sha-512" => bytes.try_into().ok().map(Self::Sha512),
            _ => None,
        }
    }
}

/// As a member of a field of RFC 9530: `sha-256=:base64:`.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=:{}:", self.algorithm(), STANDARD.encode_to_string(self.as_bytes()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gives_its_strongest_digest() {
        // RFC 9530, section 5 and appendix B.1.
        let of_hello = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
        let digest = Digest::from_field(of_hello).unwrap();
        assert_eq!(digest.to_string(), of_hello);
        assert_eq!(Digest::from_sha256_hex(&digest.hex()), Some(digest));
        let strong = Digest::Sha512([7; 64]);
        assert_eq!(Digest::from_field(&format!("{of_hello}, {strong}")), Some(strong));
        assert_eq!(Digest::from_field(&format!("unixsum=30637,{of_hello};a=1")), Some(digest));
        for none in ["", "sha-256", "sha-256=:AAAA:", "md5=:AAAA:", "sha-256=RK", "sha-256=:RK:x"] {
            assert_eq!(Digest::from_field(none), None, "{none}");
        }
    }
}
