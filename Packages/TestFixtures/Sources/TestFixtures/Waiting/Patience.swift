public import Testing

/// How long tests wait.
public enum Patience {
    /// For anything that will come: so long that only what hangs takes longer, on a busy machine as well.
    public static let limit = Duration.seconds(60)
}

extension Tag {
    /// A test that takes seconds on an idle machine.
    @Tag public static var slow: Self
}
