//! Clients in a closed loop, no more than the watchdog's tests need.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fishplate_quake::record::{MergedSecond, Outcomes};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const DEADLINE: Duration = Duration::from_secs(1);
const GIVES_UP_AFTER: Duration = Duration::from_secs(10);
/// Most of a request's time, so that goodput hardly depends on what else the machine does.
const THINKS: Duration = Duration::from_millis(20);

/// Clients under way; they end when this is dropped.
pub(crate) struct Clients {
    count: u32,
    seen: Arc<Mutex<(u64, Outcomes)>>,
    /// Begun and not ended.
    under_way: Mutex<u64>,
    _tasks: JoinSet<()>,
}

impl Clients {
    pub(crate) fn start(count: u32, server: SocketAddr) -> Self {
        let seen: Arc<Mutex<(u64, Outcomes)>> = Arc::default();
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(client(server, Arc::clone(&seen)));
        }
        Self { count, seen, under_way: Mutex::default(), _tasks: tasks }
    }

    /// What was seen since the last time.
    pub(crate) fn second(&self, second: u32) -> MergedSecond {
        let (begun, outcomes) = std::mem::take(&mut *self.seen.lock().unwrap());
        let mut merged = MergedSecond::new(second);
        let mut under_way = self.under_way.lock().unwrap();
        *under_way = (*under_way + begun).saturating_sub(outcomes.total());
        (merged.begun, merged.outcomes) = (begun, outcomes);
        (merged.clients, merged.under_way) = (self.count.into(), *under_way);
        merged
    }
}

async fn client(server: SocketAddr, seen: Arc<Mutex<(u64, Outcomes)>>) {
    let mut connection = None;
    for x in 0_u64.. {
        seen.lock().unwrap().0 += 1;
        let begun = Instant::now();
        let asked = ask(server, &mut connection, x);
        let answer = tokio::time::timeout(GIVES_UP_AFTER, asked).await;
        let mut one = Outcomes::default();
        match answer {
            Err(_) => one.unanswered = 1,
            Ok(Err(None)) => one.unreachable = 1,
            Ok(Err(Some(_))) => one.broken = 1,
            Ok(Ok((503, _))) => one.refused = 1,
            Ok(Ok((200, body))) if body.contains(&format!("<sum>{}</sum>", x + 1)) => {
                if begun.elapsed() > DEADLINE { one.late = 1 } else { one.right = 1 }
            }
            Ok(Ok((200, _))) => one.wrong = 1,
            Ok(Ok(_)) => one.error = 1,
        }
        if one.right + one.late + one.wrong + one.error + one.refused == 0 {
            connection = None;
        }
        seen.lock().unwrap().1 += one;
        tokio::time::sleep(THINKS).await;
    }
}

/// The status and the body; or how it broke, or nothing if nobody listens.
async fn ask(
    server: SocketAddr,
    connection: &mut Option<BufReader<TcpStream>>,
    x: u64,
) -> Result<(u16, String), Option<std::io::Error>> {
    if connection.is_none() {
        *connection = Some(BufReader::new(TcpStream::connect(server).await.map_err(|_| None)?));
    }
    let connection = connection.as_mut().unwrap();
    let body = format!("<add><x>{x}</x><y>1</y></add>");
    let request = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await?;
    let mut status = String::new();
    connection.read_line(&mut status).await?;
    let (mut length, mut line) = (0, String::new());
    while connection.read_line(&mut line).await? > 2 {
        if let Some(text) = line.strip_prefix("Content-Length: ") {
            length = text.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("no status"))?;
    Ok((status, String::from_utf8(body).unwrap()))
}
