//! An array as elements, or as lists of JSON: its bytes to text, piece by piece. The text is never whole in memory.

use std::sync::Arc;

use fishplate_contract::{Array, ElementType};

use crate::number::{Buffer, Number, width};

/// How the numbers of an array stand in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemFormat {
    element: ElementType,
    shape: Vec<u64>,
    markup: Markup,
}

/// What stands around numbers and rows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Markup {
    /// Elements of these names, outermost first: one for each axis.
    Elements(Vec<String>),
    /// Lists within lists (RFC 8259). What is no number there is a string: `"NaN"`.
    Json,
}

/// Name of the elements, unless a description gives others.
const ITEM: &str = "item";

impl ItemFormat {
    /// Elements for an array of this shape; their names, outermost first, are `item` beyond those
    /// that are given.
    pub fn new(element: ElementType, shape: &[u64], names: &[String]) -> Self {
        let name = |axis| names.get(axis).cloned().unwrap_or_else(|| ITEM.to_owned());
        let markup = Markup::Elements((0..shape.len()).map(name).collect());
        Self { element, shape: shape.to_vec(), markup }
    }

    /// Lists of JSON for an array of this shape.
    pub fn json(element: ElementType, shape: &[u64]) -> Self {
        Self { element, shape: shape.to_vec(), markup: Markup::Json }
    }

    /// The axes that elements stand for, outermost first: those before one of no length.
    fn axes(&self) -> &[u64] {
        let empty = self.shape.iter().position(|length| *length == 0);
        &self.shape[..empty.unwrap_or(self.shape.len())]
    }

    /// Most bytes that the text of the array takes.
    pub(crate) fn most(&self) -> u64 {
        let mut elements = 1u64;
        let mut most = "[]".len() as u64;
        for (axis, length) in self.axes().iter().enumerate() {
            elements = elements.saturating_mul(*length);
            most = most.saturating_add(elements.saturating_mul(self.markup.width(axis) as u64));
        }
        most.saturating_add(elements.saturating_mul(width(self.element) as u64))
    }

    /// What stands before the first number, and behind the last.
    fn around(&self) -> (String, String) {
        let axes = self.axes().len();
        match &self.markup {
            Markup::Elements(names) => (opening(&names[..axes]), closing(&names[..axes])),
            Markup::Json => {
                let lists = axes + self.is_empty();
                ("[".repeat(lists), "]".repeat(lists))
            }
        }
    }

    /// What stands between two numbers where so many axes end.
    fn between(&self, ended: usize) -> String {
        let axes = self.axes().len();
        match &self.markup {
            Markup::Elements(names) => {
                let inner = &names[axes - 1 - ended..axes];
                closing(inner) + &opening(inner)
            }
            Markup::Json => {
                let lists = ended + self.is_empty();
                format!("{},{}", "]".repeat(lists), "[".repeat(lists))
            }
        }
    }

    /// 1 if it has no numbers: then its innermost lists are empty ones.
    fn is_empty(&self) -> usize {
        usize::from(self.shape.contains(&0))
    }

    /// How many bytes of the array become about as many of text.
    pub(crate) fn bytes_for(&self, text: usize) -> usize {
        let tags = self.shape.len().checked_sub(1).map_or(0, |last| self.markup.width(last));
        (text / (tags + width(self.element) / 2)).max(1) * self.element.size()
    }
}

fn opening(names: &[String]) -> String {
    names.iter().map(|name| format!("<{name}>")).collect()
}

fn closing(names: &[String]) -> String {
    names.iter().rev().map(|name| format!("</{name}>")).collect()
}

impl Markup {
    /// Most bytes around a number or row of an axis.
    fn width(&self, axis: usize) -> usize {
        match self {
            Self::Elements(names) => "<></>".len() + 2 * names.get(axis).map_or(0, String::len),
            Self::Json => "\"\",[]".len(),
        }
    }
}

