//! What reductions do (MPI 5.0, 6.9): the standard's operations on its datatypes, and functions of programs.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use bytemuck::Pod;
use fishplate_ranks::Operation;

use crate::arguments::{Buffer, Out};
use crate::buffer::{Data, not_in_place};
use crate::constants::*;
use crate::datatype::{Basic, Class, DatatypeObject, HeldHandle, Layout};
use crate::entry::entries;
use crate::error::{Result, error};
use crate::handle::Datatype;

mod long_double;

type Function = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
type LargeFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Datatype);

/// What an operation's handle stands for.
#[derive(Debug)]
pub(crate) enum Op {
    /// One of the standard's.
    Predefined(Predefined),
    /// A program's.
    User {
        /// What it calls.
        function: UserFunction,
        /// Whether the order of its operands is free.
        commutative: bool,
    },
}

/// A function of a program, with its type of counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserFunction {
    /// `MPI_User_function`.
    Int(Function),
    /// `MPI_User_function_c`.
    Large(LargeFunction),
}

/// The standard's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predefined {
    Sum,
    Min,
    Max,
    Product,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    MinLocation,
    MaxLocation,
    Replace,
    Nothing,
}

use Predefined::*;

/// Name, distance from `MPI_OP_NULL`.
const PREDEFINED: &[(&str, usize, Predefined)] = &[
    ("MPI_SUM", 0x01, Sum),
    ("MPI_MIN", 0x02, Min),
    ("MPI_MAX", 0x03, Max),
    ("MPI_PROD", 0x04, Product),
    ("MPI_BAND", 0x08, BitwiseAnd),
    ("MPI_BOR", 0x09, BitwiseOr),
    ("MPI_BXOR", 0x0a, BitwiseXor),
    ("MPI_LAND", 0x10, LogicalAnd),
    ("MPI_LOR", 0x11, LogicalOr),
    ("MPI_LXOR", 0x12, LogicalXor),
    ("MPI_MINLOC", 0x18, MinLocation),
    ("MPI_MAXLOC", 0x19, MaxLocation),
    ("MPI_REPLACE", 0x1c, Replace),
    ("MPI_NO_OP", 0x1d, Nothing),
];

/// All of them, by their distance from the null handle.
pub(crate) fn predefined() -> Vec<Option<Arc<Op>>> {
    let mut all: Vec<_> = (0..0x20).map(|_| None).collect();
    for &(_, at, op) in PREDEFINED {
        all[at] = Some(Arc::new(Op::Predefined(op)));
    }
    all
}

/// The operation on elements of a datatype, as messages have them: without gaps.
pub(crate) fn on(op: crate::handle::Op, datatype: Datatype) -> Result<Operation> {
    let (op, object) = (op.get()?, datatype.get()?);
    match &*op {
        Op::User { function, commutative } => Ok(user(*function, *commutative, datatype, &object)),
        Op::Predefined(op) => predefined_on(*op, &object).ok_or_else(|| {
            let name =
                PREDEFINED.iter().find(|row| row.2 == *op).map_or("this operation", |row| row.0);
            error(MPI_ERR_OP, format!("{name} is not defined on this datatype"))
        }),
    }
}

fn user(
    function: UserFunction,
    commutative: bool,
    handle: Datatype,
    object: &DatatypeObject,
) -> Operation {
    let (layout, size) = (object.layout.clone(), object.layout.size.max(1));
    // Its handle is good for a reduction that is under way when the program frees it (MPI 5.0, 5.1.9).
    let held = HeldHandle::new(handle);
    Operation::of_bytes(size, commutative, move |left, right| {
        let count = right.len() / size;
        if count == 0 {
            return;
        }
        if let Some(start) = layout.run(count) {
            let back = |bytes: &[u8]| Buffer::of(bytes).offset(-start);
            call(function, back(left), back(right), count, &layout, held.get());
            return;
        }
        // The function wants the gaps: both operands as the program has them, which may begin before their address.
        let (low, high) = layout.span(count);
        let length = usize::try_from(high.saturating_sub(low)).unwrap_or_default();
        let (mut lefts, mut rights) = (vec![0; length], vec![0; length]);
        let data = |bytes: &mut [u8]| Data {
            buffer: Buffer::of(bytes).offset(-low),
            count,
            layout: layout.clone(),
        };
        let (left_data, right_data) = (data(&mut lefts), data(&mut rights));
        left_data.unpack(left);
        right_data.unpack(right);
        call(function, left_data.buffer, right_data.buffer, count, &layout, held.get());
        right_data.pack(right);
    })
    .changing_left()
}

