//! Where large payloads go.

use std::sync::Arc;

use bytes::Bytes;
use fishplate_contract::FileHandle;

/// Takes payloads that exceed `inline_size`, given by whoever drives the unpacker. It only queues:
/// the driver writes what is queued after each feed, and so sets the pace.
pub trait SpoolSink {
    /// A new empty file.
    fn create(&mut self) -> Arc<dyn FileHandle>;

    /// Appends to a file of [`SpoolSink::create`]. [`FileHandle::len`] counts what was queued.
    fn write(&mut self, to: &Arc<dyn FileHandle>, data: Bytes);
}
