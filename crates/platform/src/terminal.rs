//! The terminal that stdout writes to.

/// Its width in columns; none if there is no terminal, or it does not tell.
pub fn columns() -> Option<usize> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}
