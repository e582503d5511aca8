use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::header::{AUTHORIZATION, HeaderMap};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::authentication::authenticator::{Authentication, Peer};

const ISSUER: &str = "https://id.example";
const RSA_MODULUS: &str = "wGLKvzj_3bzYh9-pSXRFFzaClwR6svCrjpK6aApHBC0sYU4zYKJYWtJXg8Aj4aLJvA0plcE0wpVkau22TMP_4LTz\
    6PbuaovaPO4KOr39wEIMmYkvhUwQ-nLuc1GfWQQuc3oVAwx4x1UUyx6TjLvKXMHnZvXblDt3jOqtcK1zGHAGiEiI\
    eQTn1TM38_l0Mhzae1Nl45MKD-LyKGfFsFEyLmuud91_Cs319RYIRkUD9wcNOsQLDrhtixiYisUCO0bakdeB21q_\
    _xjaVmAq0ZIPXU-ceA_lW8VMypXGGobEgBApoV_FyTjz2PUHLEgVtR5hdUxCBC-4V9bkAYBhtpbDvQ";

/// Made with `PyJWT`, until 2100: of that key, for `ada`.
const RS256: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGU\
    iLCJhdWQiOlsib3RoZXIiLCJmaXNocGxhdGUiXSwic3ViIjoiYWRhIiwiZXhwIjo0MTAyNDQ0ODAwfQ.UopqswPK\
    aVWxVvZbfcfztXDlniMFcls2EIaYQ94PCgtOV3oVJF5vwnOB7pwg79RZMQvRGBBk8BRycCUetlH0yt03_e8A4Ast\
    Is3lhDBXXGfrueQsss4PD13dpcTTWZgaubbTpq4AjFdPFQo5PLBXswvrK__ii0RE6En7ro07hCgzb7qU25WekX1l\
    W8GpJPYiaqIRln6gn6R2j2HhBNFYd7Q9RDp_sBKtsrnvgOfihCe5c-MmTAisfGP0CWs9PMrqBPYn75L9Tppw0r95\
    km3IfXr6J7UWqBisrRhdg3RzBjZb58dZ-mJ7eh9htocREvQ8KjGUbkIDtSxDjga7-OawwA";
const PS256: &str = "eyJhbGciOiJQUzI1NiIsImtpZCI6InJzYSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGU\
    iLCJhdWQiOlsib3RoZXIiLCJmaXNocGxhdGUiXSwic3ViIjoiYWRhIiwiZXhwIjo0MTAyNDQ0ODAwfQ.XEo4jgmZ\
    xFUa-CbItraPTPvmrxmzPfjBQm_bjUKXPzhHahkTdrLhHb_PY7R7kXV5APrpOaDSal7RRUx-Y7E6Hf5hL9Iiz7e9\
    yxj3ZTlWxkirio1MyCDzqfCiwnb_skS-4_5W0zxYBhrHmyoJJxkFV3wt0CXSs2VYqxTwJj8kxccQUFefiyMK7f8f\
    _m8uddxLQo6KQmtc-rbeG5m2vDfM-mr7ddZ7YGUmoZe_jolhzJaWGnGclxXA_SR6ZuC5a70y6jpODFqxUC-fX8A1\
    IR7e8zNhpVbvRnfPflkCNsrQApq8EJGSC0ZKDrViDFIzlYFt6HF-a0kGvi-4KIPe29kQuA";
/// The same claims, signed by HMAC with that public key for the secret: taken for one, it would be right.
const HS256: &str = "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCIsICJraWQiOiAicnNhIn0.eyJpc3MiOiAiaHR0cHM6Ly9pZC5l\
    eGFtcGxlIiwgImF1ZCI6IFsib3RoZXIiLCAiZmlzaHBsYXRlIl0sICJzdWIiOiAiYWRhIiwgImV4cCI6IDQxMDI0\
    NDQ4MDB9.Esu1IHRvxff9ONi5PUkQiWE73Wx6wahUZ6EZggaOGC4";

fn rsa_key() -> Value {
    json!({ "kty": "RSA", "kid": "rsa", "n": RSA_MODULUS, "e": "AQAB" })
}

/// An issuer with a key on P-256.
struct Issuer {
    pair: EcdsaKeyPair,
    id: &'static str,
}

impl Issuer {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self { pair: EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).unwrap(), id }
    }

    fn key(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": x, "y": y })
    }

    fn sign(&self, claims: &Value) -> String {
        let head = json!({ "alg": "ES256", "kid": self.id });
        let message = format!("{}.{}", base64(head.to_string()), base64(claims.to_string()));
        let signed = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", base64(signed.as_ref()))
    }
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

