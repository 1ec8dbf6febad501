/// How long tests wait.
public enum Patience {
    /// For anything that will come: so long that only what hangs takes longer, on a busy machine as well.
    public static let limit = Duration.seconds(60)
}
