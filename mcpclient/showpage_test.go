package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// pageReader is a Human that agrees to every page, and then says what is to become of it
// as it is told by does. Without a word it waits.
type pageReader struct {
	*decider
	does chan PageAction

	mu    sync.Mutex
	pages []*Ask
	ends  []error // why pages were not shown any more
}

func newPageReader(d *decider) *pageReader {
	return &pageReader{decider: d, does: make(chan PageAction, 8)}
}

func (r *pageReader) AwaitPage(ctx context.Context, a *Ask) (*Decision, error) {
	r.mu.Lock()
	r.pages = append(r.pages, a)
	r.mu.Unlock()
	select {
	case p := <-r.does:
		return &Decision{Page: p, Hash: a.Hash}, nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ends = append(r.ends, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

func (r *pageReader) shown() (pages []*Ask, ends []error) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.pages), slices.Clone(r.ends)
}

// URL-03: without a browser, and when the person opens the page themselves, accept stays
// accept, and the page is shown with what is to be done.
func TestPageOpenedByHand(t *testing.T) {
	for name, tt := range map[string]struct {
		decision *Decision
		opens    error
		opened   int
		note     string
	}{
		"no browser": {&Decision{Action: "accept"}, fmt.Errorf("starting: %w", ErrNoBrowser), 1, "No browser could be started here: open the page yourself."},
		"by hand":    {&Decision{Action: "accept", ByHand: true}, errors.New("must not be opened"), 0, "You open the page yourself."},
		"opened":     {&Decision{Action: "accept"}, nil, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := browserLog{err: tt.opens}
				human := newPageReader(&decider{decide: func(context.Context, *Ask) (*Decision, error) { return tt.decision, nil }})
				s := newAsker(t, mcp.V2025_11_25)
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: b.open}})
				wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, urlElicit("a", "https://x.example/a")), `{"action":"accept"}`)
				pages, _ := human.shown()
				if len(pages) != 1 || pages[0].Kind != AskPage || pages[0].URL.URL != "https://x.example/a" || pages[0].Server != "files" || strings.Join(pages[0].Notes, "") != tt.note {
					t.Fatalf("shown: %+v, want the note %q", pages, tt.note)
				}
				if hash, err := pages[0].ContentHash(); err != nil || hash != pages[0].Hash {
					t.Errorf("the hash is %q, want %q (%v)", pages[0].Hash, hash, err)
				}
				if n := len(b.opened()); n != tt.opened || len(c.Elicitations()) != 1 {
					t.Errorf("opened %d times, %d pages, want %d and 1", n, len(c.Elicitations()), tt.opened)
				}
				s.complete("a")
				if _, ends := human.shown(); len(ends) != 1 || !errors.Is(ends[0], errPageCompleted) {
					t.Errorf("ended with %v, want %v", ends, errPageCompleted)
				}
			})
		})
	}
}

// URL-17, URL-41: whoever waits for a page of -32042 can open it again, say that it is
// done, or give it up.
func TestPageOfARefusedCall(t *testing.T) {
	for name, tt := range map[string]struct {
		does   []PageAction
		want   error // nil for an answer
		opened int
	}{
		"retry":         {[]PageAction{PageRetry}, nil, 1},
		"open, retry":   {[]PageAction{PageOpen, PageRetry}, nil, 2},
		"give up":       {[]PageAction{PageCancel}, ErrPageGivenUp, 1},
		"says no word":  {[]PageAction{""}, elicit.ErrExpired, 1},
		"unknown word":  {[]PageAction{"x"}, elicit.ErrExpired, 1},
		"without human": {nil, elicit.ErrExpired, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var b browserLog
				human := newPageReader(says("accept"))
				s := newAsker(t, mcp.V2025_11_25)
				signIn(s, 1, "a")
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: b.open}})
				for i, action := range tt.does {
					time.AfterFunc(time.Duration(i+1)*20*time.Minute, func() { human.does <- action })
				}
				began := time.Now()
				_, err := c.CallTool(t.Context(), "t", nil, nil)
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("CallTool: got %v, want %v", err, tt.want)
				}
				if tt.want != elicit.ErrExpired && time.Since(began) != time.Duration(len(tt.does))*20*time.Minute {
					t.Errorf("it took %v", time.Since(began))
				}
				if n := len(b.opened()); n != tt.opened {
					t.Errorf("opened %d times, want %d", n, tt.opened)
				}
				if synctest.Wait(); len(c.Elicitations()) != 0 {
					t.Error("a page is left")
				}
			})
		})
	}
}

