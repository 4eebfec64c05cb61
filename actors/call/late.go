package call

import "github.com/troupe-dev/troupe/mcp"

// maxLate bounds the calls whose late answers are still wanted.
const maxLate = 1000

// expectLate keeps what is to be done with an answer that comes too late. It is
// called under the lock, for a call that awaits one.
func (t *Table) expectLate(c *Call) {
	if c.req.Late == nil || len(t.late) >= maxLate {
		return
	}
	if t.late == nil {
		t.late = make(map[int64]func(Result))
	}
	t.late[c.id] = c.req.Late
}

// unsentLate forgets it again if the request was never written.
func (t *Table) unsentLate(c *Call, end ending) {
	if end.id == 0 || !c.unsent(end.attempt) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.late, end.id)
}

// deliverLate takes the result of a call that has ended, if its request has a Late.
func (t *Table) deliverLate(gen uint64, m *mcp.Message) {
	n, ok := m.ID.Int64()
	t.mu.Lock()
	f := t.late[n]
	if !ok || f == nil || gen != t.gen {
		t.mu.Unlock()
		return
	}
	delete(t.late, n)
	version := t.version
	t.mu.Unlock()
	if m.Kind == mcp.KindResult {
		t.tellLate(f, resultOf(m, version), nil)
	}
}

// tellLate passes on a result that comes too late.
func (t *Table) tellLate(f func(Result), r Result, err error) {
	if f != nil && err == nil {
		t.sys.Go("a late answer", func() { f(r) })
	}
}

// keepToken lets progress with the token of the call's newest attempt reach it
// (PROG-06).
func (t *Table) keepToken(c *Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.actor == nil || c.token == 0 {
		return
	}
	if t.tokens == nil {
		t.tokens = make(map[int64]*Call)
	}
	t.tokens[c.token] = c
}
