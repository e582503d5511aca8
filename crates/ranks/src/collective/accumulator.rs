//! A value that a rank reduces: its contribution stays where the caller has it, and the first other value goes where the result is to be, so
//! nothing is copied but what is sent.

use crate::buffer::Span;
use crate::collective::schedule::Schedule;

/// See [the module](self).
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    contribution: Span,
    result: Span,
    /// The value so far is in `result`.
    is_filled: bool,
}

impl Accumulator {
    /// Both are the same memory, if the contribution is in place.
    pub(super) fn new(contribution: Span, result: Span) -> Self {
        let is_filled = contribution == result;
        Self { contribution, result, is_filled }
    }

    /// A part, reduced by itself.
    pub(super) fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            contribution: self.contribution.part(range.clone()),
            result: self.result.part(range),
            is_filled: self.is_filled,
        }
    }

    /// The value so far.
    pub(super) fn value(&self) -> &Span {
        if self.is_filled { &self.result } else { &self.contribution }
    }

    /// Where it is at the end, when it was [settled](Accumulator::settle).
    pub(super) fn result(&self) -> &Span {
        &self.result
    }

    /// The result was put there otherwise.
    pub(super) fn fill(&mut self) {
        self.is_filled = true;
    }

    pub(super) fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// Where the next value may be received, which is of higher ranks or not. `scratch` is kept for the values after it, which are no longer.
    pub(super) fn landing(
        &self,
        s: &mut Schedule,
        higher: bool,
        scratch: &mut Option<Span>,
    ) -> Span {
        if !self.is_filled && !s.changes_left() && (higher || s.is_commutative()) {
            return self.result.clone();
        }
        let length = self.result.length();
        scratch.get_or_insert_with(|| s.scratch(length)).part(0..length)
    }

    /// Reduces it with what was received at its [landing](Accumulator::landing).
    pub(super) fn fold(&mut self, s: &mut Schedule, received: &Span, higher: bool) {
        if *received == self.result {
            s.reduce(&self.contribution, received);
            self.is_filled = true;
        } else {
            self.settle(s);
            s.fold(&self.result, received, higher);
        }
    }

    /// Brings the value so far to where the result is to be.
    pub(super) fn settle(&mut self, s: &mut Schedule) {
        if !self.is_filled {
            s.copy(&self.contribution, &self.result);
            self.is_filled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    const LENGTH: usize = 8;

    fn accumulator(s: &mut Schedule) -> Accumulator {
        let (contribution, result) = (s.scratch(LENGTH), s.scratch(LENGTH));
        Accumulator::new(contribution, result)
    }

    /// Where values land that come from these sides, higher or not: in the result, or in scratch memory.
    fn lands(operation: &Operation, in_place: bool, sides: &[bool]) -> Vec<bool> {
        let mut s = Schedule::reducing(operation);
        let mut value = accumulator(&mut s);
        if in_place {
            let result = value.result().clone();
            value = Accumulator::new(result.clone(), result);
        }
        let mut scratch = None;
        let mut land = |higher: &bool| {
            let landing = value.landing(&mut s, *higher, &mut scratch);
            value.fold(&mut s, &landing, *higher);
            assert!(value.is_filled());
            landing == *value.result()
        };
        sides.iter().map(&mut land).collect()
    }

    #[test]
    fn the_first_value_lands_where_the_result_is_to_be_if_it_may() {
        let sum = Operation::sum::<u64>();
        let first = Operation::new(false, |left: u64, _: u64| left);
        let changing = Operation::sum::<u64>().changing_left();
        assert_eq!(lands(&sum, false, &[true, true, false]), [true, false, false]);
        assert_eq!(lands(&sum, false, &[false, true]), [true, false]);
        assert_eq!(lands(&sum, true, &[true, true]), [false, false], "the result is in use");
        assert_eq!(lands(&first, false, &[true]), [true]);
        assert_eq!(lands(&first, false, &[false, true]), [false, false], "it is the left one");
        assert_eq!(lands(&changing, false, &[true]), [false], "the contribution stays as it is");
    }

    #[test]
    fn parts_are_filled_by_themselves() {
        let mut s = Schedule::reducing(&Operation::sum::<u32>());
        let mut value = accumulator(&mut s);
        let mut part = value.part(0..4);
        part.settle(&mut s);
        assert!(part.is_filled() && !value.is_filled());
        assert_eq!(*part.value(), value.result().part(0..4));
        assert_ne!(value.value(), value.result());
        value.fill();
        assert_eq!(value.value(), value.result());
    }
}
