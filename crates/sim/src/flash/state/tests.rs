//! A drive is unchanged after it was saved and loaded, and damaged bytes are never loaded.

use crate::flash::ftl::{Ftl, Shape, Streams};
use crate::flash::victims::VictimPolicy;
use crate::rng::Rng;
use crate::saved::{StateError, checksum};

fn used(victim: VictimPolicy) -> Ftl {
    let mut ftl = Ftl::new(Shape {
        blocks: 80,
        pages_per_block: 8,
        logical_pages: 500,
        victim,
        streams: Streams::Separate,
    })
    .expect("a good shape");
    let mut rng = Rng::stream(1, "state");
    ftl.overwrite(500, 2, &mut rng);
    ftl.write_at_random(500, 333, &mut rng);
    ftl.trim(7);
    ftl
}

/// Returns `bytes` with a checksum that matches, as if they had been written in this way.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 8;
    let sum = checksum(&bytes[..body]);
    bytes[body..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_loaded_drive_goes_on_exactly_as_the_one_that_was_saved() {
    for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo] {
        let mut kept = used(victim);
        let mut loaded = Ftl::load(&kept.save()).expect("its own bytes");
        assert_eq!(loaded.counters(), kept.counters());
        for ftl in [&mut kept, &mut loaded] {
            ftl.write_at_random(500, 5000, &mut Rng::stream(2, "afterwards"));
        }
        assert_eq!(loaded.save(), kept.save());
    }
}

/// If this fails, states that earlier versions saved can't be loaded. Increase the version in the magic word then.
#[test]
fn the_bytes_of_a_state_stay_what_they_are_from_version_to_version() {
    let bytes = used(VictimPolicy::Greedy).save();
    assert_eq!((bytes.len(), checksum(&bytes)), (2964, 11_017_706_409_328_294_901));
}

#[test]
fn any_damaged_byte_is_noticed() {
    let good = used(VictimPolicy::Greedy).save();
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let error = Ftl::load(&bytes).expect_err("a byte was changed");
        assert_eq!(
            error,
            if at < 8 {
                StateError::Foreign
            } else {
                StateError::Checksum
            }
        );
    }
}

#[test]
fn bytes_cut_short_or_drawn_out_are_noticed_even_with_a_fitting_checksum() {
    let good = used(VictimPolicy::Greedy).save();
    for length in [0, 7, 8, 15, 16, 40, 100, good.len() - 4, good.len() - 1] {
        let mut bytes = good[..length].to_vec();
        if length >= 16 {
            bytes = sealed(bytes);
        }
        assert!(Ftl::load(&bytes).is_err(), "{length} bytes");
    }
    let longer = sealed([good.as_slice(), &[0; 8]].concat());
    assert_eq!(Ftl::load(&longer).err(), Some(StateError::Length));
}

/// Single words are changed and the checksum is renewed. The result is an error or a consistent map, never a panic.
#[test]
fn well_sealed_nonsense_is_refused_in_words_or_is_a_whole_drive() {
    let good = used(VictimPolicy::Greedy).save();
    let mut refused = 0;
    for at in (8..good.len() - 8).step_by(4) {
        for value in [0u32, 3, 79, 80, 500, u32::MAX - 1, u32::MAX] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            match Ftl::load(&sealed(bytes)) {
                Ok(ftl) => assert_eq!(ftl.check(), Ok(())),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 3000, "{refused}");
}

#[test]
fn each_refusal_says_the_way_out() {
    let impossible = StateError::Impossible("block 3 is closed twice".to_owned());
    for error in [
        StateError::Foreign,
        StateError::Length,
        StateError::Checksum,
        impossible,
    ] {
        assert!(error.to_string().ends_with("format the drive instead"), "{error}");
    }
}
