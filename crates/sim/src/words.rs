//! Figures in messages, in the notation of a spec.

/// A size of the scaled world at life-size, as in "9.38 GiB".
#[must_use]
pub(crate) fn life_size(bytes: u64, scale: u32) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let size = u128::from(bytes) * u128::from(scale);
    let Some((power, unit)) = UNITS.into_iter().find(|&(power, _)| size >= 1 << power) else {
        return format!("{size} bytes");
    };
    let hundredths = (size * 100) >> power;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A part of a whole; 0 of nothing.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people; counts stay as they are elsewhere"
)]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::life_size;

    #[test]
    fn a_size_is_told_in_the_largest_unit_that_it_fills() {
        assert_eq!(life_size(511, 1), "511 bytes");
        assert_eq!(life_size(1 << 20, 64), "64 MiB");
        assert_eq!(life_size(10_066_329_600, 1), "9.37 GiB");
        assert_eq!(life_size(10_066_329_600, 64), "600 GiB");
        assert_eq!(life_size(u64::MAX, 1000), "16777215999.99 TiB");
    }
}
