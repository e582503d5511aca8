//! What ranks write, as whole lines, so that those of one don't tear those of another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;

/// The longest line that is kept whole, in bytes.
const LONGEST_LINE: usize = 64 << 10;
/// How long the beginning of a line waits for its end: a prompt has none.
const QUIET: Duration = Duration::from_millis(200);
/// What waits for a slow reader, in bytes, before ranks wait too.
const BACKLOG: usize = 256 << 10;
/// What a pipe that has room at all takes at once (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// One of a rank's two streams.
#[derive(Debug, Default)]
struct Source {
    label: String,
    /// A line that is not whole yet.
    line: Vec<u8>,
    /// When its last byte came.
    since: Option<Instant>,
}

/// All that goes to one place, standard output or standard error.
#[derive(Debug)]
pub struct Sink {
    to: OwnedFd,
    sources: Vec<Source>,
    /// Whose line was begun, and not ended yet.
    open: Option<usize>,
    queue: Vec<u8>,
    closed: bool,
}

impl Sink {
    /// Lines of sources, each with its label before it.
    pub fn new(to: OwnedFd, labels: impl Iterator<Item = String>) -> Self {
        let sources = labels.map(|label| Source { label, ..Source::default() }).collect();
        Self { to, sources, open: None, queue: Vec::new(), closed: false }
    }

    /// Where it goes.
    pub fn destination(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    /// Whether something waits to be written.
    pub fn is_pending(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether more may come.
    pub fn has_room(&self) -> bool {
        self.queue.len() < BACKLOG
    }

    /// When the beginning of a line has waited for long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.sources.iter().filter_map(|source| source.since).min().map(|since| since + QUIET)
    }

    /// Takes what a source wrote.
    pub fn take(&mut self, at: usize, bytes: &[u8], now: Instant) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.sources[at].line.extend_from_slice(&rest[..=end]);
            rest = &rest[end + 1..];
            self.release(at);
        }
        let source = &mut self.sources[at];
        source.line.extend_from_slice(rest);
        source.since = (!source.line.is_empty()).then_some(now);
        if source.line.len() > LONGEST_LINE {
            self.release(at);
        }
    }

    /// Lets go of lines that nobody will end soon.
    pub fn tick(&mut self, now: Instant) {
        for at in 0..self.sources.len() {
            if self.sources[at].since.is_some_and(|since| now >= since + QUIET) {
                self.release(at);
            }
        }
    }

    /// Lets go of what a source has begun, whole or not.
    pub fn release(&mut self, at: usize) {
        let source = &mut self.sources[at];
        source.since = None;
        let line = std::mem::take(&mut source.line);
        if line.is_empty() || self.closed {
            return;
        }
        if self.open != Some(at) {
            if self.open.is_some() {
                self.queue.push(b'\n');
            }
            self.queue.extend_from_slice(source.label.as_bytes());
        }
        self.queue.extend_from_slice(&line);
        self.open = (line.last() != Some(&b'\n')).then_some(at);
        self.sources[at].line = line;
        self.sources[at].line.clear();
    }

    /// Lets go of what all have begun.
    pub fn release_all(&mut self) {
        (0..self.sources.len()).for_each(|at| self.release(at));
    }

    /// Writes what there is room for; whether somebody reads it.
    pub fn write(&mut self) -> bool {
        let most = self.queue.len().min(AT_ONCE);
        match nix::unistd::write(&self.to, &self.queue[..most]) {
            Ok(count) => drop(self.queue.drain(..count)),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => {
                self.queue.clear();
                self.closed = true;
            }
        }
        !self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> Sink {
        Sink::new(
            std::fs::File::create("/dev/null").unwrap().into(),
            (0..2).map(|rank| format!("[{rank}] ")),
        )
    }

    fn written(sink: &Sink) -> &str {
        std::str::from_utf8(&sink.queue).unwrap()
    }

    #[test]
    fn lines_stay_whole_however_they_come() {
        let (mut sink, now) = (sink(), Instant::now());
        sink.take(0, b"on", now);
        sink.take(1, b"two\nthr", now);
        sink.take(0, b"e\n", now);
        assert_eq!(written(&sink), "[1] two\n[0] one\n");
        sink.take(1, b"ee\n\n", now);
        assert_eq!(written(&sink), "[1] two\n[0] one\n[1] three\n[1] \n");
    }

    #[test]
    fn a_prompt_is_seen_after_a_while_and_others_begin_a_line_of_their_own() {
        let (mut sink, now) = (sink(), Instant::now());
        sink.take(0, b"name? ", now);
        sink.tick(now);
        assert_eq!((written(&sink), sink.deadline()), ("", Some(now + QUIET)));
        sink.tick(now + QUIET);
        assert_eq!((written(&sink), sink.deadline()), ("[0] name? ", None));
        sink.take(0, b"ah, ", now);
        sink.take(0, b"yes\n", now);
        assert_eq!(written(&sink), "[0] name? ah, yes\n");
        sink.take(0, b"more? ", now);
        sink.release(0);
        sink.take(1, b"other\n", now);
        sink.take(0, b"no\n", now);
        let expected = "[0] name? ah, yes\n[0] more? \n[1] other\n[0] no\n";
        assert_eq!(written(&sink), expected);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut sink = sink();
        for _ in 0..=LONGEST_LINE / 1024 {
            sink.take(0, &[b'x'; 1024], Instant::now());
        }
        assert_eq!(sink.queue.len(), "[0] ".len() + LONGEST_LINE + 1024);
    }
}
