//! Arrays of numbers as people write them: from files and words to values, and back to files, text
//! and JSON.
//!
//! - `load`: `m:matrix.npy`, `m=[[1,2],[3,4]]`
//! - `save`: `out:m=matrix.csv`
//! - `nested`: lists within lists

mod load;
mod nested;
mod save;

pub use load::{ArrayError, from_file, from_text};
pub use nested::{as_json, as_text};
pub use save::save_array;
