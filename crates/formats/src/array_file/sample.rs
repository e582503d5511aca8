//! What an array looks like, from a bounded part of its bytes: of many numbers some, evenly spaced.

use std::io;

use fishplate_contract::{ElementType, Payload};

use super::npy::{Dtype, NpyHeader};
use super::source::{ByteSource, CHUNK};

/// Points of a curve, at most.
pub const CURVE_POINTS: u64 = 480;

/// Rows of a grid, and columns, at most.
pub const GRID_SIDE: u64 = 256;

/// Where the numbers of an array are in the bytes that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayLayout {
    /// Their type.
    pub dtype: Dtype,
    /// Lengths of the axes, slowest index of the array first.
    pub shape: Vec<u64>,
    /// The first index runs fastest.
    pub fortran_order: bool,
    /// Where the first number begins.
    pub offset: u64,
}

impl ArrayLayout {
    /// That of an array whose bytes are its elements and nothing else.
    pub fn plain(element: ElementType, shape: &[u64]) -> Self {
        Self { dtype: Dtype::of(element), shape: shape.to_vec(), fortran_order: false, offset: 0 }
    }

    /// How many numbers there are; `None` if they can't be counted.
    pub fn count(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |count, length| count.checked_mul(*length))
    }

    /// Numbers from one to the next along each axis.
    fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.shape.len()];
        let mut stride = 1_u64;
        let mut set = |axis: usize| {
            strides[axis] = stride;
            stride = stride.saturating_mul(self.shape[axis]);
        };
        if self.fortran_order {
            (0..self.shape.len()).for_each(&mut set);
        } else {
            (0..self.shape.len()).rev().for_each(&mut set);
        }
        strides
    }
}

impl From<NpyHeader> for ArrayLayout {
    fn from(header: NpyHeader) -> Self {
        let NpyHeader { dtype, fortran_order, shape, offset } = header;
        Self { dtype, shape, fortran_order, offset: offset as u64 }
    }
}

/// What was seen of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySample {
    /// What can be drawn of it.
    pub view: SampleView,
    /// Of the numbers that were looked at.
    pub statistics: Statistics,
}

/// What can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleView {
    /// There is no number.
    Nothing,
    /// One axis: of each stretch the least and the greatest finite number, if there is one.
    Curve(Vec<Option<(f64, f64)>>),
    /// Two axes.
    Grid(Grid),
}

/// Numbers of two axes, the last ones of the array.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Index along each axis before those two: the middle one.
    pub slice: Vec<u64>,
    /// How many rows were picked.
    pub rows: usize,
    /// How many columns.
    pub columns: usize,
    /// Row after row.
    pub values: Vec<f64>,
}

/// What is told of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// How many were looked at.
    pub seen: u64,
    /// How many of these are infinite or not a number.
    pub nonfinite: u64,
    /// The least finite one; `INFINITY` if there is none.
    pub least: f64,
    /// The greatest finite one; `NEG_INFINITY` if there is none.
    pub greatest: f64,
}

impl Statistics {
    fn new() -> Self {
        Self { seen: 0, nonfinite: 0, least: f64::INFINITY, greatest: f64::NEG_INFINITY }
    }

    fn add(&mut self, number: f64) {
        self.seen += 1;
        if number.is_finite() {
            self.least = self.least.min(number);
            self.greatest = self.greatest.max(number);
        } else {
            self.nonfinite += 1;
        }
    }

    /// The least and the greatest, if any is finite.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.least <= self.greatest).then_some((self.least, self.greatest))
    }
}

/// Looks at an array. Of one that has more than `budget` bytes only some numbers are read: about so many bytes of them, in
/// pieces. What is held in memory meanwhile is a line of the array, or less.
///
/// # Errors
/// If the bytes can't be read, or are fewer than the layout tells.
pub fn sample(payload: &Payload, layout: &ArrayLayout, budget: u64) -> io::Result<ArraySample> {
    let reader = NumberReader::open(payload, layout)?;
    let mut statistics = Statistics::new();
    let Some(count) = layout.count() else { return Err(io::ErrorKind::InvalidData.into()) };
    let view = if count == 0 {
        SampleView::Nothing
    } else if layout.shape.contains(&count) || layout.shape.is_empty() {
        // One axis, or the others have one place each.
        SampleView::Curve(reader.curve(count, budget, &mut statistics)?)
    } else if let [.., rows, columns] = layout.shape[..] {
        SampleView::Grid(reader.grid((rows, columns), budget, &mut statistics)?)
    } else {
        SampleView::Nothing
    };
    Ok(ArraySample { view, statistics })
}

