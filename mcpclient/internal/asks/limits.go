package asks

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
	MaxAsks      = 1024 // questions of all servers of a host, open and waiting
	waitingTimes = 4    // questions that may wait, for each that may be open
	MaxAsked     = 64   // requests of one server under way

	urlsAtOnce   = 1
	urlsEvery    = 12 * time.Second // 5 a minute
	URLsBurst    = 5
	samplesEvery = time.Second
	SamplesBurst = 20

	DeclineWarnings      = 20 // without a limit; later one in declineWarningsEvery
	declineWarningsEvery = time.Second
)

// HostLimit bounds the questions of all servers of a host.
type HostLimit struct{ n atomic.Int32 }

func (p *HostLimit) enter() bool {
	if p.n.Add(1) > MaxAsks {
		p.n.Add(-1)
		return false
	}
	return true
}

// Count returns how many questions are open and wait.
func (p *HostLimit) Count() int { return int(p.n.Load()) }

func (p *HostLimit) leave() { p.n.Add(-1) }

// LimitOptions are those of [Limits]: how many questions may be open for one person, and how many tokens may
// be asked for in an hour.
type LimitOptions struct{ Open, Tokens int }

// Count returns how many questions are open and wait.
func (l *Limits) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

// AllowURL, AllowSample and AllowTokens count one more page, one more request for sampling,
// and the tokens that it asks for; false is beyond the limit.
func (l *Limits) AllowURL() bool         { return l.gate().urls.Allow() }
func (l *Limits) AllowSample() bool      { return l.gate().samples.Allow() }
func (l *Limits) AllowTokens(n int) bool { return l.gate().tokens.AllowN(time.Now(), n) }

// Warning calls warn, which warns of a question that is declined unasked, unless there were too many (ROB-9).
func (l *Limits) Warning(warn func()) { l.gate().warnings.Do(warn) }

// Limits bounds the questions of one server: those for one person, so that what a person leaves open keeps no other's
// waiting, and those of all in a [HostLimit].
type Limits struct {
	opts LimitOptions
	pool *HostLimit

	mu      sync.Mutex // guards the fields below it: questions come on many goroutines, and each only counts itself in and out
	made    *gates     // nil before the first question: most servers ask none
	off     bool
	ends    map[int]context.CancelCauseFunc // of those that are open and wait, by an arbitrary number
	lastN   int
	persons map[any]*person
}

// person are the questions for one person that are open and wait.
type person struct {
	n     int
	open  chan struct{} // has room for as many as may be open
	pages chan struct{} // has room for the URL that is asked about
}

// Place is that of one question under the limits.
type Place struct {
	l    *Limits
	key  int
	of   any
	room *person
}

// gates is what the questions of one server pass.
type gates struct {
	urls    *rate.Limiter
	samples *rate.Limiter
	tokens  *rate.Limiter // to be sampled

	warnings rate.Sometimes // of questions that are declined unasked
}

// NewLimits returns the limits of one server; those of a host share a pool.
func NewLimits(o LimitOptions, pool *HostLimit) *Limits { return &Limits{opts: o, pool: pool} }

func (l *Limits) gate() *gates {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		tokens := l.opts.Tokens
		l.made = &gates{
			urls:     rate.NewLimiter(rate.Every(urlsEvery), URLsBurst),
			samples:  rate.NewLimiter(rate.Every(samplesEvery), SamplesBurst),
			warnings: rate.Sometimes{First: DeclineWarnings, Interval: declineWarningsEvery},
			tokens:   rate.NewLimiter(rate.Limit(float64(tokens)/time.Hour.Seconds()), tokens),
		}
	}
	return l.made
}

// most is how many may be open and waiting for one person.
func (l *Limits) most() int { return l.opts.Open * (1 + waitingTimes) }

// Why a question is declined without an answer.
var (
	ErrTooMany     = errors.New("too many questions")
	ErrUnavailable = errors.New("no person is there to be asked")
	ErrDeclined    = errors.New("all questions of the server are declined")
	ErrExpired     = errors.New("no answer came in time")
	ErrGone        = errors.New("the call that it belongs to was given up")

	// Of questions that may belong to several calls, or to none.
	errUnknownCall    = errors.New("the server does not say which call it asks for, and no call is under way that it can be for")
	errOwners         = errors.New("the server does not say which call it asks for, and the calls under way have different owners")
	ErrAbandonedOwner = errors.New("the server may ask for a cancelled call of another owner, who alone may see the question")
)

// Full reports whether Enter would refuse any question: then a form need not be read at all.
func (l *Limits) Full() bool { return l.declines() || l.pool.n.Load() >= MaxAsks }

// Refuses returns [ErrDeclined] if all questions are to be declined, else nil.
func (l *Limits) Refuses() error {
	if l.declines() {
		return ErrDeclined
	}
	return nil
}

// Enter counts in a question for that person; values that are the same to [Same] are one. The error is why it is to be
// declined at once; cancel is called if all are to be declined.
func (l *Limits) Enter(of any, cancel context.CancelCauseFunc) (*Place, error) {
	of = identity(of)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return nil, ErrDeclined
	}
	room := l.persons[of]
	if room == nil {
		room = &person{open: make(chan struct{}, l.opts.Open), pages: make(chan struct{}, urlsAtOnce)}
	}
	if room.n >= l.most() || !l.pool.enter() {
		return nil, ErrTooMany
	}
	if l.ends == nil {
		l.ends, l.persons = make(map[int]context.CancelCauseFunc), make(map[any]*person)
	}
	l.lastN++
	room.n++
	l.ends[l.lastN], l.persons[of] = cancel, room
	return &Place{l, l.lastN, of, room}, nil
}

// Leave counts the question out.
func (p *Place) Leave() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.pool.leave()
	delete(p.l.ends, p.key)
	if p.room.n--; p.room.n == 0 {
		delete(p.l.persons, p.of)
	}
}

// Turn waits until the question may be shown.
func (p *Place) Turn(ctx context.Context, page bool) (leave func(), err error) {
	leave, err = p.room.take(ctx, page)
	if err != nil {
		return nil, err
	}
	if p.l.declines() { // what it waited for may have been declined before it was itself
		leave()
		return nil, ErrDeclined
	}
	return leave, nil
}

func (l *Limits) declines() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.off
}

func (r *person) take(ctx context.Context, page bool) (leave func(), err error) {
	if !page {
		return take(ctx, r.open)
	}
	first, err := take(ctx, r.pages)
	if err != nil {
		return nil, err
	}
	open, err := take(ctx, r.open)
	if err != nil {
		first()
		return nil, err
	}
	return func() { open(); first() }, nil
}

func take(ctx context.Context, room chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		if ctx.Err() != nil { // both at once: no person is asked what is over
			<-room
			return nil, context.Cause(ctx)
		}
		return func() { <-room }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Decline turns the decline-all on or off. On, it declines what is open, too.
func (l *Limits) Decline(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = on
	if on {
		for _, cancel := range l.ends {
			cancel(ErrDeclined)
		}
	}
}
