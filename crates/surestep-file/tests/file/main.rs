//! The file store, end to end, on the real disk and on one that fails.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod gc;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod room;
#[cfg(test)]
mod support;
