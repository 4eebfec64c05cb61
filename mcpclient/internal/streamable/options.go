package streamable

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// Bounds.
const (
	defaultMessage  = 16 << 20 // WIRE-04, ROB-3
	defaultRequests = 256
	maxWaiting      = 4096     // requests in line behind those
	maxQueue        = 1024     // notifications and answers in line
	maxQueuedBytes  = 64 << 20 // of what is in line, together
	maxBatch        = 1000     // messages of an answer of 2025-03-26
	maxSession      = 4 << 10  // bytes of a session id
	shownOfPage     = 1 << 10  // bytes of an error page that are shown

	controlTime  = 30 * time.Second       // a POST that needs no answer, with all retries
	pageTime     = 10 * time.Second       // an error page
	openTime     = time.Second            // for the answer to the first GET, before calls go
	quietTime    = 5 * time.Minute        // without a byte on the GET stream
	parkTime     = time.Second            // without a byte after a message, until the GET stream has no goroutine
	wokenTime    = 20 * time.Millisecond  // the same after its header or a comment
	closeTime    = 2 * time.Second        // the DELETE (SHL-53)
	drainTime    = time.Second            // what was queued before Close
	endTime      = 5 * time.Second        // for all goroutines
	tailTime     = 250 * time.Millisecond // for the end of a stream after its response
	overtakeTime = 10 * time.Millisecond  // between a request's last byte and its cancellation
	writeTime    = 2 * time.Second        // for a request that is cancelled while it is written

	defaultRetry = time.Second // SHL-22, where the server does not say
	maxRetry     = 30 * time.Second
	minBackoff   = 100 * time.Millisecond
	maxBarren    = 5 // resumptions in a row that brought nothing
	maxBusy      = 3 // answers of 429 or 503 to one POST
)

// Options says where the server is. URL, Client, Go and Sink are required.
type Options struct {
	// URL is the MCP endpoint, http or https.
	URL *url.URL
	// Header is sent with every request. Its values are secrets. It is not changed.
	Header http.Header
	// Client carries the requests. It has no time limits of its own.
	Client *http.Client
	// Go runs f on a goroutine that the system counts.
	Go func(owner string, f func())
	// WhenReadable runs ready on a goroutine, once conn can be read or within has passed, or reports
	// false if it does not wait for such a connection. Nil waits for none: then each event stream
	// keeps a goroutine.
	WhenReadable func(owner string, conn syscall.Conn, within time.Duration, ready func()) (Wait, bool)
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
	// MaxRequests bounds the requests that are under way at once; more wait in line.
	// Zero means 256.
	MaxRequests int
	// Auth is asked about every request; nil leaves it at Header.
	Auth httpguard.Auth
	// Trouble is told, when that changes, in words why what the server sends on its own
	// account does not arrive, or "" if it does. Nil drops it.
	Trouble func(text string)
	// Denied makes the error of 401 and 403 from the status, the values of the
	// WWW-Authenticate header as they came, the same fit to be shown, and what the server
	// says. Nil means a [*StatusError].
	Denied func(status int, challenges []string, shown string, err error) error
}

// Wait is a wait for a connection.
type Wait interface {
	// Cancel ends it, and reports whether its function never runs.
	Cancel() bool
	// Wake runs its function now, unless the wait has ended.
	Wake()
	// Late reports, to its function, whether that runs because the time has passed.
	Late() bool
}

func (o Options) withDefaults() Options {
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMessage)
	o.MaxRequests = cmp.Or(o.MaxRequests, defaultRequests)
	if o.TooLong == nil {
		most := o.MaxMessage
		o.TooLong = func(bool) error { return fmt.Errorf("the message is longer than %d bytes", most) }
	}
	if o.Denied == nil {
		o.Denied = func(_ int, _ []string, _ string, err error) error { return err }
	}
	return o
}
