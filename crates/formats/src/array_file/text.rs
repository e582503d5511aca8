//! Rows of numbers as text. Read as programs print them: what Fortran (`1.0D+00`, `1.0-100`), C
//! (`inf`, `nan`) and NumPy (`1.000e+00` for a whole number) write is understood; written in the
//! forms of XML Schema, which all of them read.
//!
//! Reader and writer are pushed: chunks go in, cut anywhere, and results are appended to what the
//! caller gives. Neither holds more than one number.

use fishplate_contract::{Array, ElementType, lexical};

/// A longer run of characters is no number.
const LONGEST_NUMBER: usize = 512;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct TextError {
    /// Counted from 1.
    pub line: u64,
    /// Byte of the line, counted from 1.
    pub column: u64,
    /// What was found, and what would be right.
    pub what: String,
}

/// From text to an array's bytes.
#[derive(Debug)]
pub struct TextReader {
    element: ElementType,
    axes: Vec<Option<u64>>,
    /// What separates numbers beside white space.
    delimiter: Option<u8>,
    /// What each byte means.
    classes: [ByteClass; 256],
    /// How long a row is: told, or as long as the first.
    columns: Option<u64>,
    /// The length of a row was told, so that rows may go on in the next line.
    told: bool,
    /// The beginning of a number that the chunk before cut.
    carry: Vec<u8>,
    in_comment: bool,
    after: PreviousToken,
    /// Numbers in the present row.
    in_row: u64,
    rows: u64,
    count: u64,
    line: u64,
    /// Offset of the line's first byte.
    line_start: u64,
    /// Offset of the chunk's first byte.
    offset: u64,
}

/// What a byte means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteClass {
    /// It is part of a number, or of what should be one.
    Number,
    Space,
    LineEnd,
    Delimiter,
    Comment,
}

fn classes(delimiter: Option<u8>) -> [ByteClass; 256] {
    let mut classes = [ByteClass::Number; 256];
    classes[..=usize::from(b' ')].fill(ByteClass::Space);
    classes[usize::from(b'\n')] = ByteClass::LineEnd;
    classes[usize::from(b'#')] = ByteClass::Comment;
    if let Some(delimiter) = delimiter {
        classes[usize::from(delimiter)] = ByteClass::Delimiter;
    }
    classes
}

/// What stood last in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PreviousToken {
    Nothing,
    Number,
    Delimiter,
}

impl TextReader {
    /// For an array of these elements, whose axes are so long as far as that is known: at least
    /// one. `delimiter` as in [`super::Format::Text`].
    pub fn new(element: ElementType, axes: &[Option<u64>], delimiter: char) -> Self {
        let columns = axes.last().copied().flatten().filter(|_| axes.len() > 1);
        let delimiter = u8::try_from(delimiter).ok().filter(|it| !matches!(it, b' ' | b'\t'));
        Self {
            element,
            axes: axes.to_vec(),
            delimiter,
            classes: classes(delimiter),
            columns,
            told: columns.is_some(),
            carry: Vec::new(),
            in_comment: false,
            after: PreviousToken::Nothing,
            in_row: 0,
            rows: 0,
            count: 0,
            line: 1,
            line_start: 0,
            offset: 0,
        }
    }

    /// Takes the next chunk and appends the numbers in it.
    ///
    /// # Errors
    /// What is wrong, and where; the reader is of no use then.
    pub fn feed(&mut self, chunk: &[u8], to: &mut Vec<u8>) -> Result<(), TextError> {
        let mut at = self.resume(chunk, to)?;
        while let Some(&byte) = chunk.get(at) {
            match self.classes[usize::from(byte)] {
                ByteClass::Number => {
                    let end = self.end_of_number(chunk, at);
                    if end == chunk.len() {
                        self.carry.extend_from_slice(&chunk[at..]);
                    } else {
                        self.number(&chunk[at..end], self.offset + at as u64, to)?;
                    }
                    at = end;
                    continue;
                }
                ByteClass::Space => {}
                ByteClass::LineEnd => self.end_line(self.offset + at as u64)?,
                ByteClass::Delimiter => self.delimit(self.offset + at as u64)?,
                ByteClass::Comment => {
                    let end = memchr::memchr(b'\n', &chunk[at..]);
                    self.in_comment = end.is_none();
                    at = end.map_or(chunk.len(), |end| at + end);
                    continue;
                }
            }
            at += 1;
        }
        self.offset += chunk.len() as u64;
        self.limit_carry()
    }

