// libpq, imported as it is, and what Swift can't reach of it.
#ifndef CPOSTGRES_H
#define CPOSTGRES_H

// Debian keeps the header in a folder of its own.
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#include <libpq-fe.h>
#endif

/// Begins to connect as `text` says, a URI or pairs of keyword and value. Text goes in and out as UTF-8; a connection over
/// which nothing is acknowledged for 10 s breaks, unless `text` says otherwise; notices of the server are dropped, which
/// libpq would write to standard error.
PGconn *chappie_postgres_connect(const char *text);

/// The five characters of an error's SQLSTATE; NULL when it has none, as when the connection broke.
const char *chappie_postgres_code(const PGresult *result);

/// An error's first line, without the server's details.
const char *chappie_postgres_message(const PGresult *result);

#endif
