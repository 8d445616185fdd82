//! A small world says what a large one does. Only worth its time in a release build.
#![cfg(not(debug_assertions))]

mod world;

use world::{article_a, float, off, outcomes, run};

#[test]
fn scales_16_32_and_64_agree_within_3_percent() {
    for files in [1, 8] {
        let life_s =
            |scale: u32| float(outcomes(&article_a(scale, &[run(files)]))[0].elapsed_ns) * f64::from(scale) / 1e9;
        let seconds = [16, 32, 64].map(life_s);
        let spread = off(seconds[2], seconds[0]).max(off(seconds[1], seconds[0]));
        assert!(spread < 0.03, "{files} files: {seconds:?} s at scales 16, 32 and 64");
    }
}
