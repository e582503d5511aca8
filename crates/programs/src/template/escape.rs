//! Which brackets are slots: those that begin like one. In front of what begins like a slot, a
//! doubled bracket stands for one bracket of text.

/// Whether what follows a `[` makes it the beginning of a slot: `in` or `out` and a space, or any
/// word and `val` or `file` (then a direction was misspelt).
pub(super) fn begins_slot(after: &str) -> bool {
    let word_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    let (first, rest) = after.split_at(word_end);
    if first.is_empty() {
        return false;
    }
    let space_end = rest.find(|c: char| !c.is_ascii_whitespace()).unwrap_or(rest.len());
    let (space, rest) = rest.split_at(space_end);
    let whole = space.is_empty() && rest.is_empty();
    if matches!(first, "in" | "out") {
        // `[in` at a word's end is a slot that was not quoted: its other words follow.
        return whole || !space.is_empty();
    }
    let second_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (second, rest) = rest.split_at(second_end);
    !space.is_empty()
        && matches!(second, "val" | "file")
        && rest.starts_with(|c: char| c.is_ascii_whitespace())
}

/// How a slot ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotEnd {
    /// With the bracket at this byte.
    Closed(usize),
    /// It does not: at this byte begins another bracket that cannot be its own.
    Broken(usize),
    /// It does not, and nothing else begins; whether a bracket of its type is open too.
    Open {
        /// `[in file m:float[n`.
        in_type: bool,
    },
}

/// How the slot ends whose content begins `after`. Behind the colon, brackets in pairs are those of
/// an array's type: `[in file m:float[][]]`.
pub(super) fn end_of_slot(after: &str) -> SlotEnd {
    let (mut depth, mut in_type) = (0_usize, false);
    for (at, byte) in after.bytes().enumerate() {
        match byte {
            b':' => in_type = true,
            b'[' if !in_type || begins_slot(&after[at + 1..]) => return SlotEnd::Broken(at),
            b'[' => depth += 1,
            b']' if depth == 0 => return SlotEnd::Closed(at),
            b']' => depth -= 1,
            _ => {}
        }
    }
    SlotEnd::Open { in_type: depth > 0 }
}

/// The text as it has to be written in front of `following`, which is written already.
pub(super) fn escaped(text: &str, following: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('[') {
        let run = rest[start..].bytes().take_while(|byte| *byte == b'[').count();
        let (before, after) = (&rest[..start], &rest[start + run..]);
        written.push_str(before);
        let slot_follows = if after.is_empty() {
            // The run would grow together with the bracket of a slot behind it.
            following.starts_with('[') || begins_slot(following)
        } else {
            begins_slot(&format!("{after}{following}"))
        };
        written.extend(std::iter::repeat_n('[', if slot_follows { 2 * run } else { run }));
        rest = after;
    }
    written.push_str(rest);
    written
}