    /// The text has ended: appends what was left, and gives the array's shape.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn finish(mut self, to: &mut Vec<u8>) -> Result<Vec<u64>, TextError> {
        let carry = std::mem::take(&mut self.carry);
        if !carry.is_empty() {
            self.number(&carry, self.offset - carry.len() as u64, to)?;
        }
        self.close_line(self.offset)?;
        if self.in_row > 0 && self.axes.len() > 1 {
            let (row, has, wants) = (self.rows + 1, self.in_row, self.columns.unwrap_or(0));
            let what = format!("row {row} has {has} numbers, not {wants}, and the file ends");
            return Err(self.error(self.offset, what));
        }
        self.shape()
    }

    /// Goes on with what the chunk before cut; where the rest begins.
    fn resume(&mut self, chunk: &[u8], to: &mut Vec<u8>) -> Result<usize, TextError> {
        let mut at = 0;
        if self.in_comment {
            let end = memchr::memchr(b'\n', chunk);
            self.in_comment = end.is_none();
            at = end.unwrap_or(chunk.len());
        } else if !self.carry.is_empty() {
            at = self.end_of_number(chunk, 0);
            self.carry.extend_from_slice(&chunk[..at]);
            if at < chunk.len() {
                let carry = std::mem::take(&mut self.carry);
                self.number(&carry, self.offset + at as u64 - carry.len() as u64, to)?;
            } else {
                self.limit_carry()?;
            }
        }
        Ok(at)
    }

    fn limit_carry(&mut self) -> Result<(), TextError> {
        if self.carry.len() <= LONGEST_NUMBER {
            return Ok(());
        }
        let carry = std::mem::take(&mut self.carry);
        Err(self.no_number(&carry, self.offset.saturating_sub(carry.len() as u64)))
    }

    fn end_of_number(&self, chunk: &[u8], from: usize) -> usize {
        let ends = |byte: &u8| self.classes[usize::from(*byte)] != ByteClass::Number;
        chunk[from..].iter().position(ends).map_or(chunk.len(), |length| from + length)
    }

    fn number(&mut self, token: &[u8], at: u64, to: &mut Vec<u8>) -> Result<(), TextError> {
        // A byte order mark, as Excel writes one.
        let token = match at {
            0 => token.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(token),
            _ => token,
        };
        if token.is_empty() {
            return Ok(());
        }
        if token.len() > LONGEST_NUMBER {
            return Err(self.no_number(token, at));
        }
        if let (PreviousToken::Number, Some(delimiter)) = (self.after, self.delimiter) {
            let what = format!("`{}` is missing between two numbers", delimiter as char);
            return Err(self.error(at, what));
        }
        if self.told && self.columns == Some(self.in_row) {
            let what = format!("row {} has more than {} numbers", self.rows + 1, self.in_row);
            return Err(self.error(at, what));
        }
        if !self.element.parse(token, to) && !is_whole(self.element, token, to) {
            return Err(self.no_number(token, at));
        }
        self.after = PreviousToken::Number;
        self.in_row += 1;
        self.count += 1;
        Ok(())
    }

    fn delimit(&mut self, at: u64) -> Result<(), TextError> {
        if self.after != PreviousToken::Number {
            let delimiter = self.delimiter.unwrap_or(b' ') as char;
            return Err(self.error(at, format!("a number is missing before `{delimiter}`")));
        }
        self.after = PreviousToken::Delimiter;
        Ok(())
    }

    fn end_line(&mut self, at: u64) -> Result<(), TextError> {
        self.close_line(at)?;
        self.line += 1;
        self.line_start = at + 1;
        Ok(())
    }

    fn close_line(&mut self, at: u64) -> Result<(), TextError> {
        if self.after == PreviousToken::Delimiter {
            let delimiter = self.delimiter.unwrap_or(b' ') as char;
            return Err(self.error(at, format!("a number is missing after the last `{delimiter}`")));
        }
        let is_row = self.in_row > 0 && self.axes.len() > 1;
        match self.columns {
            Some(columns) if is_row && self.in_row != columns && !self.told => {
                let (row, has) = (self.rows + 1, self.in_row);
                let what = format!("row {row} has {has} numbers, and row 1 has {columns}");
                return Err(self.error(at, what));
            }
            // It goes on in the next line: its length was told.
            Some(columns) if self.in_row != columns => {}
            _ if is_row => {
                self.columns = Some(self.in_row);
                self.rows += 1;
                self.in_row = 0;
            }
            _ => {}
        }
        self.after = PreviousToken::Nothing;
        Ok(())
    }

    fn shape(&self) -> Result<Vec<u64>, TextError> {
        let Some((last, leading)) = self.axes.split_last() else { return Ok(Vec::new()) };
        if leading.is_empty() {
            return Ok(vec![self.count]);
        }
        let columns = self.columns.or(*last).unwrap_or(0);
        let leading = match leading {
            [_] if self.count > 0 => vec![self.rows],
            _ => self.leading(leading, columns)?,
        };
        Ok(leading.into_iter().chain([columns]).collect())
    }

    /// The axes but the last, of which one may be unknown.
    fn leading(&self, axes: &[Option<u64>], columns: u64) -> Result<Vec<u64>, TextError> {
        let mismatch = |what: String| TextError { line: self.line, column: 1, what };
        let known: u64 = axes.iter().flatten().fold(1, |product, it| product.saturating_mul(*it));
        if self.count == 0 && (known == 0 || columns == 0 || axes.contains(&None)) {
            return Ok(axes.iter().map(|axis| axis.unwrap_or(0)).collect());
        }
        let rows = self.rows;
        let expected: Vec<u64> = axes.iter().flatten().copied().collect();
        let expected = Array::shape_text(&expected);
        match axes.iter().filter(|axis| axis.is_none()).count() {
            0 if rows == known => Ok(axes.iter().flatten().copied().collect()),
            0 => Err(mismatch(format!("the file has {rows} rows, not {expected}"))),
            1 if known > 0 && rows.is_multiple_of(known) => {
                Ok(axes.iter().map(|axis| axis.unwrap_or(rows / known)).collect())
            }
            1 => Err(mismatch(format!("the file has {rows} rows, no multiple of {expected}"))),
            _ => Err(mismatch(
                "text does not tell the shape of an array of more than two dimensions: all of \
                 them but the last and one other must be known"
                    .to_owned(),
            )),
        }
    }

    fn no_number(&self, token: &[u8], at: u64) -> TextError {
        let shown = String::from_utf8_lossy(&token[..token.len().min(LONGEST_NUMBER)]);
        let expected = match self.element {
            ElementType::Int => "a whole number from -2147483648 to 2147483647",
            ElementType::Long => "a whole number from -9223372036854775808 to 9223372036854775807",
            ElementType::Float | ElementType::Double => "a number",
        };
        self.error(at, format!("{:?} is not {expected}", lexical::shortened(&shown)))
    }

    fn error(&self, at: u64, what: String) -> TextError {
        TextError { line: self.line, column: at - self.line_start + 1, what }
    }
}

