//! Where a datatype's bytes are: a tree of repetitions, so that a vector of a million blocks is one line.

use std::sync::Arc;

use crate::datatype::{Basic, Class};

/// A type map (MPI 5.0, 5.1), in the order in which its bytes are sent. Displacements in bytes.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Bytes of data.
    pub(crate) size: usize,
    /// The same in `external32`.
    pub(crate) external: usize,
    /// Basic elements.
    pub(crate) elements: usize,
    pub(crate) lower_bound: i64,
    pub(crate) upper_bound: i64,
    /// Of the data, whatever was set with `MPI_Type_create_resized`.
    pub(crate) true_lower_bound: i64,
    pub(crate) true_upper_bound: i64,
    /// The bounds were set, here or below, and count alone (MPI 5.0, 5.1.6).
    marked: bool,
    alignment: usize,
    /// The data is one run of bytes.
    dense: bool,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Basic(Basic),
    Pieces(Vec<Piece>),
}

/// `repeat` blocks, `stride` bytes apart, each of `count` elements, one extent apart.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) displacement: i64,
    pub(crate) repeat: usize,
    pub(crate) stride: i64,
    pub(crate) count: usize,
    pub(crate) layout: Arc<Layout>,
}

/// What is called with runs of bytes or elements: where, how many bytes, of what; whether to go on.
type Visit<'a> = dyn FnMut(i64, usize, Basic) -> bool + 'a;

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Piece {
    /// One block.
    pub(crate) fn block(displacement: i64, count: usize, layout: &Arc<Layout>) -> Self {
        Self { displacement, repeat: 1, stride: 0, count, layout: layout.clone() }
    }

    fn instances(&self) -> usize {
        self.repeat.saturating_mul(self.count)
    }

    /// The displacements of the first and the last element, either way round.
    fn corners(&self) -> [i64; 4] {
        let last_block = self.stride.saturating_mul(signed(self.repeat.saturating_sub(1)));
        let last = self.layout.extent().saturating_mul(signed(self.count.saturating_sub(1)));
        [0, last_block, last, last_block.saturating_add(last)]
            .map(|corner| self.displacement.saturating_add(corner))
    }

    /// Where its bytes begin, if they are one run.
    fn dense_start(&self) -> Option<i64> {
        let size = signed(self.layout.size);
        let inner = self.layout.dense && (self.count <= 1 || self.layout.extent() == size);
        let outer = self.repeat <= 1 || self.stride == size.saturating_mul(signed(self.count));
        (inner && outer).then(|| self.displacement.saturating_add(self.layout.true_lower_bound))
    }

    fn walk(&self, base: i64, whole: bool, visit: &mut Visit<'_>) -> bool {
        if whole && let Some(start) = self.dense_start() {
            let bytes = self.instances().saturating_mul(self.layout.size);
            return bytes == 0 || visit(base + start, bytes, Basic::BYTE);
        }
        let extent = self.layout.extent();
        for block in 0..signed(self.repeat) {
            let mut at = base + self.displacement + block * self.stride;
            for _ in 0..self.count {
                if !self.layout.walk_one(at, whole, visit) {
                    return false;
                }
                at += extent;
            }
        }
        true
    }
}

impl Layout {
    /// A basic type's.
    pub(crate) fn of(basic: Basic) -> Self {
        let size = signed(basic.size);
        Self {
            size: basic.size,
            external: basic.external,
            elements: 1,
            lower_bound: 0,
            upper_bound: size,
            true_lower_bound: 0,
            true_upper_bound: size,
            marked: false,
            alignment: match basic.class {
                Class::Complex | Class::LongDoubleComplex => basic.size / 2,
                _ => basic.size,
            },
            dense: true,
            content: Content::Basic(basic),
        }
    }

    /// One of pieces. `padded`, its extent is what a C compiler gives a struct of them.
    pub(crate) fn of_pieces(mut pieces: Vec<Piece>, padded: bool) -> Self {
        pieces.retain(|piece| piece.instances() > 0);
        let sum = |of: fn(&Layout) -> usize| {
            let part = |piece: &Piece| piece.instances().saturating_mul(of(&piece.layout));
            pieces.iter().map(part).fold(0, usize::saturating_add)
        };
        let least = |pieces: &[&Piece], of: fn(&Layout) -> i64| {
            let part = |piece: &&Piece| {
                let corner = piece.corners().into_iter().min().unwrap_or_default();
                corner.saturating_add(of(&piece.layout))
            };
            pieces.iter().map(part).min().unwrap_or_default()
        };
        let most = |pieces: &[&Piece], of: fn(&Layout) -> i64| {
            let part = |piece: &&Piece| {
                let corner = piece.corners().into_iter().max().unwrap_or_default();
                corner.saturating_add(of(&piece.layout))
            };
            pieces.iter().map(part).max().unwrap_or_default()
        };
        let marked = pieces.iter().any(|piece| piece.layout.marked);
        let bounding: Vec<&Piece> =
            pieces.iter().filter(|piece| piece.layout.marked == marked).collect();
        let filled: Vec<&Piece> = pieces.iter().filter(|piece| piece.layout.size > 0).collect();
        let alignment = pieces.iter().map(|piece| piece.layout.alignment).max().unwrap_or(1);
        let lower_bound = least(&bounding, |layout| layout.lower_bound);
        let mut upper_bound = most(&bounding, |layout| layout.upper_bound);
        if padded && !marked {
            let extent = upper_bound.saturating_sub(lower_bound);
            let extent = usize::try_from(extent).unwrap_or_default();
            let padded = signed(extent.next_multiple_of(alignment.max(1)));
            upper_bound = lower_bound.saturating_add(padded);
        }
        let mut next = None;
        let dense = filled.iter().all(|piece| {
            let start = piece.dense_start();
            let follows = next.is_none() || next == start;
            let bytes = piece.instances().saturating_mul(piece.layout.size);
            next = start.map(|start| start.saturating_add(signed(bytes)));
            start.is_some() && follows
        });
        Self {
            size: sum(|layout| layout.size),
            external: sum(|layout| layout.external),
            elements: sum(|layout| layout.elements),
            lower_bound,
            upper_bound,
            true_lower_bound: least(&filled, |layout| layout.true_lower_bound),
            true_upper_bound: most(&filled, |layout| layout.true_upper_bound),
            marked,
            alignment,
            dense,
            content: Content::Pieces(pieces),
        }
    }

