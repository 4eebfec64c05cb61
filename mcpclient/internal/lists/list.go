package lists

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds on what is read.
const (
	MaxPages    = 100              // of one list (PAGE-06)
	maxCursor   = 64 << 10         // bytes of a cursor, which is sent back
	MaxItems    = 10_000           // of one list
	maxStale    = 10 * time.Minute // how long beyond its time a list takes the place of one that cannot be read
	changeDelay = 250 * time.Millisecond
	loggedItems = 20 // of those that are left out
)

// errRestart is a cursor that the server does not know any more.
var errRestart = errors.New("a cursor is not valid any more")

// kind says what one of the paged lists is (PAGE-01).
type Kind[T any] struct {
	Method  string // that reads a page
	What    string // the items, for logs
	maxSize int    // bytes of all pages (ROB-3)
	// unannounced lists change without a notice: those of legacy servers, which do not
	// say for how long an answer is good, are never kept.
	unannounced bool
	// read decodes a page; it leaves the fate of single items to check.
	read func(raw json.RawMessage) (*decoded[T], error)
	// key is what an item may have in the list only once.
	key func(*T) string
	// check refuses an item, which is logged; skip leaves one out without a word.
	check func(Source, *T) error
	skip  func(Source, *T) bool // nil skips none
	// shared are the pages that lists hold now: clients of one server, of which there may be
	// hundreds, mostly hold the same. By the hash of the text, a weak pointer.
	shared sync.Map
}

// listPage is one answer to a list request.
type listPage[T any] struct {
	*decoded[T]
	cursor *string // it was asked for with; nil is the first
	size   int     // bytes
	Freshness
}

// decoded is what a page says. It is not changed: lists share it, and callers have its items.
type decoded[T any] struct {
	items []T
	next  *string // nil at the end; "" is a cursor (PAGE-03)
	ttl   time.Duration
	scope string
	sum   [sha256.Size]byte              // of its text
	index atomic.Pointer[map[string]int] // of all items, by key; nil before a list has them
}

// decode returns what a text says, that of another list if one holds the same text.
func (k *Kind[T]) decode(raw json.RawMessage) (*decoded[T], error) {
	sum := sha256.Sum256(raw)
	if known, ok := k.shared.Load(sum); ok {
		if d := known.(weak.Pointer[decoded[T]]).Value(); d != nil {
			return d, nil
		}
	}
	d, err := k.read(raw)
	if err != nil {
		return nil, err
	}
	d.sum = sum
	entry := weak.Make(d)
	k.shared.Store(sum, entry)
	runtime.AddCleanup(d, func(sum [sha256.Size]byte) { k.shared.CompareAndDelete(sum, entry) }, sum)
	return d, nil
}

// WasRead reports whether the list was read at all.
func (l *List[T]) WasRead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last != nil
}

// wholeList is a list as it was read.
type wholeList[T any] struct {
	all   []listPage[T]
	items []T            // of all pages, those that count
	index map[string]int // of items, by key; that of the page where it is all of the list
}

// fresh reports whether no page is stale, and the principal may see all (CACHE-08).
func (p *wholeList[T]) fresh(now time.Time, principal string) bool {
	return !slices.ContainsFunc(p.all, func(pg listPage[T]) bool { return !pg.Freshness.fresh(now) || !pg.belongs(principal) })
}

// reading is a list being read, for all who ask meanwhile.
type reading[T any] struct {
	reply     actors.Reply[*wholeList[T]]
	principal string
	cancel    context.CancelCauseFunc
}

// list is one of a server's lists, kept until something says that it may have
// changed.
type List[T any] struct {
	*Kind[T]
	source Source

	mu       sync.Mutex    // guards the fields below it: each call of a tool looks at the list, which would be a message to an actor; reading the list holds no lock
	last     *wholeList[T] // as it was last read; nil before
	changed  bool          // since then, as the server says: last is of no use
	closed   bool
	epoch    int // counts the changes
	joined   *reading[T]
	readings map[*reading[T]]bool // also those that take no further callers

	onChange func()      // told of changes, once for a burst; may be nil
	notify   *time.Timer // a change to be told
	readAt   time.Time   // when last was read
}

// Known returns the list if it can be used without asking the server.
func (l *List[T]) Known() ([]T, bool) {
	principal := l.source.Principal()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || l.changed || !l.last.fresh(time.Now(), principal) {
		return nil, false
	}
	return l.last.items, true
}