/// Makes the text.
#[derive(Debug)]
pub struct ItemsEncoder {
    items: Arc<ItemFormat>,
    /// What stands between two numbers, by the number of axes that end there.
    between: Vec<FixedTags>,
    /// What stands before the first number, and behind the last.
    around: (FixedTags, FixedTags),
    /// What stands before the next number: the start of all, or `between` that index.
    before: Option<usize>,
    /// Place of the next number.
    place: Vec<u64>,
    /// Bytes of a number that was cut.
    cut: Vec<u8>,
    /// Elements without numbers that are still to be written.
    empty: u64,
    ended: bool,
    block: TextBlock,
}

impl ItemsEncoder {
    pub(crate) fn new(items: Arc<ItemFormat>) -> Self {
        let axes = items.axes();
        let between: Vec<FixedTags> =
            (0..axes.len()).map(|ended| FixedTags::new(&items.between(ended))).collect();
        let (first, last) = items.around();
        let around = (FixedTags::new(&first), FixedTags::new(&last));
        let empty = Array::empty_rows(&items.shape);
        let place = vec![0; axes.len()];
        let block = TextBlock::new(between.last().map_or(0, |tags| tags.len));
        let cut = Vec::new();
        Self { between, around, before: None, place, cut, empty, ended: false, block, items }
    }

    /// Appends the text of these bytes; a number that is cut waits for the rest.
    pub(crate) fn encode(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        match self.items.element {
            ElementType::Int => self.encode_all::<i32>(bytes, to),
            ElementType::Long => self.encode_all::<i64>(bytes, to),
            ElementType::Float => self.encode_all::<f32>(bytes, to),
            ElementType::Double => self.encode_all::<f64>(bytes, to),
        }
    }

    fn encode_all<N: Number>(&mut self, mut bytes: &[u8], to: &mut Vec<u8>) {
        if self.between.is_empty() {
            return;
        }
        if !self.cut.is_empty() {
            let take = (N::SIZE - self.cut.len()).min(bytes.len());
            self.cut.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.cut.len() < N::SIZE {
                return;
            }
            let cut = std::mem::take(&mut self.cut);
            self.encode_whole::<N>(&cut, to);
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % N::SIZE);
        to.reserve(whole.len() / N::SIZE * (N::WIDTH + self.between[0].len));
        self.encode_whole::<N>(whole, to);
        self.cut.extend_from_slice(rest);
    }

    fn encode_whole<N: Number>(&mut self, numbers: &[u8], to: &mut Vec<u8>) {
        let mut buffer = Buffer::new();
        let row = self.items.axes().last().copied().unwrap_or_default();
        let mut column = self.place.last().copied().unwrap_or_default();
        let mut before = self.before;
        let quotes = self.items.markup == Markup::Json;
        let mut block = std::mem::take(&mut self.block);
        for number in numbers.chunks_exact(N::SIZE) {
            block.push_tags(self.tags_before(before));
            let text = N::of(number).text(&mut buffer);
            // NaN and INF.
            let quote = quotes && text.last().is_some_and(u8::is_ascii_alphabetic);
            if quote {
                block.push(b"\"");
            }
            block.push(text);
            if quote {
                block.push(b"\"");
            }
            block.flush_if_full(to);
            column += 1;
            before = Some(0);
            if column >= row {
                column = 0;
                before = Some(self.end_row());
            }
        }
        self.before = before;
        if let Some(last) = self.place.last_mut() {
            *last = column;
        }
        block.flush(to);
        self.block = block;
    }

    fn tags_before(&self, before: Option<usize>) -> &FixedTags {
        before.and_then(|ended| self.between.get(ended)).unwrap_or(&self.around.0)
    }

    /// A row has ended; tells how many axes have.
    fn end_row(&mut self) -> usize {
        let mut ended = 1;
        for (place, length) in self.place.iter_mut().zip(self.items.axes()).rev().skip(1) {
            *place += 1;
            if *place < *length {
                break;
            }
            *place = 0;
            ended += 1;
        }
        // Behind the last number there is nothing.
        ended.min(self.between.len() - 1)
    }

