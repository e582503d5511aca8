//! Arrays in files: text, raw numbers, `.npy`; both ways, in bounded memory.
//!
//! Reading order:
//!
//! - [`Format`]: what a file looks like
//! - [`read`](mod@read), [`write`](mod@write): a file to an array's bytes and back
//! - [`text`]: rows of numbers, pushed in chunks cut anywhere
//! - [`raw`]: numbers one after the other; shapes from lengths
//! - [`npy`]: NumPy's format
//! - [`sample`](mod@sample): what an array looks like, from some of its bytes
//! - `transpose`: from one order of the elements to the other
//! - `source`: the bytes of a payload, wherever they are

mod format;
pub mod npy;
pub mod raw;
mod read;
pub mod sample;
mod source;
#[cfg(test)]
mod tests;
pub mod text;
mod transpose;
mod write;

pub use format::{ByteOrder, Format, Order};
pub use read::{FoundArray, LocatedBytes, ReadError, SMALL, read};
pub use write::{to_bytes, write};
