//! A drive at rest as bytes: its map, the state of garbage collection, and its counters. No times are saved.

use super::{Drive, PartPage};
use crate::flash::ftl::Ftl;
use crate::flash::parameters::Parameters;
use crate::flash::request::Counters;

use crate::rng::Rng;
use crate::saved::{Reader, StateError, Writer};

/// The word "FLASHDR", and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"FLASHDR\x01");

impl Drive {
    /// Returns this drive at rest, as bytes. A drive loaded from them continues exactly as this one would after
    /// [`Drive::rest`].
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.word(MAGIC);
        out.word(u64::from(self.collecting));
        out.word(u64::from_le_bytes(self.owed.to_le_bytes()));
        let part = self.part_page.map(|part| (u64::from(part.page), part.filled_bytes));
        let (page, filled_bytes) = part.unwrap_or((u64::MAX, 0));
        out.word(page);
        out.word(filled_bytes);
        out.word(u64::from(self.dies.pages_to_erase));
        out.word(u64::from(self.dies.next_to_erase));
        for count in self.counters().own() {
            out.word(*count);
        }
        out.bytes(&self.ftl.save());
        out.finish()
    }

    /// Reads a drive that [`Drive::save`] wrote. It is at rest at time 0.
    ///
    /// # Errors
    /// Fails if the bytes don't describe such a drive, or describe one of another shape than `parameters` say.
    pub fn load(parameters: Parameters, bytes: &[u8], rng: Rng) -> Result<Self, StateError> {
        parameters.check().map_err(StateError::Impossible)?;
        let mut input = Reader::new(bytes, MAGIC)?;
        let (collecting, owed) = (input.word()? != 0, i64::from_le_bytes(input.word()?.to_le_bytes()));
        let (page, filled_bytes) = (input.word()?, input.word()?);
        let (pages_to_erase, next_to_erase) = (input.word()?, input.word()?);
        let mut counters = Counters::default();
        for count in counters.own() {
            *count = input.word()?;
        }
        let ftl = Ftl::load(input.remaining())?;
        if *ftl.shape() != parameters.shape {
            let words = format!(
                "it is of {:?}, and the scenario's drive of {:?}",
                ftl.shape(),
                parameters.shape
            );
            return Err(StateError::Impossible(words));
        }
        let mut drive = Self::around(ftl, parameters, rng);
        let part_page = u32::try_from(page).ok();
        drive.part_page = part_page.map(|page| PartPage { page, filled_bytes });
        (drive.collecting, drive.owed, drive.counters) = (collecting, owed, counters);
        let narrow = |word| u32::try_from(word).map_err(|_| StateError::Length);
        drive.dies.pages_to_erase = narrow(pages_to_erase)?;
        drive.dies.next_to_erase = narrow(next_to_erase)?;
        drive.stay_online().ok();
        Ok(drive)
    }
}
