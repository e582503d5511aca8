//! Outputs as the runner that ran the job collects them.

use fishplate_jobs::executor::{Collected, OutputContent};
use fishplate_programs::plan::{OutputRule, OutputSource};

use crate::bed::Bed;

fn rule(name: &str, data_type: &str, source: OutputSource) -> OutputRule {
    let (name, data_type) = (name.to_owned(), data_type.to_owned());
    OutputRule {
        name,
        data_type,
        source,
        required: true,
        non_empty: false,
        format: None,
        media_type: String::new(),
    }
}

async fn collected(script: &str, outputs: Vec<OutputRule>, patterns: &[&str]) -> Collected {
    let bed = Bed::new();
    let (_, ending) = bed
        .run_script(script, |plan| {
            plan.outputs = outputs;
            plan.success.failure_patterns = patterns.iter().map(|&it| it.to_owned()).collect();
        })
        .await;
    ending.collected.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_files_and_globs_come_with_the_end() {
    let path = |path: &str| OutputSource::Path(path.to_owned());
    let outputs = vec![
        rule("sum", "int", path("sum")),
        rule("text", "string", path("text")),
        rule("field", "raw", path("out/field.bin")),
        rule("part", "xml", OutputSource::Glob("part-*.xml".to_owned())),
    ];
    let script = "echo ' 42 ' > sum; printf ' two\\nlines\\n' > text; mkdir out; \
                  printf 12345 > out/field.bin; printf b > part-2.xml; printf a > part-1.xml";
    let collected = collected(script, outputs, &[]).await;
    assert_eq!(collected.problem, None);
    let text = |text: &str| OutputContent::Text(text.to_owned());
    let file = |path: &str, len| OutputContent::File { path: path.to_owned(), len };
    let seen: Vec<_> = collected
        .outputs
        .into_iter()
        .map(|output| (output.name, output.label, output.content))
        .collect();
    let own = |name: &str| name.to_owned();
    assert_eq!(
        seen,
        [
            (own("sum"), None, text("42")),
            (own("text"), None, text(" two\nlines\n")),
            (own("field"), None, file("out/field.bin", 5)),
            (own("part"), Some(own("part-1.xml")), file("part-1.xml", 1)),
            (own("part"), Some(own("part-2.xml")), file("part-2.xml", 1)),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_says_is_kept() {
    let script = "echo fine; echo ' *ERROR in deck' >&2; echo last >&2";
    let collected = collected(script, Vec::new(), &[r"^\s*\*ERROR", "^Error"]).await;
    assert_eq!(collected.failure_line.as_deref(), Some(" *ERROR in deck"));
    assert_eq!(collected.stderr_tail, " *ERROR in deck\nlast\n");
}
