//! Programs that judge answers: a line of JSON each, a line of words back.

use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Judgement, shown};
use crate::record::Outcome;

/// Bytes of an answer of a checker's that are read.
const LINE_LIMIT: u64 = 64 << 10;

/// A question to a checker, as it is written.
#[derive(Debug, Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) request: u64,
    pub(crate) client: u32,
    pub(crate) operation: &'a str,
    pub(crate) status: u16,
    /// In base64.
    pub(crate) body: String,
}

/// A checker has ended, or can't be started.
#[derive(Debug, thiserror::Error)]
#[error("the checker {program} {what}")]
pub struct CheckerError {
    /// Its program.
    pub program: String,
    /// What went wrong with it.
    pub what: String,
}

type Asked = (String, oneshot::Sender<io::Result<String>>);

/// A running checker. It is asked one question after another; it ends when this is dropped, and with the agent.
#[derive(Debug)]
pub(crate) struct Checker {
    program: String,
    questions: mpsc::Sender<Asked>,
    /// Questions that it has answered.
    answered: Arc<AtomicU64>,
    /// How long it may take for one.
    within: Duration,
    child: Arc<Mutex<Child>>,
}

impl Drop for Checker {
    fn drop(&mut self) {
        // Its thread may wait for an answer, of it or of what it has left. Its number is its own until it is waited for,
        // which is later.
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(group) = i32::try_from(child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

impl Checker {
    pub(crate) fn start(
        command: &[String],
        within: Duration,
    ) -> Result<Option<Self>, CheckerError> {
        let Some(program) = command.first() else { return Ok(None) };
        let failed = |error: io::Error| CheckerError {
            program: program.clone(),
            what: format!("can't be started: {error}"),
        };
        let (questions, asked) = mpsc::channel::<Asked>();
        let (tell, started) = mpsc::channel();
        let answered = Arc::new(AtomicU64::new(0));
        let (counted, command) = (Arc::clone(&answered), command.to_vec());
        // The thread that has started it lives as long as it: for the kernel that is its parent.
        let talk = move || match spawn(&command) {
            Ok((child, to, from)) => {
                let child = Arc::new(Mutex::new(child));
                let _ = tell.send(Ok(Arc::clone(&child)));
                answer_all(asked, to, from, &counted);
                let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = child.kill();
                let _ = child.wait();
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        };
        thread::Builder::new().name("checker".to_owned()).spawn(talk).map_err(failed)?;
        let child = started.recv().map_err(|_| failed(io::ErrorKind::BrokenPipe.into()))?;
        let child = child.map_err(failed)?;
        Ok(Some(Self { program: program.clone(), questions, answered, within, child }))
    }

    /// What it says to an answer.
    pub(crate) async fn judge(&self, question: &Question<'_>) -> Result<Judgement, CheckerError> {
        let failed = |what: String| CheckerError { program: self.program.clone(), what };
        let mut line = serde_json::to_string(question).map_err(|it| failed(it.to_string()))?;
        line.push('\n');
        let (reply, mut told) = oneshot::channel();
        let ended = || failed("has ended: it has to answer each line with one".to_owned());
        self.questions.send((line, reply)).map_err(|_| ended())?;
        let mut answered = self.answered.load(Ordering::Relaxed);
        let told = loop {
            if let Ok(told) = timeout(self.within, &mut told).await {
                break told;
            }
            // Others may have been before this one.
            let now = self.answered.load(Ordering::Relaxed);
            if now == answered {
                let within = self.within;
                return Err(failed(format!(
                    "has not answered a line for {within:?} (limits.checker)"
                )));
            }
            answered = now;
        };
        let answer = told.map_err(|_| ended())?.map_err(|_| ended())?;
        Ok(match answer.trim() {
            "ok" => Ok(()),
            why => Err((Outcome::Wrong, shown(why.as_bytes()))),
        })
    }
}

/// Starts it; where its questions go, and from where its answers come.
#[expect(unsafe_code, reason = "what a process does between fork and exec")]
fn spawn(command: &[String]) -> io::Result<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    // SAFETY: a system call that may be made between fork and exec, and allocates nothing.
    unsafe {
        // If the agent is killed.
        command.pre_exec(|| Ok(prctl::set_pdeathsig(Signal::SIGKILL)?));
    }
    let mut child = command.spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (to, from) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((child, to, BufReader::new(from)))
}

/// Carries questions to it and answers back, until there is nobody to ask.
fn answer_all(
    asked: mpsc::Receiver<Asked>,
    mut to: ChildStdin,
    mut from: BufReader<ChildStdout>,
    answered: &AtomicU64,
) {
    for (question, reply) in asked {
        let mut answer = String::new();
        let told = to.write_all(question.as_bytes()).and_then(|()| to.flush());
        let told = told.and_then(|()| (&mut from).take(LINE_LIMIT).read_line(&mut answer));
        let told = told.and_then(|length| match length {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length if length as u64 == LINE_LIMIT => Err(io::ErrorKind::FileTooLarge.into()),
            _ => Ok(answer),
        });
        answered.fetch_add(1, Ordering::Relaxed);
        // Who asked may have gone.
        let _ = reply.send(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn question(request: u64) -> Question<'static> {
        Question { request, client: 1, operation: "add", status: 200, body: "YWJj".to_owned() }
    }

    fn shell(script: &str) -> Checker {
        let command = ["sh", "-c", script].map(str::to_owned);
        Checker::start(&command, LONG).expect("there is a shell").expect("and a command")
    }

    #[tokio::test]
    async fn a_checker_judges_each_answer() {
        let script = "while read -r line; do case $line in *'\"request\":7,'*) echo it is 7;; *) echo ok;; esac; done";
        let checker = shell(script);
        assert_eq!(checker.judge(&question(6)).await.expect("it runs"), Ok(()));
        let wrong = Err((Outcome::Wrong, "it is 7".to_owned()));
        assert_eq!(checker.judge(&question(7)).await.expect("it runs"), wrong);
    }

    #[tokio::test]
    async fn a_checker_that_ends_is_an_error_and_no_judgement() {
        let checker = shell("exit 1");
        let error = checker.judge(&question(1)).await.expect_err("it has ended");
        assert!(error.to_string().starts_with("the checker sh has ended"), "{error}");
    }

    #[tokio::test]
    async fn a_checker_that_hangs_is_told_and_killed_and_one_that_is_slow_is_not() {
        let start = |script: &str, within| {
            let command = ["sh", "-c", script].map(str::to_owned);
            Checker::start(&command, within).expect("there is a shell").expect("and a command")
        };
        let hangs = start("read -r line; echo ok; sleep 1000", Duration::from_millis(50));
        assert_eq!(hangs.judge(&question(1)).await.expect("it answers once"), Ok(()));
        let error = hangs.judge(&question(2)).await.expect_err("it hangs").to_string();
        assert!(error.contains("for 50ms (limits.checker)"), "{error}");
        let child = Arc::clone(&hangs.child);
        drop(hangs);
        let ended = tokio::task::spawn_blocking(move || child.lock().expect("no panic").wait());
        assert!(!ended.await.expect("no panic").expect("it ended").success());
        // Each answer is in time, though the last waits for all others.
        let slow =
            start("while read -r line; do sleep 0.1; echo ok; done", Duration::from_millis(600));
        let slow = Arc::new(slow);
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..10 {
            let slow = Arc::clone(&slow);
            asked.spawn(async move { slow.judge(&question(number)).await });
        }
        for judged in asked.join_all().await {
            assert_eq!(judged.expect("it is only slow"), Ok(()));
        }
    }

    #[test]
    fn a_checker_that_is_not_there_is_told() {
        let error =
            Checker::start(&["/no/such/program".to_owned()], LONG).expect_err("it is not there");
        assert!(error.to_string().contains("/no/such/program can't be started"), "{error}");
    }
}
