//! Outputs that are arrays, into files.

use std::path::Path;

use fishplate_contract::Array;
use fishplate_formats::array_file::{self, Format};

use crate::error::Error;
use crate::save::{save, save_with};

/// Writes an array to a file in the format that its name says; its length in bytes.
pub async fn save_array(array: &Array, to: &Path) -> Result<u64, Error> {
    let format = Format::of_name(to);
    if format == Format::PLAIN {
        let len = array.data.len().unwrap_or(0);
        save(&array.data, to).await?;
        return Ok(len);
    }
    let array = array.clone();
    save_with(to, move |file| array_file::write(&array, &format, file)).await
}
