// Package httpguard is the HTTP client of the transports: one for all servers of a
// host, with what a hostile server must not get away with taken away (ROB-3, ROB-6,
// ROB-8).
//
// [NewClient] makes it, [Do] sends a request, [Body] reads the answer:
//
//   - It keeps no cookies, and follows no redirect but that of a GET to the same
//     origin.
//   - A proxy is used as the environment says, but not for this machine.
//   - What is read is bounded, after decompression too.
//   - Errors name no URL: its query may be a secret. [Redact] takes it out of what a
//     server says.
//   - The answer to a request marked by [Lasting] is a [Stream], which costs little while
//     nothing comes; it is for HTTP/1.1 without a proxy.
//   - HTTP/2 is used where TLS agrees on it; a connection that has become silent is
//     pinged, so that a stream does not hang on one that is gone.
//
// An address is http:, https:, or unix: for HTTP over a socket, see [ParseURL].
package httpguard
