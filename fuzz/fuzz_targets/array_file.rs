#![no_main]
//! A text of numbers, however it is cut, gives the same array or the same mistake; what it gives is
//! as large as its shape says, and reads back from what is printed of it. No header of `.npy` makes
//! its reader panic.

use fishplate_contract::{Array, ElementType};
use fishplate_formats::array_file::npy::NpyHeader;
use fishplate_formats::array_file::text::{TextError, TextReader, TextWriter};

type Read = Result<(Vec<u64>, Vec<u8>), TextError>;

fn read(text: &[u8], cut: usize, reader: TextReader) -> Read {
    let (mut reader, mut numbers) = (reader, Vec::new());
    for chunk in text.chunks(cut) {
        reader.feed(chunk, &mut numbers)?;
    }
    Ok((reader.finish(&mut numbers)?, numbers))
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = NpyHeader::parse(data);
    let [cut, form, text @ ..] = data else { return };
    let element = ElementType::ALL[usize::from(form & 3)];
    let delimiter = if form & 4 == 0 { ' ' } else { ',' };
    let axes: &[Option<u64>] = match form >> 3 & 7 {
        0 => &[None],
        1 => &[None, Some(2)],
        2 => &[Some(2), None, Some(3)],
        _ => &[None, None],
    };
    let reader = || TextReader::new(element, axes, delimiter);
    let whole = read(text, text.len().max(1), reader());
    assert_eq!(read(text, usize::from(*cut) + 1, reader()), whole);
    let Ok((shape, numbers)) = whole else { return };
    assert_eq!(Array::size(element, &shape), Some(numbers.len() as u64));
    if numbers.is_empty() {
        return;
    }
    let mut printed = Vec::new();
    TextWriter::new(element, &shape, delimiter).feed(&numbers, &mut printed);
    assert_eq!(read(&printed, printed.len(), reader()), Ok((shape, numbers)));
});
