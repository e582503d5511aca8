//! The blocks of code of a guide: fenced ones, and those that are set in by four blanks. A test takes each of them in order and runs it, or a
//! line before it says why not, for readers too: `*Not tested: WHY.*`

use std::collections::VecDeque;
use std::path::Path;

/// What stands before a block that no test runs.
const MARK: &str = "*Not tested: ";

/// The blocks of a guide that are to be run, in order.
pub(crate) struct Guide {
    name: String,
    blocks: VecDeque<Block>,
}

struct Block {
    /// The line of the guide where it begins, from 1.
    line: usize,
    language: String,
    text: String,
    is_marked: bool,
}

impl Guide {
    /// A guide of `docs/guides`, without the blocks of this language, which tests in that language run.
    pub(crate) fn open(name: &str, elsewhere: Option<&str>) -> Self {
        // Each crate with such tests is two folders below.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(name);
        let mut blocks = blocks(&std::fs::read_to_string(path).unwrap());
        blocks.retain(|block| !block.is_marked && Some(&*block.language) != elsewhere);
        Self { name: name.to_owned(), blocks }
    }

    /// The next block, which holds this text.
    pub(crate) fn block(&mut self, holds: &str) -> String {
        let next = self.blocks.pop_front();
        let block = next.unwrap_or_else(|| panic!("{} has no block with {holds:?}", self.name));
        let Block { line, text, .. } = block;
        assert!(text.contains(holds), "{}:{line}: no test runs this:\n{text}", self.name);
        text
    }

    /// No block is left.
    pub(crate) fn end(self) {
        if let Some(Block { line, text, .. }) = self.blocks.front() {
            panic!("{}:{line}: no test runs this:\n{text}", self.name);
        }
    }
}

fn blocks(guide: &str) -> VecDeque<Block> {
    let mut blocks = VecDeque::new();
    let mut lines = guide.lines().enumerate().peekable();
    let mut before = "";
    while let Some((at, line)) = lines.next() {
        let fence = line.strip_prefix("```");
        if fence.is_none() && !line.starts_with("    ") {
            before = if line.trim().is_empty() { before } else { line };
            continue;
        }
        let (mut text, language) = match fence {
            Some(language) => (String::new(), language.to_owned()),
            None => (format!("{}\n", line.trim_start()), String::new()),
        };
        while let Some((_, next)) = lines.next_if(|(_, next)| match fence {
            Some(_) => *next != "```",
            None => next.starts_with("    "),
        }) {
            text += &format!("{}\n", if fence.is_some() { next } else { &next[4..] });
        }
        if fence.is_some() {
            lines.next();
        }
        let is_marked = before.strip_prefix(MARK).is_some_and(|why| why.ends_with(".*"));
        blocks.push_back(Block { line: at + 1, language, text, is_marked });
        before = "";
    }
    blocks
}
