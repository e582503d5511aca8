//! A client of the benchmark: one process that reads what to do and answers with times, so that
//! clients of many stacks can take turns.
//!
//! A line of stdin is `URL OPERATION N REPETITIONS`, one of stdout
//! `{"equal": true, "seconds": [0.001, ...]}`. No repetitions: one call, whose answer is compared
//! with what was sent.

use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use anyhow::Context as _;

use crate::matrix;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The matrix in the request, the same in the answer.
    Echo,
    /// Its size in the request, the matrix in the answer.
    GetMatrix,
    /// An answer to `GetMatrix`, kept in memory, becomes numbers.
    Parse,
}

/// One stack's client.
pub trait Client {
    /// What a call gives: numbers, or bytes where the stack hands over bytes.
    type Answer;

    /// Before the first of some calls, not timed: connects to `url`, takes the matrix, keeps an
    /// answer for [`Operation::Parse`].
    ///
    /// # Errors
    ///
    /// The server can't be reached, or the stack doesn't know the operation.
    fn prepare(
        &mut self,
        url: &str,
        operation: Operation,
        n: usize,
        numbers: &[f32],
    ) -> anyhow::Result<()>;

    /// One call, timed.
    ///
    /// # Errors
    ///
    /// The call failed: the measurement ends.
    fn call(
        &mut self,
        operation: Operation,
        n: usize,
        numbers: &[f32],
    ) -> anyhow::Result<Self::Answer>;

    /// Whether the same numbers came back, to the last bit; not timed.
    fn equal(&self, answer: &Self::Answer, numbers: &[f32]) -> bool;
}

/// Does what stdin asks until it ends.
///
/// # Errors
///
/// A line that is none, or a call that failed.
pub fn drive(client: &mut impl Client) -> anyhow::Result<()> {
    let (mut size, mut numbers) = (0, Vec::new());
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [url, operation, n, repetitions] = words[..] else {
            anyhow::bail!("{line:?} is not URL OPERATION N REPETITIONS");
        };
        let operation = match operation {
            "echo" => Operation::Echo,
            "getMatrix" => Operation::GetMatrix,
            "parse" => Operation::Parse,
            other => anyhow::bail!("{other:?} is none of echo, getMatrix, parse"),
        };
        let n = n.parse().context("N")?;
        if n != size {
            (size, numbers) = (n, matrix::numbers(n));
        }
        client.prepare(url, operation, n, &numbers)?;
        let repetitions: usize = repetitions.parse().context("REPETITIONS")?;
        let mut equal = true;
        if repetitions == 0 {
            let answer = client.call(operation, n, &numbers)?;
            equal = client.equal(&answer, &numbers);
        }
        let mut seconds = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            let begin = Instant::now();
            let answer = client.call(operation, n, &numbers)?;
            seconds.push(begin.elapsed().as_secs_f64());
            drop(answer);
        }
        // Debug prints a list of numbers as JSON does.
        writeln!(out, "{{\"equal\": {equal}, \"seconds\": {seconds:?}}}")?;
        out.flush()?;
    }
    Ok(())
}
