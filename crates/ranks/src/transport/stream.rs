//! A connection that was dialled: directly or through a gateway, with TLS or without. It never blocks.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustls::ClientConnection;

use crate::transport::route::Route;
use crate::transport::socket::{dial, is_transient, round_trip};

/// Bytes that are encrypted at once, and wait for room in the socket at the most.
const ENCRYPTED: usize = 256 << 10;
/// Bytes of a gateway's answer, at the most.
const LONGEST_ANSWER: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// What the gateway is asked and was not written yet.
    request: Vec<u8>,
    /// The gateway has not answered yet.
    is_asking: bool,
    /// What came of its answer, and then what came with it from the process.
    ahead: Vec<u8>,
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None, request: Vec::new(), is_asking: false, ahead: Vec::new() }
    }
}

impl Stream {
    /// Begins to connect. A host that vanishes is noticed within `timeout`.
    pub(super) fn dial(route: &Route, timeout: Duration) -> io::Result<Self> {
        let mut stream = Self::from(dial(route.socket, timeout)?);
        if let Some((config, name)) = &route.tls {
            let tls = ClientConnection::new(config.clone(), name.clone());
            let mut tls = Box::new(tls.map_err(io::Error::other)?);
            tls.set_buffer_limit(Some(ENCRYPTED));
            stream.tls = Some(tls);
        }
        stream.request.clone_from(&route.request);
        stream.is_asking = !route.request.is_empty();
        Ok(stream)
    }

    /// How long there and back takes, as the system has seen it.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        round_trip(&self.socket)
    }

    /// Goes on with what stands before the first frame, once the socket is connected or ready; whether all of it is done.
    pub(super) fn open(&mut self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.advance() {
            Ok(()) => Ok(true),
            Err(error) if is_transient(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn advance(&mut self) -> io::Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.flush()?;
            if self.receive()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        while !self.request.is_empty() {
            let request = std::mem::take(&mut self.request);
            let written = self.write(&request);
            self.request = request;
            self.request.drain(..written?);
        }
        self.flush()?;
        while self.is_asking {
            let mut bytes = [0; 1024];
            let count = self.take(&mut bytes)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.ahead.extend_from_slice(&bytes[..count]);
            if let Some(length) = switched(&self.ahead)? {
                self.ahead.drain(..length);
                self.is_asking = false;
            }
        }
        Ok(())
    }

    /// Whether it waits for room in its socket.
    pub(super) fn wants_write(&self) -> bool {
        match &self.tls {
            Some(tls) => tls.wants_write(),
            None => !self.request.is_empty(),
        }
    }

    /// There may be something to read of which the system does not know.
    pub(super) fn reads_ahead(&self) -> bool {
        self.tls.is_some() || !self.ahead.is_empty()
    }

    /// Reads what is encrypted; 0 is the end.
    fn receive(&mut self) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let count = tls.read_tls(&mut self.socket)?;
        if let Err(error) = tls.process_new_packets() {
            // What is wrong is told, if there is room.
            let _ = self.flush();
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        Ok(count)
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else { return self.socket.read(bytes) };
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.receive()?;
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return self.take(bytes);
        }
        let count = self.ahead.len().min(bytes.len());
        bytes[..count].copy_from_slice(&self.ahead[..count]);
        self.ahead.drain(..count);
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// What is encrypted and finds no room is written by the next write, or by [`Write::flush`].
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.tls.is_none() {
            return self.socket.write_vectored(parts);
        }
        self.flush()?;
        let count = match &mut self.tls {
            Some(tls) => tls.writer().write_vectored(parts)?,
            None => 0,
        };
        match self.flush() {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The length of the answer of a gateway that passes on from here; `None` if it is not all here.
fn switched(bytes: &[u8]) -> io::Result<Option<usize>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = bytes.windows(END.len()).position(|four| four == END) else {
        return if bytes.len() < LONGEST_ANSWER {
            Ok(None)
        } else {
            Err(io::Error::other("its gateway gave a strange answer"))
        };
    };
    if bytes.starts_with(b"HTTP/1.1 101 ") {
        return Ok(Some(end + END.len()));
    }
    let line = bytes[..end].split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    Err(io::Error::other(format!("its gateway does not pass on: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_switches_or_says_why_not() {
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: fishplate-rank\r\n\r\nand more";
        assert_eq!(switched(answer).unwrap(), Some(answer.len() - "and more".len()));
        assert_eq!(switched(&answer[..40]).unwrap(), None);
        let refusal = switched(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").unwrap_err().to_string();
        assert!(refusal.ends_with("HTTP/1.1 502 Bad Gateway"), "{refusal}");
        assert!(switched(&[b'x'; LONGEST_ANSWER]).is_err());
    }
}
