//! Identifiers of other languages as names of parameters: XML NCNames of ASCII characters, each once.

use std::collections::{BTreeMap, BTreeSet};

use fishplate_programs::template::is_name;

/// Names that are taken, and what was renamed.
#[derive(Debug)]
pub(crate) struct Names {
    /// `inputs` or `outputs`.
    side: &'static str,
    taken: BTreeSet<String>,
    pub(crate) renamed: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn new(side: &'static str) -> Self {
        // The client's command line has these for itself.
        let taken = ["out", "ref"].map(str::to_owned).into();
        Self { side, taken, renamed: BTreeMap::new() }
    }

    /// The name of a parameter with this identifier.
    pub(crate) fn of(&mut self, id: &str) -> String {
        self.like(id, id)
    }

    /// The name of a parameter with this identifier, if it can be that of `wish`.
    pub(crate) fn like(&mut self, id: &str, wish: &str) -> String {
        let name = distinct(&mut self.taken, &name(wish));
        if name != id {
            self.renamed.insert(format!("{}/{id}", self.side), name.clone());
        }
        name
    }
}

/// The name itself, or one like it if that is taken.
pub(crate) fn distinct(taken: &mut BTreeSet<String>, base: &str) -> String {
    let mut name = base.to_owned();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = if number == 2 { format!("{base}_") } else { format!("{base}_{number}") };
        number += 1;
    }
    name
}

/// A text as a name, of a service too: what no name has is `_`.
pub(crate) fn name(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = id.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if is_name(&name) { name } else { format!("_{name}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_name_is_given_once() {
        let mut names = Names::new("inputs");
        let given = ["x", "x", "x", "out", "3d", "a b", ""].map(|id| names.of(id));
        assert_eq!(given, ["x", "x_", "x_3", "out_", "_3d", "a_b", "_"]);
        assert_eq!(names.renamed["inputs/out"], "out_");
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_name(id in "\\PC{0,12}") {
            prop_assert!(is_name(&name(&id)));
        }
    }
}
