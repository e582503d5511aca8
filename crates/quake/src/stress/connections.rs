//! Connections that say nothing: to the server, or to what it needs (paper: consumption of database connections).

use std::io::{self, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// Holds so many connections in a thread; one that is closed is made again. What could not be had is told when all have
/// been tried, and whenever that changes.
pub(super) fn hold(
    count: u32,
    address: String,
    tell: impl Fn(Option<String>) + Send + 'static,
) -> io::Result<()> {
    super::descriptors::allow(count);
    let mut held: Vec<TcpStream> = Vec::new();
    let take = move || {
        held.retain_mut(is_open);
        while held.len() < count as usize {
            match connect(&address) {
                Ok(connection) => held.push(connection),
                Err(error) => {
                    let what = format!("connections to {address}");
                    return Some(super::short_of(held.len(), count, &what, &error));
                }
            }
        }
        None
    };
    super::take_again(take, tell)
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("it has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTS_WITHIN) {
            Ok(connection) => {
                connection.set_nonblocking(true)?;
                return Ok(connection);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether the other side has not closed it. What it says is not heard.
fn is_open(connection: &mut TcpStream) -> bool {
    let mut said = [0; 4096];
    loop {
        match connection.read(&mut said) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
