//! An array as it is read, in either form: elements within elements, whose numbers become bytes
//! while they come, or the bytes themselves as a file's.

use std::marker::PhantomData;
use std::mem;

use fishplate_contract::lexical::{self, shortened};
use fishplate_contract::{Array, ArrayType, DataType, Dimension, ElementType, Fault, FaultCode};

use super::collect::{MemoryBudget, PayloadCollector};
use super::reference;
use super::value::{BinaryBuilder, BinaryChild as WithinBinary};
use crate::envelope::{ArrayForm, MessageArray, ValueContent};
use crate::limits::{WireLimits, exceeded};
use crate::name::{XDESCR, XOP};
use crate::number::Number;
use crate::spool::SpoolSink;
use crate::xml::{RunHandler, RunNames, StartTag, is_space};

/// An array as it is read.
pub(super) struct ArrayBuilder {
    parameter: String,
    of: ArrayType,
    /// What the attribute `shape` says.
    stated: Option<Vec<u64>>,
    form: Option<ArrayForm>,
    pub(super) binary: BinaryBuilder,
    items: ItemReader,
    limits: ArrayLimits,
}

#[derive(Clone, Copy)]
struct ArrayLimits {
    text_size: usize,
    children: usize,
}

/// The numbers of the form of elements.
struct ItemReader {
    /// Elements of the array that are open.
    depth: usize,
    /// How many elements the open ones have so far, outermost first.
    counts: Vec<u64>,
    /// Lengths of the axes: what the first row told, and each further one has to have.
    lengths: Vec<Option<u64>>,
    /// Text of the number at hand.
    text: String,
    /// Bytes that wait to be passed on.
    bytes: Vec<u8>,
    collector: PayloadCollector,
}

/// Numbers are passed on in pieces of this many bytes.
const PIECE: usize = 64 << 10;

/// What an element within an array is.
pub(super) enum ArrayChild {
    Include,
    Value,
    EndpointReference,
    Item,
}

impl ArrayBuilder {
    /// The array that this tag begins.
    pub(super) fn new(
        parameter: &str,
        of: &ArrayType,
        tag: &StartTag<'_>,
        limits: &WireLimits,
    ) -> Result<Self, Fault> {
        let rank = of.rank();
        let mut array = Self {
            parameter: parameter.to_owned(),
            of: of.clone(),
            stated: None,
            form: None,
            binary: BinaryBuilder::new(parameter, false),
            items: ItemReader {
                depth: 0,
                counts: vec![0; rank],
                lengths: vec![None; rank],
                text: String::new(),
                bytes: Vec::new(),
                collector: PayloadCollector::default(),
            },
            limits: ArrayLimits { text_size: limits.text_size, children: limits.children },
        };
        if let Some(told) = tag.attribute("", "type") {
            array.check_type(told)?;
        }
        if let Some(told) = tag.attribute("", "shape") {
            array.stated = Some(array.shape(told)?);
        }
        if let Some(href) = tag.attribute("", "href") {
            array.form = Some(ArrayForm::Binary);
            array.binary.attach(href);
        }
        Ok(array)
    }

    fn check_type(&self, told: &str) -> Result<(), Fault> {
        let told = lexical::trimmed(told);
        let local = told.rsplit(':').next().unwrap_or(told);
        if ElementType::from_name(local) == Some(self.of.element) {
            return Ok(());
        }
        Err(self.invalid(format!("its attribute type says {:?}", shortened(told))))
    }

    fn shape(&self, told: &str) -> Result<Vec<u64>, Fault> {
        // How many rows of an array that was still being made, nobody could tell.
        let length = |(axis, told): (usize, &str)| match told {
            "*" if axis == 0 => Some(Array::UNKNOWN),
            told => told.parse().ok().filter(|length| *length != Array::UNKNOWN),
        };
        let lengths: Option<Vec<u64>> =
            told.split_ascii_whitespace().enumerate().map(length).collect();
        let shape = lengths.filter(|shape| shape.len() == self.of.rank());
        let shape = shape.ok_or_else(|| {
            let rank = self.of.rank();
            self.invalid(format!(
                "its attribute shape is {:?}, not the length of each of its {rank} dimensions",
                shortened(told)
            ))
        })?;
        self.check_empty(&shape)?;
        Ok(shape)
    }

    /// Rows without numbers take no bytes however many they are said to be: they count as the
    /// children that they are in the other form.
    fn check_empty(&self, shape: &[u64]) -> Result<(), Fault> {
        let Some(empty) = shape.iter().position(|length| *length == 0) else { return Ok(()) };
        let rows = shape[..empty].iter().fold(1u64, |rows, length| rows.saturating_mul(*length));
        let most = self.limits.children as u64;
        if rows > most { Err(exceeded("children", most, "in an element")) } else { Ok(()) }
    }

