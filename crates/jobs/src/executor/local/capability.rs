//! Capabilities that a process gives up for itself and all that it becomes.

use nix::errno::Errno;

/// A capability by its number (`linux/capability.h`).
pub(super) type Capability = u32;

/// To open any file by its handle, and to read any directory.
pub(super) const DAC_READ_SEARCH: Capability = 2;
/// To look into processes that may do more.
pub(super) const SYS_PTRACE: Capability = 19;
/// To mount, to unmount and to enter other namespaces.
pub(super) const SYS_ADMIN: Capability = 21;

/// Version 3 of the interface: sets of 64 bits, in two halves.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    /// 0: the calling thread.
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityWord {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives these up: now, and, by the bounding set, in every program that is executed. The kernel
/// takes them from the ambient set with the inheritable one. System calls only, so that it may stand
/// between fork and exec.
#[expect(unsafe_code, reason = "neither libc nor nix has a safe way to capabilities")]
pub(super) fn give_up(capabilities: &[Capability]) -> nix::Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut sets = [CapabilityWord::default(); 2];
    // SAFETY: of that version the kernel writes a header and two halves, which are there.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    Errno::result(got)?;
    for capability in capabilities {
        // SAFETY: takes numbers only.
        let dropped = unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(*capability), 0, 0, 0)
        };
        Errno::result(dropped)?;
        let kept = !(1 << (capability % 32));
        let half = &mut sets[(capability / 32) as usize % 2];
        half.effective &= kept;
        half.permitted &= kept;
        half.inheritable &= kept;
    }
    // SAFETY: of that version the kernel reads a header and two halves, which are there.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    Errno::result(set).map(drop)
}
