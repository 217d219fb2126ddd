//! Event streams, as far as the benchmark reads them: where an event ends and what its data is.

/// Where the first whole event in `b` ends, and how long its separator is.
pub(crate) fn event_end(b: &[u8]) -> Option<(usize, usize)> {
    let mut i = 0;
    while i + 1 < b.len() {
        if b[i] == b'\n' && b[i + 1] == b'\n' {
            return Some((i, 2));
        }
        if b[i..].starts_with(b"\r\n\r\n") {
            return Some((i, 4));
        }
        i += 1;
    }
    None
}

/// The data lines of one event, joined.
pub(crate) fn event_data(event: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in event.split(|c| *c == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(d) = line.strip_prefix(b"data:") {
            if !out.is_empty() {
                out.push(b'\n');
            }
            out.extend_from_slice(d.strip_prefix(b" ").unwrap_or(d));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events() {
        let b = b"event: message\r\ndata: {\"a\":1}\r\n\r\nid: 3\ndata: x\ndata: y\n\n";
        let (end, skip) = event_end(b).unwrap();
        assert_eq!(event_data(&b[..end]), b"{\"a\":1}");
        let rest = &b[end + skip..];
        let (end, _) = event_end(rest).unwrap();
        assert_eq!(event_data(&rest[..end]), b"x\ny");
        assert!(event_end(b"data: unfinished\n").is_none());
    }
}
