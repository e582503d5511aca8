//! TLS: the server's certificate and those of clients, and what its clients say of wrong ones.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use crate::curl::{command, curl};
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::connect;

/// An authority, and the PEM of its certificate.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of the tests");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key, in PEM, for a host or a client.
    pub(crate) fn issue(
        &self,
        host: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Puts those of a client into a user's directory; words of curl that show them.
    fn client(&self, user: &User, name: &str) -> [String; 4] {
        let (certificate, key) = self.issue("client.example", |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.distinguished_name.push(DnType::CommonName, name);
        });
        user.write("client.pem", certificate);
        user.write("client.key", key);
        let path = |name: &str| user.path(name).to_str().unwrap().to_owned();
        ["--cert".to_owned(), path("client.pem"), "--key".to_owned(), path("client.key")]
    }
}

/// Replaces a file as a whole.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// A server with this certificate and key.
fn serving((certificate, key): &(String, String), words: &[&str]) -> Server {
    let mut server = Server::prepare();
    fs::write(server.path("cert.pem"), certificate).unwrap();
    fs::write(server.path("key.pem"), key).unwrap();
    server.script("program", "echo $(($1 + 1))");
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let slots = ["-n", "test", "--", "./program", "[in val x:int]", ">", "[out file y:int]"];
    server.serve(&[&tls[..], words, &slots].concat());
    server
}

/// A user with this text as the authorities to trust: the path of the file.
fn trusting(pem: &str) -> (User, String) {
    let user = User::new();
    user.write("ca.pem", pem);
    let ca = user.path("ca.pem").to_str().unwrap().to_owned();
    (user, ca)
}

#[test]
fn calls_and_data_go_over_tls() {
    let authority = Authority::new();
    let server = serving(&authority.issue("127.0.0.1", |_| ()), &[]);
    let (user, ca) = trusting(&authority.pem);
    assert!(server.url().starts_with("https://127.0.0.1:"), "{}", server.url());
    assert_eq!(user.succeed(&["call", server.url(), "x=1", "--ca", &ca]), "y: 2\n");
    // Larger than what is sent from a file at once, where nothing is encrypted.
    let bytes: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    user.write("file", &bytes);
    let reference = user.succeed(&["put", "file", "--to", server.url(), "--cacert", &ca]);
    let reference = reference.trim();
    assert!(reference.starts_with("https://"), "{reference}");
    user.succeed(&["get", reference, "-o", "back", "--ca", &ca]);
    assert!(user.read("back") == bytes);
    let got = curl(&["--cacert", &ca, reference]);
    assert!(got.status == 200 && got.body == bytes);
}

#[test]
fn the_other_protocol_at_a_port_is_told_which_one_to_use() {
    let authority = Authority::new();
    let server = serving(&authority.issue("127.0.0.1", |_| ()), &[]);
    let (user, ca) = trusting(&authority.pem);
    let plain = server.url().replacen("https", "http", 1);
    let said = user.run(&["call", &plain, "x=1"]);
    assert!(said.code == 6 && said.stderr.contains("https://"), "{said:?}");
    let told = curl(&[&plain]);
    assert!(told.status == 400 && told.text().contains("https://"), "{told:?}");
    let other = Server::of_script("true", &[]);
    let secure = other.url().replacen("http", "https", 1);
    let said = user.run(&["call", &secure, "--ca", &ca]);
    assert!(said.code == 6 && said.stderr.contains("write http://"), "{said:?}");
}

