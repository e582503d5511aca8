use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes as Piece;
use fishplate_contract::{Array, ElementType, FileHandle, Payload};
use proptest::prelude::*;

use super::text::{TextError, TextReader, TextWriter};
use super::*;

/// What was read, wherever it is.
pub(super) fn bytes_of(found: &FoundArray, same: &File) -> Vec<u8> {
    match &found.bytes {
        LocatedBytes::Memory(bytes) => bytes.clone(),
        LocatedBytes::Same => all_of(same),
        LocatedBytes::New(file) => all_of(file),
    }
}

fn all_of(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    file
}

fn read_back(
    file: &File,
    format: Format,
    element: ElementType,
    axes: &[Option<u64>],
) -> Result<(Vec<u64>, Vec<u8>), String> {
    let found = read(file, &format, element, axes, &mut tempfile::tempfile);
    let found = found.map_err(|error| error.about("f"))?;
    let bytes = bytes_of(&found, file);
    Ok((found.shape, bytes))
}

fn numbers(text: &str, element: ElementType) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in text.split(' ').filter(|number| !number.is_empty()) {
        assert!(element.parse(number.as_bytes(), &mut bytes), "{number}");
    }
    bytes
}

const FORMATS: [Format; 7] = [
    Format::Text { delimiter: ' ' },
    Format::Text { delimiter: ',' },
    Format::Text { delimiter: '\t' },
    Format::PLAIN,
    Format::Raw { byte_order: ByteOrder::Big, order: Order::C },
    Format::Raw { byte_order: ByteOrder::Little, order: Order::Fortran },
    Format::Npy,
];

#[derive(Debug)]
struct InFile(PathBuf, u64);

impl FileHandle for InFile {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn len(&self) -> u64 {
        self.1
    }

    fn keep(&self) {}
}

/// The same bytes in one piece, in pieces that cut elements, and in a file.
fn payloads(bytes: &[u8], directory: &std::path::Path) -> [Payload; 3] {
    let path = directory.join("payload");
    std::fs::write(&path, bytes).unwrap();
    let pieces: Vec<Piece> = bytes.chunks(7).map(Piece::copy_from_slice).collect();
    [
        Payload::Inline(Piece::copy_from_slice(bytes)),
        Payload::Pieces(pieces.into()),
        Payload::Spooled(Arc::new(InFile(path, bytes.len() as u64))),
    ]
}

fn check_round_trip(element: ElementType, shape: &[u64], bytes: &[u8], format: Format) {
    let directory = tempfile::tempdir().unwrap();
    let axes: Vec<Option<u64>> = match format {
        Format::Raw { .. } => shape.iter().map(|length| Some(*length)).collect(),
        // Text tells two dimensions, and that there is nothing but of what length.
        _ if shape.len() > 2 || bytes.is_empty() => {
            shape.iter().map(|length| Some(*length)).collect()
        }
        _ => shape.iter().map(|_| None).collect(),
    };
    for data in payloads(bytes, directory.path()) {
        let array = Array { element, shape: shape.to_vec(), data };
        let path = directory.path().join("array");
        write(&array, &format, &File::create(&path).unwrap()).unwrap();
        let written = File::open(&path).unwrap();
        let read = read_back(&written, format, element, &axes);
        assert_eq!(read, Ok((shape.to_vec(), bytes.to_vec())), "{format:?} {shape:?}");
        if bytes.len() <= SMALL {
            assert_eq!(to_bytes(&array, &format).unwrap(), std::fs::read(&path).unwrap());
        }
    }
}

fn any_array() -> impl Strategy<Value = (ElementType, Vec<u64>, Vec<u8>)> {
    let element = prop::sample::select(ElementType::ALL.to_vec());
    (element, prop::collection::vec(0..6_u64, 1..5)).prop_flat_map(|(element, shape)| {
        let size = usize::try_from(Array::size(element, &shape).unwrap()).unwrap();
        let bytes = prop::collection::vec(any::<u8>(), size);
        (Just(element), Just(shape), bytes)
    })
}

