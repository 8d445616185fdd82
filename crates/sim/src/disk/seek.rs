//! The time of a seek as a function of its distance.
//!
//! If an arm accelerates for half the way and brakes for the other half, its time grows with the square root of the
//! distance. At its top speed, the time grows with the distance itself. So the curve is track-to-track time + a root +
//! a line, over the distance as a fraction of the full stroke. C. Ruemmler and J. Wilkes ("An introduction to disk
//! drive modeling", IEEE Computer 27(3), 1994) fit measured disks in this way. Makers publish three figures that
//! determine the curve: track to track, full stroke, and the mean over all pairs of tracks. Over random pairs the mean
//! of the root is 8/15, and the mean of the distance is 1/3.

use crate::kernel::Ns;

/// Seek times of one disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SeekCurve {
    track_ns: i64,
    /// The times that the root and the line add at full stroke.
    root_ns: i64,
    line_ns: i64,
    /// The number of cylinders minus two: the longest distance beyond a single track.
    span: i64,
}

impl SeekCurve {
    /// Returns the curve through a maker's figures, over this many cylinders.
    ///
    /// # Errors
    /// Returns a sentence if no such curve exists: the figures are not in ascending order, or a longer seek would take
    /// less time.
    pub fn through(track_ns: Ns, average_ns: Ns, full_ns: Ns, cylinders: u64) -> Result<Self, String> {
        let whole = |figure: Ns| i64::try_from(figure).map_err(|_| format!("{figure} ns is no time of a seek"));
        let (track, average, full) = (whole(track_ns)?, whole(average_ns)?, whole(full_ns)?);
        if !(track < average && average < full) {
            return Err(format!(
                "seeks of {track_ns} ns (track to track), {average_ns} ns (average) and {full_ns} ns (full stroke) are not in \
                 ascending order"
            ));
        }
        // average = track + root 8/15 + line / 3, full = track + root + line.
        let root_ns = 5 * (average - track) - 5 * (full - track) / 3;
        let line_ns = full - track - root_ns;
        // The curve is steepest at its start, so it could only fall at its far end.
        if root_ns < 0 || 2 * line_ns + root_ns < 0 {
            return Err(format!(
                "no seek curve that only rises has {track_ns} ns from track to track, {average_ns} ns on average and {full_ns} \
                 ns over the full stroke: the average must be about 0.33 to 0.73 of the way from the first to the last"
            ));
        }
        Ok(Self {
            track_ns: track,
            root_ns,
            line_ns,
            span: i64::try_from(cylinders)
                .unwrap_or(i64::MAX >> 32)
                .saturating_sub(2)
                .max(1),
        })
    }

    /// Returns the seek time over this many cylinders.
    #[must_use]
    pub fn time_ns(&self, distance: u64) -> Ns {
        if distance == 0 {
            return 0;
        }
        let far = i64::try_from(distance - 1).unwrap_or(self.span).min(self.span);
        // The square root of far / span, times 2^16.
        let root = ((far << 32) / self.span).isqrt();
        let line = (far << 16) / self.span;
        let added = (self.root_ns * root + self.line_ns * line) >> 16;
        (self.track_ns + added).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::SeekCurve;

    const CYLINDERS: u64 = 50_000;

    fn scsi() -> SeekCurve {
        SeekCurve::through(300_000, 3_100_000, 6_500_000, CYLINDERS).expect("a curve")
    }

    #[test]
    fn it_goes_through_the_three_published_figures() {
        let curve = scsi();
        assert_eq!(curve.time_ns(0), 0);
        assert_eq!(curve.time_ns(1), 300_000);
        assert_eq!(curve.time_ns(CYLINDERS - 1).div_ceil(100), 65_000);
        // The mean over all pairs: distance d occurs 2 (C - d) times among C^2.
        let sum: u128 = (1..CYLINDERS)
            .map(|d| u128::from(2 * (CYLINDERS - d)) * u128::from(curve.time_ns(d)))
            .sum();
        let mean = sum / u128::from(CYLINDERS * CYLINDERS);
        assert!((3_099_000..=3_101_000).contains(&mean), "{mean} ns on average");
    }

    #[test]
    fn it_takes_longer_the_farther_it_is() {
        let curve = scsi();
        assert!((1..CYLINDERS).all(|d| curve.time_ns(d) >= curve.time_ns(d - 1)));
    }

    #[test]
    fn figures_that_fit_no_rising_curve_are_refused() {
        let refusal = |track, average, full| SeekCurve::through(track, average, full, 1000).expect_err("no curve");
        assert!(refusal(400_000, 300_000, 7_000_000).contains("ascending"));
        assert!(refusal(1_000, 1_000_000, 9_000_000).contains("only rises"));
        assert!(refusal(1_000, 8_000_000, 9_000_000).contains("only rises"));
    }
}
