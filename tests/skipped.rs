//! What a test does that can't look here: it says so, past the harness, which keeps what passing tests
//! say to itself. `make test` counts these lines. What `FISHPLATE_REQUIRED` names (words with blanks
//! between them) must be had: without it the test fails.

/// Says that this test looked at nothing, because `what` can't be had: `why`.
pub(crate) fn skipped(what: &str, why: &str) {
    let required = std::env::var("FISHPLATE_REQUIRED").unwrap_or_default();
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    assert!(!required.split_whitespace().any(|one| one == what), "{test} needs {what}: {why}");
    let line = format!("skipped: {test}: {why}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}
