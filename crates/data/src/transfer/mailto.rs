//! Mail: an output as the attachment of a message (`mailto:`, RFC 6068). Delivery only.
//!
//! Messages go to one relay, which the operator's settings name, and only to recipients that they
//! allow: otherwise every caller could send whatever it likes to everybody in the operator's name.

use std::path::PathBuf;

use fishplate_formats::units;
use globset::{Glob, GlobSet, GlobSetBuilder};
use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Body, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use tokio::sync::Semaphore;
use url::Url;

use super::source::{PayloadSource, file_name};
use super::{
    Delivery, OpenedSource, ReadRequest, TransferError, TransferFuture, TransferSettings, Transport,
};
use crate::settings::{SecretSource, SettingsError, size};

/// Messages that are composed and sent at once: each is in memory several times over.
const AT_ONCE: usize = 2;

/// Characters of a subject.
const SUBJECT: usize = 200;

/// Characters of a relay's answer that are passed on.
const ANSWER: usize = 200;

/// What the operator says of mail (`[transfer.mail]`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailSettings {
    /// The relay.
    pub host: String,
    /// Its port; else 587 with `starttls`, 465 with `implicit`, 25 with `none`.
    pub port: Option<u16>,
    /// How the connection is encrypted.
    #[serde(default)]
    pub tls: MailTls,
    /// The authorities to trust, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The account at the relay, if it asks for one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<SecretSource>,
    /// Whom messages are from.
    pub from: String,
    /// Whom callers may send to: addresses in which `*` stands for anything, `*@example.org`.
    #[serde(default)]
    pub mail_to: Vec<String>,
    /// How large an output may be.
    #[serde(default = "mail_size", deserialize_with = "size")]
    pub mail_size: u64,
}

/// How the connection to a relay is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// `STARTTLS`, or nothing is sent.
    #[default]
    StartTls,
    /// From the first byte on (RFC 8314).
    Implicit,
    /// Not at all: for a relay on this machine.
    None,
}

fn mail_size() -> u64 {
    fishplate_contract::limits::DEFAULTS.mail_size
}

/// The transport of `mailto:`.
#[derive(Debug)]
pub struct Mailto(Option<Relay>);

#[derive(Debug)]
struct Relay {
    peer: String,
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    mail_to: GlobSet,
    mail_size: u64,
    places: Semaphore,
}

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct MailAddress {
    to: Address,
    subject: Option<String>,
}

impl Mailto {
    /// Mail through the relay of these settings; without one, none is allowed.
    pub fn new(
        settings: Option<&MailSettings>,
        bounds: &TransferSettings,
    ) -> Result<Self, SettingsError> {
        settings.map(|settings| Relay::new(settings, bounds)).transpose().map(Self)
    }

    /// The recipient of an address, if a caller may send to them.
    fn place(&self, url: &Url) -> Result<(&Relay, MailAddress), TransferError> {
        let forbidden = |address: String, rule| TransferError::Forbidden { address, rule };
        let relay = self
            .0
            .as_ref()
            .ok_or_else(|| forbidden("mailto: mail is not set up".to_owned(), "transfer.mail"))?;
        let addressed = MailAddress::parse(url)?;
        let to = addressed.to.to_string();
        if !relay.mail_to.is_match(to.to_ascii_lowercase()) {
            return Err(forbidden(format!("mailto:{to}"), "mail_to"));
        }
        Ok((relay, addressed))
    }

    async fn send(&self, delivery: &Delivery, to: &Url) -> Result<(), TransferError> {
        let (relay, addressed) = self.place(to)?;
        let len = PayloadSource::len(&delivery.payload)?;
        if len > relay.mail_size {
            let limit = units::rounded(relay.mail_size);
            let output = units::rounded(len);
            return Err(TransferError::Forbidden {
                address: format!("mail of an output of {output}, more than {limit}"),
                rule: "mail_size",
            });
        }
        // Never closed.
        let _place = relay.places.acquire().await;
        let message = relay.message(delivery, addressed, len).await?;
        relay.transport.send(message).await.map_err(|error| relay.failed(&error))?;
        delivery.progress.add(len);
        Ok(())
    }
}

