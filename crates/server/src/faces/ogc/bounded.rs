//! Lists and objects of a request, of which no more is kept than the limit `children` allows: two bytes of JSON can become a
//! hundred of memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use fishplate_contract::{Fault, FaultCode};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

/// The members of a list.
///
/// # Errors
/// `MessageTooLarge`, with the limit; `wrong`, of what is no list.
pub(super) fn list(
    text: &str,
    most: usize,
    wrong: impl Fn(serde_json::Error) -> Fault,
) -> Result<Vec<&RawValue>, Fault> {
    let mut kept = MemberLimit { most, exceeded: false, what: PhantomData::<&RawValue> };
    let mut from = serde_json::Deserializer::from_str(text);
    let found =
        from.deserialize_seq(Elements(&mut kept)).and_then(|found| from.end().map(|()| found));
    found.map_err(|error| if kept.exceeded { too_many(most) } else { wrong(error) })
}

/// The members of an object, by name.
///
/// # Errors
/// As of [`list`].
pub(super) fn object<'a, T: Deserialize<'a>>(
    text: &'a str,
    most: usize,
    wrong: impl Fn(serde_json::Error) -> Fault,
) -> Result<BTreeMap<String, T>, Fault> {
    let mut kept = MemberLimit { most, exceeded: false, what: PhantomData::<T> };
    let mut from = serde_json::Deserializer::from_str(text);
    let found =
        from.deserialize_map(Members(&mut kept)).and_then(|found| from.end().map(|()| found));
    found.map_err(|error| if kept.exceeded { too_many(most) } else { wrong(error) })
}

fn too_many(most: usize) -> Fault {
    let what = format!("a list or an object here has more than {most} members");
    Fault::new(FaultCode::MessageTooLarge, what).limit("children", most as u64)
}

struct MemberLimit<T> {
    most: usize,
    exceeded: bool,
    what: PhantomData<T>,
}

impl<T> MemberLimit<T> {
    fn room<E: serde::de::Error>(&mut self, held: usize) -> Result<(), E> {
        self.exceeded = held == self.most;
        if self.exceeded { Err(E::custom("too many members")) } else { Ok(()) }
    }
}

/// A list.
struct Elements<'k, T>(&'k mut MemberLimit<T>);

impl<'de> Visitor<'de> for Elements<'_, &'de RawValue> {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(member) = members.next_element()? {
            self.0.room(kept.len())?;
            kept.push(member);
        }
        Ok(kept)
    }
}

/// An object.
struct Members<'k, T>(&'k mut MemberLimit<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<'_, T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some((name, member)) = members.next_entry::<String, T>()? {
            self.0.room(kept.len())?;
            if kept.contains_key(&name) {
                return Err(A::Error::custom(format!("{name} is there twice")));
            }
            kept.insert(name, member);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_the_limit_allows() {
        let wrong =
            |error: serde_json::Error| Fault::new(FaultCode::InvalidValue, error.to_string());
        assert_eq!(list("[1, 2, 3]", 3, wrong).unwrap().len(), 3);
        assert_eq!(object::<u8>(r#"{"a": 1, "b": 2}"#, 2, wrong).unwrap().len(), 2);
        let refused = [
            list("[1, 2, 3]", 2, wrong).map(|_| ()).unwrap_err(),
            object::<u8>(r#"{"a": 1, "b": 2}"#, 1, wrong).map(|_| ()).unwrap_err(),
        ];
        for fault in refused {
            assert_eq!(fault.code, FaultCode::MessageTooLarge, "{fault}");
        }
        for text in ["[1, 2", "{}", "[1] 2"] {
            let fault = list(text, 2, wrong).map(|_| ()).unwrap_err();
            assert_eq!(fault.code, FaultCode::InvalidValue, "{text}: {fault}");
        }
        let twice = object::<u8>(r#"{"a": 1, "a": 2}"#, 5, wrong).unwrap_err();
        assert_eq!(twice.code, FaultCode::InvalidValue);
    }
}
