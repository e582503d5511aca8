//! One control connection.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use suppaftp::tokio::{
    AsyncRustlsConnector, AsyncRustlsFtpStream, AsyncRustlsStream, TransferStream,
};
use suppaftp::types::{FileType, FtpResult, Response};
use suppaftp::{FtpError, Mode, Status};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::TransferError;
use super::FtpAddress;

/// Data connections are made to ports above this one: a server can't send us to another service.
const WELL_KNOWN: u16 = 1023;

/// Characters of a server's answer that are passed on.
const ANSWER: usize = 200;

pub(super) struct Session {
    stream: AsyncRustlsFtpStream,
    extended: bool,
    pub(super) peer: String,
    pub(super) stall_time: Duration,
}

#[derive(Clone, Copy)]
enum DataConnection {
    Retrieve,
    Store,
}

impl Session {
    /// Connects to the first address that answers, and logs in.
    pub(super) async fn open(
        place: &FtpAddress<'_>,
        addresses: &[SocketAddr],
        tls: Option<Arc<ClientConfig>>,
        login: Option<(&str, &str)>,
        time: Duration,
    ) -> Result<Self, TransferError> {
        let mut reason = "its name has no address".to_owned();
        let mut refused = false;
        for address in addresses {
            match tokio::time::timeout(time, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => {
                    let greeted = greet(tcp, *address, &place.host, tls, login, time);
                    let stream = asked(&place.peer, time, greeted).await?;
                    let peer = place.peer.clone();
                    return Ok(Self { stream, extended: true, peer, stall_time: time });
                }
                Ok(Err(error)) => {
                    refused = error.kind() == io::ErrorKind::ConnectionRefused;
                    reason = error.to_string();
                }
                Err(_) => {
                    refused = false;
                    reason = format!("it did not answer within {time:?}");
                }
            }
        }
        if refused {
            return Err(TransferError::Unreachable { peer: place.peer.clone(), reason });
        }
        Err(broken(&place.peer, reason))
    }

    /// How long a file is, if the server tells.
    pub(super) async fn size(&mut self, path: &str) -> Result<Option<u64>, TransferError> {
        let size = self.stream.custom_command(format!("SIZE {path}"), &[Status::File]);
        Ok(told(&self.peer, self.stall_time, size).await?.and_then(|size| size.parse().ok()))
    }

    /// When a file was changed, as the server writes it.
    pub(super) async fn modified(&mut self, path: &str) -> Result<Option<String>, TransferError> {
        let at = self.stream.custom_command(format!("MDTM {path}"), &[Status::File]);
        told(&self.peer, self.stall_time, at).await
    }

    /// Opens a file for reading at an offset, or at 0 if the server can't begin elsewhere.
    pub(super) async fn retrieve(
        &mut self,
        path: &str,
        offset: u64,
    ) -> Result<(u64, TransferStream<AsyncRustlsStream>), TransferError> {
        self.transfer(DataConnection::Retrieve, path, offset).await
    }

    /// Opens a file for writing at an offset, or at 0 if the server can't begin elsewhere.
    pub(super) async fn store(
        &mut self,
        path: &str,
        offset: u64,
    ) -> Result<(u64, TransferStream<AsyncRustlsStream>), TransferError> {
        self.transfer(DataConnection::Store, path, offset).await
    }

    /// Gives a file another name, whose file is replaced.
    pub(super) async fn rename(&mut self, from: &str, to: &str) -> Result<(), TransferError> {
        let renamed = asked(&self.peer, self.stall_time, self.stream.rename(from, to)).await;
        let Err(TransferError::Refused { .. }) = renamed else { return renamed };
        // Some servers do not replace; the error that counts is then that of the second time.
        let _ = asked(&self.peer, self.stall_time, self.stream.rm(to)).await;
        asked(&self.peer, self.stall_time, self.stream.rename(from, to)).await
    }

