"""Every verb of Weft, declared once: its name, HTTP route, role, request, reply and errors, with its implementation
on a store beside it. Clients, API routes, the OpenAPI document, MCP tools, tests and reference pages are made from
`table.OPERATIONS`."""
