//! What a file of numbers looks like.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// How a file holds an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A row a line, the last index running along the line; for one dimension, a number a line.
    /// What follows `#` is a comment.
    Text {
        /// Stands between two numbers; a blank or a tabulator is any white space when it is read.
        delimiter: char,
    },
    /// Numbers and nothing else: the shape comes from elsewhere.
    Raw {
        /// Of the bytes of a number.
        byte_order: ByteOrder,
        /// Of the numbers.
        order: Order,
    },
    /// NumPy's `.npy`, versions 1.0 to 3.0; written in C order, little-endian.
    Npy,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// The least significant.
    #[default]
    Little,
    /// The most significant.
    Big,
}

/// Which index runs fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The last: row after row.
    #[default]
    C,
    /// The first: column after column.
    Fortran,
}

impl Default for Format {
    fn default() -> Self {
        Self::Text { delimiter: ' ' }
    }
}

impl Format {
    /// An array's bytes as they are everywhere else in Fishplate.
    pub const PLAIN: Self = Self::Raw { byte_order: ByteOrder::Little, order: Order::C };

    /// What a file of this name is expected to be: `.npy`, `.csv`, `.bin` and `.raw`, else text.
    pub fn of_name(path: &Path) -> Self {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match suffix.to_ascii_lowercase().as_str() {
            "npy" => Self::Npy,
            "csv" => Self::Text { delimiter: ',' },
            "bin" | "raw" => Self::PLAIN,
            _ => Self::default(),
        }
    }

    /// The file does not tell the array's shape.
    pub fn is_raw(&self) -> bool {
        matches!(self, Self::Raw { .. })
    }

    /// Why this character cannot stand between numbers; `None` if it can.
    pub fn reject_delimiter(delimiter: char) -> Option<&'static str> {
        match delimiter {
            '\t' | ' ' => None,
            '+' | '-' | '.' | '_' => Some("it may stand in a number"),
            '#' => Some("it begins a comment"),
            _ if delimiter.is_ascii_punctuation() => None,
            _ => Some("a delimiter is a sign such as `,` or `;`, a blank or a tabulator"),
        }
    }
}