// URL-17, TIME-05: a call that the server works on while its page is open waits as long
// as that is shown; given up, it is cancelled.
func TestPageOfACallUnderWay(t *testing.T) {
	for _, action := range []PageAction{PageCancel, PageRetry} {
		t.Run(string(action), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				human := newPageReader(says("accept"))
				s := newAsker(t, mcp.V2025_11_25)
				s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
					s.ask("q", mcp.MethodElicit, urlElicit("a", "https://x.example/a"))
					if action == PageCancel {
						return ""
					}
					time.Sleep(30*time.Minute + time.Second)
					return resultOf(m, `{"content":[]}`)
				}
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: new(browserLog).open}})
				time.AfterFunc(30*time.Minute, func() { human.does <- action })
				began := time.Now()
				_, err := c.CallTool(t.Context(), "t", nil, &CallOptions{Idle: time.Minute, Max: 2 * time.Minute})
				if action == PageCancel && (!errors.Is(err, ErrPageGivenUp) || time.Since(began) != 30*time.Minute) || action == PageRetry && err != nil {
					t.Errorf("CallTool: got %v after %v", err, time.Since(began))
				}
				synctest.Wait()
				if n := len(s.requests(mcp.NotificationCancelled)); (n == 1) != (action == PageCancel) {
					t.Errorf("%d cancels on the wire", n)
				}
			})
		})
	}
}

// A page is not shown any longer than there is a call that it is for (CANC-13); the page
// itself stays, as another call may need it.
func TestPageOfACallThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		human := newPageReader(says("accept"))
		s := newAsker(t, mcp.V2025_11_25)
		signIn(s, 100, "a")
		c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: new(browserLog).open}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.CallTool(ctx, "t", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if pages, ends := human.shown(); len(pages) != 1 || len(ends) != 1 || !errors.Is(ends[0], asks.ErrPageUnneeded) || len(c.Elicitations()) != 1 {
			t.Errorf("shown %d pages, ended with %v, %d pending", len(pages), ends, len(c.Elicitations()))
		}
		c.Elicitations()[0].Cancel()
	})
}

// MRTR-20, URL-17: of 2026-07-28 the page is shown until its call is over, also between
// the rounds; retry sends the next one, and the page is shown again if it was not done.
func TestPageModern(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("given up: %v", giveUp), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				human := newPageReader(says("accept"))
				s := newAsker(t, mcp.V2026_07_28)
				wait := inputs("", `"s"`)
				s.on[mcp.MethodCallTool] = rounds(inputs(ask("k", mcp.MethodElicit, `{"mode":"url","message":"go","url":"https://x.example/p"}`), `"s"`), wait, wait, wait, wait, wait, wait, wait, wait, done)
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, OpenURL: new(browserLog).open}})
				time.AfterFunc(20*time.Minute, func() {
					human.does <- PageRetry
					synctest.Wait()
					time.Sleep(time.Minute)
					if giveUp {
						human.does <- PageCancel
					} else {
						human.does <- PageRetry
					}
				})
				_, err := c.CallTool(t.Context(), "t", nil, nil)
				if giveUp != errors.Is(err, ErrInput) || !giveUp && err != nil {
					t.Errorf("CallTool: got %v", err)
				}
				pages, _ := human.shown()
				if len(pages) != 2 || pages[0].Message != "go" || pages[1].Message != "go" || !strings.Contains(strings.Join(pages[1].Notes, ""), "not done yet") {
					t.Errorf("shown: %+v", pages)
				}
				if n := len(c.Elicitations()); n != 0 {
					t.Errorf("%d pages are left", n)
				}
			})
		})
	}
}
