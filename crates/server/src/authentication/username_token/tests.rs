use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::HeaderMap;

use super::*;
use crate::authentication::authenticator::{Authentication, Peer};
use crate::authentication::users::{User, UserFile};

const HERE: &str = "127.0.0.1";
const ELSEWHERE: &str = "192.0.2.1";

/// A server's, with the user ada (password lovelace), a token of hers for digests and one that is not for digests.
struct Site {
    directory: tempfile::TempDir,
    tokens: UsernameTokens,
    readable: String,
    other: String,
}

impl Site {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::new("http://localhost");
        change(&mut settings);
        let directory = tempfile::tempdir().unwrap();
        let users = UserFile::open(directory.path());
        let ada = User::new("ada", "lovelace").unwrap();
        users.change(|users| users.insert("ada".to_owned(), ada)).unwrap();
        let file = TokenFile::open(directory.path());
        let new = |services: &[&str]| {
            let services = services.iter().map(|&name| name.to_owned()).collect();
            Token::new("ada", services, Timestamp(0), None).unwrap()
        };
        let ((readable, first), (other, second)) = (new(&["heat"]), new(&[]));
        for token in [first.readable(&readable), second] {
            file.change(|tokens| tokens.insert(token.digest().to_owned(), token)).unwrap();
        }
        let users = Arc::new(PasswordLogin::new(users, &settings));
        let tokens = UsernameTokens::new(users, file, &settings);
        Self { directory, tokens, readable, other }
    }

    async fn look(
        &self,
        peer: &str,
        encrypted: bool,
        header: &SecurityHeader,
    ) -> Result<Identity, Fault> {
        let client: IpAddr = peer.parse().unwrap();
        let peer = Peer { encrypted, ..Peer::at(client) };
        let headers = HeaderMap::new();
        let head = RequestHead { headers: &headers, peer: &peer, client, security: Some(header) };
        match self.tokens.authenticate(head).await {
            Authentication::Authenticated(identity) => Ok(identity),
            Authentication::Refused(refusal) => Err(refusal.fault),
            Authentication::NotRequested => panic!("there is nothing in it"),
        }
    }

    /// Why this is refused.
    async fn refused(&self, header: &SecurityHeader) -> Fault {
        self.look(HERE, false, header).await.unwrap_err()
    }
}

fn header(
    password: TokenPassword,
    nonce: Option<&[u8]>,
    created: Option<String>,
) -> SecurityHeader {
    let (username, nonce) = ("ada".to_owned(), nonce.map(<[u8]>::to_vec));
    let token = UsernameToken { username, password, nonce, created };
    SecurityHeader { token: Some(token), ..SecurityHeader::default() }
}

fn text(password: &str) -> SecurityHeader {
    header(TokenPassword::Text(password.to_owned()), None, None)
}

/// So many seconds from now, as clients write it.
fn time(seconds: i64) -> String {
    let now = SystemClock.now().0 + seconds * 1000;
    jiff::Timestamp::from_millisecond(now).unwrap().to_string()
}

fn digest_header(secret: &str, nonce: &[u8], created: &str) -> SecurityHeader {
    let text = [nonce, created.as_bytes(), secret.as_bytes()].concat();
    let made = digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref().to_vec();
    header(TokenPassword::Digest(made), Some(nonce), Some(created.to_owned()))
}

/// Made with Python's hashlib from the profile's formula.
#[test]
fn a_digest_is_that_of_the_profile() {
    let nonce = base64_simd::STANDARD.decode_to_vec("NTY3ODkwMTIzNDU2Nzg5MA==").unwrap();
    let told = base64_simd::STANDARD.decode_to_vec("DpZVAsjd08mNcc+tQ8lEYTgsczw=").unwrap();
    assert!(is_digest_of(&told, &nonce, "2026-11-22T21:00:00Z", "fishplate_secret"));
    assert!(!is_digest_of(&told, &nonce, "2026-11-22T21:00:01Z", "fishplate_secret"));
}

