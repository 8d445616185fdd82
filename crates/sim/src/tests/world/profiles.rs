//! The ready-made profiles in JSON, for tests and examples.

use serde_json::{Value, json};

/// A ready-made profile.
pub(crate) fn profile(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/storagelab/profiles");
    let text = std::fs::read_to_string(format!("{folder}/{name}.toml")).expect("a ready-made profile");
    toml::from_str(&text).expect("a profile in TOML")
}

/// Returns a server with the keys of `said`, and otherwise the ready-made profile's costs and switches.
pub(crate) fn server(said: &Value) -> Value {
    let profile = profile("servers/sql-server-2008");
    let mut server = json!({"costs": profile["costs"], "switches": {}});
    for (name, figure) in profile["switches"].as_object().expect("figures by name") {
        server["switches"][name] = figure["value"].clone();
    }
    for (name, value) in said.as_object().expect("an object") {
        match (&mut server[name], value) {
            (Value::Object(whole), Value::Object(some)) => whole.extend(some.clone()),
            (place, value) => *place = value.clone(),
        }
    }
    server
}
