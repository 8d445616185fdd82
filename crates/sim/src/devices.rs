//! The kinds of drives besides flash drives and disks. Each has a file with its figures, its behaviour and its state.
//!
//! Such a drive computes a request's end when the request arrives ([`Model`]). It is called through a pointer, which
//! flash drives and disks avoid. A new kind needs its file here, a line at the end of this file, and a profile.

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
    /// Returns the properties of the drive that the host can read.
    fn face(&self) -> Face;

    /// Accepts a request at time `now`, and returns when it will be done. Requests must come in order of time.
    fn submit(&mut self, now: Ns, request: Request) -> Ns;

    /// Finishes all work and resets the clock to 0. This happens between two runs.
    fn rest(&mut self, rng: Rng);

    /// Formats the drive.
    fn format(&mut self) {}

    /// Returns all numbers that a drive at rest keeps. They are saved, loaded and reported in this order.
    fn memory(&mut self) -> Vec<Kept<'_>>;
}

/// The properties of a drive that the host can read.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// The usable capacity.
    pub usable_bytes: u64,
    /// The size of the smallest write.
    pub sector_bytes: u64,
    /// CPU time for a request.
    pub host_cpu_ns: Ns,
}

impl Face {
    /// Converts the profile's figures to a world `scale` times smaller. The capacity shrinks, to whole sectors.
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
    /// A present level, and how many parts of it make one unit.
    Level(&'static str, &'d mut u64, u64),
}

impl<'d> Kept<'d> {
    fn word(self) -> &'d mut u64 {
        match self {
            Self::Sum(_, word) | Self::Level(_, word, _) => word,
        }
    }
}

/// The numbers that a drive reports about itself.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// Counts since the drive was made.
    pub counts: BTreeMap<&'static str, u64>,
    /// Present levels.
    pub levels: BTreeMap<&'static str, u64>,
}

impl dyn Model {
    /// Returns the counts since the drive was made, and the present levels, by name.
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
    /// Returns, in one map, the counts since `earlier` and the present levels.
    pub fn since(&self, earlier: &Self) -> BTreeMap<&'static str, u64> {
        let counted = |(name, count): (&&'static str, &u64)| (*name, count - earlier.counts.get(name).unwrap_or(&0));
        let counts = self.counts.iter().map(counted);
        counts
            .chain(self.levels.iter().map(|(name, level)| (*name, *level)))
            .collect()
    }
}

/// Copies a drive behind a pointer.
pub trait Boxed {
    /// Returns a copy.
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

/// The word "DEVICE", a zero byte, and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"DEVICE\0\x01");

/// Returns a drive at rest, as bytes.
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

/// Loads the numbers that [`save`] wrote into a new drive.
///
/// # Errors
/// Fails if the bytes don't describe such a drive.
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

/// Lists each kind once: its variant, its name in a profile's file, and the type of its profile.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $profile:ty;)+) => {
        /// A drive's profile, by its kind.
        #[derive(Clone, Debug, serde::Deserialize, PartialEq, serde::Serialize)]
        #[serde(tag = "kind")]
        pub enum Profile {
            /// Flash.
            #[serde(rename = "flash")]
            Flash(Box<DriveProfile>),
            /// A disk with turning platters.
            #[serde(rename = "disk")]
            Disk(Box<DiskProfile>),
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant(Box<$profile>),)+
        }

        impl Profile {
            /// Makes a new drive in a world `scale` times smaller. The kind must be neither flash nor disk.
            ///
            /// # Errors
            /// Returns a sentence that names the invalid figure.
            pub fn make(&self, scale: u32) -> Result<Box<dyn Model>, String> {
                let (name, made) = match self {
                    Self::Flash(_) | Self::Disk(_) => unreachable!("the two fast kinds have parameters of their own"),
                    $(Self::$variant(profile) => (&profile.name, profile.make(u64::from(scale.max(1)))),)+
                };
                made.map_err(|what| format!("drive profile '{name}': {what}"))
            }
        }

        /// Returns all figures of each kind, by the kind's name and by group.
        pub fn declared() -> BTreeMap<&'static str, Groups> {
            BTreeMap::from([
                ("flash", DriveProfile::declared()),
                ("disk", DiskProfile::declared()),
                $(($name, <$profile>::declared()),)+
            ])
        }
    };
}

/// The figures of a kind, by group.
pub type Groups = Vec<(&'static str, Vec<Declared>)>;

kinds! {
    /// An `NVMe` drive with an SLC cache.
    SlcNvme "slc-nvme" slc_nvme::Profile;
    /// A network volume with I/O credits.
    BurstVolume "burst-volume" burst_volume::Profile;
    /// A drive whose figures `storagelab drives fit` measured.
    Measured "measured" measured::Profile;
}
