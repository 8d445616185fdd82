//! Latencies of requests: a histogram whose bars are at most 3 % wide, and its summary.

use serde::Serialize;

use crate::kernel::Ns;

/// There are 2^5 bars for each doubling of the latency.
const SUB_BITS: u32 = 5;

/// Collects latencies. The mean, minimum and maximum are exact.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    bars: Vec<u64>,
    count: u64,
    sum_ns: u128,
    least_ns: Ns,
    longest_ns: Ns,
}

/// A summary of latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyTable {
    /// The number of latencies.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The shortest.
    pub least_ns: Ns,
    /// Percentiles: so many of 1000 latencies are at most this long. The time is at most 3 % above the true figure.
    pub per_mille_ns: Vec<(u32, Ns)>,
    /// The longest.
    pub longest_ns: Ns,
    /// The bars that are not empty: the longest latency of each, and the number of latencies in it.
    pub histogram: Vec<(Ns, u64)>,
}

/// The reported percentiles, in per mille.
const REPORTED: [u32; 6] = [500, 750, 900, 950, 990, 999];

impl Latencies {
    /// Adds a latency.
    pub fn add(&mut self, latency_ns: Ns) {
        let bar = bar_of(latency_ns);
        if bar >= self.bars.len() {
            self.bars.resize(bar + 1, 0);
        }
        self.bars[bar] += 1;
        self.least_ns = if self.count == 0 {
            latency_ns
        } else {
            self.least_ns.min(latency_ns)
        };
        self.longest_ns = self.longest_ns.max(latency_ns);
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
    }

    /// Returns the longest of the shortest `per_mille` latencies of 1000.
    #[must_use]
    pub fn per_mille(&self, per_mille: u32) -> Ns {
        let wanted = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bar, count) in self.bars.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return end_of(bar).min(self.longest_ns);
            }
        }
        self.longest_ns
    }

    /// Returns the summary.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn table(&self) -> LatencyTable {
        let bars = self.bars.iter().enumerate().filter(|(_, count)| **count > 0);
        LatencyTable {
            count: self.count,
            mean_ns: if self.count == 0 {
                0.0
            } else {
                self.sum_ns as f64 / self.count as f64
            },
            least_ns: self.least_ns,
            per_mille_ns: REPORTED
                .map(|per_mille| (per_mille, self.per_mille(per_mille)))
                .to_vec(),
            longest_ns: self.longest_ns,
            histogram: bars.map(|(bar, count)| (end_of(bar), *count)).collect(),
        }
    }
}

/// Returns the bar of a latency. Bars are exact below 2^5. After that there are 2^5 bars for each doubling.
fn bar_of(latency_ns: Ns) -> usize {
    let doublings = (64 - latency_ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    let bar = (u64::from(doublings) << SUB_BITS) + (latency_ns >> doublings);
    usize::try_from(bar).unwrap_or(usize::MAX)
}

/// Returns the longest latency of a bar.
fn end_of(bar: usize) -> Ns {
    let bar = bar as u64;
    let doublings = (bar >> SUB_BITS).saturating_sub(1);
    let first = bar - (doublings << SUB_BITS);
    ((first + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::{Latencies, bar_of, end_of};

    #[test]
    fn bars_follow_each_other_without_a_gap_and_are_at_most_3_percent_wide() {
        let mut last = None;
        for bar in 0..1500 {
            let (from, to) = (last.map_or(0, |last: u64| last + 1), end_of(bar));
            assert!(
                to >= from && bar_of(from) == bar && bar_of(to) == bar,
                "bar {bar}: {from} to {to}"
            );
            assert!((to - from) * 32 <= from, "bar {bar}: {from} to {to}");
            last = Some(to);
        }
    }

    #[test]
    fn percentiles_of_known_figures_are_right_to_3_percent() {
        let mut latencies = Latencies::default();
        (1..=100_000).rev().for_each(|ns| latencies.add(ns));
        let table = latencies.table();
        for (per_mille, ns) in table.per_mille_ns {
            let true_ns = u64::from(per_mille) * 100;
            assert!((true_ns..=true_ns + true_ns / 32).contains(&ns), "{per_mille}: {ns}");
        }
        assert_eq!((table.least_ns, table.longest_ns, table.count), (1, 100_000, 100_000));
        assert!((table.mean_ns - 50_000.5).abs() < 1e-6);
        assert_eq!(table.histogram.iter().map(|(_, count)| count).sum::<u64>(), 100_000);
    }
}
