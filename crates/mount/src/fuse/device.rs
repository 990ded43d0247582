//! The file descriptor that requests come from and answers go to. Several threads read from descriptors of their own of the
//! same mount, so that they do not stand in each other's way; an answer goes to the one its request came from.

use super::abi;
use std::io::{Error, IoSlice, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

/// The address of a page that nobody can read, for as long as the process lives. `None`: there is none.
static UNREADABLE: LazyLock<Option<usize>> = LazyLock::new(|| {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address that the kernel chooses, touches nobody's memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), abi::PAGE_BYTES, libc::PROT_NONE, flags, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page as usize)
});

/// What stands before so many bytes: of the answer to a request with the negative of an errno, of a notification with its code and no request.
fn header(bytes: usize, code: i32, unique: u64) -> [u8; abi::OUT_HEADER_BYTES] {
    let mut head = [0; abi::OUT_HEADER_BYTES];
    head[..4].copy_from_slice(&((abi::OUT_HEADER_BYTES + bytes) as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&code.to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// What stands before so many bytes that the kernel is to keep of a file from `offset` on.
fn storing(node: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(abi::OUT_HEADER_BYTES + 24);
    message.extend(header(24 + bytes, abi::notify::STORE, 0));
    message.extend(node.to_ne_bytes());
    message.extend(offset.to_ne_bytes());
    message.extend((bytes as u32).to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message
}

/// One descriptor of a mount.
#[derive(Debug)]
pub(crate) struct Device(OwnedFd);

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device {
    /// A descriptor that is mounted, or is going to be.
    pub(crate) fn new(descriptor: OwnedFd) -> Device {
        Device(descriptor)
    }

    /// Another descriptor of the same mount.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn another(&self) -> Result<Device> {
        let fresh = super::mounting::open_device()?;
        let original = self.0.as_raw_fd() as u32;
        // SAFETY: the call reads one u32 from the pointer, which lives until it returns.
        let done = unsafe { libc::ioctl(fresh.as_raw_fd(), abi::DEVICE_CLONE as libc::Ioctl, &raw const original) };
        if done == 0 { Ok(Device(fresh)) } else { Err(Error::last_os_error()) }
    }

    /// Waits for a request; its length in `memory`. `None`: there will be no more, the mount has ended.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn receive(&self, memory: &mut [u8]) -> Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *memory) {
                Ok(length) => return Ok(Some(length)),
                // A request was taken back before it was read, or a signal came.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(rustix::io::Errno::NODEV | rustix::io::Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers a request: with an errno, or 0 and bytes.
    ///
    /// # Errors
    /// The system's; `ENOENT` when nobody waits for the answer any more.
    pub(crate) fn answer(&self, unique: u64, errno: i32, bytes: &[u8]) -> Result<()> {
        let head = header(bytes.len(), -errno, unique);
        rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(bytes)])?;
        Ok(())
    }

    fn notify(&self, code: i32, bytes: &[u8]) {
        let head = header(bytes.len(), code, 0);
        // What the kernel does not have it need not forget: that is what errors here mean.
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(bytes)]);
    }

    /// The kernel forgets a file's attributes, and with `bytes` also what it keeps of its content.
    pub(crate) fn forget_cached(&self, node: u64, bytes: bool) {
        let offset: i64 = if bytes { 0 } else { -1 };
        let mut body = Vec::with_capacity(24);
        body.extend(node.to_ne_bytes());
        body.extend(offset.to_ne_bytes());
        body.extend(0_i64.to_ne_bytes());
        self.notify(abi::notify::INVAL_INODE, &body);
    }

    /// The kernel takes a file for at least so long from now on. It keeps no bytes for that: what it is promised (a byte at the file's end)
    /// cannot be read, which it finds out once it has the size.
    pub(crate) fn grow(&self, node: u64, size_bytes: u64) {
        let (Some(last), Some(nothing)) = (size_bytes.checked_sub(1), *UNREADABLE) else { return };
        let mut message = storing(node, last, 1);
        let parts = [
            libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() },
            libc::iovec { iov_base: nothing as *mut libc::c_void, iov_len: 1 },
        ];
        // SAFETY: the message lives until the call returns, and the kernel only reads it; of the other part it finds that it cannot be read,
        // which is the error expected here (EFAULT). A file that it does not know (ENOENT) it need not take for anything.
        unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
    }

    /// What the kernel keeps of a file has these bytes from now on, also where a program that maps it has changed others of the same page. Not to be
    /// called by who answers reads of the same file: the kernel may wait for one of these pages to come.
    pub(crate) fn store(&self, node: u64, offset: u64, bytes: &[u8]) {
        // A file that the kernel does not know (ENOENT) it keeps nothing of.
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&storing(node, offset, bytes.len())), IoSlice::new(bytes)]);
    }

    /// The kernel drops these, where nobody uses them, and says that it has forgotten them. Not to be called by who answers requests:
    /// it may have to write what is kept of them first.
    ///
    /// # Errors
    /// The system's: a kernel before version 6.18 does not know it.
    pub(crate) fn prune(&self, nodes: &[u64]) -> Result<()> {
        let mut body = Vec::with_capacity(16 + 8 * nodes.len());
        body.extend((nodes.len() as u32).to_ne_bytes());
        body.extend([0; 12]);
        nodes.iter().for_each(|node| body.extend(node.to_ne_bytes()));
        let head = header(body.len(), abi::notify::PRUNE, 0);
        rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(&body)])?;
        Ok(())
    }
}
