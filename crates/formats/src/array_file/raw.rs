//! Numbers one after the other. Such a file tells its length only: the shape is known, but for one
//! axis at the most.

use fishplate_contract::{Array, ElementType};

/// The shape of an array whose axes are so long, as far as that is known, from the length of its
/// bytes.
///
/// # Errors
/// Why the length does not fit: what was found, and what would be right.
pub fn shape(element: ElementType, axes: &[Option<u64>], len: u64) -> Result<Vec<u64>, String> {
    let known: Vec<u64> = axes.iter().flatten().copied().collect();
    let name = element.name();
    let too_large = || format!("an array of {} {name} is larger than any file", text(&known));
    let size = Array::size(element, &known).ok_or_else(too_large)?;
    match axes.len() - known.len() {
        0 if size == len => Ok(known),
        0 => {
            let shape = text(&known);
            Err(format!("the file has {len} bytes, and {shape} {name} have {size}"))
        }
        1 if size == 0 && len == 0 => Ok(axes.iter().map(|axis| axis.unwrap_or(0)).collect()),
        1 if size > 0 && len.is_multiple_of(size) => {
            Ok(axes.iter().map(|axis| axis.unwrap_or(len / size)).collect())
        }
        1 => {
            let shape = if known.is_empty() { "one".to_owned() } else { text(&known) };
            Err(format!(
                "the file has {len} bytes, no multiple of the {size} that {shape} {name} have"
            ))
        }
        unknown => Err(format!(
            "a raw file does not tell its shape, and {unknown} axes are of unknown length; one may be"
        )),
    }
}

fn text(shape: &[u64]) -> String {
    Array::shape_text(shape)
}

/// Turns the bytes of each number around.
pub fn swap(bytes: &mut [u8], size: usize) {
    match size {
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|it| it.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|it| it.reverse()),
        _ => bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_tells_one_axis() {
        let double = |axes: &[Option<u64>], len| shape(ElementType::Double, axes, len);
        assert_eq!(double(&[Some(2), Some(3)], 48), Ok(vec![2, 3]));
        assert_eq!(double(&[None, Some(3)], 48), Ok(vec![2, 3]));
        assert_eq!(double(&[Some(2), None], 48), Ok(vec![2, 3]));
        assert_eq!(double(&[None], 0), Ok(vec![0]));
        assert_eq!(double(&[None, Some(0)], 0), Ok(vec![0, 0]));
        assert_eq!(double(&[Some(0), Some(3)], 0), Ok(vec![0, 3]));
        for (axes, len, message) in [
            (&[Some(2), Some(3)][..], 40, "the file has 40 bytes, and 2 x 3 double have 48"),
            (
                &[None, Some(3)],
                47,
                "the file has 47 bytes, no multiple of the 24 that 3 double have",
            ),
            (&[None], 3, "the file has 3 bytes, no multiple of the 8 that one double have"),
            (&[None, Some(0)], 8, "the file has 8 bytes, no multiple of the 0 that 0 double have"),
            (
                &[None, None],
                8,
                "a raw file does not tell its shape, and 2 axes are of unknown length; one may be",
            ),
            (
                &[Some(u64::MAX), Some(2)],
                8,
                "an array of 18446744073709551615 x 2 double is larger than any file",
            ),
        ] {
            assert_eq!(double(axes, len), Err(message.to_owned()), "{axes:?}");
        }
    }
}
