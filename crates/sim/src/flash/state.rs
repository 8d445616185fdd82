//! A drive's map as bytes, so that a drive can be saved and loaded again.
//!
//! Little-endian 32- and 64-bit words: a magic word with the version, the shape, the counters, the write points, the free
//! blocks, the closed blocks in their order, and the content of each flash page; last a checksum over all of it.
//! Derived data (the map from logical pages, valid counts) is not stored but recomputed, and then [`Ftl::check`] checks
//! the whole, so damaged bytes never become a drive.

use std::fmt;

use super::ftl::{FlashPage, Ftl, FtlCounters, NONE, Shape, Streams, WritePoint};
use super::victims::VictimPolicy;

/// "FLASHMAP" without its last letter, then the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"FLASHMA\x01");

/// Why bytes are not a drive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StateError {
    /// Not the state of a drive, or one written by another version.
    Foreign,
    /// Fewer or more bytes than its own figures require.
    Length,
    /// The bytes changed since they were written.
    Checksum,
    /// The bytes are as written, but describe an impossible state; the text says which.
    Impossible(String),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(
                f,
                "these bytes are not the state of a drive, or another version wrote them: format the drive instead"
            ),
            Self::Length => write!(
                f,
                "the state of the drive is cut short or too long: format the drive instead"
            ),
            Self::Checksum => write!(f, "the state of the drive is damaged: format the drive instead"),
            Self::Impossible(what) => write!(f, "the state of the drive can't be: {what}; format the drive instead"),
        }
    }
}

impl std::error::Error for StateError {}

/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), over words of 8 bytes, the last one padded with zeros.
#[must_use]
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Appends words to bytes, and its checksum at the end.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub(super) fn short(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub(super) fn shorts(&mut self, words: impl IntoIterator<Item = u32>) {
        for word in words {
            self.short(word);
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let sum = checksum(&self.bytes);
        self.word(sum);
        self.bytes
    }
}

/// Reads such words back; it can only be made if the checksum matches.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], magic: u64) -> Result<Self, StateError> {
        if bytes.first_chunk() != Some(&magic.to_le_bytes()) {
            return Err(StateError::Foreign);
        }
        let (body, sum) = bytes.split_last_chunk().ok_or(StateError::Length)?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err(StateError::Checksum);
        }
        let rest = body.get(8..).ok_or(StateError::Length)?;
        Ok(Self { rest })
    }

    pub(crate) fn word(&mut self) -> Result<u64, StateError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(StateError::Length)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(super) fn short(&mut self) -> Result<u32, StateError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(StateError::Length)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    /// `count` words, if that many are there: a damaged count must not claim all memory.
    pub(super) fn shorts(&mut self, count: u32) -> Result<Vec<u32>, StateError> {
        let (words, rest) = self
            .rest
            .split_at_checked(count as usize * 4)
            .ok_or(StateError::Length)?;
        self.rest = rest;
        let words = words.chunks_exact(4);
        Ok(words
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }

    /// All that is left.
    pub(super) fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn finish(self) -> Result<(), StateError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(StateError::Length)
        }
    }
}

impl Ftl {
    /// This map as bytes: the same map gives the same bytes.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.word(MAGIC);
        let shape = &self.shape;
        out.shorts([shape.blocks, shape.pages_per_block, shape.logical_pages]);
        out.short(u32::from(shape.victim == VictimPolicy::Fifo));
        out.short(u32::from(shape.streams == Streams::Shared));
        let counters = &self.counters;
        out.word(counters.host_pages);
        out.word(counters.moved_pages);
        out.word(counters.erased_blocks);
        out.word(counters.trimmed_pages);
        out.shorts(self.points.iter().flat_map(|point| [point.next, point.end]));
        out.short(self.free_blocks());
        out.shorts(self.free.iter().copied());
        out.short(self.blocks.len());
        out.shorts(self.blocks.in_order());
        out.shorts((0..self.shape.flash_pages()).map(|flash| self.held_by(FlashPage::new(flash)).unwrap_or(NONE)));
        out.finish()
    }

    /// The map that [`Ftl::save`] wrote.
    ///
    /// # Errors
    /// If the bytes are not a complete map of this kind.
    pub fn load(bytes: &[u8]) -> Result<Self, StateError> {
        let mut input = Reader::new(bytes, MAGIC)?;
        let shape = read_shape(&mut input)?;
        let mut ftl = Self::new(shape).map_err(StateError::Impossible)?;
        ftl.counters = FtlCounters {
            host_pages: input.word()?,
            moved_pages: input.word()?,
            erased_blocks: input.word()?,
            trimmed_pages: input.word()?,
        };
        for point in &mut ftl.points {
            *point = read_point(&mut input, &shape)?;
        }
        let count = input.short()?;
        ftl.free = read_blocks(&mut input, count, &shape)?;
        let count = input.short()?;
        let closed = read_blocks(&mut input, count, &shape)?;
        let logical_of = input.shorts(shape.flash_pages())?;
        input.finish()?;
        ftl.take_up(logical_of, &closed)?;
        ftl.check().map_err(StateError::Impossible)?;
        Ok(ftl)
    }

    /// Recomputes all derived data from the content of each flash page.
    fn take_up(&mut self, logical_of: Vec<u32>, closed: &[u32]) -> Result<(), StateError> {
        self.logical_of = logical_of;
        let pages = self.shape.pages_per_block;
        for (flash, &logical) in (0..).zip(&self.logical_of) {
            if logical == NONE {
                continue;
            }
            let Some(entry) = self.flash_of.get_mut(logical as usize) else {
                return Err(StateError::Impossible(format!(
                    "flash page {flash} holds logical page {logical}"
                )));
            };
            *entry = FlashPage::new(flash);
            self.mapped += 1;
            self.blocks.gain_pages(flash / pages, 1);
        }
        let mut seen = vec![false; self.shape.blocks as usize];
        for &block in closed {
            if std::mem::replace(&mut seen[block as usize], true) {
                return Err(StateError::Impossible(format!("block {block} is closed twice")));
            }
            self.blocks.push(block);
        }
        Ok(())
    }
}

fn read_shape(input: &mut Reader<'_>) -> Result<Shape, StateError> {
    Ok(Shape {
        blocks: input.short()?,
        pages_per_block: input.short()?,
        logical_pages: input.short()?,
        victim: match input.short()? {
            0 => VictimPolicy::Greedy,
            _ => VictimPolicy::Fifo,
        },
        streams: match input.short()? {
            0 => Streams::Separate,
            _ => Streams::Shared,
        },
    })
}

fn read_point(input: &mut Reader<'_>, shape: &Shape) -> Result<WritePoint, StateError> {
    let point = WritePoint {
        next: input.short()?,
        end: input.short()?,
    };
    let pages = shape.pages_per_block;
    let empty = point.next == point.end;
    let inside = point.next < point.end && point.end <= shape.flash_pages();
    if empty || (inside && point.end.is_multiple_of(pages) && point.end - point.next <= pages) {
        Ok(point)
    } else {
        Err(StateError::Impossible(format!(
            "a write point from flash page {} to {}",
            point.next, point.end
        )))
    }
}

fn read_blocks(input: &mut Reader<'_>, count: u32, shape: &Shape) -> Result<Vec<u32>, StateError> {
    let blocks = input.shorts(count)?;
    match blocks.iter().find(|&&block| block >= shape.blocks) {
        Some(block) => Err(StateError::Impossible(format!("block {block} of {}", shape.blocks))),
        None => Ok(blocks),
    }
}

#[cfg(test)]
mod tests;
