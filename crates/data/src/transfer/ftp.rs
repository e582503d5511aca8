//! FTP (RFC 959, 3659) in passive mode, over TLS (RFC 4217) where the operator says so.
//!
//! Everybody is anonymous but on hosts whose account the operator's settings hold; an address never
//! brings credentials. Data connections go to the address of the control connection, whatever the
//! server's answer to PASV says, so they lead nowhere that the policy did not allow.

mod session;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use serde::Deserialize;
use suppaftp::tokio::AsyncRustlsStream;
use suppaftp::tokio::TransferStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::{Host, Url};

use self::session::{Session, asked, broken};
use super::source::{CHUNK, PayloadSource, file_name};
use super::{
    Addresses, Delivery, OpenedSource, ReadRequest, TransferBody, TransferError, TransferFuture,
    TransferSettings, Transport, Validator,
};
use crate::http::SystemAddresses;
use crate::http::tls::{self, Trust};
use crate::settings::{SecretSource, SecretValue, SettingsError, host_key};

const PORT: u16 = 21;

/// What the operator says of one FTP server (`[transfer.ftp."HOST"]`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FtpSettings {
    /// The account; else anonymous.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<SecretSource>,
    /// Both connections are encrypted (`AUTH TLS`), or nothing is sent.
    pub tls: bool,
    /// The authorities to trust, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Callers may read from it.
    pub read: bool,
    /// Callers may deliver to it.
    pub write: bool,
}

impl Default for FtpSettings {
    fn default() -> Self {
        Self { user: None, password: None, tls: false, ca_file: None, read: true, write: false }
    }
}

/// The transport of `ftp:`.
#[derive(Debug)]
pub struct Ftp {
    accounts: BTreeMap<String, Account>,
    /// For hosts without an account.
    addresses: Arc<dyn Addresses>,
    connect_time: Duration,
    stall_time: Duration,
}

#[derive(Debug)]
struct Account {
    login: Option<(String, SecretValue)>,
    tls: Option<Arc<ClientConfig>>,
    read: bool,
    write: bool,
}

/// An address, taken apart.
#[derive(Debug)]
struct FtpAddress<'f> {
    /// Scheme and authority, for messages.
    peer: String,
    host: String,
    port: u16,
    path: String,
    account: Option<&'f Account>,
}

impl Ftp {
    /// FTP with these settings; `addresses` says which hosts without an account may be asked.
    pub fn new(
        settings: &BTreeMap<String, FtpSettings>,
        bounds: &TransferSettings,
        addresses: Arc<dyn Addresses>,
    ) -> Result<Self, SettingsError> {
        let mut accounts = BTreeMap::new();
        for (name, account) in settings {
            let key = format!("transfer.ftp.{name:?}");
            let host = Url::parse(&format!("ftp://{name}/")).ok().and_then(|url| {
                let plain = url.username().is_empty() && url.path() == "/";
                let host = url.host().filter(|_| plain && url.query().is_none())?;
                Some(host_key(&host, url.port().unwrap_or(PORT), PORT))
            });
            let host = host.ok_or_else(|| {
                SettingsError::unusable(&key, "the key is a host, or host:port if it is not 21")
            })?;
            accounts.insert(host, Account::new(&key, account)?);
        }
        Ok(Self { accounts, addresses, connect_time: bounds.connect, stall_time: bounds.stall })
    }

