//! Values as JSON: scalars as what JSON has for them, arrays as lists within lists, `[[1, 2], [3, 4]]`. Numbers that JSON
//! does not have (`NaN`, `INF`, `-INF`) are strings.

use std::borrow::Cow;

use fishplate_contract::{Array, ArrayType, DataType, Dimension, ElementType, lexical};
use serde_json::{Value, json};

/// Reads lists within lists, so deep as `rank` says: the shape, and the elements' bytes.
///
/// # Errors
/// What is wrong, and where.
pub fn parse_array(
    element: ElementType,
    rank: usize,
    text: &str,
) -> Result<(Vec<u64>, Vec<u8>), String> {
    let lengths = vec![None; rank];
    let mut reader = Reader { text, at: 0, element, lengths, bytes: Vec::new() };
    reader.list(0)?;
    if reader.next().is_some() {
        return Err(reader.wrong("something follows the last bracket"));
    }
    let shape = reader.lengths.into_iter().map(Option::unwrap_or_default).collect();
    Ok((shape, reader.bytes))
}

/// The same of a type: its shape is one that the type allows.
///
/// # Errors
/// What is wrong, and where.
pub fn array_of(of: &ArrayType, text: &str) -> Result<(Vec<u64>, Vec<u8>), String> {
    let wrong = |what: String| format!("it is of type {of}: {what}");
    let (mut shape, bytes) = parse_array(of.element, of.rank(), text).map_err(wrong)?;
    // Behind an axis without elements, nothing tells how long the others are.
    if let Some(empty) = shape.iter().position(|length| *length == 0) {
        for (length, dimension) in shape.iter_mut().zip(&of.dimensions).skip(empty + 1) {
            if let Dimension::Fixed(fixed) = dimension {
                *length = *fixed;
            }
        }
    }
    if of.fits(&shape) {
        Ok((shape, bytes))
    } else {
        Err(wrong(format!("this is {}", Array::shape_text(&shape))))
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    element: ElementType,
    /// Of the lists at each depth, as soon as one has ended.
    lengths: Vec<Option<u64>>,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.at).copied()
    }

    fn list(&mut self, depth: usize) -> Result<(), String> {
        if self.next() != Some(b'[') {
            let wants = self.lengths.len();
            return Err(self.wrong(&format!("`[` is missing: there are {wants} dimensions")));
        }
        self.at += 1;
        let mut length = 0;
        if self.next() == Some(b']') {
            self.at += 1;
            return self.end(depth, length);
        }
        loop {
            match depth + 1 == self.lengths.len() {
                true => self.number()?,
                false => self.list(depth + 1)?,
            }
            length += 1;
            match self.next() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return self.end(depth, length);
                }
                _ => return Err(self.wrong("`,` or `]` is missing")),
            }
        }
    }

    fn end(&mut self, depth: usize, length: u64) -> Result<(), String> {
        match *self.lengths[depth].get_or_insert(length) {
            first if first == length => Ok(()),
            first => {
                let what = format!("a list of {length} stands beside one of {first}");
                Err(self.wrong(&what))
            }
        }
    }

    fn number(&mut self) -> Result<(), String> {
        let start = match self.next() {
            Some(b'[') => {
                let most = self.lengths.len();
                return Err(self.wrong(&format!("there are {most} dimensions, not more")));
            }
            _ => self.at,
        };
        let rest = &self.text[start..];
        let end = rest.find([',', ']', '[']).unwrap_or(rest.len());
        // In JSON, `NaN` and `INF` are texts.
        let number = rest[..end].trim().trim_matches('"');
        if !self.element.parse(number.as_bytes(), &mut self.bytes) {
            let (number, element) = (lexical::shortened(number), self.element.name());
            return Err(self.wrong(&format!("{number:?} is not of type {element}")));
        }
        self.at = start + end;
        Ok(())
    }

    fn wrong(&self, what: &str) -> String {
        format!("character {}: {what}", self.at + 1)
    }
}

/// An array's bytes as lists within lists, in one line.
pub fn array_as_text(element: ElementType, shape: &[u64], bytes: &[u8]) -> String {
    let mut text = String::new();
    push_text(element, shape, &mut bytes.chunks_exact(element.size()), &mut text);
    text
}

fn push_text<'b>(
    element: ElementType,
    shape: &[u64],
    numbers: &mut impl Iterator<Item = &'b [u8]>,
    text: &mut String,
) {
    let Some((length, inner)) = shape.split_first() else {
        text.push_str(
            &numbers.next().map_or_else(String::new, |number| number_text(element, number)),
        );
        return;
    };
    text.push('[');
    for at in 0..*length {
        if at > 0 {
            text.push_str(", ");
        }
        push_text(element, inner, numbers, text);
    }
    text.push(']');
}

/// A number or a truth value where JSON has one for it, else the text.
pub fn scalar(text: &str, data_type: Option<&DataType>) -> Value {
    let trimmed = lexical::trimmed(text);
    let value = match data_type {
        Some(DataType::Int | DataType::Long) => {
            trimmed.parse::<i64>().ok().map(|number| json!(number))
        }
        Some(DataType::Float | DataType::Double) => {
            lexical::number(trimmed).filter(|number| number.is_finite()).map(|number| json!(number))
        }
        Some(DataType::Bool) => match trimmed {
            "true" | "1" => Some(json!(true)),
            "false" | "0" => Some(json!(false)),
            _ => None,
        },
        _ => None,
    };
    value.unwrap_or_else(|| json!(text))
}