impl Transport for Mailto {
    fn schemes(&self) -> &[&'static str] {
        &["mailto"]
    }

    fn reads(&self) -> bool {
        false
    }

    fn accepts(&self, to: &Url) -> Result<(), TransferError> {
        self.place(to).map(|_| ())
    }

    fn open<'t>(&'t self, _: &'t Url, _: ReadRequest) -> TransferFuture<'t, OpenedSource> {
        let no = "mailto: takes outputs and gives no inputs".to_owned();
        Box::pin(std::future::ready(Err(TransferError::Unsupported(no))))
    }

    fn deliver<'t>(
        &'t self,
        delivery: &'t Delivery,
        to: &'t Url,
    ) -> TransferFuture<'t, Option<Url>> {
        Box::pin(async { self.send(delivery, to).await.map(|()| None) })
    }
}

impl MailAddress {
    /// One recipient and perhaps a subject: of RFC 6068 all that can do no harm.
    fn parse(url: &Url) -> Result<Self, TransferError> {
        let unusable = |reason: &str| {
            let form = "write mailto:NAME@HOST or mailto:NAME@HOST?subject=TEXT";
            TransferError::Unsupported(format!("this address of mail: {reason}; {form}"))
        };
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            text.map(std::borrow::Cow::into_owned).map_err(|_| unusable("it is not UTF-8"))
        };
        if url.fragment().is_some() {
            return Err(unusable("it has a fragment"));
        }
        let to = decoded(url.path())?;
        // No quoting, no routes (user%host@relay, host!user), no lists: what the pattern of
        // `mail_to` was asked about is where it goes.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+=~'-@".contains(c);
        if !to.chars().all(plain) || to.matches('@').count() != 1 {
            return Err(unusable("it is not one plain address"));
        }
        let to = to.parse::<Address>().map_err(|_| unusable("it is not one plain address"))?;
        let mut subject = None;
        for field in url.query().into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            if !decoded(name)?.eq_ignore_ascii_case("subject") || subject.is_some() {
                return Err(unusable("of the header fields, only one subject is taken"));
            }
            let value = decoded(value)?;
            if value.contains(|c: char| c.is_control()) {
                return Err(unusable("its subject has control characters"));
            }
            subject = Some(value);
        }
        Ok(Self { to, subject })
    }
}

