//! Data files on volumes: their position, and the order in which their pages are used.

use super::geometry::{DbPage, EXTENT_PAGES, Geometry, PAGE_BYTES, PageKind};
use super::leaf::Leaf;
use crate::figures::life_size;
use crate::hint::rare;
use crate::rng::Rng;
use crate::scenario::{RunPlan, Scenario};

/// The position of a run's files, in bytes of the scaled world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Volumes by number, in the order of their names.
    pub volumes: Vec<String>,
    /// For each data file, its volume and its first byte on the volume.
    pub files: Vec<(usize, u64)>,
    /// Pages of each data file.
    pub pages_per_file: u32,
    /// The log's volume, its first byte on the volume, and its length in bytes.
    pub log: (usize, u64, u64),
    /// For each volume, the bytes by which its files are moved. Files moved beyond its end continue at its beginning.
    pub shift_bytes: Vec<u64>,
    /// The size of each volume.
    pub volume_bytes: Vec<u64>,
}

/// The name of a run's field with an invalid value, and the reason.
pub type Misfit = (&'static str, String);

impl Layout {
    /// Places a run's files: on each volume first the log, if it is there, and then the data files without gaps.
    ///
    /// # Errors
    /// Returns the name of the run's invalid field, and a sentence that says why.
    pub fn of(scenario: &Scenario, run: &RunPlan) -> Result<Self, Misfit> {
        let volumes: Vec<String> = scenario.volumes.keys().cloned().collect();
        let number_of = |volume: &String| {
            let number = volumes.iter().position(|name| name == volume);
            number.ok_or_else(|| ("data_volumes", format!("no volume '{volume}'")))
        };
        let mut volume_bytes = Vec::new();
        for name in &volumes {
            volume_bytes.push(
                scenario
                    .volume_bytes(name)
                    .map_err(|refusal| ("data_volumes", refusal.to_string()))?,
            );
        }
        let log_volume = number_of(&run.log_volume)?;
        let log_bytes = (run.log_bytes / u64::from(scenario.scale))
            .checked_next_multiple_of(PAGE_BYTES)
            .unwrap_or(u64::MAX)
            .max(64 * PAGE_BYTES);
        let mut used = vec![0; volumes.len()];
        used[log_volume] = log_bytes;
        if log_bytes > volume_bytes[log_volume] {
            let what = format!(
                "a log of {} does not fit the {} of '{}'",
                life_size(log_bytes, scenario.scale),
                life_size(volume_bytes[log_volume], scenario.scale),
                volumes[log_volume]
            );
            return Err(("log_bytes", what));
        }
        let data_volumes = run.data_volumes.iter().map(number_of).collect::<Result<Vec<_>, _>>()?;
        let pages_per_file = pages_per_file(scenario, run, &data_volumes, &volume_bytes, &used)?;
        let mut files = Vec::new();
        for file in 0..run.data_files as usize {
            let volume = data_volumes[file % data_volumes.len()];
            files.push((volume, used[volume]));
            used[volume] += u64::from(pages_per_file) * PAGE_BYTES;
        }
        Ok(Self {
            shift_bytes: vec![0; volumes.len()],
            volumes,
            files,
            pages_per_file,
            log: (log_volume, 0, log_bytes),
            volume_bytes,
        })
    }

    /// Moves each volume's files by a random distance, like a file system that has deleted the previous run's files.
    pub fn shift(&mut self, rng: &mut Rng) {
        for (shift, bytes) in self.shift_bytes.iter_mut().zip(&self.volume_bytes) {
            *shift = rng.below((bytes / PAGE_BYTES).max(1)) * PAGE_BYTES;
        }
    }

    /// Returns how many pages a table can use in all data files. Headers and allocation pages are not counted.
    #[must_use]
    pub fn table_pages(&self, geometry: Geometry) -> u64 {
        let own = u64::from(EXTENT_PAGES) + geometry.allocation_pages(self.pages_per_file);
        u64::from(self.pages_per_file).saturating_sub(own) * self.files.len() as u64
    }

    /// Returns the volume of a page, and the page's first byte there.
    #[must_use]
    #[inline(always)]
    pub fn place(&self, page: DbPage) -> (usize, u64) {
        let (file, page) = (page.number() / self.pages_per_file, page.number() % self.pages_per_file);
        let (volume, base) = self.files[file as usize];
        (volume, self.shifted(volume, base + u64::from(page) * PAGE_BYTES))
    }

    /// Returns an offset after the shift.
    #[must_use]
    pub fn shifted(&self, volume: usize, offset: u64) -> u64 {
        let usable = self.usable_bytes(volume);
        let place = offset + self.shift_bytes[volume];
        // Both numbers are less than `usable`, so a subtraction gives the remainder without a division.
        if place < usable { place } else { place - usable }
    }

    /// Returns the pieces of a range that begins at a shifted offset, each as its first byte and its length. What
    /// passes the end of the volume continues at its beginning as the second piece, which may be empty.
    #[must_use]
    #[inline]
    pub fn pieces(&self, volume: usize, offset: u64, bytes: u64) -> [(u64, u64); 2] {
        let before_end = bytes.min(self.usable_bytes(volume) - offset);
        [(offset, before_end), (0, bytes - before_end)]
    }

    /// Returns the bytes of all whole pages of a volume.
    #[must_use]
    pub fn usable_bytes(&self, volume: usize) -> u64 {
        self.volume_bytes[volume] / PAGE_BYTES * PAGE_BYTES
    }
}

/// Returns about how many pages are above this many leaves, rather too many: one per `fanout` leaves on average.
#[must_use]
pub const fn index_pages_for(leaves: u64, fanout: u64) -> u64 {
    (leaves / fanout).saturating_mul(3) / 2 + 4
}

/// Returns the pages of each file, in whole extents: the requested share, or a share of the fullest volume's room.
fn pages_per_file(
    scenario: &Scenario,
    run: &RunPlan,
    data_volumes: &[usize],
    volume_bytes: &[u64],
    used: &[u64],
) -> Result<u32, Misfit> {
    let mut files_on = vec![0_u64; volume_bytes.len()];
    for file in 0..run.data_files as usize {
        files_on[data_volumes[file % data_volumes.len()]] += 1;
    }
    let room = |volume: usize| volume_bytes[volume].saturating_sub(used[volume]) / files_on[volume];
    let loaded = (0..volume_bytes.len()).filter(|&volume| files_on[volume] > 0);
    let most = loaded.map(room).min().unwrap_or(0);
    let wanted = run
        .data_bytes
        .map(|bytes| bytes / u64::from(scenario.scale) / u64::from(run.data_files));
    if wanted.is_some_and(|bytes| bytes > most) {
        let wanted = wanted.unwrap_or(0);
        let what = format!(
            "a data file of {} does not fit: there is room for {} each",
            life_size(wanted, scenario.scale),
            life_size(most, scenario.scale)
        );
        return Err(("data_bytes", what));
    }
    let extent_bytes = u64::from(EXTENT_PAGES) * PAGE_BYTES;
    let extents = wanted.unwrap_or(most) / extent_bytes;
    if extents < 4 {
        let what = format!(
            "{} files leave each less than 4 extents at scale {}: fewer files, or a smaller scale",
            run.data_files, scenario.scale
        );
        return Err(("data_files", what));
    }
    let pages = extents * u64::from(EXTENT_PAGES);
    if pages * u64::from(run.data_files) >= u64::from(Leaf::NONE.number()) {
        let what = format!(
            "{} files of {pages} pages have more than can be numbered in 32 bits: a larger scale, or smaller drives",
            run.data_files
        );
        return Err(("data_files", what));
    }
    u32::try_from(pages).map_err(|_| ("data_files", "a file has too many pages".to_owned()))
}

/// One data file: the next page to use, and the numbers of its extents.
#[derive(Clone, Debug)]
struct File {
    next_page: u32,
    extent_end: u32,
    /// The number of each extent taken so far, or [`NO_EXTENT`].
    extents: Vec<u32>,
}

/// Stands for an extent that no page of the table is in.
const NO_EXTENT: u32 = u32::MAX;

/// All data files. Extents are taken one after the other in each file.
///
/// Extents are numbered over all files in the order in which they are taken, and leaves by their page: eight numbers
/// for each extent. So neighbours on disk have neighbouring numbers, and few numbers are unused.
#[derive(Debug)]
pub struct Files {
    geometry: Geometry,
    pages_per_file: u32,
    each: Vec<File>,
    /// The first page of each extent, by its number.
    first_pages: Vec<u32>,
}

impl Files {
    /// Makes empty files.
    #[must_use]
    pub fn new(geometry: Geometry, layout: &Layout) -> Self {
        let file = File {
            next_page: EXTENT_PAGES,
            extent_end: EXTENT_PAGES,
            extents: vec![NO_EXTENT],
        };
        Self {
            geometry,
            pages_per_file: layout.pages_per_file,
            each: vec![file; layout.files.len()],
            first_pages: Vec::new(),
        }
    }

    /// How many files there are.
    ///
    /// # Panics
    /// Never panics, because there are at most 128 files.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.each.len()).expect("at most 128 files")
    }

    /// Whether a file has no page left.
    #[must_use]
    pub fn is_full(&self, file: u32) -> bool {
        self.each[file as usize].next_page >= self.pages_per_file
    }

    /// Whether no file has a page left.
    #[must_use]
    pub fn are_full(&self) -> bool {
        (0..self.count()).all(|file| self.is_full(file))
    }

    /// Whether the next page of a file is in a new extent.
    #[must_use]
    pub fn needs_extent(&self, file: u32) -> bool {
        let file = &self.each[file as usize];
        file.next_page == file.extent_end
    }

    /// Takes the next extent of a file for the table. Allocation pages at the start of the extent are skipped.
    ///
    /// # Panics
    /// Panics if there are 2^29 extents already.
    pub fn take_extent(&mut self, file: u32) {
        let number = u32::try_from(self.first_pages.len()).expect("extents are numbered in 32 bits");
        let first_page = file * self.pages_per_file;
        let file = &mut self.each[file as usize];
        self.first_pages.push(first_page + file.extent_end);
        file.extents.push(number);
        file.extent_end += EXTENT_PAGES;
        while self.geometry.kind(file.next_page) != PageKind::Data && file.next_page + 1 < file.extent_end {
            file.next_page += 1;
        }
    }

    /// Returns which PFS page of the file covers its next page. Waiting tasks show this number.
    #[must_use]
    pub fn next_pfs(&self, file: u32) -> u32 {
        self.geometry.pfs_index(self.each[file as usize].next_page)
    }

    /// Returns which PFS page is latched: how many full PFS intervals have been allocated in the file, without scaling.
    ///
    /// Pages are allocated as fast as at life-size, though there are fewer. So one PFS page must be in use for as many
    /// allocations. Otherwise the workers in its queue would be separated too often.
    #[must_use]
    pub fn pfs_in_use(&self, file: u32) -> u32 {
        self.each[file as usize].next_page / super::geometry::PFS_INTERVAL
    }

    /// Returns which GAM page of the file covers its next page.
    #[must_use]
    pub fn next_gam(&self, file: u32) -> u32 {
        self.geometry.gam_index(self.each[file as usize].next_page)
    }

    /// Takes the next page of a file's current extent.
    ///
    /// # Panics
    /// Panics if the file needs an extent first, or is full.
    pub fn take_page(&mut self, file: u32) -> DbPage {
        let first_page = file * self.pages_per_file;
        let geometry = self.geometry;
        let file = &mut self.each[file as usize];
        assert!(file.next_page < file.extent_end, "an extent is taken before its pages");
        assert!(file.next_page < self.pages_per_file, "a file with room was picked");
        let page = file.next_page;
        file.next_page += 1;
        // The table can't use an allocation page in the middle of an extent.
        while file.next_page < file.extent_end && geometry.kind(file.next_page) != PageKind::Data {
            file.next_page += 1;
        }
        DbPage::new(first_page + page)
    }

    /// Returns the file of a page, and the page's number in the file.
    #[must_use]
    pub fn place_of(&self, page: DbPage) -> (u32, u32) {
        (page.number() / self.pages_per_file, page.number() % self.pages_per_file)
    }

    /// Returns the leaf on a page, or `None` if the page's extent was not taken.
    #[must_use]
    pub fn leaf_on(&self, page: DbPage) -> Option<Leaf> {
        let (file, page) = self.place_of(page);
        let extents = &self.each[file as usize].extents;
        let extent = extents
            .get((page / EXTENT_PAGES) as usize)
            .filter(|&&extent| extent != NO_EXTENT);
        extent.map(|extent| Leaf::new(extent * EXTENT_PAGES + page % EXTENT_PAGES))
    }

    /// Returns the page of a leaf.
    #[must_use]
    #[inline]
    pub fn page_of(&self, leaf: Leaf) -> DbPage {
        let (extent, page) = (leaf.number() / EXTENT_PAGES, leaf.number() % EXTENT_PAGES);
        DbPage::new(self.first_pages[extent as usize] + page)
    }

    /// Returns the leaf on the next page, if that page is in the same file and its extent was taken.
    #[must_use]
    #[inline(always)]
    pub fn after(&self, leaf: Leaf) -> Option<Leaf> {
        let next = leaf.number() + 1;
        if rare(next.is_multiple_of(EXTENT_PAGES)) {
            return self.after_extent(leaf);
        }
        Some(Leaf::new(next))
    }

    fn after_extent(&self, leaf: Leaf) -> Option<Leaf> {
        let page = self.page_of(leaf).number() + 1;
        let same_file = !page.is_multiple_of(self.pages_per_file);
        same_file.then(|| self.leaf_on(DbPage::new(page))).flatten()
    }

    /// Returns the leaf on the previous page, if that page is in the same file and its extent was taken.
    #[must_use]
    #[inline]
    pub fn before(&self, leaf: Leaf) -> Option<Leaf> {
        if !leaf.number().is_multiple_of(EXTENT_PAGES) {
            return Some(Leaf::new(leaf.number() - 1));
        }
        let page = self.page_of(leaf).number();
        let same_file = !page.is_multiple_of(self.pages_per_file);
        same_file.then(|| self.leaf_on(DbPage::new(page - 1))).flatten()
    }

    /// Returns the next page of a file. If this number has changed, a page was taken in the meantime.
    #[must_use]
    pub fn next_page(&self, file: u32) -> u32 {
        self.each[file as usize].next_page
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::engine) fn layout(files: u32, pages_per_file: u32) -> Layout {
        let volume_bytes = u64::from(files * pages_per_file) * PAGE_BYTES;
        let begin = |file| (0, u64::from(file * pages_per_file) * PAGE_BYTES);
        Layout {
            volumes: vec!["a".to_owned()],
            files: (0..files).map(begin).collect(),
            pages_per_file,
            log: (0, 0, 0),
            shift_bytes: vec![0],
            volume_bytes: vec![volume_bytes],
        }
    }

    #[test]
    fn leaves_beside_each_other_on_disk_are_found_across_extents_and_not_across_files() {
        let mut files = Files::new(Geometry::new(1), &layout(2, 24));
        for file in [1, 0, 1] {
            files.take_extent(file);
        }
        let page = |leaf| files.page_of(Leaf::new(leaf)).number();
        assert_eq!([0, 8, 16].map(page), [24 + 8, 8, 24 + 16]);
        let after = |leaf| files.after(Leaf::new(leaf)).map(Leaf::number);
        let before = |leaf| files.before(Leaf::new(leaf)).map(Leaf::number);
        assert_eq!([0, 7, 15, 23].map(after), [Some(1), Some(16), None, None]);
        assert_eq!([1, 16, 8, 0].map(before), [Some(0), Some(7), None, None]);
        assert!((0..24).all(|leaf| files.leaf_on(files.page_of(Leaf::new(leaf))) == Some(Leaf::new(leaf))));
    }

    #[test]
    fn no_page_of_the_table_is_an_allocation_page_and_a_file_ends_where_it_should() {
        let geometry = Geometry::new(1000);
        let layout = layout(1, 800);
        let mut files = Files::new(geometry, &layout);
        let mut taken = 0;
        while !files.is_full(0) {
            if files.needs_extent(0) {
                files.take_extent(0);
                continue;
            }
            assert_eq!(geometry.kind(files.take_page(0).number()), PageKind::Data);
            taken += 1;
        }
        assert!(
            files.are_full() && (layout.table_pages(geometry)..800).contains(&taken),
            "{taken}"
        );
    }

    #[test]
    fn what_was_moved_over_the_end_of_a_volume_goes_on_at_its_beginning() {
        let mut layout = layout(1, 10);
        layout.shift_bytes = vec![9 * PAGE_BYTES];
        assert_eq!(layout.place(DbPage::new(0)), (0, 9 * PAGE_BYTES));
        assert_eq!(layout.place(DbPage::new(1)), (0, 0));
        let pieces = layout.pieces(0, 9 * PAGE_BYTES, 2 * PAGE_BYTES);
        assert_eq!(pieces, [(9 * PAGE_BYTES, PAGE_BYTES), (0, PAGE_BYTES)]);
    }
}
