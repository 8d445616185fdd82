//! Figures with their origin, and groups of figures. [`figures!`] declares a group once. From this come its struct, the
//! limits of each figure, and the list from which Python builds its checks and its reference ([`Declared`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// It was published.
    Published,
    /// It was fitted to measurements of a drive.
    Measured,
    /// It follows from geometry or from published figures.
    Derived,
    /// It was chosen, within bounds, so that the model agrees with published results.
    Fitted,
    /// It is an assumption, because it follows from nothing that was published. The source explains it.
    Assumed,
}

/// A figure together with its origin.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The figure itself. Its name ends with its unit.
    pub value: T,
    /// What kind of figure it is.
    pub label: Label,
    /// Who published it, what it follows from, or why it is within its bounds.
    pub source: String,
    /// The bounds of a fit.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub bounds: Option<[T; 2]>,
    /// The published figures to which it was fitted, by their numbers in `storagelab validate`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_on: Vec<String>,
}

/// The values that a figure may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Wanted {
    /// A whole number within limits.
    Number {
        /// The smallest allowed number.
        least: u64,
        /// The largest allowed number.
        most: u64,
    },
    /// True or false.
    Boolean,
    /// One of some words.
    Words {
        /// All allowed words.
        words: Vec<String>,
    },
    /// Any text.
    Text,
}

/// The declaration of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Declared {
    /// Its name, which ends with its unit.
    pub name: &'static str,
    /// Its meaning, in a sentence.
    pub meaning: String,
    /// The allowed values.
    pub wanted: Wanted,
    /// Whether the figure may be missing.
    pub optional: bool,
    /// Whether it is a table of such figures, under names that the profile chooses.
    pub table: bool,
}

/// A group of figures.
pub trait Group {
    /// Returns the declarations of its figures, in order.
    fn declared() -> Vec<Declared>;

    /// Checks the limits of its figures. An error is the name of the first wrong figure, and what is wrong.
    fn check_limits(&self) -> Result<(), (&'static str, String)>;
}

/// Checks the limits of several groups. An error names the first figure beyond its limits.
pub fn check_all<const GROUPS: usize>(groups: [Result<(), (&'static str, String)>; GROUPS]) -> Result<(), String> {
    let all = groups.into_iter().try_for_each(|group| group);
    all.map_err(|(name, what)| format!("{name} {what}"))
}

/// A type that a figure may have.
pub trait Value {
    /// Returns the allowed values. `limits` apply to numbers.
    fn wanted(limits: Option<(u64, u64)>) -> Wanted;

    /// Returns the value as a number, if it is one.
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Value for u64 {
    fn wanted(limits: Option<(u64, u64)>) -> Wanted {
        // A larger number would not fit the signed numbers of TOML.
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

/// The type of a group's field: a figure, a figure that may be missing, or a table of figures.
pub trait Field {
    /// Returns the field's declaration.
    fn declare(name: &'static str, meaning: &str, limits: Option<(u64, u64)>) -> Declared;

    /// Checks that the field is within `limits`.
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

/// Declares a group of figures. Each is `name: type`. Brackets give the smallest and the largest number, if they are
/// narrower than the type. `Option<Figure<..>>` may be missing, `BTreeMap<String, Figure<..>>` is a table.
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

/// Declares that a figure may be one of an enumeration's variants, with serde's names for them, in kebab case.
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

/// A figure that is in the source code and in no profile: a default, or a constant of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Constant {
    /// The part of the model that it belongs to, in words.
    pub owner: &'static str,
    /// Its name, which ends with its unit.
    pub name: &'static str,
    /// The figure.
    pub value: u64,
    /// What kind of figure it is.
    pub label: Label,
    /// Who published it, or why it has this value.
    pub source: &'static str,
    /// The bounds of a fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<[u64; 2]>,
    /// The published figures to which it was fitted.
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    pub fitted_on: &'static [&'static str],
    /// Whether it is the default of a key that a spec may set.
    pub is_default: bool,
}

/// Declares constants with their origin. Each becomes a function with the constant's name, and `LIST` contains all of
/// them. Brackets give the bounds of a fitted constant, and the published figures to which it was fitted.
macro_rules! constants {
    ($owner:literal, default: $default:literal {
        $($name:ident: $type:ty = $value:literal, $label:ident, $source:literal $([$least:literal to $most:literal on $($on:literal)+])?;)*
    }) => {
        $(#[doc = concat!("A constant of ", $owner, ".")] pub const fn $name() -> $type { $value })*

        /// All constants, with their origin.
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

/// Converts a size of the scaled world to life-size, as text such as "9.38 GiB".
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

/// Returns `part` / `whole`, or 0 if `whole` is 0.
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
