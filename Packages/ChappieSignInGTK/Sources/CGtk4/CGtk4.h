// GTK 4, what GLib has for Unix alone, and the door of libdispatch's main queue.
#pragma once

#include <gtk/gtk.h>
#include <glib-unix.h>

// libdispatch's interface for CoreFoundation, which its public headers leave out. ChappieGTKMainLoop.swift says what for.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);
