// Package agenttools offers agents on an MCP server: each agent is a tool that runs it and a
// prompt, and its runs are resources.
//
// [Server.Offer] registers an agent with the server of one client. [History] keeps the runs
// that all clients of a front started.
package agenttools
