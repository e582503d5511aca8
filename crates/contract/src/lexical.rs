//! Which texts a data type takes (XML Schema part 2, section 3.2), and what a parameter refuses.

use std::borrow::Cow;

use crate::fault::{Fault, FaultCode};
use crate::number;
use crate::service::{DataType, Parameter};

/// The text without the white space around it.
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(XML_SPACE)
}

const XML_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A value as it is passed on: of any type but `string` without the white space around it, and a real
/// number as XML Schema has it, whichever language wrote it. What is not of the type stays as it is.
pub fn normal<'t>(data_type: &DataType, text: &'t str) -> Cow<'t, str> {
    match data_type {
        DataType::String => Cow::Borrowed(text),
        DataType::Float | DataType::Double => {
            let text = trimmed(text);
            number::real_text(text).unwrap_or(Cow::Borrowed(text))
        }
        _ => Cow::Borrowed(trimmed(text)),
    }
}

/// Why a text is not of a type: what would be right.
pub fn check(data_type: &DataType, text: &str) -> Result<(), &'static str> {
    let good = match data_type {
        DataType::Int => integer(text).and_then(|text| text.parse::<i32>().ok()).is_some(),
        DataType::Long => integer(text).and_then(|text| text.parse::<i64>().ok()).is_some(),
        DataType::Float | DataType::Double => number(text).is_some(),
        DataType::Bool => matches!(text, "true" | "false" | "1" | "0"),
        DataType::String => text.chars().all(is_xml_char),
        DataType::DateTime
        | DataType::Raw
        | DataType::Xml
        | DataType::Dir
        | DataType::Array(_)
        | DataType::Record(_) => true,
    };
    if good { Ok(()) } else { Err(expectation(data_type)) }
}

fn expectation(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int => "a whole number from -2147483648 to 2147483647",
        DataType::Long => "a whole number from -9223372036854775808 to 9223372036854775807",
        DataType::Float | DataType::Double => "a number such as 1.5 or -2e-3, INF, -INF or NaN",
        DataType::Bool => "true, false, 1 or 0",
        _ => {
            "text that XML can carry: no control characters but tab and line ends (declare it raw)"
        }
    }
}

/// A character that XML 1.0 can carry (section 2.2).
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// An optional sign and decimal digits.
fn integer(text: &str) -> Option<&str> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// The number that a text is, if it is one.
pub fn number(text: &str) -> Option<f64> {
    number::double(text.as_bytes())
}

impl Parameter {
    /// The caller's text for this parameter as the program gets it, right or wrong: see [`normal`].
    pub fn normal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let trims = self.trim || !self.choices.is_empty();
        normal(&self.data_type, if trims { trimmed(text) } else { text })
    }

    /// The caller's text for this parameter as the program gets it ([`Parameter::normal`]), checked.
    ///
    /// # Errors
    /// [`FaultCode::InvalidValue`] or [`FaultCode::ValueOutOfRange`], naming the parameter and
    /// what would be right.
    pub fn accept<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Fault> {
        let accepted = self.normal(text);
        let text = &*accepted;
        let invalid =
            |what: String| Fault::new(FaultCode::InvalidValue, what).parameter(&self.name);
        check(&self.data_type, text).map_err(|expected| {
            invalid(format!(
                "parameter {} is of type {}: {:?} is not {expected}",
                self.name,
                self.data_type.name(),
                shortened(text),
            ))
        })?;
        self.accept_range(text)?;
        // A script that does not quote it makes an option of what stands behind blanks too.
        let dashed = trimmed(text).starts_with('-');
        if self.data_type == DataType::String && dashed && !self.allow_leading_dash {
            return Err(invalid(format!(
                "parameter {} may not begin with '-': {:?} could pass for an option of the program; \
                 the service's owner can allow it (allow_leading_dash)",
                self.name,
                shortened(text),
            )));
        }
        Ok(accepted)
    }

    fn accept_range(&self, text: &str) -> Result<(), Fault> {
        let outside =
            |what: String| Fault::new(FaultCode::ValueOutOfRange, what).parameter(&self.name);
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == text) {
            return Err(outside(format!(
                "parameter {}: {:?} is not one of {}",
                self.name,
                shortened(text),
                self.choices.join(", "),
            )));
        }
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        if let Some(min) = &self.min
            && !at_most(min, text)
        {
            return Err(outside(format!(
                "parameter {}: {text} is below the smallest value allowed, {min}{unit}",
                self.name
            )));
        }
        if let Some(max) = &self.max
            && !at_most(text, max)
        {
            return Err(outside(format!(
                "parameter {}: {text} is above the largest value allowed, {max}{unit}",
                self.name
            )));
        }
        Ok(())
    }
}

/// Whether `low <= high` as numbers: exactly for whole numbers, else as doubles. NaN is never in
/// a range.
fn at_most(low: &str, high: &str) -> bool {
    match (low.parse::<i64>(), high.parse::<i64>()) {
        (Ok(low), Ok(high)) => low <= high,
        _ => match (number(low), number(high)) {
            (Some(low), Some(high)) => low <= high,
            _ => false,
        },
    }
}

