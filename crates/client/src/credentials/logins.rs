//! The file that `fishplate login` writes: a JSON object of credentials by scheme, host and port, which only its user
//! can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::credential::Credential;
use super::origin::Origin;
use crate::error::Error;

/// The file, which need not be there.
#[derive(Clone, Debug)]
pub struct Logins {
    path: PathBuf,
    /// Others may read it.
    is_given: bool,
}

impl Logins {
    /// That of the user that this process runs as: `fishplate/logins.json` in `XDG_CONFIG_HOME` or `~/.config`; `None`
    /// without a home.
    pub fn of_user() -> Option<Self> {
        let told = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = told.filter(|path| path.is_absolute());
        let config = config.or_else(|| Some(std::env::home_dir()?.join(".config")))?;
        Some(Self::at(config.join("fishplate/logins.json")))
    }

    /// A file of that name.
    pub fn at(path: PathBuf) -> Self {
        Self { path, is_given: false }
    }

    /// One that somebody gave to this process, which does not ask who else can read it: it may be a link to what can't be changed.
    pub fn given(path: PathBuf) -> Self {
        Self { path, is_given: true }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is noted for a server.
    ///
    /// # Errors
    /// [`Error::Credentials`]: others can read it, or it is no such file.
    pub fn get(&self, origin: &Origin) -> Result<Option<Credential>, Error> {
        let noted = self.read()?;
        let Some(entry) = noted.get(&origin.to_string()) else { return Ok(None) };
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        let password =
            || Some(Credential::Password { user: text("user")?, password: text("password")? });
        let found = text("token").map(Credential::Token).or_else(password);
        found.map(Some).ok_or_else(|| self.unusable(format!("it has nothing for {origin}")))
    }

    /// Notes what logs in at a server, or forgets it; whether something was noted before.
    ///
    /// # Errors
    /// [`Error::Credentials`].
    pub fn note(&self, origin: &Origin, credential: Option<&Credential>) -> Result<bool, Error> {
        let _alone = self.lock().map_err(|error| self.unusable(error.to_string()))?;
        let mut noted = self.read()?;
        let before = match credential {
            None => noted.remove(&origin.to_string()),
            Some(Credential::Token(token)) => {
                noted.insert(origin.to_string(), json!({ "token": token }))
            }
            Some(Credential::Password { user, password }) => {
                noted.insert(origin.to_string(), json!({ "user": user, "password": password }))
            }
        };
        let written = || {
            // Made so that only its user can read it.
            let mut file = tempfile::NamedTempFile::new_in(self.directory())?;
            writeln!(file, "{:#}", Value::Object(noted))?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        written().map_err(|error| self.unusable(error.to_string()))?;
        Ok(before.is_some())
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Until this is dropped nobody else changes the file. Its own name can't be locked: it goes from one file to the
    /// next.
    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory())?;
        let mut options = OpenOptions::new();
        let path = self.path.with_extension("lock");
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn read(&self) -> Result<Map<String, Value>, Error> {
        let Ok(file) = fs::metadata(&self.path) else { return Ok(Map::new()) };
        if !self.is_given && file.mode() & 0o077 != 0 {
            let path = self.path.display();
            return Err(self.unusable(format!("others can read it: `chmod 600 {path}`")));
        }
        let text = fs::read(&self.path).map_err(|error| self.unusable(error.to_string()))?;
        // What the parser says of a mistake may hold what is in it.
        serde_json::from_slice(&text).map_err(|_| self.unusable("it is no JSON object".to_owned()))
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Credentials { path: self.path.clone(), reason }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn logins_are_noted_and_forgotten_and_only_their_user_reads_them() {
        let directory = tempfile::tempdir().unwrap();
        let logins = Logins::at(directory.path().join("new/logins.json"));
        let origin = |text: &str| Origin::of(&text.parse().unwrap()).unwrap();
        let (here, there) = (origin("http://h:8080"), origin("https://h:8080"));
        assert_eq!(logins.get(&here).unwrap(), None);
        let password = Credential::Password { user: "ada".into(), password: "\"päss\n".into() };
        let token = Credential::Token("t".into());
        assert!(!logins.note(&here, Some(&password)).unwrap());
        assert!(!logins.note(&there, Some(&token)).unwrap());
        assert_eq!(logins.get(&here).unwrap(), Some(password));
        assert_eq!(logins.get(&there).unwrap(), Some(token.clone()));
        assert_eq!(logins.get(&origin("http://h")).unwrap(), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(logins.path()), mode(logins.path().parent().unwrap())), (0o600, 0o700));
        assert!(logins.note(&here, None).unwrap() && !logins.note(&here, None).unwrap());
        assert_eq!((logins.get(&here).unwrap(), logins.get(&there).unwrap()), (None, Some(token)));

        fs::set_permissions(logins.path(), fs::Permissions::from_mode(0o640)).unwrap();
        let error = logins.get(&there).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        let given = Logins::given(logins.path().to_owned());
        assert!(given.get(&there).unwrap().is_some());
        fs::set_permissions(logins.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(logins.path(), "{ \"secret\"").unwrap();
        let error = logins.get(&there).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn logins_at_once_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let logins = &Logins::at(directory.path().join("logins.json"));
        let origin =
            |port: usize| Origin::of(&format!("http://h:{port}").parse().unwrap()).unwrap();
        let token = &Credential::Token("t".into());
        std::thread::scope(|scope| {
            for port in 1..=16 {
                scope.spawn(move || logins.note(&origin(port), Some(token)).unwrap());
            }
        });
        for port in 1..=16 {
            assert_eq!(logins.get(&origin(port)).unwrap().as_ref(), Some(token), "{port}");
        }
    }
}
