//! Whether a password is right. A hash that is hard to guess is slow, so one that was right is remembered for a
//! while, as a digest, for the address that it came from; those that are tried at once are looked at once; and only so many are hashed at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use fishplate_contract::lock;
use ring::hmac::{HMAC_SHA256, Key, Tag, sign};
use ring::rand::SystemRandom;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::throttle::{Limit, Throttle};
use crate::http::connections;
use crate::settings::Settings;

/// At most so many are remembered; then the one that will be forgotten first goes.
const MOST: usize = 10_000;

/// Stands for the hash of who is no user: it takes as long, so that the time does not tell who is one.
static NOBODY: LazyLock<String> = LazyLock::new(|| password_auth::generate_hash("nobody"));

/// Digest of an address, a user, the stored hash and the password, or of who tries.
type Digest = [u8; 32];

/// What was found of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    /// There were too many wrong ones: this one was not looked at.
    TooMany(Limit),
    /// Too many are being looked at: this one was not.
    Busy(Limit),
}

/// Looks at passwords.
#[derive(Debug)]
pub(super) struct PasswordCheck {
    /// Of this process: what is remembered is worth nothing to others.
    key: Key,
    memory: Duration,
    /// Those that were right, and until when they are remembered.
    right: Mutex<HashMap<Digest, Instant>>,
    /// Those that are being looked at.
    pending: Mutex<HashMap<Digest, Arc<OnceCell<Verdict>>>>,
    /// Of a user from one address.
    users: Throttle,
    /// Of an address.
    peers: Throttle,
    slots: Arc<Semaphore>,
    busy: Limit,
}

impl PasswordCheck {
    pub(super) fn new(settings: &Settings) -> Self {
        // The system's generator is there, or nothing secure could run on this machine.
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new()).expect("random numbers");
        Self {
            key,
            memory: settings.login_memory,
            right: Mutex::default(),
            pending: Mutex::default(),
            users: Throttle::new("login_failures", settings.login_failures, settings.login_delay),
            peers: Throttle::new(
                "login_failures_per_peer",
                settings.login_failures_per_peer,
                settings.login_delay,
            ),
            slots: Arc::new(Semaphore::new(settings.login_checks)),
            busy: Limit {
                name: "login_checks",
                most: settings.login_checks,
                wait: settings.login_wait,
            },
        }
    }

    /// Whether the password is the user's, whose stored hash this is (`None`: there is no such user).
    pub(super) async fn look(
        &self,
        peer: IpAddr,
        user: &str,
        hash: Option<&str>,
        password: &str,
    ) -> Verdict {
        let address = connections::peer(peer);
        let peer = address.to_string();
        // Another password, and one that was changed, has another digest: nothing ever has to be forgotten.
        // So has one from elsewhere: what is remembered of a user must not tell strangers whether they guessed it.
        let digest = self.digest(&[&peer, user, hash.unwrap_or_default(), password]);
        if lock(&self.right).get(&digest).is_some_and(|until| Instant::now() < *until) {
            return Verdict::Right;
        }
        let pending = Pending::of(digest, &self.pending);
        let looking = || async {
            let mut attempts = vec![(&self.users, self.digest(&[&peer, user]))];
            // All callers of a proxy on this machine have its address.
            if !address.is_loopback() {
                attempts.push((&self.peers, self.digest(&[&peer])));
            }
            let withdraw = |begun: &[(&Throttle, Digest)]| {
                begun.iter().for_each(|(throttle, attempt)| throttle.withdraw(*attempt));
            };
            for (begun, (throttle, attempt)) in attempts.iter().enumerate() {
                if let Err(limit) = throttle.begin(*attempt) {
                    withdraw(&attempts[..begun]);
                    return Verdict::TooMany(limit);
                }
            }
            let slot = Arc::clone(&self.slots).acquire_owned();
            let Ok(slot) = timeout(self.busy.wait, slot).await else {
                withdraw(&attempts);
                return Verdict::Busy(self.busy);
            };
            if !is_right(slot.ok(), hash, password).await {
                return Verdict::Wrong;
            }
            attempts.iter().for_each(|(throttle, attempt)| throttle.succeeded(*attempt));
            self.remember(digest);
            Verdict::Right
        };
        *pending.cell.get_or_init(looking).await
    }

    fn remember(&self, digest: Digest) {
        let now = Instant::now();
        let mut right = lock(&self.right);
        if right.len() >= MOST {
            right.retain(|_, until| now < *until);
        }
        if right.len() >= MOST
            && let Some(first) = right.iter().min_by_key(|(_, until)| **until).map(|(it, _)| *it)
        {
            right.remove(&first);
        }
        right.insert(digest, now + self.memory);
    }

    fn digest(&self, parts: &[&str]) -> Digest {
        // Lengths before the parts: nothing can pass from one into the next.
        let mut text = Vec::new();
        for part in parts {
            text.extend_from_slice(&part.len().to_le_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        let tag: Tag = sign(&self.key, &text);
        let mut digest = [0; 32];
        digest.copy_from_slice(tag.as_ref());
        digest
    }
}

/// Hashes a password in a slot; without one, there are none any more.
async fn is_right(slot: Option<OwnedSemaphorePermit>, hash: Option<&str>, password: &str) -> bool {
    let Some(slot) = slot else { return false };
    let (known, password) = (hash.is_some(), password.to_owned());
    let hash = hash.map_or_else(|| NOBODY.clone(), str::to_owned);
    let verified = tokio::task::spawn_blocking(move || {
        let verified = password_auth::verify_password(password, &hash).is_ok();
        // Though nobody may wait for it any more.
        drop(slot);
        verified
    });
    verified.await.unwrap_or(false) && known
}

/// A password that is being looked at, for all who wait for it.
struct Pending<'c> {
    digest: Digest,
    cell: Arc<OnceCell<Verdict>>,
    all: &'c Mutex<HashMap<Digest, Arc<OnceCell<Verdict>>>>,
}

