package mcpclient

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
)

// pageLog is what is told of pages.
type pageLog struct {
	mu  sync.Mutex
	all []PageDone
}

func (l *pageLog) done(p PageDone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p)
}

func (l *pageLog) take() []PageDone {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// one is the one page that is over.
func (l *pageLog) one(t *testing.T, what string, ask *Ask, url string, err error) {
	t.Helper()
	got := l.take()
	if len(got) != 1 || got[0].Server != "files" || !slices.Contains(got[0].Asks, ask.ID) || got[0].URL.URL != url || !errors.Is(got[0].Err, err) {
		t.Errorf("%s: told %+v, want %s of ask %s, %v", what, got, url, ask.ID, err)
	}
}

// URL-17, URL-30, URL-32: whoever accepted a page hears of its end once, however it ends;
// of one that was declined there is nothing to hear.
func TestOnPageDone(t *testing.T) {
	const url = "https://x.example/a"
	browser := errors.New("no browser")
	tests := []struct {
		name   string
		action string
		opens  error
		end    func(s *asker, c *Client)
		want   error
		none   bool
	}{
		{"completed", "accept", nil, func(s *asker, _ *Client) { s.complete("a"); s.complete("a") }, nil, false},
		{"a person says so", "accept", nil, func(_ *asker, c *Client) { c.Elicitations()[0].Retry() }, nil, false},
		{"given up", "accept", nil, func(_ *asker, c *Client) { c.Elicitations()[0].Cancel() }, elicit.ErrCancelled, false},
		{"expired", "accept", nil, func(*asker, *Client) { time.Sleep(time.Hour) }, elicit.ErrExpired, false},
		{"the connection ends", "accept", nil, func(_ *asker, c *Client) { c.Close() }, elicit.ErrFailed, false},
		{"not opened", "accept", browser, func(*asker, *Client) {}, browser, false},
		{"declined", "decline", nil, func(s *asker, _ *Client) { s.complete("a") }, nil, true},
		{"others", "accept", nil, func(s *asker, _ *Client) { s.complete("b") }, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var l pageLog
				human, s, b := says(tt.action), newAsker(t, mcp.V2025_11_25), &browserLog{err: tt.opens}
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: b.open, OnPageDone: l.done}})
				s.ask("q", mcp.MethodElicit, urlElicit("a", url))
				if got := l.take(); tt.opens == nil && len(got) != 0 {
					t.Errorf("told %+v before its end", got)
				}
				tt.end(s, c)
				if tt.none {
					if got := l.take(); len(got) != 0 {
						t.Errorf("told %+v, want nothing", got)
					}
					return
				}
				if tt.opens != nil {
					return // told before, see TestPageNotOpened
				}
				l.one(t, tt.name, human.seen()[0], url, tt.want)
			})
		})
	}
}

// ELIC-05, URL-32: a page that could not be opened is over at once; so is one whose
// completion has come before the consent. Two questions for one page are both told.
func TestPageNotOpened(t *testing.T) {
	const url = "https://x.example/a"
	inBubble(t, func(t *testing.T) {
		var l pageLog
		human, s, b := says("accept"), newAsker(t, mcp.V2025_11_25), &browserLog{err: errors.New("no browser")}
		s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: b.open, OnPageDone: l.done}})
		wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, urlElicit("a", url)), `{"action":"cancel"}`)
		l.one(t, "not opened", human.seen()[0], url, b.err)

		b.err = nil
		s.complete("a")
		s.ask("r", mcp.MethodElicit, urlElicit("a", url))
		l.one(t, "completed before", human.seen()[1], url, nil)

		s.ask("s", mcp.MethodElicit, urlElicit("c", url))
		s.ask("t", mcp.MethodElicit, urlElicit("c", url))
		s.complete("c")
		got, asks := l.take(), human.seen()
		if len(got) != 1 || !slices.Equal(got[0].Asks, []string{asks[2].ID, asks[3].ID}) {
			t.Errorf("told %+v, want asks %s and %s", got, asks[2].ID, asks[3].ID)
		}
	})
}

// URL-40, URL-41, MRTR-20: pages of -32042 are told of as all are; those of 2026-07-28,
// where the server says nothing of them, when their call is over.
func TestPagesOfCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var l pageLog
		human, s := says("accept"), newAsker(t, mcp.V2025_11_25)
		signIn(s, 1, "a")
		c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: new(browserLog).open, OnPageDone: l.done}})
		done := make(chan error, 1)
		go func() { _, err := c.CallTool(t.Context(), "x", nil, nil); done <- err }()
		synctest.Wait()
		s.complete("a")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		l.one(t, "-32042", human.seen()[0], "https://x.example/a", nil)
	})
	for name, answer := range map[string]string{
		"answered": `{"resultType":"complete","content":[]}`,
		"failed":   `{"resultType":"input_required","inputRequests":{"x":{"method":"x/y"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var l pageLog
				human, s := says("accept"), newAsker(t, mcp.V2026_07_28)
				s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
					if members(t, m)["inputResponses"] == nil {
						return resultOf(m, `{"resultType":"input_required","inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://x.example/a"}}}}`)
					}
					if got := l.take(); len(got) != 0 {
						t.Errorf("told %+v before the call is over", got)
					}
					return resultOf(m, answer)
				}
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: new(browserLog).open, OnPageDone: l.done}})
				_, err := c.CallTool(t.Context(), "x", nil, nil)
				if (err == nil) != (name == "answered") {
					t.Fatal(err)
				}
				var want error
				if err != nil {
					want = elicit.ErrCancelled
				}
				l.one(t, name, human.seen()[0], "https://x.example/a", want)
			})
		})
	}
}
