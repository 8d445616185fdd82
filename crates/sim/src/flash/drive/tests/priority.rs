//! The order of the host's reads and programs on a die, and what writes program in addition to their data.

use super::super::Op;
use super::{US, drive, filled, parameters, read, write};
use crate::flash::parameters::Parameters;

/// Returns the wait of a read that arrives just after `pages` single pages were written to a buffer of 64.
fn read_behind(pages: u32, programs_before_read: u32) -> u64 {
    let mut drive = filled(
        Parameters {
            programs_before_read,
            ..parameters()
        },
        7000,
    );
    for page in 0..pages {
        drive.submit(0, write(page)).expect("it is on-line");
    }
    // 16 dies program in turn. The last program began at 64 us at the latest. Page 5000 is on one of these dies.
    let done = drive.submit(100 * US, read(5000)).expect("it is on-line");
    done - 100 * US
}

#[test]
fn a_read_waits_for_the_program_in_progress_but_not_for_those_behind_it() {
    let lone = (20 + 50 + 1) * US;
    let behind = read_behind(64, 0);
    assert!(behind > lone + 600 * US && behind <= lone + 800 * US, "{behind}");
    assert_eq!(read_behind(64, 9), behind, "the buffer has room for what is written");
}

#[test]
fn while_writes_wait_for_room_the_buffer_is_drained_before_reads() {
    let first = read_behind(80, 0);
    assert_eq!(first, read_behind(64, 0), "reads that always go first do so now, too");
    assert_eq!(read_behind(80, 1), first + 800 * US);
    assert_eq!(read_behind(80, 9), read_behind(80, 4), "there are only four behind it");
    assert!(read_behind(80, 4) > read_behind(80, 3));
}

#[test]
fn a_read_goes_first_again_once_the_last_write_has_room() {
    let mut drive = filled(
        Parameters {
            programs_before_read: 9,
            ..parameters()
        },
        7000,
    );
    let room = (0..80)
        .map(|page| drive.submit(0, write(page)).expect("it is on-line"))
        .max();
    let room = room.expect("80 writes") - 10 * US;
    let mut later = drive.clone();
    let behind = drive.submit(room - 1, read(5000)).expect("it is on-line") - (room - 1);
    let first = later.submit(room, read(5000)).expect("it is on-line") - room;
    assert!(first <= (20 + 50 + 1 + 800) * US, "{first}");
    assert!(behind > first + 800 * US, "{behind} and {first}");
}

#[test]
fn what_writes_want_beside_their_data_is_programmed_by_whole_pages() {
    let busy = |padding_per_mille, pages_a_write| {
        let mut drive = drive(Parameters {
            padding_per_mille,
            ..parameters()
        });
        for at in 0..100 {
            let page = at * pages_a_write;
            drive
                .submit(
                    u64::from(at) * 10_000 * US,
                    Op::Write {
                        page,
                        pages: pages_a_write,
                    },
                )
                .expect("it is on-line");
        }
        drive.counters().die_busy_ns
    };
    for pages in [1, 8] {
        assert_eq!(busy(0, pages), 100 * u64::from(pages) * 800 * US);
        assert_eq!(
            busy(750, pages),
            busy(0, pages) + 75 * 800 * US,
            "of each write, however long"
        );
    }
}
