//! The ready-made profiles are complete and give the expected parameters.

use super::{DriveProfile, Setup};
use crate::figures::Label;
use crate::flash::{Age, Drive, Op, Parameters};
use crate::rng::Rng;

macro_rules! shipped {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../src/storagelab/profiles/",
                $name,
                ".toml"
            )),
        )
    };
}

const SHIPPED: [(&str, &str); 5] = [
    shipped!("iodrive-320"),
    shipped!("iodrive-duo-640"),
    shipped!("sata-870-evo-1tb"),
    shipped!("nvme4-980-pro-1tb"),
    shipped!("nvme5-t700-2tb"),
];

fn profile(name: &str) -> DriveProfile {
    let (_, text) = SHIPPED
        .into_iter()
        .find(|(shipped, _)| *shipped == name)
        .expect("a shipped profile");
    toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn setup(format: &str, driver: &str, sector_bytes: u32, scale: u32) -> Setup {
    Setup {
        format: format.to_owned(),
        driver: driver.to_owned(),
        sector_bytes,
        scale,
        trim: None,
        host_ram_bytes: None,
        log_delay_ns: 0,
    }
}

fn iodrive(format: &str, scale: u32) -> Parameters {
    profile("iodrive-320")
        .parameters(&setup(format, "2.2.3", 512, scale))
        .expect("a shipped profile")
}

#[test]
fn every_shipped_profile_works_in_each_of_its_forms_at_every_scale() {
    for (name, _) in SHIPPED {
        let profile = profile(name);
        assert_eq!(profile.name, name);
        assert_eq!(profile.kind, "flash");
        for format in profile.formats.keys() {
            for driver in profile.drivers.keys() {
                for scale in [1, 16, 32, 64, 256] {
                    let parameters = profile.parameters(&setup(format, driver, 512, scale));
                    assert!(parameters.is_ok(), "{name} at scale {scale}: {parameters:?}");
                }
            }
        }
    }
}

/// Goes through each ready-made file as plain data, to find any figure without a source.
#[test]
fn every_figure_of_a_shipped_profile_has_a_source_and_a_fitted_one_its_bounds() {
    fn walk(path: &str, table: &toml::Table, figures: &mut u32) {
        if let Some(toml::Value::String(label)) = table.get("label") {
            let source = table["source"].as_str().expect("a source is text");
            assert!(source.len() > 8, "{path} has no source");
            let bounded = ["Bounds", "Prior", "Not published", "As ", "The figure of ", "The unit"]
                .iter()
                .any(|start| source.starts_with(start));
            assert!(label != "fitted" || bounded, "{path} is fitted: within what? {source}");
            *figures += 1;
            return;
        }
        for (key, value) in table {
            if let toml::Value::Table(inner) = value {
                walk(&format!("{path}.{key}"), inner, figures);
            }
        }
    }
    for (name, text) in SHIPPED {
        let mut figures = 0;
        walk(name, &text.parse().expect("it is TOML"), &mut figures);
        assert!(figures >= 30, "{name}: {figures} figures");
    }
}

#[test]
fn the_three_formats_leave_the_published_capacities() {
    let usable_gb = |format| iodrive(format, 1).usable_bytes() / 1_000_000_000;
    assert_eq!(
        ["basic", "improved-write", "maximum-write"].map(usable_gb),
        [299, 209, 150],
        "in whole pages, rounded down"
    );
    assert_eq!(profile("iodrive-320").formats["basic"].label, Label::Published);
}

#[test]
fn scale_shrinks_the_flash_and_leaves_the_clock_alone() {
    let (life_size, small) = (iodrive("basic", 1), iodrive("basic", 64));
    assert_eq!(life_size.shape.blocks / 64, small.shape.blocks);
    assert_eq!(life_size.shape.logical_pages / 64, small.shape.logical_pages);
    assert_eq!(
        life_size.garbage_collection.start_blocks / 64,
        small.garbage_collection.start_blocks
    );
    assert_eq!((life_size.program_ns, life_size.dies), (small.program_ns, small.dies));
}

/// Compares write amplification of the aged drive under random writes, with the profile's bursts of garbage collection.
#[test]
fn the_drive_copies_as_much_at_one_scale_as_at_another() {
    let amplification = |scale| {
        let parameters = iodrive("basic", scale);
        let (addresses, free_blocks) = (
            parameters.shape.logical_pages,
            parameters.garbage_collection.stop_blocks,
        );
        let mut rng = Rng::stream(1, "scales");
        let mut drive = Drive::new(parameters, Rng::stream(1, "drive")).expect("a shipped profile");
        let age = Age::Steady { addresses, free_blocks };
        drive.age(age, &mut rng).expect("it can be aged");
        let mut now = 0;
        for _ in 0..addresses / 2 {
            let page = u32::try_from(rng.below(u64::from(addresses))).expect("a page");
            now = drive.submit(now, Op::Write { page, pages: 1 }).expect("it is on-line");
        }
        drive.counters().ftl.write_amplification()
    };
    let [large, middle, small] = [64, 128, 256].map(amplification);
    for other in [middle, small] {
        assert!((other / large - 1.0).abs() < 0.03, "{large} {middle} {small}");
    }
}

#[test]
fn a_lone_read_of_a_database_page_takes_what_the_profile_adds_up_to() {
    let mut drive = Drive::new(
        Parameters {
            jitter_per_mille: 0,
            ..iodrive("basic", 256)
        },
        Rng::stream(1, "drive"),
    )
    .expect("a shipped profile");
    let second = 1_000_000_000;
    drive.submit(0, Op::Write { page: 0, pages: 1 }).expect("it is on-line");
    let done = drive
        .submit(second, Op::Read { page: 0, pages: 1 })
        .expect("it is on-line");
    assert_eq!(
        done - second,
        15_000 + 50_000 + 11_703,
        "command, die, 8192 bytes at 700 MB/s"
    );
}

#[test]
fn a_factory_format_that_there_is_not_is_refused_by_name() {
    let mut profile = profile("iodrive-320");
    let factory = profile.factory_format.as_mut().expect("it has one");
    factory.value = "plain".to_owned();
    assert_eq!(
        profile
            .parameters(&setup("basic", "2.2.3", 512, 64))
            .expect_err("there is no such format"),
        "drive profile 'iodrive-320': factory_format: no format 'plain'; there is: basic, improved-write, maximum-write"
    );
}

#[test]
fn an_older_driver_and_smaller_sectors_cost_the_host_more() {
    let profile = profile("iodrive-320");
    let [old, new, large] = [("1.2.7", 512), ("2.2.3", 512), ("2.2.3", 4096)].map(|(driver, sector)| {
        profile
            .parameters(&setup("basic", driver, sector, 1))
            .expect("a shipped profile")
    });
    let cpu = [&old, &new, &large].map(|parameters| parameters.host_cpu_for(8192));
    assert!(cpu.is_sorted_by(|more, less| more > less), "{cpu:?}");
    let ram = [&old, &new].map(|parameters| parameters.mapping.bytes_for(37_000_000_000));
    assert_eq!(ram[0], 10 * ram[1] + ram[0] % 10);
}

#[test]
fn a_setup_that_names_nothing_is_told_what_there_is() {
    let refusal = |setup| profile("iodrive-320").parameters(&setup).expect_err("it names nothing");
    assert_eq!(
        refusal(setup("fast", "2.2.3", 512, 64)),
        "drive profile 'iodrive-320': no format 'fast'; there is: basic, improved-write, maximum-write"
    );
    assert_eq!(
        refusal(setup("basic", "3.0", 512, 64)),
        "drive profile 'iodrive-320': no driver '3.0'; there is: 1.2.7, 2.2.3"
    );
    assert_eq!(
        refusal(setup("basic", "2.2.3", 1024, 64)),
        "drive profile 'iodrive-320': no sector size '1024'; there is: 4096, 512"
    );
    assert!(refusal(setup("basic", "2.2.3", 512, 0)).ends_with("scale is 0: 1 is life-size, more is smaller"));
    assert!(refusal(setup("basic", "2.2.3", 512, 50_000)).contains("the scale smaller"));
}

#[test]
fn a_figure_beyond_its_limits_is_refused_by_name() {
    let mut profile = profile("iodrive-320");
    let mut refusal = |dies, pace| {
        profile.geometry.dies.value = dies;
        profile.garbage_collection.pace_per_mille.value = pace;
        profile
            .parameters(&setup("basic", "2.2.3", 512, 64))
            .expect_err("it can't be")
    };
    assert!(refusal(0, 2000).ends_with("dies is 0, must be at least 1"));
    assert!(refusal(16, 1000).ends_with("pace_per_mille is 1000, must be at least 1001"));
}

#[test]
fn the_hosts_memory_shrinks_with_the_world() {
    let setup = Setup {
        host_ram_bytes: Some(64_000_000),
        trim: Some(true),
        ..setup("basic", "1.2.7", 512, 64)
    };
    let parameters = profile("iodrive-320").parameters(&setup).expect("a shipped profile");
    assert_eq!(parameters.host_ram_bytes, Some(1_000_000));
    assert!(parameters.trim, "a scenario may turn it on");
}