    /// Takes an address apart and looks whether its host may be asked.
    fn place(&self, url: &Url, deliver: bool) -> Result<FtpAddress<'_>, TransferError> {
        let unusable =
            |reason: &str| TransferError::Unsupported(format!("this address of FTP: {reason}"));
        let host = url.host().ok_or_else(|| unusable("it has no host"))?;
        let anonymous = ["", "anonymous", "ftp"].contains(&url.username());
        if !anonymous || (url.username().is_empty() && url.password().is_some()) {
            return Err(unusable(
                "it holds credentials; leave them out, they are the operator's (transfer.ftp)",
            ));
        }
        let port = url.port().unwrap_or(PORT);
        let key = host_key(&host, port, PORT);
        let account = self.accounts.get(&key);
        let forbidden = |rule| TransferError::Forbidden { address: key.clone(), rule };
        if account.is_some_and(|account| deliver && !account.write) {
            return Err(forbidden("transfer.ftp.write"));
        }
        if account.is_some_and(|account| !deliver && !account.read) {
            return Err(forbidden("transfer.ftp.read"));
        }
        let path = path_of(url.path()).map_err(unusable)?;
        if path.is_empty() || path.ends_with('/') && !deliver {
            return Err(unusable("it names no file"));
        }
        Ok(FtpAddress { peer: format!("ftp://{key}"), host: bare(&host), port, path, account })
    }

    async fn connect(&self, place: &FtpAddress<'_>) -> Result<Session, TransferError> {
        let addresses = match place.account {
            Some(_) => SystemAddresses.resolve(&place.host, place.port).await?,
            None => self.addresses.resolve(&place.host, place.port).await?,
        };
        let tls = place.account.and_then(|account| account.tls.clone());
        let login = place.account.and_then(|account| account.login.as_ref());
        let login = login.map(|(user, password)| (user.as_str(), password.reveal()));
        let session = Session::open(place, &addresses, tls, login, self.connect_time);
        let mut session = session.await?;
        session.stall_time = self.stall_time;
        Ok(session)
    }

    async fn read(&self, from: &Url, want: ReadRequest) -> Result<OpenedSource, TransferError> {
        let place = self.place(from, false)?;
        let mut session = self.connect(&place).await?;
        let total = session.size(&place.path).await?;
        let modified = session.modified(&place.path).await?;
        let version =
            total.zip(modified).map(|(size, at)| Validator(format!("{size} bytes of {at}")));
        let changed = want.version.is_some() && want.version != version;
        // REST past the end is an error on some servers, and silently nothing on others.
        let wanted =
            if changed || total.is_some_and(|total| want.offset > total) { 0 } else { want.offset };
        let (offset, stream) = session.retrieve(&place.path, wanted).await?;
        let rest = total.map(|total| total - offset);
        // A part was asked for, but the server can't begin there: it is the caller's to see.
        let part = want.len.filter(|_| offset == want.offset && !changed);
        let body = FtpBody {
            stream: Some(stream),
            left: match (part, rest) {
                (Some(part), Some(rest)) => Some(part.min(rest)),
                (part, rest) => part.or(rest),
            },
            to_the_end: part.is_none_or(|part| rest.is_some_and(|rest| part >= rest)),
            buffer: BytesMut::new(),
            session,
        };
        Ok(OpenedSource { offset, total, version, digest: None, body: Box::new(body) })
    }

    async fn store(&self, parcel: &Delivery, to: &Url) -> Result<(), TransferError> {
        let mut place = self.place(to, true)?;
        if place.path.ends_with('/') {
            place.path.push_str(&file_name(&parcel.name));
        }
        let len = PayloadSource::len(&parcel.payload)?;
        let mut session = self.connect(&place).await?;
        // Whoever has an account may rename, so what is not whole is never seen under its name.
        // Anonymous users mostly may not; nor could they go on with a file that is there.
        let own = place.account.is_some_and(|account| account.login.is_some());
        let name = if own { partial_name(&place.path, parcel) } else { place.path.clone() };
        let there = match parcel.digest {
            Some(_) if own => session.size(&name).await?.unwrap_or(0),
            _ => 0,
        };
        let there = if there <= len { there } else { 0 };
        if there < len || len == 0 {
            send(&mut session, parcel, &name, there).await?;
        }
        parcel.progress.set(len);
        if let Some(arrived) = session.size(&name).await?.filter(|arrived| *arrived != len) {
            let reason = format!("{arrived} of {len} bytes arrived");
            return Err(broken(&place.peer, reason));
        }
        if own {
            session.rename(&name, &place.path).await?;
        }
        Ok(())
    }
}

impl Transport for Ftp {
    fn schemes(&self) -> &[&'static str] {
        &["ftp"]
    }

    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        self.place(to, true).map(|_| ())
    }

    fn open<'t>(&'t self, from: &'t Url, want: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        Box::pin(self.read(from, want))
    }

    fn deliver<'t>(&'t self, parcel: &'t Delivery, to: &'t Url) -> TransferFuture<'t, Option<Url>> {
        Box::pin(async { self.store(parcel, to).await.map(|()| None) })
    }
}

impl Account {
    fn new(key: &str, settings: &FtpSettings) -> Result<Self, SettingsError> {
        let login = match (&settings.user, &settings.password) {
            (Some(user), Some(password)) if !user.contains(|c: char| c.is_control()) => {
                Some((user.clone(), password.read(&format!("{key}.password"))?))
            }
            (None, None) => None,
            _ => return Err(SettingsError::unusable(key, "user and password belong together")),
        };
        if login.is_some() && !settings.tls {
            tracing::warn!("{key}: its password goes over the network in clear; set tls = true");
        }
        if settings.ca_file.is_some() && !settings.tls {
            return Err(SettingsError::unusable(key, "ca_file is of no use without tls = true"));
        }
        let tls = settings.tls.then(|| tls::config(&Trust::of(settings.ca_file.clone())));
        let (read, write) = (settings.read, settings.write);
        let tls = tls.transpose().map_err(|error| SettingsError::unusable(key, error))?;
        Ok(Self { login, tls: tls.map(Arc::new), read, write })
    }
}

