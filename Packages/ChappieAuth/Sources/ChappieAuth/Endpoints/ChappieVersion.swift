/// The version of this source tree.
public enum ChappieVersion {
    /// Semantic version (semver.org 2.0).
    public static let current = "0.1.0"
}
