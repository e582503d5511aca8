//! Arrays of numbers as Rust types: a vector, an array with its shape, and one whose bytes are
//! passed on as they came.

use std::io::Read as _;

use bytes::Bytes;
use fishplate_contract::{
    Array, ArrayType, ByteStream, DataType, ElementType, Fault, FaultCode, Payload, Value,
};

use super::context::storage_fault;
use super::payload::PayloadReader;
use super::value::{FromValue, IntoValue, mismatch};

/// A number that arrays consist of.
pub trait Number: bytemuck::Pod + Send + Sync {
    /// What it is called.
    const ELEMENT: ElementType;

    /// From little-endian to this machine's order, or back.
    #[must_use]
    fn swapped(self) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $element:ident,)+) => {$(
        impl Number for $number {
            const ELEMENT: ElementType = ElementType::$element;

            fn swapped(self) -> Self {
                Self::from_le_bytes(self.to_ne_bytes())
            }
        }
    )+};
}

numbers! { i32: Int, i64: Long, f32: Float, f64: Double, }

/// An array with its shape; the last index runs fastest (C order).
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayOf<T, const RANK: usize> {
    shape: [usize; RANK],
    data: Vec<T>,
}

/// An array of two dimensions: rows, columns.
pub type Matrix<T> = ArrayOf<T, 2>;

impl<T, const RANK: usize> ArrayOf<T, RANK> {
    /// An array of this shape; `None` if it has not as many elements as that.
    pub fn new(shape: [usize; RANK], data: Vec<T>) -> Option<Self> {
        (elements(&shape) == Some(data.len())).then_some(Self { shape, data })
    }

    /// Lengths of its axes, slowest index first.
    pub fn shape(&self) -> [usize; RANK] {
        self.shape
    }

    /// Its elements.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// Its elements.
    pub fn into_data(self) -> Vec<T> {
        self.data
    }
}

fn elements(shape: &[usize]) -> Option<usize> {
    // A length of 0 makes it empty however long the other axes are said to be.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_usize, |product, length| product.checked_mul(*length))
}

/// An array whose bytes nobody looks at: they are passed on in the pieces that they came in,
/// wherever they are.
#[derive(Clone, Debug)]
pub struct PackedArray<T, const RANK: usize> {
    array: Array,
    number: std::marker::PhantomData<T>,
}

impl<T, const RANK: usize> PackedArray<T, RANK> {
    /// Its elements, little-endian, in C order.
    pub fn data(&self) -> &Payload {
        &self.array.data
    }
}

impl<T: Number, const RANK: usize> PackedArray<T, RANK> {
    /// An array of these bytes, if they are as many as it has.
    pub fn new(shape: [u64; RANK], data: Payload) -> Option<Self> {
        let array = Array { element: T::ELEMENT, shape: shape.to_vec(), data };
        let size = Array::size(T::ELEMENT, &array.shape);
        let whole = size.is_some() && size == array.data.len();
        whole.then_some(Self { array, number: std::marker::PhantomData })
    }

    /// An array that is sent while it is made; the length of its first axis may be [`Array::UNKNOWN`].
    pub fn streamed(shape: [u64; RANK], data: ByteStream) -> Self {
        let data = Payload::Stream(data);
        let array = Array { element: T::ELEMENT, shape: shape.to_vec(), data };
        Self { array, number: std::marker::PhantomData }
    }

    /// Lengths of its axes, slowest index first.
    pub fn shape(&self) -> &[u64] {
        &self.array.shape
    }
}

fn array_of<T: Number>(value: Option<Value>, rank: usize) -> Result<Array, Fault> {
    match value {
        Some(Value::Array(array)) if array.element == T::ELEMENT && array.shape.len() == rank => {
            Ok(array)
        }
        _ => Err(mismatch(&data_type::<T>(rank))),
    }
}

fn data_type<T: Number>(rank: usize) -> DataType {
    DataType::Array(ArrayType::new(T::ELEMENT, rank))
}

/// The elements of an array as they are in memory here.
fn unpacked<T: Number>(array: &Array) -> Result<Vec<T>, Fault> {
    let internal = || Fault::new(FaultCode::Internal, "an array is not as long as its shape says");
    let shape: Option<Vec<usize>> =
        array.shape.iter().map(|length| usize::try_from(*length).ok()).collect();
    let count = shape.as_deref().and_then(elements).ok_or_else(internal)?;
    let size = count.checked_mul(size_of::<T>()).ok_or_else(internal)?;
    if array.data.len() != Some(size as u64) {
        return Err(internal());
    }
    let mut data = vec![T::zeroed(); count];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
    let read = PayloadReader::new(&array.data)?.read_exact(bytes);
    read.map_err(|error| storage_fault(&error))?;
    if cfg!(target_endian = "big") {
        data.iter_mut().for_each(|number| *number = number.swapped());
    }
    Ok(data)
}

