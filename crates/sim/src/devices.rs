//! Kinds of drives other than the two fast kinds. Each kind has a file with its figures, its behaviour and its state.
//!
//! Such a drive knows at once when a request will be done ([`Model`]). A volume calls it through a pointer; only flash
//! drives and disks, called most often, need none. A new kind needs its file, its line at this file's end, and a
//! profile.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::disk::DiskProfile;
use crate::figures::{Declared, Figure};
use crate::flash::DriveProfile;
use crate::kernel::Ns;
use crate::rng::Rng;
use crate::saved::{Reader, StateError, Writer};
use crate::volume::Request;

mod burst_volume;
mod measured;
mod slc_nvme;

/// A drive at work. Times are nanoseconds since the last [`Model::rest`].
pub trait Model: Boxed + Debug + Send + Sync {
    /// The properties that the host sees.
    fn face(&self) -> Face;

    /// Takes a request at time `now`, and returns when it will be done. Requests come in the order of their times.
    fn submit(&mut self, now: Ns, request: Request) -> Ns;

    /// Finishes all work and resets the clock to 0, as between two runs.
    fn rest(&mut self, rng: Rng);

    /// The drive is formatted.
    fn format(&mut self) {}

    /// The whole memory of a drive at rest, which is saved and loaded in this order, and reported.
    fn memory(&mut self) -> Vec<Kept<'_>>;
}

/// What the host sees of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// What it can write into.
    pub usable_bytes: u64,
    /// The least that can be written.
    pub sector_bytes: u64,
    /// CPU time for a request.
    pub host_cpu_ns: Ns,
}

impl Face {
    /// As the profile says, in a world `scale` times smaller: the capacity shrinks, to whole sectors.
    fn new(
        usable_bytes: &Figure<u64>,
        sector_bytes: &Figure<u32>,
        host_cpu_ns: &Figure<u64>,
        scale: u64,
    ) -> Result<Self, String> {
        let sector_bytes = u64::from(sector_bytes.value);
        let usable_bytes = usable_bytes.value / scale / sector_bytes * sector_bytes;
        if usable_bytes == 0 {
            return Err(format!("usable_bytes leave no sector at scale {scale}"));
        }
        Ok(Self {
            usable_bytes,
            sector_bytes,
            host_cpu_ns: host_cpu_ns.value,
        })
    }
}

/// A number that a drive remembers.
#[derive(Debug)]
pub enum Kept<'d> {
    /// A sum that only grows.
    Sum(&'static str, &'d mut u64),
    /// A present level, and the number of parts into which its unit is divided.
    Level(&'static str, &'d mut u64, u64),
}

impl<'d> Kept<'d> {
    fn word(self) -> &'d mut u64 {
        match self {
            Self::Sum(_, word) | Self::Level(_, word, _) => word,
        }
    }
}

/// What a drive reports of itself.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// What it has counted since it was made.
    pub counts: BTreeMap<&'static str, u64>,
    /// Present levels.
    pub levels: BTreeMap<&'static str, u64>,
}

impl dyn Model {
    /// Its counts since it was made, and its present levels, by name.
    pub fn reported(&self) -> Reported {
        let mut reported = Reported::default();
        for kept in self.boxed().memory() {
            match kept {
                Kept::Sum(name, sum) => reported.counts.insert(name, *sum),
                Kept::Level(name, level, parts) => reported.levels.insert(name, *level / parts),
            };
        }
        reported
    }
}

impl Reported {
    /// The counts since `earlier`, and the present levels, together.
    pub fn since(&self, earlier: &Self) -> BTreeMap<&'static str, u64> {
        let counted = |(name, count): (&&'static str, &u64)| (*name, count - earlier.counts.get(name).unwrap_or(&0));
        let counts = self.counts.iter().map(counted);
        counts
            .chain(self.levels.iter().map(|(name, level)| (*name, *level)))
            .collect()
    }
}

/// A copy behind a pointer.
pub trait Boxed {
    /// Makes it.
    fn boxed(&self) -> Box<dyn Model>;
}

impl<T: Model + Clone + 'static> Boxed for T {
    fn boxed(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        self.as_ref().boxed()
    }
}

/// "DEVICE" and a zero, then the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"DEVICE\0\x01");

/// A drive at rest, as bytes.
pub fn save(model: &dyn Model) -> Vec<u8> {
    let mut model = model.boxed();
    let mut out = Writer::default();
    out.word(MAGIC);
    out.word(model.face().usable_bytes);
    for kept in model.memory() {
        out.word(*kept.word());
    }
    out.finish()
}

/// Gives a new drive the memory that [`save`] wrote.
///
/// # Errors
/// If the bytes are not of such a drive.
pub fn load(model: &mut dyn Model, bytes: &[u8]) -> Result<(), StateError> {
    let mut input = Reader::new(bytes, MAGIC)?;
    let (of_bytes, usable_bytes) = (input.word()?, model.face().usable_bytes);
    if of_bytes != usable_bytes {
        return Err(StateError::Impossible(format!(
            "it is of a drive of {of_bytes} bytes, and the scenario's has {usable_bytes}"
        )));
    }
    for kept in model.memory() {
        *kept.word() = input.word()?;
    }
    input.finish()
}

/// Lists the kinds once: the variant, its name in a profile's file, and the content of its file.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $profile:ty;)+) => {
        /// A drive's profile, by its kind.
        #[derive(Clone, Debug, serde::Deserialize, PartialEq, serde::Serialize)]
        #[serde(tag = "kind")]
        pub enum Profile {
            /// Flash.
            #[serde(rename = "flash")]
            Flash(Box<DriveProfile>),
            /// Turning platters.
            #[serde(rename = "disk")]
            Disk(Box<DiskProfile>),
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant(Box<$profile>),)+
        }

        impl Profile {
            /// A new drive of a kind that is neither flash nor disk, in a world `scale` times smaller.
            ///
            /// # Errors
            /// A sentence that names the figure that can't be.
            pub fn make(&self, scale: u32) -> Result<Box<dyn Model>, String> {
                let (name, made) = match self {
                    Self::Flash(_) | Self::Disk(_) => unreachable!("the two fast kinds have parameters of their own"),
                    $(Self::$variant(profile) => (&profile.name, profile.make(u64::from(scale.max(1)))),)+
                };
                made.map_err(|what| format!("drive profile '{name}': {what}"))
            }
        }

        /// All figures of each kind, by its name and their group.
        pub fn declared() -> BTreeMap<&'static str, Groups> {
            BTreeMap::from([
                ("flash", DriveProfile::declared()),
                ("disk", DiskProfile::declared()),
                $(($name, <$profile>::declared()),)+
            ])
        }
    };
}

/// The figures of a kind, by their group.
pub type Groups = Vec<(&'static str, Vec<Declared>)>;

kinds! {
    /// An `NVMe` drive with an SLC cache.
    SlcNvme "slc-nvme" slc_nvme::Profile;
    /// A network volume with I/O credits.
    BurstVolume "burst-volume" burst_volume::Profile;
    /// A drive that was measured.
    Measured "measured" measured::Profile;
}
