//! The descriptor for requests and answers. Several threads read from their own descriptors of one mount, to avoid contention; an answer
//! goes to the descriptor its request came from.

use super::abi;
use std::io::{Error, IoSlice, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

/// Address of a page that is never readable, mapped for the life of the process. `None`: mapping failed.
static UNREADABLE: LazyLock<Option<usize>> = LazyLock::new(|| {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address the kernel chooses overlaps no other memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), abi::PAGE_BYTES, libc::PROT_NONE, flags, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page as usize)
});

/// Returns the header for `bytes` bytes: of an answer, with the negated errno, or of a notification, with its code and no request.
fn header(bytes: usize, code: i32, unique: u64) -> [u8; abi::OUT_HEADER_BYTES] {
    let mut head = [0; abi::OUT_HEADER_BYTES];
    head[..4].copy_from_slice(&((abi::OUT_HEADER_BYTES + bytes) as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&code.to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// Returns the header of a notification to store `bytes` bytes in the page cache of a file from `offset`.
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
    /// Wraps a descriptor that is, or will be, mounted.
    pub(crate) fn new(descriptor: OwnedFd) -> Device {
        Device(descriptor)
    }

    /// Opens another descriptor of the same mount.
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

    /// Waits for a request; returns its length in `memory`. `None`: the mount has ended.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn receive(&self, memory: &mut [u8]) -> Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *memory) {
                Ok(length) => return Ok(Some(length)),
                // The request was cancelled before it was read, or a signal arrived.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(rustix::io::Errno::NODEV | rustix::io::Errno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers a request with an errno, or with 0 and bytes.
    ///
    /// # Errors
    /// The system's; `ENOENT` when the request was cancelled.
    pub(crate) fn answer(&self, unique: u64, errno: i32, bytes: &[u8]) -> Result<()> {
        let head = header(bytes.len(), -errno, unique);
        rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(bytes)])?;
        Ok(())
    }

    fn notify(&self, code: i32, bytes: &[u8]) {
        let head = header(bytes.len(), code, 0);
        // An error means that the kernel has nothing cached.
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(bytes)]);
    }

    /// Invalidates the kernel's cached attributes of a file and, with `bytes`, its page cache.
    pub(crate) fn forget_cached(&self, node: u64, bytes: bool) {
        let offset: i64 = if bytes { 0 } else { -1 };
        let mut body = Vec::with_capacity(24);
        body.extend(node.to_ne_bytes());
        body.extend(offset.to_ne_bytes());
        body.extend(0_i64.to_ne_bytes());
        self.notify(abi::notify::INVAL_INODE, &body);
    }

    /// Notifies the kernel that a file has at least `size_bytes`. No bytes are cached: the notification promises one byte at the file's end
    /// from unreadable memory, and the kernel sets the size before the read fails.
    pub(crate) fn grow(&self, node: u64, size_bytes: u64) {
        let (Some(last), Some(nothing)) = (size_bytes.checked_sub(1), *UNREADABLE) else { return };
        let mut message = storing(node, last, 1);
        let parts = [
            libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() },
            libc::iovec { iov_base: nothing as *mut libc::c_void, iov_len: 1 },
        ];
        // SAFETY: the message lives until the call returns, and the kernel only reads it. The other part is unreadable, which gives the
        // error expected here (EFAULT). A file unknown to the kernel (ENOENT) needs no update.
        unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
    }

    /// Stores bytes in the kernel's page cache of a file, also where a program that maps the file has changed other bytes of the page.
    /// Must not be called by a thread that serves reads of the file: the kernel may wait for one of these pages to be read.
    pub(crate) fn store(&self, node: u64, offset: u64, bytes: &[u8]) {
        // ENOENT: the kernel does not know the file and caches nothing of it.
        let _ = rustix::io::writev(&self.0, &[IoSlice::new(&storing(node, offset, bytes.len())), IoSlice::new(bytes)]);
    }

    /// Asks the kernel to drop unused inodes, for which it sends FORGET. Must not be called by a thread that serves requests: the kernel
    /// may have to write back cached data first.
    ///
    /// # Errors
    /// The system's; kernels before 6.18 do not support it.
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
