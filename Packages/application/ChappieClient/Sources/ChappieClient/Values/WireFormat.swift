/// The backend's wire format that this client speaks.
@_spi(ChappieInternals) public enum WireFormat {
    /// The backend filters its model list by this version, and refuses new models to an old one. It names a format, not a
    /// program: `originator` and `user-agent` name the program.
    public static let version = "0.163.0"
}
