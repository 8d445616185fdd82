//! The position of a volume's byte on its drives.
//!
//! Drives form *groups*. All drives of a group hold the same data. In RAID-0 and RAID-5 each drive is a group, in
//! RAID-1 all are one group, in RAID-10 each pair is one. RAID-100 is a RAID-0 over RAID-10 arrays. In RAID-5 each row
//! has one stripe of parity. It moves by one drive from row to row, and data follow it (left-symmetric).

use serde::{Deserialize, Serialize};

/// How several drives make one volume.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Level {
    /// Stripes over all drives, without a copy.
    #[serde(rename = "0")]
    Raid0,
    /// All drives hold the same data.
    #[serde(rename = "1")]
    Raid1,
    /// Stripes over all drives, with a parity stripe in each row.
    #[serde(rename = "5")]
    Raid5,
    /// Stripes over mirrored pairs.
    #[serde(rename = "10")]
    Raid10,
    /// Stripes over arrays of RAID-10.
    #[serde(rename = "100")]
    Raid100,
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Raid0 => "RAID-0",
            Self::Raid1 => "RAID-1",
            Self::Raid5 => "RAID-5",
            Self::Raid10 => "RAID-10",
            Self::Raid100 => "RAID-100",
        })
    }
}

/// The part of a request that is in one stripe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// The group of drives.
    pub group: u32,
    /// The first byte on each drive of the group.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The map of one volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StripeMap {
    level: Level,
    drives: u32,
    /// The number of arrays of a RAID-100. Otherwise 1.
    arrays: u32,
    groups_per_array: u32,
    copies: u32,
    stripe_bytes: u64,
    /// The bytes used of each drive, and of each array.
    drive_bytes: u64,
    array_bytes: u64,
}

impl StripeMap {
    /// Makes a map over this many drives of at least `drive_bytes` each. A single drive must be RAID-0.
    ///
    /// # Errors
    /// Returns what is wrong with the number of drives or the stripe, and how to fix it.
    pub fn new(level: Level, drives: u32, arrays: u32, stripe_bytes: u64, drive_bytes: u64) -> Result<Self, String> {
        let arrays = if level == Level::Raid100 { arrays } else { 1 };
        let fits = match level {
            Level::Raid0 => drives >= 1,
            Level::Raid1 => drives >= 2,
            Level::Raid5 => drives >= 3,
            Level::Raid10 => drives >= 2 && drives.is_multiple_of(2),
            Level::Raid100 => arrays >= 2 && drives.is_multiple_of(2 * arrays) && drives > 0,
        };
        if !fits {
            let wanted = match level {
                Level::Raid0 => "at least one".to_owned(),
                Level::Raid1 => "at least two".to_owned(),
                Level::Raid5 => "at least three".to_owned(),
                Level::Raid10 => "an even number".to_owned(),
                Level::Raid100 => {
                    format!("an even number in each of its arrays, at least two arrays, and arrays is {arrays}")
                }
            };
            return Err(format!("{level} of {drives} drives can't be: it takes {wanted}"));
        }
        if stripe_bytes == 0 || !stripe_bytes.is_multiple_of(512) {
            return Err(format!(
                "a stripe of {stripe_bytes} bytes can't be: it is whole sectors of 512 bytes"
            ));
        }
        let striped = drives > 1 && level != Level::Raid1;
        let stripe_bytes = if striped { stripe_bytes } else { drive_bytes.max(1) };
        let drive_bytes = drive_bytes / stripe_bytes * stripe_bytes;
        if drive_bytes == 0 {
            return Err(format!("a stripe of {stripe_bytes} bytes is larger than its drives"));
        }
        let copies = match level {
            Level::Raid0 | Level::Raid5 => 1,
            Level::Raid1 => drives,
            Level::Raid10 | Level::Raid100 => 2,
        };
        let groups_per_array = drives / copies / arrays;
        let data_groups = u64::from(groups_per_array) - u64::from(level == Level::Raid5);
        Ok(Self {
            level,
            drives,
            arrays,
            groups_per_array,
            copies,
            stripe_bytes,
            drive_bytes,
            array_bytes: drive_bytes * data_groups,
        })
    }

    /// How the drives make a volume.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The number of drives.
    #[must_use]
    pub const fn drives(&self) -> u32 {
        self.drives
    }

    /// The number of drives that hold the same data.
    #[must_use]
    pub const fn copies(&self) -> u32 {
        self.copies
    }

    /// Returns the data bytes in a row of stripes over all drives.
    #[must_use]
    pub const fn row_bytes(&self) -> u64 {
        self.array_bytes / self.drive_bytes * self.stripe_bytes
    }

    /// Returns the bytes of the whole volume.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.array_bytes * self.arrays as u64
    }

    /// Returns the drives of a group.
    #[must_use]
    pub fn members(&self, group: u32) -> std::ops::Range<u32> {
        group * self.copies..(group + 1) * self.copies
    }

    /// Returns the piece that begins at `offset` and has at most `bytes`.
    #[must_use]
    #[inline]
    pub fn piece(&self, offset: u64, bytes: u64) -> Piece {
        let inside = offset % self.stripe_bytes;
        let bytes = bytes.min(self.stripe_bytes - inside);
        let stripe = offset / self.stripe_bytes;
        let (group, row) = match self.level {
            Level::Raid0 | Level::Raid1 | Level::Raid10 => {
                let groups = u64::from(self.groups_per_array);
                (stripe % groups, stripe / groups)
            }
            Level::Raid5 => {
                let (drives, data) = (u64::from(self.drives), u64::from(self.drives) - 1);
                let row = stripe / data;
                ((self.parity_of_row(row) + 1 + stripe % data) % drives, row)
            }
            Level::Raid100 => {
                let (arrays, groups) = (u64::from(self.arrays), u64::from(self.groups_per_array));
                let (array, stripe) = (stripe % arrays, stripe / arrays);
                (array * groups + stripe % groups, stripe / groups)
            }
        };
        Piece {
            group: narrow(group),
            offset: row * self.stripe_bytes + inside,
            bytes,
        }
    }

    /// Returns all pieces of a request, in order.
    pub fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> + use<> {
        let map = *self;
        let (mut at, end) = (offset, offset + bytes);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let piece = map.piece(at, end - at);
                at += piece.bytes;
                piece
            })
        })
    }

    fn parity_of_row(&self, row: u64) -> u64 {
        let drives = u64::from(self.drives);
        drives - 1 - row % drives
    }

    /// Returns the drive with the parity of the row at `drive_offset` on each drive. `None` without parity.
    #[must_use]
    pub fn parity_drive(&self, drive_offset: u64) -> Option<u32> {
        let row = drive_offset / self.stripe_bytes;
        (self.level == Level::Raid5).then(|| narrow(self.parity_of_row(row)))
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).expect("drives are few")
}

#[cfg(test)]
mod tests;
