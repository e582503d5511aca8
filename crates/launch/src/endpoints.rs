//! The file by which SOAP clients find the ranks of a domain.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fishplate_ranks::launch::rendezvous::Address;
use fishplate_ranks::{Credential, DomainId};
use tempfile::NamedTempFile;

/// It has its name once it is whole; only its owner may read it, because the credential is in it.
#[derive(Debug)]
pub struct EndpointsFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl EndpointsFile {
    /// One of that name, which is not there before [`EndpointsFile::write`]: that of a run before is removed.
    ///
    /// # Errors
    /// Its directory can't be written to, or what has the name can't be removed.
    pub fn new(path: &Path) -> io::Result<Self> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// Tells of a domain whose ranks are at these addresses.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(
        mut self,
        domain: DomainId,
        credential: &Credential,
        addresses: &[Address],
    ) -> io::Result<()> {
        let told = serde_json::json!({
            "domain": domain.to_string(),
            "credential": credential.reveal(),
            "ranks": addresses.iter().map(Address::endpoint).collect::<Vec<_>>(),
        });
        writeln!(self.file, "{told:#}")?;
        self.file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_there_when_it_is_whole_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("endpoints.json");
        std::fs::write(&path, "of a run before").unwrap();
        let file = EndpointsFile::new(&path).unwrap();
        assert!(!path.exists());
        let credential = Credential::from_bytes([2; 32]);
        let address = Address::of_url("http://127.0.0.1:9/domains/x/0").unwrap();
        file.write(DomainId::from_bytes([1; 16]), &credential, &[address]).unwrap();
        let text = std::fs::read(&path).unwrap();
        let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(told["credential"], credential.reveal());
        assert_eq!(told["domain"], "01".repeat(16));
        assert_eq!(told["ranks"][0], "http://127.0.0.1:9/domains/x/0");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(EndpointsFile::new(&directory.path().join("none/here")).is_err());
    }
}