    /// It ends within a number or a row, or before the last row.
    pub(crate) fn is_cut(&self) -> bool {
        let rows = self.items.axes().first().copied().unwrap_or_default();
        let missing = match (self.place.split_first(), rows) {
            (None, _) => false,
            (Some((_, within)), Array::UNKNOWN) => within.iter().any(|place| *place > 0),
            (Some(_), _) => self.before.is_none() || self.place.iter().any(|place| *place > 0),
        };
        missing || !self.cut.is_empty()
    }

    /// Appends what is left, now that there are no more bytes; about as many as `wanted` at once.
    /// Tells whether that was all.
    pub(crate) fn finish(&mut self, wanted: usize, to: &mut Vec<u8>) -> bool {
        let from = to.len();
        while self.empty > 0 {
            if to.len() - from >= wanted {
                return false;
            }
            self.tags_before(self.before).append(to);
            self.empty -= 1;
            let (Some(column), Some(row)) = (self.place.last_mut(), self.items.axes().last())
            else {
                break;
            };
            *column += 1;
            self.before = Some(0);
            if *column >= *row {
                *column = 0;
                self.before = Some(self.end_row());
            }
        }
        match (self.before, &self.items.markup) {
            _ if self.ended => {}
            (Some(_), _) => self.around.1.append(to),
            (None, Markup::Json) => to.extend_from_slice(b"[]"),
            (None, Markup::Elements(_)) => {}
        }
        self.ended = true;
        true
    }
}

/// Tags that are written in steps of a fixed length, because that is much faster.
#[derive(Debug)]
struct FixedTags {
    steps: Vec<[u8; STEP]>,
    len: usize,
}

const STEP: usize = 16;

impl FixedTags {
    fn new(text: &str) -> Self {
        let step = |chunk: &[u8]| {
            let mut step = [0; STEP];
            step[..chunk.len()].copy_from_slice(chunk);
            step
        };
        Self { steps: text.as_bytes().chunks(STEP).map(step).collect(), len: text.len() }
    }

    fn append(&self, to: &mut Vec<u8>) {
        let end = to.len() + self.len;
        self.steps.iter().for_each(|step| to.extend_from_slice(step));
        to.truncate(end);
    }
}

/// Text that is written in steps of a fixed length, behind the end of which there is always room.
#[derive(Default)]
struct TextBlock {
    bytes: Vec<u8>,
    len: usize,
    /// Beyond this length it is full.
    full: usize,
}

impl std::fmt::Debug for TextBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Bytes of a block, if tags are short.
const BLOCK: usize = 4 << 10;

/// The longest number, and what steps write beyond its end or that of tags.
const SLACK: usize = 64;

impl TextBlock {
    /// A block for numbers with tags of at most so many bytes before each.
    fn new(tags: usize) -> Self {
        let room = tags + SLACK;
        let full = BLOCK.max(2 * room);
        Self { bytes: vec![0; full + room], len: 0, full }
    }

    #[inline]
    fn push_tags(&mut self, tags: &FixedTags) {
        let mut at = self.len;
        for step in &tags.steps {
            if let Some(to) = self.bytes.get_mut(at..).and_then(|to| to.first_chunk_mut()) {
                *to = *step;
            }
            at += STEP;
        }
        self.len += tags.len;
    }

    /// Appends the text of a number.
    #[inline]
    fn push(&mut self, text: &[u8]) {
        let to = &mut self.bytes[self.len..][..text.len()];
        self.len += text.len();
        // Two copies of a fixed length that may overlap are faster than one whose length varies.
        match (text.len(), text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (8..=16, Some(first), Some(last)) => {
                if let Some(to) = to.first_chunk_mut() {
                    *to = *first;
                }
                if let Some(to) = to.last_chunk_mut() {
                    *to = *last;
                }
            }
            _ => to.copy_from_slice(text),
        }
    }