/// Reads a whole number that is printed as a real one.
fn is_whole(element: ElementType, token: &[u8], to: &mut Vec<u8>) -> bool {
    let integer = matches!(element, ElementType::Int | ElementType::Long);
    integer && whole(token).is_some_and(|text| element.parse(&text, to))
}

/// The digits of a whole number that is printed as a real one, `3.0` or `-2e1`. It is never made a
/// double, which has not all of them.
fn whole(token: &[u8]) -> Option<Vec<u8>> {
    let (sign, number) = match token {
        [sign @ (b'-' | b'+'), number @ ..] => (Some(*sign), number),
        number => (None, number),
    };
    let mut halves = number.splitn(2, |byte| matches!(byte, b'e' | b'E'));
    let mut parts = halves.next()?.splitn(2, |byte| *byte == b'.');
    let before = parts.next()?;
    let mut digits = [before, parts.next().unwrap_or_default()].concat();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let exponent = match halves.next() {
        Some(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
        None => 0_i32,
    };
    if digits.iter().all(|digit| *digit == b'0') {
        return Some(b"0".to_vec());
    }
    // Where the point stands now.
    let point = i64::try_from(before.len()).ok()?.checked_add(exponent.into())?;
    let point = usize::try_from(point).ok().filter(|point| *point <= LONGEST_NUMBER)?;
    let fraction = digits.get(point..).unwrap_or_default();
    if fraction.iter().any(|digit| *digit != b'0') {
        return None;
    }
    digits.resize(point, b'0');
    digits.splice(..0, sign);
    Some(digits)
}

/// From an array's bytes to text.
#[derive(Debug)]
pub struct TextWriter {
    element: ElementType,
    delimiter: char,
    columns: u64,
    in_row: u64,
}

impl TextWriter {
    /// For an array of this shape.
    pub fn new(element: ElementType, shape: &[u64], delimiter: char) -> Self {
        let columns = match shape {
            [.., columns] if shape.len() > 1 => *columns,
            _ => 1,
        };
        Self { element, delimiter, columns, in_row: 0 }
    }

    /// Appends the text of these whole elements.
    pub fn feed(&mut self, elements: &[u8], to: &mut Vec<u8>) {
        for element in elements.chunks_exact(self.element.size()) {
            self.element.print(element, to);
            self.in_row += 1;
            let ends = self.in_row == self.columns;
            to.push(if ends { b'\n' } else { self.delimiter as u8 });
            self.in_row = if ends { 0 } else { self.in_row };
        }
    }
}
