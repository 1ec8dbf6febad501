// GTK 4, the parts of GLib for Unix only, and the functions of libdispatch's main queue.
#pragma once

// GTK 4.8 has functions that later releases have deprecated, and a warning would be an error.
#define GDK_VERSION_MIN_REQUIRED GDK_VERSION_4_8
#include <gtk/gtk.h>
#include <glib-unix.h>

// libdispatch's interface for CoreFoundation, which its public headers leave out. ChappieGTKMainLoop.swift says why.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);
