//! The options that every command takes.

use std::path::PathBuf;

use clap::Args;

use crate::logging::LogFormat;
use crate::output::ColorWhen;

#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Where tollgate keeps its files [env: TOLLGATE_HOME]
    #[arg(long, global = true, value_name = "DIR", env = "TOLLGATE_HOME", hide_env = true)]
    pub(crate) home: Option<PathBuf>,
    /// Settings file [default: tollgate.toml in the home]
    #[arg(long, global = true, value_name = "FILE", env = "TOLLGATE_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// Postgres that gates share [env: TOLLGATE_STORE]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub(crate) store: Option<String>,
    /// Print JSON for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colour: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) color: ColorWhen,
    /// How much to log: error, warn, info, debug
    #[arg(long, global = true, value_name = "LEVEL", env = "TOLLGATE_LOG", hide_env = true)]
    pub(crate) log: Option<String>,
    /// Log lines: human or json
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        env = "TOLLGATE_LOG_FORMAT",
        hide_env = true,
        hide_possible_values = true,
        hide = true
    )]
    pub(crate) log_format: Option<LogFormat>,
}
