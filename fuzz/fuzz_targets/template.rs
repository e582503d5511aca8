#![no_main]
//! A template that parses without errors renders to words that parse to the same.

use fishplate_programs::template::{parse, words};

libfuzzer_sys::fuzz_target!(|line: &str| {
    let Ok(placed) = words::split(line) else { return };
    let words: Vec<&str> = placed.iter().map(|word| word.text.as_str()).collect();
    let parsed = parse(&words);
    for problem in &parsed.problems {
        let word = words.get(problem.at.word).copied().unwrap_or_default();
        assert!(word.get(problem.at.span.clone()).is_some(), "{problem:?}");
    }
    if let Ok(template) = parsed.into_result() {
        assert_eq!(parse(&template.to_words()).into_result(), Ok(template));
    }
});
