//! All that a user of this machine has, and which of it goes where.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::{HeaderValue, Uri};

use super::credential::Credential;
use super::logins::Logins;
use super::origin::Origin;
use crate::error::Error;

/// The variable of the environment that holds a token.
pub const TOKEN_VARIABLE: &str = "FISHPLATE_TOKEN";
/// The variable of the environment that names the server it is for.
const URL_VARIABLE: &str = "FISHPLATE_URL";

/// Where credentials are looked for, in this order.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// For the server that the user names, and for the address that is called in its place.
    pub given: Option<Credential>,
    /// The file that `fishplate login` writes: each for its own scheme, host and port.
    pub logins: Option<Logins>,
    /// A token for the server that the user names, whichever it is.
    pub token: Option<Credential>,
    /// The one server that the token is for, if that is known.
    pub token_for: Option<Origin>,
    /// `.netrc`, as curl reads it: each for a host; over http only if the user names an `http:` address.
    pub netrc: Option<PathBuf>,
    /// A `.netrc` that can't be read is an error, not one that holds nothing.
    pub netrc_required: bool,
}

impl Credentials {
    /// Those of the user that this process runs as: what `fishplate login` has noted, the environment's token (for the
    /// server that `FISHPLATE_URL` names, if it names one), and `.netrc`, or the file that `NETRC` names.
    pub fn of_user() -> Self {
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty());
        let server = std::env::var(URL_VARIABLE).ok().map(|url| Origin::named(&url));
        // For a server that nobody understands it is for nobody.
        let token = token.filter(|_| !matches!(server, Some(Err(_))));
        let told = std::env::var_os("NETRC").map(PathBuf::from);
        let netrc_required = told.is_some();
        let netrc = told.or_else(|| Some(std::env::home_dir()?.join(".netrc")));
        Self {
            given: None,
            logins: Logins::of_user(),
            token: token.map(|token| Credential::Token(token.trim().to_owned())),
            token_for: server.and_then(Result::ok),
            netrc: netrc.filter(|path| path.is_file()),
            netrc_required,
        }
    }

    /// The same, and this for the server that the user names.
    #[must_use]
    pub fn with(self, given: Option<Credential>) -> Self {
        Self { given: given.or(self.given), ..self }
    }

    /// The `.netrc` that is not used, because it can't be read as one.
    pub fn unusable_netrc(&self) -> Option<&Path> {
        self.netrc.as_deref().filter(|path| netrc::Netrc::from_file(path).is_err())
    }

    /// Nothing is known.
    fn is_empty(&self) -> bool {
        self.given.is_none()
            && self.logins.is_none()
            && self.token.is_none()
            && self.netrc.is_none()
    }
}

/// Which credential goes to which server, as requests go out.
#[derive(Debug)]
pub(crate) struct CredentialLookup {
    known: Credentials,
    /// The servers that the user names: the first, and the address that is called in its place.
    named: Vec<Origin>,
    /// Those that were looked up.
    found: Mutex<HashMap<Origin, Option<HeaderValue>>>,
}

impl CredentialLookup {
    pub(crate) fn new(known: &Credentials, named: impl IntoIterator<Item = Uri>) -> Self {
        let named = named.into_iter().filter_map(|uri| Origin::of(&uri)).collect();
        Self { known: known.clone(), named, found: Mutex::default() }
    }

    /// The value of `Authorization` for a request to this address.
    pub(crate) fn header(&self, uri: &Uri) -> Result<Option<HeaderValue>, Error> {
        if self.known.is_empty() {
            return Ok(None);
        }
        let Some(origin) = Origin::of(uri) else { return Ok(None) };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.get(&origin) {
            return Ok(known.clone());
        }
        let header = match self.look_up(&origin)? {
            None => None,
            Some(credential) => Some(credential.header().ok_or_else(|| Error::BadUrl {
                url: origin.to_string(),
                reason: "what logs in there can't stand in a header of HTTP".to_owned(),
            })?),
        };
        found.insert(origin, header.clone());
        Ok(header)
    }

