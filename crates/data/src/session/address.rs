//! Addresses of sessions' files. Who has one may read that file and nothing else: it names the
//! session sealed (AES-256-GCM), bound to the file's name, under a key that only the server has. So
//! nothing is kept for an address, and closing the session ends them all.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64_simd::URL_SAFE_NO_PAD;
use fishplate_contract::SessionId;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};

use super::{SessionError, Sessions, random};

/// The file of the key, among the sessions.
pub(super) const KEY: &str = ".key";

/// What the name of a key begins with that is being made.
pub(super) const UNFINISHED: &str = ".key-";

/// Bytes of a key.
const KEY_LEN: usize = 32;

/// Longest token that is looked at.
const LONGEST: usize = 100;

/// What seals addresses.
pub(super) struct Seal {
    sealing: LessSafeKey,
    /// Nonces are drawn from what is sealed: two texts never have the same one, and a file always
    /// has the same address.
    nonces: hmac::Key,
}

impl Seal {
    /// That of a directory of sessions; it gets one if it has none.
    pub(super) fn of(directory: &Path) -> Result<Self, SessionError> {
        let path = directory.join(KEY);
        let secret = read_or_make(directory, &path).map_err(SessionError::io("reading", &path))?;
        let root = hmac::Key::new(HMAC_SHA256, &secret);
        let part = |what: &[u8]| hmac::sign(&root, what);
        let sealing = UnboundKey::new(&AES_256_GCM, part(b"seal").as_ref()).map_err(|_| {
            let wrong = io::Error::other("the key is of another length");
            SessionError::io("reading", &path)(wrong)
        })?;
        let nonces = hmac::Key::new(HMAC_SHA256, part(b"nonce").as_ref());
        Ok(Self { sealing: LessSafeKey::new(sealing), nonces })
    }

    fn seal(&self, id: &SessionId, name: &str) -> Option<String> {
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(id.as_bytes());
        context.update(name.as_bytes());
        let nonce: [u8; NONCE_LEN] = context.sign().as_ref().get(..NONCE_LEN)?.try_into().ok()?;
        let mut sealed = id.as_bytes().to_vec();
        let (unique, bound) = (Nonce::assume_unique_for_key(nonce), Aad::from(name.as_bytes()));
        self.sealing.seal_in_place_append_tag(unique, bound, &mut sealed).ok()?;
        Some(URL_SAFE_NO_PAD.encode_to_string([&nonce[..], &sealed].concat()))
    }

    fn open(&self, token: &str, name: &str) -> Option<SessionId> {
        if token.len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode_to_vec(token).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let id = self.sealing.open_in_place(nonce, Aad::from(name.as_bytes()), &mut sealed).ok()?;
        Some(SessionId::from_bytes((&*id).try_into().ok()?))
    }
}

impl Sessions {
    /// What stands for a file of a session in its address. It gives whoever has it this file, and
    /// no way to the session.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn token(&self, id: &SessionId, name: &str) -> Result<String, SessionError> {
        self.seal.seal(id, name).ok_or_else(|| {
            SessionError::io("sealing", name)(io::Error::other("the name is too long"))
        })
    }

    /// The session of a token, if it is one for a file of that name.
    pub(super) fn session_of(&self, token: &str, name: &str) -> Result<SessionId, SessionError> {
        self.seal.open(token, name).ok_or(SessionError::NoSuchAddress)
    }
}

fn read_or_make(directory: &Path, path: &Path) -> io::Result<[u8; KEY_LEN]> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    let mut secret = [0; KEY_LEN];
    getrandom::fill(&mut secret).map_err(io::Error::from)?;
    let id = random().map_err(|error| io::Error::other(error.to_string()))?;
    let new = directory.join(format!("{UNFINISHED}{:032x}", u128::from_ne_bytes(id)));
    let write = || {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&secret)?;
        file.sync_all()?;
        // Several processes may do this: there is one key, that of the first.
        fs::hard_link(&new, path)
    };
    let written = write();
    let _ = fs::remove_file(&new);
    match written {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read(path),
    }
}

fn read(path: &Path) -> io::Result<[u8; KEY_LEN]> {
    let mut secret = [0; KEY_LEN];
    File::open(path)?.read_exact(&mut secret).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let what = "it is cut short; remove it, and sessions' files get other addresses";
            io::Error::new(io::ErrorKind::InvalidData, what)
        }
        _ => error,
    })?;
    Ok(secret)
}
