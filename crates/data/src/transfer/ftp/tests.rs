use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use fishplate_contract::{Digest, Payload};

use super::super::conformance::{self, DigestAnnouncement, Features, Peer, bytes, rest, sha256};
use super::super::servers::{FtpCutter, PASSWORD, USER, Vsftpd, allow, free_address};
use super::*;
use crate::Progress;

/// vsftpd, asked by an anonymous user or by the account.
struct Server {
    vsftpd: Vsftpd,
    cutter: FtpCutter,
    ftp: Arc<dyn Transport>,
    own: bool,
}

impl Server {
    fn start(own: bool, passive: Option<[u8; 4]>) -> Option<Self> {
        let vsftpd = Vsftpd::start("")?;
        let cutter = FtpCutter::new(vsftpd.server.address, passive);
        let mut settings = BTreeMap::new();
        if own {
            let password = vsftpd.server.directory.path().join("password");
            fs::write(&password, format!("{PASSWORD}\n")).unwrap();
            for address in [vsftpd.server.address, cutter.address] {
                let account = FtpSettings {
                    user: Some(USER.to_owned()),
                    password: Some(SecretSource::File(password.clone())),
                    write: true,
                    ..FtpSettings::default()
                };
                settings.insert(address.to_string(), account);
            }
        }
        let ftp = Arc::new(ftp_of(&settings, Arc::new(SystemAddresses)).unwrap());
        Some(Self { vsftpd, cutter, ftp, own })
    }

    fn url(&self, name: &str) -> Url {
        url(self.vsftpd.server.address, name)
    }
}

fn ftp_of(
    settings: &BTreeMap<String, FtpSettings>,
    addresses: Arc<dyn Addresses>,
) -> Result<Ftp, SettingsError> {
    Ftp::new(settings, &TransferSettings::default(), addresses)
}

fn url(address: SocketAddr, path: &str) -> Url {
    Url::parse(&format!("ftp://{address}/{path}")).unwrap()
}

impl Peer for Server {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.ftp)
    }

    fn features(&self) -> Features {
        Features {
            reads: true,
            ranges: true,
            versions: true,
            lengths: true,
            digest: DigestAnnouncement::Never,
            breaks: true,
            delivers: true,
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Url {
        fs::write(self.vsftpd.file(name), bytes).unwrap();
        self.url(name)
    }

    fn missing(&self) -> Url {
        self.url("missing")
    }

    fn breaking(&self, name: &str, after: u64) -> Url {
        self.cutter.cut_after(after);
        url(self.cutter.address, name)
    }

    fn destination(&self, name: &str) -> Url {
        self.url(&format!("incoming/{name}"))
    }

    fn delivered(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.vsftpd.file("incoming").join(name)).ok()
    }

    fn closed(&self) -> Option<Url> {
        Some(self.url(if self.own { "no/such/directory/closed.bin" } else { "closed.bin" }))
    }
}

