// libcmark-gfm's API, imported as it is, and the width of a character on a terminal whatever the process's locale.
#ifndef CCMARK_H
#define CCMARK_H

#include <cmark-gfm.h>
#include <cmark-gfm-core-extensions.h>
#include <stdint.h>

/// A parser with the extensions of GitHub's Markdown: tables, strikethrough by two tildes, autolinks and task lists.
cmark_parser *ccmark_parser_new(void);

/// wcwidth() in a UTF-8 locale: 0, 1 or 2 columns, or -1 for what is not printed or not known.
int ccmark_columns(uint32_t scalar);

#endif
