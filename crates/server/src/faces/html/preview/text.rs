//! Texts and tables.

use std::fmt::Write as _;

use fishplate_contract::lexical::escaped;

/// Rows of a table that are shown.
const ROWS: usize = 100;

/// Columns of a table that are shown.
const COLUMNS: usize = 50;

/// Characters of a cell that are shown.
const CELL: usize = 200;

/// What can be read of the beginning of a file, at most [`super::HEAD`] bytes; `None` if it is no text.
pub(super) fn beginning(bytes: &[u8]) -> Option<&str> {
    let most = usize::try_from(super::HEAD).unwrap_or(usize::MAX);
    let is_cut = bytes.len() >= most;
    let bytes = &bytes[..bytes.len().min(most)];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_plain = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b');
    text.chars().all(is_plain).then_some(text)
}

/// A text as it is, in a frame that can be scrolled with the keyboard.
pub(super) fn block(name: &str, text: &str) -> String {
    let name = escaped(name);
    format!(
        "<pre class=\"text\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">{}</pre>\n",
        escaped(text)
    )
}

/// The first rows of a table.
pub(super) fn table(body: &mut String, head: &[u8], whole: bool, delimiter: u8) {
    let (rows, more) = rows(head, whole, delimiter);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // A first row without numbers names the columns.
    let has_names =
        rows.len() > 1 && rows[0].iter().all(|cell| cell.trim().parse::<f64>().is_err());
    body.push_str("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table class=\"data\">\n");
    for (at, row) in rows.iter().enumerate() {
        let (open, close) = match at == 0 && has_names {
            true => ("<th scope=\"col\">", "</th>"),
            false => ("<td>", "</td>"),
        };
        body.push_str("<tr>");
        for cell in row.iter().take(COLUMNS) {
            let shown: String = cell.chars().take(CELL).collect();
            let rest = if shown.len() < cell.len() { "…" } else { "" };
            let _ = write!(body, "{open}{}{rest}{close}", escaped(&shown));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</table></div>\n");
    if more {
        let _ = writeln!(body, "<p>These are its first {} rows.</p>", rows.len());
    }
    if columns > COLUMNS {
        let _ = writeln!(body, "<p>{COLUMNS} of its {columns} columns are shown.</p>");
    }
}

/// Rows of the beginning of a file, and whether there are more.
fn rows(head: &[u8], whole: bool, delimiter: u8) -> (Vec<Vec<String>>, bool) {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader =
        reader.delimiter(delimiter).has_headers(false).flexible(true).from_reader(head);
    let mut rows = Vec::new();
    for record in reader.byte_records() {
        let Ok(record) = record else { break };
        if rows.len() == ROWS + 1 {
            return (rows, true);
        }
        let cell = |cell: &[u8]| String::from_utf8_lossy(cell).into_owned();
        rows.push(record.iter().map(cell).collect());
    }
    if !whole {
        // The last one may be cut.
        rows.pop();
    }
    (rows, !whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_bytes_are_no_text() {
        let long = "ä".repeat(40_000);
        let most = usize::try_from(super::super::HEAD).unwrap();
        assert_eq!(beginning(long.as_bytes()).map(str::len), Some(most));
        let odd = format!("a{long}");
        assert_eq!(beginning(odd.as_bytes()).map(str::len), Some(most - 1));
        assert_eq!(beginning(b"a\xc3"), None);
        assert_eq!(beginning(b"a\0b"), None);
        assert_eq!(beginning(b"a\tb\n"), Some("a\tb\n"));
    }

    #[test]
    fn a_table_has_its_first_rows_with_quotes_taken_off() {
        let mut shown = String::new();
        table(&mut shown, b"a,\"<b>\"\n1,\"x\"\"y\"\n", true, b',');
        assert!(shown.contains("<th scope=\"col\">&lt;b&gt;</th>"), "{shown}");
        assert!(shown.contains("<td>x&quot;y</td>") && !shown.contains("first"), "{shown}");
        let long: String = (0..500).map(|row| format!("{row};2\n")).collect();
        let (found, more) = rows(long.as_bytes(), true, b';');
        assert_eq!((found.len(), more), (ROWS + 1, true));
        // What is cut in the middle is not shown as if it were whole.
        let (found, more) = rows(b"1,2\n3,45", false, b',');
        assert_eq!((found.len(), more), (1, true));
    }
}
