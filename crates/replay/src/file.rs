//! The files to which requests go, and the memory of a request. The memory is aligned for direct I/O, and its content
//! can't be compressed by a drive.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use storagelab_sim::Rng;
use storagelab_sim::replay::{Asked, What};

/// Open files, one on each volume. Offsets count through all files, and each file has the same share of the range.
pub(crate) struct Target {
    files: Vec<File>,
    bytes_each: u64,
}

impl Target {
    /// Opens files that exist.
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

    /// Makes a request, and returns when it has ended.
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

/// Direct I/O needs memory that begins at a page.
const ALIGNED: usize = 4096;
/// The distance, in bytes, between the places at which written data differ from the request before.
const STAMP_EVERY: usize = 512;

/// Memory for one request at a time.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    rng: Rng,
}

impl Buffer {
    /// Room for `longest` bytes, filled if it will be written to a drive.
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

    /// The first `bytes` bytes.
    pub(crate) fn of(&mut self, bytes: u64) -> &mut [u8] {
        let length = usize::try_from(bytes).expect("a request fits memory");
        &mut self.memory[self.begin..self.begin + length]
    }

    /// The first `bytes` bytes, with new content, so that no drive has the same content already.
    pub(crate) fn fresh(&mut self, bytes: u64) -> &[u8] {
        let stamp = self.rng.next_u64().to_le_bytes();
        let part = self.of(bytes);
        for sector in part.chunks_exact_mut(STAMP_EVERY) {
            sector[..stamp.len()].copy_from_slice(&stamp);
        }
        part
    }
}
