//! The time series of a test: rates, latencies and the state of the flash drives.

use serde::Serialize;

use crate::figures::ratio;
use crate::kernel::{Ns, SEC};
use crate::volume::{FlashUse, Volume};

/// The most intervals of a test. An interval is one second at life-size, or more seconds in a longer test.
const INTERVALS_MOST: u64 = 100;

/// The counted part of a test, by columns. Times are counted from the end of the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RawSeries {
    /// The ends of the intervals.
    pub at_ns: Vec<Ns>,
    /// Requests done per second.
    pub ios_per_s: Vec<f64>,
    /// The mean latency of these requests; `None` if there were none.
    pub latency_mean_ns: Vec<Option<f64>>,
    /// Write amplification in the interval. It is 1 if nothing was written. Without a flash drive, this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write_amplification: Vec<f64>,
    /// The share of the flash that holds data. Without a flash drive, this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub utilisation: Vec<f64>,
}

/// A series that is being recorded.
pub(super) struct Recorder {
    warm_ns: Ns,
    end_ns: Ns,
    interval_ns: Ns,
    began_ns: Ns,
    /// The end of the present interval.
    pub(super) until_ns: Ns,
    requests: u64,
    waited_ns: u64,
    flash: FlashUse,
    series: RawSeries,
}

impl Recorder {
    /// Makes a recorder for a test that ends between `asked_ns` and `end_ns`. `asked_ns` determines the intervals.
    pub(super) fn new(warm_ns: Ns, end_ns: Ns, asked_ns: Ns, scale: u32) -> Self {
        let second_ns = (SEC / u64::from(scale)).max(1);
        let seconds = (asked_ns - warm_ns).div_ceil(second_ns);
        Self {
            warm_ns,
            end_ns,
            interval_ns: seconds.div_ceil(INTERVALS_MOST).max(1) * second_ns,
            began_ns: warm_ns,
            until_ns: warm_ns,
            requests: 0,
            waited_ns: 0,
            flash: FlashUse::default(),
            series: RawSeries::default(),
        }
    }

    /// Records that a request of the counted part is done, no later than `until_ns`.
    #[inline]
    pub(super) const fn add(&mut self, latency_ns: Ns) {
        self.requests += 1;
        self.waited_ns += latency_ns;
    }

    /// Ends all intervals whose end the clock has passed.
    pub(super) fn turn(&mut self, now_ns: Ns, volume: &Volume) {
        while self.until_ns < now_ns && self.until_ns < self.end_ns {
            self.close(volume);
            self.until_ns = (self.began_ns + self.interval_ns).min(self.end_ns);
        }
    }

    /// Ends the last interval and returns the series.
    pub(super) fn finish(mut self, now_ns: Ns, volume: &Volume) -> RawSeries {
        self.turn(now_ns, volume);
        self.until_ns = self.until_ns.min(now_ns);
        self.close(volume);
        self.series
    }

    fn close(&mut self, volume: &Volume) {
        let passed_ns = self.until_ns.saturating_sub(self.began_ns);
        let flash = FlashUse::of(std::slice::from_ref(volume));
        if passed_ns > 0 {
            let series = &mut self.series;
            series.at_ns.push(self.until_ns - self.warm_ns);
            series.ios_per_s.push(ratio(self.requests, passed_ns) * ratio(SEC, 1));
            let known = self.requests > 0;
            series
                .latency_mean_ns
                .push(known.then(|| ratio(self.waited_ns, self.requests)));
            if flash.pages > 0 {
                series
                    .write_amplification
                    .push(flash.write_amplification_since(&self.flash));
                series.utilisation.push(flash.utilisation());
            }
        }
        (self.began_ns, self.requests, self.waited_ns, self.flash) = (self.until_ns, 0, 0, flash);
    }
}
