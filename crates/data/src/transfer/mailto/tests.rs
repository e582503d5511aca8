use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::Payload;

use super::super::conformance::{self, DigestAnnouncement, Features, Peer, bytes, sha256};
use super::super::servers::{Exim, MAIL_PASSWORD, MAIL_USER, free_address};
use super::*;
use crate::Progress;
use crate::settings::TransportSettings;

struct Server {
    exim: Exim,
    mailto: Arc<dyn Transport>,
}

const RELAY: &str = "[transfer.mail]\nhost = '127.0.0.1'\nfrom = 'Fishplate <runs@example.org>'\n";

fn transport(text: &str) -> Result<Mailto, SettingsError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("transfers.toml");
    fs::write(&file, text).unwrap();
    mailto_of(&file)
}

fn mailto_of(file: &Path) -> Result<Mailto, SettingsError> {
    let settings = TransportSettings::read(file)?;
    Mailto::new(settings.mail.as_ref(), &TransferSettings::default())
}

impl Server {
    fn start() -> Option<Self> {
        let exim = Exim::start(None)?;
        let port = exim.server.address.port();
        let more = format!("tls = 'none'\nport = {port}\nmail_to = ['*@Example.org']\n");
        let mailto = Arc::new(transport(&format!("{RELAY}{more}")).unwrap());
        Some(Self { exim, mailto })
    }

    async fn mail(&self, delivery: &Delivery, to: &str) -> Result<(), TransferError> {
        self.mailto.deliver(delivery, &Url::parse(to).unwrap()).await.map(drop)
    }
}

impl Peer for Server {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.mailto)
    }

    fn features(&self) -> Features {
        Features {
            reads: false,
            ranges: false,
            versions: false,
            lengths: false,
            digest: DigestAnnouncement::Never,
            breaks: false,
            delivers: true,
        }
    }

    fn put(&self, _: &str, _: &[u8]) -> Url {
        unreachable!("mail is not read")
    }

    fn missing(&self) -> Url {
        unreachable!("mail is not read")
    }

    fn destination(&self, _: &str) -> Url {
        Url::parse("mailto:ada@example.org").unwrap()
    }

    fn delivered(&self, name: &str) -> Option<Vec<u8>> {
        self.exim.mail(name).attachment(name)
    }

    fn closed(&self) -> Option<Url> {
        Some(Url::parse("mailto:nobody@example.org").unwrap())
    }
}

