#![no_main]
//! Checking a service file never panics, points into the text, and gives a description exactly
//! when it reports no error.

use std::path::Path;

use fishplate_programs::descriptor::{SourceText, check_text};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let source = SourceText { name: "fuzz.toml".to_owned(), text: text.to_owned() };
    let checked = check_text(&source, Path::new("/owner"));
    for diagnostic in &checked.diagnostics {
        assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
    }
    assert_eq!(checked.description.is_none(), checked.has_errors());
});
