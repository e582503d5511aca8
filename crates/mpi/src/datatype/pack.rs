//! Messages as bytes: `MPI_Pack` and `MPI_Unpack` as they are in memory, and in `external32` (MPI 5.0, 5.2, 5.3 and 15.5.2).

use crate::arguments::{Buffer, Integer, Out, Text};
use crate::buffer::Data;
use crate::constants::*;
use crate::datatype::{Basic, Class, Layout};
use crate::entry::entries;
use crate::error::{Error, Result, error};
use crate::handle::{Comm, Datatype};

fn room(needed: usize, position: usize, size: usize) -> Error {
    error(
        MPI_ERR_TRUNCATE,
        format!("{needed} bytes from {position} on are more than the buffer's {size}"),
    )
}

/// A part of a buffer of packed data, from the position on, which moves.
fn part<C: Integer>(buffer: Buffer, size: C, place: Out<C>, needed: usize) -> Result<Buffer> {
    let (size, position) = (size.count()?, place.get()?.count()?);
    let end = position.checked_add(needed).filter(|end| *end <= size);
    let end = end.ok_or_else(|| room(needed, position, size))?;
    place.set(
        i64::try_from(end).ok().and_then(C::of).ok_or_else(|| room(needed, position, size))?,
    )?;
    Ok(buffer.offset(i64::try_from(position).unwrap_or_default()))
}

fn set_size<C: Integer>(place: Out<C>, size: usize) -> Result<()> {
    let size = i64::try_from(size).ok().and_then(C::of);
    place.set(size.ok_or_else(|| {
        error(MPI_ERR_VALUE_TOO_LARGE, "the size does not fit: use the form with _c")
    })?)
}

fn external32(representation: Text) -> Result<()> {
    let name = representation.get()?;
    if name == "external32" {
        return Ok(());
    }
    Err(error(MPI_ERR_ARG, format!("there is no data representation {name}, but external32")))
}

fn external_size(layout: &Layout, count: usize) -> usize {
    layout.external.saturating_mul(count)
}

/// One element from memory to `external32`, or back: big-endian, integers wider or narrower, `long double` with the
/// exponent and the fraction of binary128.
fn convert(basic: Basic, memory: Buffer, external: Buffer, outwards: bool) {
    let parts = basic.parts();
    let (size, wide) = (basic.size / parts, basic.external / parts);
    for part in 0..parts {
        let at = |length: usize| i64::try_from(part * length).unwrap_or_default();
        let (memory, external) = (memory.offset(at(size)), external.offset(at(wide)));
        let mut value = [0u8; 16];
        if outwards {
            value[..size].copy_from_slice(memory.bytes(size));
            if matches!(basic.class, Class::LongDouble | Class::LongDoubleComplex) {
                value = quad_of_extended(value);
            } else if basic.class == Class::Signed && size < wide && value[size - 1] >= 0x80 {
                value[size..].fill(0xff);
            }
            let target = external.bytes_mut(wide);
            target.copy_from_slice(&value[..wide]);
            target.reverse();
        } else {
            value[..wide].copy_from_slice(external.bytes(wide));
            value[..wide].reverse();
            if matches!(basic.class, Class::LongDouble | Class::LongDoubleComplex) {
                value = extended_of_quad(value);
            } else if basic.class == Class::Signed && wide < size && value[wide - 1] >= 0x80 {
                value[wide..].fill(0xff);
            }
            memory.bytes_mut(size).copy_from_slice(&value[..size]);
        }
    }
}

/// x87's 80 bits have the leading one of the fraction explicitly; binary128 does not.
fn quad_of_extended(bytes: [u8; 16]) -> [u8; 16] {
    let bits = u128::from_le_bytes(bytes);
    let (sign_exponent, fraction) = ((bits >> 64) & 0xffff, bits & (u128::from(u64::MAX) >> 1));
    (sign_exponent << 112 | fraction << 49).to_le_bytes()
}

fn extended_of_quad(bytes: [u8; 16]) -> [u8; 16] {
    let bits = u128::from_le_bytes(bytes);
    let (sign_exponent, fraction) = (bits >> 112, (bits >> 49) & (u128::from(u64::MAX) >> 1));
    let leading = if sign_exponent & 0x7fff == 0 { 0 } else { 1 << 63 };
    (sign_exponent << 64 | leading | fraction).to_le_bytes()
}

fn convert_all(data: &Data, mut external: Buffer, outwards: bool) {
    data.layout.walk(data.count, false, &mut |at, _, basic| {
        convert(basic, data.buffer.offset(at), external, outwards);
        external = external.offset(i64::try_from(basic.external).unwrap_or_default());
        true
    });
}

fn pack_external<C: Integer, S: Integer>(
    name: Text,
    from: Buffer,
    count: C,
    datatype: Datatype,
    to: Buffer,
    size: S,
    position: Out<S>,
) -> Result<()> {
    external32(name)?;
    let data = Data::new(from, count, datatype)?;
    let to = part(to, size, position, external_size(&data.layout, data.count))?;
    convert_all(&data, to, true);
    Ok(())
}

fn unpack_external<C: Integer, S: Integer>(
    name: Text,
    from: Buffer,
    size: S,
    position: Out<S>,
    to: Buffer,
    count: C,
    datatype: Datatype,
) -> Result<()> {
    external32(name)?;
    let data = Data::new(to, count, datatype)?;
    let from = part(from, size, position, external_size(&data.layout, data.count))?;
    convert_all(&data, from, false);
    Ok(())
}

entries! {
    fn Pack_size<C>(count: C, datatype: Datatype, comm: Comm, size: Out<C>) on comm => {
        comm.get()?;
        set_size(size, datatype.get()?.layout.size.saturating_mul(count.count()?))
    }
    fn Pack<C>(
        from: Buffer, count: C, datatype: Datatype, to: Buffer, size: C, position: Out<C>, comm: Comm,
    ) on comm => {
        comm.get()?;
        let data = Data::new(from, count, datatype)?;
        let to = part(to, size, position, data.size())?;
        data.pack(to.bytes_mut(data.size()));
        Ok(())
    }
    fn Unpack<C>(
        from: Buffer, size: C, position: Out<C>, to: Buffer, count: C, datatype: Datatype, comm: Comm,
    ) on comm => {
        comm.get()?;
        let data = Data::new(to, count, datatype)?;
        let from = part(from, size, position, data.size())?;
        data.unpack(from.bytes(data.size()));
        Ok(())
    }
    fn Pack_external_size(name: Text, count: i32, datatype: Datatype, size: Out<i64>) on () => {
        external32(name)?;
        set_size(size, external_size(&datatype.get()?.layout, count.count()?))
    }
    fn Pack_external_size_c(name: Text, count: i64, datatype: Datatype, size: Out<i64>) on () => {
        external32(name)?;
        set_size(size, external_size(&datatype.get()?.layout, count.count()?))
    }
    fn Pack_external<C>(
        name: Text, from: Buffer, count: C, datatype: Datatype, to: Buffer, size: i64, position: Out<i64>,
    ) on () => {
        pack_external(name, from, count, datatype, to, size, position)
    }
    fn Unpack_external<C>(
        name: Text, from: Buffer, size: i64, position: Out<i64>, to: Buffer, count: C, datatype: Datatype,
    ) on () => {
        unpack_external(name, from, size, position, to, count, datatype)
    }
}