#[tokio::test]
async fn a_password_as_it_is_logs_in_where_nobody_on_the_way_can_read_it() {
    let site = Site::new(|settings| settings.proxies = vec!["192.0.2.7/32".parse().unwrap()]);
    let right = text("lovelace");
    for (peer, encrypted) in
        [(HERE, false), ("::1", false), (ELSEWHERE, true), ("192.0.2.7", false)]
    {
        let identity = site.look(peer, encrypted, &right).await.unwrap();
        assert_eq!(identity, Identity::named("ada", "password"));
    }
    let fault = site.look(ELSEWHERE, false, &right).await.unwrap_err();
    assert!(fault.message.contains("https"), "{}", fault.message);
    assert_eq!(site.refused(&text("byron")).await.code, FaultCode::Unauthenticated);
    let open = Site::new(|settings| settings.plain_passwords = true);
    open.look(ELSEWHERE, false, &right).await.unwrap();
}

#[tokio::test]
async fn a_token_of_the_user_stands_in_the_place_of_a_password() {
    let site = Site::new(|_| {});
    let identity = site.look(HERE, false, &text(&site.other)).await.unwrap();
    assert_eq!(identity, Identity::named("ada", "token"));
    let mut stolen = text(&site.other);
    stolen.token.as_mut().unwrap().username = "bob".to_owned();
    let fault = site.refused(&stolen).await;
    assert!(fault.message.contains("another user's"), "{}", fault.message);
}

#[tokio::test]
async fn a_digest_of_a_readable_token_logs_in_once() {
    let site = Site::new(|_| {});
    let now = time(0);
    let made = digest_header(&site.readable, b"1", &now);
    let identity = site.look(ELSEWHERE, false, &made).await.unwrap();
    assert_eq!(
        (identity.credential, identity.principal.services()),
        ("digest", &["heat".to_owned()][..])
    );
    let fault = site.refused(&made).await;
    assert!(fault.message.contains("used before"), "{}", fault.message);
    site.look(HERE, false, &digest_header(&site.readable, b"2", &now)).await.unwrap();

    for wrong in [&site.other, "lovelace"] {
        let fault = site.refused(&digest_header(wrong, b"3", &now)).await;
        assert!(fault.message.contains("--digest"), "{}", fault.message);
    }
    let file = TokenFile::open(site.directory.path());
    file.change(BTreeMap::clear).unwrap();
    site.refused(&digest_header(&site.readable, b"4", &now)).await;
}

#[tokio::test]
async fn what_is_too_old_or_too_early_or_lacks_something_says_so() {
    let site = Site::new(|settings| settings.login_clock_skew = Duration::from_secs(60));
    let secret = site.readable.as_str();
    for (header, told) in [
        (digest_header(secret, b"1", &time(-400)), "older than 300 s"),
        (digest_header(secret, b"1", &time(100)), "later than it is"),
        (digest_header(secret, b"1", &time(-30)), "before this server started"),
        (digest_header(secret, b"1", "2026-11-22"), "2026-11-22T21:00:00Z"),
        (header(TokenPassword::Digest(vec![0; 20]), Some(b"1"), None), "Created beside it"),
        (header(TokenPassword::Digest(vec![0; 20]), None, Some(time(0))), "Nonce"),
        (header(TokenPassword::Text("lovelace".to_owned()), None, Some(time(-400))), "older than"),
        (SecurityHeader { expires: Some(time(-100)), ..text("lovelace") }, "has expired"),
        (SecurityHeader { created: Some(time(100)), ..text("lovelace") }, "later than it is"),
    ] {
        let fault = site.refused(&header).await;
        assert_eq!(fault.code, FaultCode::Unauthenticated);
        assert!(fault.message.contains(told), "{}", fault.message);
    }
    for good in [
        SecurityHeader { expires: Some(time(-30)), created: Some(time(30)), ..text("lovelace") },
        digest_header(secret, b"1", &time(30)),
    ] {
        site.look(HERE, false, &good).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_remembered_and_what_is_read_are_bounded() {
    let site = Site::new(|settings| (settings.login_nonces, settings.credentials_size) = (1, 200));
    let made = |nonce: &[u8]| digest_header(&site.readable, nonce, &time(0));
    site.look(HERE, false, &made(b"1")).await.unwrap();
    let fault = site.refused(&made(b"2")).await;
    assert_eq!(
        (fault.code, fault.limit.as_ref().map(|it| it.name.as_str())),
        (FaultCode::QueueFull, Some("login_nonces"))
    );
    let fault = site.refused(&text(&"x".repeat(200))).await;
    assert_eq!(fault.limit.as_ref().map(|it| it.name.as_str()), Some("credentials_size"));
}
