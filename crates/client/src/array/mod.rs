//! Arrays of numbers as people write them: from files and words to values, and back to files.
//!
//! - `load`: `m:matrix.npy`, `m=[[1,2],[3,4]]`
//! - `save`: `out:m=matrix.csv`

mod load;
mod save;

pub use load::{ArrayError, from_file, from_text};
pub use save::save_array;
