"""When triggers fire: `due(since, until)`, without a clock. Times are milliseconds since 1970, UTC."""