/// Text knows one NaN.
fn with_one_nan(element: ElementType, bytes: Vec<u8>) -> Vec<u8> {
    match element {
        ElementType::Int | ElementType::Long => bytes,
        ElementType::Float => {
            let number = |it: &[u8]| f32::from_le_bytes(it.try_into().unwrap());
            let plain = |it: f32| if it.is_nan() { f32::NAN } else { it };
            bytes.chunks(4).flat_map(|it| plain(number(it)).to_le_bytes()).collect()
        }
        ElementType::Double => {
            let number = |it: &[u8]| f64::from_le_bytes(it.try_into().unwrap());
            let plain = |it: f64| if it.is_nan() { f64::NAN } else { it };
            bytes.chunks(8).flat_map(|it| plain(number(it)).to_le_bytes()).collect()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_array_reads_back_from_every_format_to_the_last_bit((element, shape, bytes) in any_array()) {
        for format in FORMATS {
            let bytes = match format {
                Format::Text { .. } => with_one_nan(element, bytes.clone()),
                _ => bytes.clone(),
            };
            check_round_trip(element, &shape, &bytes, format);
        }
    }

    #[test]
    fn it_does_not_matter_where_a_text_is_cut(
        text in "([0-9]{1,3}|[-+.,# \t\r\n]|1e5|INF|nan|2D1|\u{feff}){0,40}",
        cuts in prop::collection::vec(1..9_usize, 1..5),
        axes in prop::collection::vec(prop::option::of(0..4_u64), 1..4),
        delimiter in prop::sample::select(vec![' ', ',']),
    ) {
        let whole = push(&text, &[text.len().max(1)], ElementType::Double, &axes, delimiter);
        prop_assert_eq!(push(&text, &cuts, ElementType::Double, &axes, delimiter), whole);
    }
}

fn push(
    text: &str,
    cuts: &[usize],
    element: ElementType,
    axes: &[Option<u64>],
    delimiter: char,
) -> Result<(Vec<u64>, Vec<u8>), TextError> {
    let mut reader = TextReader::new(element, axes, delimiter);
    let (mut rest, mut bytes) = (text.as_bytes(), Vec::new());
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(rest.len().min(*cut));
        reader.feed(chunk, &mut bytes)?;
        rest = after;
    }
    Ok((reader.finish(&mut bytes)?, bytes))
}

#[test]
fn large_arrays_take_the_ways_through_files() {
    // Larger than what is turned in memory, and than a tile both ways.
    let shapes: [&[u64]; 5] = [&[110, 90], &[3, 5000], &[5000, 3], &[30, 25, 20], &[3, 9, 110, 5]];
    for shape in shapes {
        let count: u64 = shape.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|at| (at as f64).to_le_bytes()).collect();
        for format in [
            Format::PLAIN,
            Format::Raw { byte_order: ByteOrder::Big, order: Order::Fortran },
            Format::Npy,
        ] {
            assert!(bytes.len() as u64 > transpose::IN_MEMORY);
            check_round_trip(ElementType::Double, shape, &bytes, format);
        }
    }
    let bytes: Vec<u8> =
        (0..30_000_i32).flat_map(|at| at.wrapping_mul(7919).to_le_bytes()).collect();
    check_round_trip(ElementType::Int, &[30, 1000], &bytes, Format::default());
}

#[test]
fn fortran_order_is_column_after_column() {
    let format = Format::Raw { byte_order: ByteOrder::Little, order: Order::Fortran };
    let columns = file_of(&numbers("1 4 2 5 3 6", ElementType::Float));
    let read = read_back(&columns, format, ElementType::Float, &[Some(2), None]);
    assert_eq!(read, Ok((vec![2, 3], numbers("1 2 3 4 5 6", ElementType::Float))));
}

fn text(content: &str, axes: &[Option<u64>]) -> Result<(Vec<u64>, Vec<u8>), String> {
    read_back(&file_of(content.as_bytes()), Format::default(), ElementType::Double, axes)
}

#[test]
fn text_is_read_as_programs_print_it() {
    let two_rows = Ok((vec![2, 2], numbers("1 2 3 4", ElementType::Double)));
    for content in [
        "1 2\n3 4\n",
        "1 2\n3 4",
        "1 2\r\n3 4\r\n",
        "  1\t 2 \n\n 3   4\n\n",
        "# x y\n1 2 # the first\n#\n3 4\n#",
        "\u{feff}1 2\n3 4\n",
        "\u{feff}# title\n1 2\n3 4\n",
        "  0.1D+01   2.0d0\n  +3.00E+00  4\n",
        "1.000000000000000000e+00 2.000000000000000000e+00\n3 4",
    ] {
        assert_eq!(text(content, &[None, None]), two_rows, "{content:?}");
    }
    let comma = Format::Text { delimiter: ',' };
    for content in ["1,2\n3,4\n", " 1 , 2 \r\n3,4", "1,2 # c\n\n3,\t4"] {
        let read =
            read_back(&file_of(content.as_bytes()), comma, ElementType::Double, &[None, None]);
        assert_eq!(read, two_rows, "{content:?}");
    }
    let special = "inf -Infinity +INF NaN nan -nan 1.5-100 2.5+007 1q2";
    let expected = numbers("INF -INF INF NaN NaN NaN 1.5e-100 2.5e7 1e2", ElementType::Double);
    assert_eq!(text(special, &[None]), Ok((vec![9], expected)));
}

