//! A client: its connections, its cookies, and one request after another.

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use tokio::time::timeout;

use super::connection::{Broken, Connection};
use super::prepared::{Prepared, PreparedOperation};
use super::response::AnswerReader;
use crate::check::{Answer, CheckerError, Judgement, Question};
use crate::probe::unreachable;
use crate::random::Random;
use crate::record::Outcome;
use crate::request::RequestId;
use crate::request::outgoing::Outgoing;

/// A client.
pub(super) struct Client {
    pub(super) number: u32,
    /// By target.
    connections: Vec<Option<Connection>>,
    cookies: Vec<String>,
    body: Outgoing,
    outgoing: Outgoing,
    answer: AnswerReader,
}

/// What became of a request.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// 0: none.
    pub(super) status: u16,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// What it waited because it reads slowly: none of the server's time.
    pub(super) waited: Duration,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// It opened a session that is not kept.
    pub(super) drops_session: bool,
    /// What is to be told of it, if it was not right.
    pub(super) said: Option<String>,
}

/// Why there is nothing to count.
#[derive(Debug, thiserror::Error)]
pub(super) enum Shortage {
    /// This machine, not the server, has no more of something.
    #[error("the agent can't begin a request: {0}")]
    Own(io::Error),
    #[error(transparent)]
    Checker(#[from] CheckerError),
}

/// Why an attempt gave no answer.
enum Failed {
    Own(io::Error),
    Ended(Outcome, String),
}

impl Client {
    pub(super) fn new(number: u32, load: &Prepared) -> Self {
        Self {
            number,
            connections: load.targets.iter().map(|_| None).collect(),
            cookies: Vec::new(),
            body: Outgoing::default(),
            outgoing: Outgoing::default(),
            answer: AnswerReader::default(),
        }
    }

    /// Makes a request of an operation and waits for what becomes of it.
    pub(super) async fn perform(
        &mut self,
        load: &Prepared,
        operation: usize,
        request: u64,
        random: &mut Random,
    ) -> Result<Ended, Shortage> {
        let operation = &load.operations[operation];
        let id = RequestId { request, client: self.number };
        self.answer.begin(operation.keep);
        let began = Instant::now();
        let mut sent = 0;
        let attempt = self.attempt(load, operation, id, random, &mut sent);
        let attempt = timeout(load.gives_up_after, attempt).await;
        let ended = Instant::now();
        let (judgement, waited) = match attempt {
            Ok(Ok(waited)) => (self.judge(operation, id).await?, waited),
            Ok(Err(Failed::Own(error))) => return Err(Shortage::Own(error)),
            Ok(Err(Failed::Ended(outcome, said))) => (Err((outcome, said)), Duration::ZERO),
            Err(_) => {
                let said = format!("no answer within {:?}", load.gives_up_after);
                (Err((Outcome::Unanswered, said)), Duration::ZERO)
            }
        };
        let (outcome, said) = match judgement {
            Ok(()) => (Outcome::Right, None),
            Err((outcome, said)) => (outcome, Some(said)),
        };
        let (status, received) = (self.answer.status(), self.answer.received());
        let drops_session = self.answer.sets_cookies() && load.cookies.is_none();
        Ok(Ended { outcome, status, began, ended, waited, sent, received, drops_session, said })
    }

    /// Sends a request and reads its answer; what it waited as a slow reader.
    async fn attempt(
        &mut self,
        load: &Prepared,
        operation: &PreparedOperation,
        id: RequestId,
        random: &mut Random,
        sent: &mut u64,
    ) -> Result<Duration, Failed> {
        let outgoing =
            operation.render(id, random, &self.cookies, &mut self.body, &mut self.outgoing);
        // What is slow or cut off on purpose has a connection of its own.
        let apart = operation.read_rate.is_some() || operation.send_part.is_some();
        let kept = if apart { None } else { self.connections[operation.target].take() };
        let fresh = kept.and_then(|mut kept| (!kept.is_stale()).then_some(kept));
        let mut connection = match fresh {
            Some(kept) => kept,
            None => open(load, operation).await?,
        };
        *sent = outgoing.len() as u64;
        if let Some(part) = operation.send_part {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of a length is one"
            )]
            let end = (outgoing.len() as f64 * part) as usize;
            *sent = end as u64;
            // Whether the server closes it or waits, the client leaves.
            let _ = timeout(load.deadline, connection.send_part(outgoing, end)).await;
            return Err(Failed::Ended(Outcome::Abandoned, String::new()));
        }
        let answer = &mut self.answer;
        let exchanged = connection.exchange(outgoing, outgoing.len(), answer, operation.read_rate);
        let waited = exchanged
            .await
            .map_err(|error: Broken| Failed::Ended(Outcome::Broken, error.to_string()))?;
        for cookie in self.answer.cookies() {
            keep(&mut self.cookies, cookie, load.cookies.unwrap_or_default());
        }
        if !apart && load.keep_alive && self.answer.is_reusable() {
            self.connections[operation.target] = Some(connection);
        } else {
            connection.close();
        }
        Ok(waited)
    }

    async fn judge(
        &mut self,
        operation: &PreparedOperation,
        id: RequestId,
    ) -> Result<Judgement, CheckerError> {
        let digest = self.answer.digest();
        let answer = Answer { status: self.answer.status(), body: self.answer.body(), digest };
        let judgement = operation.expected.judge(answer, id);
        match &operation.checker {
            Some(checker) if judgement.is_ok() => {
                let question = Question {
                    request: id.request,
                    client: id.client,
                    operation: &operation.name,
                    status: answer.status,
                    body: base64_simd::STANDARD.encode_to_string(answer.body),
                };
                checker.judge(&question).await
            }
            _ => Ok(judgement),
        }
    }
}

async fn open(load: &Prepared, operation: &PreparedOperation) -> Result<Connection, Failed> {
    let opening = Connection::open(&load.targets[operation.target], operation.read_rate.is_some());
    match timeout(load.deadline, opening).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if is_own(&error) => Err(Failed::Own(error)),
        Ok(Err(error)) => Err(Failed::Ended(Outcome::Unreachable, unreachable(&error))),
        Err(_) => {
            let said = unreachable(&io::ErrorKind::TimedOut.into());
            Err(Failed::Ended(Outcome::Unreachable, said))
        }
    }
}

/// Whether this machine lacks something: descriptors, ports, memory.
fn is_own(error: &io::Error) -> bool {
    const OWN: [Errno; 5] =
        [Errno::EMFILE, Errno::ENFILE, Errno::EADDRNOTAVAIL, Errno::ENOBUFS, Errno::ENOMEM];
    error.raw_os_error().is_some_and(|number| OWN.contains(&Errno::from_raw(number)))
}

/// Keeps a cookie, in the place of one of the same name, unless it is too long; the oldest gives way if there are too many.
fn keep(cookies: &mut Vec<String>, cookie: &str, (most, size): (usize, usize)) {
    if cookie.len() > size || most == 0 {
        return;
    }
    let name = |cookie: &str| cookie.split('=').next().unwrap_or_default().to_owned();
    match cookies.iter_mut().find(|kept| name(kept) == name(cookie)) {
        Some(kept) => cookie.clone_into(kept),
        None => {
            if cookies.len() >= most {
                cookies.remove(0);
            }
            cookies.push(cookie.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_keeps_so_many_cookies_and_none_that_is_too_long() {
        let mut cookies = Vec::new();
        for cookie in ["a=1", "b=2", "a=3", "c=4", "long=5678"] {
            keep(&mut cookies, cookie, (2, 5));
        }
        assert_eq!(cookies, ["b=2", "c=4"]);
    }
}
