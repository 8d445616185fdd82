//! Small random worlds, each drawn from a seed: servers, drives, volumes and runs. Most of them are possible.

use crate::rng::Rng;
use serde_json::{Value, json};

use super::{profile, server};

/// A low estimate of the rows per leaf. Leaves have 50 rows and are ln 2 full.
const ROWS_PER_LEAF: u64 = 33;
/// With this limit, a run takes some milliseconds in a debug build.
const MOST_ROWS: u64 = 30_000;
/// The same limit for page-sized rows.
const MOST_PAGES: u64 = 3_000;

/// The random choices for one world.
pub(crate) struct Draw(Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::stream(seed, "world"))
    }

    /// Returns a number from `low` to `high`, including both.
    pub(crate) fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Returns a number that is as likely to be between 1 and 10 as between 10 and 100.
    fn logarithmic(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low).max(1).ilog2());
        let middle = low << self.from(0, doublings);
        self.from(middle.min(high), (2 * middle).min(high))
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.0.below(times) == 0
    }

    fn coin(&mut self) -> bool {
        self.one_in(2)
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        let last = choices.len() as u64 - 1;
        choices[usize::try_from(self.from(0, last)).expect("a short list")].clone()
    }
}

/// A world: its scenario, and the age of each drive at the beginning.
pub(crate) struct World {
    pub(crate) scenario: Value,
    /// For each drive, in order of name: the share of addresses (per mille) written at random for a long time.
    pub(crate) aged_per_mille: Vec<u64>,
    /// What is odd about it, in words.
    pub(crate) odd: String,
}

/// Makes the world of a seed.
pub(crate) fn world(seed: u64) -> World {
    let draw = &mut Draw::new(seed);
    let mut world = usual(draw);
    keep_histories(&mut Draw::new(seed ^ HISTORIES), &mut world);
    if seed >= ODD {
        make_odd(draw, &mut world);
    }
    world
}

fn usual(draw: &mut Draw) -> World {
    let scale = draw.of(&[1, 10, 250, 512, 777, 1000]);
    let names = &["a", "b", "c"][..usize::try_from(draw.of(&[1, 1, 2, 3])).expect("a few")];
    let mut drives = json!({});
    let mut volumes = json!({});
    let mut room = u64::MAX;
    for name in names {
        let pages = draw.from(1500, 6000);
        room = room.min(pages);
        drives[*name] = drive(draw, scale, pages);
        volumes[*name] = json!({"drives": [name]});
    }
    let aged = |draw: &mut Draw| if draw.one_in(3) { draw.from(300, 1000) } else { 0 };
    let aged_per_mille = names.iter().map(|_| aged(draw)).collect();
    let connections = draw.logarithmic(1, 128);
    let pool = draw.logarithmic(256, 2048).max(5 * connections + 20);
    let runs: Vec<Value> = (0..draw.from(1, 3))
        .map(|_| run(draw, scale, names, room, connections))
        .collect();
    World {
        scenario: json!({
            "scale": scale, "seed": draw.from(0, 9), "drives": drives, "volumes": volumes, "runs": runs,
            "sample_every_s": draw.of(&[0.5, 5.0]),
            "server": server(&json!({
                "cores": draw.of(&[1, 2, 3, 4, 8, 16, 64]), "memory_bytes": (pool + 1) * 8192 * scale * 1000 / 750,
                "costs": costs(draw, scale), "switches": switches(draw),
            })),
        }),
        aged_per_mille,
        odd: String::new(),
    }
}

/// Drive histories are drawn from their own stream, so that the rest of each world does not depend on them.
const HISTORIES: u64 = 0x6869_7374_6f72_7900;

/// Makes some drives ones that only an operating system has formatted.
fn keep_histories(draw: &mut Draw, world: &mut World) {
    let drives = world.scenario["drives"].as_object_mut().expect("drives by name");
    for drive in drives.values_mut() {
        if draw.one_in(4) {
            drive["history"] = json!(draw.of(&["formatted", "filled", "aged"]));
        }
    }
}

/// From this number on, each world has one figure that users would hardly choose.
pub(crate) const ODD: u64 = 1_000_000;

const ODD_FIGURES: [u64; 12] = [
    0,
    1,
    2,
    7,
    1000,
    65_537,
    1_000_000_001,
    1 << 31,
    u32::MAX as u64,
    1 << 40,
    1 << 63,
    u64::MAX,
];

/// Sets one number of a world, chosen at random, to an odd value.
fn make_odd(draw: &mut Draw, world: &mut World) {
    world.scenario["sample_every_s"] = json!(100_000.0);
    let mut places = Vec::new();
    numbers(&world.scenario, String::new(), &mut places);
    let place = draw.of(&places);
    let there = world.scenario.pointer_mut(&place).expect("it was found there");
    *there = json!(draw.of(&ODD_FIGURES));
    world.odd = format!("{place} = {there}");
}

fn numbers(inside: &Value, path: String, places: &mut Vec<String>) {
    match inside {
        Value::Number(_) => places.push(path),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            numbers(value, format!("{path}/{key}"), places);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, value)| {
            numbers(value, format!("{path}/{index}"), places);
        }),
        _ => {}
    }
}

fn figure(value: impl Into<Value>) -> Value {
    json!({"value": value.into(), "label": "fitted", "source": "drawn at random"})
}

