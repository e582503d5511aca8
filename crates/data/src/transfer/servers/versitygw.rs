//! S3 by versitygw, on a directory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use base64_simd::STANDARD;
use rusty_s3::actions::{ListObjectsV2, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use url::Url;

use super::{Server, free_address, installed, open_directory};

pub(crate) const ACCESS: &str = "reader-of-tests";
pub(crate) const SECRET: &str = "a secret of tests";

/// A server with the bucket `meshes`.
#[derive(Debug)]
pub(crate) struct Versitygw {
    pub(crate) server: Server,
}

impl Versitygw {
    pub(crate) fn start() -> Option<Self> {
        let program = installed("versitygw", false)?;
        let directory = open_directory();
        for name in ["buckets", "metadata"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        let address = free_address();
        let mut command = Command::new(program);
        command.env("ROOT_ACCESS_KEY", ACCESS).env("ROOT_SECRET_KEY", SECRET);
        command.args(["--port", &address.to_string(), "--quiet", "--keep-alive", "posix"]);
        // Beside the files, because not every file system of a test machine has attributes.
        command.arg("--sidecar").arg(directory.path().join("metadata"));
        command.arg(directory.path().join("buckets"));
        let server = Self { server: Server::start(command, address, directory) };
        let (bucket, credentials) = server.bucket();
        server.send("PUT", &bucket.create_bucket(&credentials).sign(LIFE), &[], b"");
        Some(server)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/", self.server.address)
    }

    fn bucket(&self) -> (Bucket, Credentials) {
        let endpoint = self.endpoint().parse().unwrap();
        let bucket = Bucket::new(endpoint, UrlStyle::Path, "meshes", "us-east-1").unwrap();
        (bucket, Credentials::new(ACCESS, SECRET))
    }

    /// Puts an object there, with its checksum, as any other client would.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let checksum = ring::digest::digest(&ring::digest::SHA256, bytes);
        let checksum = STANDARD.encode_to_string(checksum);
        let (bucket, credentials) = self.bucket();
        let mut action = PutObject::new(&bucket, Some(&credentials), key);
        action.headers_mut().insert("x-amz-checksum-sha256", checksum.as_str());
        self.send("PUT", &action.sign(LIFE), &[("x-amz-checksum-sha256", &checksum)], bytes);
    }

    /// An object's bytes, from its file.
    pub(crate) fn file(&self, key: &str) -> Option<Vec<u8>> {
        let file = self.server.directory.path().join("buckets/meshes").join(key);
        fs::read(file).ok()
    }

    /// All keys, as the server lists them.
    pub(crate) fn keys(&self) -> String {
        let (bucket, credentials) = self.bucket();
        self.send("GET", &ListObjectsV2::new(&bucket, Some(&credentials)).sign(LIFE), &[], b"")
    }

    /// Uploads that were begun and not ended, as the server lists them. The error is its answer:
    /// 500 while one of them is being removed, since it reads their directories one by one.
    pub(crate) fn uploads(&self) -> Result<String, String> {
        let url = rusty_s3::signing::sign(
            &jiff::Timestamp::now(),
            rusty_s3::Method::Get,
            self.bucket().0.base_url().clone(),
            ACCESS,
            SECRET,
            None,
            "us-east-1",
            LIFE.as_secs(),
            [("uploads", "")].into_iter(),
            std::iter::empty(),
        );
        self.try_send("GET", &url, &[], b"")
    }

    fn send(&self, method: &str, url: &Url, headers: &[(&str, &str)], body: &[u8]) -> String {
        match self.try_send(method, url, headers, body) {
            Ok(answer) => answer,
            Err(answer) => panic!("{method} {url}: {answer}"),
        }
    }

    fn try_send(
        &self,
        method: &str,
        url: &Url,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<String, String> {
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        let mut head = format!("{method} {}?{} HTTP/1.1\r\n", url.path(), url.query().unwrap());
        head.push_str(&format!("Host: {}\r\nConnection: close\r\n", self.server.address));
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
    }
}

const LIFE: Duration = Duration::from_secs(600);
