// `import ChappieSDKTesting` brings the kit and the simulator in one line.

@_exported import ChappieSimulator
@_exported import ChappieTesting
