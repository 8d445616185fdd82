//! The layout of a file: pages, extents, and the allocation pages among them.
//!
//! A page has 8192 bytes with a header of 96. 8 pages are an extent. Page 1 of a file and then every 8,088th is a PFS
//! page (*page free space*). It says how full the next pages are. A GAM page (*global allocation map*) says which
//! extents are free: page 2 and then every 511,232nd. The SGAM page behind it does the same for mixed extents.
//!
//! In a world of scale 64, files are 64 times smaller, so these intervals are 64 times smaller too. The number of
//! allocations under one PFS page's latch, and their time, are also those of life-size divided by the scale.

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 8192;
/// Pages of an extent.
pub const EXTENT_PAGES: u32 = 8;
/// The number of pages that one PFS page covers. It covers itself too.
pub const PFS_INTERVAL: u32 = 8_088;
/// The number of pages that one GAM page covers. It covers itself too.
pub const GAM_INTERVAL: u32 = 511_232;

/// Rows on a full page. Each takes 151 bytes of columns, 4 of header, 3 of null bitmap and 2 in the slot array.
pub const ROWS_PER_PAGE: u8 = 50;
const _: () = assert!(ROWS_PER_PAGE as u64 == (PAGE_BYTES - 96) / (151 + 4 + 3 + 2));

/// A page of the data files, numbered over all files. Its number within its file is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct DbPage(u32);

impl DbPage {
    /// Page `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for DbPage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Says how full pages are.
    Pfs,
    /// Says which extents are free.
    Gam,
    /// Says which mixed extents have free pages.
    Sgam,
    /// The file's header, and the maps for backups.
    System,
    /// Everything else.
    Data,
}

/// Computes the positions of allocation pages at one scale.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    scale: u32,
}

impl Geometry {
    /// Makes the geometry of a world `scale` times smaller.
    #[must_use]
    pub const fn new(scale: u32) -> Self {
        Self { scale }
    }

    /// Returns which PFS page of its file covers `page`. The first is 0.
    #[must_use]
    pub fn pfs_index(self, page: u32) -> u32 {
        self.index(page, PFS_INTERVAL)
    }

    /// Returns which GAM page of its file covers `page`. The first is 0.
    #[must_use]
    pub fn gam_index(self, page: u32) -> u32 {
        self.index(page, GAM_INTERVAL)
    }

    /// Returns the last interval that begins at or before `page`. Interval k begins at page ⌊k * length / scale⌋.
    fn index(self, page: u32, interval: u32) -> u32 {
        let next_product = (u64::from(page) + 1) * u64::from(self.scale);
        narrow((next_product - 1) / u64::from(interval))
    }

    fn begins(self, page: u32, interval: u32) -> bool {
        page > 0 && self.index(page, interval) != self.index(page - 1, interval)
    }

    /// Returns what a page of a file is for.
    #[must_use]
    pub fn kind(self, page: u32) -> PageKind {
        match page {
            0 | 4..=7 => PageKind::System,
            1 => PageKind::Pfs,
            2 => PageKind::Gam,
            3 => PageKind::Sgam,
            _ if self.begins(page, PFS_INTERVAL) => PageKind::Pfs,
            _ if self.begins(page, GAM_INTERVAL) => PageKind::Gam,
            _ if self.begins(page - 1, GAM_INTERVAL) => PageKind::Sgam,
            _ => PageKind::Data,
        }
    }

    /// Returns the most allocation pages that a file of this many pages can have.
    #[must_use]
    pub fn allocation_pages(self, pages: u32) -> u64 {
        2 + u64::from(self.pfs_index(pages)) + 2 * (1 + u64::from(self.gam_index(pages)))
    }

    /// The page number of PFS page `index` in a life-size file: 1, then multiples of 8,088.
    #[must_use]
    pub const fn pfs_page_number(index: u32) -> u64 {
        if index == 0 {
            1
        } else {
            index as u64 * PFS_INTERVAL as u64
        }
    }

    /// The page number of GAM page `index` in a life-size file: 2, then multiples of 511,232.
    #[must_use]
    pub const fn gam_page_number(index: u32) -> u64 {
        if index == 0 {
            2
        } else {
            index as u64 * GAM_INTERVAL as u64
        }
    }

    /// Returns the approximate number that `page` would have in a life-size file.
    #[must_use]
    pub fn page_number(self, page: u32) -> u64 {
        u64::from(page) * u64::from(self.scale)
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("a file has fewer than 2^32 pages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_size_allocation_pages_stand_where_sql_server_has_them() {
        let life_size = Geometry::new(1);
        let of_kind = |kind| (0..1_100_000).filter(move |&page| life_size.kind(page) == kind);
        assert_eq!(of_kind(PageKind::Pfs).take(3).collect::<Vec<_>>(), [1, 8088, 16176]);
        assert_eq!(of_kind(PageKind::Gam).collect::<Vec<_>>(), [2, 511_232, 1_022_464]);
        assert_eq!(of_kind(PageKind::Sgam).collect::<Vec<_>>(), [3, 511_233, 1_022_465]);
        assert_eq!(Geometry::pfs_page_number(188), 1_520_544);
    }

    #[test]
    fn a_smaller_world_has_as_many_pfs_pages() {
        for scale in [16, 32, 64, 1000] {
            let pages = 8088 * 640 / scale;
            let world = Geometry::new(scale);
            let count = (0..pages).filter(|&page| world.kind(page) == PageKind::Pfs).count();
            assert!((639..=640).contains(&count), "{count} PFS pages at scale {scale}");
            assert_eq!(world.pfs_index(pages - 1), 639);
            let of_allocation =
                (0..pages).filter(|&page| !matches!(world.kind(page), PageKind::Data | PageKind::System));
            assert!(of_allocation.count() as u64 <= world.allocation_pages(pages));
        }
    }

    #[test]
    fn fifty_rows_fit_a_page() {
        assert_eq!(ROWS_PER_PAGE, 50);
    }
}
