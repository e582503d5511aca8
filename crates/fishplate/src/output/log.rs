//! The log of a server on its way to standard error. Lines are gathered and written together by a thread of
//! their own: a reader that stalls holds no call, and a line costs a call neither a system call nor a switch of
//! threads.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// How long lines are gathered.
const GATHERED: Duration = Duration::from_millis(20);

/// Bytes that wait at the most while nobody takes what is written; of lines beyond, the number is kept.
const MOST: usize = 16 << 20;

/// How long a process that ends waits for whoever reads its last lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes lines.
#[derive(Clone, Debug)]
pub(crate) struct LogLines(Arc<Shared>);

/// Has the rest written when it is dropped.
#[derive(Debug)]
pub(crate) struct LogThread(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Lines for which there was no room since it was told last.
    lost: u64,
    /// The process ends.
    ends: bool,
    /// All is written.
    written: bool,
}

/// Lines that a thread writes to this.
///
/// # Errors
/// If the system starts no thread.
pub(crate) fn start(to: impl Write + Send + 'static) -> io::Result<(LogLines, LogThread)> {
    let shared = Arc::new(Shared::default());
    let writing = Arc::clone(&shared);
    thread::Builder::new().name("log".to_owned()).spawn(move || writing.write_to(to))?;
    Ok((LogLines(Arc::clone(&shared)), LogThread(shared)))
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut to: impl Write) {
        while let Some((lines, lost)) = self.next() {
            // There is nobody who could be told that it can't be written.
            let _ = to.write_all(&lines).and_then(|()| to.flush());
            if lost > 0 {
                tracing::warn!(
                    lines = lost,
                    "lines of the log were lost: its reader takes too long"
                );
            }
        }
    }

    /// What has come, once it was gathered, and how many lines were lost; `None`: that was all.
    fn next(&self) -> Option<(Vec<u8>, u64)> {
        let waiting = self.waiting();
        let nothing = |waiting: &mut Waiting| waiting.lines.is_empty() && !waiting.ends;
        let waiting = self.changed.wait_while(waiting, nothing);
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let goes_on = |waiting: &mut Waiting| !waiting.ends;
        let gathered = self.changed.wait_timeout_while(waiting, GATHERED, goes_on);
        let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        if waiting.lines.is_empty() {
            waiting.written = true;
            self.changed.notify_all();
            return None;
        }
        Some((std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.lost)))
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.ends = true;
        self.0.changed.notify_all();
        drop(self.0.changed.wait_timeout_while(waiting, PATIENCE, |waiting| !waiting.written));
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

/// Each write is a line, or several.
impl Write for &LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting();
        if waiting.lines.len() + line.len() > MOST {
            waiting.lost += 1;
            return Ok(line.len());
        }
        let is_first = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        drop(waiting);
        // The thread is woken for the first line only: the others come while it gathers or writes.
        if is_first {
            self.0.changed.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time of a line: UTC, with microseconds. A thread makes the text of a second once: for each line anew
/// it took a third of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineTime;

thread_local! {
    /// A second since 1970, and its text.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

impl FormatTime for LineTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SECOND.with_borrow_mut(|(second, text)| {
            if *second != now.as_secs() {
                *second = now.as_secs();
                let moment =
                    i64::try_from(*second).ok().and_then(|it| Timestamp::from_second(it).ok());
                *text = moment.unwrap_or_default().to_string();
                text.pop();
            }
            write!(line, "{text}.{:06}Z", now.subsec_micros())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Hands on each write once somebody takes it.
    struct Handed(SyncSender<Vec<u8>>);

    impl Write for Handed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn started() -> (LogLines, LogThread, Receiver<Vec<u8>>) {
        let (sender, taken) = sync_channel(0);
        let (lines, thread) = start(Handed(sender)).unwrap();
        (lines, thread, taken)
    }

    #[test]
    fn lines_come_whole_in_order_and_before_the_end() {
        let (lines, thread, taken) = started();
        let mut expected = Vec::new();
        for number in 0..1000 {
            let line = format!("line {number}\n").into_bytes();
            (&lines).write_all(&line).unwrap();
            expected.extend(line);
        }
        let taking = thread::spawn(move || taken.iter().collect::<Vec<_>>().concat());
        drop(thread);
        assert_eq!(taking.join().unwrap(), expected);
    }

    #[test]
    fn a_line_is_written_though_no_other_comes() {
        let (lines, _thread, taken) = started();
        for line in ["one\n", "two\n"] {
            (&lines).write_all(line.as_bytes()).unwrap();
            assert_eq!(taken.recv().unwrap(), line.as_bytes());
        }
    }

    #[test]
    fn the_time_of_a_line_is_that_of_the_clock() {
        for _ in 0..3 {
            let (before, mut text) = (Timestamp::now(), String::new());
            LineTime.format_time(&mut Writer::new(&mut text)).unwrap();
            let (told, after): (Timestamp, _) = (text.parse().unwrap(), Timestamp::now());
            assert_eq!(text.len(), "2026-11-23T15:40:08.123456Z".len(), "{text}");
            let micros = |it: Timestamp| it.as_microsecond();
            assert!((micros(before)..=micros(after)).contains(&micros(told)), "{text}");
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_holds_nobody_and_costs_bounded_memory() {
        let (lines, thread, taken) = started();
        let line = [b'.'; 1 << 20];
        (&lines).write_all(&line).unwrap();
        while !lines.0.waiting().lines.is_empty() {
            thread::yield_now();
        }
        // That one is being written.
        let (room, lost) = (MOST / line.len(), 7);
        for _ in 0..room + lost {
            (&lines).write_all(&line).unwrap();
        }
        let waiting = lines.0.waiting();
        assert_eq!((waiting.lines.len(), waiting.lost), (MOST, lost as u64));
        drop((waiting, taken));
        drop(thread);
    }
}
