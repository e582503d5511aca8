//! Who is let in by the header of a message: WS-Security's UsernameToken.

use std::io::Write as _;

use base64_simd::STANDARD;
use fishplate_contract::{Clock as _, SystemClock};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::login::{Site, audit};
use crate::server::{Server, until};
use crate::soap::{Answer, VERSIONS, Version, answer, connect, post, wrapper};

const OASIS: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss";

/// A header `Security` that must be understood, with this in it.
fn security(content: &str) -> String {
    format!(
        "<e:Header><s:Security e:mustUnderstand=\"1\" xmlns:s=\"{OASIS}-wssecurity-secext-1.0.xsd\" \
         xmlns:u=\"{OASIS}-wssecurity-utility-1.0.xsd\">{content}</s:Security></e:Header>"
    )
}

fn token(user: &str, kind: &str, password: &str, more: &str) -> String {
    security(&format!(
        "<s:UsernameToken><s:Username>{user}</s:Username>\
         <s:Password Type=\"{OASIS}-username-token-profile-1.0#{kind}\">{password}</s:Password>{more}</s:UsernameToken>"
    ))
}

fn text(user: &str, password: &str) -> String {
    token(user, "PasswordText", password, "")
}

/// A digest of a secret that was made now.
fn digested(user: &str, secret: &str, nonce: &str) -> String {
    let created = jiff::Timestamp::from_millisecond(SystemClock.now().0).unwrap().to_string();
    let made = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{nonce}{created}{secret}").as_bytes());
    let nonce = STANDARD.encode_to_string(nonce);
    let more = format!("<s:Nonce>{nonce}</s:Nonce><u:Created>{created}</u:Created>");
    token(user, "PasswordDigest", &STANDARD.encode_to_string(made), &more)
}

/// The answer to a call with this header, and these fields of HTTP.
fn called(site: &Site, version: Version, header: &str, fields: &str) -> Answer {
    let body = version.envelope(header, &wrapper("call", "<x>1</x>"));
    site.ask("POST", "/test", fields, &body)
}

fn in_11(site: &Site, header: &str) -> Answer {
    called(site, Version::V11, header, "")
}

#[test]
fn a_user_logs_in_by_the_header_of_a_message_and_a_digest_is_good_once() {
    let mut site = Site::new(&[]);
    site.add("ada", "lovelace");
    let secret = site.token(&["--user", "ada", "--digest"]);
    for (version, nonce) in VERSIONS.into_iter().zip(["one", "two"]) {
        for header in
            [text("ada", "lovelace"), text("ada", &secret), digested("ada", &secret, nonce)]
        {
            let done = called(&site, version, &header, "");
            assert_eq!((done.status, done.text("y")), (200, Some("2")), "{done:#?}");
        }
        let again = digested("ada", &secret, &format!("{nonce}, again"));
        assert_eq!(called(&site, version, &again, "").status, 200);
        let refused = called(&site, version, &again, "");
        assert_eq!(refused.status, 401, "{refused:#?}");
        assert!(refused.body.contains("used before"), "{refused:#?}");
        assert!(refused.body.contains(":FailedAuthentication<"), "{refused:#?}");
    }
    site.server.stop();
    let logins: Vec<_> = audit(&site.server, "login").iter().map(|it| it["what"].clone()).collect();
    for what in ["password", "token", "digest"] {
        assert!(logins.contains(&what.into()), "{logins:?}");
    }
    let refusals = audit(&site.server, "refusal");
    assert!(refusals.iter().all(|it| it["user"] == "ada"), "{refusals:?}");
}

#[test]
fn what_is_wrong_is_a_fault_that_tells_how_to_log_in() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let heat = site.token(&["--user", "ada", "--service", "heat"]);
    for (header, status, told) in [
        (text("ada", "byron"), 401, "the password is another one"),
        (text("nobody", "lovelace"), 401, "the password is another one"),
        (text("ada", &"x".repeat(64 << 10)), 401, "credentials_size"),
        (text("ada", &heat), 403, "is good for heat only"),
        (security(""), 401, "a UsernameToken (WS-Security)"),
        (security("<s:UsernameToken/>"), 401, "without a Username"),
        (digested("ada", &heat, "one"), 401, "--digest"),
        (security("<s:BinarySecurityToken/>"), 500, "BinarySecurityToken, which is not understood"),
    ] {
        for version in VERSIONS {
            let refused = called(&site, version, &header, "");
            assert_eq!(refused.status, status, "{refused:#?}");
            assert!(refused.body.contains(told), "{told}: {refused:#?}");
            assert!(!refused.body.contains("urn:fishplate:test"), "{refused:#?}");
            assert_eq!(
                refused.head.contains("www-authenticate: basic"),
                status == 401,
                "{refused:#?}"
            );
        }
    }
    assert_eq!(site.server.runs(), 0);
}

