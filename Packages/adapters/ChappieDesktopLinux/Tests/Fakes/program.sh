#!/bin/sh
# Stands for any program of the desktop, under the name of a link to it; a test writes what it does to $FOLDER/NAME.sh.
# A file that was written a moment ago can't be executed safely while other threads start programs ("text file busy");
# this one was written long ago.
. "$FOLDER/${0##*/}.sh"