/// What an `int` can count.
const INT_COUNT: usize = c_int::MAX as usize;

fn call(
    function: UserFunction,
    left: Buffer,
    right: Buffer,
    count: usize,
    layout: &Layout,
    mut datatype: Datatype,
) {
    let place = &raw mut datatype;
    match function {
        // As often as an `int` makes it necessary.
        UserFunction::Int(function) => (0..count).step_by(INT_COUNT).for_each(|first| {
            let mut count = c_int::try_from(count - first).unwrap_or(c_int::MAX);
            let at = i64::try_from(first).unwrap_or(i64::MAX).wrapping_mul(layout.extent());
            let [left, right] = [left, right].map(|operand| operand.offset(at).pointer());
            // SAFETY: the program gave us the function; the operands have `count` elements of the datatype.
            unsafe { function(left, right, &raw mut count, place) };
        }),
        UserFunction::Large(function) => {
            let mut count = i64::try_from(count).unwrap_or(i64::MAX);
            // SAFETY: as above.
            unsafe { function(left.pointer(), right.pointer(), &raw mut count, place) };
        }
    }
}

fn predefined_on(op: Predefined, object: &DatatypeObject) -> Option<Operation> {
    if let Some((value, index)) = object.pair {
        let greatest = match op {
            MinLocation => false,
            MaxLocation => true,
            _ => return None,
        };
        return location(greatest, value, index);
    }
    on_basic(op, object.basic()?)
}

