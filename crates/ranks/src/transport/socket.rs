//! Sockets that never block, and whose peers are known to be there.

use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Socket, TcpKeepalive, Type};

/// What controls congestion where there is none: on loopback. The default may pace what is sent: with bbr a message of 4 MB takes 2.2 times
/// as long, and one of 1 MiB 1.9 times (medians).
const LOOPBACK_CONGESTION: &[u8] = b"reno";

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What was read: 0 is that nothing is there; the end is an error.
pub(super) fn some(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if is_transient(&error) => Ok(0),
        read => read,
    }
}

/// Hosts that vanish are noticed by the kernel within `timeout`.
pub(super) fn watch(socket: &Socket, timeout: Duration) -> io::Result<()> {
    let part = (timeout / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(part * 2).with_interval(part).with_retries(2);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(timeout))?;
    socket.set_tcp_nodelay(true)
}

/// Ends a connection so that its peer still gets what was written: what it sent and nobody wants is read, else it would be told of that
/// loss first.
pub(super) fn hang_up(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let mut bytes = [0; 4096];
    // Bounded, for those who go on sending.
    for _ in 0..64 {
        if !matches!(stream.read(&mut bytes), Ok(1..)) {
            return;
        }
    }
}

/// How long there and back takes, as the system has smoothed it (tcp(7), `TCP_INFO`); right after a connection was made, how long that took.
#[expect(unsafe_code, reason = "an option that neither rustix nor socket2 has")]
pub(super) fn round_trip(stream: &TcpStream) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the system writes no more than `length` bytes.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, info.as_mut_ptr().cast(), &mut length)
    };
    // SAFETY: it is numbers, all of which were written, or are zero.
    let microseconds = unsafe { info.assume_init() }.tcpi_rtt;
    (result == 0 && microseconds > 0).then(|| Duration::from_micros(microseconds.into()))
}

pub(super) fn dial(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    watch(&socket, timeout)?;
    if address.ip().is_loopback() {
        // It may not be allowed; the default carries messages too.
        let _ = socket.set_tcp_congestion(LOOPBACK_CONGESTION);
    }
    match socket.connect(&address.into()) {
        Err(error)
            if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(socket.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_on_loopback_has_a_short_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let time = round_trip(&stream).expect("it was measured when it was connected");
        assert!(time < Duration::from_secs(1), "{time:?}");
    }
}
