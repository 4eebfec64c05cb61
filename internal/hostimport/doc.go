// Package hostimport reads the MCP servers that other hosts are configured with, to
// be copied into a configuration of our own. It starts nothing, expands nothing and
// takes no trust over: what a file says of that is the user's to say again.
package hostimport
