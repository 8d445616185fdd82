//! A drive's map as bytes, so that a drive can be saved and loaded.
//!
//! The bytes are little-endian words of 32 and 64 bits: a magic word with the version, the shape, the counters, the
//! write points, the free blocks, the closed blocks in their order, and the content of each flash page. At the end is a
//! checksum over all of this. Derived data (the map from logical pages, and the valid counts) are not stored but
//! recomputed. Then [`Ftl::check`] checks everything, so damaged bytes are never used.

use super::ftl::{FlashPage, Ftl, FtlCounters, NONE, Shape, Streams, WritePoint};
use super::victims::VictimPolicy;
use crate::saved::{Reader, StateError, Writer};

/// The word "FLASHMAP" without its last letter, and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"FLASHMA\x01");

impl Ftl {
    /// Returns this map as bytes. Equal maps give equal bytes.
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

    /// Reads a map that [`Ftl::save`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are not a complete map of this kind.
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
