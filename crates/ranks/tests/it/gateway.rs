//! A gateway as small as can be: TLS, one request to be connected with a rank, and then bytes both ways.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use fishplate_ranks::transport::route::PROTOCOL;
use fishplate_ranks::transport::url;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use tempfile::NamedTempFile;

use crate::domain::{CREDENTIAL, DOMAIN};

/// A certificate, in a file for those who trust it, and TLS that shows it.
static TLS: LazyLock<(NamedTempFile, Arc<ServerConfig>)> = LazyLock::new(|| {
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), issued.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key);
    (file, Arc::new(config.unwrap()))
});

/// The authority to trust.
pub(crate) fn ca_file() -> PathBuf {
    TLS.0.path().to_owned()
}

/// Begins one to these ranks, and tells its addresses.
pub(crate) fn gateway(ranks: Vec<SocketAddr>) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let urls = (0..ranks.len()).map(|rank| format!("upgrade+https://{at}/domains/{DOMAIN}/{rank}"));
    let urls = urls.collect();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let ranks = ranks.clone();
            std::thread::spawn(move || pass(client, &ranks));
        }
    });
    urls
}

fn pass(mut client: TcpStream, ranks: &[SocketAddr]) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut tls = ServerConnection::new(TLS.1.clone()).unwrap();
    tls.set_buffer_limit(None);
    let mut stream = rustls::Stream::new(&mut tls, &mut client);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains(&format!("Upgrade: {PROTOCOL}\r\n")), "{head}");
    let (domain, rank) = url::member(head.split(' ').nth(1)?)?;
    let bearer = head.split("Bearer ").nth(1)?.lines().next()?;
    assert!(domain == DOMAIN && CREDENTIAL.is_token(bearer, domain, rank), "{head}");
    let mut to = TcpStream::connect(ranks[rank as usize]).ok()?;
    to.set_nodelay(true).ok()?;
    let mut from_rank = to.try_clone().ok()?;
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").ok()?;
    let tls = Arc::new(Mutex::new(tls));
    let (shared, mut back) = (tls.clone(), client.try_clone().ok()?);
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from_rank.read(&mut bytes) {
            let mut tls = shared.lock().unwrap();
            tls.writer().write_all(&bytes[..count]).unwrap();
            while tls.wants_write() && tls.write_tls(&mut back).is_ok() {}
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let (mut bytes, mut plain) = (vec![0; 16 << 10], vec![0; 64 << 10]);
    let mut count = 0;
    loop {
        let mut rest = &bytes[..count];
        // What came with the request first.
        loop {
            let got = tls.lock().unwrap().reader().read(&mut plain);
            match got {
                Ok(got @ 1..) => to.write_all(&plain[..got]).ok()?,
                _ if rest.is_empty() => break,
                _ => {
                    let mut tls = tls.lock().unwrap();
                    tls.read_tls(&mut rest).ok()?;
                    tls.process_new_packets().ok()?;
                }
            }
        }
        count = client.read(&mut bytes).unwrap_or(0);
        if count == 0 {
            let _ = to.shutdown(Shutdown::Both);
            return None;
        }
    }
}
