#if canImport(Combine)
    public import Combine

    extension ChappieAuthSession: ObservableObject {}
#endif