    #[inline]
    fn flush_if_full(&mut self, to: &mut Vec<u8>) {
        if self.len > self.full {
            self.flush(to);
        }
    }

    fn flush(&mut self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.bytes[..self.len]);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: &[u64], cuts: usize) -> String {
        let names = ["a", "b", "c"].map(str::to_owned);
        written(&ItemFormat::new(ElementType::Int, shape, &names), cuts)
    }

    fn written(format: &ItemFormat, cuts: usize) -> String {
        let count: u64 = format.shape.iter().product();
        let bytes: Vec<u8> =
            (0..i32::try_from(count).unwrap()).flat_map(i32::to_le_bytes).collect();
        let mut encoder = ItemsEncoder::new(Arc::new(format.clone()));
        let mut text = Vec::new();
        for piece in bytes.chunks(cuts) {
            encoder.encode(piece, &mut text);
        }
        while !encoder.finish(5, &mut text) {}
        assert!(encoder.finish(5, &mut text));
        assert!(text.len() as u64 <= format.most());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn rows_are_elements_around_their_numbers() {
        for (shape, expected) in [
            (&[3][..], "<a>0</a><a>1</a><a>2</a>"),
            (&[2, 2], "<a><b>0</b><b>1</b></a><a><b>2</b><b>3</b></a>"),
            (&[1, 2, 1], "<a><b><c>0</c></b><b><c>1</c></b></a>"),
            (&[2, 1, 2], "<a><b><c>0</c><c>1</c></b></a><a><b><c>2</c><c>3</c></b></a>"),
            (&[0], ""),
            (&[0, 3], ""),
            (&[2, 0], "<a></a><a></a>"),
            (&[2, 2, 0], "<a><b></b><b></b></a><a><b></b><b></b></a>"),
            (&[2, 0, 2], "<a></a><a></a>"),
        ] {
            for cuts in [1, 3, 4, 6, 1000] {
                assert_eq!(text(shape, cuts), expected, "{shape:?} {cuts}");
            }
        }
    }

    #[test]
    fn rows_are_lists_of_json() {
        for (shape, expected) in [
            (&[3][..], "[0,1,2]"),
            (&[2, 2], "[[0,1],[2,3]]"),
            (&[2, 1, 2], "[[[0,1]],[[2,3]]]"),
            (&[0], "[]"),
            (&[0, 3], "[]"),
            (&[2, 0], "[[],[]]"),
            (&[2, 2, 0], "[[[],[]],[[],[]]]"),
            (&[2, 0, 2], "[[],[]]"),
        ] {
            for cuts in [1, 4, 6, 1000] {
                let text = written(&ItemFormat::json(ElementType::Int, shape), cuts);
                assert_eq!(text, expected, "{shape:?} {cuts}");
            }
        }
        let numbers = [f32::NAN, 0.5, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        let items = ItemFormat::json(ElementType::Float, &[Array::UNKNOWN]);
        let mut text = Vec::new();
        let mut encoder = ItemsEncoder::new(Arc::new(items.clone()));
        encoder.encode(&numbers, &mut text);
        assert!(encoder.finish(5, &mut text) && !encoder.is_cut());
        assert_eq!(text, b"[\"NaN\",0.5,\"-INF\"]");
        let mut nothing = Vec::new();
        assert!(ItemsEncoder::new(Arc::new(items)).finish(5, &mut nothing));
        assert_eq!(nothing, b"[]");
    }

    #[test]
    fn rows_beyond_all_counting_are_written_piece_by_piece_too() {
        let items = ItemFormat::new(ElementType::Int, &[1 << 40, 1 << 40, 0], &[]);
        assert_eq!(items.most(), u64::MAX);
        let mut text = Vec::new();
        assert!(!ItemsEncoder::new(Arc::new(items)).finish(30, &mut text));
        assert_eq!(text, b"<item><item></item><item></item><item>");
    }
}
