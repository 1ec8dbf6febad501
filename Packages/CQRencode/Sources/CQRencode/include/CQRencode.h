// libqrencode's interface, imported as it is.
#include <qrencode.h>