    fn look_up(&self, origin: &Origin) -> Result<Option<Credential>, Error> {
        let is_named = self.named.contains(origin);
        if let Some(given) = self.known.given.as_ref().filter(|_| is_named) {
            return Ok(Some(given.clone()));
        }
        if let Some(logins) = &self.known.logins
            && let Some(noted) = logins.get(origin)?
        {
            return Ok(Some(noted));
        }
        let is_for = |server: &Origin| server == origin;
        if let Some(token) = &self.known.token
            && is_named
            && self.known.token_for.as_ref().is_none_or(is_for)
        {
            return Ok(Some(token.clone()));
        }
        // A redirect must not lead a password out of TLS.
        let plainly = self.named.iter().any(|named| !named.is_secure());
        let netrc = self.known.netrc.as_ref().filter(|_| origin.is_secure() || plainly);
        let Some(path) = netrc else { return Ok(None) };
        let read = match netrc::Netrc::from_file(path) {
            Ok(read) => read,
            Err(_) if !self.known.netrc_required => return Ok(None),
            // What it says of a mistake holds words of the file.
            Err(_) => {
                let reason = "it is no .netrc".to_owned();
                return Err(Error::Credentials { path: path.clone(), reason });
            }
        };
        let host = origin.host().trim_matches(['[', ']']);
        let mut hosts = read.hosts.iter();
        // Its `default` would go to anybody, and stands there like a host of that name.
        let found = hosts.find(|(name, _)| *name != "default" && name.eq_ignore_ascii_case(host));
        Ok(found.map(|(_, found)| Credential::Password {
            user: found.login.clone(),
            password: found.password.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    fn token(text: &str) -> Credential {
        Credential::Token(text.to_owned())
    }

    #[test]
    fn what_is_given_goes_to_the_servers_that_are_named_and_to_no_other() {
        let known = Credentials { given: Some(token("t")), ..Credentials::default() };
        let lookup =
            CredentialLookup::new(&known, ["http://h:8080/a", "http://tunnel:1/"].map(uri));
        let header = |url: &str| lookup.header(&uri(url)).unwrap();
        for there in ["http://h:8080/b?c", "http://H:8080", "http://tunnel:1/x"] {
            assert_eq!(header(there).unwrap(), "Bearer t", "{there}");
        }
        for elsewhere in [
            "https://h:8080/",
            "http://h/",
            "http://h:80801",
            "http://h.evil.example:8080/",
            "http://evil.example:8080/h:8080",
        ] {
            assert_eq!(
                elsewhere.parse::<Uri>().ok().and_then(|uri| lookup.header(&uri).unwrap()),
                None
            );
        }
    }

    #[test]
    fn what_is_noted_goes_to_its_own_server_and_what_is_given_goes_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let logins = Logins::at(directory.path().join("fishplate/logins.json"));
        let origin = |text: &str| Origin::of(&uri(text)).unwrap();
        logins.note(&origin("https://a.example"), Some(&token("for a"))).unwrap();
        let netrc = directory.path().join("netrc");
        std::fs::write(
            &netrc,
            "machine a.example login x password y\nmachine B.example login ada password secret\n\
             default login anybody password anything\n",
        )
        .unwrap();
        let netrc = Some(netrc);
        let known = Credentials { logins: Some(logins), netrc, ..Credentials::default() };
        let of = |named: &str, url: &str| {
            let known = CredentialLookup::new(&known, [uri(named)]);
            known.header(&uri(url)).unwrap().map(|value| value.to_str().unwrap().to_owned())
        };
        let home = "https://a.example/test";
        assert_eq!(of(home, "https://a.example/x").as_deref(), Some("Bearer for a"));
        let ada = format!("Basic {}", base64_simd::STANDARD.encode_to_string("ada:secret"));
        assert_eq!(of(home, "https://b.example:8443/").as_deref(), Some(&*ada));
        assert_eq!(of(home, "http://b.example/"), None, "not out of TLS");
        assert_eq!(of("http://b.example/", "http://b.example/x").as_deref(), Some(&*ada));
        for nobody in ["https://c.example/", "https://default/"] {
            assert_eq!(of(nobody, nobody), None, "default is for nobody");
        }
        let given = Credentials { given: Some(token("given")), ..known.clone() };
        let lookup = CredentialLookup::new(&given, [uri(home)]);
        assert_eq!(lookup.header(&uri(home)).unwrap().unwrap(), "Bearer given");
    }

    #[test]
    fn a_token_of_the_environment_goes_to_the_server_it_is_for_and_not_before_a_login() {
        let directory = tempfile::tempdir().unwrap();
        let logins = Logins::at(directory.path().join("logins.json"));
        let origin = |text: &str| Origin::of(&uri(text)).unwrap();
        logins.note(&origin("https://a.example"), Some(&token("kept"))).unwrap();
        let mut known =
            Credentials { logins: Some(logins), token: Some(token("t")), ..Credentials::default() };
        let of = |known: &Credentials, url: &str| {
            let lookup = CredentialLookup::new(known, [uri(url)]);
            lookup.header(&uri(url)).unwrap().map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(of(&known, "https://a.example").as_deref(), Some("Bearer kept"));
        assert_eq!(of(&known, "https://b.example").as_deref(), Some("Bearer t"));
        known.token_for = Some(origin("https://c.example"));
        assert_eq!(of(&known, "https://b.example"), None);
        assert_eq!(of(&known, "https://c.example/x").as_deref(), Some("Bearer t"));
    }

    #[test]
    fn an_unusable_netrc_is_an_error_only_if_it_was_asked_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "machine h login ada password secret protocol ftp\n").unwrap();
        let netrc = Some(file.path().to_owned());
        let mut known = Credentials { netrc, ..Credentials::default() };
        let of = |known: &Credentials| {
            CredentialLookup::new(known, [uri("http://h")]).header(&uri("http://h"))
        };
        assert_eq!(of(&known).unwrap(), None);
        assert_eq!(known.unusable_netrc(), Some(file.path()));
        known.netrc_required = true;
        let error = of(&known).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn nothing_secret_is_shown() {
        let secret = Credential::Password { user: "ada".into(), password: "secret".into() };
        let known = Credentials { given: Some(secret.clone()), ..Credentials::default() };
        let lookup = CredentialLookup::new(&known, [uri("http://h/")]);
        lookup.header(&uri("http://h/")).unwrap();
        for shown in [format!("{secret:?}"), format!("{known:?}"), format!("{lookup:?}")] {
            assert!(!shown.contains("secret") && !shown.contains("YWRh"), "{shown}");
        }
        assert!(!format!("{:?}", token("secret")).contains("secret"));
    }

    #[test]
    fn a_token_is_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "  abc \nsecond\n").unwrap();
        assert_eq!(Credential::token_file(file.path()).unwrap(), token("abc"));
        std::fs::write(file.path(), "\n").unwrap();
        let error = Credential::token_file(file.path()).unwrap_err();
        assert!(matches!(error, Error::Credentials { .. }), "{error}");
        let split = Credential::Token("a\r\nX-Evil: b".to_owned());
        assert_eq!(split.header(), None);
    }
}
