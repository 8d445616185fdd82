//! The file that requests go to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use storagelab_sim::replay::{Asked, What};

use crate::buffer::Buffer;

/// An open file.
pub(crate) struct Target(File);

impl Target {
    /// Opens a file that exists.
    pub(crate) fn open(path: &Path, flags: i32, writes: bool) -> Result<Self, String> {
        let opened = OpenOptions::new()
            .read(true)
            .write(writes)
            .custom_flags(flags)
            .open(path);
        opened
            .map(Self)
            .map_err(|error| format!("can't open {}: {error}", path.display()))
    }

    /// Makes a request, to its end.
    pub(crate) fn make(&self, asked: Asked, buffer: &mut Buffer) -> Result<(), String> {
        let Asked(_, what, offset, bytes) = asked;
        let (word, made): (_, io::Result<()>) = match what {
            What::R => ("read", self.0.read_exact_at(buffer.of(bytes), offset)),
            What::W => ("write", self.0.write_all_at(buffer.fresh(bytes), offset)),
            What::S => return self.0.sync_data().map_err(|error| format!("a sync failed: {error}")),
        };
        made.map_err(|error| format!("a {word} of {bytes} bytes at {offset} failed: {error}"))
    }
}
