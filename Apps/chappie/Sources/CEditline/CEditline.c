#define _GNU_SOURCE
#include "CEditline.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static locale_t utf8;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_locale(void) { utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0); }

/// The locale of this thread alone; the caller sets the one that is returned again.
static locale_t enter_utf8(void) {
    pthread_once(&once, make_locale);
    return utf8 == (locale_t)0 ? (locale_t)0 : uselocale(utf8);
}

static void leave_utf8(locale_t before) {
    if (before != (locale_t)0) uselocale(before);
}

EditLine *ceditline_open(const char *name, el_rfunc_t reader, char *(*prompt)(EditLine *)) {
    locale_t before = enter_utf8();
    EditLine *editor = el_init(name, stdin, stdout, stderr);
    if (editor != NULL) {
        el_set(editor, EL_EDITOR, "emacs");
        el_set(editor, EL_SIGNAL, 0);
        // A carriage return stays one: before a line feed, it would else be an empty line of a paste.
        el_set(editor, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", NULL);
        el_set(editor, EL_PROMPT_ESC, prompt, '\1');
        el_set(editor, EL_GETCFN, reader);
        // The user's own bindings, such as those of vi.
        el_source(editor, NULL);
    }
    leave_utf8(before);
    return editor;
}

void ceditline_set_context(EditLine *editor, void *context) { el_set(editor, EL_CLIENTDATA, context); }

void *ceditline_context(EditLine *editor) {
    void *context = NULL;
    el_get(editor, EL_CLIENTDATA, &context);
    return context;
}

int ceditline_read(EditLine *editor) {
    locale_t before = enter_utf8();
    int count = 0;
    if (el_wgets(editor, &count) == NULL) count = 0;
    leave_utf8(before);
    return count;
}

int ceditline_columns(wchar_t character) {
    locale_t before = enter_utf8();
    int columns = wcwidth(character);
    leave_utf8(before);
    return columns > 0 ? columns : 0;
}

int ceditline_add(EditLine *editor, const char *name, ceditline_function function) {
    return el_set(editor, EL_ADDFN, name, name, function);
}

int ceditline_bind(EditLine *editor, const char *key, const char *name) {
    return el_set(editor, EL_BIND, key, name, NULL);
}

int ceditline_bind_command(EditLine *editor, const char *key, const char *name) {
    return el_set(editor, EL_BIND, "-a", key, name, NULL);
}

int ceditline_is_vi(EditLine *editor) {
    const char *name = NULL;
    return el_get(editor, EL_EDITOR, &name) == 0 && name != NULL && strcmp(name, "vi") == 0;
}

void ceditline_prepare(EditLine *editor, int takes) { el_set(editor, EL_PREP_TERM, takes); }

void ceditline_redraw(EditLine *editor) { el_set(editor, EL_REFRESH); }

int ceditline_rows(EditLine *editor, int prompt_columns, int screen_columns, int whole) {
    const LineInfoW *line = el_wline(editor);
    const wchar_t *end = whole ? line->lastchar : line->cursor;
    int rows = 0, column = prompt_columns;
    for (const wchar_t *at = line->buffer; at < end; at++) {
        int width = wcwidth(*at), is_shown = width >= 0;
        // As ct_visual_width of libedit has them: ^A, \U+1234, \U+12345.
        if (!is_shown) width = *at < 0x100 ? 2 : *at > 0xFFFF ? 8 : 7;
        if (*at == L'\t') width = 8 - column % 8;
        if (*at == L'\n') width = screen_columns - column;
        // A tab ends at the margin, and so does the space before a wide character that has no room in the row.
        if (column + width > screen_columns && (is_shown || *at == L'\t')) {
            rows++;
            column = 0;
            if (*at == L'\t') continue;
        }
        for (column += width; column >= screen_columns; column -= screen_columns) rows++;
    }
    return rows;
}

int ceditline_rows_above(EditLine *editor, int prompt_columns, int screen_columns) {
    const LineInfoW *line = el_wline(editor);
    int rows = 0, column = prompt_columns;
    for (; column > screen_columns; column -= screen_columns) rows++;
    for (const wchar_t *at = line->buffer; at < line->cursor; at++) {
        int width = wcwidth(*at);
        if (*at == L'\t') width = 8 - column % 8;
        if (*at == L'\n') {
            rows++;
            column = 0;
        } else if (width > 0) {
            if (column + width > screen_columns) {
                rows++;
                column = 0;
            }
            column += width;
        }
    }
    return rows;
}

void ceditline_set_history(EditLine *editor, History *lines, int limit) {
    HistEvent event;
    history(lines, &event, H_SETSIZE, limit);
    history(lines, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_HIST, history, lines);
}

void ceditline_remember(History *lines, const char *line) {
    HistEvent event;
    locale_t before = enter_utf8();
    history(lines, &event, H_ENTER, line);
    leave_utf8(before);
}

void ceditline_forget(History *lines) {
    HistEvent event;
    history(lines, &event, H_CLEAR);
}
