//! What reductions do with two values (MPI 4.1, 6.9).

use std::sync::Arc;

use bytemuck::Pod;

type Function = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// An associative function of two elements, on whole buffers of them.
#[derive(Clone)]
pub struct Operation {
    function: Arc<Function>,
    commutative: bool,
    changes_left: bool,
    element: usize,
}

impl Operation {
    /// A function on bytes of elements of `element` bytes: `right = left op right`, where the left ones are of lower
    /// ranks. The MPI ABI's user functions are such.
    pub fn of_bytes(
        element: usize,
        commutative: bool,
        function: impl Fn(&[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        let function = Arc::new(function);
        Self { function, commutative, changes_left: false, element: element.max(1) }
    }

    /// The function may write to its left operand, so that is no buffer of the program's but a copy. User functions in C may.
    #[must_use]
    pub fn changing_left(self) -> Self {
        Self { changes_left: true, ..self }
    }

    /// A function of two elements, the left one of the lower rank.
    pub fn new<T: Pod>(
        commutative: bool,
        function: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> Self {
        Self::of_bytes(size_of::<T>(), commutative, move |left, right| {
            if let (Ok(left), Ok(right)) =
                (bytemuck::try_cast_slice(left), bytemuck::try_cast_slice_mut(right))
            {
                for (&left, right) in left.iter().zip(right) {
                    *right = function(left, *right);
                }
                return;
            }
            for (left, right) in
                left.chunks_exact(size_of::<T>()).zip(right.chunks_exact_mut(size_of::<T>()))
            {
                let value = function(
                    bytemuck::pod_read_unaligned(left),
                    bytemuck::pod_read_unaligned(right),
                );
                right.copy_from_slice(bytemuck::bytes_of(&value));
            }
        })
    }

    /// `MPI_SUM`. Integers wrap.
    pub fn sum<T: Number>() -> Self {
        Self::new(true, T::add)
    }

    /// `MPI_PROD`. Integers wrap.
    pub fn product<T: Number>() -> Self {
        Self::new(true, T::multiply)
    }

    /// `MPI_MAX`.
    pub fn max<T: Number>() -> Self {
        Self::new(true, |left: T, right| if left > right { left } else { right })
    }

    /// `MPI_MIN`.
    pub fn min<T: Number>() -> Self {
        Self::new(true, |left: T, right| if left < right { left } else { right })
    }

    /// Whether the order of its operands is free. All of ours are associative.
    pub fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// Whether it may write to its left operand.
    pub fn changes_left(&self) -> bool {
        self.changes_left
    }

    /// Bytes of an element; buffers are cut between elements only.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Does it: `right = left op right`.
    pub fn apply(&self, left: &[u8], right: &mut [u8]) {
        (self.function)(left, right);
    }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { commutative, element, .. } = self;
        write!(f, "Operation {{ commutative: {commutative}, element: {element}, .. }}")
    }
}

/// Numbers that predefined operations take.
pub trait Number: Pod + PartialOrd {
    /// Their sum.
    fn add(self, other: Self) -> Self;
    /// Their product.
    fn multiply(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $add:expr, $multiply:expr;)+) => { $(
        impl Number for $type {
            fn add(self, other: Self) -> Self { $add(self, other) }
            fn multiply(self, other: Self) -> Self { $multiply(self, other) }
        }
    )+ };
}

numbers! {
    i8: i8::wrapping_add, i8::wrapping_mul;
    i16: i16::wrapping_add, i16::wrapping_mul;
    i32: i32::wrapping_add, i32::wrapping_mul;
    i64: i64::wrapping_add, i64::wrapping_mul;
    u8: u8::wrapping_add, u8::wrapping_mul;
    u16: u16::wrapping_add, u16::wrapping_mul;
    u32: u32::wrapping_add, u32::wrapping_mul;
    u64: u64::wrapping_add, u64::wrapping_mul;
    f32: std::ops::Add::add, std::ops::Mul::mul;
    f64: std::ops::Add::add, std::ops::Mul::mul;
}