/// The path of a file, relative to where the login leads unless it begins with `%2F` (RFC 1738,
/// section 3.2.2).
fn path_of(path: &str) -> Result<String, &'static str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = match path.rsplit_once(";type=") {
        Some((path, "i" | "I")) => path,
        Some(_) => return Err("only ;type=i is transferred, bytes as they are"),
        None => path,
    };
    let path = percent_decode_str(path).decode_utf8().map_err(|_| "its path is not UTF-8")?;
    if path.contains(|c: char| c.is_control()) {
        return Err("its path has control characters");
    }
    if path.split('/').any(|segment| segment == "..") {
        return Err("its path has a segment ..");
    }
    Ok(path.into_owned())
}

/// The name of a delivery that is not whole: another output never goes on with its bytes.
fn partial_name(path: &str, parcel: &Delivery) -> String {
    let (directory, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    let of = parcel.digest.map_or_else(|| "new".to_owned(), |digest| digest.hex()[..16].to_owned());
    format!("{directory}.{name}.{of}.part")
}

fn bare(host: &Host<&str>) -> String {
    match host {
        Host::Domain(name) => (*name).to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

async fn send(
    session: &mut Session,
    parcel: &Delivery,
    name: &str,
    there: u64,
) -> Result<(), TransferError> {
    let (offset, mut stream) = session.store(name, there).await?;
    let mut source = PayloadSource::open(&parcel.payload, offset, None).await?;
    parcel.progress.set(offset);
    let (peer, stall) = (session.peer.clone(), session.stall_time);
    while let Some(chunk) = source.next().await? {
        let written = tokio::time::timeout(stall, stream.write_all(&chunk)).await;
        let reason = match written {
            Ok(Ok(())) => {
                parcel.progress.add(chunk.len() as u64);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => return Err(broken(&peer, "it took nothing for too long")),
        };
        // The server says why on the other connection: its disk is full, or a quota is.
        return Err(match asked(&peer, stall, stream.finish()).await {
            Err(said @ (TransferError::Busy { .. } | TransferError::Refused { .. })) => said,
            _ => broken(&peer, reason),
        });
    }
    asked(&peer, stall, stream.finish()).await
}

struct FtpBody {
    /// `None` once all was read.
    stream: Option<TransferStream<AsyncRustlsStream>>,
    /// Bytes to come, if known.
    left: Option<u64>,
    /// They are the last ones of the file: then the server has to say that it sent all.
    to_the_end: bool,
    buffer: BytesMut,
    /// Its control connection has to live as long as the data connection.
    session: Session,
}

impl std::fmt::Debug for FtpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FtpBody").field("left", &self.left).finish_non_exhaustive()
    }
}

impl FtpBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, TransferError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if self.left == Some(0) && !self.to_the_end {
            self.stream = None;
            return Ok(None);
        }
        self.buffer.reserve(CHUNK);
        let read = tokio::time::timeout(self.session.stall_time, stream.read_buf(&mut self.buffer));
        let peer = &self.session.peer;
        let got = match read.await {
            Ok(Ok(got)) => got as u64,
            Ok(Err(error)) => return Err(broken(peer, error)),
            Err(_) => return Err(broken(peer, "it brought nothing for too long")),
        };
        if got == 0 {
            return self.end().await;
        }
        let mut chunk = self.buffer.split().freeze();
        if let Some(left) = &mut self.left {
            match left.checked_sub(got) {
                Some(still) => *left = still,
                None if self.to_the_end => {
                    return Err(broken(peer, "the file grew while it was read"));
                }
                None => {
                    chunk.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left = 0;
                }
            }
        }
        Ok(Some(chunk))
    }

    async fn end(&mut self) -> Result<Option<Bytes>, TransferError> {
        let Some(stream) = self.stream.take() else { return Ok(None) };
        let peer = &self.session.peer;
        let finished = asked(peer, self.session.stall_time, stream.finish()).await;
        if let Some(left @ 1..) = self.left {
            return Err(broken(peer, format!("it ended {left} bytes too early")));
        }
        match finished {
            Ok(()) => Ok(None),
            // All bytes are here; a control connection that broke meanwhile takes none away.
            Err(TransferError::Broken { .. }) if self.left == Some(0) => Ok(None),
            Err(error) => Err(broken(peer, error)),
        }
    }
}

impl TransferBody for FtpBody {
    fn next(&mut self) -> TransferFuture<'_, Option<Bytes>> {
        Box::pin(self.chunk())
    }
}

#[cfg(test)]
mod tests;
