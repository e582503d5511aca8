//! A connection between a manager and an agent: lines of JSON, each sealed ([`super::token`]).

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::token::{NONCE_SIZE, Seal, Token, nonce};

/// The version of what manager and agents say to each other: both have the same.
const PROTOCOL: u32 = 2;
/// Bytes of a line; the longest is a plan with the files that its requests are made of.
pub(crate) const LINE_LIMIT: usize = 64 << 20;
/// Of the first line that an agent seals: what it says of itself.
const FIRST_LINE_LIMIT: usize = 64 << 10;
/// Bytes of a line of somebody who has not shown yet that he has the token.
const GREETING_LIMIT: usize = 256;
/// How long a greeting may take.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// How long a line may take to be taken by the other.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

/// Why nothing more comes or goes.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// It broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The other ended it.
    #[error("the other end closed the connection")]
    Closed,
    /// No line in time.
    #[error("the other end said nothing for {0:?}")]
    Silent(Duration),
    /// A line without an end.
    #[error("the other end sent a line of more than {limit} bytes")]
    TooLong {
        /// What is the most.
        limit: usize,
    },
    /// Not by who has the token.
    #[error("the other end has another token")]
    Forged,
    /// It speaks another version.
    #[error(
        "the other end speaks protocol {theirs}, this one {PROTOCOL}: use the same fishplate on all hosts"
    )]
    OtherProtocol {
        /// Its version.
        theirs: u32,
    },
    /// It is no such line.
    #[error("the other end said what is not of the protocol")]
    Strange(#[source] serde_json::Error),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomNumbers,
}

/// The first line of each side, which is not sealed.
#[derive(Debug, Deserialize, Serialize)]
struct Greeting {
    protocol: u32,
    /// Used once, in hexadecimal digits.
    nonce: String,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It dialled.
    Agent,
    /// It was dialled.
    Manager,
}

/// What comes.
#[derive(Debug)]
pub(crate) struct LineReader {
    from: OwnedReadHalf,
    seal: Seal,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have no end of a line in them.
    looked: usize,
    /// Bytes that the next line may have.
    limit: usize,
}

/// What goes.
#[derive(Debug)]
pub(crate) struct LineWriter {
    to: OwnedWriteHalf,
    seal: Seal,
}

/// Greets. That the other has the token shows in its first line.
pub(crate) async fn greet(
    stream: TcpStream,
    token: &Token,
    side: Side,
) -> Result<(LineReader, LineWriter), ConnectionError> {
    stream.set_nodelay(true).map_err(ConnectionError::Broken)?;
    let (mut from, mut to) = stream.into_split();
    let ours = nonce().ok_or(ConnectionError::NoRandomNumbers)?;
    let mut text = json(&Greeting { protocol: PROTOCOL, nonce: ours.clone() })?;
    text.push('\n');
    let greeted = async {
        to.write_all(text.as_bytes()).await.map_err(ConnectionError::Broken)?;
        let (mut buffer, mut looked) = (Vec::new(), 0);
        let line = next_line(&mut from, &mut buffer, &mut looked, GREETING_LIMIT).await?;
        let theirs: Greeting =
            serde_json::from_slice(&buffer[..line]).map_err(ConnectionError::Strange)?;
        buffer.drain(..=line);
        Ok((theirs, buffer))
    };
    let silent = |_| ConnectionError::Silent(GREETING_WITHIN);
    let (theirs, buffer) = timeout(GREETING_WITHIN, greeted).await.map_err(silent)??;
    if theirs.protocol != PROTOCOL {
        return Err(ConnectionError::OtherProtocol { theirs: theirs.protocol });
    }
    if theirs.nonce.len() != 2 * NONCE_SIZE {
        return Err(ConnectionError::Forged);
    }
    let (of_agent, of_manager) = match side {
        Side::Agent => (&ours, &theirs.nonce),
        Side::Manager => (&theirs.nonce, &ours),
    };
    let [agent, manager] = token.seals(of_agent, of_manager);
    // Whoever dials a manager has not shown yet that it has the token.
    let (incoming, outgoing, limit) = match side {
        Side::Agent => (manager, agent, LINE_LIMIT),
        Side::Manager => (agent, manager, FIRST_LINE_LIMIT),
    };
    Ok((
        LineReader { from, seal: incoming, buffer, looked: 0, limit },
        LineWriter { to, seal: outgoing },
    ))
}

impl LineReader {
    /// The next message. Nothing is lost if this is dropped before it is there.
    pub(crate) async fn next<T: DeserializeOwned>(
        &mut self,
        within: Duration,
    ) -> Result<T, ConnectionError> {
        let line = next_line(&mut self.from, &mut self.buffer, &mut self.looked, self.limit);
        let end = timeout(within, line).await.map_err(|_| ConnectionError::Silent(within))??;
        let text = self.seal.open(&self.buffer[..end]).ok_or(ConnectionError::Forged)?;
        self.limit = LINE_LIMIT;
        let message = serde_json::from_str(text).map_err(ConnectionError::Strange);
        self.buffer.drain(..=end);
        message
    }
}

