// Package gateway offers the tools, resources and prompts of a runtime's MCP servers on the
// server of one client.
//
//	backend's notice, or a new connection ──▶ serverSync reads its lists ──▶ lists offers the changes
//
// A [Gateway] belongs to one client. It reads the lists of each backend (a server behind the
// gateway) when they change, and registers tools, resources, templates and prompts under names
// and URIs that are unique among the backends. A client's call becomes a call of a backend, in
// an operation of package relay; its subscriptions become subscriptions to backends, and logs
// and log levels pass through.
//
// A backend that is slow, or has failed, delays no other: its last good lists stay. The
// client's server decides how often the client is notified of changes.
package gateway
