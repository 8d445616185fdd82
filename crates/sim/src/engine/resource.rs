//! Resources for which workers wait, as the numbers by which the cores know them.

use super::above::Level;
use super::leaf::Leaf;

/// The bit at which the kind begins in a latch's key and in an event's label. Waits are counted by the lower half of
/// that byte.
const KIND_SHIFT: u32 = 56;

/// The label of events for a write of the log.
pub(super) const LABEL_LOG: u64 = 8 << KIND_SHIFT;
/// The label of the checkpoint's writes.
pub(super) const LABEL_CHECKPOINT: u64 = 9 << KIND_SHIFT;
/// The label of the lazy writer and its writes.
pub(super) const LABEL_LAZY: u64 = 10 << KIND_SHIFT;
/// The label of a look at a file's PFS page, counted like its latch: the file's number stands in the lower half.
const LABEL_PFS: u64 = (0x10 | 4) << KIND_SHIFT;
/// The kind of the last leaf, counted like any leaf.
const EDGE: u64 = 0x10 | 1;

/// The resource of a wait, by the number under which waits are counted; empty for time or a turn.
pub const fn name_of(kind: u8) -> &'static str {
    match kind {
        1 => "data",
        2 => "index level 1",
        3 => "index level 2",
        4 => "PFS",
        5 => "GAM",
        8 => "log",
        9 => "checkpoint writes",
        10 => "lazy writer",
        _ => "",
    }
}

/// A latched page, identified by the key of its latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Leaf(Leaf),
    /// An index page above the leaves, by its number in its level.
    Above(Level, u64),
    /// The PFS page of a file, by its number in that file.
    Pfs {
        file: u32,
        index: u32,
    },
    /// The GAM page of a file, likewise.
    Gam {
        file: u32,
        index: u32,
    },
    /// The last leaf, whichever it is.
    Edge,
}

impl Page {
    /// The key of its latch.
    pub(super) const fn key(self) -> u64 {
        let (kind, low) = match self {
            Self::Leaf(leaf) => (1, leaf.number() as u64),
            Self::Above(Level::Parent, page) => (2, page),
            Self::Above(Level::Grandparent, page) => (3, page),
            Self::Pfs { file, index } => (4, (file as u64) << 32 | index as u64),
            Self::Gam { file, index } => (5, (file as u64) << 32 | index as u64),
            Self::Edge => (EDGE, 0),
        };
        kind << KIND_SHIFT | low
    }

    /// The page behind a latch's key.
    ///
    /// # Panics
    /// If it is not such a key.
    pub(super) fn of(key: u64) -> Self {
        let low = key & ((1 << KIND_SHIFT) - 1);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half of the key")]
        let (file, index) = ((low >> 32) as u32, low as u32);
        match key >> KIND_SHIFT {
            1 => Self::Leaf(Leaf::new(index)),
            2 => Self::Above(Level::Parent, low),
            3 => Self::Above(Level::Grandparent, low),
            4 => Self::Pfs { file, index },
            5 => Self::Gam { file, index },
            EDGE => Self::Edge,
            kind => unreachable!("no latch is of kind {kind}"),
        }
    }
}

/// The label of looks at the PFS page of a file.
pub(super) const fn label_of_pfs(file: u32) -> u64 {
    LABEL_PFS | file as u64
}

/// The file whose PFS page a worker looks at, if the label is of that kind.
pub(super) fn pfs_file_of(label: u64) -> Option<u32> {
    let file = u32::try_from(label ^ LABEL_PFS);
    file.ok().filter(|_| label >= LABEL_PFS)
}
