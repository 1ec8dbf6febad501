// GTK 4, what GLib has for Unix alone, and the door of libdispatch's main queue.
#pragma once

// What later releases have deprecated is what 4.8 has, and a warning would be an error.
#define GDK_VERSION_MIN_REQUIRED GDK_VERSION_4_8
#include <gtk/gtk.h>
#include <glib-unix.h>

// libdispatch's interface for CoreFoundation, which its public headers leave out. ChappieGTKMainLoop.swift says what for.
int _dispatch_get_main_queue_handle_4CF(void);
void _dispatch_main_queue_callback_4CF(void *message);
