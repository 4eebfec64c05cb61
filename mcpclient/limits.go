package mcpclient

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Bounds on what servers may ask (ROB-9, SECA-33, SECA-43).
const (
	maxAsks      = 1024 // questions of all servers of a host, open and waiting
	waitingTimes = 4    // questions that may wait, for each that may be open
	maxAsked     = 64   // requests of one server under way

	urlsAtOnce   = 1
	urlsEvery    = 12 * time.Second // 5 a minute
	urlsBurst    = 5
	samplesEvery = time.Second
	samplesBurst = 20
)

// askPool bounds the questions of all servers of a host.
type askPool struct{ n atomic.Int32 }

func (p *askPool) enter() bool {
	if p.n.Add(1) > maxAsks {
		p.n.Add(-1)
		return false
	}
	return true
}

func (p *askPool) leave() { p.n.Add(-1) }

// askLimits bounds the questions of one server.
type askLimits struct {
	opts *AskOptions
	pool *askPool

	mu    sync.Mutex
	made  *askGates // nil before the first question: most servers ask none
	n     int       // open and waiting
	off   bool
	ends  map[int]context.CancelCauseFunc // of those, by an arbitrary number
	lastN int
}

// askGates is what the questions of one server pass.
type askGates struct {
	open    chan struct{} // has room for as many as may be open
	pages   chan struct{} // has room for the URL that is asked about
	urls    *rate.Limiter
	samples *rate.Limiter
	tokens  *rate.Limiter // to be sampled
}

func newAskLimits(o *AskOptions, pool *askPool) *askLimits {
	return &askLimits{opts: o, pool: pool}
}

func (l *askLimits) gates() *askGates {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		tokens := l.opts.SampleTokens
		l.made = &askGates{
			open: make(chan struct{}, l.opts.AskLimit), pages: make(chan struct{}, urlsAtOnce),
			urls:    rate.NewLimiter(rate.Every(urlsEvery), urlsBurst),
			samples: rate.NewLimiter(rate.Every(samplesEvery), samplesBurst),
			tokens:  rate.NewLimiter(rate.Limit(float64(tokens)/time.Hour.Seconds()), tokens),
		}
	}
	return l.made
}

// most is how many may be open and waiting.
func (l *askLimits) most() int { return l.opts.AskLimit * (1 + waitingTimes) }

// Why a question is declined without an answer.
var (
	errTooMany  = errors.New("too many questions")
	errNobody   = errors.New("nobody is there to be asked")
	errDeclined = errors.New("all questions of the server are declined")
	errExpired  = errors.New("nobody has answered in time")
	errGone     = errors.New("the call that it belongs to was given up")

	// Of questions that may belong to several calls, or to none.
	errUnknownCall    = errors.New("the server does not say which call it asks for, and no call is under way that it can be for")
	errOwners         = errors.New("the server does not say which call it asks for, and the calls under way have different owners")
	errAbandonedOwner = errors.New("the server may ask for a cancelled call of another owner, who alone may see the question")
)

// full reports whether enter would refuse: then a form need not be read at all.
func (l *askLimits) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.off || l.n >= l.most() || l.pool.n.Load() >= maxAsks
}

// refuses returns [errDeclined] if all questions are to be declined, else nil.
func (l *askLimits) refuses() error {
	if l.declines() {
		return errDeclined
	}
	return nil
}

// enter counts a question in. The error is why it is to be declined at once; cancel
// is called if all are to be declined.
func (l *askLimits) enter(cancel context.CancelCauseFunc) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.off:
		return nil, errDeclined
	case l.n >= l.most() || !l.pool.enter():
		return nil, errTooMany
	}
	l.n++
	l.lastN++
	key := l.lastN
	if l.ends == nil {
		l.ends = make(map[int]context.CancelCauseFunc)
	}
	l.ends[key] = cancel
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.n--
		l.pool.leave()
		delete(l.ends, key)
	}, nil
}

// turn waits until the question may be shown.
func (l *askLimits) turn(ctx context.Context, kind AskKind) (leave func(), err error) {
	leave, err = l.gates().take(ctx, kind)
	if err != nil {
		return nil, err
	}
	if l.declines() { // what it waited for may have been declined before it was itself
		leave()
		return nil, errDeclined
	}
	return leave, nil
}

func (l *askLimits) declines() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.off
}

func (g *askGates) take(ctx context.Context, kind AskKind) (leave func(), err error) {
	if kind != AskURL {
		return take(ctx, g.open)
	}
	page, err := take(ctx, g.pages)
	if err != nil {
		return nil, err
	}
	open, err := take(ctx, g.open)
	if err != nil {
		page()
		return nil, err
	}
	return func() { open(); page() }, nil
}

func take(ctx context.Context, room chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		if ctx.Err() != nil { // both at once: nobody is asked what is over
			<-room
			return nil, context.Cause(ctx)
		}
		return func() { <-room }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// decline turns the decline-all on or off. On, it declines what is open, too.
func (l *askLimits) decline(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = on
	if on {
		for _, cancel := range l.ends {
			cancel(errDeclined)
		}
	}
}

// DeclineAsks declines all questions of the server from now on, those that are open
// included, or no longer does so.
func (c *Client) DeclineAsks(on bool) { c.asks.limits.decline(on) }

// DeclineAsks is [Client.DeclineAsks] of a server.
func (h *Host) DeclineAsks(server string, on bool) error {
	c, err := h.Client(server)
	if err == nil {
		c.DeclineAsks(on)
	}
	return err
}
