//! Programs that judge answers: a line of JSON each, a line of words back.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde::Serialize;
use tokio::sync::oneshot;

use super::{Judgement, shown};
use crate::record::Outcome;

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

/// A running checker. It is asked one question after another; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Checker {
    program: String,
    questions: mpsc::Sender<Asked>,
}

impl Checker {
    pub(crate) fn start(command: &[String]) -> Result<Option<Self>, CheckerError> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let failed = |error: io::Error| CheckerError {
            program: program.clone(),
            what: format!("can't be started: {error}"),
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (questions, asked) = mpsc::channel::<Asked>();
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut to, from) = pipes.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let mut from = BufReader::new(from);
        let talk = move || {
            for (question, reply) in asked {
                let mut answer = String::new();
                let told = to.write_all(question.as_bytes()).and_then(|()| to.flush());
                let told = told.and_then(|()| from.read_line(&mut answer));
                let told = told.and_then(|length| match length {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(answer),
                });
                // Who asked may have gone.
                let _ = reply.send(told);
            }
            // All was answered: it has nothing more to do.
            drop(to);
            let _ = child.kill();
            let _ = child.wait();
        };
        thread::Builder::new().name("checker".to_owned()).spawn(talk).map_err(failed)?;
        Ok(Some(Self { program: program.clone(), questions }))
    }

    /// What it says to an answer.
    pub(crate) async fn judge(&self, question: &Question<'_>) -> Result<Judgement, CheckerError> {
        let failed = |what: String| CheckerError { program: self.program.clone(), what };
        let mut line = serde_json::to_string(question).map_err(|it| failed(it.to_string()))?;
        line.push('\n');
        let (reply, told) = oneshot::channel();
        let ended = || failed("has ended: it has to answer each line with one".to_owned());
        self.questions.send((line, reply)).map_err(|_| ended())?;
        let answer = told.await.map_err(|_| ended())?.map_err(|_| ended())?;
        Ok(match answer.trim() {
            "ok" => Ok(()),
            why => Err((Outcome::Wrong, shown(why.as_bytes()))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(request: u64) -> Question<'static> {
        Question { request, client: 1, operation: "add", status: 200, body: "YWJj".to_owned() }
    }

    fn shell(script: &str) -> Checker {
        let command = ["sh", "-c", script].map(str::to_owned);
        Checker::start(&command).expect("there is a shell").expect("and a command")
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

    #[test]
    fn a_checker_that_is_not_there_is_told() {
        let error = Checker::start(&["/no/such/program".to_owned()]).expect_err("it is not there");
        assert!(error.to_string().contains("/no/such/program can't be started"), "{error}");
    }
}