fn now() -> i64 {
    SystemClock.now().0 / 1000
}

/// What a good token says, with changes; `null` takes a claim away.
fn claims(changes: &[(&str, Value)]) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "fishplate", "sub": "ada", "exp": now() + 300, "iat": now(),
    });
    for (name, value) in changes {
        claims[*name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn settings(keys: KeySource) -> JwtSettings {
    let (issuer, audience) = (ISSUER.to_owned(), "fishplate".to_owned());
    JwtSettings { issuer, audience, keys, user_claim: "sub".to_owned() }
}

/// One whose keys are in a file.
fn with_keys(keys: &[Value]) -> (tempfile::TempDir, PathBuf, Jwt) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("keys");
    std::fs::write(&path, json!({ "keys": keys }).to_string()).unwrap();
    let jwt =
        Jwt::open(settings(KeySource::File(path.clone())), &Settings::new("http://localhost"))
            .unwrap();
    (directory, path, jwt)
}

/// The user, or what is wrong; `None`: it is for another authenticator.
async fn asked(jwt: &Jwt, token: &str) -> Option<Result<String, Fault>> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let peer = Peer::at(address);
    let head = RequestHead { headers: &headers, peer: &peer, client: address, security: None };
    match jwt.authenticate(head).await {
        Authentication::Authenticated(identity) => Some(Ok(identity.principal.as_str().to_owned())),
        Authentication::Refused(refusal) => Some(Err(refusal.fault)),
        Authentication::NotRequested => None,
    }
}

async fn why_refused(jwt: &Jwt, token: &str) -> String {
    let fault = asked(jwt, token).await.unwrap().unwrap_err();
    assert_eq!(fault.code, fishplate_contract::FaultCode::Unauthenticated, "{fault:?}");
    fault.message
}

#[tokio::test]
async fn tokens_of_other_libraries_say_who_calls() {
    let (_directory, _, jwt) = with_keys(&[Issuer::new("ec").key(), rsa_key()]);
    for token in [RS256, PS256] {
        assert_eq!(asked(&jwt, token).await, Some(Ok("ada".to_owned())));
    }
    assert_eq!(asked(&jwt, "fishplate_0123").await, None, "one of ours");
}

