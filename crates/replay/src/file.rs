//! The files that requests are sent to, and the memory for a request. The memory is aligned for direct I/O, and its
//! content can't be compressed by a drive.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use storagelab_sim::Rng;
use storagelab_sim::replay::{Asked, What};

/// Open files, one on each volume. Offsets run through all files, one after the other. All files have the same size.
pub(crate) struct Target {
    files: Vec<File>,
    bytes_each: u64,
}

impl Target {
    /// Opens the files. Each must exist.
    pub(crate) fn open(paths: &[PathBuf], bytes_each: u64, flags: i32, writes: bool) -> Result<Self, String> {
        let open = |path: &PathBuf| {
            OpenOptions::new()
                .read(true)
                .write(writes)
                .custom_flags(flags)
                .open(path)
                .map_err(|error| format!("can't open {}: {error}", path.display()))
        };
        let files = paths.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { files, bytes_each })
    }

    /// Sends a request and waits until it is done.
    pub(crate) fn make(&self, asked: Asked, buffer: &mut Buffer) -> Result<(), String> {
        let Asked(_, what, place, bytes) = asked;
        let (number, offset) = (place / self.bytes_each, place % self.bytes_each);
        let file = usize::try_from(number).ok().and_then(|number| self.files.get(number));
        let file = file.ok_or_else(|| format!("no file has byte {place}"))?;
        let (word, made): (_, io::Result<()>) = match what {
            What::R => ("read", file.read_exact_at(buffer.of(bytes), offset)),
            What::W => ("write", file.write_all_at(buffer.fresh(bytes), offset)),
            What::S => return file.sync_data().map_err(|error| format!("a sync failed: {error}")),
        };
        made.map_err(|error| format!("a {word} of {bytes} bytes at {offset} failed: {error}"))
    }
}

/// The alignment of memory that direct I/O needs.
const ALIGNED: usize = 4096;
/// In each block of so many bytes, a write differs from the one before.
const STAMP_EVERY: usize = 512;

/// Memory for one request at a time.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    rng: Rng,
}

impl Buffer {
    /// Allocates room for `longest` bytes. If they will be written to a drive, they are filled with random bytes.
    pub(crate) fn new(longest: u64, filled: bool, seed: u64) -> Self {
        let longest = usize::try_from(longest).expect("a request fits memory");
        let mut memory = vec![0; longest + ALIGNED];
        let mut rng = Rng::stream(seed, "replay");
        if filled {
            for part in memory.chunks_mut(8) {
                part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
            }
        }
        let begin = memory.as_ptr().align_offset(ALIGNED);
        Self { memory, begin, rng }
    }

    /// Returns the first `bytes` of the memory.
    pub(crate) fn of(&mut self, bytes: u64) -> &mut [u8] {
        let length = usize::try_from(bytes).expect("a request fits memory");
        &mut self.memory[self.begin..self.begin + length]
    }

    /// Like `of`, but with content that was not sent before, so that no drive can deduplicate it.
    pub(crate) fn fresh(&mut self, bytes: u64) -> &[u8] {
        let stamp = self.rng.next_u64().to_le_bytes();
        let part = self.of(bytes);
        for sector in part.chunks_exact_mut(STAMP_EVERY) {
            sector[..stamp.len()].copy_from_slice(&stamp);
        }
        part
    }
}
