//! The declarations of all parameters of the model. Python's checks, reference and lists come from here.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::devices::{self, Groups};
use crate::engine::checkpoint;
use crate::figures::{Constant, Declared, Group};
use crate::scenario::{Costs, run_defaults};
use crate::volume::array::destage::cache_constants;
use crate::volume::config::{cache_defaults, link_defaults, volume_defaults};

/// Everything that is declared.
#[derive(Clone, Debug, Serialize)]
pub struct Declarations {
    /// The figures of drives' profiles, by the kind of the drive and their group.
    pub drives: BTreeMap<&'static str, Groups>,
    /// The server's costs.
    pub costs: Vec<Declared>,
    /// Figures that are in no profile.
    pub constants: Vec<Constant>,
}

/// Everything that is declared.
#[must_use]
pub fn declarations() -> Declarations {
    let constants = [
        checkpoint::constants::LIST,
        run_defaults::LIST,
        volume_defaults::LIST,
        cache_defaults::LIST,
        cache_constants::LIST,
        link_defaults::LIST,
    ];
    Declarations {
        drives: devices::declared(),
        costs: Costs::declared(),
        constants: constants.concat(),
    }
}
