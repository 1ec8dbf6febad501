#define _GNU_SOURCE
#include "CCMark.h"

#include <locale.h>
#include <pthread.h>
#include <wchar.h>

static locale_t utf8;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void) {
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    cmark_gfm_core_extensions_ensure_registered();
}

cmark_parser *ccmark_parser_new(void) {
    static const char *const names[] = {"table", "strikethrough", "autolink", "tasklist"};
    pthread_once(&once, set_up);
    // One tilde is often a word's own: "~5 km".
    cmark_parser *parser = cmark_parser_new(CMARK_OPT_STRIKETHROUGH_DOUBLE_TILDE);
    for (size_t i = 0; parser != NULL && i < sizeof names / sizeof *names; i++) {
        cmark_syntax_extension *extension = cmark_find_syntax_extension(names[i]);
        if (extension != NULL) cmark_parser_attach_syntax_extension(parser, extension);
    }
    return parser;
}

int ccmark_columns(uint32_t scalar) {
    pthread_once(&once, set_up);
    if (utf8 == (locale_t)0) return -1;
    locale_t before = uselocale(utf8);
    int columns = wcwidth((wchar_t)scalar);
    uselocale(before);
    return columns;
}
