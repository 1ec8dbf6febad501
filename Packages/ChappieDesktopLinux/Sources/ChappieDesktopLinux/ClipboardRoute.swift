import ChappieAuth

/// A way to a clipboard.
enum ClipboardRoute: Hashable {
    case program(path: String, arguments: [String])
    case terminal(insideTmux: Bool)

    /// The ways that are open here, the surest first.
    static func routes(in environment: DesktopEnvironment) -> [ClipboardRoute] {
        var routes: [ClipboardRoute] = []
        if environment["WAYLAND_DISPLAY"] != nil, let path = environment.executable("wl-copy") {
            // The type is said, or wl-copy would run another program to guess it.
            routes.append(.program(path: path, arguments: ["--type", "text/plain"]))
        }
        if environment["DISPLAY"] != nil, let path = environment.executable("xclip") {
            routes.append(.program(path: path, arguments: ["-selection", "clipboard", "-in"]))
        }
        // A terminal that does not know the sequence shows it: the console and everything that calls itself dumb.
        if let terminal = environment["TERM"], terminal != "dumb", terminal != "linux" {
            routes.append(.terminal(insideTmux: environment["TMUX"] != nil))
        }
        return routes
    }

    /// What to tell a person when no way led anywhere.
    static func failure(in environment: DesktopEnvironment) -> DesktopError {
        if environment["WAYLAND_DISPLAY"] != nil, environment.executable("wl-copy") == nil {
            return DesktopError(
                "Nothing was copied: wl-copy is missing. Install the package wl-clipboard, or copy by hand.")
        }
        if environment["DISPLAY"] != nil, environment.executable("xclip") == nil {
            return DesktopError("Nothing was copied: xclip is missing. Install the package xclip, or copy by hand.")
        }
        if environment.hasDisplay {
            return DesktopError("Nothing was copied: the display's clipboard can't be reached. Copy by hand.")
        }
        return DesktopError(
            "Nothing was copied: there is neither a display nor a terminal with a clipboard. Copy by hand.")
    }
}