#[test]
fn the_shape_is_that_of_the_rows_or_as_it_was_told() {
    let one = numbers("1 2 3 4 5 6", ElementType::Double);
    let vector = "1 2\n3\n4 5 6\n";
    assert_eq!(text(vector, &[None]), Ok((vec![6], one.clone())));
    // Rows of a known length may go on in the next line.
    let wrapped = "1 2\n3\n4\n5 6\n";
    assert_eq!(text(wrapped, &[None, Some(3)]), Ok((vec![2, 3], one.clone())));
    let rows = "1\n2\n3\n4\n5\n6\n";
    assert_eq!(text(rows, &[Some(2), Some(3), Some(1)]), Ok((vec![2, 3, 1], one.clone())));
    assert_eq!(text(rows, &[Some(2), None, None]), Ok((vec![2, 3, 1], one)));
    let nothing: [(&[Option<u64>], &[u64]); 5] = [
        (&[None], &[0]),
        (&[None, None], &[0, 0]),
        (&[None, Some(3)], &[0, 3]),
        (&[Some(4), Some(0)], &[4, 0]),
        (&[Some(4), None, Some(2)], &[4, 0, 2]),
    ];
    for (axes, shape) in nothing {
        for content in ["", "\n", "# nothing\n", " \r\n"] {
            assert_eq!(text(content, axes), Ok((shape.to_vec(), Vec::new())), "{axes:?}");
        }
    }
}

#[test]
fn a_text_that_does_not_fit_is_told_with_its_place() {
    let known = &[Some(2), Some(3)];
    let (any, unknown) = (&[None, None], &[None, None, None]);
    let cases: [(&str, &[Option<u64>], &str); 9] = [
        ("1 2\n3 x4 5\n", any, "f, line 2, column 3: \"x4\" is not a number"),
        ("1 2\n3\n", any, "f, line 2, column 2: row 2 has 1 numbers, and row 1 has 2"),
        ("1 2\n3 4 5", any, "f, line 2, column 6: row 2 has 3 numbers, and row 1 has 2"),
        (
            "1 2 3\n4 5\n",
            known,
            "f, line 3, column 1: row 2 has 2 numbers, not 3, and the file ends",
        ),
        ("1 2\n3 4\n", known, "f, line 2, column 3: row 1 has more than 3 numbers"),
        ("1 2 3\n4 5 6 7\n", known, "f, line 2, column 7: row 2 has more than 3 numbers"),
        (
            "1\n",
            &[Some(1), Some(2), Some(1)],
            "f, line 2, column 1: the file has 1 rows, not 1 x 2",
        ),
        (
            "1\n",
            &[None, Some(2), Some(1)],
            "f, line 2, column 1: the file has 1 rows, no multiple of 2",
        ),
        (
            "1\n",
            unknown,
            "f, line 2, column 1: text does not tell the shape of an array of more than two \
             dimensions: all of them but the last and one other must be known",
        ),
    ];
    for (content, axes, message) in cases {
        assert_eq!(text(content, axes), Err(message.to_owned()), "{content:?}");
    }
    let comma = |content: &str| {
        let format = Format::Text { delimiter: ',' };
        read_back(&file_of(content.as_bytes()), format, ElementType::Int, &[None, None])
            .unwrap_err()
    };
    assert_eq!(comma("1,,2\n"), "f, line 1, column 3: a number is missing before `,`");
    assert_eq!(comma("1,2,\n"), "f, line 1, column 5: a number is missing after the last `,`");
    assert_eq!(comma(",1\n"), "f, line 1, column 1: a number is missing before `,`");
    assert_eq!(comma("1 2\n"), "f, line 1, column 3: `,` is missing between two numbers");
    assert_eq!(
        comma("1,99999999999\n"),
        "f, line 1, column 3: \"99999999999\" is not a whole number from -2147483648 to 2147483647"
    );
}

