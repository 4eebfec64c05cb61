// Package hostconfig reads the MCP server configuration of other hosts.
//
// [Load] takes the files of Claude Code, Claude Desktop, Copilot, Cursor and
// Gemini CLI (mcpServers) and of VS Code (servers and inputs): JSON with
// comments and trailing commas. The spellings of all of them end in one
// [Server]. Variables are expanded in its fields, never by a shell; an unset
// one is an error that names file, server and field.
//
// A file that cannot be read as a whole is an error. One bad entry is not: it
// has [Server.Err], and the other servers go on. Nothing is started, contacted
// or trusted here; [Server.Hash] tells whether what was approved has changed.
package hostconfig