fn delivery(payload: &[u8], digest: Option<Digest>) -> Delivery {
    Delivery {
        payload: Payload::Inline(payload.to_vec().into()),
        name: "mesh.bin".to_owned(),
        media_type: String::new(),
        digest,
        subject: String::new(),
        posts: None,
        progress: Progress::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_conforms() {
    let Some(server) = Server::start(false, None) else { return };
    conformance::run(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_conforms() {
    let Some(server) = Server::start(true, None) else { return };
    conformance::run(&server).await;
    let left = names(&server.vsftpd.file("incoming"));
    assert!(
        left.iter().all(|name| !name.starts_with('.')),
        "what was not whole was left: {left:?}"
    );
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Whatever address PASV tells, data comes from the server that was asked.
#[tokio::test(flavor = "multi_thread")]
async fn pasv_leads_nowhere_else() {
    let nowhere = [192, 0, 2, 1]; // TEST-NET-1 (RFC 5737)
    let Some(server) = Server::start(false, Some(nowhere)) else { return };
    assert_eq!(server.cutter.passive, Some(nowhere));
    let data = bytes(20, 100_000);
    server.put("data", &data);
    let url = url(server.cutter.address, "data");
    let want = ReadRequest { offset: 1000, ..ReadRequest::default() };
    let mut opened = server.ftp.open(&url, want).await.unwrap();
    assert!(rest(&mut opened).await.unwrap() == data[1000..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_goes_on_where_it_broke() {
    let Some(server) = Server::start(true, None) else { return };
    let data = bytes(21, 300_000);
    let delivery = delivery(&data, Some(sha256(&data)));
    // What a broken delivery leaves; marked, so that it shows whether it was sent again.
    let mut left = data[..200_000].to_vec();
    left[0] ^= 1;
    let partial = server.vsftpd.file(&partial_name("incoming/mesh.bin", &delivery));
    fs::write(&partial, &left).unwrap();
    allow(&partial, 0o666);
    server.ftp.deliver(&delivery, &server.url("incoming/")).await.unwrap();
    let mut came = server.delivered("mesh.bin").unwrap();
    assert_eq!(came[0], data[0] ^ 1, "all was sent again");
    came[0] ^= 1;
    assert!(came == data);
    assert!(!partial.exists());
    assert_eq!(delivery.progress.bytes(), 300_000);

    // Another output under the same name begins with its own first byte, and replaces the first.
    let other = bytes(22, 1000);
    fs::write(&partial, &left).unwrap();
    let delivery = self::delivery(&other, Some(sha256(&other)));
    server.ftp.deliver(&delivery, &server.url("incoming/mesh.bin")).await.unwrap();
    assert!(server.delivered("mesh.bin").unwrap() == other);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_where_it_is_set() {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = (files.path().join("certificate"), files.path().join("key"));
    fs::write(&certificate, issued.cert.pem()).unwrap();
    fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    // vsftpd takes a data connection only if it resumes the control connection's session.
    let settings = format!(
        "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         force_local_logins_ssl=YES\nforce_local_data_ssl=YES\nrequire_ssl_reuse=YES\n\
         rsa_cert_file={}\nrsa_private_key_file={}",
        certificate.display(),
        key.display()
    );
    let Some(vsftpd) = Vsftpd::start(&settings) else { return };
    let data = bytes(23, 3 << 20);
    fs::write(vsftpd.file("data"), &data).unwrap();
    let address = vsftpd.server.address;

    let mut settings = BTreeMap::new();
    let password = files.path().join("password");
    fs::write(&password, PASSWORD).unwrap();
    let account = FtpSettings {
        user: Some(USER.to_owned()),
        password: Some(SecretSource::File(password)),
        tls: true,
        ca_file: Some(certificate),
        write: true,
        ..FtpSettings::default()
    };
    settings.insert(address.to_string(), account);
    let ftp = ftp_of(&settings, Arc::new(SystemAddresses)).unwrap();
    let mut opened = ftp.open(&url(address, "data"), ReadRequest::default()).await.unwrap();
    assert!(rest(&mut opened).await.unwrap() == data);
    ftp.deliver(&delivery(&data, None), &url(address, "incoming/")).await.unwrap();
    assert!(fs::read(vsftpd.file("incoming/mesh.bin")).unwrap() == data);

    // In clear, or with a certificate of nobody that is trusted: refused, nothing is sent.
    let plain = ftp_of(&BTreeMap::new(), Arc::new(SystemAddresses)).unwrap();
    let refused = plain.open(&url(address, "data"), ReadRequest::default()).await;
    assert!(matches!(refused, Err(TransferError::Refused { .. })), "{refused:?}");
    settings.values_mut().for_each(|account| account.ca_file = None);
    let Ok(distrustful) = ftp_of(&settings, Arc::new(SystemAddresses)) else { return };
    let refused = distrustful.open(&url(address, "data"), ReadRequest::default()).await;
    assert!(matches!(refused, Err(TransferError::Refused { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_refused() {
    let Some(vsftpd) = Vsftpd::start("") else { return };
    let file = vsftpd.server.directory.path().join("wrong");
    fs::write(&file, "guessed").unwrap();
    let mut settings = BTreeMap::new();
    let account = FtpSettings {
        user: Some(USER.to_owned()),
        password: Some(SecretSource::File(file)),
        ..FtpSettings::default()
    };
    settings.insert(vsftpd.server.address.to_string(), account);
    let ftp = ftp_of(&settings, Arc::new(SystemAddresses)).unwrap();
    let refused = ftp.open(&url(vsftpd.server.address, "data"), ReadRequest::default()).await;
    match refused {
        Err(error @ TransferError::Refused { .. }) => {
            assert!(error.to_string().contains("530"), "{error}");
            assert!(!error.to_string().contains("guessed"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// A policy that allows nothing.
#[derive(Debug)]
struct Nowhere;

impl Addresses for Nowhere {
    fn resolve<'t>(&'t self, host: &'t str, _: u16) -> TransferFuture<'t, Vec<SocketAddr>> {
        let forbidden = TransferError::Forbidden { address: host.to_owned(), rule: "nowhere" };
        Box::pin(std::future::ready(Err(forbidden)))
    }
}

#[tokio::test]
async fn the_policy_is_asked_for_hosts_that_the_settings_do_not_name() {
    let ftp = ftp_of(&BTreeMap::new(), Arc::new(Nowhere)).unwrap();
    let asked = ftp.open(&url(free_address(), "data"), ReadRequest::default()).await;
    assert!(matches!(asked, Err(TransferError::Forbidden { rule: "nowhere", .. })), "{asked:?}");
}

#[tokio::test]
async fn what_an_account_may_do_is_said() {
    let mut settings = BTreeMap::new();
    let silent = FtpSettings { read: false, ..FtpSettings::default() };
    settings.insert("Archive.example.org:2121".to_owned(), silent);
    let ftp = ftp_of(&settings, Arc::new(Nowhere)).unwrap();
    let url = Url::parse("ftp://archive.EXAMPLE.org:2121/data").unwrap();
    let read = ftp.open(&url, ReadRequest::default()).await;
    let rule = "transfer.ftp.read";
    assert!(matches!(read, Err(TransferError::Forbidden { rule: r, .. }) if r == rule), "{read:?}");
    let write = ftp.accepts(&url);
    let rule = "transfer.ftp.write";
    assert!(matches!(write, Err(TransferError::Forbidden { rule: r, .. }) if r == rule));
    // Another port is another server: its policy is that of everybody.
    let url = Url::parse("ftp://archive.example.org/data").unwrap();
    assert!(ftp.accepts(&url).is_ok());
    let read = ftp.open(&url, ReadRequest::default()).await;
    assert!(matches!(read, Err(TransferError::Forbidden { rule: "nowhere", .. })), "{read:?}");
}

#[tokio::test]
async fn addresses_that_are_not_asked() {
    let ftp = ftp_of(&BTreeMap::new(), Arc::new(Nowhere)).unwrap();
    for address in [
        "ftp://ada:secret@example.org/data",
        "ftp://ada@example.org/data",
        "ftp://:secret@example.org/data",
        "ftp://example.org/data%0d%0aDELE%20data",
        "ftp://example.org/a%00b",
        "ftp://example.org/%2Fsrv/..%2F..%2Fetc/passwd",
        "ftp://example.org/%ff",
        "ftp://example.org/data;type=a",
        "ftp://example.org/",
        "ftp://example.org/directory/",
    ] {
        let url = Url::parse(address).unwrap();
        let asked = ftp.open(&url, ReadRequest::default()).await;
        match asked {
            Err(TransferError::Unsupported(reason)) => {
                assert!(!reason.contains("secret"), "{reason}");
            }
            other => panic!("{address}: {other:?}"),
        }
    }
}

#[test]
fn paths_are_relative_unless_they_say_otherwise() {
    for (path, file) in [
        ("/data", "data"),
        ("/a/b%20c;type=i", "a/b c"),
        ("/%2Fsrv/data", "/srv/data"),
        ("/%E2%82%AC", "€"),
    ] {
        assert_eq!(path_of(path), Ok(file.to_owned()), "{path}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |host: &str, account: FtpSettings| {
        let mut settings = BTreeMap::new();
        settings.insert(host.to_owned(), account);
        ftp_of(&settings, Arc::new(Nowhere)).unwrap_err().to_string()
    };
    let user = || FtpSettings { user: Some("ada".to_owned()), ..FtpSettings::default() };
    for host in ["", "a/b", "ada@example.org", "example.org:port"] {
        assert!(refused(host, FtpSettings::default()).contains("host:port"), "{host}");
    }
    assert!(refused("example.org", user()).contains("belong together"));
    let missing = SecretSource::File("/nonexistent/password".into());
    let said = refused("example.org", FtpSettings { password: Some(missing), ..user() });
    assert!(said.contains("cannot read /nonexistent/password"), "{said}");
    let useless = FtpSettings { ca_file: Some("ca.pem".into()), ..FtpSettings::default() };
    assert!(refused("example.org", useless).contains("tls = true"));
}
