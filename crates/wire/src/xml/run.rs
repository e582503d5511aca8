//! Runs of plain elements: `<item>1.5</item><item>2</item>`, a million times over. They are read
//! without a token for each; on anything else the tokenizer goes on as always.
//!
//! A run follows an element that was read in full. So its name is known to be good and its prefix
//! to be declared, as it is for each sibling with the same name and no attributes. The same holds
//! for the rows around it: one may end and a plain one of the same name begin, if it declared no
//! namespaces.

use fishplate_contract::Fault;

use super::is_space;

/// Names of the elements that a run may consist of.
#[derive(Debug)]
pub struct RunNames<'a> {
    /// The element that ended last.
    pub(super) leaf: &'a str,
    /// The elements around it that may end and begin anew, innermost first.
    pub(super) rows: Vec<&'a str>,
}

/// Takes the elements of a run.
pub(crate) trait RunHandler {
    /// What an element's text comes to.
    type LeafText;

    /// Reads what the text of an element begins with; gives its length. `None` leaves the element
    /// to the tokenizer.
    fn begin(text: &[u8]) -> Option<(Self::LeafText, usize)>;

    /// The element is whole.
    fn take(&mut self, leaf: Self::LeafText);

    /// So many of the elements around ended and began anew. What is refused ends the reading.
    fn turn(&mut self, rows: usize) -> Result<(), Fault>;
}

/// A text of a run that is longer is left to the tokenizer, which knows its limits.
const LONGEST: usize = 64;

impl RunNames<'_> {
    /// Reads as much of the text as is a run; gives the length of that. At most `rows` of the
    /// elements around end.
    pub(crate) fn read<L: RunHandler>(
        &self,
        text: &[u8],
        rows: usize,
        leaves: &mut L,
    ) -> Result<usize, Fault> {
        let tags = RunTags::new(self, rows);
        let mut read = 0;
        let mut next = tags.next(text, 0);
        while let Some(NextText { mut at, turned }) = next {
            next = loop {
                let begun = L::begin(&text[at..]).map(|(leaf, len)| (leaf, at + len));
                let Some((leaf, end)) = begun.or_else(|| begin_spaced::<L>(text, at)) else {
                    break None;
                };
                if end - at <= LONGEST && turned == 0 && tags.between.is_at(text, end) {
                    leaves.take(leaf);
                    read = end + tags.close.len();
                    at = end + tags.between.len();
                    continue;
                }
                let Some(end) = tags.end(text, at, end) else { break None };
                // Not before the first element of the new row is whole.
                if turned > 0 {
                    leaves.turn(turned)?;
                }
                leaves.take(leaf);
                read = end;
                break tags.next(text, end);
            };
        }
        Ok(read)
    }
}

/// The tags of a run.
struct RunTags {
    open: ShortTag,
    close: ShortTag,
    /// The end of an element and the start of the next.
    between: ShortTag,
    /// End and start tags of the rows, innermost first.
    rows: Vec<(ShortTag, ShortTag)>,
}

/// Where the text of the next element begins.
struct NextText {
    at: usize,
    /// How many of the elements around ended and began anew before it.
    turned: usize,
}

impl RunTags {
    fn new(run: &RunNames<'_>, rows: usize) -> Self {
        let pair = |name: &str| (format!("</{name}>"), format!("<{name}>"));
        let (close, open) = pair(run.leaf);
        let rows: Vec<_> = run.rows.iter().take(rows).map(|name| pair(name)).collect();
        Self {
            between: ShortTag::new(&format!("{close}{open}")),
            open: ShortTag::new(&open),
            close: ShortTag::new(&close),
            rows: rows
                .iter()
                .map(|(end, start)| (ShortTag::new(end), ShortTag::new(start)))
                .collect(),
        }
    }

    /// The next element, behind one or at the start of the run.
    fn next(&self, text: &[u8], at: usize) -> Option<NextText> {
        let mut at = skip_space(text, at);
        let mut turned = 0;
        while let Some((end, _)) = self.rows.get(turned)
            && end.is_at(text, at)
        {
            at = skip_space(text, at + end.len());
            turned += 1;
        }
        for (_, start) in self.rows[..turned].iter().rev() {
            if !start.is_at(text, at) {
                return None;
            }
            at = skip_space(text, at + start.len());
        }
        self.open.is_at(text, at).then(|| NextText { at: at + self.open.len(), turned })
    }

    /// Where the element ends, white space behind its content passed over.
    fn end(&self, text: &[u8], content: usize, end: usize) -> Option<usize> {
        let end = skip_space(text, end);
        (end - content <= LONGEST && self.close.is_at(text, end)).then(|| end + self.close.len())
    }
}

/// Reads content with white space before it.
#[cold]
fn begin_spaced<L: RunHandler>(text: &[u8], at: usize) -> Option<(L::LeafText, usize)> {
    let content = skip_space(text, at);
    if content == at {
        return None;
    }
    L::begin(&text[content..]).map(|(leaf, len)| (leaf, content + len))
}

#[inline]
fn skip_space(text: &[u8], at: usize) -> usize {
    let space = text[at..].iter().position(|byte| !is_space(*byte));
    space.map_or(text.len(), |len| at + len)
}

/// A text that is looked for in one step if it is short.
struct ShortTag {
    text: Box<[u8]>,
    /// Its bytes as a number, and which of them count; 0 if it is too long.
    word: u128,
    mask: u128,
}

const WORD: usize = size_of::<u128>();

impl ShortTag {
    fn new(text: &str) -> Self {
        let text: Box<[u8]> = text.as_bytes().into();
        let (mut word, mut mask) = ([0; WORD], [0; WORD]);
        if let (Some(word), Some(mask)) = (word.get_mut(..text.len()), mask.get_mut(..text.len())) {
            word.copy_from_slice(&text);
            mask.fill(0xFF);
        }
        Self { text, word: u128::from_le_bytes(word), mask: u128::from_le_bytes(mask) }
    }

    fn len(&self) -> usize {
        self.text.len()
    }

    #[inline]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        match text.get(at..).and_then(|rest| rest.first_chunk::<WORD>()) {
            Some(chunk) if self.mask != 0 => u128::from_le_bytes(*chunk) & self.mask == self.word,
            _ => text.get(at..).is_some_and(|rest| rest.starts_with(&self.text)),
        }
    }
}