    /// The same with other bounds.
    pub(crate) fn resized(self: &Arc<Self>, lower_bound: i64, extent: i64) -> Self {
        Self {
            lower_bound,
            upper_bound: lower_bound.saturating_add(extent),
            marked: true,
            ..Self::of_pieces(vec![Piece::block(0, 1, self)], false)
        }
    }

    /// Whether `MPI_Count` can tell its size and its bounds: all that it can't is at an end here.
    pub(super) fn is_tellable(&self) -> bool {
        let bounds =
            [self.lower_bound, self.upper_bound, self.true_lower_bound, self.true_upper_bound];
        let ends = [i64::MIN, i64::MAX];
        signed(self.size) < i64::MAX && !bounds.iter().any(|bound| ends.contains(bound))
    }

    /// From one element to the next.
    pub(crate) fn extent(&self) -> i64 {
        self.upper_bound.saturating_sub(self.lower_bound)
    }

    /// Where the bytes of so many elements begin, if they are one run.
    pub(crate) fn run(&self, count: usize) -> Option<i64> {
        let one_after_the_other = count <= 1 || self.extent() == signed(self.size);
        (self.dense && one_after_the_other).then_some(self.true_lower_bound)
    }

    /// From where to where one or more elements reach, with the gaps at their ends.
    pub(crate) fn span(&self, count: usize) -> (i64, i64) {
        let last = signed(count.saturating_sub(1)).saturating_mul(self.extent());
        let low = self.lower_bound.min(self.true_lower_bound);
        let high = self.upper_bound.max(self.true_upper_bound);
        (last.min(0).saturating_add(low), last.max(0).saturating_add(high))
    }

    /// Visits so many elements: each basic one, or, with `whole`, runs of bytes.
    pub(crate) fn walk(self: &Arc<Self>, count: usize, whole: bool, visit: &mut Visit<'_>) {
        Piece::block(0, count, self).walk(0, whole, visit);
    }

    fn walk_one(&self, base: i64, whole: bool, visit: &mut Visit<'_>) -> bool {
        match &self.content {
            Content::Basic(basic) => visit(base, basic.size, *basic),
            Content::Pieces(pieces) => pieces.iter().all(|piece| piece.walk(base, whole, visit)),
        }
    }

    /// How many basic elements the first bytes of a message of these have; `None` if they end within one.
    pub(crate) fn elements(&self, bytes: usize) -> Option<usize> {
        self.counted(bytes, |layout| layout.size, |layout| layout.elements)
    }

    /// The reverse: bytes of the first basic elements of a message of these.
    pub(crate) fn bytes_of(&self, elements: usize) -> usize {
        self.counted(elements, |layout| layout.elements, |layout| layout.size).unwrap_or_default()
    }

    /// What so many, as `from` counts, are as `to` counts. Elements are not visited: there may be as many as `MPI_Count` has.
    fn counted(
        &self,
        count: usize,
        from: fn(&Self) -> usize,
        to: fn(&Self) -> usize,
    ) -> Option<usize> {
        let whole = from(self);
        if whole == 0 {
            return (count == 0).then_some(0);
        }
        let (mut sum, mut rest) = ((count / whole).saturating_mul(to(self)), count % whole);
        let Content::Pieces(pieces) = &self.content else { return (rest == 0).then_some(sum) };
        for piece in pieces {
            let all = piece.instances().saturating_mul(from(&piece.layout));
            if rest < all {
                return Some(sum.saturating_add(piece.layout.counted(rest, from, to)?));
            }
            rest -= all;
            sum = sum.saturating_add(piece.instances().saturating_mul(to(&piece.layout)));
        }
        Some(sum)
    }

    /// The one basic type that it is made of.
    pub(crate) fn basic(&self) -> Option<Basic> {
        match &self.content {
            Content::Basic(basic) => Some(*basic),
            Content::Pieces(pieces) => {
                let first = pieces.first()?.layout.basic()?;
                pieces.iter().all(|piece| piece.layout.basic() == Some(first)).then_some(first)
            }
        }
    }
}
