package oldsse

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// Bounds.
const (
	defaultMessage  = 16 << 20 // WIRE-04, ROB-3
	defaultEndpoint = 30 * time.Second
	maxEarlyEvents  = 16       // before the endpoint
	maxQueue        = 4096     // messages in line
	maxQueuedBytes  = 64 << 20 // of them
	maxPosts        = 64       // POSTs at once
	shownOfPage     = 1 << 10  // bytes of an error page that are shown
	maxDrained      = 4 << 10  // bytes of an answer that are read to keep its connection

	passTime  = 500 * time.Millisecond // a POST is waited for before the next one goes
	postTime  = 10 * time.Minute       // a POST altogether: as long as a call may take
	pageTime  = 10 * time.Second       // an error page
	drainTime = time.Second            // what was queued before Close
	endTime   = 5 * time.Second        // for all goroutines
)

// Options says where the server is. URL, Client, Go and Sink are required.
type Options struct {
	// URL is where the stream is.
	URL *url.URL
	// Header is sent with every request. Its values are secrets. It is not changed.
	Header http.Header
	// Client carries the requests, see httpguard.NewClient.
	Client *http.Client
	// Go runs f on a goroutine that the system counts.
	Go func(owner string, f func())
	// Name is the server's, for owners of goroutines.
	Name string
	// Log takes structured logs. Nil discards them.
	Log *slog.Logger
	// Sink takes what comes.
	Sink mcp.CallSink
	// MaxMessage bounds each message, in bytes, both ways. Zero means 16 MiB.
	MaxMessage int
	// TooLong makes the error of a message that is longer, and certainly the answer to the
	// request that gets it, or not. Nil says no more than that.
	TooLong func(certain bool) error
	// Endpoint bounds the wait for the stream's first event. Zero means 30 s.
	Endpoint time.Duration
	// Auth is asked about every request; nil leaves it at Header.
	Auth httpguard.Auth
	// Denied makes the error of 401 and 403 from the status, the values of the
	// WWW-Authenticate header as they came, the same fit to be shown, and what the server
	// says. Nil means what the server says.
	Denied func(status int, challenges []string, shown string, err error) error
}

func (o Options) withDefaults() Options {
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMessage)
	o.Endpoint = cmp.Or(o.Endpoint, defaultEndpoint)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.TooLong == nil {
		most := o.MaxMessage
		o.TooLong = func(bool) error { return fmt.Errorf("the message is longer than %d bytes", most) }
	}
	if o.Denied == nil {
		o.Denied = func(_ int, _ []string, _ string, err error) error { return err }
	}
	return o
}

// headers are those of one kind of request, with the configured ones.
func (o *Options) headers(ours ...string) http.Header {
	h := make(http.Header, len(o.Header)+len(ours)/2)
	for name, values := range o.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	for i := 0; i < len(ours); i += 2 {
		h[ours[i]] = []string{ours[i+1]}
	}
	return h
}
