//! Figures with their origin, and groups of them. [`figures!`] declares a group once: its struct, the limits of each
//! figure, and the list from which Python builds its checks and its reference ([`Declared`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// It was published.
    Published,
    /// It was fitted to what was measured on a drive.
    Measured,
    /// It follows from geometry or from published figures.
    Derived,
    /// It was chosen, within bounds, so that the model agrees with published results.
    Fitted,
    /// It follows from nothing that was published. It is an assumption, which the source explains.
    Assumed,
}

/// A figure together with its origin.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The figure itself; its unit is the end of its name.
    pub value: T,
    /// What kind of figure it is.
    pub label: Label,
    /// Who published it, what it follows from, or why it lies within its bounds.
    pub source: String,
    /// The bounds of a fit.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub bounds: Option<[T; 2]>,
    /// The published figures on which it was fitted, as `storagelab validate` numbers them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_on: Vec<String>,
}

/// What a figure may be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Wanted {
    /// A whole number within limits.
    Number {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// True or false.
    Boolean,
    /// One of these words.
    Words {
        /// All that there are.
        words: Vec<String>,
    },
    /// Any text.
    Text,
}

/// A figure as it is declared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declared {
    /// Its name, which ends with its unit.
    pub name: &'static str,
    /// Its meaning, in a sentence.
    pub meaning: String,
    /// What it may be.
    pub wanted: Wanted,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it is a table of such figures, by names that the profile chooses.
    pub table: bool,
}

/// A group of figures.
pub trait Group {
    /// Its figures, in order.
    fn declared() -> Vec<Declared>;

