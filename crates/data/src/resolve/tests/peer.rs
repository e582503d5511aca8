//! A server that gets into trouble when it is told to.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::transfer::conformance::sha256;

/// What happens to one request; others are answered as they should be.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The connection breaks after so many bytes of the body.
    Cut(usize),
    /// Nothing more comes after so many bytes of the body, though the connection stays.
    Stall(usize),
    /// This is the answer: status line and header fields.
    Answer(String),
    /// The length is not told, and the connection is closed at the end.
    NoLength,
    /// The digest is told.
    Digest,
    /// A digest is told, of other bytes.
    WrongDigest,
}

/// A request as it came: its method, its path and its Range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) range: Option<String>,
}

#[derive(Default)]
struct State {
    files: HashMap<String, Arc<Vec<u8>>>,
    troubles: VecDeque<Trouble>,
    asked: Vec<RecordedRequest>,
}

pub(super) struct Peer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Peer {
    pub(super) fn start() -> Self {
        Self::at("127.0.0.1")
    }

    pub(super) fn at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&shared));
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { address, state }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) -> String {
        self.state.lock().unwrap().files.insert(format!("/{name}"), Arc::new(bytes));
        format!("http://{}/{name}", self.address)
    }

    pub(super) fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.state.lock().unwrap().files.get(&format!("/{name}")).map(|bytes| bytes.to_vec())
    }

    pub(super) fn trouble(&self, troubles: &[Trouble]) {
        self.state.lock().unwrap().troubles.extend(troubles.iter().cloned());
    }

    pub(super) fn asked(&self) -> Vec<RecordedRequest> {
        self.state.lock().unwrap().asked.clone()
    }
}

/// Serves one request; `None` if the connection is over.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut fields = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        fields.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let len = fields.get("content-length").map_or(0, |len| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let range = fields.get("range").cloned();
    let (trouble, file) = {
        let mut state = state.lock().unwrap();
        let asked =
            RecordedRequest { method: method.clone(), path: path.clone(), range: range.clone() };
        state.asked.push(asked);
        let trouble = if method == "HEAD" { None } else { state.troubles.pop_front() };
        if method == "PUT" && trouble.is_none() {
            state.files.insert(path.clone(), Arc::new(body));
        }
        (trouble, state.files.get(&path).cloned())
    };
    if let Some(Trouble::Answer(head)) = trouble {
        return send(stream, format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").as_bytes());
    }
    if method == "PUT" {
        return send(stream, b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    }
    let Some(file) = file else {
        return send(stream, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    answer(stream, &method, &fields, &file, trouble.as_ref())
}

fn answer(
    stream: &TcpStream,
    method: &str,
    fields: &HashMap<String, String>,
    file: &[u8],
    trouble: Option<&Trouble>,
) -> Option<()> {
    let tag = format!("\"{}\"", sha256(file).hex());
    let same = fields.get("if-range").is_none_or(|wanted| *wanted == tag);
    let range = fields.get("range").filter(|_| same).map(|range| {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let last = last.parse().map_or(file.len(), |last: usize| last + 1);
        (first.parse::<usize>().unwrap(), last.min(file.len()))
    });
    let (first, end) = range.unwrap_or((0, file.len()));
    let mut head = match range {
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
        Some(_) => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{}/{}\r\n",
            end - 1,
            file.len()
        ),
    };
    head += &format!("ETag: {tag}\r\n");
    let body = &file[first..end];
    match trouble {
        Some(Trouble::NoLength) => head += "Connection: close\r\n",
        _ => head += &format!("Content-Length: {}\r\n", body.len()),
    }
    if let Some(Trouble::Digest) = trouble {
        head += &format!("Repr-Digest: {}\r\n", sha256(file));
    }
    if let Some(Trouble::WrongDigest) = trouble {
        head += &format!("Repr-Digest: {}\r\n", sha256(b"other bytes"));
    }
    send(stream, format!("{head}\r\n").as_bytes())?;
    if method == "HEAD" {
        return Some(());
    }
    match trouble {
        Some(&Trouble::Cut(after)) => {
            send(stream, &body[..after])?;
            None
        }
        Some(&Trouble::Stall(after)) => {
            send(stream, &body[..after])?;
            // Until the other end has had enough.
            let _ = (&mut &*stream).read(&mut [0]);
            None
        }
        Some(Trouble::NoLength) => {
            send(stream, body)?;
            None
        }
        _ => send(stream, body),
    }
}

fn send(mut stream: &TcpStream, bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).ok()
}
