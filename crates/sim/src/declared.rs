//! The declarations of all parameters of the model. Python makes its checks, its reference and its lists from them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::devices::{self, Groups};
use crate::engine::checkpoint;
use crate::figures::{Constant, Declared, Group};
use crate::scenario::{Costs, run_defaults};
use crate::volume::array::destage::cache_constants;
use crate::volume::config::{cache_defaults, link_defaults, volume_defaults};

/// All declarations.
#[derive(Clone, Debug, Serialize)]
pub struct Declarations {
    /// The figures of drives' profiles, by kind of drive and by group.
    pub drives: BTreeMap<&'static str, Groups>,
    /// The server's costs.
    pub costs: Vec<Declared>,
    /// Figures that are in no profile.
    pub constants: Vec<Constant>,
}

/// Returns all declarations.
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