impl Relay {
    fn new(settings: &MailSettings, bounds: &TransferSettings) -> Result<Self, SettingsError> {
        let unusable = |key: &str, reason: &dyn std::fmt::Display| {
            SettingsError::unusable(format!("transfer.mail.{key}"), reason)
        };
        let from: Mailbox = settings.from.parse().map_err(|error| unusable("from", &error))?;
        let mut mail_to = GlobSetBuilder::new();
        for pattern in &settings.mail_to {
            let glob = Glob::new(&pattern.to_ascii_lowercase());
            mail_to.add(glob.map_err(|error| unusable("mail_to", &error))?);
        }
        let mail_to = mail_to.build().map_err(|error| unusable("mail_to", &error))?;
        let (tls, usual) = match settings.tls {
            MailTls::StartTls => (Tls::Required(parameters(settings)?), 587),
            MailTls::Implicit => (Tls::Wrapper(parameters(settings)?), 465),
            MailTls::None => (Tls::None, 25),
        };
        let port = settings.port.unwrap_or(usual);
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&settings.host)
            .port(port)
            .tls(tls)
            .timeout(Some(bounds.stall))
            .hello_name(ClientId::Domain(from.email.domain().to_owned()));
        match (&settings.user, &settings.password) {
            (Some(_), Some(_)) if settings.tls == MailTls::None => {
                return Err(unusable("tls", &"a password is not sent in clear"));
            }
            (Some(user), Some(password)) => {
                let password = password.read("transfer.mail.password")?.reveal().to_owned();
                builder = builder.credentials(Credentials::new(user.clone(), password));
            }
            (None, None) => {}
            _ => return Err(unusable("user", &"user and password belong together")),
        }
        Ok(Self {
            peer: format!("smtp://{}:{port}", settings.host),
            transport: builder.build(),
            from,
            mail_to,
            mail_size: settings.mail_size,
            places: Semaphore::new(AT_ONCE),
        })
    }

    async fn message(
        &self,
        delivery: &Delivery,
        addressed: MailAddress,
        len: u64,
    ) -> Result<Message, TransferError> {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        let mut source = PayloadSource::open(&delivery.payload, 0, None).await?;
        while let Some(chunk) = source.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        let strange = |error: String| TransferError::Strange {
            peer: self.peer.clone(),
            reason: format!("the message can't be written: {error}"),
        };
        let name = file_name(&delivery.name);
        let mut about = format!("{name}, {len} bytes, is attached.\r\n");
        if let Some(digest) = delivery.digest {
            about.push_str(&format!("{}: {}\r\n", digest.algorithm(), digest.hex()));
        }
        let media_type = ContentType::parse(&delivery.media_type)
            .or_else(|_| ContentType::parse("application/octet-stream"))
            .map_err(|error| strange(error.to_string()))?;
        // Always base64: other encodings may change line breaks on the way.
        let body = Body::new_with_encoding(bytes, ContentTransferEncoding::Base64)
            .map_err(|_| strange("its bytes have no encoding".to_owned()))?;
        let parts = MultiPart::mixed()
            .singlepart(SinglePart::plain(about))
            .singlepart(Attachment::new(name).body(body, media_type));
        // What a machine sends is not to be answered by another (RFC 3834).
        let automatic = HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        );
        let (to, from) = (addressed.to, self.from.clone());
        let envelope = Envelope::new(Some(from.email.clone()), vec![to.clone()])
            .map_err(|error| strange(error.to_string()))?;
        Message::builder()
            .from(from)
            .to(Mailbox::new(None, to))
            .subject(one_line(addressed.subject.as_deref().unwrap_or(&delivery.subject)))
            .message_id(None)
            .raw_header(automatic)
            .envelope(envelope)
            .multipart(parts)
            .map_err(|error| strange(error.to_string()))
    }

    fn failed(&self, error: &lettre::transport::smtp::Error) -> TransferError {
        let peer = self.peer.clone();
        let said = std::error::Error::source(error).map(ToString::to_string);
        let said = said.unwrap_or_else(|| error.to_string());
        let said: String = one_line(&said).chars().take(ANSWER).collect();
        if error.is_permanent() {
            let code = error.status().map(|code| format!("{code} ")).unwrap_or_default();
            return TransferError::Refused { peer, answer: format!("{code}{said}") };
        }
        if error.is_transient() {
            return TransferError::Busy { peer, answer: said, retry_after: None };
        }
        if error.is_client() || error.is_tls() {
            return TransferError::Strange { peer, reason: said };
        }
        TransferError::Broken { peer, reason: said }
    }
}

/// One line without control characters, not too long.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SUBJECT).collect()
}

fn parameters(settings: &MailSettings) -> Result<TlsParameters, SettingsError> {
    let key = "transfer.mail.ca_file";
    let mut builder = TlsParameters::builder(settings.host.clone());
    if let Some(path) = &settings.ca_file {
        let unreadable =
            |source| SettingsError::Unreadable { what: key.to_owned(), path: path.clone(), source };
        let pem = std::fs::read(path).map_err(unreadable)?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| SettingsError::unusable(key, error))?;
        builder =
            builder.certificate_store(CertificateStore::None).add_root_certificate(certificate);
    }
    builder.build().map_err(|error| SettingsError::unusable("transfer.mail.tls", error))
}

#[cfg(test)]
mod tests;