/// Numbers whose memory is that of a payload.
struct NumberBuffer<T>(Vec<T>);

impl<T: Number> AsRef<[u8]> for NumberBuffer<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Packs an array without copying its elements.
fn packed<T: Number>(shape: &[usize], mut data: Vec<T>) -> Value {
    if cfg!(target_endian = "big") {
        data.iter_mut().for_each(|number| *number = number.swapped());
    }
    Value::Array(Array {
        element: T::ELEMENT,
        shape: shape.iter().map(|length| *length as u64).collect(),
        data: Payload::Inline(Bytes::from_owner(NumberBuffer(data))),
    })
}

impl<T: Number> FromValue for Vec<T> {
    const IN_MEMORY: bool = true;

    fn data_type() -> DataType {
        data_type::<T>(1)
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        unpacked(&array_of::<T>(value, 1)?)
    }
}

impl<T: Number> IntoValue for Vec<T> {
    fn data_type() -> DataType {
        data_type::<T>(1)
    }

    fn into_value(self) -> Option<Value> {
        Some(packed(&[self.len()], self))
    }
}

impl<T: Number, const RANK: usize> FromValue for ArrayOf<T, RANK> {
    const IN_MEMORY: bool = true;

    fn data_type() -> DataType {
        data_type::<T>(RANK)
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        let array = array_of::<T>(value, RANK)?;
        let data = unpacked(&array)?;
        let mut shape = [0; RANK];
        for (axis, length) in shape.iter_mut().zip(&array.shape) {
            *axis = usize::try_from(*length).map_err(|_| mismatch(&data_type::<T>(RANK)))?;
        }
        Ok(Self { shape, data })
    }
}

impl<T: Number, const RANK: usize> IntoValue for ArrayOf<T, RANK> {
    fn data_type() -> DataType {
        data_type::<T>(RANK)
    }

    fn into_value(self) -> Option<Value> {
        Some(packed(&self.shape, self.data))
    }
}

impl<T: Number, const RANK: usize> FromValue for PackedArray<T, RANK> {
    fn data_type() -> DataType {
        data_type::<T>(RANK)
    }

    fn from_value(value: Option<Value>) -> Result<Self, Fault> {
        let array = array_of::<T>(value, RANK)?;
        Ok(Self { array, number: std::marker::PhantomData })
    }
}

impl<T: Number, const RANK: usize> IntoValue for PackedArray<T, RANK> {
    fn data_type() -> DataType {
        data_type::<T>(RANK)
    }

    fn into_value(self) -> Option<Value> {
        Some(Value::Array(self.array))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_array_goes_there_and_back_to_the_last_bit() {
        let numbers = vec![0.1_f32, -0.0, f32::NAN, f32::INFINITY, 1e-45, 3.0];
        let matrix = Matrix::new([2, 3], numbers.clone()).unwrap();
        let Some(Value::Array(array)) = matrix.into_value() else { panic!("no array") };
        assert_eq!((array.element, &array.shape[..]), (ElementType::Float, &[2, 3][..]));
        let bytes = array.data.pieces().unwrap().concat();
        assert_eq!(bytes[..4], 0.1_f32.to_le_bytes());
        // However the bytes are cut.
        let pieces: Vec<Bytes> = bytes.chunks(5).map(Bytes::copy_from_slice).collect();
        let cut = Array { data: Payload::Pieces(Arc::from(pieces)), ..array };
        let back = Matrix::<f32>::from_value(Some(Value::Array(cut))).unwrap();
        assert_eq!(back.shape(), [2, 3]);
        let bits = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(back.data()), bits(&numbers));
    }

    #[test]
    fn an_array_of_another_type_or_length_is_refused() {
        let value = || vec![1_i32, 2, 3].into_value();
        assert_eq!(Vec::<i32>::from_value(value()), Ok(vec![1, 2, 3]));
        assert!(Vec::<f32>::from_value(value()).is_err());
        assert!(Matrix::<i32>::from_value(value()).is_err());
        assert_eq!(<Matrix<i32> as FromValue>::data_type().name(), "int[][]");
        assert!(Matrix::new([2, 2], vec![1, 2, 3]).is_none());
        let Some(Value::Array(mut array)) = value() else { panic!("no array") };
        array.shape = vec![4];
        assert!(Vec::<i32>::from_value(Some(Value::Array(array))).is_err());
    }

    #[test]
    fn what_is_passed_on_is_not_copied() {
        let Some(Value::Array(array)) = vec![1_i64, 2].into_value() else { panic!("no array") };
        let before = array.data.pieces().unwrap()[0].as_ptr();
        let packed = PackedArray::<i64, 1>::from_value(Some(Value::Array(array))).unwrap();
        assert_eq!(packed.shape(), [2]);
        assert_eq!(packed.data().pieces().unwrap()[0].as_ptr(), before);
    }
}
