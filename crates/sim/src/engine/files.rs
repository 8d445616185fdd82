//! Data files on volumes: where they lie, and where the next page comes from.

use super::geometry::{EXTENT_PAGES, Geometry, PAGE_BYTES, PageKind, ROWS_PER_PAGE};
use crate::rng::Rng;
use crate::scenario::{RunPlan, Scenario};

/// Where the files of a run lie, in bytes of the scaled world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Volumes by number, in the order of their names.
    pub volumes: Vec<String>,
    /// For each data file its volume and its first byte there.
    pub files: Vec<(usize, u64)>,
    /// Pages of each data file.
    pub pages_per_file: u32,
    /// The log's volume, its first byte there, and its length.
    pub log: (usize, u64, u64),
    /// How far everything is moved on each volume, round and round, in bytes.
    pub shift_bytes: Vec<u64>,
    /// The size of each volume.
    pub volume_bytes: Vec<u64>,
}

impl Layout {
    /// Lays out a run's files: on each volume the log first if it is there, then the data files end to end.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    pub fn of(scenario: &Scenario, run: &RunPlan) -> Result<Self, String> {
        let volumes: Vec<String> = scenario.volumes.keys().cloned().collect();
        let number_of = |volume: &String| {
            let number = volumes.iter().position(|name| name == volume);
            number.ok_or_else(|| format!("no volume '{volume}'"))
        };
        let mut volume_bytes = Vec::new();
        for name in &volumes {
            volume_bytes.push(scenario.volume_bytes(name).map_err(|refusal| refusal.to_string())?);
        }
        let log_volume = number_of(&run.log_volume)?;
        let log_bytes = (run.log_bytes / u64::from(scenario.scale))
            .next_multiple_of(PAGE_BYTES)
            .max(64 * PAGE_BYTES);
        let mut used = vec![0; volumes.len()];
        used[log_volume] = log_bytes;
        if log_bytes > volume_bytes[log_volume] {
            let there = volume_bytes[log_volume];
            return Err(format!(
                "a log of {log_bytes} bytes does not fit the {there} bytes of '{}'",
                volumes[log_volume]
            ));
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

    /// Moves everything to a random place, as a file system may that has deleted the files of the run before.
    pub fn shift(&mut self, rng: &mut Rng) {
        for (shift, bytes) in self.shift_bytes.iter_mut().zip(&self.volume_bytes) {
            *shift = rng.below(bytes / PAGE_BYTES) * PAGE_BYTES;
        }
    }

    /// Pages of all data files, system pages included.
    #[must_use]
    pub fn data_pages(&self) -> u64 {
        u64::from(self.pages_per_file) * self.files.len() as u64
    }

    /// About how many pages a table of random keys takes: leaves a little under ln 2 full, the index above them, and what
    /// each file keeps for itself.
    #[must_use]
    pub fn pages_for(&self, rows: u64) -> u64 {
        let leaves = rows * 100 / (66 * u64::from(ROWS_PER_PAGE));
        leaves + leaves / 150 + 4 * u64::from(EXTENT_PAGES) * self.files.len() as u64
    }

    /// The volume and the byte there of a page, numbered over all files.
    #[must_use]
    pub fn place(&self, page: u32) -> (usize, u64) {
        let (volume, base) = self.files[(page / self.pages_per_file) as usize];
        (
            volume,
            self.shifted(volume, base + u64::from(page % self.pages_per_file) * PAGE_BYTES),
        )
    }

    /// Where an address is after the shift.
    #[must_use]
    pub fn shifted(&self, volume: usize, offset: u64) -> u64 {
        (offset + self.shift_bytes[volume]) % self.usable_bytes(volume)
    }

    /// Whole pages of a volume, in bytes: files that were moved over the end go on at its beginning.
    #[must_use]
    pub fn usable_bytes(&self, volume: usize) -> u64 {
        self.volume_bytes[volume] / PAGE_BYTES * PAGE_BYTES
    }
}

/// Pages that each file gets, whole extents: an equal share of what was asked for, or of what is left on the fullest volume.
fn pages_per_file(
    scenario: &Scenario,
    run: &RunPlan,
    data_volumes: &[usize],
    volume_bytes: &[u64],
    used: &[u64],
) -> Result<u32, String> {
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
        return Err(format!(
            "a data file of {wanted} bytes does not fit: there is room for {most} each, at this scale"
        ));
    }
    let extent_bytes = u64::from(EXTENT_PAGES) * PAGE_BYTES;
    let extents = wanted.unwrap_or(most) / extent_bytes;
    if extents < 4 {
        return Err(format!(
            "{} files leave each less than 4 extents at scale {}: fewer files, or a smaller scale",
            run.data_files, scenario.scale
        ));
    }
    u32::try_from(extents * u64::from(EXTENT_PAGES)).map_err(|_| "a file has too many pages".to_owned())
}