fn on_basic(op: Predefined, basic: Basic) -> Option<Operation> {
    macro_rules! integers {
        ($type:ty) => {
            match op {
                Sum => some(<$type>::wrapping_add),
                Product => some(<$type>::wrapping_mul),
                Min => some(<$type>::min),
                Max => some(<$type>::max),
                BitwiseAnd => some(|left: $type, right| left & right),
                BitwiseOr => some(|left: $type, right| left | right),
                BitwiseXor => some(|left: $type, right| left ^ right),
                LogicalAnd => some(|left: $type, right| <$type>::from(left != 0 && right != 0)),
                LogicalOr => some(|left: $type, right| <$type>::from(left != 0 || right != 0)),
                LogicalXor => some(|left: $type, right| <$type>::from((left != 0) != (right != 0))),
                _ => None,
            }
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            match op {
                Sum => some(|left: $type, right| left + right),
                Product => some(|left: $type, right| left * right),
                Min => some(|left: $type, right| if left < right { left } else { right }),
                Max => some(|left: $type, right| if left > right { left } else { right }),
                _ => None,
            }
        };
    }
    macro_rules! complexes {
        ($type:ty) => {
            match op {
                Sum => some(|[a, b]: [$type; 2], [c, d]: [$type; 2]| [a + c, b + d]),
                Product => {
                    some(|[a, b]: [$type; 2], [c, d]: [$type; 2]| [a * c - b * d, a * d + b * c])
                }
                _ => None,
            }
        };
    }
    let logical = matches!(op, LogicalAnd | LogicalOr | LogicalXor);
    match (basic.class, basic.size) {
        // C's characters are numbers to many programs, as to MPICH.
        (Class::Signed, 1) => integers!(i8),
        (Class::Character, 1) => integers!(i8),
        (Class::Signed, 2) => integers!(i16),
        (Class::Signed, 4) => integers!(i32),
        (Class::Signed, 8) => integers!(i64),
        (Class::Signed, 16) => integers!(i128),
        (Class::Unsigned, 1) => integers!(u8),
        (Class::Unsigned, 2) => integers!(u16),
        (Class::Unsigned, 4) => integers!(u32),
        (Class::Unsigned, 8) => integers!(u64),
        (Class::Floating, 4) => floats!(f32),
        (Class::Floating, 8) => floats!(f64),
        (Class::Complex, 8) => complexes!(f32),
        (Class::Complex, 16) => complexes!(f64),
        (Class::LongDouble, _) => long_double::on_real(op),
        (Class::LongDoubleComplex, _) => long_double::on_complex(op),
        (Class::Byte, _) if matches!(op, BitwiseAnd | BitwiseOr | BitwiseXor) => integers!(u8),
        (Class::Bool | Class::Logical, 1) if logical => integers!(u8),
        (Class::Logical, 2) if logical => integers!(u16),
        (Class::Logical, 4) if logical => integers!(u32),
        (Class::Logical, 8) if logical => integers!(u64),
        (Class::Logical, 16) if logical => integers!(u128),
        _ => None,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an arm of a match that has others without")]
fn some<T: Pod>(function: impl Fn(T, T) -> T + Send + Sync + 'static) -> Option<Operation> {
    Some(Operation::new(true, function))
}

/// How the values of two pairs compare: a number that orders them as they are ordered.
fn ordered(basic: Basic, bytes: &[u8]) -> Option<f64> {
    macro_rules! read {
        ($type:ty) => {
            bytemuck::pod_read_unaligned::<$type>(bytes)
        };
    }
    Some(match (basic.class, basic.size) {
        (Class::Signed, 1) => read!(i8).into(),
        (Class::Signed, 2) => read!(i16).into(),
        (Class::Signed, 4) => read!(i32).into(),
        (Class::Unsigned, 1) => read!(u8).into(),
        (Class::Unsigned, 2) => read!(u16).into(),
        (Class::Unsigned, 4) => read!(u32).into(),
        (Class::Floating, 4) => read!(f32).into(),
        (Class::Floating, 8) => read!(f64),
        _ => return None,
    })
}

/// The same for those that a `f64` can't hold.
fn wide(basic: Basic, bytes: &[u8]) -> Option<i128> {
    Some(match (basic.class, basic.size) {
        (Class::Signed, 8) => bytemuck::pod_read_unaligned::<i64>(bytes).into(),
        (Class::Unsigned, 8) => bytemuck::pod_read_unaligned::<u64>(bytes).into(),
        (Class::LongDouble, 16) => long_double::order(bytemuck::pod_read_unaligned(bytes)),
        _ => return None,
    })
}

fn compare(basic: Basic, left: &[u8], right: &[u8]) -> Option<std::cmp::Ordering> {
    match (wide(basic, left), wide(basic, right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => ordered(basic, left)?.partial_cmp(&ordered(basic, right)?),
    }
}

/// The least or greatest value, and of several the least index (MPI 5.0, 6.9.4).
fn location(greatest: bool, value: Basic, index: Basic) -> Option<Operation> {
    let zeros = [0; 16];
    compare(value, &zeros[..value.size], &zeros[..value.size])?;
    let size = value.size + index.size;
    Some(Operation::of_bytes(size, true, move |left, right| {
        for (left, right) in left.chunks_exact(size).zip(right.chunks_exact_mut(size)) {
            let ordering = compare(value, &left[..value.size], &right[..value.size]);
            let ordering =
                if greatest { ordering.map(std::cmp::Ordering::reverse) } else { ordering };
            let by_index = || compare(index, &left[value.size..], &right[value.size..]);
            let take = match ordering {
                Some(std::cmp::Ordering::Less) => true,
                Some(std::cmp::Ordering::Equal) => by_index() == Some(std::cmp::Ordering::Less),
                _ => false,
            };
            if take {
                right.copy_from_slice(left);
            }
        }
    }))
}

fn create(function: UserFunction, commutative: c_int, op: Out<crate::handle::Op>) -> Result<()> {
    op.set(crate::handle::Op::new(Op::User { function, commutative: commutative != 0 }))
}

fn no_function() -> crate::error::Error {
    error(MPI_ERR_ARG, "the function is a null pointer")
}

entries! {
    fn Op_create(function: Option<Function>, commutative: c_int, op: Out<crate::handle::Op>) on () => {
        create(UserFunction::Int(function.ok_or_else(no_function)?), commutative, op)
    }
    fn Op_create_c(function: Option<LargeFunction>, commutative: c_int, op: Out<crate::handle::Op>) on () => {
        create(UserFunction::Large(function.ok_or_else(no_function)?), commutative, op)
    }
    fn Op_free(op: Out<crate::handle::Op>) on () => {
        op.free().map(|_| ())
    }
    fn Op_commutative(op: crate::handle::Op, flag: Out<c_int>) on () => {
        flag.set_flag(match &*op.get()? {
            Op::Predefined(Replace | Nothing) => false,
            Op::Predefined(_) => true,
            Op::User { commutative, .. } => *commutative,
        })
    }
    fn Reduce_local<C>(left: Buffer, right: Buffer, count: C, datatype: Datatype, op: crate::handle::Op) on () => {
        let operation = on(op, datatype)?;
        not_in_place(left)?;
        not_in_place(right)?;
        let left = Data::new(left, count, datatype)?.outgoing();
        let right = Data::new(right, count, datatype)?.incoming(true);
        if right.begins_with(&left) {
            return Err(crate::collective::aliased());
        }
        operation.apply(left.lend(), right.bytes.lend_mut());
        right.finish_all();
        Ok(())
    }
}
