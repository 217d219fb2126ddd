//! Feeds one surface, named by `TOLLGATE_SURFACE`, with input from libFuzzer. Its seeds are written
//! to the folder `TOLLGATE_CORPUS`; without a surface the names are printed.
#![no_main]

#[path = "../../crates/mcp/tests/damage/surfaces.rs"]
mod protocol;
#[path = "../../crates/mcp/tests/damage/surface.rs"]
mod surface;
#[path = "../../crates/gateway/tests/damage/surfaces.rs"]
mod surfaces;

use std::path::Path;
use std::sync::LazyLock;

use surface::Surface;

static SURFACE: LazyLock<&Surface> = LazyLock::new(|| {
    let name = std::env::var("TOLLGATE_SURFACE").unwrap_or_default();
    let all = || protocol::SURFACES.iter().chain(surfaces::SURFACES);
    all().find(|surface| surface.name == name).unwrap_or_else(|| {
        for surface in all() {
            println!("{}", surface.name);
        }
        std::process::exit(0)
    })
});

libfuzzer_sys::fuzz_target!(
    init: {
        let seeds = SURFACE.seeds;
        if let Some(folder) = std::env::var_os("TOLLGATE_CORPUS") {
            for (number, seed) in seeds.iter().enumerate() {
                let file = Path::new(&folder).join(format!("seed-{number}"));
                std::fs::write(file, seed).expect("the corpus can be written");
            }
        }
    },
    |bytes: &[u8]| (SURFACE.read)(bytes)
);
