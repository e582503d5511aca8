#![no_main]
//! Whatever is imported, there is a service file without mistakes, or it is said why there is none.

use std::path::Path;

use fishplate_descriptions::{Imported, boutiques, cwl};
use fishplate_programs::descriptor::{SourceText, check_text};

fn check(imported: Imported) {
    let Some(text) = imported.service_file else {
        assert!(imported.gaps.iter().any(|gap| gap.lost));
        return;
    };
    let source = SourceText { name: "import.toml".to_owned(), text };
    let checked = check_text(&source, Path::new("/owner"));
    assert!(!checked.has_errors(), "{:?}", checked.diagnostics);
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = boutiques::import(text).map(check);
    let _ = cwl::import(text, "fuzz").map(check);
});