/// One data file: how far it has been filled, and which leaf is on which of its pages.
#[derive(Clone, Debug)]
struct File {
    next_page: u32,
    extent_end: u32,
    /// For each page so far the leaf on it, or [`super::tree::NO_LEAF`].
    owners: Vec<u32>,
}

/// All data files: extents are taken one after the other in each.
#[derive(Debug)]
pub struct Files {
    geometry: Geometry,
    pages_per_file: u32,
    each: Vec<File>,
}

impl Files {
    /// Empty files.
    #[must_use]
    pub fn new(geometry: Geometry, layout: &Layout) -> Self {
        let file = File {
            next_page: EXTENT_PAGES,
            extent_end: EXTENT_PAGES,
            owners: vec![super::tree::NO_LEAF; EXTENT_PAGES as usize],
        };
        Self {
            geometry,
            pages_per_file: layout.pages_per_file,
            each: vec![file; layout.files.len()],
        }
    }

    /// How many files there are.
    ///
    /// # Panics
    /// Never: there are at most 128.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.each.len()).expect("at most 128 files")
    }

    /// Whether a file has no page left.
    #[must_use]
    pub fn is_full(&self, file: u32) -> bool {
        self.each[file as usize].next_page >= self.pages_per_file
    }

    /// Whether the next page of a file takes a new extent.
    #[must_use]
    pub fn needs_extent(&self, file: u32) -> bool {
        let file = &self.each[file as usize];
        file.next_page == file.extent_end
    }

    /// Takes the next extent of a file for the table. The allocation pages at its head are left out.
    pub fn take_extent(&mut self, file: u32) {
        let file = &mut self.each[file as usize];
        file.extent_end += EXTENT_PAGES;
        while self.geometry.kind(file.next_page) != PageKind::Data && file.next_page + 1 < file.extent_end {
            file.next_page += 1;
            file.owners.push(super::tree::NO_LEAF);
        }
    }

    /// Which PFS page of the file covers its next page: what people see.
    #[must_use]
    pub fn next_pfs(&self, file: u32) -> u32 {
        self.geometry.pfs_index(self.each[file as usize].next_page)
    }

    /// How many PFS pages' worth of pages has been allocated in the file, at life-size pace: what is latched.
    ///
    /// Pages are allocated as fast as at life-size, though there are fewer, so a PFS page must be the one in use for as many
    /// allocations; else those who queue for it would be parted more often.
    #[must_use]
    pub fn pfs_in_use(&self, file: u32) -> u32 {
        self.each[file as usize].next_page / super::geometry::PFS_INTERVAL
    }

    /// Which GAM page of the file covers its next page.
    #[must_use]
    pub fn next_gam(&self, file: u32) -> u32 {
        self.geometry.gam_index(self.each[file as usize].next_page)
    }

    /// Takes the next page of a file's present extent; returns its number over all files.
    ///
    /// # Panics
    /// If the file needs an extent first, or is full.
    pub fn take_page(&mut self, file: u32) -> u32 {
        let number = file * self.pages_per_file;
        let geometry = self.geometry;
        let file = &mut self.each[file as usize];
        assert!(file.next_page < file.extent_end, "an extent is taken before its pages");
        assert!(file.next_page < self.pages_per_file, "a file with room was picked");
        let page = file.next_page;
        file.next_page += 1;
        file.owners.push(super::tree::NO_LEAF);
        // An allocation page in the middle of an extent is no page of the table.
        while file.next_page < file.extent_end && geometry.kind(file.next_page) != PageKind::Data {
            file.next_page += 1;
            file.owners.push(super::tree::NO_LEAF);
        }
        number + page
    }

    /// Notes which leaf is on a page.
    pub fn set_owner(&mut self, page: u32, leaf: u32) {
        self.each[(page / self.pages_per_file) as usize].owners[(page % self.pages_per_file) as usize] = leaf;
    }

    /// The leaf on a page, or [`super::tree::NO_LEAF`].
    #[must_use]
    pub fn owner(&self, page: u32) -> u32 {
        let owners = &self.each[(page / self.pages_per_file) as usize].owners;
        let owner = owners.get((page % self.pages_per_file) as usize);
        owner.copied().unwrap_or(super::tree::NO_LEAF)
    }

    /// The first and the last page of the file that `page` is in, numbered over all files.
    #[must_use]
    pub fn bounds(&self, page: u32) -> (u32, u32) {
        let first = page / self.pages_per_file * self.pages_per_file;
        (first, first + self.pages_per_file - 1)
    }

    /// Pages taken so far in each file, system pages included.
    #[must_use]
    pub fn pages_used(&self) -> Vec<u32> {
        self.each.iter().map(|file| file.next_page).collect()
    }
}