/// Returns a drive of `pages` usable database pages.
fn drive(draw: &mut Draw, scale: u64, pages: u64) -> Value {
    let mut profile = profile("iodrive-320");
    let flash_page = draw.of(&[4096_u64, 8192, 16384]);
    let usable = pages * 8192;
    let raw = usable * draw.from(1070, 2000) / 1000 + 20 * 64 * flash_page;
    profile["geometry"]["raw_bytes"] = figure(raw * scale);
    profile["geometry"]["flash_page_bytes"] = figure(flash_page);
    profile["geometry"]["pages_per_block"] = figure(draw.of(&[16, 32]));
    profile["geometry"]["erase_block_pages"] = figure(draw.of(&[16, 128]));
    profile["geometry"]["dies"] = figure(draw.logarithmic(1, 64));
    profile["formats"] = json!({"drawn": figure(usable * scale + draw.from(0, 8191))});
    profile["factory_format"] = figure("drawn");
    profile["timing"]["buffer_pages"] = figure(draw.logarithmic(1, 256));
    profile["timing"]["jitter_per_mille"] = figure(draw.from(0, 1000));
    profile["timing"]["programs_before_read"] = figure(draw.from(0, 4));
    profile["cleaning"]["victim"] = figure(draw.of(&["greedy", "fifo"]));
    profile["cleaning"]["streams"] = figure(draw.of(&["separate", "shared"]));
    profile["cleaning"]["pace_per_mille"] = figure(draw.from(1001, 4000));
    profile["cleaning"]["idle_after_ns"] = figure(draw.logarithmic(1000, 100_000_000));
    let mut choice = json!({
        "profile": profile, "format": "drawn", "driver": draw.of(&["1.2.7", "2.2.3"]), "sector_bytes": draw.of(&[512, 4096]),
    });
    if draw.coin() {
        choice["trim"] = json!(draw.coin());
    }
    if draw.one_in(3) {
        // 5.6 GB were published for 80 GB of single sectors, with 16 sectors per page. This is about as much memory as
        // the map needs, or less.
        choice["host_ram_bytes"] = json!(usable * scale * draw.logarithmic(1, 60) / 10_000);
    }
    choice
}

fn run(draw: &mut Draw, scale: u64, volumes: &[&str], room: u64, connections: u64) -> Value {
    let log_pages = draw.from(64, 200);
    let on: Vec<&str> = volumes.iter().copied().filter(|_| draw.one_in(2)).collect();
    let data_volumes = if on.is_empty() { vec![draw.of(volumes)] } else { on };
    let files = draw.logarithmic(1, 24);
    // The pages of the smallest volume that may be used, if all files were on that volume.
    let pages = (room - log_pages) * draw.from(100, 900) / 1000;
    let most_pages = pages.saturating_sub(40 * files + 20);
    let most_rows = most_pages * ROWS_PER_LEAF;
    let rows = draw.from(connections, most_rows.clamp(connections, MOST_ROWS));
    let mut run = json!({
        "data_files": files, "data_volumes": data_volumes, "log_volume": draw.of(volumes), "seed": draw.from(0, 1 << 40),
        "log_bytes": log_pages * 8192 * scale, "format_before": draw.one_in(4), "files_shift": draw.coin(),
        "workload": {
            "kind": "random-insert", "connections": connections, "rows_per_connection": (rows / connections).max(1) * scale,
            "rows_per_transaction": draw.logarithmic(1, 2000),
        },
    });
    let mut pages = rows / ROWS_PER_LEAF;
    match draw.from(0, 3) {
        0 => {
            run["workload"]["kind"] = json!("mixed");
            run["workload"]["read_per_mille"] = json!(draw.of(&[0, 100, 300, 500, 800]));
        }
        1 => {
            let each = draw.from(connections, most_pages.clamp(connections, MOST_PAGES)) / connections;
            run["workload"]["kind"] = json!("sequential-insert");
            run["workload"]["rows_per_connection"] = json!(each * scale);
            pages = each * connections;
        }
        _ => {}
    }
    if draw.coin() {
        // A little more than the table needs.
        let table = pages * 10 / 6 + 48 * files;
        run["data_bytes"] = json!(table * 8192 * scale * draw.from(900, 1400) / 1000);
    }
    run
}

fn costs(draw: &mut Draw, scale: u64) -> Value {
    let mut costs = json!({"checkpoint_period_ns": figure(draw.logarithmic(50_000_000, 5_000_000_000) * scale)});
    let mut may = |name: &str, low, high| {
        if draw.one_in(3) {
            costs[name] = figure(draw.logarithmic(low, high));
        }
    };
    may("row_cpu_ns", 1, 200_000);
    may("read_row_cpu_ns", 1, 100_000);
    may("append_cpu_ns", 1, 100_000);
    may("find_page_cpu_ns", 1, 200_000);
    may("log_page_row_bytes", 1, 20_000);
    may("cpu_jitter_per_mille", 1, 1000);
    may("burst_ns", 1000, 8_000_000);
    may("quantum_ns", 10_000, 8_000_000);
    may("pfs_hold_ns", 1, 50_000);
    may("split_cpu_ns", 1, 200_000);
    may("index_fanout", 8, 500);
    may("gather_pages", 1, 100);
    may("checkpoint_writes", 1, 200);
    may("checkpoint_latency_ns", 1000, 20_000_000);
    may("lazy_writes", 1, 32);
    may("log_block_bytes", 512, 200_000);
    may("log_writes", 1, 32);
    may("log_row_bytes", 1, 2000);
    may("log_split_bytes", 1, 200_000);
    costs
}

fn switches(draw: &mut Draw) -> Value {
    json!({
        "pfs_latch": draw.of(&["update", "update", "shared"]), "pfs_look": draw.coin(),
        "pick_file": draw.of(&["round-robin", "round-robin-per-worker", "random"]),
        "pick_tries": draw.from(0, 4), "parent_latches": draw.coin(), "lazy_writer": draw.coin(), "checkpoints": draw.coin(),
        "common_stock": draw.coin(), "notice_at_switch": draw.coin(), "keep_file": draw.coin(),
    })
}
