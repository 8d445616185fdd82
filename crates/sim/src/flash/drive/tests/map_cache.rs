//! A drive that caches a part of its map.

use super::{S, US, filled, parameters, read};
use crate::flash::map_cache::MapPart;
use crate::flash::{Op, Parameters};

#[test]
fn a_drive_that_caches_a_part_of_its_map_reads_the_missing_part_first_and_programs_what_was_changed() {
    // The map has 70 pages that cover 100 pages each. 10 of them are cached.
    let part = MapPart {
        map_pages: 70,
        covers: 100,
        cached: 10,
    };
    let mut parameters = Parameters {
        map_part: Some(part),
        ..parameters()
    };
    parameters.shape.logical_pages += part.map_pages;
    let mut drive = filled(parameters, 7070);
    let first = drive.submit(0, read(0)).expect("it is on-line");
    let again = drive.submit(S, read(1)).expect("it is on-line") - S;
    assert_eq!(first - again, 50 * US, "the map's page is read, and then cached");
    for number in 0..70 {
        let write = Op::Write {
            page: number * 100,
            pages: 1,
        };
        drive.submit((2 + u64::from(number)) * S, write).expect("it is on-line");
    }
    let counters = drive.counters().ftl;
    assert_eq!(
        (counters.host_pages, counters.moved_pages),
        (70, 60),
        "10 changed pages are still cached"
    );
}
