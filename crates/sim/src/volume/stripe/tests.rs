//! The positions of bytes. Each byte has its own place at every RAID level.

use proptest::prelude::*;

use super::{Level, StripeMap};
use crate::volume::repeat::holds;

impl StripeMap {
    /// The inverse of [`StripeMap::piece`]: returns the volume's byte at a byte of a group, or `None` if parity or no
    /// data are there.
    fn byte_at(&self, group: u32, drive_offset: u64) -> Option<u64> {
        if drive_offset >= self.drive_bytes || group >= self.drives / self.copies {
            return None;
        }
        let (group, row) = (u64::from(group), drive_offset / self.stripe_bytes);
        let stripe = match self.level {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => row * u64::from(self.groups_per_array) + group,
            Level::Raid5 => {
                let drives = u64::from(self.drives);
                let column = (group + drives - self.parity_of_row(row)) % drives;
                row * (drives - 1) + column.checked_sub(1)?
            }
            Level::Raid100 => {
                let (arrays, groups) = (u64::from(self.arrays), u64::from(self.groups_per_array));
                (row * groups + group % groups) * arrays + group / groups
            }
        };
        Some(stripe * self.stripe_bytes + drive_offset % self.stripe_bytes)
    }
}

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10, Level::Raid100];

/// Makes maps of each level, with possible numbers of drives and arrays.
fn maps() -> impl Strategy<Value = StripeMap> {
    let level = prop::sample::select(LEVELS.as_slice());
    (level, 1_u32..6, 2_u32..5, 1_u64..5, 1_u64..40).prop_map(|(level, count, arrays, stripe_sectors, stripes)| {
        let drives = match level {
            Level::Raid0 => count,
            Level::Raid1 => count + 1,
            Level::Raid5 => count + 2,
            Level::Raid10 => 2 * count,
            Level::Raid100 => 2 * count * arrays,
        };
        let stripe_bytes = stripe_sectors * 512;
        // The drive is a little larger than whole stripes. The rest is not used.
        StripeMap::new(
            level,
            drives,
            arrays,
            stripe_bytes,
            stripes * stripe_bytes + stripe_bytes - 512,
        )
        .expect("it can be")
    })
}

#[test]
fn every_byte_has_one_place_and_every_place_one_byte() {
    holds(400, "volume::stripe", &maps(), |map| {
        let groups = map.drives() / map.copies();
        let mut places = 0;
        for sector in 0..map.bytes() / 512 {
            let byte = sector * 512 + sector % 512;
            let piece = map.piece(byte, 1);
            if piece.group >= groups || map.byte_at(piece.group, piece.offset) != Some(byte) {
                return Err(format!("byte {byte} is at {piece:?}, where {map:?} has another"));
            }
        }
        for group in 0..groups {
            let mut offset = 0;
            while offset < map.drive_bytes {
                places += u64::from(map.byte_at(group, offset).is_some());
                offset += 512;
            }
            if map.byte_at(group, map.drive_bytes).is_some() {
                return Err(format!("{map:?} has a byte beyond its drives"));
            }
        }
        let sectors = map.bytes() / 512;
        if places == sectors {
            Ok(())
        } else {
            Err(format!("{sectors} sectors in {places} places of {map:?}"))
        }
    });
}

#[test]
fn a_request_is_cut_into_pieces_that_make_it_up_again() {
    let requests = (maps(), any::<u64>(), 1_u64..20_000);
    holds(400, "volume::stripe", &requests, |(map, offset, bytes)| {
        let offset = offset % map.bytes();
        let bytes = bytes.min(map.bytes() - offset);
        let mut at = offset;
        for piece in map.pieces(offset, bytes) {
            if map.byte_at(piece.group, piece.offset) != Some(at) || piece.bytes > map.stripe_bytes {
                return Err(format!("{piece:?} of {map:?} does not go on at byte {at}"));
            }
            at += piece.bytes;
        }
        if at == offset + bytes {
            Ok(())
        } else {
            Err(format!("{at} bytes of {bytes}"))
        }
    });
}

#[test]
fn raid_5_parity_goes_round_and_never_lies_where_data_do() {
    let map = StripeMap::new(Level::Raid5, 4, 1, 512, 8 * 512).expect("it can be");
    let parity: Vec<u32> = (0..8).filter_map(|row| map.parity_drive(row * 512)).collect();
    assert_eq!(parity, [3, 2, 1, 0, 3, 2, 1, 0]);
    for (row, drive) in (0..).zip(parity) {
        assert_eq!(map.byte_at(drive, row * 512), None);
    }
    assert_eq!(map.bytes(), 3 * 8 * 512);
}

#[test]
fn a_level_is_refused_the_drives_that_it_cannot_use() {
    let refusal = |level, drives, arrays| StripeMap::new(level, drives, arrays, 512, 5120).expect_err("it can't be");
    assert!(refusal(Level::Raid1, 1, 1).contains("at least two"));
    assert!(refusal(Level::Raid5, 2, 1).contains("at least three"));
    assert!(refusal(Level::Raid10, 5, 1).contains("an even number"));
    assert!(refusal(Level::Raid100, 70, 4).contains("arrays is 4"));
    assert!(refusal(Level::Raid100, 70, 0).contains("arrays is 0"));
    let stripe = StripeMap::new(Level::Raid0, 2, 1, 1000, 5120).expect_err("no whole sectors");
    assert!(stripe.contains("whole sectors"));
    let large = StripeMap::new(Level::Raid0, 2, 1, 8192, 5120).expect_err("larger than a drive");
    assert!(large.contains("larger than its drives"));
}