impl LineWriter {
    /// Sends a message. If this is dropped before its end, nothing can be sent any more.
    pub(crate) async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), ConnectionError> {
        let line = self.seal.seal(&json(message)?);
        let written = timeout(WRITTEN_WITHIN, self.to.write_all(line.as_bytes())).await;
        written
            .map_err(|_| ConnectionError::Silent(WRITTEN_WITHIN))?
            .map_err(ConnectionError::Broken)
    }
}

fn json<T: Serialize>(message: &T) -> Result<String, ConnectionError> {
    serde_json::to_string(message).map_err(ConnectionError::Strange)
}

/// Reads until the buffer has a whole line; where it ends.
async fn next_line(
    from: &mut OwnedReadHalf,
    buffer: &mut Vec<u8>,
    looked: &mut usize,
    limit: usize,
) -> Result<usize, ConnectionError> {
    loop {
        if let Some(end) = buffer[*looked..].iter().position(|byte| *byte == b'\n') {
            let end = std::mem::take(looked) + end;
            return Ok(end);
        }
        *looked = buffer.len();
        if buffer.len() > limit {
            return Err(ConnectionError::TooLong { limit });
        }
        match from.read_buf(buffer).await {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(_) => {}
            Err(error) => return Err(ConnectionError::Broken(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const SOON: Duration = Duration::from_secs(20);

    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (dialled.expect("a connection"), accepted.expect("a connection").0)
    }

    async fn greeted(
        agent: &Token,
        manager: &Token,
    ) -> ((LineReader, LineWriter), (LineReader, LineWriter)) {
        let (dialled, accepted) = sockets().await;
        let (one, other) = tokio::join!(
            greet(dialled, agent, Side::Agent),
            greet(accepted, manager, Side::Manager)
        );
        (one.expect("a greeting"), other.expect("a greeting"))
    }

    #[tokio::test]
    async fn lines_arrive_whole_and_in_order_both_ways() {
        let token = Token::random().expect("a token");
        let ((mut from, mut to), (mut agent_from, mut agent_to)) = greeted(&token, &token).await;
        let long = "x".repeat(1 << 20);
        let sent = async {
            to.send(&"one").await?;
            to.send(&long).await?;
            agent_to.send(&3).await
        };
        let read = async {
            assert_eq!(agent_from.next::<String>(SOON).await.expect("a line"), "one");
            assert_eq!(agent_from.next::<String>(SOON).await.expect("a line"), long);
            assert_eq!(from.next::<u32>(SOON).await.expect("a line"), 3);
        };
        let (sent, ()) = tokio::join!(sent, read);
        sent.expect("all was sent");
        drop((to, from));
        let closed = agent_from.next::<u32>(SOON).await;
        assert!(matches!(closed, Err(ConnectionError::Closed)), "{closed:?}");
    }

    #[tokio::test]
    async fn another_token_another_version_and_a_line_without_end_are_refused() {
        let [one, other] = [(); 2].map(|()| Token::random().expect("a token"));
        let ((_, mut to), (mut from, _to_agent)) = greeted(&one, &other).await;
        to.send(&1).await.expect("it goes");
        let forged = from.next::<u32>(SOON).await;
        assert!(matches!(forged, Err(ConnectionError::Forged)), "{forged:?}");

        for (says, expected) in [
            ("{\"protocol\":7,\"nonce\":\"00\"}\n".to_owned(), "protocol 7"),
            ("GET / HTTP/1.1\r\n".to_owned(), "not of the protocol"),
            ("x".repeat(2 * GREETING_LIMIT), "more than 256 bytes"),
        ] {
            let (mut stranger, accepted) = sockets().await;
            stranger.write_all(says.as_bytes()).await.expect("it goes");
            let refused = greet(accepted, &one, Side::Manager).await.expect_err(&says).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[tokio::test]
    async fn who_has_not_shown_the_token_has_no_room_for_more_than_a_first_line() {
        let token = Token::random().expect("a token");
        let (mut stranger, accepted) = sockets().await;
        let nonce = "0".repeat(2 * NONCE_SIZE);
        let greeting = json(&Greeting { protocol: PROTOCOL, nonce }).expect("it can be said");
        stranger.write_all(format!("{greeting}\n").as_bytes()).await.expect("it goes");
        let (mut from, _to) = greet(accepted, &token, Side::Manager).await.expect("a greeting");
        stranger.write_all(&vec![b'x'; 2 * FIRST_LINE_LIMIT]).await.expect("it goes");
        let refused = from.next::<u32>(SOON).await;
        assert!(
            matches!(refused, Err(ConnectionError::TooLong { limit: FIRST_LINE_LIMIT })),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn silence_ends() {
        let token = Token::random().expect("a token");
        let ((mut from, _to), _manager) = greeted(&token, &token).await;
        let silent = from.next::<u32>(Duration::from_millis(10)).await;
        assert!(matches!(silent, Err(ConnectionError::Silent(_))), "{silent:?}");
    }
}
