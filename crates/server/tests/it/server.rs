//! A server of this process, and requests to it by hand.

use std::net::SocketAddr;

use fishplate_server::current::CurrentHost;
use fishplate_server::http;
use fishplate_server::settings::Limits;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::bed::{PATIENCE, Setup};

/// Serves the functions `matrix`, sessions and data until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
    _directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let listening = http::bind("127.0.0.1:0").await.unwrap();
        let address = listening.address();
        let mut setup = Setup::new().with_matrix();
        setup.limits.faces.public_url = format!("http://{address}");
        change(&mut setup.limits);
        let (directory, _, host) = setup.assemble().unwrap();
        let serving = tokio::spawn(listening.serve(CurrentHost::new(host)));
        Self { address, serving, _directory: directory }
    }

    /// What comes back, to the end of the connection.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        timeout(PATIENCE, read(&mut stream)).await.expect("an answer")
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What comes to the end of the connection.
pub(crate) async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status")
}

/// A call of a function with these children of its element.
pub(crate) fn call(function: &str, children: &str) -> String {
    format!(
        "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\"><S:Body>\
         <t:{function} xmlns:t=\"urn:fishplate:matrix\">{children}</t:{function}>\
         </S:Body></S:Envelope>"
    )
}

/// A request with these fields and this body, after which the connection ends.
pub(crate) fn request(line: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
