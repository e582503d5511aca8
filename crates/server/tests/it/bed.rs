//! A server on a free port with a data directory of its own, and a client that sends bytes as they
//! are.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fishplate_jobs::engine::{Engine, RunMode};
use fishplate_jobs::executor::local::CgroupUse;
use fishplate_jobs::function::{Functions, builtin};
use fishplate_programs::descriptor::{self, SourceText};
use fishplate_server::assembly::{self, AssemblyError, Backends, StoreCheck};
use fishplate_server::current::CurrentHost;
use fishplate_server::faces::ogc::tell_subscribers;
use fishplate_server::host::{Host, PublicAddress};
use fishplate_server::http;
use fishplate_server::settings::Limits;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// However slow the machine is, nothing here takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A service file beside an executable `program`, and how the server is set.
pub(crate) struct Setup {
    pub(crate) directory: TempDir,
    pub(crate) limits: Limits,
    files: Vec<(String, String)>,
    functions: Vec<Functions>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits::new(directory.path().join("data"), "http://localhost");
        Self { directory, limits, files: Vec::new(), functions: Vec::new() }
    }

    /// With a service of this name, described so, whose program is a shell script of this text.
    pub(crate) fn with(mut self, name: &str, description: &str, script: &str) -> Self {
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.files.push((name.to_owned(), description.to_owned()));
        self
    }

    /// With the functions on matrices that every binary of ours has.
    pub(crate) fn with_matrix(mut self) -> Self {
        self.functions.extend(builtin::named("matrix"));
        self
    }

    /// With these functions.
    pub(crate) fn with_functions(mut self, functions: Functions) -> Self {
        self.functions.push(functions);
        self
    }

    /// Why it can't be served.
    pub(crate) fn refused(self) -> AssemblyError {
        let runtime = Runtime::new().unwrap();
        let _inside = runtime.enter();
        self.assemble().map(drop).expect_err("it can be served")
    }

    /// Joins the rooms.
    pub(crate) fn assemble(self) -> Result<(TempDir, Engine, Arc<Host>), AssemblyError> {
        let Self { directory, limits, files, functions } = self;
        let describe = |(name, text): (String, String)| {
            let source = SourceText { name: format!("{name}.toml"), text };
            let checked = descriptor::check_text(&source, directory.path());
            checked.description.unwrap_or_else(|| panic!("{:?}", checked.diagnostics))
        };
        let descriptions = files.into_iter().map(describe).collect();
        let data = assembly::data(&limits)?;
        let backends = Backends::local(&limits, CgroupUse::Off, StoreCheck::All)?;
        let engine = assembly::engine(&limits, backends, &data)?;
        let host = assembly::host(
            limits,
            PublicAddress::Below,
            engine.clone(),
            data,
            descriptions,
            functions,
        )?;
        Ok((directory, engine, host))
    }

    pub(crate) fn serve(mut self) -> Server {
        let runtime = Runtime::new().unwrap();
        let listening = runtime.block_on(http::bind("127.0.0.1:0")).unwrap();
        let address = listening.address();
        self.limits.faces.public_url = format!("http://{address}");
        let inside = runtime.enter();
        let (directory, engine, host) = self.assemble().unwrap();
        drop(inside);
        let working = engine.clone();
        runtime.spawn(async move { working.run(RunMode::Dropped).await });
        let current = CurrentHost::new(host);
        runtime.spawn(tell_subscribers(Arc::clone(&current)));
        runtime.spawn(listening.serve(current));
        Server { runtime: Some(runtime), directory, address }
    }
}

pub(crate) struct Server {
    runtime: Option<Runtime>,
    directory: TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// A path in its data directory.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join("data").join(name)
    }

    /// Names in a directory of its data directory.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        names(&self.data(directory))
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection(BufReader::new(stream))
    }

    /// The answer to one request, on a connection of its own.
    pub(crate) fn exchange(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Answer {
        let mut connection = self.connect();
        connection.send(&self.request(method, path, fields, body));
        connection.answer()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.exchange("GET", path, "", b"")
    }

    /// Calls an operation of a service with these elements as its arguments.
    pub(crate) fn call(&self, service: &str, verb: &str, arguments: &str) -> Answer {
        let envelope = envelope(service, verb, arguments);
        let fields = "Content-Type: text/xml\r\nSOAPAction: \"\"\r\n";
        self.exchange("POST", &format!("/{service}"), fields, envelope.as_bytes())
    }

    pub(crate) fn request(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{fields}\r\n",
            self.address,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }
}

impl Drop for Server {
    /// The supervisor ends by itself when nobody is connected and nothing runs.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn envelope(service: &str, verb: &str, arguments: &str) -> String {
    format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
         <q:{verb} xmlns:q=\"urn:fishplate:{service}\">{arguments}</q:{verb}></e:Body></e:Envelope>"
    )
}

/// Names of what is in a directory, sorted; none if there is no such directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A connection on which bytes are sent as they are.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next answer, whole: of a length that is told, or in chunks.
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_to("GET").unwrap()
    }

    /// The next answer to a request of this method; an error if the connection ends in it.
    pub(crate) fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
            (name.to_ascii_lowercase(), value.to_owned())
        });
        let mut answer = Answer { status, fields: fields.collect(), body: Vec::new() };
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Ok(answer);
        }
        if answer.field("transfer-encoding") == Some("chunked") {
            self.chunks(&mut answer.body)?;
        } else if let Some(length) = answer.field("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.0.read_exact(&mut answer.body)?;
        }
        Ok(answer)
    }

    /// A second way to send on it, for another thread.
    pub(crate) fn writer(&self) -> TcpStream {
        self.0.get_ref().try_clone().unwrap()
    }

    /// The head of the next answer.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "{head}");
        }
        head
    }

    /// The next chunk of a body in chunks, as text; it may not be the last.
    pub(crate) fn chunk(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim_end(), 16).unwrap_or_default();
        assert_ne!(length, 0, "the body has ended");
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        String::from_utf8(chunk).unwrap()
    }

    /// So many bytes as they come, head and all; fewer if the connection ends.
    pub(crate) fn read(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.by_ref().take(most as u64).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim_end(), 16)
                .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            let start = body.len();
            body.resize(start + length + 2, 0);
            self.0.read_exact(&mut body[start..])?;
            body.truncate(start + length);
            if length == 0 {
                return Ok(());
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(its, _)| its == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The text of the first element of this name, whatever its prefix.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        let text = self.text();
        let start = [format!("<{name}>"), format!(":{name}>")];
        let at = start.iter().find_map(|start| Some(text.find(start)? + start.len()))?;
        text[at..].split('<').next()
    }
}

/// Waits until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
