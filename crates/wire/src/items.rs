//! An array as elements: its bytes to text, piece by piece. The text is never whole in memory.

use std::sync::Arc;

use fishplate_contract::Element;

use crate::number::{Number, width};

/// How the numbers of an array stand in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    element: Element,
    shape: Vec<u64>,
    /// Names of the elements, outermost first: one for each axis.
    names: Vec<String>,
}

/// Name of the elements, unless a description gives others.
const ITEM: &str = "item";

impl Items {
    /// Elements for an array of this shape; their names, outermost first, are `item` beyond those
    /// that are given.
    pub fn new(element: Element, shape: &[u64], names: &[String]) -> Self {
        let name = |axis| names.get(axis).cloned().unwrap_or_else(|| ITEM.to_owned());
        Self { element, shape: shape.to_vec(), names: (0..shape.len()).map(name).collect() }
    }

    /// The axes that elements stand for, outermost first: those before one of no length.
    fn axes(&self) -> &[u64] {
        let empty = self.shape.iter().position(|length| *length == 0);
        &self.shape[..empty.unwrap_or(self.shape.len())]
    }

    /// Most bytes that the text of the array takes.
    pub(crate) fn most(&self) -> u64 {
        let mut elements = 1u64;
        let mut most = 0u64;
        for (length, name) in self.axes().iter().zip(&self.names) {
            elements = elements.saturating_mul(*length);
            most = most.saturating_add(
                elements.saturating_mul("<></>".len() as u64 + 2 * name.len() as u64),
            );
        }
        most.saturating_add(elements.saturating_mul(width(self.element) as u64))
    }

    /// How many bytes of the array become about as many of text.
    pub(crate) fn bytes_for(&self, text: usize) -> usize {
        let tags = self.names.last().map_or(0, |name| 2 * name.len() + "<></>".len());
        (text / (tags + width(self.element) / 2)).max(1) * self.element.size()
    }
}

/// Makes the text.
#[derive(Debug)]
pub struct ItemsEncoder {
    items: Arc<Items>,
    /// What stands between two numbers, by the number of axes that end there.
    between: Vec<Vec<u8>>,
    /// What stands before the next number: `between` that index, or the start of all.
    before: Option<usize>,
    /// Place of the next number.
    place: Vec<u64>,
    /// Bytes of a number that was cut.
    cut: Vec<u8>,
    /// Elements without numbers that are still to be written.
    empty: u64,
}

impl ItemsEncoder {
    pub(crate) fn new(items: Arc<Items>) -> Self {
        let axes = items.axes();
        let names = &items.names[..axes.len()];
        let between = (0..axes.len())
            .map(|ended| {
                let inner = names[axes.len() - 1 - ended..].iter();
                let closing = inner.clone().rev().map(|name| format!("</{name}>"));
                let opening = inner.map(|name| format!("<{name}>"));
                closing.chain(opening).collect::<String>().into_bytes()
            })
            .collect();
        let numbers = axes.len() == items.shape.len();
        let empty = if numbers || axes.is_empty() { 0 } else { axes.iter().product() };
        let place = vec![0; axes.len()];
        Self { between, before: None, place, cut: Vec::new(), empty, items }
    }

    /// Appends the text of these bytes; a number that is cut waits for the rest.
    pub(crate) fn encode(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        match self.items.element {
            Element::Int => self.encode_all::<i32>(bytes, to),
            Element::Long => self.encode_all::<i64>(bytes, to),
            Element::Float => self.encode_all::<f32>(bytes, to),
            Element::Double => self.encode_all::<f64>(bytes, to),
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
            self.encode_row::<N>(&cut, to);
        }
        let (mut whole, rest) = bytes.split_at(bytes.len() - bytes.len() % N::SIZE);
        while !whole.is_empty() {
            let left = self.left_in_row().saturating_mul(N::SIZE as u64);
            let (row, after) =
                whole.split_at(usize::try_from(left).unwrap_or(whole.len()).min(whole.len()));
            self.encode_row::<N>(row, to);
            whole = after;
        }
        self.cut.extend_from_slice(rest);
    }

    /// Numbers of the row at hand that are still to come, at least one.
    fn left_in_row(&self) -> u64 {
        match (self.items.axes().last(), self.place.last()) {
            (Some(length), Some(place)) => length.saturating_sub(*place).max(1),
            _ => 1,
        }
    }

    /// Appends numbers of one row.
    fn encode_row<N: Number>(&mut self, row: &[u8], to: &mut Vec<u8>) {
        self.begin(to);
        let between = &self.between[0];
        to.reserve(row.len() / N::SIZE * (N::WIDTH + between.len()));
        let mut numbers = row.chunks_exact(N::SIZE);
        if let Some(first) = numbers.next() {
            N::of(first).print(to);
        }
        for number in numbers {
            to.extend_from_slice(between);
            N::of(number).print(to);
        }
        self.advance((row.len() / N::SIZE) as u64);
    }

    /// Appends what stands before the next number.
    fn begin(&self, to: &mut Vec<u8>) {
        match self.before.and_then(|ended| self.between.get(ended)) {
            Some(between) => to.extend_from_slice(between),
            None => {
                for name in &self.items.names[..self.place.len()] {
                    to.push(b'<');
                    to.extend_from_slice(name.as_bytes());
                    to.push(b'>');
                }
            }
        }
    }

    /// So many numbers of a row were written.
    fn advance(&mut self, numbers: u64) {
        let mut ended = 0;
        let mut by = numbers;
        for (place, length) in self.place.iter_mut().zip(self.items.axes()).rev() {
            *place += by;
            if *place < *length {
                break;
            }
            *place = 0;
            by = 1;
            ended += 1;
        }
        // Behind the last number the array is at its start again; nothing follows there.
        self.before = Some(ended.min(self.between.len() - 1));
    }

    /// Appends what is left, now that there are no more bytes; about as many as `wanted` at once.
    /// Tells whether that was all.
    pub(crate) fn finish(&mut self, wanted: usize, to: &mut Vec<u8>) -> bool {
        let from = to.len();
        while self.empty > 0 {
            if to.len() - from >= wanted {
                return false;
            }
            self.begin(to);
            self.advance(1);
            self.empty -= 1;
        }
        if self.before.is_some() {
            for name in self.items.names[..self.place.len()].iter().rev() {
                to.extend_from_slice(b"</");
                to.extend_from_slice(name.as_bytes());
                to.push(b'>');
            }
            self.before = None;
            // What was ended does not begin again.
            self.between.clear();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: &[u64], cuts: usize) -> String {
        let count: u64 = shape.iter().product();
        let bytes: Vec<u8> =
            (0..i32::try_from(count).unwrap()).flat_map(i32::to_le_bytes).collect();
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut encoder = ItemsEncoder::new(Arc::new(Items::new(Element::Int, shape, &names)));
        let mut text = Vec::new();
        for piece in bytes.chunks(cuts) {
            encoder.encode(piece, &mut text);
        }
        while !encoder.finish(5, &mut text) {}
        assert!(encoder.finish(5, &mut text));
        assert!(text.len() as u64 <= Items::new(Element::Int, shape, &names).most());
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
}
