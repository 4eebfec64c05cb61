// Package oldsse is the client's side of HTTP+SSE, the transport of 2024-11-05: the
// server speaks on one event stream, whose first event says where the client's
// messages are to be POSTed (SSE-01..12).
//
//	l, err := oldsse.Dial(ctx, oldsse.Options{URL: u, Client: client, Go: sys.Go, Sink: sink})
//
// # What is promised
//
//   - Messages go to the origin of the stream and nowhere else (SSE-04, SECA-22).
//   - They are POSTed in order. One that is not answered at once does not hold up
//     those after it for long: some servers answer a POST only when the work is done,
//     and may ask us something in between.
//   - A POST that fails ends its request alone; the end of the stream ends the link.
//   - Everything is bounded: events, what waits, POSTs at once, error pages, the waits
//     for the endpoint and in [Link.Close]. After Close nothing of the link is left.
//   - The endpoint, whose query is the session's key, and the values of the configured
//     headers never get into a log or an error.
package oldsse
