//! Users and their passwords: `DATA/users`.

use super::records::{Record, RecordFile};

/// The longest name and the longest password, in bytes: nobody types more, and a hash takes no longer for it.
pub const LONGEST: usize = 1024;

/// A user with a password.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    /// In PHC string form: `$argon2id$v=19$m=...`.
    hash: String,
}

/// The users of a data directory.
pub type UserFile = RecordFile<User>;

impl User {
    /// A user with this password. Takes as long as a login.
    ///
    /// # Errors
    /// What is wrong with the name or the password.
    pub fn new(name: &str, password: &str) -> Result<Self, String> {
        check_name(name)?;
        if password.is_empty() || password.len() > LONGEST {
            return Err(format!("a password has 1 to {LONGEST} bytes"));
        }
        Ok(Self { name: name.to_owned(), hash: password_auth::generate_hash(password) })
    }

    /// What tells the password.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }
}

/// Whether somebody may be called so: as HTTP Basic allows (RFC 7617, section 2).
///
/// # Errors
/// What would be right.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c != ':' && !c.is_control() && !c.is_whitespace();
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(good) || name.starts_with('#') {
        return Err(format!(
            "{name:?} is no user's name: use 1 to {LONGEST} bytes without blanks and colons"
        ));
    }
    Ok(())
}

impl Record for User {
    const FILE: &'static str = "users";

    fn read(line: &str) -> Result<Self, String> {
        let (name, hash) = line.split_once(':').ok_or("it should be NAME:HASH")?;
        check_name(name)?;
        if password_auth::is_hash_obsolete(hash).is_err() {
            return Err("its hash is none of argon2id (`fishplate user password` makes one)".into());
        }
        Ok(Self { name: name.to_owned(), hash: hash.to_owned() })
    }

    fn line(&self) -> String {
        format!("{}:{}", self.name, self.hash)
    }

    fn key(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_line_with_a_slow_hash_and_no_password() {
        let user = User::new("ada", "lovelace").unwrap();
        let line = user.line();
        assert!(line.starts_with("ada:$argon2id$v=19$m=19456,t=2,p=1$"), "{line}");
        assert!(!line.contains("lovelace"));
        assert_eq!(User::read(&line).unwrap().line(), line);
        assert_ne!(
            User::new("ada", "lovelace").unwrap().line(),
            line,
            "each has a salt of its own"
        );
    }

    #[test]
    fn what_is_no_user_says_why() {
        for name in ["", "a:b", "a b", "a\n", "#a", "\u{7}", &"a".repeat(LONGEST + 1)] {
            assert!(User::new(name, "x").is_err(), "{name:?}");
        }
        assert!(User::new("ada", "").is_err() && User::new("ada", &"x".repeat(2000)).is_err());
        for line in ["ada", "ada:", "ada:secret", "ada:$2y$05$abc", ":$argon2id$"] {
            assert!(User::read(line).is_err(), "{line:?}");
        }
    }
}
