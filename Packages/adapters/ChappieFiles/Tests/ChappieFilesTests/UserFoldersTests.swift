import ChappieAuth
import Glibc
import Testing

@_spi(ChappieInternals) @testable import ChappieFiles

/// Where a user's programs keep their files.
struct UserFoldersTests {
    // MARK: Linux

    @Test(
        arguments: [
            ([:], nil, nil),
            (["HOME": "/home/a"], "/home/a/.local/state/chappie", "/home/a/.cache/chappie"),
            (["XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"], "/s/chappie", "/c/chappie"),
            (["HOME": "/home/a", "XDG_STATE_HOME": "/s"], "/s/chappie", "/home/a/.cache/chappie"),
            // Relative paths are to be ignored.
            (
                ["HOME": "/home/a", "XDG_STATE_HOME": "s", "XDG_CACHE_HOME": ""], "/home/a/.local/state/chappie",
                "/home/a/.cache/chappie"
            ),
            (["HOME": ""], nil, nil), (["HOME": "home"], nil, nil), (["HOME": "/h\u{FFFD}"], nil, nil),
            (["HOME": "/home/a", "XDG_STATE_HOME": "/s\u{FFFD}"], nil, "/home/a/.cache/chappie"),
        ] as [([String: String], String?, String?)])
    func theEnvironmentSaysWhereLinuxKeepsThem(_ environment: [String: String], _ state: String?, _ cache: String?) {
        let folders = UserFolders(xdg: { environment[$0] }, userHome: { nil })
        #expect(folders.problem != nil || state != nil && cache != nil)
        #expect(folders.state == state && folders.cache == cache && folders.locks == state.map { $0 + "/locks" })
    }

    @Test func `a home directory that is not set is the one of the user database`() {
        for environment in [[:], ["HOME": ""], ["XDG_CONFIG_HOME": "relative"]] {
            let folders = UserFolders(xdg: { environment[$0] }, userHome: { "/home/db" })
            #expect(folders.home == "/home/db" && folders.configuration == "/home/db/.config/chappie")
            #expect(folders.data == "/home/db/.local/share/chappie" && folders.problem == nil)
        }
        for (home, reason) in [("relative", "HOME is not an absolute path"), ("/a\u{FFFD}", "HOME is not UTF-8")] {
            let folders = UserFolders(xdg: { ["HOME": home][$0] }, userHome: { "/home/db" })
            #expect(folders.home == nil)
            #expect(folders.state == nil)
            #expect(folders.problem?.reason == reason)
        }
    }

    @Test func `the user database is asked for this user`() {
        let entry = getpwuid(geteuid())?.pointee.pw_dir.map { String(cString: $0) }
        #expect(UserFolders.userHome() == entry)
    }

    @Test func `every folder follows the same rule`() {
        let variables = ["HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "~/d", "XDG_STATE_HOME": "s"]
        let folders = UserFolders(xdg: { variables[$0] })
        #expect(folders.configuration == "/c/chappie" && folders.data == "/h/.local/share/chappie")
        #expect(folders.state == "/h/.local/state/chappie" && folders.cache == "/h/.cache/chappie")
    }

    // MARK: Apple's platforms

    /// A system on which this program is in the app group `group.team`.
    private let system = UserFolders.AppleSystem(state: "/support/com.example.app/Chappie", cache: "/caches/Chappie") {
        $0 == "group.team" ? "/groups/" + $0 : nil
    }

    @Test func `one program's files are in its own Application Support folder`() {
        let folders = UserFolders(on: system)
        #expect(folders.state == "/support/com.example.app/Chappie" && folders.cache == "/caches/Chappie")
        #expect(folders.locks == "/support/com.example.app/Chappie/locks")
    }

    @Test func `the notes of an app group are in its folder`() throws {
        let folders = try UserFolders(on: system, appGroup: "group.team")
        #expect(folders.locks == "/groups/group.team/Library/Application Support/Chappie/locks")
    }

    @Test func `an app group that this program can't use is an error`() {
        let words = "this program can't use the folder of the app group group.other"
        let error = #expect(throws: CredentialStoreError.noSharedFolder(words)) {
            try UserFolders(on: system, appGroup: "group.other")
        }
        #expect(error?.errorDescription?.contains(words) == true)
        #expect(error?.recoverySuggestion?.contains("`appGroup:`") == true)
    }
}
