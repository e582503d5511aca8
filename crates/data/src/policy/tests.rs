use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;

fn rule(settings: &PolicySettings, address: &str) -> Option<&'static str> {
    match Policy::new(settings.clone()).check(address.parse().unwrap()) {
        Ok(()) => None,
        Err(TransferError::Forbidden { address: told, rule }) => {
            assert!(told.contains(" is "), "{told}");
            Some(rule)
        }
        Err(error) => panic!("{error:?}"),
    }
}

const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.0.0.1",
    "128.0.0.1",
    "169.253.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.167.0.1",
    "192.169.0.1",
    "198.17.0.1",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00::1",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
    "2002:101:101::1",
];
const PRIVATE: &[&str] = &[
    "10.0.0.7",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "fc00::1",
    "fdff::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "::10.1.2.3",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "2002:a00:1::1",
    "2002:7f00:1::",
    "::ffff:0:10.0.0.1",
    "2001:0:101:101::f5ff:fffe",
    "2a00::5efe:10.0.0.1",
    "2001:0:7f00:1::",
];
const SPECIAL: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "198.19.255.255",
    "192.0.0.8",
    "192.88.99.1",
    "::",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "2001:2::1",
    "4000::1",
    "5f00::1",
    "169.254.169.254",
    "100.100.100.200",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
    "::ffff:0.0.0.0",
];

#[test]
fn only_the_public_is_asked() {
    let settings = PolicySettings::default();
    for address in PUBLIC {
        assert_eq!(rule(&settings, address), None, "{address}");
    }
    for address in PRIVATE {
        assert_eq!(rule(&settings, address), Some(ALLOW_PRIVATE), "{address}");
    }
    for address in SPECIAL {
        assert_eq!(rule(&settings, address), Some(ALLOW_NETWORK), "{address}");
    }
}

#[test]
fn the_operator_allows_private_networks_but_no_secrets() {
    let settings = PolicySettings { allow_private: true, ..PolicySettings::default() };
    for address in PUBLIC.iter().chain(PRIVATE) {
        assert_eq!(rule(&settings, address), None, "{address}");
    }
    for address in SPECIAL {
        assert_eq!(rule(&settings, address), Some(ALLOW_NETWORK), "{address}");
    }
}

#[test]
fn the_operator_allows_networks_by_name() {
    let networks = ["cluster=10.1.0.0/16, fd00:1::/32", "169.254.169.254", "127.0.0.0/8"];
    let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
    let settings = PolicySettings { allow_private: false, networks };
    for address in ["10.1.2.3", "fd00:1::5", "169.254.169.254", "127.0.0.1", "::ffff:10.1.0.1"] {
        assert_eq!(rule(&settings, address), None, "{address}");
    }
    for address in ["10.2.0.1", "fd00:2::1", "::1", "2002:a01:1::1", "64:ff9b::10.1.0.1"] {
        assert_eq!(rule(&settings, address), Some(ALLOW_PRIVATE), "{address}");
    }
    assert_eq!(settings.networks[0].name, "cluster");
    for wrong in ["", "cluster", "=10.0.0.0/8", "a=", "a=10.0.0.0/33", "a=10.0.0.0/8;11.0.0.0/8"] {
        let error = wrong.parse::<Network>().unwrap_err().to_string();
        assert!(error.contains("is no network"), "{error}");
    }
}

/// Gives one answer after the other.
#[derive(Debug)]
struct Scripted(Mutex<VecDeque<Vec<&'static str>>>);

impl Lookup for Scripted {
    fn lookup<'l>(&'l self, _: &'l str, port: u16) -> LookupFuture<'l> {
        let next = self.0.lock().unwrap().pop_front().expect("another look-up");
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), port);
        Box::pin(std::future::ready(Ok(next.into_iter().map(address).collect())))
    }
}

fn scripted(answers: &[&[&'static str]]) -> Policy {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    Policy::with_lookup(PolicySettings::default(), Arc::new(Scripted(Mutex::new(answers))))
}

#[tokio::test]
async fn each_look_up_is_checked_and_only_what_is_allowed_comes_back() {
    let policy = scripted(&[&["127.0.0.1", "1.1.1.1"], &["10.0.0.7"], &[]]);
    let allowed = policy.resolve("rebinds.example", 80).await.unwrap();
    assert_eq!(allowed, ["1.1.1.1:80".parse().unwrap()]);
    let refused = policy.resolve("rebinds.example", 80).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "rebinds.example: 10.0.0.7 is private: the rule allow_private does not allow that"
    );
    let nothing = policy.resolve("rebinds.example", 80).await.unwrap_err();
    assert!(matches!(nothing, TransferError::Unresolved { .. }), "{nothing:?}");
    let told = nothing.to_string();
    assert!(told.starts_with("the name rebinds.example can't be resolved:"), "{told}");
}

#[tokio::test]
async fn literal_addresses_are_not_looked_up() {
    let policy = scripted(&[]);
    for (host, allowed) in [("1.1.1.1", true), ("[2606:4700::1111]", true), ("[::1]", false)] {
        assert_eq!(policy.resolve(host, 80).await.is_ok(), allowed, "{host}");
    }
    let refused = policy.resolve("10.0.0.7", 80).await.unwrap_err().to_string();
    assert!(refused.starts_with("10.0.0.7 is private:"), "{refused}");
}

#[tokio::test]
async fn names_that_stand_for_addresses_are_seen_through() {
    // getaddrinfo reads numbers as inet_aton did.
    let policy = Policy::new(PolicySettings::default());
    for host in ["localhost", "0x7f.1", "2130706433", "127.1"] {
        let refused = policy.resolve(host, 80).await;
        assert!(refused.is_err(), "{host}: {refused:?}");
    }
}
