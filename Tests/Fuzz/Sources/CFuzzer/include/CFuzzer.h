#ifndef CHAPPIE_CFUZZER_H
#define CHAPPIE_CFUZZER_H

#include <stddef.h>
#include <stdint.h>

/// libFuzzer's own entry (https://llvm.org/docs/LibFuzzer.html, "Using libFuzzer as a library"): a Swift program keeps
/// its `main` and hands over from there.
int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*input)(const uint8_t *bytes, size_t count));

#endif
