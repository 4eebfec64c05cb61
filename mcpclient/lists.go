package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	maxPages    = 100              // of one list (PAGE-06)
	maxCursor   = 64 << 10         // bytes of a cursor, which is sent back
	maxItems    = 10_000           // of one list
	maxStale    = 10 * time.Minute // how long beyond its time a list takes the place of one that can not be read
	changeDelay = 250 * time.Millisecond
	loggedItems = 20 // of those that are left out
)

// errRestart is a cursor that the server does not know any more.
var errRestart = errors.New("a cursor is not valid any more")

// kind says what one of the paged lists is (PAGE-01).
type kind[T any] struct {
	method  string // that reads a page
	what    string // the items, for logs
	maxSize int    // bytes of all pages (ROB-3)
	// unannounced lists change without a notice: those of legacy servers, which do not
	// say for how long an answer is good, are never kept.
	unannounced bool
	// read decodes a page; it leaves the fate of single items to check.
	read func(raw json.RawMessage) (listPage[T], error)
	// key is what an item may have in the list only once.
	key func(*T) string
	// check refuses an item, which is logged; skip leaves one out without a word.
	check func(*Client, *T) error
	skip  func(*Client, *T) bool // nil skips none
}

// page is one answer to a list request.
type listPage[T any] struct {
	cursor *string // it was asked for with; nil is the first
	items  []T
	next   *string // nil at the end; "" is a cursor (PAGE-03)
	ttl    time.Duration
	scope  string
	size   int    // bytes
	sum    uint64 // of its text
	freshness
}

// wholeList is a list as it was read.
type wholeList[T any] struct {
	all   []listPage[T]
	items []T            // of all pages, those that count
	index map[string]int // of items, by key
}

// fresh reports whether no page is stale, and the principal may see all (CACHE-08).
func (p *wholeList[T]) fresh(now time.Time, principal string) bool {
	return !slices.ContainsFunc(p.all, func(pg listPage[T]) bool { return !pg.freshness.fresh(now) || !pg.belongs(principal) })
}

// flight is a list being read, for all who ask meanwhile.
type flight[T any] struct {
	reply     actors.Reply[*wholeList[T]]
	principal string
	cancel    context.CancelCauseFunc
}

// list is one of a server's lists, kept until something says that it may have
// changed.
type list[T any] struct {
	*kind[T]
	client *Client

	mu      sync.Mutex
	last    *wholeList[T] // as it was last read; nil before
	changed bool          // since then, as the server says: last is of no use
	epoch   int           // counts the changes
	joined  *flight[T]
	flights map[*flight[T]]bool // also those that nobody joins any more
	closed  bool

	onChange func()      // told of changes, once for a burst; may be nil
	notify   *time.Timer // a change to be told
	readAt   time.Time   // when last was read
}

// known returns the list if it can be used without asking the server.
func (l *list[T]) known() ([]T, bool) {
	principal := l.client.principal()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || l.changed || !l.last.fresh(time.Now(), principal) {
		return nil, false
	}
	return l.last.items, true
}

// find returns an item of the list as it was last read, however old that is.
func (l *list[T]) find(key string) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return nil
	}
	i, ok := l.last.index[key]
	if !ok {
		return nil
	}
	return &l.last.items[i]
}

// get returns the list. If it can not be read the error may come with the last
// one, where it is only out of date (CACHE-07).
func (l *list[T]) get(ctx context.Context) ([]T, error) {
	if items, ok := l.known(); ok {
		return items, nil
	}
	principal := l.client.principal()
	read, err := l.join(ctx, principal).reply.Wait(ctx)
	if err == nil {
		return read.items, nil
	}
	return l.stale(err, principal), err
}

// stale returns what may take the place of a list that could not be read because
// of err: one that is only out of date, and only if it is the connection that failed.
func (l *list[T]) stale(err error, principal string) []T {
	if !errors.Is(err, call.ErrConnectionLost) && !errors.Is(err, call.ErrTimeout) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || l.changed || !l.last.fresh(time.Now().Add(-maxStale), principal) {
		return nil
	}
	return l.last.items
}

// join joins the reading that is under way, or starts one.
func (l *list[T]) join(ctx context.Context, principal string) *flight[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined != nil && l.joined.principal == principal {
		return l.joined
	}
	f := &flight[T]{principal: principal}
	ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // many may wait for it
	if l.closed {
		f.cancel(ErrClosed)
	}
	if l.flights == nil {
		l.flights = make(map[*flight[T]]bool)
	}
	l.joined, l.flights[f] = f, true
	epoch, last := l.epoch, l.last
	if l.changed {
		last = nil // no page of it is of use
	}
	l.client.sys.Go(l.what+" of "+l.client.server.Name, func() {
		read, err := l.readAll(ctx, last, principal)
		read = l.landed(f, read, err, epoch)
		f.cancel(nil)
		f.reply.Complete(read, err)
	})
	return f
}

// landed keeps what a flight has brought, unless it was stale before it came.
func (l *list[T]) landed(f *flight[T], read *wholeList[T], err error, epoch int) *wholeList[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flights, f)
	if l.joined == f {
		l.joined = nil
	}
	if err != nil {
		return read
	}
	if l.epoch != epoch {
		if l.changed { // of no use as a list, but find has nothing better
			l.last, l.readAt = read, time.Now()
		}
		return read
	}
	if l.last != nil && l.last.same(read) {
		read.items, read.index = l.last.items, l.last.index // who compares lists by identity sees no change
	}
	l.last, l.changed, l.readAt = read, false, time.Now()
	return read
}

