//! The manual's figures, and the amount of data at which the host's memory is full.

use super::MappingRam;

const GB: u64 = 1_000_000_000;

fn old_driver(sector_bytes: u32) -> MappingRam {
    MappingRam {
        worst_case_bytes: if sector_bytes == 512 {
            5_600_000_000
        } else {
            800_000_000
        },
        per_data_bytes: 80 * GB,
        driver_divisor: 1,
        sector_bytes,
        extent_bytes: 8192,
    }
}

fn worst_case(sector_bytes: u32) -> MappingRam {
    MappingRam {
        extent_bytes: sector_bytes,
        ..old_driver(sector_bytes)
    }
}

#[test]
fn data_written_sector_by_sector_takes_the_published_worst_case() {
    assert_eq!(worst_case(512).bytes_for(80 * GB), 5_600_000_000);
    assert_eq!(worst_case(4096).bytes_for(80 * GB), 800_000_000);
    assert_eq!(worst_case(512).bytes_for(320 * GB), 22_400_000_000);
}

#[test]
fn data_written_in_database_pages_takes_an_entry_a_page() {
    assert_eq!(old_driver(512).bytes_for(80 * GB), 5_600_000_000 / 16);
    assert_eq!(old_driver(4096).bytes_for(80 * GB), 800_000_000 / 2);
}

#[test]
fn a_newer_driver_takes_ten_times_less() {
    let newer = MappingRam {
        driver_divisor: 10,
        ..worst_case(512)
    };
    assert_eq!(newer.bytes_for(80 * GB), 560_000_000);
}

#[test]
fn so_much_data_fits_that_a_little_more_would_not() {
    for ram in [worst_case(512), old_driver(4096)] {
        let data = ram.data_within(3 * GB);
        assert!(ram.bytes_for(data) <= 3 * GB);
        assert!(ram.bytes_for(data + 400) > 3 * GB);
    }
    assert_eq!(MappingRam::ON_DRIVE.data_within(0), u64::MAX);
    assert_eq!(MappingRam::ON_DRIVE.bytes_for(80 * GB), 0);
}