#[test]
fn whole_numbers_may_be_printed_as_real_ones_if_they_are_whole() {
    let read = |content: &str| {
        let format = Format::default();
        read_back(&file_of(content.as_bytes()), format, ElementType::Long, &[None])
    };
    let expected = Ok((vec![3], numbers("3 -20 9007199254740992", ElementType::Long)));
    assert_eq!(read("3.0 -2e1 9.007199254740992e15"), expected);
    for (text, exactly) in [
        ("9007199254740993.0", "9007199254740993"),
        ("-9.223372036854775808E+18", "-9223372036854775808"),
        ("9223372036854775807.", "9223372036854775807"),
        ("+00000000000000000000000012.50e1", "125"),
        ("1234500e-2", "12345"),
        (".7e1", "7"),
        ("-0.0", "0"),
        ("0e-99", "0"),
        ("1e16", "10000000000000000"),
    ] {
        assert_eq!(read(text), Ok((vec![1], numbers(exactly, ElementType::Long))), "{text}");
    }
    for bad in [
        "1.5",
        "0.99999999999999999999",
        "4503599627370496.4",
        "9223372036854775808.0",
        "1e19",
        "1e-1",
        "1e-2147483648",
        "1e2147483647",
        "1e99999999999999999999",
        "nan",
        "1e400",
        "x",
        ".",
        "-.",
        "e1",
        "1e",
        "1.0.0",
        "--1.0",
        "1.-0",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_very_long_number_is_none_wherever_it_is_cut() {
    let long = "1".repeat(600);
    for cuts in [&[600][..], &[1], &[511, 89]] {
        let error = push(&long, cuts, ElementType::Double, &[None], ' ').unwrap_err();
        assert_eq!((error.line, error.column), (1, 1));
    }
}

#[test]
fn text_is_written_a_row_a_line_and_a_vector_a_number_a_line() {
    let written = |shape: &[u64], delimiter| {
        let (mut writer, mut text) =
            (TextWriter::new(ElementType::Int, shape, delimiter), Vec::new());
        writer.feed(&numbers("1 -2 3 4 5 6", ElementType::Int), &mut text);
        String::from_utf8(text).unwrap()
    };
    assert_eq!(written(&[2, 3], ' '), "1 -2 3\n4 5 6\n");
    assert_eq!(written(&[3, 1, 2], ','), "1,-2\n3,4\n5,6\n");
    assert_eq!(written(&[6], ';'), "1\n-2\n3\n4\n5\n6\n");
}

mod npy_files {
    use super::*;

    fn npy(descr: &str, fortran: bool, shape: &str, numbers: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), numbers].concat()
    }

    fn read(bytes: &[u8], element: ElementType) -> Result<(Vec<u64>, Vec<u8>), String> {
        read_back(&file_of(bytes), Format::Npy, element, &[None, None])
    }

    #[test]
    fn what_numpy_itself_wrote_is_read() {
        // numpy.save of numpy.array([[1.5, 2.5]], dtype="f4"), NumPy 1.26.
        let mut file =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
                .to_vec();
        file.resize(127, b' ');
        file.push(b'\n');
        file.extend(numbers("1.5 2.5", ElementType::Float));
        assert_eq!(
            read(&file, ElementType::Float),
            Ok((vec![1, 2], numbers("1.5 2.5", ElementType::Float)))
        );
        let ours = npy::NpyHeader::print(ElementType::Float, &[1, 2]);
        assert_eq!(ours, file[..128], "and written to the letter");
    }

    #[test]
    fn other_orders_and_types_are_converted_where_nothing_is_lost() {
        let six = numbers("1 2 3 4 5 6", ElementType::Double);
        let columns = numbers("1 4 2 5 3 6", ElementType::Double);
        assert_eq!(
            read(&npy("<f8", true, "(2, 3)", &columns), ElementType::Double),
            Ok((vec![2, 3], six.clone()))
        );
        let narrow = numbers("1 4 2 5 3 6", ElementType::Float);
        assert_eq!(
            read(&npy("<f4", true, "(2, 3)", &narrow), ElementType::Double),
            Ok((vec![2, 3], six.clone()))
        );
        let mut big = six.clone();
        big.chunks_mut(8).for_each(<[u8]>::reverse);
        assert_eq!(
            read(&npy(">f8", false, "(2, 3)", &big), ElementType::Double),
            Ok((vec![2, 3], six.clone()))
        );
        let whole = numbers("1 2 3 4 5 6", ElementType::Long);
        assert_eq!(
            read(&npy("<i8", false, "(2L, 3L)", &whole), ElementType::Double),
            Ok((vec![2, 3], six))
        );
        let ints = numbers("1 2 3 4 5 6", ElementType::Int);
        assert_eq!(
            read(&npy("<i8", false, "(2, 3)", &whole), ElementType::Int),
            Ok((vec![2, 3], ints.clone()))
        );
        assert_eq!(
            read(&npy("|u1", false, "(2, 3)", &[1, 2, 3, 4, 5, 6]), ElementType::Int),
            Ok((vec![2, 3], ints))
        );
        let signed = read(&npy("|i1", false, "(1, 2)", &[0xFF, 0x7F]), ElementType::Long);
        assert_eq!(signed, Ok((vec![1, 2], numbers("-1 127", ElementType::Long))));
    }

    #[test]
    fn large_files_are_converted_and_turned_too() {
        let (rows, columns) = (160_i32, 140_i32);
        let by_columns: Vec<u8> = (0..columns)
            .flat_map(|column| (0..rows).flat_map(move |row| (row * 1000 + column).to_le_bytes()))
            .collect();
        let by_rows: Vec<u8> = (0..rows)
            .flat_map(|row| {
                (0..columns).flat_map(move |column| f64::from(row * 1000 + column).to_le_bytes())
            })
            .collect();
        let found =
            read(&npy("<i4", true, "(160, 140)", &by_columns), ElementType::Double).unwrap();
        assert_eq!(found.0, [160, 140]);
        assert!(found.1 == by_rows);
    }

    #[test]
    fn what_would_lose_something_or_is_no_array_is_refused() {
        let one = |descr: &str, bytes: &[u8], element| {
            read(&npy(descr, false, "(1, 1)", bytes), element).unwrap_err()
        };
        assert_eq!(
            one("<f8", &[0; 8], ElementType::Float),
            "f: its dtype is float64, and float32 is wanted: save array.astype(\"float32\")"
        );
        assert_eq!(
            one("<f4", &[0; 4], ElementType::Int),
            "f: its dtype is float32, and int32 is wanted: save array.astype(\"int32\")"
        );
        assert_eq!(
            one("<i8", &3_000_000_000_i64.to_le_bytes(), ElementType::Int),
            "f: its number 3000000000 (index 0) does not fit int"
        );
        assert_eq!(
            one("<i4", &16_777_217_i32.to_le_bytes(), ElementType::Float),
            "f: its number 16777217 (index 0) does not fit float"
        );
        assert_eq!(
            one("<u8", &[0xFF; 8], ElementType::Long),
            "f: its number 18446744073709551615 (index 0) does not fit long"
        );
        assert_eq!(
            one("<c8", &[0; 8], ElementType::Float),
            "f: its dtype \"<c8\" is none of real or whole numbers"
        );
        assert_eq!(
            one("<f4", &[0; 3], ElementType::Float),
            "f: its header tells of 1 x 1 float32, and 3 bytes follow it"
        );
        for (bytes, message) in [
            (&b""[..], "f: it is no .npy file: it does not begin with \\x93NUMPY"),
            (b"1 2\n", "f: it is no .npy file: it does not begin with \\x93NUMPY"),
            (b"\x93NUMPY", "f: its header is cut off"),
            (b"\x93NUMPY\x01\x00\xff\x00{", "f: its header is cut off"),
            (b"\x93NUMPY\x04\x00\x00\x00", "f: its version 4 is not one of 1, 2 and 3"),
            (
                b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
                "f: its header has 4294967295 bytes, more than 65536",
            ),
            (
                b"\x93NUMPY\x01\x00\x02\x00{}",
                "f: its header lacks one of descr, fortran_order and shape",
            ),
        ] {
            assert_eq!(read(bytes, ElementType::Float), Err(message.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "[{}()'a-z<f8:, 0-9]{0,80}") {
            let whole = [b"\x93NUMPY\x01\x00\x50\x00".as_slice(), text.as_bytes(), &bytes].concat();
            let _ = npy::NpyHeader::parse(&whole);
            let _ = npy::NpyHeader::parse(&bytes);
        }
    }
}
