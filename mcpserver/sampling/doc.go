// Package sampling gives servers models: [Loop] lets a model call Go functions for a
// handler, by way of the client's sampling, and [NewModel] is a model of the server's own
// for clients that have none. A server that uses neither does not link models and loops.
package sampling
