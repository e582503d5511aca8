//! Reductions of C's `long double`, which Rust has not: the 80 bits of x87, by its own instructions. Other processors
//! have another `long double`, on which reductions are not defined here.

use fishplate_ranks::Operation;

use crate::operation::Predefined::{self, Max, Min, Product, Sum};

/// As it is in memory.
type LongDouble = [u8; 16];

#[cfg(target_arch = "x86_64")]
macro_rules! x87 {
    ($name:ident, $instruction:literal) => {
        fn $name(left: LongDouble, right: LongDouble) -> LongDouble {
            let mut result = [0; 16];
            // SAFETY: reads two operands and writes one result of 80 bits, all of them here, and leaves x87's stack empty.
            unsafe {
                std::arch::asm!(
                    "fld tbyte ptr [{left}]",
                    "fld tbyte ptr [{right}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    left = in(reg) left.as_ptr(),
                    right = in(reg) right.as_ptr(),
                    result = in(reg) result.as_mut_ptr(),
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

#[cfg(target_arch = "x86_64")]
x87!(add, "faddp st(1), st");
#[cfg(target_arch = "x86_64")]
x87!(subtract, "fsubp st(1), st");
#[cfg(target_arch = "x86_64")]
x87!(multiply, "fmulp st(1), st");

/// A number that orders them as they are ordered: exponent and fraction, below zero with the sign.
pub(super) fn order(value: LongDouble) -> i128 {
    let bits = u128::from_le_bytes(value) & ((1 << 80) - 1);
    let magnitude = i128::try_from(bits & !(1 << 79)).unwrap_or(i128::MAX);
    if bits >> 79 == 1 { -magnitude } else { magnitude }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn on_real(op: Predefined) -> Option<Operation> {
    let function: fn(LongDouble, LongDouble) -> LongDouble = match op {
        Sum => add,
        Product => multiply,
        Min => |left, right| if order(left) < order(right) { left } else { right },
        Max => |left, right| if order(left) > order(right) { left } else { right },
        _ => return None,
    };
    Some(Operation::new(true, function))
}

#[cfg(target_arch = "x86_64")]
pub(super) fn on_complex(op: Predefined) -> Option<Operation> {
    type Pair = [LongDouble; 2];
    let function: fn(Pair, Pair) -> Pair = match op {
        Sum => |[a, b], [c, d]| [add(a, c), add(b, d)],
        Product => |[a, b], [c, d]| {
            [subtract(multiply(a, c), multiply(b, d)), add(multiply(a, d), multiply(b, c))]
        },
        _ => return None,
    };
    Some(Operation::new(true, function))
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn on_real(_op: Predefined) -> Option<Operation> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn on_complex(_op: Predefined) -> Option<Operation> {
    None
}