/// A scalar that is written in JSON, in the lexical form of its type. Whether it is of the type is not looked at beyond what
/// JSON tells apart.
///
/// # Errors
/// What would be right.
pub fn scalar_text<'t>(data_type: &DataType, text: &'t str) -> Result<Cow<'t, str>, String> {
    let first = text.as_bytes().first();
    let is_number = matches!(first, Some(b'-' | b'0'..=b'9'));
    let (fits, wanted) = match data_type {
        DataType::Int | DataType::Long => (is_number, "a whole number"),
        DataType::Float | DataType::Double => {
            let is_none = matches!(text, "\"NaN\"" | "\"INF\"" | "\"-INF\"");
            (is_number || is_none, "a number, \"NaN\", \"INF\" or \"-INF\"")
        }
        DataType::Bool => (matches!(text, "true" | "false"), "true or false"),
        _ => (first == Some(&b'"'), "a string"),
    };
    if !fits {
        let (shown, name) = (lexical::shortened(text), data_type.name());
        return Err(format!("it is of type {name}: {shown} is not {wanted}"));
    }
    if text.starts_with('"') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    if matches!(data_type, DataType::Int | DataType::Long) {
        return Ok(whole(text).map_or(Cow::Borrowed(text), Cow::Owned));
    }
    Ok(Cow::Borrowed(text))
}

/// `3.0` and `1e2` are whole numbers of JSON Schema (6.1.1 of its draft 2020-12).
fn whole(text: &str) -> Option<String> {
    /// Beyond, a double has no fractions to tell.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_plain = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    let number = lexical::number(text).filter(|_| !is_plain)?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then(|| format!("{number:.0}"))
}

/// An array's bytes as JSON.
pub fn array_as_json(element: ElementType, shape: &[u64], bytes: &[u8]) -> Value {
    json_of(element, shape, &mut bytes.chunks_exact(element.size()))
}

fn json_of<'b>(
    element: ElementType,
    shape: &[u64],
    numbers: &mut impl Iterator<Item = &'b [u8]>,
) -> Value {
    match shape.split_first() {
        Some((length, inner)) => (0..*length).map(|_| json_of(element, inner, numbers)).collect(),
        None => {
            let text = numbers.next().map_or_else(String::new, |it| number_text(element, it));
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
    }
}

fn number_text(element: ElementType, number: &[u8]) -> String {
    let mut text = Vec::new();
    element.print(number, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed_at_their_depth() {
        let floats = |numbers: &[f32]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        for (rank, text, shape, numbers, printed) in [
            (1, "[1,2.5]", vec![2], floats(&[1.0, 2.5]), "[1.0, 2.5]"),
            (1, " [ ] ", vec![0], Vec::new(), "[]"),
            (
                2,
                "[[1, 2],\n [3,4]]",
                vec![2, 2],
                floats(&[1., 2., 3., 4.]),
                "[[1.0, 2.0], [3.0, 4.0]]",
            ),
            (2, "[[],[]]", vec![2, 0], Vec::new(), "[[], []]"),
            (2, "[]", vec![0, 0], Vec::new(), "[]"),
            (3, "[[[-0]]]", vec![1, 1, 1], floats(&[-0.0]), "[[[-0.0]]]"),
            (
                1,
                "[\"INF\", -INF]",
                vec![2],
                floats(&[f32::INFINITY, f32::NEG_INFINITY]),
                "[INF, -INF]",
            ),
        ] {
            let read = parse_array(ElementType::Float, rank, text);
            assert_eq!(read, Ok((shape.clone(), numbers.clone())), "{text}");
            assert_eq!(array_as_text(ElementType::Float, &shape, &numbers), printed);
        }
        let json = array_as_json(ElementType::Float, &[2, 1], &floats(&[0.1, f32::NAN]));
        assert_eq!(json, json!([[0.1], ["NaN"]]));
        let longs: Vec<u8> = [i64::MIN, i64::MAX].iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(array_as_json(ElementType::Long, &[2], &longs), json!([i64::MIN, i64::MAX]));
    }

    #[test]
    fn scalars_are_json_where_json_has_them_and_text_where_not() {
        for (text, data_type, expected) in [
            ("3", DataType::Int, json!(3)),
            ("+007", DataType::Long, json!(7)),
            ("1.50e0", DataType::Double, json!(1.5)),
            ("INF", DataType::Double, json!("INF")),
            ("1", DataType::Bool, json!(true)),
            ("3", DataType::String, json!("3")),
        ] {
            assert_eq!(scalar(text, Some(&data_type)), expected);
        }
    }

    #[test]
    fn what_is_no_array_is_told_with_its_place() {
        for (rank, text, message) in [
            (2, "[1,2]", "character 2: `[` is missing: there are 2 dimensions"),
            (1, "[[1]]", "character 2: there are 1 dimensions, not more"),
            (2, "[[1,2],[3]]", "character 11: a list of 1 stands beside one of 2"),
            (1, "[1,x]", "character 4: \"x\" is not of type int"),
            (1, "[1,]", "character 4: \"\" is not of type int"),
            (1, "[1.5]", "character 2: \"1.5\" is not of type int"),
            (1, "[1", "character 3: `,` or `]` is missing"),
            (1, "[1] 2", "character 5: something follows the last bracket"),
        ] {
            assert_eq!(
                parse_array(ElementType::Int, rank, text),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }
}
