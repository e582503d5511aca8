//! What tests of both languages ask of an import.

use serde_json::Value;

use crate::report::{Gap, ImportError, Imported};

/// The places of all objects, as JSON Pointers.
pub(crate) fn objects(of: &Value) -> impl Iterator<Item = String> + use<> {
    let mut found = Vec::new();
    walk(of, "", &mut |at, value| {
        if value.is_object() {
            found.push(at.to_owned());
        }
    });
    found.into_iter()
}

/// The places of all members of objects.
pub(crate) fn members(of: &Value) -> impl Iterator<Item = String> + use<> {
    let mut found = Vec::new();
    walk(of, "", &mut |at, value| {
        found.extend(value.as_object().into_iter().flatten().map(|(key, _)| format!("{at}/{key}")));
    });
    found.into_iter()
}

fn walk(value: &Value, at: &str, seen: &mut impl FnMut(&str, &Value)) {
    seen(at, value);
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| walk(value, &format!("{at}/{key}"), seen));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| walk(value, &format!("{at}/{index}"), seen));
        }
        _ => {}
    }
}

/// Removes a member.
pub(crate) fn remove(from: &mut Value, at: &str) {
    let (object, key) = at.rsplit_once('/').unwrap();
    from.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(key);
}

/// Whether something at this place, or all that it is part of, is told as a gap. An item of a list stands in a field by its `id`,
/// by its number, or not at all.
pub(crate) fn is_named(gaps: &[Gap], at: &str, of: &Value) -> bool {
    let (mut pointer, mut numbered, mut plain) = (String::new(), String::new(), String::new());
    at.split('/').skip(1).any(|key| {
        pointer = format!("{pointer}/{key}");
        let id = of.pointer(&format!("{pointer}/id")).and_then(Value::as_str);
        match (key.parse::<usize>(), id) {
            (Ok(number), None) => numbered.push_str(&format!("[{number}]")),
            (is_number, id) => {
                let name = id.filter(|_| is_number.is_ok()).unwrap_or(key);
                for path in [&mut numbered, &mut plain] {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(name);
                }
            }
        }
        gaps.iter().any(|gap| gap.field == numbered || gap.field == plain)
    })
}

/// The members that are not told as gaps, and without which everything that is said and told is the same.
pub(crate) fn unheard(
    of: &Value,
    import: impl Fn(&str) -> Result<Imported, ImportError>,
) -> Vec<String> {
    let told = |it: &Value| import(&it.to_string()).ok();
    let shown = |it: Option<&Imported>| {
        it.map(|it| (it.service_file.clone(), it.gaps.clone(), it.name.clone(), it.renamed.clone()))
    };
    let whole = told(of);
    let gaps = whole.as_ref().map_or(&[][..], |it| &it.gaps);
    let without = |at: &String| {
        let mut less = of.clone();
        remove(&mut less, at);
        !is_named(gaps, at, of) && shown(told(&less).as_ref()) == shown(whole.as_ref())
    };
    members(of).filter(without).collect()
}
