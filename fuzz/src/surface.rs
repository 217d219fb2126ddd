//! Feeds one surface, named by `TOLLGATE_SURFACE`, with what libFuzzer makes up. Its whole inputs are
//! laid into the folder `TOLLGATE_CORPUS` to begin from; without a surface the names are printed.
#![no_main]

#[path = "../../crates/gateway/tests/damage/surfaces.rs"]
mod surfaces;

use std::path::Path;
use std::sync::LazyLock;

use surfaces::{SURFACES, Surface};

static SURFACE: LazyLock<&Surface> = LazyLock::new(|| {
    let name = std::env::var("TOLLGATE_SURFACE").unwrap_or_default();
    SURFACES.iter().find(|surface| surface.name == name).unwrap_or_else(|| {
        for surface in SURFACES {
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