    fn invalid(&self, what: impl std::fmt::Display) -> Fault {
        let message = format!("parameter {} is of type {}: {what}", self.parameter, self.of);
        Fault::new(FaultCode::InvalidValue, message).parameter(&*self.parameter)
    }

    /// An element in the array.
    pub(super) fn start(&mut self, tag: &StartTag<'_>) -> Result<ArrayChild, Fault> {
        if self.form.is_none() && refers(tag) || self.form == Some(ArrayForm::Binary) {
            self.form = Some(ArrayForm::Binary);
            return match self.binary.start(tag)? {
                WithinBinary::Include => Ok(ArrayChild::Include),
                WithinBinary::Value => Ok(ArrayChild::Value),
                WithinBinary::EndpointReference => Ok(ArrayChild::EndpointReference),
                WithinBinary::XmlData => Err(self.invalid("XMLData is no array")),
            };
        }
        self.form = Some(ArrayForm::Elements);
        self.start_item(tag)?;
        Ok(ArrayChild::Item)
    }

    fn start_item(&mut self, tag: &StartTag<'_>) -> Result<(), Fault> {
        let items = &mut self.items;
        if items.depth == self.of.rank() {
            let what = format!("{} holds the element {}, not a number", self.place(), tag.name());
            return Err(self.invalid(what));
        }
        items.counts[items.depth] += 1;
        items.depth += 1;
        match items.counts.get_mut(items.depth) {
            Some(count) => *count = 0,
            None => items.text.clear(),
        }
        if tag.is_nil() {
            return Err(self.invalid(format!("{} is nil", self.place())));
        }
        Ok(())
    }

    /// The element of the array begun last has ended.
    pub(super) fn end_item(
        &mut self,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        if self.items.depth == self.of.rank() {
            if !self.of.element.parse(self.items.text.as_bytes(), &mut self.items.bytes) {
                return Err(self.no_number(&self.items.text));
            }
            self.items.pass_on(budget, sink);
        } else {
            self.end_row(self.items.depth)?;
        }
        self.items.depth -= 1;
        Ok(())
    }

    /// The row whose elements stand at that depth has ended.
    fn end_row(&mut self, depth: usize) -> Result<(), Fault> {
        let length = self.items.counts[depth];
        let expected = *self.items.lengths[depth].get_or_insert(length);
        if expected == length {
            return Ok(());
        }
        Err(self.invalid(format!(
            "{} has {length} items, where the first has {expected}",
            self.place_at(depth)
        )))
    }

    fn no_number(&self, text: &str) -> Fault {
        let scalar = match self.of.element {
            ElementType::Int => DataType::Int,
            ElementType::Long => DataType::Long,
            ElementType::Float => DataType::Float,
            ElementType::Double => DataType::Double,
        };
        let text = lexical::trimmed(text);
        let expected = lexical::check(&scalar, text).err().unwrap_or("a number");
        self.invalid(format!("{}: {:?} is not {expected}", self.place(), shortened(text)))
    }

    /// Where we are, counted from one.
    fn place(&self) -> String {
        self.place_at(self.items.depth)
    }

    fn place_at(&self, depth: usize) -> String {
        match &self.items.counts[..depth] {
            [] => "it".to_owned(),
            [row] if self.of.rank() == 2 => format!("row {row}"),
            [row, column] if self.of.rank() == 2 => format!("row {row}, column {column}"),
            counts => {
                let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
                format!("item {}", counts.join(", "))
            }
        }
    }