    async fn transfer(
        &mut self,
        way: DataConnection,
        path: &str,
        mut offset: u64,
    ) -> Result<(u64, TransferStream<AsyncRustlsStream>), TransferError> {
        loop {
            let mode = if self.extended { Mode::ExtendedPassive } else { Mode::Passive };
            self.stream.set_mode(mode);
            let restart = usize::try_from(offset).unwrap_or(0);
            let started = async {
                self.stream.resume_transfer(restart).await?;
                match way {
                    DataConnection::Retrieve => self.stream.retr_as_stream(path).await,
                    DataConnection::Store => self.stream.put_with_stream(path).await,
                }
            };
            let refused = match tokio::time::timeout(self.stall_time, started).await {
                Ok(Ok(stream)) => return Ok((offset, stream)),
                Ok(Err(FtpError::UnexpectedResponse(refused))) => refused,
                Ok(Err(error)) => return Err(failed(&self.peer, error)),
                Err(_) => return Err(broken(&self.peer, "it did not begin the transfer")),
            };
            match refused.status.code() {
                500..=504 | 522 if self.extended => self.extended = false,
                500..=504 if offset > 0 => offset = 0,
                _ => return Err(failed(&self.peer, FtpError::UnexpectedResponse(refused))),
            }
        }
    }
}

async fn greet(
    tcp: TcpStream,
    address: SocketAddr,
    host: &str,
    tls: Option<Arc<ClientConfig>>,
    login: Option<(&str, &str)>,
    time: Duration,
) -> FtpResult<AsyncRustlsFtpStream> {
    tcp.set_nodelay(true).map_err(FtpError::ConnectionError)?;
    let stream = AsyncRustlsFtpStream::connect_with_stream(tcp).await?;
    let mut stream = stream.passive_stream_builder(move |told: SocketAddr| {
        let data = SocketAddr::new(address.ip(), told.port());
        Box::pin(async move {
            if data.port() <= WELL_KNOWN {
                let reason = format!("it wants its data connection at port {}", data.port());
                return Err(FtpError::ConnectionError(io::Error::other(reason)));
            }
            let connected = tokio::time::timeout(time, TcpStream::connect(data)).await;
            let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
            connected.map_err(timed_out).flatten().map_err(FtpError::ConnectionError)
        })
    });
    if let Some(config) = tls {
        let connector = AsyncRustlsConnector::from(TlsConnector::from(config));
        stream = stream.into_secure(connector, host).await?;
    }
    // The password of an anonymous user is a courtesy (RFC 1635).
    let (user, password) = login.unwrap_or(("anonymous", "fishplate@"));
    stream.login(user, password).await?;
    stream.transfer_type(FileType::Binary).await?;
    Ok(stream)
}

/// What the server answers, or that it failed.
pub(super) async fn asked<T>(
    peer: &str,
    time: Duration,
    asking: impl Future<Output = FtpResult<T>>,
) -> Result<T, TransferError> {
    match tokio::time::timeout(time, asking).await {
        Ok(answered) => answered.map_err(|error| failed(peer, error)),
        Err(_) => Err(broken(peer, format!("it did not answer within {time:?}"))),
    }
}

/// What the server tells of a file after the answer's code, or `None` if it does not.
async fn told(
    peer: &str,
    time: Duration,
    asking: impl Future<Output = FtpResult<Response>>,
) -> Result<Option<String>, TransferError> {
    let asking = async {
        match asking.await {
            Err(FtpError::UnexpectedResponse(_)) => Ok(None),
            other => other.map(Some),
        }
    };
    let answer = asked(peer, time, asking).await?;
    let line = answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
    Ok(line.and_then(|line| Some(line.trim().strip_prefix("213")?.trim().to_owned())))
}

pub(super) fn broken(peer: &str, reason: impl fmt::Display) -> TransferError {
    TransferError::Broken { peer: peer.to_owned(), reason: reason.to_string() }
}

pub(super) fn failed(peer: &str, error: FtpError) -> TransferError {
    let peer = peer.to_owned();
    match error {
        FtpError::UnexpectedResponse(answer) => {
            let text = String::from_utf8_lossy(&answer.body);
            let text = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
            let text: String = text.take(ANSWER).collect();
            match answer.status.code() {
                400..=499 => TransferError::Busy { peer, answer: text, retry_after: None },
                500..=599 => TransferError::Refused { peer, answer: text },
                _ => TransferError::Broken { peer, reason: format!("it answers {text}") },
            }
        }
        FtpError::SecureError(reason) if reason.contains("certificate") => {
            TransferError::Refused { peer, answer: reason }
        }
        error => TransferError::Broken { peer, reason: error.to_string() },
    }
}
