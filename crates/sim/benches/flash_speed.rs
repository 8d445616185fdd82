//! Measures the speed of the flash drive's map.
//!
//! `cargo bench --package storagelab-sim --features internals --bench flash_speed -- SCALE`. SCALE is 64 by default; 1
//! is life-size. Each line shows the work, the write amplification, and millions of host pages per second of CPU time,
//! the best of three rounds.
#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::sync::LazyLock;
use std::time::Instant;

use storagelab_sim::Rng;
use storagelab_sim::internals::flash::{Age, Ftl, Shape, Streams, VictimPolicy};

const PAGE_BYTES: u64 = 8192;
const RAW_BYTES: u64 = 330_000_000_000;

fn main() {
    // cargo adds `--bench` to the arguments.
    let scale: u64 = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(64);
    let shape = |usable_bytes: u64| Shape {
        blocks: narrow(RAW_BYTES / scale / PAGE_BYTES / 64),
        pages_per_block: 64,
        logical_pages: narrow(usable_bytes / scale / PAGE_BYTES),
        victim: VictimPolicy::Greedy,
        streams: Streams::Separate,
    };
    println!("scale {scale}: what, write amplification, million host pages/s");
    let mut ftl = Ftl::new(shape(300_000_000_000)).expect("a good shape");
    let pages = ftl.shape().logical_pages;
    report(
        "map alone, written in order",
        rounds(&mut ftl, |ftl| write_in_order(ftl, pages)),
    );
    for (format, usable_gb) in [("basic", 300), ("improved-write", 210), ("maximum-write", 151)] {
        let mut ftl = Ftl::new(shape(usable_gb * 1_000_000_000)).expect("a good shape");
        let pages = ftl.shape().logical_pages;
        let mut rng = Rng::stream(1, "speed");
        let age = Age::Steady {
            addresses: pages,
            free_blocks: 2,
        };
        ftl.age(age, &mut rng).expect("it can be aged");
        let writes = u64::from(pages).min(4_000_000);
        let measured = rounds(&mut ftl, |ftl| {
            for _ in 0..writes {
                ftl.write(narrow(rng.below(u64::from(pages))), &mut ());
            }
            writes
        });
        report(&format!("map alone, at random, full, {format}"), measured);
    }
}

/// Returns the CPU time of this process so far if the system reports it (as Linux does), or else the elapsed time.
fn cpu_s() -> f64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/self/schedstat").ok();
    let ran_ns = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ran_ns.map_or_else(|| BEGAN.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn write_in_order(ftl: &mut Ftl, pages: u32) -> u64 {
    let times = 20_000_000 / pages + 1;
    for page in (0..times).flat_map(|_| 0..pages) {
        ftl.write(page, &mut ());
    }
    u64::from(pages) * u64::from(times)
}

/// Returns the write amplification and the host pages per second, for the fastest of three rounds of `work`.
fn rounds(ftl: &mut Ftl, mut work: impl FnMut(&mut Ftl) -> u64) -> (f64, f64) {
    let before = *ftl.counters();
    let mut fastest = 0.0f64;
    for _ in 0..3 {
        let start_s = cpu_s();
        let pages = work(ftl);
        fastest = fastest.max(pages as f64 / (cpu_s() - start_s));
    }
    (ftl.counters().since(&before).write_amplification(), fastest)
}

fn report(what: &str, (write_amplification, pages_per_s): (f64, f64)) {
    println!("{what:<48} {write_amplification:5.2} {:7.2}", pages_per_s / 1e6);
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).expect("it fits 32 bits")
}