// Find returns an item of the list as it was last read, however old that is.
func (l *List[T]) Find(key string) *T {
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

// Get returns the list. If it cannot be read the error may come with the last
// one, where it is only out of date (CACHE-07).
func (l *List[T]) Get(ctx context.Context) ([]T, error) {
	if items, ok := l.Known(); ok {
		return items, nil
	}
	principal := l.source.Principal()
	read, err := l.join(ctx, principal).reply.Wait(ctx)
	if err == nil {
		return read.items, nil
	}
	return l.stale(err, principal), err
}

// stale returns what may take the place of a list that could not be read because
// of err: one that is only out of date, and only if it is the connection that failed.
func (l *List[T]) stale(err error, principal string) []T {
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
func (l *List[T]) join(ctx context.Context, principal string) *reading[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined != nil && l.joined.principal == principal {
		return l.joined
	}
	f := &reading[T]{principal: principal}
	ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // many may wait for it
	if l.closed {
		f.cancel(l.source.Closed())
	}
	if l.readings == nil {
		l.readings = make(map[*reading[T]]bool)
	}
	l.joined, l.readings[f] = f, true
	epoch, last := l.epoch, l.last
	if l.changed {
		last = nil // no page of it is of use
	}
	l.source.Go(l.What, func() {
		read, err := l.readAll(ctx, last, principal)
		read = l.finish(f, read, err, epoch)
		f.cancel(nil)
		f.reply.Complete(read, err)
	})
	return f
}

// finish keeps what a reading has brought, unless it was stale before it came.
func (l *List[T]) finish(f *reading[T], read *wholeList[T], err error, epoch int) *wholeList[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.readings, f); len(l.readings) == 0 {
		l.readings = nil // a map keeps its room
	}
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
	if l.last != nil && l.last.equal(read) {
		read.items, read.index = l.last.items, l.last.index // who compares lists by identity sees no change
	}
	l.last, l.changed, l.readAt = read, false, time.Now()
	return read
}

// equal reports whether two lists were read from the same text.
func (p *wholeList[T]) equal(q *wholeList[T]) bool {
	return slices.EqualFunc(p.all, q.all, func(a, b listPage[T]) bool { return a.sum == b.sum })
}

// readAll reads the pages that are not fresh in last, which may be nil. If a cursor
// has become invalid all pages are read, once (CACHE-08).
func (l *List[T]) readAll(ctx context.Context, last *wholeList[T], principal string) (*wholeList[T], error) {
	read, err := l.walk(ctx, last, principal)
	if errors.Is(err, errRestart) {
		l.source.Log().Debug("reading the list from its start", "list", l.What, "error", err)
		read, err = l.walk(ctx, nil, principal)
	}
	return read, err
}

// walk follows the cursors from the first page on (PAGE-02). Each request has the
// server's limits; their number is bounded.
func (l *List[T]) walk(ctx context.Context, last *wholeList[T], principal string) (*wholeList[T], error) {
	read := new(wholeList[T])
	var cursor *string
	seen := map[string]bool{}
	left, count := l.maxSize, 0
	for range MaxPages {
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
		if seen[*pg.next] || count >= MaxItems || len(*pg.next) > maxCursor { // PAGE-06
			break
		}
		seen[*pg.next] = true
		cursor = pg.next
	}
	l.assemble(read)
	l.source.Log().Warn("a list does not end, comes round again, or is too long; the rest is left out", "list", l.What, "items", len(read.items))
	return read, nil
}

// page returns the page at cursor: of last if it is fresh there, else the server's.
func (l *List[T]) page(ctx context.Context, last *wholeList[T], cursor *string, principal string) (listPage[T], error) {
	if last != nil {
		for _, pg := range last.all {
			if equalCursors(pg.cursor, cursor) && pg.Freshness.fresh(time.Now()) && pg.belongs(principal) {
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

func equalCursors(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// fetch asks the server for a page.
func (l *List[T]) fetch(ctx context.Context, cursor *string, principal string) (pg listPage[T], err error) {
	var params []byte
	if cursor != nil {
		if params, err = mcp.Marshal(&mcp.ListParams{Cursor: cursor}); err != nil {
			return pg, err
		}
	}
	raw, err := l.source.Fetch(ctx, l.Method, params)
	if err != nil {
		return pg, err
	}
	if pg.decoded, err = l.decode(raw); err != nil {
		return pg, l.source.Invalid(l.Method, err)
	}
	pg.cursor, pg.size = cursor, len(raw)
	era, ttl := l.source.Era(), pg.ttl
	if l.unannounced && era != mcp.EraModern {
		era, ttl = mcp.EraModern, 0 // stale at once
	}
	pg.Freshness = FreshnessOf(era, ttl, pg.scope, principal, time.Now())
	return pg, nil
}

// assemble joins the pages. Pages may overlap, and of an item that is no good there
// is a log entry and no more.
func (l *List[T]) assemble(p *wholeList[T]) {
	p.index = make(map[string]int)
	left := 0
	leave := func(msg string, args ...any) {
		if left++; left <= loggedItems {
			l.source.Log().Warn(msg, append([]any{"list", l.What}, args...)...)
		}
	}
	for n, pg := range p.all {
		for i := range pg.items {
			item := &pg.items[i]
			_, twice := p.index[l.key(item)]
			switch err := l.check(l.source, item); {
			case err != nil:
				leave("leaving out an item of a list", "error", err)
			case l.skip != nil && l.skip(l.source, item):
			case twice:
				leave("leaving out an item that is listed twice", "item", l.key(item))
			case len(p.items) < MaxItems:
				p.index[l.key(item)] = len(p.items)
				if n == 0 && len(p.items) == i { // no item was left out: the page's own, without a copy
					p.items = pg.items[: i+1 : i+1]
				} else {
					p.items = append(p.items, *item)
				}
			}
		}
	}
	if len(p.all) == 1 && len(p.items) == len(p.all[0].items) {
		index := p.index
		p.all[0].index.CompareAndSwap(nil, &index)
		p.index = *p.all[0].index.Load()
	}
}

// Invalidate makes the list stale (CACHE-06).
func (l *List[T]) Invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.joined = true, nil
	l.epoch++
}

// OlderThan reports whether the list was read longer ago than age.
func (l *List[T]) OlderThan(age time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last != nil && !l.changed && time.Since(l.readAt) > age
}

// Notify notifies the program, once for a burst of changes (TOOL-13, RES-06, PRM-05).
func (l *List[T]) Notify() {
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
			l.source.Notify(l.onChange)
		}
	})
}

// close ends what is under way.
func (l *List[T]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for f := range l.readings {
		f.cancel(l.source.Closed()) // no caller waits for a list any more
	}
	if l.notify != nil {
		l.notify.Stop()
	}
}