fn delivery(name: &str, data: &[u8]) -> Delivery {
    Delivery {
        payload: Payload::Inline(Bytes::copy_from_slice(data)),
        name: name.to_owned(),
        media_type: "model/mesh".to_owned(),
        digest: Some(sha256(data)),
        subject: "mesh of job 7".to_owned(),
        posts: None,
        progress: Progress::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    let Some(server) = Server::start() else { return };
    conformance::run(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_as_they_are_with_name_type_and_subject() {
    let Some(server) = Server::start() else { return };
    let data: Vec<u8> = [b"From here\r\n.\r\nto\nthere\r".as_slice(), &bytes(40, 3 << 20)].concat();
    server.mail(&delivery("mesh.bin", &data), "mailto:ada@example.org").await.unwrap();
    let mail = server.exim.mail("mesh.bin");
    assert!(mail.attachment("mesh.bin").unwrap() == data);
    assert_eq!(mail.field("Subject").as_deref(), Some("mesh of job 7"));
    assert_eq!(mail.field("From").as_deref(), Some("Fishplate <runs@example.org>"));
    assert_eq!(mail.field("To").as_deref(), Some("ada@example.org"));
    assert_eq!(mail.field("Auto-Submitted").as_deref(), Some("auto-generated"));
    assert!(mail.text.contains("Content-Type: model/mesh"));
    assert!(mail.text.contains(&sha256(&data).hex()));

    server
        .mail(&delivery("other.bin", b"1"), "mailto:ada@example.org?subject=My%20%C3%A9")
        .await
        .unwrap();
    let subject = server.exim.mail("other.bin").field("Subject").unwrap();
    assert_eq!(subject, "My =?utf-8?b?w6k=?=");
}

/// Whatever a caller chooses (name, media type, subject), the message has the fields that we wrote
/// and one recipient.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_injected() {
    let Some(server) = Server::start() else { return };
    let evil =
        "x\r\nBcc: eve@example.org\r\nX-Evil: 1\r\n\r\nbody\r\n.\r\nMAIL FROM:<eve@example.org>";
    let mut delivery = delivery("kept.bin", b"bytes");
    delivery.subject = evil.to_owned();
    delivery.media_type = format!("text/plain; {evil}");
    server.mail(&delivery, "mailto:ada@example.org").await.unwrap();
    let mail = server.exim.mail("kept.bin");
    let known = [
        "Return-path",
        "Envelope-to",
        "Delivery-date",
        "Received",
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "MIME-Version",
        "Auto-Submitted",
        "Content-Type",
    ];
    for field in mail.fields() {
        let name = field.split(':').next().unwrap();
        assert!(known.iter().any(|known| known.eq_ignore_ascii_case(name)), "{field}");
    }
    assert!(mail.field("Subject").unwrap().starts_with("x  Bcc: eve"));
    assert!(mail.text.contains("Content-Type: application/octet-stream"), "{}", mail.text);

    delivery.name = format!("\"{evil}\"; filename=../../evil");
    server.mail(&delivery, "mailto:grace@example.org").await.unwrap();
    super::super::servers::wait_for("the second message", || {
        (server.exim.delivered() == 2).then_some(())
    });
    let files = fs::read_dir(server.exim.server.directory.path().join("mail/new")).unwrap();
    for file in files {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            assert!(!line.starts_with("X-Evil") && !line.starts_with("Bcc"), "{text}");
        }
        assert!(!text.contains("../"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_relay_says_is_told() {
    let Some(server) = Server::start() else { return };
    let delivery = delivery("mesh.bin", b"mesh");
    match server.mail(&delivery, "mailto:nobody@example.org").await {
        Err(error @ TransferError::Refused { .. }) => {
            let said = error.to_string();
            assert!(said.contains("550") && said.contains("nobody lives here"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    let later = server.mail(&delivery, "mailto:later@example.org").await;
    assert!(matches!(later, Err(TransferError::Busy { .. })), "{later:?}");
    assert_eq!((server.exim.delivered(), delivery.progress.bytes()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_and_an_account() {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
    let Some(exim) = Exim::start(Some((&certificate, &key))) else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("ca.pem"), &certificate).unwrap();
    fs::write(directory.path().join("password"), format!("{MAIL_PASSWORD}\n")).unwrap();
    fs::write(directory.path().join("wrong"), "guessed").unwrap();
    let with = |more: &str| {
        let port = exim.server.address.port();
        let file = directory.path().join("transfers.toml");
        let common =
            format!("{RELAY}port = {port}\nmail_to = ['ada@example.org']\nuser = '{MAIL_USER}'\n");
        fs::write(&file, format!("{common}{more}")).unwrap();
        mailto_of(&file)
    };
    let to = Url::parse("mailto:ada@example.org").unwrap();
    let right = with("ca_file = 'ca.pem'\npassword.file = 'password'").unwrap();
    right.deliver(&delivery("mesh.bin", b"mesh"), &to).await.unwrap();
    assert_eq!(exim.mail("mesh.bin").attachment("mesh.bin").unwrap(), b"mesh");

    let wrong = with("ca_file = 'ca.pem'\npassword.file = 'wrong'").unwrap();
    let refused = wrong.deliver(&delivery("wrong.bin", b"mesh"), &to).await;
    match refused {
        Err(error @ TransferError::Refused { .. }) => {
            assert!(!error.to_string().contains("guessed"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    if let Ok(distrustful) = with("password.file = 'password'") {
        let refused = distrustful.deliver(&delivery("distrust.bin", b"mesh"), &to).await;
        assert!(refused.is_err());
    }
    let Err(error) = with("tls = 'none'\npassword.file = 'password'") else { panic!("in clear") };
    assert!(error.to_string().contains("not sent in clear"), "{error}");
    assert_eq!(exim.delivered(), 1);
}

#[tokio::test]
async fn only_who_is_allowed_and_what_is_small() {
    let port = free_address().port();
    let more = format!("port = {port}\ntls = 'none'\n");
    let rule = |refused: Result<(), TransferError>| match refused {
        Err(TransferError::Forbidden { rule, .. }) => rule,
        other => panic!("{other:?}"),
    };
    let to = |to: &str| Url::parse(&format!("mailto:{to}")).unwrap();
    let delivery = delivery("mesh.bin", &[0; 2000]);

    let none = Mailto::new(None, &TransferSettings::default()).unwrap();
    assert_eq!(rule(none.accepts(&to("ada@example.org"))), "transfer.mail");
    let closed = transport(&format!("{RELAY}{more}")).unwrap();
    let refused = closed.deliver(&delivery, &to("ada@example.org")).await;
    assert_eq!(rule(refused.map(drop)), "mail_to");

    let more = format!("{more}mail_to = ['*@example.org', 'eve@*.edu']\nmail_size = '1999B'\n");
    let some = transport(&format!("{RELAY}{more}")).unwrap();
    for allowed in ["ada@example.org", "ADA%40EXAMPLE.ORG", "a.b+c@example.org", "eve@x.edu"] {
        some.accepts(&to(allowed)).unwrap();
    }
    for refused in
        ["ada@example.com", "ada@example.org.evil.com", "ada@x.edu", "ada@sub.example.org"]
    {
        assert_eq!(rule(some.accepts(&to(refused))), "mail_to", "{refused}");
    }
    let Err(error) = some.deliver(&delivery, &to("ada@example.org")).await else { panic!("sent") };
    assert_eq!(
        error.to_string(),
        "mail of an output of 2.0 KiB, more than 2.0 KiB: the rule mail_size does not allow that"
    );
    // One byte less would be tried: nobody listens there.
    let small = self::delivery("mesh.bin", &[0; 1999]);
    let tried = some.deliver(&small, &to("ada@example.org")).await;
    assert!(matches!(tried, Err(TransferError::Broken { .. })), "{tried:?}");
}

#[test]
fn only_plain_addresses_are_read() {
    let parse = |text: &str| MailAddress::parse(&Url::parse(text).unwrap());
    let ada = parse("mailto:ada%2Bx@example.org?Subject=A%26B%20c").unwrap();
    assert_eq!(ada.to.to_string(), "ada+x@example.org");
    assert_eq!(ada.subject.as_deref(), Some("A&B c"));
    for refused in [
        "mailto:",
        "mailto:ada",
        "mailto:@example.org",
        "mailto:ada@",
        "mailto:ada@example.org,eve@example.org",
        "mailto:ada@example.org?to=eve@example.org",
        "mailto:ada@example.org?cc=eve@example.org",
        "mailto:ada@example.org?bcc=eve@example.org",
        "mailto:ada@example.org?body=hello",
        "mailto:ada@example.org?In-Reply-To=1",
        "mailto:ada@example.org?subject=a&subject=b",
        "mailto:ada@example.org?subject=a%0d%0aBcc:%20eve@example.org",
        "mailto:ada@example.org%0d%0aRCPT%20TO:eve@example.org",
        "mailto:eve%25evil.com@example.org",
        "mailto:evil.com!eve@example.org",
        "mailto:%22eve@evil.com%22@example.org",
        "mailto:%3Ceve@evil.com%3E@example.org",
        "mailto:ada@example.org#fragment",
        "mailto:ada@[127.0.0.1]",
        "mailto:%ff@example.org",
    ] {
        let parsed = parse(refused);
        assert!(matches!(parsed, Err(TransferError::Unsupported(_))), "{refused}: {parsed:?}");
    }
}

#[tokio::test]
async fn mail_is_not_read() {
    let mailto = Mailto::new(None, &TransferSettings::default()).unwrap();
    let url = Url::parse("mailto:ada@example.org").unwrap();
    let read = mailto.open(&url, ReadRequest::default()).await;
    assert!(matches!(read, Err(TransferError::Unsupported(_))), "{read:?}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (more, said) in [
        ("mail_to = ['[']", "mail_to"),
        ("user = 'ada'", "belong together"),
        ("mail_size = 'much'", "not usable"),
        ("tls = 'maybe'", "not usable"),
        ("password = 'secret'", "not usable"),
        ("ca_file = '/nonexistent'", "/nonexistent"),
    ] {
        let error = transport(&format!("{RELAY}{more}")).unwrap_err().to_string();
        assert!(error.contains(said), "{more}: {error}");
    }
}