// same reports whether two lists were read from the same text.
func (p *wholeList[T]) same(q *wholeList[T]) bool {
	return slices.EqualFunc(p.all, q.all, func(a, b listPage[T]) bool { return a.sum == b.sum && a.size == b.size })
}

// readAll reads the pages that are not fresh in last, which may be nil. If a cursor
// has become invalid all pages are read, once (CACHE-08).
func (l *list[T]) readAll(ctx context.Context, last *wholeList[T], principal string) (*wholeList[T], error) {
	read, err := l.walk(ctx, last, principal)
	if errors.Is(err, errRestart) {
		l.client.log.Debug("reading the list from its start", "list", l.what, "error", err)
		read, err = l.walk(ctx, nil, principal)
	}
	return read, err
}

// walk follows the cursors from the first page on (PAGE-02). Each request has the
// server's limits; their number is bounded.
func (l *list[T]) walk(ctx context.Context, last *wholeList[T], principal string) (*wholeList[T], error) {
	read := new(wholeList[T])
	var cursor *string
	seen := map[string]bool{}
	left, count := l.maxSize, 0
	for range maxPages {
		pg, err := l.page(ctx, last, cursor, principal)
		if err != nil {
			return nil, err
		}
		if left -= pg.size; left < 0 {
			break
		}
		read.all = append(read.all, pg)
		count += len(pg.items)
		if pg.next == nil {
			l.assemble(read)
			return read, nil
		}
		if seen[*pg.next] || count >= maxItems || len(*pg.next) > maxCursor { // PAGE-06
			break
		}
		seen[*pg.next] = true
		cursor = pg.next
	}
	l.assemble(read)
	l.client.log.Warn("a list does not end, comes round again, or is too long; the rest is left out", "list", l.what, "items", len(read.items))
	return read, nil
}

// page returns the page at cursor: of last if it is fresh there, else the server's.
func (l *list[T]) page(ctx context.Context, last *wholeList[T], cursor *string, principal string) (listPage[T], error) {
	if last != nil {
		for _, pg := range last.all {
			if equal(pg.cursor, cursor) && pg.freshness.fresh(time.Now()) && pg.belongs(principal) {
				return pg, nil
			}
		}
	}
	pg, err := l.fetch(ctx, cursor, principal)
	if cursor != nil && errors.Is(err, mcp.ErrInvalidParams) { // PAGE-05
		err = errors.Join(errRestart, err)
	}
	return pg, err
}

func equal(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

var seed = maphash.MakeSeed()

// fetch asks the server for a page.
func (l *list[T]) fetch(ctx context.Context, cursor *string, principal string) (pg listPage[T], err error) {
	var params []byte
	if cursor != nil {
		if params, err = mcp.Marshal(&mcp.ListParams{Cursor: cursor}); err != nil {
			return pg, l.client.failed(l.method, err)
		}
	}
	raw, err := l.client.do(ctx, &call.Request{Method: l.method, Params: params, Safe: true}, nil)
	if err != nil {
		return pg, err
	}
	pg, err = l.read(raw)
	if err != nil {
		return pg, l.client.failed(l.method, &call.ResponseError{Method: l.method, Err: err})
	}
	pg.cursor, pg.size, pg.sum = cursor, len(raw), maphash.Bytes(seed, raw)
	era := l.client.era()
	if l.unannounced && era != mcp.EraModern {
		era, pg.ttl = mcp.EraModern, 0 // stale at once
	}
	pg.freshness = freshnessOf(era, pg.ttl, pg.scope, principal, time.Now())
	return pg, nil
}

// assemble joins the pages. Pages may overlap, and of an item that is no good there
// is a log entry and no more.
func (l *list[T]) assemble(p *wholeList[T]) {
	p.index = make(map[string]int)
	left := 0
	leave := func(msg string, args ...any) {
		if left++; left <= loggedItems {
			l.client.log.Warn(msg, append([]any{"list", l.what}, args...)...)
		}
	}
	for _, pg := range p.all {
		for i := range pg.items {
			item := &pg.items[i]
			_, twice := p.index[l.key(item)]
			switch err := l.check(l.client, item); {
			case err != nil:
				leave("leaving out an item of a list", "error", err)
			case l.skip != nil && l.skip(l.client, item):
			case twice:
				leave("leaving out an item that is listed twice", "item", l.key(item))
			case len(p.items) < maxItems:
				p.index[l.key(item)] = len(p.items)
				p.items = append(p.items, *item)
			}
		}
	}
}

// invalidate makes the list stale (CACHE-06).
func (l *list[T]) invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.joined = true, nil
	l.epoch++
}

// older reports whether the list was read longer ago than age.
func (l *list[T]) older(age time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last != nil && !l.changed && time.Since(l.readAt) > age
}

// tell tells the user, once for a burst of changes (TOOL-13, RES-06, PRM-05).
func (l *list[T]) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onChange == nil || l.closed || l.notify != nil {
		return
	}
	l.notify = time.AfterFunc(changeDelay, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.notify = nil
		if !l.closed {
			l.client.events.add(l.onChange)
		}
	})
}

// close ends what is under way.
func (l *list[T]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for f := range l.flights {
		f.cancel(ErrClosed) // nobody waits for a list any more
	}
	if l.notify != nil {
		l.notify.Stop()
	}
}
