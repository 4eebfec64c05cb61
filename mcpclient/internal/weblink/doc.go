// Package weblink connects to servers with a URL: over Streamable HTTP, or over HTTP+SSE where
// a server has only that.
package weblink