    /// Names a figure beyond its limits, if there is one, and the fault.
    fn check_limits(&self) -> Result<(), (&'static str, String)>;
}

/// The first of these groups' figures that is beyond its limits, by its name.
pub fn check_all<const GROUPS: usize>(groups: [Result<(), (&'static str, String)>; GROUPS]) -> Result<(), String> {
    let all = groups.into_iter().try_for_each(|group| group);
    all.map_err(|(name, what)| format!("{name} {what}"))
}

/// A type of which a figure may be.
pub trait Value {
    /// The allowed values, within `limits` if it is a number.
    fn wanted(limits: Option<(u64, u64)>) -> Wanted;

    /// The value as a number, if it is one.
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Value for u64 {
    fn wanted(limits: Option<(u64, u64)>) -> Wanted {
        // More would not fit the signed numbers of TOML.
        let (least, most) = limits.unwrap_or((0, u64::MAX >> 1));
        Wanted::Number { least, most }
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Value for u32 {
    fn wanted(limits: Option<(u64, u64)>) -> Wanted {
        let (least, most) = limits.unwrap_or((0, u64::from(Self::MAX)));
        Wanted::Number { least, most }
    }

    fn number(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Value for bool {
    fn wanted(_: Option<(u64, u64)>) -> Wanted {
        Wanted::Boolean
    }
}

impl Value for String {
    fn wanted(_: Option<(u64, u64)>) -> Wanted {
        Wanted::Text
    }
}

/// What a field of a group may be: one figure, one that may be missing, or a table of them.
pub trait Field {
    /// Its declaration.
    fn declare(name: &'static str, meaning: &str, limits: Option<(u64, u64)>) -> Declared;

    /// Names a value beyond `limits`, if there is one.
    fn check(&self, limits: (u64, u64)) -> Result<(), String>;
}

impl<T: Value> Field for Figure<T> {
    fn declare(name: &'static str, meaning: &str, limits: Option<(u64, u64)>) -> Declared {
        Declared {
            name,
            meaning: meaning.trim().to_owned(),
            wanted: T::wanted(limits),
            optional: false,
            table: false,
        }
    }

    fn check(&self, (least, most): (u64, u64)) -> Result<(), String> {
        match self.value.number() {
            Some(value) if value < least => Err(format!("is {value}, must be at least {least}")),
            Some(value) if value > most => Err(format!("is {value}, must be at most {most}")),
            _ => Ok(()),
        }
    }
}

impl<T: Value> Field for Option<Figure<T>> {
    fn declare(name: &'static str, meaning: &str, limits: Option<(u64, u64)>) -> Declared {
        Declared {
            optional: true,
            ..Figure::<T>::declare(name, meaning, limits)
        }
    }

    fn check(&self, limits: (u64, u64)) -> Result<(), String> {
        self.iter().try_for_each(|figure| figure.check(limits))
    }
}

impl<T: Value> Field for BTreeMap<String, Figure<T>> {
    fn declare(name: &'static str, meaning: &str, limits: Option<(u64, u64)>) -> Declared {
        Declared {
            table: true,
            ..Figure::<T>::declare(name, meaning, limits)
        }
    }

    fn check(&self, limits: (u64, u64)) -> Result<(), String> {
        self.values().try_for_each(|figure| figure.check(limits))
    }
}

/// Declares a group of figures: `name: type`, and, in brackets, the least and the most that a number may be, if that is
/// narrower than its type. `Option<Figure<..>>` may be missing, `BTreeMap<String, Figure<..>>` is a table.
macro_rules! figures {
    ($(#[doc = $about:literal])+ $group:ident {
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty $([$least:expr, $most:expr])?;)*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, serde::Deserialize, PartialEq, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $group {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl $crate::figures::Group for $group {
            fn declared() -> Vec<$crate::figures::Declared> {
                vec![$({
                    #[allow(unused_mut, unused_assignments, reason = "only some figures have limits of their own")]
                    let mut limits = None;
                    $(limits = Some(($least, $most));)?
                    <$type as $crate::figures::Field>::declare(stringify!($name), concat!($($doc),+), limits)
                },)*]
            }

            fn check_limits(&self) -> Result<(), (&'static str, String)> {
                $($(
                    $crate::figures::Field::check(&self.$name, ($least, $most))
                        .map_err(|what| (stringify!($name), what))?;
                )?)*
                Ok(())
            }
        }
    };
}
pub(crate) use figures;

/// Declares an enumeration whose names are a figure's words; serde's names, in kebab case.
macro_rules! words {
    ($type:ty: $($word:literal),+) => {
        impl $crate::figures::Value for $type {
            fn wanted(_: Option<(u64, u64)>) -> $crate::figures::Wanted {
                $crate::figures::Wanted::Words { words: vec![$($word.to_owned()),+] }
            }
        }
    };
}
pub(crate) use words;

/// A figure that stands in the source and in no profile: a default, or a constant of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Constant {
    /// Where it belongs, for people.
    pub owner: &'static str,
    /// Its name, which ends with its unit.
    pub name: &'static str,
    /// The figure.
    pub value: u64,
    /// What kind of figure it is.
    pub label: Label,
    /// Who published it, or why it is so.
    pub source: &'static str,
    /// The bounds of a fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<[u64; 2]>,
    /// The published figures on which it was fitted.
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub fitted_on: &'static [&'static str],
    /// Whether a spec may set it: then this is the default.
    pub is_default: bool,
}

/// Declares constants with their origin, each as a function of its name, and `LIST` with all of them. A fitted constant
/// has in brackets its bounds and the figures on which it was fitted.
macro_rules! constants {
    ($owner:literal, default: $default:literal {
        $($name:ident: $type:ty = $value:literal, $label:ident, $source:literal $([$least:literal to $most:literal on $($on:literal)+])?;)*
    }) => {
        $(#[doc = concat!("A constant of ", $owner, ".")] pub const fn $name() -> $type { $value })*

        /// All of them, with their origin.
        pub const LIST: &[$crate::figures::Constant] = &[$({
            #[allow(unused_mut, unused_assignments, reason = "only fitted ones have bounds")]
            let (mut bounds, mut fitted_on): (Option<[u64; 2]>, &'static [&'static str]) = (None, &[]);
            $(bounds = Some([$least, $most]); fitted_on = &[$($on),+];)?
            $crate::figures::Constant {
                owner: $owner,
                name: stringify!($name),
                value: $value,
                label: $crate::figures::Label::$label,
                source: $source,
                bounds,
                fitted_on,
                is_default: $default,
            }
        },)*];
    };
}
pub(crate) use constants;

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
