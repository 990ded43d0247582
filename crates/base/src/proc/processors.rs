//! CPU time by state, from `/proc/stat`.

/// Returns each CPU's time by state since boot.
pub fn here() -> Vec<Processor> {
    parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default()).collect()
}

/// One CPU's time by state since boot, in clock ticks. Guest time is included in `user`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Processor {
    pub number: u32,
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    /// Idle with disk I/O outstanding (iowait).
    pub waiting: u64,
    pub hard_interrupts: u64,
    pub soft_interrupts: u64,
    pub stolen: u64,
}

/// Parses the text of `/proc/stat`.
pub fn parse(text: &str) -> impl Iterator<Item = Processor> + '_ {
    text.lines().filter_map(|line| {
        // The line `cpu`, followed by two blanks, is the sum over all CPUs.
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = fields.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        let mut ticks = || fields.next()?.parse().ok();
        Some(Processor {
            number,
            user: ticks()?,
            nice: ticks()?,
            system: ticks()?,
            idle: ticks()?,
            waiting: ticks()?,
            hard_interrupts: ticks()?,
            soft_interrupts: ticks()?,
            stolen: ticks()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_is_read_and_not_their_sum() {
        let text = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 3 9 10\ncpu12 1 2 3 4 5 6 7 5 9 10\nintr 3\n";
        let found: Vec<Processor> = parse(text).collect();
        let first =
            Processor { number: 0, user: 1, nice: 2, system: 3, idle: 4, waiting: 5, hard_interrupts: 6, soft_interrupts: 7, stolen: 3 };
        assert_eq!(found, [first, Processor { number: 12, stolen: 5, ..first }]);
        assert_eq!(parse("cpu0 1 2 3").next(), None);
        assert!(!here().is_empty());
    }
}
