//! Clocks: read here, and nowhere in the core.

use std::time::{SystemTime, UNIX_EPOCH};

use surestep_core::{Mark, Now, Wall};

/// Says what time it is. Replace it in tests.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, for people, and the boot clock, which decides.
    fn now(&self) -> Now;
}

/// The system's clocks: `CLOCK_REALTIME` through std, and `CLOCK_BOOTTIME` with the kernel's boot id.
#[derive(Debug, Clone)]
pub struct SystemClock {
    boot: String,
}

impl SystemClock {
    /// Reads the boot id once. Where there is none, each process counts as a boot of its own: slower, never unsafe.
    #[must_use]
    pub fn new() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = match boot.trim() {
            "" => format!("process-{}", crate::random_id()),
            id => id.to_owned(),
        };
        Self { boot }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let ms = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000)
            + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
        Now { wall: Wall::from_unix_ms(wall), mark: Mark::new(self.boot.clone(), ms) }
    }
}
