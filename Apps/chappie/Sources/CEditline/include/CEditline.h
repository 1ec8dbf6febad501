// libedit's API, imported as it is, and one plain function for each way of calling its variadic ones, which Swift can't.
// These work in UTF-8 whatever the process's locale: in that of C, libedit takes a letter with an accent for two errors.
#ifndef CEDITLINE_H
#define CEDITLINE_H

#include <histedit.h>

/// A function that a key is bound to. It returns one of the CC_ constants.
typedef unsigned char (*ceditline_function)(EditLine *editor, int key);

/// An editor on the standard streams that leaves every signal to the program, Ctrl-C and Ctrl-Z being keys like others; NULL
/// without memory. `prompt` may have SGR sequences between two bytes of value 1 each.
EditLine *ceditline_open(const char *name, el_rfunc_t reader, char *(*prompt)(EditLine *));

/// Sets what the functions that the editor calls find again by `ceditline_context`; NULL at first.
void ceditline_set_context(EditLine *editor, void *context);

/// The context.
void *ceditline_context(EditLine *editor);

/// Reads a line, which el_wline has afterwards, with its line feed. Returns the number of its characters; 0 at the end of
/// the input.
int ceditline_read(EditLine *editor);

/// The columns of a character on the screen.
int ceditline_columns(wchar_t character);

/// Names a function for `ceditline_bind`. Returns 0 when it is taken.
int ceditline_add(EditLine *editor, const char *name, ceditline_function function);

/// Binds a key, or a sequence of keys, to a named function.
int ceditline_bind(EditLine *editor, const char *key, const char *name);

/// The same in the command mode of vi.
int ceditline_bind_command(EditLine *editor, const char *key, const char *name);

/// Whether the user has chosen the keys of vi.
int ceditline_is_vi(EditLine *editor);

/// Gives the terminal back to the way it was (0), or takes it again (1).
void ceditline_prepare(EditLine *editor, int takes);

/// Draws the line at the cursor, as if there were nothing of it on the screen.
void ceditline_redraw(EditLine *editor);

/// The rows that the editor has drawn below the first row of the prompt, on a screen of this width, 1 or more: down to the row
/// of the line's cursor, or all of them if `whole` is not 0.
int ceditline_rows(EditLine *editor, int prompt_columns, int screen_columns, int whole);

/// The rows between the row of the line's cursor and the first row of the prompt, once a terminal has broken them anew for this
/// width: then a row that is full has not begun the next one.
int ceditline_rows_above(EditLine *editor, int prompt_columns, int screen_columns);

/// Gives the editor a history of `limit` lines; a line that repeats the one before it is not added.
void ceditline_set_history(EditLine *editor, History *history, int limit);

/// Adds a line to the history.
void ceditline_remember(History *history, const char *line);

/// Takes all lines out of the history.
void ceditline_forget(History *history);

#endif
