//! Which mount a path lies on, from the text of `/proc/self/mountinfo`.

use std::path::Path;

/// A file system as it is mounted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: String,
    pub(super) kind: String,
    pub(super) read_only: bool,
}

/// The mount of a path (absolute, without links): the longest point that is above it; of several on one point the last.
pub(super) fn of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<Mount> = None;
    for line in mountinfo.lines() {
        let Some((mount, fs)) = line.split_once(" - ") else { continue };
        let fields: Vec<&str> = mount.split(' ').collect();
        let (Some(point), Some(options)) = (fields.get(4), fields.get(5)) else { continue };
        let point = unescape(point);
        if !path.starts_with(&point) || best.as_ref().is_some_and(|best| best.point.len() > point.len()) {
            continue;
        }
        let kind = fs.split(' ').next().unwrap_or_default().to_owned();
        let super_options = fs.rsplit(' ').next().unwrap_or_default();
        let read_only = options.split(',').chain(super_options.split(',')).any(|option| option == "ro");
        best = Some(Mount { point, kind, read_only });
    }
    best
}

/// Undoes the kernel's octal escapes of blank, tab, line feed and backslash.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:30 / /mnt/a\\040b ro,nosuid - tmpfs tmpfs rw
31 22 0:31 / /mnt/cd rw shared:5 - iso9660 /dev/sr0 ro
";

    #[test]
    fn the_longest_point_above_a_path_is_its_mount() {
        let kind = |path: &str| of(TABLE, Path::new(path)).map(|m| (m.kind, m.read_only)).unwrap();
        assert_eq!(kind("/home/x"), ("ext4".into(), false));
        assert_eq!(kind("/mnt/a b/x"), ("tmpfs".into(), true));
        assert_eq!(kind("/mnt/cd"), ("iso9660".into(), true));
        assert_eq!(kind("/mnt/cdx"), ("ext4".into(), false));
        assert_eq!(of("", Path::new("/")), None);
    }
}