/// Whether a character turns the direction in which text is shown (Unicode, UAX 9): a name that has
/// one can be taken for another.
pub fn turns_direction(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// The text with the characters that mean something in XML and HTML written otherwise, also between quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A caller's text cut to what a message can hold.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The one of `known` that was probably meant by `text`.
pub fn closest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Who writes more has no typing error in it, and comparing takes as long as both lengths together.
    const LONGEST: usize = 64;
    // A third of the letters may differ, as rustc has it: more confuses rather than helps. One letter of
    // a name of one letter is no likeness.
    let length = text.chars().count();
    let most = (length.max(3) / 3).min(length.saturating_sub(1));
    let text = text.to_lowercase();
    known
        .into_iter()
        .filter(|known| length <= LONGEST && known.len() <= LONGEST)
        .map(|known| (strsim::osa_distance(&text, &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(parameter: &Parameter, text: &str) -> Option<FaultCode> {
        parameter.accept(text).err().map(|fault| fault.code)
    }

    #[test]
    fn a_type_takes_the_texts_of_its_xsd_type_and_no_others() {
        let cases: [(DataType, &[&str], &[&str]); 5] = [
            (
                DataType::Int,
                &["0", "-5", "+7", "2147483647", "007"],
                &["", "1.0", "2147483648", "1e3", "0x1", "1 2", "--1"],
            ),
            (DataType::Long, &["9223372036854775807"], &["9223372036854775808", "one"]),
            (
                DataType::Double,
                &["1", "1.5", ".5", "5.", "-2e-3", "1E10", "INF", "-INF", "NaN"],
                &["", "infinit", "1,5", "0x1p3", "e", "."],
            ),
            (DataType::Bool, &["true", "false", "1", "0"], &["TRUE", "yes", ""]),
            (
                DataType::String,
                &["", "anything at all; $(rm)"],
                &["\0", "\u{1}", "\u{1b}[0m", "\u{ffff}"],
            ),
        ];
        for (data_type, good, bad) in cases {
            for text in good {
                assert_eq!(check(&data_type, text), Ok(()), "{data_type:?} {text:?}");
            }
            for text in bad {
                assert!(check(&data_type, text).is_err(), "{data_type:?} {text:?}");
            }
        }
    }

    #[test]
    fn a_number_keeps_the_callers_lexical_text_where_it_is_one_of_xsd() {
        let mut parameter = Parameter::new("x", DataType::Double);
        for (sent, passed_on) in [
            (" \n1.50e0\t", "1.50e0"),
            ("Infinity", "INF"),
            ("+INF", "INF"),
            ("-Inf", "-INF"),
            (" NAN ", "NaN"),
            ("1.0D+00", "1.0e+00"),
        ] {
            assert_eq!(parameter.accept(sent).unwrap(), passed_on);
        }
        parameter.choices = vec!["INF".to_owned()];
        assert_eq!(parameter.accept("inf").unwrap(), "INF");
        parameter.data_type = DataType::Int;
        assert_eq!(code(&parameter, "inf"), Some(FaultCode::InvalidValue));
    }

    #[test]
    fn a_string_keeps_its_blanks_unless_it_is_to_be_trimmed_or_chosen() {
        let mut parameter = Parameter::new("s", DataType::String);
        for text in [" \t as it is\n", "   ", "", "\u{a0}"] {
            assert_eq!(parameter.accept(text).unwrap(), text);
        }
        parameter.trim = true;
        assert_eq!(parameter.accept(" \t as it is\n").unwrap(), "as it is");
        assert_eq!(parameter.accept("\u{a0}").unwrap(), "\u{a0}");
        parameter.trim = false;
        parameter.choices = vec!["linear".to_owned()];
        assert_eq!(parameter.accept("\n linear ").unwrap(), "linear");
    }

    #[test]
    fn a_string_that_could_pass_for_an_option_is_refused_unless_allowed() {
        let mut parameter = Parameter::new("name", DataType::String);
        assert_eq!(code(&parameter, " -rf"), Some(FaultCode::InvalidValue));
        parameter.allow_leading_dash = true;
        assert_eq!(parameter.accept("-rf").unwrap(), "-rf");
    }

    #[test]
    fn ranges_and_choices_are_inclusive_and_name_the_parameter() {
        let mut parameter = Parameter::new("n", DataType::Int);
        parameter.min = Some("1".to_owned());
        parameter.max = Some("10".to_owned());
        for good in ["1", "10", "+5"] {
            assert!(parameter.accept(good).is_ok(), "{good}");
        }
        for bad in ["0", "11", "-5"] {
            let fault = parameter.accept(bad).unwrap_err();
            assert_eq!(fault.code, FaultCode::ValueOutOfRange);
            assert_eq!(fault.parameter.as_deref(), Some("n"));
        }
        let mut order = Parameter::new("order", DataType::String);
        order.choices = vec!["linear".to_owned(), "quadratic".to_owned()];
        assert!(order.accept("linear").is_ok());
        assert_eq!(code(&order, "cubic"), Some(FaultCode::ValueOutOfRange));
    }

    #[test]
    fn nan_is_in_no_range() {
        let mut parameter = Parameter::new("t", DataType::Double);
        parameter.min = Some("0".to_owned());
        assert_eq!(code(&parameter, "NaN"), Some(FaultCode::ValueOutOfRange));
    }

    #[test]
    fn the_closest_name_is_found_and_a_distant_one_is_not() {
        let known = ["deck", "lambda", "mesh_size"];
        assert_eq!(closest("dekc", known), Some("deck"));
        assert_eq!(closest("Mesh_Size", known), Some("mesh_size"));
        assert_eq!(closest("meshsize", known), Some("mesh_size"));
        assert_eq!(closest("x", ["y", "z"]), None);
        assert_eq!(closest("", ["y"]), None);
        assert_eq!(closest("pressure", known), None);
        assert_eq!(closest(&"x".repeat(65), [&*"x".repeat(64)]), None);
    }
}