struct NumberReader<'p> {
    source: ByteSource<'p>,
    layout: &'p ArrayLayout,
    /// How often bytes were read.
    #[cfg(test)]
    reads: std::cell::Cell<u64>,
}

impl<'p> NumberReader<'p> {
    fn open(payload: &'p Payload, layout: &'p ArrayLayout) -> io::Result<Self> {
        Ok(Self {
            source: ByteSource::open(payload)?,
            layout,
            #[cfg(test)]
            reads: std::cell::Cell::default(),
        })
    }

    fn size(&self) -> u64 {
        self.layout.dtype.size as u64
    }

    /// Hands on numbers that lie one after the other.
    fn each(&self, first: u64, count: u64, take: &mut dyn FnMut(u64, f64)) -> io::Result<()> {
        let (dtype, size) = (self.layout.dtype, self.size());
        let at_once = CHUNK as u64 / size;
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < count {
            let now = at_once.min(count - done);
            buffer.resize(usize::try_from(now * size).unwrap_or(CHUNK), 0);
            let at = first.checked_add(done).and_then(|at| at.checked_mul(size));
            let at = at.and_then(|at| at.checked_add(self.layout.offset));
            let at = at.ok_or(io::ErrorKind::InvalidData)?;
            self.source.read_at(&mut buffer, at)?;
            #[cfg(test)]
            self.reads.set(self.reads.get() + 1);
            for (place, number) in buffer.chunks_exact(dtype.size).enumerate() {
                take(done + place as u64, dtype.number(number));
            }
            done += now;
        }
        Ok(())
    }

    fn curve(
        &self,
        count: u64,
        budget: u64,
        statistics: &mut Statistics,
    ) -> io::Result<Vec<Option<(f64, f64)>>> {
        let buckets = count.min(CURVE_POINTS).min(budget / self.size()).max(1);
        let mut curve = vec![None; usize::try_from(buckets).unwrap_or(0)];
        let mut add = |bucket: u64, number: f64| {
            statistics.add(number);
            let Some(seen) = curve.get_mut(usize::try_from(bucket).unwrap_or(usize::MAX)) else {
                return;
            };
            if number.is_finite() {
                let (least, greatest) = seen.unwrap_or((number, number));
                *seen = Some((least.min(number), greatest.max(number)));
            }
        };
        if count <= budget / self.size() {
            let bucket = |at: u64| scaled(at, buckets, count);
            self.each(0, count, &mut |at, number| add(bucket(at), number))?;
            return Ok(curve);
        }
        for bucket in 0..buckets {
            let (from, to) = (scaled(bucket, count, buckets), scaled(bucket + 1, count, buckets));
            let most = (budget / self.size() / buckets).max(1).min(to - from);
            self.each(from, most, &mut |_, number| add(bucket, number))?;
        }
        Ok(curve)
    }

    fn grid(
        &self,
        (rows, columns): (u64, u64),
        budget: u64,
        statistics: &mut Statistics,
    ) -> io::Result<Grid> {
        let (shape, strides) = (&self.layout.shape, self.layout.strides());
        let before = shape.len() - 2;
        let slice: Vec<u64> = shape[..before].iter().map(|length| length / 2).collect();
        let first: u64 = slice.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        // A line is what lies together: a row, or a column of an array in Fortran order.
        let across = self.layout.fortran_order;
        let (line_stride, stride) = match across {
            false => (strides[before], strides[before + 1]),
            true => (strides[before + 1], strides[before]),
        };
        let (lines, length) = if across { (columns, rows) } else { (rows, columns) };
        let most = budget / self.size();
        let reads_lines = stride == 1 && lines.min(GRID_SIDE).saturating_mul(length) <= most;
        let fits = rows.min(GRID_SIDE) * columns.min(GRID_SIDE) <= most;
        // Where each number is read alone, there are not more than may be read.
        let side = if reads_lines || fits { GRID_SIDE } else { most.isqrt().clamp(1, GRID_SIDE) };
        let (picked_rows, picked_columns) = (picks(rows, side), picks(columns, side));
        let mut grid = Grid {
            slice,
            rows: picked_rows.len(),
            columns: picked_columns.len(),
            values: vec![f64::NAN; picked_rows.len() * picked_columns.len()],
        };
        let (picked, within) = match across {
            false => (&picked_rows, &picked_columns),
            true => (&picked_columns, &picked_rows),
        };
        let width = grid.columns;
        let place = |line: usize, at: usize| match across {
            false => line * width + at,
            true => at * width + line,
        };
        let values = &mut grid.values;
        if stride == 1 && lines.saturating_mul(length) <= most {
            // Then lines lie one after the other.
            self.lines(first, (lines, length), (picked, within), &mut |at, number| {
                if let Some((line, at)) = at {
                    values[place(line, at)] = number;
                }
                statistics.add(number);
            })?;
            return Ok(grid);
        }
        for (line, index) in picked.iter().enumerate() {
            let start = first + index * line_stride;
            if reads_lines {
                self.lines(start, (1, length), (&[0], within), &mut |at, number| {
                    if let Some((_, at)) = at {
                        values[place(line, at)] = number;
                    }
                    statistics.add(number);
                })?;
                continue;
            }
            for (at, index) in within.iter().enumerate() {
                self.each(start + index * stride, 1, &mut |_, number| {
                    values[place(line, at)] = number;
                    statistics.add(number);
                })?;
            }
        }
        Ok(grid)
    }

