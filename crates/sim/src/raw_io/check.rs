//! Checks whether a raw scenario can be run.

use super::{RawScenario, RawTest};
use crate::figures::life_size;
use crate::scenario::{Refusal, refuse};

impl RawTest {
    /// Returns the number of whole blocks of the file, in a volume of this many bytes.
    pub(super) fn blocks(&self, scale: u32, volume_bytes: u64) -> u64 {
        let file_bytes = self.file_bytes.map_or(volume_bytes, |bytes| bytes / u64::from(scale));
        file_bytes / self.block_bytes
    }

    fn check(&self, scale: u32, volume_bytes: u64) -> Result<(), (&'static str, String)> {
        const MOST: u32 = 1024;
        if self.block_bytes == 0 || !self.block_bytes.is_multiple_of(512) {
            let what = format!("{}: must be whole sectors of 512 bytes", self.block_bytes);
            return Err(("block_bytes", what));
        }
        for (field, count) in [("threads", self.threads), ("outstanding", self.outstanding)] {
            if !(1..=MOST).contains(&count) {
                return Err((field, format!("{count}: must be 1 to {MOST}")));
            }
        }
        if !(self.duration_s > self.warm_up_s && self.duration_s < 1e6 && self.warm_up_s >= 0.0) {
            let what = format!(
                "{} with {} of warming up: must be longer than that, and less than 1,000,000",
                self.duration_s, self.warm_up_s
            );
            return Err(("duration_s", what));
        }
        if self.reads_per_mille > 1000 {
            return Err((
                "reads_per_mille",
                format!("{}: must be 0 to 1000", self.reads_per_mille),
            ));
        }
        if let Some(replay) = &self.replay {
            let wrong = if scale == 1 {
                replay.check(volume_bytes)
            } else {
                Err(format!("is for scale 1, not {scale}"))
            };
            return wrong.map_err(|what| ("replay", what));
        }
        let blocks = self.blocks(scale, volume_bytes);
        if blocks > volume_bytes / self.block_bytes {
            let what = format!(
                "a file of {} does not fit the {} of the volume",
                life_size(blocks * self.block_bytes, scale),
                life_size(volume_bytes, scale)
            );
            return Err(("file_bytes", what));
        }
        if blocks < u64::from(self.threads) {
            let what = format!(
                "leaves {blocks} blocks for {} threads, at this scale: a larger file",
                self.threads
            );
            return Err(("file_bytes", what));
        }
        Ok(())
    }
}

impl RawScenario {
    /// Checks whether the scenario can be run.
    ///
    /// # Errors
    /// Returns the first thing that is wrong, and how to fix it.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.scale == 0 {
            return refuse("scale", "is 0: 1 is life-size, more is smaller");
        }
        crate::scenario::check_hardware(&self.drives, &self.volumes, self.scale)?;
        if self.tests.is_empty() {
            return refuse("tests", "there are none: a scenario needs at least one");
        }
        for (index, test) in self.tests.iter().enumerate() {
            let place = |field: &str| format!("tests[{index}].{field}");
            let Some(choice) = self.volumes.get(&test.volume) else {
                let known: Vec<&str> = self.volumes.keys().map(String::as_str).collect();
                let what = format!("no volume '{}'; there is: {}", test.volume, known.join(", "));
                return refuse(place("volume"), what);
            };
            let map = crate::scenario::map_of(&self.drives, &test.volume, choice, self.scale)?;
            let checked = test.check(self.scale, map.bytes() - choice.offset_bytes);
            checked.or_else(|(field, what)| refuse(place(field), what))?;
        }
        Ok(())
    }
}