#[test]
fn wrong_passwords_in_messages_count_like_those_in_http() {
    let site = Site::new(&["--limit", "login_failures=3", "--limit", "login_delay=1h"]);
    site.add("ada", "lovelace");
    let mut looked_at = 0;
    for number in 0..20 {
        let refused = in_11(&site, &text("ada", &format!("guess {number}")));
        assert_eq!(refused.status, 401, "{refused:#?}");
        looked_at += usize::from(!refused.head.contains("retry-after:"));
    }
    assert_eq!(looked_at, 3);
    assert_eq!(site.with_password("ada", "lovelace"), 401, "HTTP's count as well");
    until("the log has it", || site.server.log().contains("refused"));
    let log = site.server.log();
    assert!((1..=3).contains(&log.matches("refused").count()), "{log}");
    assert!(!log.contains("not understood"), "{log}");
}

#[test]
fn http_and_the_message_name_one_user() {
    let site = Site::new(&[]);
    site.add("ada", "lovelace");
    let token = site.token(&["--user", "bob"]);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let refused = called(&site, Version::V11, &text("ada", "lovelace"), &bearer);
    assert_eq!(refused.status, 401, "{refused:#?}");
    assert!(refused.body.contains("two users"), "{refused:#?}");
    for (header, status) in
        [(text("bob", &token), 200), (text("bob", "wrong"), 401), (security(""), 200)]
    {
        let said = called(&site, Version::V11, &header, &bearer);
        assert_eq!(said.status, status, "{said:#?}");
    }
}

#[test]
fn of_a_stranger_no_more_is_read_than_it_takes() {
    let site = Site::new(&["--limit", "login_size=1KiB"]);
    site.add("ada", "lovelace");
    // What is wrong with a stranger's message is not told.
    for body in ["", "x", "<x/>", "<e:Envelope xmlns:e='urn:x'/>"] {
        let refused = site.ask("POST", "/test", "", body);
        assert_eq!(
            (refused.status, refused.text("code")),
            (401, Some("Unauthenticated")),
            "{body}"
        );
    }
    for path in ["/test", "/nothing"] {
        let refused = site.ask("POST", path, "Content-Encoding: gzip\r\n", "x");
        assert_eq!(refused.status, 401, "{refused:#?}");
        assert!(!refused.body.contains("content coding"), "{refused:#?}");
    }
    let wrong = Version::V11.envelope(&text("ada", "lovelace"), &wrapper("call", "<x><y/></x>"));
    let refused = site.ask("POST", "/test", "", &wrong);
    assert_eq!(refused.text("code"), Some("InvalidValue"), "{refused:#?}");
    // The rest of these never comes.
    let long = format!("<e:Header><x xmlns='urn:x'>{}", "y".repeat(4000));
    for (header, told) in [(long.as_str(), "login_size"), ("<e:Header/>", "does not say")] {
        let body = Version::V11.envelope(header, "<x>");
        let body = body.split_once("</e:Body>").unwrap().0;
        let mut stream = connect(&site.server);
        let head = "POST /test HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nContent-Length: 100000000\r\n\r\n";
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let refused = answer(&mut stream);
        assert_eq!(refused.status, 401, "{refused:#?}");
        assert!(refused.body.contains(told), "{refused:#?}");
    }
}

#[test]
fn a_server_that_does_not_ask_does_not_understand_the_header() {
    let server = Server::of_script("exit 0", &["[in val x:int]"]);
    let body = Version::V12.envelope(&text("ada", "lovelace"), &wrapper("call", "<x>1</x>"));
    let refused = post(&server, Version::V12, &body);
    assert_eq!(refused.status, 500, "{refused:#?}");
    assert!(refused.body.contains("NotUnderstood"), "{refused:#?}");
    let optional = body.replace("mustUnderstand=\"1\"", "mustUnderstand=\"0\"");
    assert_eq!(post(&server, Version::V12, &optional).status, 200);
}

#[test]
fn descriptions_can_be_open_though_calls_are_not() {
    let site = Site::new(&["--open-descriptions"]);
    let token = site.token(&["--user", "ada", "--service", "heat"]);
    for path in ["/test", "/test?wsdl", "/session?wsdl"] {
        assert_eq!(site.ask("GET", path, "", "").status, 200, "{path}");
        assert_eq!(site.with_token(path, "fishplate_0"), 401, "{path}");
        assert_eq!(site.with_token(path, &token), 403, "{path}");
    }
    for path in ["/", "/metrics", "/nothing", "/data/"] {
        assert_eq!(site.ask("GET", path, "", "").status, 401, "{path}");
    }
    assert_eq!(in_11(&site, "").status, 401);
}

#[test]
fn who_is_known_by_a_message_may_do_what_the_policy_says() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "[[allow]]\nwho = 'bob'\nservice = 'test'\n").unwrap();
    let site = Site::new(&["--policy", policy.to_str().unwrap()]);
    let [ada, bob] = ["ada", "bob"].map(|user| (user, site.token(&["--user", user])));
    for version in VERSIONS {
        assert_eq!(called(&site, version, &text(bob.0, &bob.1), "").status, 200);
        let refused = called(&site, version, &text(ada.0, &ada.1), "");
        assert_eq!((refused.status, refused.text("code")), (403, Some("Forbidden")));
        assert!(!refused.body.contains("urn:fishplate:test"), "{refused:#?}");
    }
}
