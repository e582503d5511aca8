//! The parsers on any text: what was printed comes back, and nothing else is taken for it.

use fishplate_contract::{
    ArrayType, DataType, Digest, Dimension, ElementType, FaultCode, JobId, Parameter, lexical,
    number,
};
use proptest::prelude::*;

/// Texts near to numbers, and any others.
fn near_number() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+]?[0-9]{0,25}",
        "[-+]?[0-9]{0,6}\\.?[0-9]{0,6}([eEdDqQ][-+]?[0-9]{0,4})?",
        "[-+]?[0-9]{1,3}\\.[0-9]{0,3}[-+][0-9]{1,3}",
        "[-+]?(inf|Inf|INF|infinity|Infinity|nan|NaN|NAN)x?",
        "\\PC{0,12}",
    ]
}

fn scalar() -> impl Strategy<Value = DataType> {
    proptest::sample::select(&DataType::NAMES[..6])
        .prop_map(|name| DataType::from_name(name).unwrap())
}

fn dimension() -> impl Strategy<Value = Dimension> {
    prop_oneof![
        Just(Dimension::Any),
        "[A-Za-z_][A-Za-z0-9_.-]{0,5}".prop_map(Dimension::Named),
        any::<u64>().prop_map(Dimension::Fixed),
    ]
}

proptest! {
    #[test]
    fn whole_numbers_are_read_as_they_were_printed(long: i64, int: i32) {
        let mut text = Vec::new();
        number::print_long(long, &mut text);
        prop_assert_eq!(&text, &long.to_string().into_bytes());
        prop_assert_eq!(number::long(&text), Some(long));
        prop_assert_eq!(number::int(&text), i32::try_from(long).ok());
        text.clear();
        number::print_int(int, &mut text);
        prop_assert_eq!(number::int(&text), Some(int));
    }

    #[test]
    fn reals_are_read_as_they_were_printed_to_the_last_bit(double: u64, float: u32) {
        let (double, float) = (f64::from_bits(double), f32::from_bits(float));
        let mut text = Vec::new();
        number::print_double(double, &mut text);
        let same = |read: f64| read.to_bits() == double.to_bits() || read.is_nan() && double.is_nan();
        prop_assert!(number::double(&text).is_some_and(same));
        text.clear();
        number::print_float(float, &mut text);
        let same = |read: f32| read.to_bits() == float.to_bits() || read.is_nan() && float.is_nan();
        prop_assert!(number::float(&text).is_some_and(same));
    }

    #[test]
    fn numbers_are_those_of_rust_and_what_other_languages_add(text in near_number()) {
        prop_assert_eq!(number::int(text.as_bytes()), text.parse().ok());
        prop_assert_eq!(number::long(text.as_bytes()), text.parse().ok());
        let read = number::double(text.as_bytes());
        match text.parse::<f64>() {
            Ok(number) if number.is_nan() => prop_assert!(read.is_some_and(f64::is_nan)),
            Ok(number) => prop_assert_eq!(read, Some(number)),
            // Fortran's: what it is written as is the same number.
            Err(_) => prop_assert_eq!(
                read,
                number::real_text(&text).map(|text| text.parse().expect("a number of XSD")),
            ),
        }
    }

    #[test]
    fn what_is_passed_on_is_of_the_type_and_passed_on_unchanged(
        of in scalar(),
        text in near_number(),
        before in "[ \t\r\n]{0,3}",
    ) {
        let sent = format!("{before}{text}{before}");
        let normal = lexical::normal(&of, &sent);
        prop_assert_eq!(&lexical::normal(&of, &normal), &normal);
        let good = lexical::check(&of, &normal).is_ok();
        let parameter = Parameter { allow_leading_dash: true, ..Parameter::new("x", of.clone()) };
        match parameter.accept(&sent) {
            Ok(accepted) => {
                prop_assert!(good);
                prop_assert_eq!(&accepted, &normal);
                if matches!(of, DataType::Float | DataType::Double) {
                    let special = ["INF", "-INF", "NaN"].contains(&&*accepted);
                    let xsd = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                    prop_assert!(special || accepted.chars().all(xsd), "{}", accepted);
                }
            }
            Err(fault) => {
                prop_assert!(!good);
                prop_assert_eq!(fault.code, FaultCode::InvalidValue);
                prop_assert_eq!(fault.parameter.as_deref(), Some("x"));
            }
        }
    }

    #[test]
    fn bounds_are_inclusive(value: i64, min: i64, max: i64, doubles: bool) {
        let of = if doubles { DataType::Double } else { DataType::Long };
        let (min_text, max_text) = (Some(min.to_string()), Some(max.to_string()));
        let parameter = Parameter { min: min_text, max: max_text, ..Parameter::new("x", of) };
        for value in [value, min, max] {
            let accepted = parameter.accept(&value.to_string()).map(drop);
            let code = accepted.err().map(|fault| fault.code);
            let outside = value < min || value > max;
            prop_assert_eq!(code, outside.then_some(FaultCode::ValueOutOfRange));
        }
    }

    #[test]
    fn a_text_is_a_string_if_xml_can_hold_it(text: String) {
        let fits = |c: char| !(c < ' ' && !"\t\n\r".contains(c) || ('\u{fffe}'..='\u{ffff}').contains(&c));
        prop_assert_eq!(lexical::check(&DataType::String, &text).is_ok(), text.chars().all(fits));
        let shortened = lexical::shortened(&text);
        prop_assert!(shortened.chars().count() <= 63);
        prop_assert!(text.starts_with(shortened.strip_suffix("...").unwrap_or(&shortened)));
    }

    #[test]
    fn a_type_of_arrays_is_read_as_it_was_printed(
        element in proptest::sample::select(&ElementType::ALL[..]),
        dimensions in proptest::collection::vec(dimension(), 1..=ArrayType::MAX_RANK),
    ) {
        let of = ArrayType { element, dimensions };
        prop_assert_eq!(of.to_string().parse::<ArrayType>(), Ok(of.clone()));
        prop_assert_eq!(DataType::from_name(&of.to_string()), Some(DataType::Array(of)));
    }

    #[test]
    fn any_text_is_a_type_that_prints_itself_or_none(text in "(int|double|raw)?[\\[\\],a-z0-9 _.-]{0,12}") {
        if let Some(of) = DataType::from_name(&text) {
            prop_assert_eq!(DataType::from_name(&of.name()), Some(of));
        }
    }

    #[test]
    fn ids_are_read_as_they_were_printed_and_no_other_text_is_one(
        bits: [u8; 16],
        text in "[0-9a-fA-F]{31,33}|\\PC{0,32}",
    ) {
        let id = JobId::from_bytes(bits);
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        prop_assert_eq!(id.as_bytes(), &bits);
        if let Ok(id) = text.parse::<JobId>() {
            prop_assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn digests_are_read_as_they_were_printed(
        short: [u8; 32],
        bytes in proptest::collection::vec(any::<u8>(), 64),
        field in "(sha-256|sha-512|md5)?[=:;,A-Za-z0-9+/ ]{0,60}",
    ) {
        let short = Digest::Sha256(short);
        let long = Digest::Sha512(bytes.try_into().expect("64 bytes"));
        for digest in [short, long] {
            prop_assert_eq!(Digest::from_field(&digest.to_string()), Some(digest));
        }
        prop_assert_eq!(Digest::from_field(&format!("{short}, {long}")), Some(long));
        prop_assert_eq!(Digest::from_sha256_hex(&short.hex()), Some(short));
        if let Some(digest) = Digest::from_field(&field) {
            prop_assert_eq!(Digest::from_field(&digest.to_string()), Some(digest));
        }
    }
}