#[test]
fn a_certificate_that_is_not_good_is_told_and_nothing_is_sent() {
    let authority = Authority::new();
    let (user, ca) = trusting(&authority.pem);
    let expired = authority.issue("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let elsewhere = authority.issue("other.example", |_| ());
    let foreign = Authority::new().issue("127.0.0.1", |_| ());
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let own = (own.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let of_authority = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    // Whoever trusts it is told all the same.
    user.write("ca.pem", authority.pem.clone() + &of_authority.0);
    for (made, told) in [
        (of_authority, "basicconstraints=critical,ca:false"),
        (expired, "expired"),
        (elsewhere, "other.example"),
        (foreign, "--ca file"),
        (own, "--ca file"),
    ] {
        let server = serving(&made, &[]);
        let words = ["call", server.url(), "x=1", "--ca", &ca];
        let said = user.run_in(&[("FISHPLATE_TOKEN", "secret-token")], &words);
        assert!(said.code == 6 && said.stderr.to_lowercase().contains(told), "{told}: {said:?}");
        assert!(!said.stderr.contains("secret"), "{said:?}");
        assert!(!said.stderr.contains("address and port"), "{said:?}");
    }
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = serving(&old.issue("127.0.0.1", |_| ()), &[]);
    let (user, old_ca) = trusting(&old.pem);
    user.write("new.pem", &new.pem);
    let new_ca = user.path("new.pem").to_str().unwrap().to_owned();
    let call = |ca: &str| user.run(&["call", server.url(), "x=1", "--ca", ca]).code;
    assert_eq!((call(&old_ca), call(&new_ca)), (0, 6));
    let (certificate, key) = new.issue("127.0.0.1", |_| ());
    // Half of it is no pair: the old one stays.
    replace(&server.path("cert.pem"), &certificate);
    assert_eq!((call(&old_ca), call(&new_ca)), (0, 6));
    assert_eq!(server.log().matches("stays in use").count(), 1, "{}", server.log());
    replace(&server.path("key.pem"), &key);
    assert_eq!((call(&old_ca), call(&new_ca)), (6, 0));

    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    kill(pid, Signal::SIGHUP).unwrap();
    until("it was read again", || server.log().contains("certificates were read again"));
    assert_eq!(call(&new_ca), 0);
}

#[test]
fn a_client_logs_in_with_a_certificate_of_our_authority() {
    let (ours, clients) = (Authority::new(), Authority::new());
    let mut server = Server::prepare();
    fs::write(server.path("clients.pem"), &clients.pem).unwrap();
    let (certificate, key) = ours.issue("127.0.0.1", |_| ());
    fs::write(server.path("cert.pem"), certificate).unwrap();
    fs::write(server.path("key.pem"), key).unwrap();
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-client-ca", "clients.pem"];
    server.serve(&[&tls[..], &["--login", "-n", "test", "--", "true"]].concat());
    let (user, ca) = trusting(&ours.pem);
    let shown = clients.client(&user, "Ada Lovelace");
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let trust = ["--cacert", ca.as_str()];
    let file = user.path("ca.pem");
    let root = format!("https://{}/", server.address());
    let upload = format!("{root}data/");
    let put = ["-T", file.to_str().unwrap(), &upload];
    let put = curl(&[&trust[..], &shown, &put].concat());
    assert_eq!(put.status, 201, "{put:?}");
    // It is hers: somebody else can't take it back.
    let token = user.succeed(&[
        "token",
        "create",
        "--user",
        "bob",
        "--data",
        server.data().to_str().unwrap(),
    ]);
    let bob = format!("Authorization: Bearer {}", token.trim());
    let delete = ["--request", "DELETE", put.text()];
    assert_eq!(curl(&[&trust[..], &["--header", &bob], &delete].concat()).status, 404);
    assert_eq!(curl(&[&trust[..], &delete].concat()).status, 401);
    assert_eq!(curl(&[&trust[..], &shown, &delete].concat()).status, 204);

    let foreign = Authority::new().client(&user, "Ada Lovelace");
    let foreign: Vec<&str> = foreign.iter().map(String::as_str).collect();
    let refused = command(&[&trust[..], &foreign, &[&root]].concat()).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
}

#[test]
fn a_server_without_a_usable_pair_does_not_start_and_one_that_says_nothing_is_let_go() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("127.0.0.1", |_| ());
    let (_, other) = authority.issue("127.0.0.1", |_| ());
    let user = User::new();
    user.write("cert.pem", &certificate);
    user.write("key.pem", &other);
    user.write("none.pem", "nothing");
    let serve = |words: &[&str]| {
        let data = user.path("data");
        let serve = ["serve", "--builtin", "matrix", "--listen", "127.0.0.1:0", "--data"];
        user.run(&[&serve[..], &[data.to_str().unwrap()], words].concat())
    };
    for (words, told) in [
        (&["--tls-cert", "cert.pem", "--tls-key", "key.pem"][..], "key.pem"),
        (&["--tls-cert", "none.pem", "--tls-key", "key.pem"], "none.pem"),
        (&["--tls-cert", "cert.pem", "--tls-key", "none.pem"], "none.pem"),
        (&["--tls-cert", "cert.pem"], "--tls-key"),
    ] {
        let said = serve(words);
        assert!(said.code != 0 && said.stderr.contains(told), "{words:?}: {said:?}");
    }
    let server = serving(&(certificate, key), &["--limit", "header_timeout=1s"]);
    let mut silent = connect(&server);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut silent, &mut rest).unwrap();
    assert!(rest.is_empty());
}
