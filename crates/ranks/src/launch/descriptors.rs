//! Descriptors that go over a Unix socket beside bytes (unix(7), `SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most that the system takes at once (`SCM_MAX_FD`).
const MOST: usize = 253;

/// Sends bytes, and descriptors with the first of them; how many bytes were sent.
pub fn send(stream: impl AsFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(MOST))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() && !buffer.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other(format!("more than {MOST} descriptors at once")));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut buffer, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and the descriptors that came with them; how many bytes came.
pub fn receive(
    stream: &UnixStream,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(MOST))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(into)], &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    for message in buffer.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    Ok(got.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut left, right) = UnixStream::pair().unwrap();
        assert_eq!(
            send(&near, b"two", &[right.into(), left.try_clone().unwrap().into()]).unwrap(),
            3
        );
        let (mut bytes, mut came) = ([0; 9], Vec::new());
        assert_eq!(receive(&far, &mut bytes, &mut came).unwrap(), 3);
        assert_eq!((&bytes[..3], came.len()), (&b"two"[..], 2));
        left.write_all(b"!").unwrap();
        let mut got = [0];
        UnixStream::from(came.remove(0)).read_exact(&mut got).unwrap();
        assert_eq!(got, *b"!");
        assert_eq!(send(&near, b"none", &[]).unwrap(), 4);
        assert_eq!(receive(&far, &mut bytes, &mut came).unwrap(), 4);
        assert_eq!(came.len(), 1);
    }
}