    /// Hands on the numbers of lines that lie one after the other, in blocks however short a line is; each with its line and its place
    /// in that among those that are picked, if it is one.
    fn lines(
        &self,
        start: u64,
        (lines, length): (u64, u64),
        (picked, within): (&[u64], &[u64]),
        take: &mut dyn FnMut(Option<(usize, usize)>, f64),
    ) -> io::Result<()> {
        let mut next_line = picked.iter().enumerate().peekable();
        let mut kept =
            |line: u64| next_line.next_if(|(_, wanted)| **wanted == line).map(|(at, _)| at);
        let (mut line, mut column, mut keep) = (0, 0, kept(0));
        let mut next = within.iter().enumerate().peekable();
        self.each(start, lines.saturating_mul(length), &mut |_, number| {
            let place = next.next_if(|(_, wanted)| **wanted == column).map(|(place, _)| place);
            take(keep.zip(place), number);
            column += 1;
            if column == length {
                (line, column) = (line + 1, 0);
                keep = kept(line);
                next = within.iter().enumerate().peekable();
            }
        })
    }
}

/// `at` of `from` places, as a place of `to`.
fn scaled(at: u64, to: u64, from: u64) -> u64 {
    let place = u128::from(at) * u128::from(to) / u128::from(from);
    u64::try_from(place).unwrap_or(u64::MAX)
}

