//! Tests of properties, which print the command that repeats a failure; and drives for tests.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use super::Device;
use crate::disk::{Disk, DiskProfile, Order, Parameters};
use crate::flash::{Age, Drive, DriveProfile, Setup};
use crate::rng::Rng;

impl Device {
    pub fn usable_bytes(&self) -> u64 {
        match self {
            Self::Flash(drive) => drive.parameters().usable_bytes(),
            Self::Disk(disk) => disk.parameters().usable_bytes,
            Self::Other(model) => model.face().usable_bytes,
        }
    }

    pub const fn disk(&self) -> Option<&Disk> {
        match self {
            Self::Flash(_) | Self::Other(_) => None,
            Self::Disk(disk) => Some(disk),
        }
    }
}

/// Tries `property` on many values. Without a seed in the environment, each call uses a new seed. `test` must be a part
/// of the calling test's path, so that the command which repeats a failure runs that test.
pub(crate) fn holds<S: Strategy>(
    cases: u32,
    test: &str,
    values: &S,
    property: impl Fn(S::Value) -> Result<(), String>,
) {
    // If several tests run, each has a thread with the test's name.
    let own_name = std::thread::current().name().unwrap_or("main").to_owned();
    assert!(
        own_name == "main" || own_name.contains(test),
        "the command to repeat {own_name} would run {test}"
    );
    let from_environment = std::env::var("PROPTEST_RNG_SEED")
        .ok()
        .and_then(|word| word.parse().ok());
    let seed = from_environment.unwrap_or_else(|| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0));
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(values, |value| property(value).map_err(TestCaseError::fail));
    if let Err(error) = outcome {
        panic!("{error}\nagain: PROPTEST_RNG_SEED={seed} cargo test --package storagelab-sim {test}");
    }
}

const SCSI: &str = include_str!("../../../../src/storagelab/profiles/scsi-15k-300.toml");
const IODRIVE: &str = include_str!("../../../../src/storagelab/profiles/iodrive-320.toml");

/// Returns the SCSI disk's parameters at a scale.
pub(crate) fn scsi(scale: u32, order: Order) -> Parameters {
    let profile: DiskProfile = toml::from_str(SCSI).expect("a shipped profile");
    profile.parameters(scale, Some(order)).expect("a shipped profile")
}

/// Makes a small SCSI disk. `number` determines the rotation of its platters.
pub(crate) fn disk(number: u64) -> Device {
    let disk = Disk::new(scsi(1000, Order::Elevator), Rng::stream(number, "disk"));
    Device::Disk(Box::new(disk.expect("a shipped profile")))
}

/// Makes the articles' flash drive. It is small, filled, and without jitter.
pub(crate) fn flash(number: u64) -> Device {
    flash_with_log_delay(number, 0)
}

/// Makes the same drive, with a delay of this mean for each log write.
pub(crate) fn flash_with_log_delay(number: u64, log_delay_ns: u64) -> Device {
    let profile: DriveProfile = toml::from_str(IODRIVE).expect("a shipped profile");
    let setup = Setup {
        format: "maximum-write".into(),
        driver: "2.2.3".into(),
        sector_bytes: 512,
        scale: 1000,
        trim: None,
        host_ram_bytes: None,
        log_delay_ns,
    };
    let mut parameters = profile.parameters(&setup).expect("a shipped profile");
    parameters.jitter_per_mille = 0;
    let addresses = parameters.shape.logical_pages;
    let mut drive = Drive::new(parameters, Rng::stream(number, "flash")).expect("a shipped profile");
    let age = Age::Filled { addresses };
    drive
        .age(age, &mut Rng::stream(number, "age"))
        .expect("it can be filled");
    Device::Flash(drive)
}