impl<'c> Pending<'c> {
    fn of(digest: Digest, all: &'c Mutex<HashMap<Digest, Arc<OnceCell<Verdict>>>>) -> Self {
        let cell = Arc::clone(lock(all).entry(digest).or_default());
        Self { digest, cell, all }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut all = lock(self.all);
        // Who comes after a verdict asks anew: only right ones are remembered.
        if self.cell.initialized() || Arc::strong_count(&self.cell) == 2 {
            all.remove(&self.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn check(change: impl FnOnce(&mut Settings)) -> PasswordCheck {
        let mut settings = Settings::new("http://localhost");
        change(&mut settings);
        PasswordCheck::new(&settings)
    }

    #[tokio::test]
    async fn a_password_that_was_right_is_not_hashed_again_until_its_time_is_over() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| settings.login_memory = Duration::from_secs(300));
        let look = async |password| checks.look(HERE, "ada", Some(&hash), password).await;
        assert_eq!(look("right").await, Verdict::Right);
        // Nothing can be hashed now.
        checks.slots.close();
        assert_eq!((look("right").await, look("wrong").await), (Verdict::Right, Verdict::Wrong));
        let changed = password_auth::generate_hash("other");
        assert_eq!(checks.look(HERE, "ada", Some(&changed), "right").await, Verdict::Wrong);
        assert_eq!(checks.look(HERE, "bob", Some(&hash), "right").await, Verdict::Wrong);
        assert!(lock(&checks.pending).is_empty());
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(look("right").await, Verdict::Wrong, "it would have to be hashed");
    }

    #[tokio::test]
    async fn one_that_was_right_is_remembered_for_the_address_that_it_came_from() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_failures = 2;
            settings.login_delay = Duration::from_secs(3600);
        });
        let elsewhere = "192.0.2.1".parse().unwrap();
        let look = async |peer, password| checks.look(peer, "ada", Some(&hash), password).await;
        assert_eq!(look(HERE, "right").await, Verdict::Right);
        for wrong in ["a", "b"] {
            assert_eq!(look(elsewhere, wrong).await, Verdict::Wrong);
        }
        for password in ["c", "right"] {
            let verdict = look(elsewhere, password).await;
            assert!(matches!(verdict, Verdict::TooMany(_)), "{password}: {verdict:?}");
        }
        assert_eq!(look(HERE, "right").await, Verdict::Right);
    }

    #[tokio::test]
    async fn an_address_of_ipv6_is_its_network() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_failures = 2;
            settings.login_delay = Duration::from_secs(3600);
        });
        let look = async |peer: &str| {
            checks.look(peer.parse().unwrap(), "ada", Some(&hash), "wrong").await
        };
        for peer in ["2001:db8::1", "2001:db8::2"] {
            assert_eq!(look(peer).await, Verdict::Wrong);
        }
        let verdict = look("2001:db8::ffff:3").await;
        assert!(matches!(verdict, Verdict::TooMany(_)), "{verdict:?}");
        assert_eq!(look("2001:db8:0:1::1").await, Verdict::Wrong);
    }

    #[tokio::test]
    async fn wrong_ones_for_made_up_users_are_slowed_down_for_an_address() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_failures_per_peer = 2;
            settings.login_delay = Duration::from_secs(3600);
        });
        let [stranger, elsewhere] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        let made_up = async |peer, user| checks.look(peer, user, None, "guess").await;
        for user in ["a", "b"] {
            assert_eq!(made_up(stranger, user).await, Verdict::Wrong);
        }
        for user in ["c", "d"] {
            let verdict = made_up(stranger, user).await;
            let Verdict::TooMany(limit) = verdict else { panic!("{verdict:?}") };
            assert_eq!((limit.name, limit.most), ("login_failures_per_peer", 2));
        }
        assert_eq!(checks.look(elsewhere, "ada", Some(&hash), "right").await, Verdict::Right);
        // All callers of a proxy on this machine.
        for user in ["a", "b", "c", "d"] {
            assert_eq!(made_up(HERE, user).await, Verdict::Wrong);
        }
    }

    #[tokio::test]
    async fn one_that_cannot_be_hashed_soon_is_told_so_and_does_not_count() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_checks = 1;
            settings.login_failures = 1;
            settings.login_wait = Duration::from_millis(1);
            settings.login_delay = Duration::from_secs(3600);
        });
        let slot = Arc::clone(&checks.slots).acquire_owned().await.unwrap();
        for _ in 0..3 {
            let verdict = checks.look(HERE, "ada", Some(&hash), "right").await;
            assert_eq!(verdict, Verdict::Busy(checks.busy));
        }
        drop(slot);
        assert_eq!(checks.look(HERE, "ada", Some(&hash), "right").await, Verdict::Right);
    }

    #[tokio::test]
    async fn wrong_ones_are_slowed_down_for_a_user_from_one_address() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_failures = 2;
            settings.login_delay = Duration::from_secs(3600);
        });
        for wrong in ["a", "b"] {
            assert_eq!(checks.look(HERE, "ada", Some(&hash), wrong).await, Verdict::Wrong);
        }
        for password in ["c", "right"] {
            let verdict = checks.look(HERE, "ada", Some(&hash), password).await;
            assert!(matches!(verdict, Verdict::TooMany(_)), "{verdict:?}");
        }
        let elsewhere = "192.0.2.1".parse().unwrap();
        assert_eq!(checks.look(elsewhere, "ada", Some(&hash), "right").await, Verdict::Right);
        assert_eq!(checks.look(HERE, "nobody", None, "nobody").await, Verdict::Wrong);
    }

    #[tokio::test]
    async fn the_same_right_one_many_times_at_once_is_one_try() {
        let hash = password_auth::generate_hash("right");
        let checks = check(|settings| {
            settings.login_failures = 1;
            settings.login_delay = Duration::from_secs(3600);
        });
        let look = || checks.look(HERE, "ada", Some(&hash), "right");
        let verdicts = futures_util::future::join_all((0..20).map(|_| look())).await;
        assert_eq!(verdicts, [Verdict::Right; 20]);
    }
}
