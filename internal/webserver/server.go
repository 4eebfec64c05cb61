// Package webserver is how Troupe listens for HTTP. What strangers can use up is bounded here, for
// all listeners and all paths at once: the time that a request takes to arrive, with its body, be it
// read or refused, and the connections of one address.
//
//	l, err := net.Listen("tcp", address)
//	server := webserver.New(handler)
//	err = server.Serve(webserver.Limit(l, webserver.Limits{Connections: 1024}))
//
// A handler that programs mount on servers of their own calls [BoundBody] for each request.
package webserver

import (
	"net/http"
	"time"
)

// BodyTime bounds the time in which a request arrives, with its body.
const BodyTime = 30 * time.Second

// leftTime bounds the time in which the rest of a body arrives that the handler has left: net/http
// reads it before it answers.
const leftTime = 5 * time.Second

// New returns a server whose requests have bounds: 10 s for the headers, BodyTime with the body, 5 s
// for a body that the handler has refused to read, 32 KiB of headers, two minutes between two
// requests. A handler may take as long as it likes.
func New(h http.Handler) *http.Server {
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: BodyTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := time.Now().Add(s.ReadTimeout)
		h.ServeHTTP(w, r)
		if left := time.Now().Add(leftTime); r.ContentLength != 0 && left.Before(until) {
			_ = http.NewResponseController(w).SetReadDeadline(left) // net/http has deadlines
		}
	})
	return s
}

// BoundBody bounds the time of a request's body by BodyTime, unless the server has a ReadTimeout. It
// holds for a body that the handler leaves, too: net/http reads that before it answers. Call it
// first in a handler, and [BodyRead] later. Where w has no deadlines the server's own bounds hold.
func BoundBody(w http.ResponseWriter, r *http.Request) {
	if bounds(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyTime))
	}
}

// BodyRead ends the bound of BoundBody. A handler that may take long calls it when it has read the
// body, or what ends the connection would end with the bound. One that is soon done may leave it out.
func BodyRead(w http.ResponseWriter, r *http.Request) {
	if bounds(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
}

// bounds reports whether a body is ours to bound.
func bounds(r *http.Request) bool {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	return r.ContentLength != 0 && (server == nil || server.ReadTimeout <= 0)
}