#[tokio::test]
async fn a_token_must_be_signed_by_the_issuer_with_a_private_key() {
    let (mine, other) = (Issuer::new("ec"), Issuer::new("ec"));
    let (_directory, _, jwt) = with_keys(&[mine.key(), rsa_key()]);
    let good = mine.sign(&claims(&[]));
    assert_eq!(asked(&jwt, &good).await, Some(Ok("ada".to_owned())));
    let [head, said, signed] = good.split('.').collect::<Vec<_>>()[..] else { panic!("{good}") };
    let none = base64(r#"{"alg":"none"}"#);
    let root = base64(claims(&[("sub", "root".into())]).to_string());
    for (token, what) in [
        (HS256.to_owned(), "shared secret"),
        (format!("{none}.{said}."), "nor a JSON Web Token"),
        (format!("{none}.{said}.{signed}"), "nor a JSON Web Token"),
        (format!("{head}.{root}.{signed}"), "not signed by"),
        (format!("{head}.{said}."), "not signed by"),
        (format!("{head}.{said}"), "nor a JSON Web Token"),
        (other.sign(&claims(&[])), "not signed by"),
        (Issuer::new("unheard of").sign(&claims(&[])), "with no key of"),
        ("x".to_owned(), "nor a JSON Web Token"),
    ] {
        let why = why_refused(&jwt, &token).await;
        assert!(why.contains(what), "{token}: {why}");
    }
    let large = "x".repeat(Settings::new("http://localhost").credentials_size);
    assert!(why_refused(&jwt, &large).await.contains("bytes"));
}

#[tokio::test]
async fn a_token_must_be_for_us_and_good_now() {
    let issuer = Issuer::new("ec");
    let (_directory, _, jwt) = with_keys(&[issuer.key()]);
    let skew = i64::try_from(jwt.clock_skew.as_secs()).unwrap();
    for (name, value, what) in [
        ("exp", json!(now() - skew - 5), "has expired"),
        ("exp", Value::Null, "\"exp\""),
        ("nbf", json!(now() + skew + 5), "later"),
        ("iat", json!(now() + skew + 5), "later"),
        ("iss", json!("https://id.example.org"), "another issuer"),
        ("iss", Value::Null, "\"iss\""),
        ("aud", json!(["other"]), "must be fishplate"),
        ("aud", Value::Null, "\"aud\""),
        ("sub", Value::Null, "\"sub\""),
        ("sub", json!("a b"), "no user's name"),
        ("sub", json!(7), "\"sub\""),
    ] {
        let why = why_refused(&jwt, &issuer.sign(&claims(&[(name, value)]))).await;
        assert!(why.contains(what), "{name}: {why}");
    }
    for (name, value) in [("exp", now() - skew + 5), ("nbf", now() + skew - 5)] {
        let token = issuer.sign(&claims(&[(name, value.into())]));
        assert_eq!(asked(&jwt, &token).await, Some(Ok("ada".to_owned())), "{name}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_for_signatures_or_for_another_algorithm_is_not_used() {
    let issuer = Issuer::new("ec");
    for (name, value) in [("use", "enc"), ("alg", "RS256")] {
        let mut key = issuer.key();
        key[name] = value.into();
        let (_directory, _, jwt) = with_keys(&[key]);
        let why = why_refused(&jwt, &issuer.sign(&claims(&[]))).await;
        assert!(why.contains("with no key of"), "{name}: {why}");
    }
}

#[tokio::test]
async fn keys_that_were_replaced_hold_at_once_and_half_a_file_lets_nobody_in() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let (_directory, path, jwt) = with_keys(&[old.key()]);
    let (of_old, of_new) = (old.sign(&claims(&[])), new.sign(&claims(&[])));
    assert!(asked(&jwt, &of_old).await.unwrap().is_ok());
    let keys = json!({ "keys": [new.key()] }).to_string();
    std::fs::write(&path, &keys).unwrap();
    assert!(asked(&jwt, &of_old).await.unwrap().is_err());
    assert!(asked(&jwt, &of_new).await.unwrap().is_ok());
    std::fs::write(&path, &keys[..keys.len() / 2]).unwrap();
    let fault = asked(&jwt, &of_new).await.unwrap().unwrap_err();
    assert_eq!(fault.code, fishplate_contract::FaultCode::Internal);
    for unusable in ["", "{}", r#"{"keys": []}"#] {
        std::fs::write(&path, unusable).unwrap();
        let opened =
            Jwt::open(settings(KeySource::File(path.clone())), &Settings::new("http://localhost"));
        assert!(opened.is_err(), "{unusable}");
    }
}

#[tokio::test]
async fn keys_are_found_where_the_issuer_says_and_not_asked_for_by_whoever_names_one() {
    let issuer = Issuer::new("ec");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let (keys, place) = (json!({ "keys": [issuer.key()] }), format!("{base}/certs"));
    let described = base.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            ASKED.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let body = match String::from_utf8_lossy(&request[..read]).split(' ').nth(1) {
                Some("/.well-known/openid-configuration") => {
                    json!({ "issuer": described, "jwks_uri": place })
                }
                _ => keys.clone(),
            };
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes()).await.unwrap();
        }
    });
    let of_issuer = JwtSettings { issuer: base.clone(), ..settings(KeySource::Discovered) };
    let jwt = Jwt::open(of_issuer, &Settings::new("http://localhost")).unwrap();
    let token = issuer.sign(&claims(&[("iss", base.into())]));
    for _ in 0..3 {
        assert_eq!(asked(&jwt, &token).await, Some(Ok("ada".to_owned())));
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), 2, "its description and its keys, once");
    for _ in 0..3 {
        let why = why_refused(&jwt, &Issuer::new("unheard of").sign(&claims(&[]))).await;
        assert!(why.contains("with no key of"), "{why}");
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), 2);
}

#[test]
fn keys_come_over_https_or_from_this_machine() {
    for (place, is_taken) in [
        ("https://id.example/certs", true),
        ("http://127.0.0.1:1/certs", true),
        ("http://localhost/certs", true),
        ("http://id.example/certs", false),
        ("http://127.0.0.1.id.example/certs", false),
    ] {
        assert_eq!(place.parse::<KeySource>().is_ok(), is_taken, "{place}");
    }
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_lets_nobody_in() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let keys = format!("http://{address}/certs").parse().unwrap();
    let jwt = Jwt::open(settings(keys), &Settings::new("http://localhost")).unwrap();
    for _ in 0..2 {
        let fault = asked(&jwt, RS256).await.unwrap().unwrap_err();
        assert_eq!(fault.code, fishplate_contract::FaultCode::Internal);
    }
}
