//! The resources that workers wait for, as numbers in latches' keys and events' labels.

use super::above::Level;
use super::leaf::Leaf;

/// The first bit of the kind in a latch's key and in an event's label. Waits are counted by the lower half of that
/// byte.
const KIND_SHIFT: u32 = 56;

/// The label of events that a write of the log sets.
pub(super) const LABEL_LOG: u64 = 8 << KIND_SHIFT;
/// The label of the checkpoint's writes.
pub(super) const LABEL_CHECKPOINT: u64 = 9 << KIND_SHIFT;
/// The label of the lazy writer and its writes.
pub(super) const LABEL_LAZY: u64 = 10 << KIND_SHIFT;
/// The label of a look at a file's PFS page. It is counted like the page's latch. The file's number is in the low bits.
const LABEL_PFS: u64 = (0x10 | 4) << KIND_SHIFT;
/// The kind of the last leaf. It is counted like any leaf.
const EDGE: u64 = 0x10 | 1;

/// Returns the name of a counted kind of resource. It is empty for waits for time or for a turn on the core.
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
    /// The GAM page of a file, by its number in that file.
    Gam {
        file: u32,
        index: u32,
    },
    /// The leaf at the right edge, whichever leaf that is.
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

    /// Returns the page of a latch's key.
    ///
    /// # Panics
    /// Panics if the number is no such key.
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

/// Returns the file whose PFS page a worker waits to look at, if the label is of that kind.
pub(super) fn pfs_file_of(label: u64) -> Option<u32> {
    let file = u32::try_from(label ^ LABEL_PFS);
    file.ok().filter(|_| label >= LABEL_PFS)
}
