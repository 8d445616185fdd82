//! The I/O of a request to RAID-5: the parts that are read, and the parts that are written after that.
//!
//! - A write of a whole row needs no reads, because the parity is computed from the new data.
//! - A smaller write reads the data and the parity that it will overwrite. The new parity is computed from these and
//!   the new data.
//! - The data of a failed drive are computed from all others. So a read of that drive reads all others. A write to it
//!   reads the rest of the row and writes only the parity. A row whose parity is lost is written without parity.
//!
//! Rows are not locked. Two simultaneous writes to one row take as much I/O as each takes alone.

use super::stripe::{Piece, StripeMap};

/// A request to one drive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    /// The number of the drive.
    pub drive: u32,
    /// The first byte on the drive.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Piece {
    /// Returns the piece's bytes on `drive`, which is one drive of its group or a drive in its place.
    pub(super) const fn on(self, drive: u32) -> Part {
        let Self { offset, bytes, .. } = self;
        Part { drive, offset, bytes }
    }
}

/// The I/O of a request, in two steps.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Steps {
    /// The parts that are read first.
    pub reads: Vec<Part>,
    /// The parts that are written after that.
    pub writes: Vec<Part>,
}

/// Returns the parts of a read.
#[must_use]
pub fn read(map: &StripeMap, offset: u64, bytes: u64, lost: Option<u32>) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in map.pieces(offset, bytes) {
        if lost == Some(piece.group) {
            let others = (0..map.drives()).filter(|&drive| drive != piece.group);
            parts.extend(others.map(|drive| piece.on(drive)));
        } else {
            parts.push(piece.on(piece.group));
        }
    }
    parts
}

/// Returns the parts of a write.
#[must_use]
pub fn write(map: &StripeMap, offset: u64, bytes: u64, lost: Option<u32>) -> Steps {
    let mut steps = Steps::default();
    let (mut at, end) = (offset, offset + bytes);
    while at < end {
        let row_end = (at / map.row_bytes() + 1) * map.row_bytes();
        let piece = end.min(row_end) - at;
        write_in_row(map, at, piece, lost, &mut steps);
        at += piece;
    }
    steps
}

fn write_in_row(map: &StripeMap, offset: u64, bytes: u64, lost: Option<u32>, steps: &mut Steps) {
    let data: Vec<Part> = map.pieces(offset, bytes).map(|piece| piece.on(piece.group)).collect();
    // The parity covers the touched part of the stripes, from its first to its last byte within a stripe.
    let first = data.iter().map(|part| part.offset).min().unwrap_or(0);
    let end = data.iter().map(|part| part.offset + part.bytes).max().unwrap_or(0);
    let parity = Part {
        drive: map.parity_drive(first).unwrap_or(0),
        offset: first,
        bytes: end - first,
    };
    let all = data.iter().copied().chain([parity]);
    steps.writes.extend(all.clone().filter(|part| lost != Some(part.drive)));
    if bytes == map.row_bytes() || lost == Some(parity.drive) {
        return;
    }
    if data.iter().any(|part| lost == Some(part.drive)) {
        // The old data of the lost drive can't be read, so the parity is recomputed from all other drives.
        let others = (0..map.drives()).filter(|&drive| drive != parity.drive && lost != Some(drive));
        steps.reads.extend(others.map(|drive| Part { drive, ..parity }));
    } else {
        steps.reads.extend(all);
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, read, write};
    use crate::volume::stripe::{Level, StripeMap};

    const STRIPE: u64 = 65_536;

    fn map() -> StripeMap {
        StripeMap::new(Level::Raid5, 5, 1, STRIPE, 100 * STRIPE).expect("a map")
    }

    fn counts(offset: u64, bytes: u64, lost: Option<u32>) -> (usize, usize) {
        let steps = write(&map(), offset, bytes, lost);
        (steps.reads.len(), steps.writes.len())
    }

    #[test]
    fn a_small_write_reads_two_and_writes_two() {
        let steps = write(&map(), 8192, 8192, None);
        let part = |drive| Part {
            drive,
            offset: 8192,
            bytes: 8192,
        };
        assert_eq!(steps.reads, [part(0), part(4)]);
        assert_eq!(steps.writes, steps.reads);
    }

    #[test]
    fn a_whole_row_is_written_without_reading() {
        assert_eq!(counts(0, 4 * STRIPE, None), (0, 5));
        assert_eq!(counts(4 * STRIPE, 8 * STRIPE, None), (0, 10));
        assert_eq!(
            counts(0, 4 * STRIPE + 8192, None),
            (2, 7),
            "and a little of the next row"
        );
    }

    #[test]
    fn two_stripes_of_a_row_share_its_parity() {
        assert_eq!(counts(0, 2 * STRIPE, None), (3, 3));
    }

    #[test]
    fn without_a_drive_the_others_stand_in_for_it() {
        assert_eq!(read(&map(), 8192, 8192, Some(0)).len(), 4, "all others are read");
        assert_eq!(read(&map(), 8192, 8192, Some(1)).len(), 1, "not its own data");
        assert_eq!(
            counts(8192, 8192, Some(0)),
            (3, 1),
            "to the lost drive: the rest is read, parity written"
        );
        assert_eq!(counts(8192, 8192, Some(4)), (0, 1), "its parity is lost");
        assert_eq!(
            counts(8192, 8192, Some(2)),
            (2, 2),
            "a drive that has nothing to do with it"
        );
    }
}