    /// Text in the element of the array begun last, or in its own.
    pub(super) fn text(
        &mut self,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<(), Fault> {
        if self.items.depth == self.of.rank() {
            if self.items.text.len() + text.len() > self.limits.text_size {
                return Err(exceeded("text_size", self.limits.text_size as u64, "bytes"));
            }
            self.items.text.push_str(text);
            return Ok(());
        }
        if self.form == Some(ArrayForm::Binary) {
            return self.binary.text(text, budget, sink);
        }
        if text.bytes().all(is_space) {
            return Ok(());
        }
        if self.form.is_none() {
            self.form = Some(ArrayForm::Binary);
            return self.binary.text(text, budget, sink);
        }
        let told = shortened(lexical::trimmed(text));
        Err(self.invalid(format!("{} holds the text {told:?}, not elements", self.place())))
    }

    /// Whether elements that hold numbers may stand here.
    pub(super) fn takes_runs(&self) -> bool {
        self.form == Some(ArrayForm::Elements) && self.items.depth + 1 == self.of.rank()
    }

    /// Reads the run of numbers that the text begins with.
    pub(super) fn run(
        &mut self,
        run: &RunNames<'_>,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<usize, Fault> {
        match self.of.element {
            ElementType::Int => self.run_of::<i32>(run, text, budget, sink),
            ElementType::Long => self.run_of::<i64>(run, text, budget, sink),
            ElementType::Float => self.run_of::<f32>(run, text, budget, sink),
            ElementType::Double => self.run_of::<f64>(run, text, budget, sink),
        }
    }

    fn run_of<N: Number>(
        &mut self,
        run: &RunNames<'_>,
        text: &str,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<usize, Fault> {
        let inner = self.of.rank() - 1;
        let bytes = mem::take(&mut self.items.bytes);
        let column = self.items.counts[inner];
        let mut numbers =
            RunNumbers::<N> { array: self, column, bytes, budget, sink, number: PhantomData };
        let read = run.read(text.as_bytes(), inner, &mut numbers);
        let RunNumbers { column, bytes, .. } = numbers;
        self.items.bytes = bytes;
        self.items.counts[inner] = column;
        read
    }

    /// The array has ended.
    pub(super) fn finish(
        mut self,
        budget: &mut MemoryBudget,
        sink: &mut dyn SpoolSink,
    ) -> Result<MessageArray, Fault> {
        let element = self.of.element;
        let form = self.form.unwrap_or(match self.stated {
            Some(_) => ArrayForm::Binary,
            None => ArrayForm::Elements,
        });
        if form == ArrayForm::Binary {
            let data = Box::new(self.binary.finish(budget, sink)?);
            return Ok(MessageArray { element, shape: self.stated, data, form, names: Vec::new() });
        }
        self.end_row(0)?;
        let lengths = self.items.lengths.iter().zip(&self.of.dimensions);
        let shape: Vec<u64> = lengths
            .map(|(length, dimension)| match (length, dimension) {
                (Some(length), _) => *length,
                (None, Dimension::Fixed(length)) => *length,
                (None, _) => 0,
            })
            .collect();
        if let Some(stated) = self.stated.take().filter(|stated| *stated != shape) {
            return Err(self.invalid(format!(
                "its elements are {}, where its attribute shape says {}",
                Array::shape_text(&shape),
                Array::shape_text(&stated)
            )));
        }
        self.check_empty(&shape)?;
        let mut items = self.items;
        items.flush(budget, sink);
        let data = Box::new(ValueContent::Data(items.collector.finish(budget, sink)));
        Ok(MessageArray { element, shape: Some(shape), data, form, names: Vec::new() })
    }
}

/// Whether this tag begins what stands for an array's bytes rather than one of its elements.
fn refers(tag: &StartTag<'_>) -> bool {
    tag.is(XOP, "Include") || tag.namespace == XDESCR || reference::begins(tag)
}

/// Numbers of a run.
struct RunNumbers<'a, N> {
    array: &'a mut ArrayBuilder,
    /// How many numbers the row at hand has so far.
    column: u64,
    bytes: Vec<u8>,
    budget: &'a mut MemoryBudget,
    sink: &'a mut dyn SpoolSink,
    number: PhantomData<N>,
}

impl<N: Number> RunHandler for RunNumbers<'_, N> {
    type LeafText = N;

    #[inline]
    fn begin(text: &[u8]) -> Option<(N, usize)> {
        N::begin(text)
    }

    #[inline]
    fn take(&mut self, number: N) {
        self.column += 1;
        number.push(&mut self.bytes);
        if self.bytes.len() >= PIECE {
            let bytes = mem::replace(&mut self.bytes, Vec::with_capacity(PIECE));
            self.array.items.collector.push_own(bytes, self.budget, self.sink);
        }
    }

    fn turn(&mut self, rows: usize) -> Result<(), Fault> {
        let inner = self.array.of.rank() - 1;
        self.array.items.counts[inner] = mem::take(&mut self.column);
        for depth in (inner + 1 - rows..=inner).rev() {
            self.array.end_row(depth)?;
        }
        for depth in inner - rows..inner {
            self.array.items.counts[depth] += 1;
            self.array.items.counts[depth + 1] = 0;
        }
        Ok(())
    }
}

impl ItemReader {
    /// Passes the bytes on if there are enough.
    fn pass_on(&mut self, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        if self.bytes.len() >= PIECE {
            self.flush(budget, sink);
            self.bytes.reserve_exact(PIECE);
        }
    }

    fn flush(&mut self, budget: &mut MemoryBudget, sink: &mut dyn SpoolSink) {
        let bytes = mem::take(&mut self.bytes);
        self.collector.push_own(bytes, budget, sink);
    }
}