/// Indices along an axis: all, or the middles of as many stretches as are shown.
fn picks(length: u64, most: u64) -> Vec<u64> {
    if length <= most {
        return (0..length).collect();
    }
    (0..most).map(|at| scaled(2 * at + 1, length, 2 * most)).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn doubles(numbers: impl IntoIterator<Item = f64>) -> Payload {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
        Payload::Inline(bytes.into())
    }

    fn grid(sample: ArraySample) -> Grid {
        match sample.view {
            SampleView::Grid(grid) => grid,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_small_array_is_seen_whole() {
        let numbers = [1.0, f64::NAN, -3.0, f64::INFINITY, 5.0, 6.0];
        let layout = ArrayLayout::plain(ElementType::Double, &[2, 3]);
        let seen = sample(&doubles(numbers), &layout, 1 << 20).unwrap();
        let told = Statistics { seen: 6, nonfinite: 2, least: -3.0, greatest: 6.0 };
        assert_eq!(seen.statistics, told);
        let grid = grid(seen);
        assert_eq!((grid.rows, grid.columns, &grid.slice[..]), (2, 3, &[][..]));
        assert_eq!(grid.values[4..], [5.0, 6.0]);
    }

    #[test]
    fn both_orders_of_one_array_look_the_same() {
        let at = |row: u64, column: u64| (row * 1000 + column) as f64;
        let c = doubles((0..300).flat_map(|row| (0..20).map(move |column| at(row, column))));
        let f = doubles((0..20).flat_map(|column| (0..300).map(move |row| at(row, column))));
        let layout = ArrayLayout::plain(ElementType::Double, &[300, 20]);
        let fortran = ArrayLayout { fortran_order: true, ..layout.clone() };
        for budget in [1 << 20, 300 * 8 * 20 - 1, 256 * 8 * 20] {
            let (c, f) = (sample(&c, &layout, budget), sample(&f, &fortran, budget));
            let (c, f) = (grid(c.unwrap()), grid(f.unwrap()));
            assert_eq!((c.rows, c.columns), (256, 20));
            assert_eq!(c.values, f.values, "{budget}");
            assert_eq!(c.values[20 * 255 + 7], at(299, 7), "{budget}");
        }
    }

    #[test]
    fn no_more_numbers_are_read_than_fit_the_budget() {
        let numbers = doubles((0..300 * 20).map(f64::from));
        let layout = ArrayLayout::plain(ElementType::Double, &[300, 20]);
        let seen = sample(&numbers, &layout, 100).unwrap();
        assert_eq!(seen.statistics.seen, 9);
        assert_eq!(grid(seen).values[..3], [50.0 * 20.0 + 3.0, 1010.0, 1016.0]);
        let layout = ArrayLayout::plain(ElementType::Double, &[6000]);
        assert_eq!(sample(&numbers, &layout, 100).unwrap().statistics.seen, 12);
    }

    #[test]
    fn a_table_of_many_short_rows_is_read_in_blocks() {
        let (rows, columns) = (100_000_u32, 2);
        let numbers = doubles((0..rows * columns).map(f64::from));
        for fortran_order in [false, true] {
            let shape = [u64::from(rows), u64::from(columns)];
            let layout =
                ArrayLayout { fortran_order, ..ArrayLayout::plain(ElementType::Double, &shape) };
            let reader = NumberReader::open(&numbers, &layout).unwrap();
            let mut statistics = Statistics::new();
            let seen = reader.grid((shape[0], shape[1]), 16 << 20, &mut statistics).unwrap();
            assert_eq!(statistics.seen, u64::from(rows * columns));
            let last = picks(shape[0], GRID_SIDE)[255] as f64;
            let wanted = if fortran_order {
                [last, last + 100_000.0]
            } else {
                [last * 2.0, last * 2.0 + 1.0]
            };
            assert_eq!(seen.values[255 * 2..], wanted);
            assert_eq!(reader.reads.get(), (100_000 * 2 * 8_u64).div_ceil(CHUNK as u64));
        }
    }

    #[test]
    fn of_more_axes_the_middle_is_shown() {
        let layout = ArrayLayout::plain(ElementType::Double, &[5, 3, 2, 2]);
        let seen = grid(sample(&doubles((0..60).map(f64::from)), &layout, 1 << 20).unwrap());
        assert_eq!((&seen.slice[..], &seen.values[..]), (&[2, 1][..], &[28., 29., 30., 31.][..]));
        let fortran = ArrayLayout { fortran_order: true, ..layout };
        let seen = grid(sample(&doubles((0..60).map(f64::from)), &fortran, 1 << 20).unwrap());
        assert_eq!(seen.values, [7., 37., 22., 52.]);
    }

    #[test]
    fn of_a_long_axis_each_stretch_is_looked_at() {
        let numbers = doubles((0..100_000).map(f64::from));
        let layout = ArrayLayout::plain(ElementType::Double, &[100_000]);
        let curve = |budget| match sample(&numbers, &layout, budget).unwrap() {
            ArraySample { view: SampleView::Curve(curve), statistics } => (curve, statistics),
            other => panic!("{other:?}"),
        };
        let (all, told) = curve(1 << 20);
        assert_eq!((told.seen, told.range()), (100_000, Some((0.0, 99_999.0))));
        assert_eq!((all.len(), all[479].unwrap().1), (480, 99_999.0));
        let (some, told) = curve(8 * 4800);
        assert_eq!((some.len(), told.seen), (480, 4800));
        let from = scaled(479, 100_000, 480);
        assert_eq!(some[479], Some((from as f64, from as f64 + 9.0)));
    }

    #[test]
    fn an_array_without_numbers_and_one_that_is_cut_are_told_apart() {
        let layout = ArrayLayout::plain(ElementType::Double, &[0, 3]);
        let seen = sample(&Payload::Inline(Bytes::new()), &layout, 100).unwrap();
        assert_eq!((seen.view, seen.statistics.range()), (SampleView::Nothing, None));
        let layout = ArrayLayout::plain(ElementType::Double, &[2, 2]);
        assert!(sample(&doubles([1.0]), &layout, 100).is_err());
        let layout = ArrayLayout::plain(ElementType::Double, &[u64::MAX, 2]);
        assert!(sample(&doubles([1.0]), &layout, 100).is_err());
    }

    #[test]
    fn numbers_of_npy_files_are_read_as_they_stand_there() {
        let dtype = |kind, size, big| Dtype { kind, size, big };
        use super::super::npy::NumberKind::{Real, Signed, Unsigned};
        for (dtype, bytes, number) in [
            (dtype(Signed, 2, true), &[0xff, 0xfe][..], -2.0),
            (dtype(Unsigned, 1, false), &[200], 200.0),
            (dtype(Real, 4, true), &1.5_f32.to_be_bytes(), 1.5),
            (dtype(Real, 8, false), &(-2.5_f64).to_le_bytes(), -2.5),
            (dtype(Unsigned, 8, false), &[0, 0, 0, 0, 1, 0, 0, 0], 4_294_967_296.0),
        ] {
            assert_eq!(dtype.number(bytes).to_bits(), f64::to_bits(number), "{dtype:?}");
        }
    }
}
