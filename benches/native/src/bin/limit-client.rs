//! The client of `limit-server`: `limit-client http|tcp`, driven as `fishplate_benches::driver` says.
//! One socket that sends and receives at once, so that an echo that streams can't block.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use fishplate_benches::driver::{Client, Operation, drive};
use fishplate_benches::matrix;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A head longer than this is none of our server's.
const HEAD: usize = 4096;

fn main() -> anyhow::Result<()> {
    let http = match std::env::args().nth(1).as_deref() {
        Some("http") => true,
        Some("tcp") => false,
        _ => anyhow::bail!("limit-client http|tcp"),
    };
    drive(&mut Limit { http, connection: None, size: None, body: Vec::new(), received: Vec::new() })
}

struct Limit {
    http: bool,
    connection: Option<(String, TcpStream)>,
    size: Option<usize>,
    body: Vec<u8>,
    /// Kept between calls: the limit does not pay for fresh memory.
    received: Vec<u8>,
}

impl Client for Limit {
    /// Where the bytes begin in what was received.
    type Answer = usize;

    fn prepare(
        &mut self,
        url: &str,
        operation: Operation,
        n: usize,
        numbers: &[f32],
    ) -> anyhow::Result<()> {
        anyhow::ensure!(operation != Operation::Parse, "there is nothing to parse");
        if self.size != Some(n) {
            self.body = matrix::bytes(numbers);
            self.received.resize(HEAD + self.body.len(), 0);
            self.size = Some(n);
        }
        let authority = url.split('/').nth(2).context("URL")?;
        if self.connection.as_ref().is_none_or(|(to, _)| to != authority) {
            let stream = TcpStream::connect(authority)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            self.connection = Some((authority.to_owned(), stream));
        }
        Ok(())
    }

    fn call(&mut self, operation: Operation, n: usize, _numbers: &[f32]) -> anyhow::Result<usize> {
        let (host, stream) = self.connection.as_mut().context("not prepared")?;
        let length = self.body.len();
        let head = match (self.http, operation) {
            (true, Operation::Echo) => format!(
                "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
            .into_bytes(),
            (true, _) => format!("GET /{n} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
            (false, Operation::Echo) => (length as u64).to_le_bytes().to_vec(),
            (false, _) => (length as u64 | 1 << 63).to_le_bytes().to_vec(),
        };
        let body = if operation == Operation::Echo { self.body.as_slice() } else { &[] };
        exchange(stream, &head, body, &mut self.received, length, self.http)
    }

    fn equal(&self, answer: &usize, _numbers: &[f32]) -> bool {
        self.received[*answer..*answer + self.body.len()] == self.body
    }
}

/// Sends `head` and `body` and receives `length` bytes, after a head if it is HTTP; where they begin.
fn exchange(
    stream: &mut TcpStream,
    head: &[u8],
    body: &[u8],
    received: &mut [u8],
    length: usize,
    http: bool,
) -> anyhow::Result<usize> {
    let (mut sent, mut came) = (0, 0);
    let mut begin = if http { None } else { Some(0) };
    loop {
        let mut blocked = true;
        if sent < head.len() + body.len() {
            let in_head = sent.min(head.len());
            let parts = [IoSlice::new(&head[in_head..]), IoSlice::new(&body[sent - in_head..])];
            match stream.write_vectored(&parts) {
                Ok(count) => (sent, blocked) = (sent + count, false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        match stream.read(&mut received[came..]) {
            Ok(0) => anyhow::bail!("the server closed"),
            Ok(count) => (came, blocked) = (came + count, false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if begin.is_none() {
            begin = after_head(&received[..came], length)?;
        }
        if let Some(begin) = begin
            && came >= begin + length
        {
            anyhow::ensure!(
                came == begin + length && sent == head.len() + body.len(),
                "more than asked for"
            );
            return Ok(begin);
        }
        if blocked {
            let sending = if sent < head.len() + body.len() {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            poll(
                &mut [PollFd::new(stream.as_fd(), PollFlags::POLLIN | sending)],
                PollTimeout::NONE,
            )?;
        }
    }
}

/// Where the body begins, once the head is there.
fn after_head(received: &[u8], length: usize) -> anyhow::Result<Option<usize>> {
    let head = &received[..received.len().min(HEAD)];
    let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
    anyhow::ensure!(text.starts_with("http/1.1 200"), "refused: {text}");
    anyhow::ensure!(
        text.contains(&format!("\r\ncontent-length: {length}")),
        "of another length: {text}"
    );
    Ok(Some(end + 4))
}
